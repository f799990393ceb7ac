"""What a fit of DM2L leaves behind: weights, from which scores are predicted, and its solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dm2l._score_model import FitResult, LearnableMask
from dm2l._solvers.kernels._fourier import FourierMap
from dm2l._solvers.kernels._kernel import Kernel, is_precomputed
from dm2l._solvers.problem import Solution
from dm2l._utils.arrays import float64, is_non_numpy, namespace, take_columns, take_rows
from dm2l.pu._prior import ClassPrior

__all__ = ["FITTED", "SolverResult", "WarmStart", "Weights"]


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
    prior : ClassPrior or None
        Of the labels that were learnt, from positive-unlabelled labels.
    statistics : dict or None
        State of the sufficient statistics, if the fit gathered them.
    """

    mask: LearnableMask
    solution: Solution | None
    weights: Weights
    prior: ClassPrior | None = None
    statistics: dict[str, Any] | None = None
