"""Weights and covariance learnt together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._solvers.problem import Preconditioner, Problem
from dm2l._utils.arrays import float64, to_numpy
from dm2l.completion._condition import condition, residuals
from dm2l.completion._covariance_fit import FOLDS, out_of_fold_means, quick_covariance
from dm2l.completion._leave_out import (
    MOST,
    fitted_leverages,
    leave_one_out_residuals,
    leave_one_out_scores,
)
from dm2l.labels._entries import EntryWeights, Signs

# AUC and ranking loss of new rows hardly move after the third (emotions, yeast, Arts).
ROUNDS = 3


def learn_jointly(
    problem: Problem, T: Signs, W: Any, factor: Preconditioner, entries: EntryWeights | None = None
) -> tuple[Any, NDArray[np.float64], Preconditioner]:
    """Fill missing entries, fit to the filled targets, and repeat: EM with leave-one-out residuals.

    The E-step puts the conditional mean (:func:`condition`), by leave-one-out scores, into every
    missing entry; the M-step is ridge with complete targets, so that all labels share one factor.
    The problem is left with these targets; the groups of its nuclear norms stay those of observed
    positives. Returns its solution without norms, its leave-one-out scores and its factor.
    """
    features, known = problem.features, T != 0
    goal = T if entries is None or entries.targets is None else entries.targets
    F = to_numpy(float64(features.scores(W)))
    unseen = leave_one_out_scores(problem, factor, T, W, features, problem.alpha, entries=entries)
    filled, trust = _fill(T, unseen, F)
    filled = np.where(known, goal, filled)
    problem.objective.fill(filled)
    factor = factor.again(problem)
    weights = None if problem.objective.rows is None else to_numpy(problem.objective.observed)
    everything = np.ones_like(known)
    h = to_numpy(fitted_leverages(features, factor, everything, problem.alpha, weights=weights))
    for k in range(ROUNDS):
        W = factor.to_weights(factor.step(factor.to_gradient(problem.right())))
        F = to_numpy(float64(features.scores(W)))
        unseen = np.where(h < MOST, filled - leave_one_out_residuals(filled - F, h), np.nan)
        if k + 1 < ROUNDS:
            filled = np.where(known, goal, _fill(T, unseen, F, trust)[0])
            problem.objective.fill(filled)
    return W, unseen, factor


def _trusted(T: Signs, scores: NDArray[np.float64]) -> float:
    """Slope of residuals on conditional shifts, by a covariance fitted to other rows."""
    folds = np.random.default_rng(0).permutation(len(T)) % FOLDS
    known = T != 0
    shift = (out_of_fold_means(T, scores, folds)[0] - scores)[known]
    return float(np.clip((T - scores)[known] @ shift / max(shift @ shift, 1e-300), 0.0, 1.0))


def _fill(
    T: Signs, unseen: NDArray[np.float64], F: NDArray[np.float64], trust: float | None = None
) -> tuple[NDArray[np.float64], float]:
    """Signs, with shrunk conditional means at missing entries, and the factor of the shrinkage."""
    use, scores = (T != 0) & np.isfinite(unseen), np.where(np.isfinite(unseen), unseen, F)
    signs = np.where(use, T, 0)
    trust = _trusted(signs, scores) if trust is None else trust
    mean, _ = condition(quick_covariance(*residuals(signs, scores)), signs, scores)
    return np.where(T != 0, T, scores + trust * (mean - scores)), trust
