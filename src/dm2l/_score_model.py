"""What score models share: the labels and rows they learn from, and what a fit leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples

from dm2l._solvers.kernels import Kernel, is_precomputed
from dm2l._solvers.maps import FourierMap
from dm2l._solvers.problem import Solution
from dm2l._utils.arrays import (
    asarray_like,
    check_finite,
    checked_numbers,
    float64,
    is_non_numpy,
    namespace,
    take_block,
    take_columns,
    take_rows,
    to_numpy,
)
from dm2l.labels._entries import Signs
from dm2l.labels._matrix import LabelMatrix


@dataclass(frozen=True, kw_only=True)
class FitResult:
    """What a score model leaves behind, besides the attributes that it predicts from.

    Attributes
    ----------
    leave_one_out_scores : ndarray of shape (n, c) or None
        Scores of all rows and labels, those of known entries from a model that was fitted without
        their row; NaN where there are none. None if the model has no such scores.
    out_of_fold : bool
        Whether they come from models of folds, so that calibration and thresholds need no others.
    sample : tuple of (X, signs) or None
        Rows of these scores, if they are a sample of those fitted to.
    """

    leave_one_out_scores: NDArray[np.float64] | None = None
    out_of_fold: bool = False
    sample: tuple[Any, Signs] | None = None


class LearnableMask(NamedTuple):
    """Labels that can be learnt, scores of the others, and rows that matter.

    Attributes
    ----------
    learnable : ndarray of shape (n_labels,), bool
        Labels with both classes observed.
    constant : ndarray of shape (n_labels,)
        Score of the others: 1 or -1 where one class was observed, 0 where nothing was.
    keep : ndarray of shape (n_rows,), bool
        Rows with an observed entry in a learnable label.
    """

    learnable: NDArray[np.bool_]
    constant: NDArray[np.float64]
    keep: NDArray[np.bool_]

    @classmethod
    def of(cls, T: Signs) -> Self:
        """What can be learnt from these signs."""
        positive, negative = (T > 0).any(axis=0), (T < 0).any(axis=0)
        learnable = np.asarray(positive & negative)
        constant = np.asarray(positive.astype(np.float64) - negative.astype(np.float64))
        return cls(learnable, constant, (T[:, learnable] != 0).any(axis=1))

    def labels(self, labels: LabelMatrix) -> LabelMatrix:
        """The learnable labels of the rows that matter."""
        signs = np.ascontiguousarray(labels.signs[:, self.learnable][self.keep])
        entries = labels.entries
        if entries is not None:
            entries = entries.take(self.keep, self.learnable)
        return replace(labels, signs=signs, entries=entries)

    def of_labels(self, value: Any) -> Any:
        """One number for all labels, or those of the learnable labels."""
        return value if np.ndim(value) == 0 else np.asarray(value)[self.learnable]

    def spread(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers of these rows and labels in an array of all, NaN elsewhere."""
        everything = np.full((len(self.keep), len(self.learnable)), np.nan)
        everything[np.ix_(self.keep, self.learnable)] = values
        return everything

    def rows(self, X: Any, *, pairwise: bool = False) -> Any:
        """Inputs of the rows that matter; ``pairwise``: and columns, of a kernel matrix."""
        if pairwise and X.shape[0] != X.shape[1]:
            raise ValueError(f"A precomputed kernel matrix must be square, got shape {X.shape}.")
        if self.keep.all():
            return X
        kept = np.flatnonzero(self.keep)
        return take_block(X, kept, kept) if pairwise else take_rows(X, kept)


def every_label(
    X: Any,
    learnt: Callable[[Any], Any],
    learnable: NDArray[np.bool_],
    constant: NDArray[np.float64],
) -> Any:
    """A column for every label: what was learnt, or a constant; in the library of ``X``."""
    found = None
    if learnable.any():
        with checked_numbers(X):
            found = learnt(X)
            check_finite(found, "Scores")
    if is_non_numpy(X) and learnable.all():
        xp = namespace(found)
        return xp.astype(found, xp.float64, copy=False)
    columns = np.tile(constant, (_num_samples(X), 1))
    if found is not None:
        columns[:, learnable] = to_numpy(found)
    return asarray_like(columns, X)


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


class Weights(NamedTuple):
    """What predictions need, named like the attributes of a fitted estimator (:data:`FITTED`).

    ``coef`` (c, d) is of a linear model, ``dual_coef`` (m, c) of any other, with the kernel and
    the rows ``X_fit``, or ``waves`` of a Fourier approximation.
    """

    intercept: Any
    coef: Any = None
    dual_coef: Any = None
    X_fit: Any = None
    kernel: Kernel | None = None
    waves: FourierMap | None = None
    landmark_factor: Any = None
    approximation_error: float | None = None

    def scores(self, X: Any, mask: LearnableMask) -> Any:
        """Scores of rows, for the learnable labels."""
        chosen = np.flatnonzero(mask.learnable)
        intercept = take_rows(self.intercept, chosen)
        if self.coef is not None:
            coef = take_rows(self.coef, chosen).T
            if is_non_numpy(X):  # not every library multiplies float32 with float64
                xp = namespace(X)
                coef = xp.astype(coef, X.dtype, copy=False)
                intercept = xp.astype(intercept, X.dtype, copy=False)
            return X @ coef + intercept
        if self.waves is not None:
            K = float64(self.waves.transform(X))
        elif self.kernel is not None and is_precomputed(self.kernel):
            pivots = np.flatnonzero(mask.keep)[self.X_fit]
            # All columns of a large matrix need no copy; a small one costs nothing.
            whole = X.shape[1] > 1000 and np.array_equal(pivots, np.arange(X.shape[1]))
            K = float64(X if whole else take_columns(X, pivots))
        else:
            K = self.kernel(X, self.X_fit)  # type: ignore[misc]
        return K @ take_columns(self.dual_coef, chosen) + intercept


# Attributes of a fitted estimator that hold its weights, in the order of their fields.
FITTED = (
    "intercept_",
    "coef_",
    "dual_coef_",
    "X_fit_",
    "_kernel",
    "_waves",
    "_landmark_factor",
    "approximation_error_",
)


@dataclass(frozen=True, kw_only=True)
class SolverResult(FitResult):
    """What a fit of DM2L leaves behind.

    Attributes
    ----------
    mask : LearnableMask
        Labels that were learnt, and rows that mattered.
    solution : Solution or None
        Weights on the features, and the course of the solver; None if no label can be learnt.
    weights : Weights
        What predictions need.
    prior : dm2l.pu._prior.ClassPrior or None
        Of the labels that were learnt, from positive-unlabelled labels.
    statistics : dict or None
        State of the sufficient statistics, if the fit gathered them.
    """

    mask: LearnableMask
    solution: Solution | None
    weights: Weights
    prior: Any = None
    statistics: dict[str, Any] | None = None
