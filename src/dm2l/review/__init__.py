"""A person answers the holes of a table that the model suggests, on a page of this machine."""

from dm2l.review._journal import Decision, Journal
from dm2l.review._progress import Doubting, Progress
from dm2l.review._question import Belief, Column, OtherLabel, Question
from dm2l.review._refit import Quality, Refitting
from dm2l.review._server import ReviewServer, serve
from dm2l.review._server import check_host as check_host
from dm2l.review._session import ReviewSession

__all__ = [
    "Belief",
    "Column",
    "Decision",
    "Doubting",
    "Journal",
    "OtherLabel",
    "Progress",
    "Quality",
    "Question",
    "Refitting",
    "ReviewServer",
    "ReviewSession",
    "serve",
]
