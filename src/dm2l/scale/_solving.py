"""Fits to sums over rows, wherever the rows are."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dm2l.base import Selection
from dm2l.fitting import Fit, Fitting, Last
from dm2l.kernels import FeatureMap
from dm2l.labels import Labels, Signs
from dm2l.scale._gram_problem import GramProblem, Sums
from dm2l.scale._tally import Tally
from dm2l.solvers import ridge_by_steps
from dm2l.threads import blas_thread_count, blas_threads


def fit_sums(
    fitting: Fitting,
    tally: Tally,
    make: Callable[[], Sums],
    feature_map: FeatureMap,
    X: Any,
    last: Last | None,
) -> Fit:
    """Fit the labels of which both classes were observed; the others are constant.

    ``make`` gives the sums, and is called if there is something to learn; ``X`` are inputs that
    the model follows in dtype.
    """
    constant = (tally.positives > 0) * 1.0 - (tally.negatives > 0) * 1.0
    selection = Selection(tally.learnable, constant, np.ones(0, dtype=bool))
    if not selection.learnable.any():
        return fitting.nothing(X, selection)
    sums = make()
    with blas_threads(sums.n_labels * sums.size**2):
        problem = GramProblem(
            sums,
            fitting.lambda_d,
            fitting.ridge_of(tally.variances()),
            local=fitting.local,
            discriminant=fitting.discriminant,
            workers=blas_thread_count(),
        )

        def ridge() -> Any:
            W = sums.ridge(problem.alpha)
            return _by_passes(problem) if W is None else W

        return fitting.fit_problem(problem, feature_map, selection, ridge, X, last)


def _by_passes(problem: GramProblem) -> Any:
    """The problem without norms, by conjugate gradients."""
    W, settled = ridge_by_steps(problem)
    if not settled:
        warnings.warn(
            "Conjugate gradients did not reach a relative gradient of 1e-8: the ridge is small for "
            "features of such different scales. Scale the features, or use strategy='statistics'.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return W


def seen_rows(X: Any, T: Signs) -> Any:
    """Rows with something observed, or all where there are none."""
    seen = (T != 0).any(axis=1)
    return X if seen.all() or not seen.any() else X[seen]


def announce(labels: Labels, *, stacklevel: int) -> None:
    """Refuse labels of which nothing was observed, and warn about constant ones."""
    if not labels.signs.any():
        raise ValueError(
            "Y has nothing observed in any block. At least one label of one row is needed; check "
            "missing_label and label_mask."
        )
    labels.warn_constant(stacklevel=stacklevel)
