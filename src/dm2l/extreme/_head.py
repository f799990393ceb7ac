"""Fits of a low-rank head."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._solvers.features import Features, LinearMap, ridge_value
from dm2l._solvers.lbfgs import solve_lbfgs
from dm2l._solvers.problem import Preconditioner, Solution
from dm2l._utils.arrays import check_finite
from dm2l._utils.threads import blas_thread_count, one_blas_thread
from dm2l.extreme._answers import block_length
from dm2l.extreme._groups import STACK, SharedRows
from dm2l.extreme._problem import LowRankProblem, StoredTargets, label_basis, ridge_start
from dm2l.labels._sparse import SparseLabelMatrix
from dm2l.metrics import propensities
from dm2l.metrics._propensities import check_propensities

Array = NDArray[np.float64]


class Head(NamedTuple):
    """Solution, weights and intercept of the columns of a head, and vectors of the labels."""

    solution: Solution
    coef: Array
    intercept: Array
    label_vectors: Array


def absent_target(labels: SparseLabelMatrix) -> float:
    """Target of entries that are not stored."""
    return 0.0 if labels.missing_as == "missing" else -1.0


def label_offsets(labels: SparseLabelMatrix) -> tuple[NDArray[np.bool_], Array]:
    """Which labels have both classes, and the target of absence or the score of constant labels."""
    positive, negative = labels.positives() > 0, labels.negatives() > 0
    learnable = np.asarray(positive & negative)
    constant = positive.astype(np.float64) - negative.astype(np.float64)
    return learnable, np.where(learnable, absent_target(labels), constant)


def fit_head(
    model: Any,
    X: Any,
    labels: SparseLabelMatrix,
    learnable: NDArray[np.bool_],
    rows: Array | None,
) -> Head:
    """Fit the learnable labels with the parameters of an estimator; ``rows`` are weights."""
    chosen = np.flatnonzero(learnable)
    signed = labels.signed if learnable.all() else sp.csr_array(labels.signed[:, chosen])
    targets = _targets(model, labels, signed, chosen)
    if labels.missing_as == "missing":  # rows without observed entries do not count
        kept = np.flatnonzero(np.diff(signed.indptr))
        if len(kept) < signed.shape[0]:
            X, signed = X[kept], sp.csr_array(signed[kept])
            rows = rows if rows is None else rows[kept]
            targets = StoredTargets(sp.csr_array(targets.stored[kept]), targets.weights, 0.0)
    targets = replace(targets, rows=rows)
    intercept = bool(model.fit_intercept)
    feature_map = LinearMap(True, intercept)
    Phi = feature_map.fit(X)
    features = Features(Phi, intercept, feature_map.square, blas_thread_count())
    features = features.centre() if Phi is X else features
    alpha = ridge_value(model.alpha, X, rows)
    problem = LowRankProblem(features, targets, alpha)
    preconditioner = Preconditioner(problem)
    block = block_length(model.max_memory, 2 * features.size, 4096)
    B = label_basis(features, targets.pulls, preconditioner, int(model.rank), block=block)
    size = block_length(model.max_memory, 4, STACK)
    groups = SharedRows.gather(signed > 0, B.shape[1], int(model.min_rows), size=size, rows=rows)
    problem.attach(B, groups, model.lambda_d, discriminant=bool(model.discriminant))
    solution = _solve(problem, preconditioner, float(model.tol), int(model.max_iter))
    W = problem.to_original(solution.W)
    coef, b = feature_map.on_inputs(W, intercept)
    check_finite(coef, "Weights")
    vectors = np.zeros((len(learnable), B.shape[1]))
    vectors[chosen] = B
    return Head(solution, np.ascontiguousarray(np.asarray(coef).T), b, vectors)


def _targets(
    model: Any, labels: SparseLabelMatrix, signed: Any, chosen: NDArray[np.intp]
) -> StoredTargets:
    stored = signed.copy()
    stored.data = signed.data - absent_target(labels)
    weights, absent = np.ones(signed.nnz), float(labels.missing_as != "missing")
    if labels.missing_as == "unlabelled":
        absent = float(model.absent_weight)
        positive = signed.data > 0
        given, c = model.propensities, labels.signed.shape[1]
        p = propensities(labels.signed) if given is None else check_propensities(given, c)
        weights[positive] = 1.0 / p[chosen][signed.indices[positive]]
    # A stored negative has the target 0 like unlabelled entries, but its full weight.
    return StoredTargets(stored, weights, absent)


def _solve(
    problem: LowRankProblem, preconditioner: Preconditioner, tol: float, max_iter: int
) -> Solution:
    with one_blas_thread():
        if not problem.lambda_d:
            V = ridge_start(problem, preconditioner, 1e-8)
            W = preconditioner.to_weights(V)
            value = problem.exact(W)
            return Solution(W, value, n_iter=1, converged=True, history=[value])
        V = ridge_start(problem, preconditioner, 0.1)
        return solve_lbfgs(problem, preconditioner, V, tol=tol, max_iter=max_iter)
