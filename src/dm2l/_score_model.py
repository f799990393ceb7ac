"""What score models share: the labels and rows they learn from, and what a fit leaves behind."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dm2l._solvers.features import Weights
from dm2l._solvers.problem import Solution
from dm2l._utils.arrays import (
    take_block,
    take_rows,
)
from dm2l.labels._entries import Signs
from dm2l.labels._matrix import LearnableMask


@dataclass(frozen=True, kw_only=True)
class FitResult:
    """What a score model leaves behind, besides the attributes that it predicts from.

    ``leave_one_out_scores`` (n, c) of known entries are those of a model that was fitted without
    their row, NaN or None where there are none. ``out_of_fold``: they come from models of folds, so
    that calibration and thresholds need no others. ``sample``: inputs and signs of their rows, if
    these are a sample of those fitted to.
    """

    leave_one_out_scores: NDArray[np.float64] | None = None
    out_of_fold: bool = False
    sample: tuple[Any, Signs] | None = None


def fold_inputs(
    X: Any,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    pairwise: bool,
    scratch: NDArray[Any] | None = None,
) -> tuple[Any, Any]:
    """Inputs of the training and of the test rows of a fold; the former may be in ``scratch``."""
    if pairwise:
        return take_block(X, train, train, scratch), take_block(X, test, train)
    return take_rows(X, train), take_rows(X, test)


def label_folds(cv: Any, X: Any, T: Signs) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Training and test rows of each fold of ``cv``, which sees observed labels only."""
    visible = np.where(T == 0, np.nan, T > 0)
    if isinstance(cv, Integral):
        from dm2l.model_selection import MultilabelKFold

        cv = MultilabelKFold(int(cv), random_state=0)
    if hasattr(cv, "split"):
        splitter = copy(cv)
        if hasattr(splitter, "missing_label"):  # labels are NaN-coded by now
            splitter.missing_label, splitter.missing_as = np.nan, None
        # Rows with nothing observed do not matter, so they must not move the folds either.
        seen = np.flatnonzero((T != 0).any(axis=1))
        all_seen = len(seen) == len(T)
        if not isinstance(getattr(splitter, "groups", ""), str | None):
            splitter.groups = np.asarray(splitter.groups)[seen]
        folds = splitter.split(X if all_seen else take_rows(X, seen), visible[seen])
        return [(seen[train], seen[test]) for train, test in folds]
    given = list(cv)
    if not given:
        raise ValueError("cv has no folds. A generator has them once: give list(...) of it.")
    return given


class WarmStart(NamedTuple):
    """Coefficients (m, c) and intercepts (c,) of an earlier fit, where the next may start."""

    coefficients: Any
    intercept: Any


@dataclass(frozen=True, kw_only=True)
class SolverResult(FitResult):
    """What a fit of DM2L leaves behind."""

    mask: LearnableMask
    solution: Solution | None  # None if no label can be learnt
    weights: Weights
    prior: Any = None  # ClassPrior of the learnt labels, from positive-unlabelled ones
    statistics: dict[str, Any] | None = None  # state of the statistics that the fit gathered
