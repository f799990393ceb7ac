"""Review a table on a local web page, where a person answers its most valuable missing labels."""

from dm2l.review._journal import Journal
from dm2l.review._server import serve
from dm2l.review._session import ReviewSession

__all__ = ["Journal", "ReviewSession", "serve"]
