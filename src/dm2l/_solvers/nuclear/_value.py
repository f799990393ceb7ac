"""What an evaluation of a norm gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class NormValue(NamedTuple):
    """Value that is minimised, exact value, and gradient of the former.

    A :class:`SmoothNorm` leaves the two values where the matrix lives, as arrays of no dimension:
    an accelerator then waits once for all norms of an evaluation and not for each.

    ``curvature``, where it was asked for, is the mean Hessian seen by a row (or ``len(Z)`` times
    it, so that those of several matrices add up), of shape (c, c).
    """

    value: Any
    exact: Any
    gradient: Any
    curvature: Any = None


Norm = Callable[..., NormValue]
