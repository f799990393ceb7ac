"""Leave-one-out scores of ridge regression in closed form, and fits that use them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._solvers.features import Features
from dm2l._solvers.kernel_problem import KernelPreconditioner
from dm2l._solvers.objective import Objective
from dm2l._solvers.problem import Preconditioner, Problem, conjugate_gradients
from dm2l._utils.arrays import asarray_like, float64, to_numpy
from dm2l.completion._covariance import (
    FOLDS,
    conditional_moments,
    out_of_fold_moments,
    quick_covariance,
)
from dm2l.labels._entries import EntryWeights, Floats, Mask, Signs

MOST = 0.98  # upper limit of the leverage h, because residuals are divided by 1 - h
# Above this mean leverage, cross-validation replaces the closed form, which is too optimistic
# because it uses only the share of known entries of each label (benchmarks/completion.py).
TOO_BENT = 0.5
RIDGE_FOLDS, STEPS = 5, 30
# Tolerance of the gradient of ridge solutions, because errors are also divided by 1 - h.
TOL = 0.01
# Up to this number of features, or rows of a kernel matrix, leverages are exact. Otherwise they are
# estimated by random projections (benchmarks/coupling_cost.py).
EXACT, EXACT_ROWS = 256, 1500
PROJECTIONS = 128
_WIDTH = 512  # number of columns processed together for exact leverages
ROUNDS = 3  # maximum number of EM iterations of joint fits


def fitted_leverages(
    features: Features,
    factor: Preconditioner,
    known: Mask,
    alpha: float,
    *,
    exact: bool = False,
    weights: Floats | None = None,
) -> Any:
    """Return the leverage of each known entry on its own score (docs/research/imputing.md)."""
    xp, rho = features.xp, factor.rho
    h: Any = 0.0
    kernel = isinstance(factor, KernelPreconditioner)
    if isinstance(factor, KernelPreconditioner) and (exact or len(known) <= EXACT_ROWS):
        h = factor.leverages()
    elif not kernel and (exact or features.size <= EXACT):
        # The leverages are sums of squares of the rows of Phi R'^-1.
        eye = np.eye(features.size)
        for start in range(0, features.size, _WIDTH):
            at = factor.to_weights(asarray_like(eye[:, start : start + _WIDTH], features.example))
            h = h + xp.sum(xp.astype(features.scores(at), xp.float64) ** 2, axis=1)
    else:
        size = len(known) if kernel else features.size
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(size, PROJECTIONS))
        signs = asarray_like(signs, features.example)
        if kernel:  # Hutchinson's estimator of the diagonal of the map from gradients to scores.
            each = signs * features.scores(factor.step(signs))
        else:
            each = xp.astype(features.scores(factor.to_weights(signs)), xp.float64) ** 2
        h = xp.mean(each, axis=1)
        # The variance of the projections is subtracted from the spread of the leverages.
        middle, spread = float(xp.mean(h)), float(xp.var(h))
        noise = float(xp.mean(xp.var(each, axis=1))) / PROJECTIONS
        h = middle + max(1.0 - noise / max(spread, 1e-300), 0.0) * (h - middle)
    rows: Any = None if weights is None else weights.max(axis=1)
    rate = known.mean(axis=0) if weights is None else weights.sum(axis=0) / rows.sum()
    rate = np.maximum(rate, 1.0 / len(known))
    level = features.spread(rows) / max(float(xp.mean(h)), 1e-300)
    value = max(level - alpha, 0.0) / rho
    scale = (rho * value + alpha + 1e-300) / (rate * value + alpha + 1e-300)
    h = h[:, None] * asarray_like(scale, h)[None, :]
    # A known row adds its whole curvature to its own label, not only a share of it.
    if weights is None:
        return h / (1.0 + h * (1.0 - asarray_like(rate, h)))
    apart = asarray_like(weights - rows[:, None] * rate, h)
    return asarray_like(weights, h) * h / (1.0 + h * apart)


def without_own_row(targets: NDArray[Any], F: Floats, h: Floats) -> Floats:
    """Return leave-one-out scores, whose residuals are ``e / (1 - h)``."""
    return np.asarray(targets - (targets - F) / (1.0 - np.minimum(h, MOST)))


def leave_one_out_scores(
    problem: Any,
    factor: Preconditioner,
    T: Signs,
    W: Any,
    features: Features,
    *,
    exact: bool = False,
    entries: EntryWeights | None = None,
) -> Any:
    """Return leave-one-out scores of masked ridge for known entries, and its scores elsewhere."""
    # The intercept is computed from all rows. If a positive of a rare label were left out, the
    # intercept would be lower, and positives would get lower scores than negatives. If leverages
    # are too high, known entries get out-of-fold scores, or are NaN.
    known, entries = T != 0, entries or EntryWeights()
    weights = entries.weights
    V = conjugate_gradients(problem, factor, tol=TOL, start=factor.to_variables(W))
    h = fitted_leverages(features, factor, known, problem.alpha, exact=exact, weights=weights)
    h = to_numpy(h)
    if h[known].mean() > TOO_BENT:
        if isinstance(problem, Problem) and problem.features is features:
            return out_of_fold_scores(problem, factor, T, V, entries)
        return np.full(T.shape, np.nan)
    if features.intercept and weights is None:
        h = h - 1.0 / np.maximum(problem.n * known.mean(axis=0), 1.0)
    elif features.intercept and weights is not None:
        share = problem.n / weights.max(axis=1).sum()  # the rows of ``X`` may be a sample
        h = h - weights / np.maximum(share * weights.sum(axis=0), weights.max(axis=0))
    F = np.asarray(to_numpy(features.scores(factor.to_weights(V))), np.float64)
    unseen = without_own_row(T if entries.targets is None else entries.targets, F, h)
    return np.where(known, np.where(h < MOST, unseen, np.nan), F)


def out_of_fold_scores(
    problem: Problem, factor: Preconditioner, T: Signs, V: Any, entries: EntryWeights
) -> Any:
    """Return out-of-fold scores of known entries, and scores of the full model elsewhere."""
    # Folds do not start from the solution V, because it was also fitted to the held-out rows.
    features = problem.features
    W = factor.to_weights(V)
    F = to_numpy(float64(features.scores(W)))
    fold = np.random.default_rng(0).permutation(len(T)) % RIDGE_FOLDS
    for k in range(RIDGE_FOLDS):
        out = fold == k
        rest = np.where(out[:, None], 0, T).astype(np.int8)
        others = EntryWeights.of(rest, entries.targets, entries.weights)
        objective = Objective(rest, 0.0, like=features.example, entries=others)
        part = type(problem)(features, objective, problem.alpha)
        start = factor.step(factor.to_gradient(part.right()))
        found = conjugate_gradients(part, factor, tol=TOL, max_iter=STEPS, start=start)
        there = factor.to_weights(found)
        if features.intercept:
            there = features.with_intercept(there, W)
        scores = to_numpy(float64(features.scores(there)))
        both = (rest > 0).any(axis=0) & (rest < 0).any(axis=0)
        F = np.where(out[:, None] & (T != 0), np.where(both, scores, np.nan), F)
    return F


def learn_jointly(
    problem: Problem, T: Signs, W: Any, factor: Preconditioner, entries: EntryWeights | None = None
) -> tuple[Any, Floats, Preconditioner]:
    """Impute targets and fit ridge by EM; return weights, leave-one-out scores, preconditioner."""
    # The E-step imputes missing entries by conditional means. The M-step is ridge with complete
    # targets, so that all labels share one factor. The problem keeps these targets, but its nuclear
    # norms keep the groups of observed positives.
    features = problem.features
    goal = T if entries is None or entries.targets is None else entries.targets
    F = to_numpy(float64(features.scores(W)))
    unseen = leave_one_out_scores(problem, factor, T, W, features, entries=entries)
    filled, trust = _fill(T, goal, unseen, F)
    problem.objective.fill(filled)
    factor = type(factor)(problem)
    weights = None if problem.objective.rows is None else to_numpy(problem.objective.observed)
    everything = np.ones(T.shape, dtype=bool)
    h = to_numpy(fitted_leverages(features, factor, everything, problem.alpha, weights=weights))
    for k in range(ROUNDS):
        W = factor.to_weights(factor.step(factor.to_gradient(problem.right())))
        F = to_numpy(float64(features.scores(W)))
        unseen = np.where(h < MOST, without_own_row(filled, F, h), np.nan)
        if k + 1 < ROUNDS:
            filled, _ = _fill(T, goal, unseen, F, trust)
            problem.objective.fill(filled)
    return W, unseen, factor


def _fill(
    T: Signs, goal: NDArray[Any], unseen: Floats, F: Floats, trust: float | None = None
) -> tuple[Floats, float]:
    """Return targets with shrunk conditional means at missing entries, and the shrinkage."""
    use, scores = (T != 0) & np.isfinite(unseen), np.where(np.isfinite(unseen), unseen, F)
    signs = np.where(use, T, 0)
    if trust is None:  # regression slope of residuals on out-of-fold conditional shifts
        folds = np.random.default_rng(0).permutation(len(T)) % FOLDS
        shift = (out_of_fold_moments(signs, scores, folds)[0] - scores)[use]
        slope = (signs - scores)[use] @ shift / max(shift @ shift, 1e-300)
        trust = float(np.clip(slope, 0.0, 1.0))
    mean, _ = conditional_moments(quick_covariance(signs, scores), signs, scores)
    return np.where(T != 0, goal, scores + trust * (mean - scores)), trust
