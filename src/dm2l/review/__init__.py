"""A person answers the holes of a table that the model suggests, on a page of this machine."""

from dm2l.review._entry import Belief, Column, Entry, OtherLabel
from dm2l.review._journal import Decision, Journal
from dm2l.review._progress import Progress
from dm2l.review._refit import Quality, Refitting
from dm2l.review._server import ReviewServer, serve
from dm2l.review._session import ReviewSession

__all__ = [
    "Belief",
    "Column",
    "Decision",
    "Entry",
    "Journal",
    "OtherLabel",
    "Progress",
    "Quality",
    "Refitting",
    "ReviewServer",
    "ReviewSession",
    "serve",
]
