"""Masked ridge: least squares on the observed entries, directly or by conjugate gradients."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dm2l._solvers.features import Features
from dm2l._solvers.objective import Objective
from dm2l._solvers.problem import Preconditioner, Problem, SmoothProblem, conjugate_gradients
from dm2l._utils.arrays import check_finite, is_non_numpy, to_numpy
from dm2l.labels._entries import EntryWeights


def masked_ridge(
    features: Features,
    T: NDArray[Any],
    alpha: float,
    *,
    observed: NDArray[np.bool_] | None = None,
    entries: EntryWeights | None = None,
    method: str = "auto",
) -> NDArray[np.float64]:
    """Masked ridge solution: ``min 1/2 ||O*(Phi W) - T||^2 + alpha/2 ||W||^2``."""
    T = np.asarray(T)
    if observed is None:
        observed = T != 0
    else:
        method = "direct"
    features = features.centre()
    if is_non_numpy(features.Phi):
        method = "cg"
    weights = None if entries is None else entries.weights
    kinds = np.packbits(observed, axis=0) if weights is None else weights
    patterns, which = np.unique(kinds, axis=1, return_inverse=True)
    chosen = method == "auto"
    if chosen:
        steps = 50  # more than a ridge worth its name needs
        size, n, c = features.size, features.n, T.shape[1]
        direct = patterns.shape[1] * size**2 * (size / 3 + n / 2)
        method = "cg" if alpha > 0 and steps * (4 * n + 2 * size) * size * c < direct else "direct"
    if method == "cg":
        objective = Objective(T, 0.0, like=features.example, entries=entries)
        problem = Problem(features, objective, alpha)
        W, settled = ridge_by_steps(problem)
        if settled:
            return to_numpy(features.to_original(W))
        if not chosen:
            warnings.warn(
                "Conjugate gradients did not reach a relative gradient of 1e-8: the ridge is small "
                "for features of such different scales. Scale the features, or use "
                "solver='direct'.",
                ConvergenceWarning,
                stacklevel=2,
            )
            return to_numpy(features.to_original(W))
    if entries is not None:
        T = T if entries.targets is None else entries.targets
        T = T if weights is None else weights * T
    W = _direct(features, T, observed, alpha, np.ravel(which), weights)
    return np.asarray(features.to_original(W))


def ridge_by_steps(problem: SmoothProblem) -> tuple[Any, bool]:
    """Masked ridge solution by conjugate gradients, and whether it is one.

    It is where the gradient of every label is 1e-8 of that at zero.
    """
    preconditioner = Preconditioner(problem)
    V = conjugate_gradients(problem, preconditioner, tol=1e-10, max_iter=1000)
    W = preconditioner.to_weights(V)
    zero = problem.right()
    here = preconditioner.to_gradient(problem.product(W) - zero + problem.penalty * W)
    zero = preconditioner.to_gradient(zero)
    sizes = [np.sqrt((to_numpy(g) ** 2).sum(axis=0)) for g in (here, zero)]
    return W, bool((sizes[0] <= 1e-8 * sizes[1]).all())


def _direct(
    features: Features,
    T: NDArray[Any],
    observed: NDArray[np.bool_],
    alpha: float,
    which: NDArray[np.intp],
    weights: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Labels observed on the same rows, with the same weights, share a factorisation.

    The Gram matrix of a pattern comes from its observed rows, or as the full one minus that of
    the other rows, whichever are fewer.
    """
    right = features.adjoint(T.astype(features.Phi.dtype))
    penalty = np.diag(alpha * features.penalized)
    full = features.gram() if weights is None else None
    W = np.empty((features.size, T.shape[1]))
    for pattern in range(int(which.max()) + 1):
        labels = np.flatnonzero(which == pattern)
        rows = observed[:, labels[0]]
        if weights is not None:
            seen = np.flatnonzero(rows)
            gram = features.gram(seen, weights[seen, labels[0]])
        elif rows.all():
            gram = full
        elif 2 * rows.sum() <= len(rows):
            gram = features.gram(np.flatnonzero(rows))
        else:
            gram = full - features.gram(np.flatnonzero(~rows))
        W[:, labels] = solve_normal(gram + penalty, right[:, labels], features.intercept)
    return W


def solve_normal(
    A: NDArray[np.float64], B: NDArray[np.float64], intercept: bool
) -> NDArray[np.float64]:
    """Solve normal equations; of several solutions the one of least norm, intercept not counted."""
    if intercept:
        # The unpenalised last unknown is eliminated first, so that it has no part in the norm.
        column, corner = A[:-1, -1:], A[-1, -1]
        W = solve_normal(
            A[:-1, :-1] - column @ column.T / corner, B[:-1] - column * B[-1:] / corner, False
        )
        return np.vstack([W, (B[-1:] - column.T @ W) / corner])
    if not len(A):
        return np.empty((0, B.shape[1]))
    check_finite(A, "Normal equations")
    check_finite(B, "Normal equations")
    # Unit diagonal: columns of very different scales are not a rank deficiency.
    scale = np.sqrt(np.maximum(np.diagonal(A), 0.0))
    scale = 1.0 / np.where(scale > 0, scale, 1.0)
    try:
        factor = scipy.linalg.cho_factor(scale[:, None] * A * scale, lower=True, check_finite=False)
        if np.diagonal(factor[0]).min() > 1e-6:
            solution = scipy.linalg.cho_solve(factor, scale[:, None] * B, check_finite=False)
            return np.asarray(scale[:, None] * solution)
    except scipy.linalg.LinAlgError:
        pass  # singular: least norm below
    cond = 100 * len(A) * np.finfo(np.float64).eps
    return np.asarray(scipy.linalg.lstsq(A, B, cond=cond, check_finite=False)[0])
