"""Courses of solvers to the minimum of one objective."""

import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import TextIOBase
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dm2l import DM2LClassifier
from dm2l.labels._entries import Signs
from dm2l.labels._matrix import parse_labels

Numbers = NDArray[np.float64]

_SOLVERS = ("lbfgs", "cccp", "published")


@dataclass(frozen=True, eq=False)
class Course:
    """The exact objective at the start and after each iteration, and the seconds since fit began.

    No solver reports when it had its start, so the first of the seconds is nan.
    """

    objective: Numbers
    seconds: Numbers


@dataclass(frozen=True, eq=False)
class Convergence:
    """Courses by name of the solver, and the lowest objective known."""

    courses: dict[str, Course]
    lowest: float

    def distance(self, solver: str) -> Numbers:
        """Relative distance from the lowest objective known, ``(J - lowest) / lowest``."""
        return (self.courses[solver].objective - self.lowest) / self.lowest


class _Clock(TextIOBase):
    """Standard error that takes the time of every progress report instead of showing it."""

    def __init__(self) -> None:
        self.stamps: list[float] = []
        self._through = sys.stderr

    def write(self, text: str) -> int:
        if not text.startswith("[DM2L] iteration"):
            return self._through.write(text)
        self.stamps.append(time.perf_counter())
        return len(text)


def _course(model: DM2LClassifier, X: Any, Y: Any) -> Course:
    """Fit, and tell how it went."""
    start, clock = time.perf_counter(), _Clock()
    with warnings.catch_warnings(), redirect_stderr(clock):
        warnings.simplefilter("ignore", ConvergenceWarning)  # the course says it better
        model.fit(X, Y)
    # A model without nuclear norms is solved at once: its start is its end.
    stamps = [np.nan, *clock.stamps] if clock.stamps else [time.perf_counter()]
    return Course(model.objective_history_.astype(np.float64), np.array(stamps) - start)


def convergence(
    X: Any,
    Y: Any,
    estimator: DM2LClassifier | None = None,
    *,
    solvers: Sequence[str] = ("lbfgs", "cccp", "published"),
    tol: float = 1e-8,
    max_iter: Mapping[str, int] | None = None,
) -> Convergence:
    """Follow solvers to the minimum of the objective that an estimator stands for.

    An iteration of "cccp" or "published" is a round, with iterations of its own inside. The lowest
    objective is looked for with a hundredth of ``tol``. ``max_iter`` replaces 24 (linear) or 9
    (kernel) rounds of "published", as in the paper, and 1000 iterations of the others.
    """
    if estimator is None:
        estimator = DM2LClassifier.published()
    linear = estimator.kernel == "linear"
    limits = {"lbfgs": 1000, "cccp": 1000, "published": 24 if linear else 9} | dict(max_iter or {})
    if not solvers or not set(solvers) <= set(_SOLVERS) or not limits.keys() <= set(_SOLVERS):
        raise ValueError(
            f"solvers and keys of max_iter must be among {', '.join(_SOLVERS)}; got {solvers!r} "
            f"and {max_iter!r}."
        )
    if "published" in solvers:
        marks = {name: getattr(estimator, name) for name in ("missing_label", "missing_as")}
        _check_common_objective(estimator, parse_labels(Y, **marks).signs)
    settings = estimator.get_params(deep=False) | {"verbose": 10, "tol": tol, "warm_start": False}
    courses = {
        name: _course(
            DM2LClassifier(**(settings | {"solver": name, "max_iter": limits[name]})),
            X,
            Y,
        )
        for name in solvers
    }
    tight = {"solver": "lbfgs", "tol": 0.01 * tol, "max_iter": 5000}
    best = _course(DM2LClassifier(**(settings | tight)), X, Y)
    lowest = min(float(course.objective.min()) for course in (best, *courses.values()))
    if not lowest > 0:
        raise ValueError(
            f"The lowest objective is {lowest:.3g}: there is no relative distance from it. Use a "
            "larger alpha or lambda_d."
        )
    return Convergence(courses, lowest)


def _check_common_objective(estimator: DM2LClassifier, T: Signs) -> None:
    """Refuse what the published solver would minimize another objective for than the others."""
    if estimator.kernel != "linear" and estimator.alpha != 0:
        raise ValueError(
            f"With a kernel and alpha={estimator.alpha!r} the published solver has another ridge, "
            "on its dual weights: set alpha=0, or leave 'published' out of solvers."
        )
    T = T[:, (T > 0).any(axis=0) & (T < 0).any(axis=0)]
    bare = (T != 0).any(axis=1) & ~(T > 0).any(axis=1)
    if bare.any() and estimator.local and estimator.discriminant and estimator.lambda_d > 0:
        raise ValueError(
            f"{bare.sum()} rows, the first is number {int(np.flatnonzero(bare)[0])}, have no "
            "observed positive. The published solver has them in its global norm, the others "
            "have not: leave these rows out, or 'published' out of solvers."
        )
