"""Ask a person about the most valuable missing labels of a table, on a local web page."""

from dm2l.review._journal import Journal
from dm2l.review._server import serve
from dm2l.review._session import ReviewSession

__all__ = ["Journal", "ReviewSession", "serve"]
