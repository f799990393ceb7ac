"""A person answers the holes of a table that the model suggests, on a page of this machine."""

from dm2l.review._journal import Journal
from dm2l.review._server import serve
from dm2l.review._session import ReviewSession

__all__ = ["Journal", "ReviewSession", "serve"]
