"""A person answers the holes of a table that the model suggests, on a page of this machine."""

# `X as X`: a door for other rooms, not a page of the API.
from dm2l.review._journal import Decision, Journal
from dm2l.review._progress import Doubting, Progress
from dm2l.review._question import Belief, Column, OtherLabel, Question
from dm2l.review._question import row_columns as row_columns
from dm2l.review._refit import Quality, Refitting
from dm2l.review._server import ReviewServer, serve
from dm2l.review._server import check_host as check_host
from dm2l.review._session import ReviewSession
from dm2l.review._web import LOOPBACK as LOOPBACK
from dm2l.review._web import AccessError as AccessError
from dm2l.review._web import Handler as Handler
from dm2l.review._web import LocalServer as LocalServer
from dm2l.review._web import Reply as Reply
from dm2l.review._web import json_reply as json_reply

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
