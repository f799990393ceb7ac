"""Weights and covariance learnt together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._solvers.problem import Preconditioner, Problem
from dm2l._utils.arrays import float64, to_numpy
from dm2l.completion._condition import condition, residuals
from dm2l.completion._fit import FOLDS, quick_covariance, unseen_means
from dm2l.completion._leave_out import MOST, fitted_leverages, leave_row_out, out_of_fold_scores
from dm2l.labels._entries import EntryWeights, Signs

# AUC and ranking loss of new rows hardly move after the third (emotions, yeast, Arts).
ROUNDS = 3


def learn_jointly(
    problem: Problem, T: Signs, W: Any, factor: Preconditioner, entries: EntryWeights | None = None
) -> tuple[Any, NDArray[np.float64], Preconditioner]:
    """Fill the holes, fit to the filled targets, and again: EM, with honest residuals.

    The E-step puts the conditional mean (:func:`condition`) into every hole, by scores that the row
    had no part in; the M-step is ridge with targets that have no holes any more, so that all labels
    share one factor. The problem is left with these targets; the groups of its nuclear norms stay
    those of observed positives.

    Parameters
    ----------
    problem : Problem
        Of the labels as they are.
    T : ndarray of shape (n, c), int8
        Signs, 0 where missing.
    W : array of shape (size, c)
        Its solution without nuclear norms.
    factor : Preconditioner
        Of its curvature.
    entries : Entries, default=None
        Real targets and weights of the problem.

    Returns
    -------
    W : array of shape (size, c)
        Solution of the filled problem without nuclear norms.
    honest : ndarray of shape (n, c)
        Its scores as if the row had not been there; NaN where there are none.
    factor : Preconditioner
        Of the curvature of the filled problem.
    """
    features, known = problem.features, T != 0
    goal = T if entries is None or entries.targets is None else entries.targets
    F = to_numpy(float64(features.scores(W)))
    honest = out_of_fold_scores(problem, factor, T, W, features, problem.alpha, entries=entries)
    filled, trust = _fill(T, honest, F)
    filled = np.where(known, goal, filled)
    problem.objective.fill(filled)
    factor = factor.again(problem)
    weights = None if problem.objective.rows is None else to_numpy(problem.objective.observed)
    everything = np.ones_like(known)
    h = to_numpy(fitted_leverages(features, factor, everything, problem.alpha, weights=weights))
    for k in range(ROUNDS):
        W = factor.to_weights(factor.step(factor.to_gradient(problem.right())))
        F = to_numpy(float64(features.scores(W)))
        honest = np.where(h < MOST, filled - leave_row_out(filled - F, h), np.nan)
        if k + 1 < ROUNDS:
            filled = np.where(known, goal, _fill(T, honest, F, trust)[0])
            problem.objective.fill(filled)
    return W, honest, factor


def _trusted(T: Signs, scores: NDArray[np.float64]) -> float:
    """How much of what the row's labels say is so, by a covariance that did not see the row."""
    folds = np.random.default_rng(0).permutation(len(T)) % FOLDS
    known = T != 0
    shift = (unseen_means(T, scores, folds)[0] - scores)[known]
    return float(np.clip((T - scores)[known] @ shift / max(shift @ shift, 1e-300), 0.0, 1.0))


def _fill(
    T: Signs, honest: NDArray[np.float64], F: NDArray[np.float64], trust: float | None = None
) -> tuple[NDArray[np.float64], float]:
    """Signs, with conditional means in the holes as far as these are to be trusted."""
    use, scores = (T != 0) & np.isfinite(honest), np.where(np.isfinite(honest), honest, F)
    signs = np.where(use, T, 0)
    trust = _trusted(signs, scores) if trust is None else trust
    mean, _ = condition(quick_covariance(*residuals(signs, scores)), signs, scores)
    return np.where(T != 0, T, scores + trust * (mean - scores)), trust
