"""Fits to sums over rows, and to statistics that grow block by block."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from dm2l._fitting import Trainer
from dm2l._score_model import LearnableMask, SolverResult, WarmStart, Weights
from dm2l._solvers.features import FeatureMap, Features
from dm2l._solvers.ridge import ridge_by_steps
from dm2l._utils.arrays import float64
from dm2l._utils.threads import blas_thread_count, blas_threads
from dm2l.labels._entries import Signs
from dm2l.labels._matrix import LabelMatrix
from dm2l.outofcore._gram_problem import GramProblem, RowSums
from dm2l.outofcore._row_sums import StatisticsSums
from dm2l.outofcore._sample import MAX_ROWS
from dm2l.outofcore._statistics import GramStatistics, RowStatistics


def fit_sums(
    fitting: Trainer,
    statistics: RowStatistics,
    make: Callable[[], RowSums],
    feature_map: FeatureMap,
    X: Any,
    last: WarmStart | None,
) -> SolverResult:
    """Fit the labels with both classes observed; the others are constant.

    ``make`` gives the sums, if there is a label to learn; the model has the dtype of ``X``.
    """
    constant = (statistics.positives > 0) * 1.0 - (statistics.negatives > 0) * 1.0
    selection = LearnableMask(statistics.learnable, constant, np.ones(0, dtype=bool))
    if not selection.learnable.any():
        return fitting.nothing(X, selection)
    sums = make()
    with blas_threads(sums.n_labels * sums.size**2):
        problem = GramProblem(
            sums,
            fitting.lambda_d,
            fitting.ridge(statistics.variances()),
            local=fitting.local,
            discriminant=fitting.discriminant,
            workers=blas_thread_count(),
        )

        def ridge() -> Any:
            W = sums.ridge(problem.alpha)
            return _by_passes(problem) if W is None else W

        fit = fitting.fit_problem(problem, feature_map, selection, ridge, X, last)
        if fitting.coupling != "residual":
            return fit
        rows = statistics.sample.rows(0 if feature_map.plain else feature_map.n_coefficients)
        return fit if rows is None else _coupled(fitting, problem, feature_map, fit, rows)


def _coupled(
    fitting: Trainer,
    problem: GramProblem,
    feature_map: FeatureMap,
    fit: SolverResult,
    rows: Any,
) -> SolverResult:
    """A fit with leave-one-out scores of a sample of its rows."""
    X, T = rows
    learnable, constant, _ = fit.mask
    selection = LearnableMask(learnable, constant, (T[:, learnable] != 0).any(axis=1))
    X, T = selection.rows(X), T[selection.keep]
    if not len(T) or fit.solution is None:
        return fit
    Phi = float64(feature_map.transform(X))
    features = Features(Phi, bool(fitting.fit_intercept)).centre(problem.sums.offset)
    # Not by projections, which depend on the offset and so on which block was the first.
    unseen = fitting.leave_one_out(problem, fit.solution, features, T[:, learnable], exact=True)
    scores = np.full(T.shape, np.nan)
    scores[:, learnable] = unseen
    return replace(fit, leave_one_out_scores=scores, sample=(X, T))


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


def sample_size(fitting: Trainer) -> int:
    """Rows of the sample that a fit needs."""
    return MAX_ROWS if fitting.coupling == "residual" else 0


def seen_rows(X: Any, T: Signs) -> Any:
    """Rows with an observed entry; all rows if there are none."""
    seen = (T != 0).any(axis=1)
    return X if seen.all() or not seen.any() else X[seen]


def announce(labels: LabelMatrix, *, stacklevel: int) -> None:
    """Refuse labels without any observed entry, and warn about constant ones."""
    if not labels.signs.any():
        raise ValueError(
            "Y has nothing observed in any block. At least one label of one row is needed; check "
            "missing_label and label_mask."
        )
    labels.warn_constant(stacklevel=stacklevel)


class Stream:
    """Features and Gram statistics of rows that come block by block."""

    def __init__(
        self, fitting: Trainer, feature_map: FeatureMap, statistics: GramStatistics
    ) -> None:
        self._fitting = fitting
        self._map = feature_map
        self._statistics = statistics

    @classmethod
    def begun(cls, fitting: Trainer, X: Any, T: Signs) -> Self:
        """A stream whose features are those of a first block, which is not added yet."""
        feature_map = fitting.fixed_map(seen_rows(X, T))
        size, sample = feature_map.n_coefficients, sample_size(fitting)
        return cls(fitting, feature_map, GramStatistics(size, T.shape[1], sample))

    @classmethod
    def resumed(
        cls,
        fitting: Trainer,
        weights: Weights,
        n_features: int,
        statistics: GramStatistics,
    ) -> Self:
        """The stream that a fitted estimator keeps."""
        feature_map = fitting.stored_map(weights, n_features)
        if feature_map is None:
            raise NotFittedError("The features of the approximation are made by a first block.")
        if feature_map.n_coefficients != statistics.n_features:
            raise ValueError(
                f"The statistics are of {statistics.n_features} features, the approximation has "
                f"{feature_map.n_coefficients}."
            )
        return cls(fitting, feature_map, statistics)

    @property
    def negatives(self) -> int:
        """Number of observed negatives."""
        return int(self._statistics.negatives.sum())

    def add(self, X: Any, T: Signs, forgetting: float = 1.0, weights: Any = None) -> None:
        """Add a block; ``forgetting`` multiplies the weight of the rows before it."""
        Phi = self._map.transform(X)
        self._statistics.scale(forgetting).add(Phi, T, inputs=X, weights=weights)

    def remove(self, X: Any, T: Signs, weights: Any = None) -> None:
        """Subtract a block."""
        whole = self._statistics
        part = GramStatistics(whole.n_features, whole.n_labels, whole.sample.most)
        self._statistics -= part.add(self._map.transform(X), T, inputs=X, weights=weights)

    def state(self) -> dict[str, Any]:
        """Statistics as plain arrays, which every way of storing a model knows."""
        return self._statistics.state()

    def map_weights(self) -> Weights:
        """What a fitted estimator keeps of the features."""
        return self._fitting.map_weights(self._map)

    def fit(self, X: Any, last: WarmStart | None = None) -> SolverResult:
        """Fit to all rows so far; ``X`` are inputs that the model follows in dtype."""
        statistics, intercept = self._statistics, bool(self._fitting.fit_intercept)
        fit = fit_sums(
            self._fitting,
            statistics,
            lambda: StatisticsSums(statistics, intercept, blas_thread_count()),
            self._map,
            X,
            last,
        )
        return replace(fit, statistics=self.state())
