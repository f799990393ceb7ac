"""Experiments that can be stopped at any moment, resumed, and added up.

A :class:`Protocol` names data sets, methods, rates and masks. :func:`run` fits every cell of it
once and keeps the results in a :class:`Store`, one SQLite file.
"""

from dm2l_lab._cell import run_cell
from dm2l_lab._progress import Step, status
from dm2l_lab._protocol import Cell, Protocol, get_protocol, protocols, register
from dm2l_lab._rows import CONVENTIONS, METRICS
from dm2l_lab._runner import run
from dm2l_lab._scaling import UnitVarianceScaler
from dm2l_lab._settings import Method
from dm2l_lab._store import Store

__all__ = [
    "CONVENTIONS",
    "METRICS",
    "Cell",
    "Method",
    "Protocol",
    "Step",
    "Store",
    "UnitVarianceScaler",
    "get_protocol",
    "protocols",
    "register",
    "run",
    "run_cell",
    "status",
]
