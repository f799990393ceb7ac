"""Stacking: calibrated and weighted sums of scores (formulas: docs/research/choosing.md)."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from dm2l._utils.logistic import LogisticProblem, padded
from dm2l.labels._entries import Signs

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Penalties in units of the log-likelihood: the first is on differences between label-specific and
# common slopes and weights; the second is on differences between common weights and equal
# weights, and keeps them nearly equal if positives are few (benchmarks/small_samples.py).
HELD_SLOPE, HELD_WEIGHT, HELD_COMMON = 5.0, 100.0, 100.0
# Lower limit of a label's slope relative to the common slope. Negative slopes are mostly due to
# chance, and a slope of 0 would make all scores equal (benchmarks/study.py, Arts).
FLATTEST = 0.01
# Shares of trees are scaled to the interval from this value to one minus this value.
SURE = 0.005
# Maximum number of entries for a fit; more would take longer without improving it.
MOST_ENTRIES = 4_000_000
# Assumed correlation within a group, so that no group outweighs ten ungrouped rows
# (benchmarks/groups.py).
WITHIN = 0.1
# Newton steps stop when the objective per entry decreases by less than this.
TOLERANCE = 1e-9


def row_weights(groups: Any) -> Floats:
    """Return row weights with mean 1 that give smaller weights to rows of large groups."""
    # By Kish's design effect, n rows of a group count as n / (1 + (n - 1) rho) independent rows.
    _, number, size = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    if (size == size[0]).all():
        return np.ones(len(number))
    weight = 1 / (1 + (size[number] - 1) * WITHIN)
    return np.asarray(weight / weight.mean())


@dataclass(frozen=True)
class Stack:
    """Calibration and weights of m models for c labels."""

    shares: Bools  # (m,), whether scores are 2 p - 1, where p is a share of trees
    centre: Floats  # (m, c); this and the next three attributes map scores to log-odds
    scale: Floats
    slope: Floats
    offset: Floats
    weights: Floats  # (m, c)
    common: Floats  # (m,), weights that all labels share
    intercept: Floats  # (c,)
    variance: Floats | float = 0.0  # (m, c), of the slopes; 0 in files of earlier versions

    @classmethod
    def fit(
        cls,
        scores: Floats,
        T: Signs,
        shares: Bools,
        weights: Floats | None = None,
        prior: Floats | None = None,  # (m,), target of the common weights; None for equal weights
    ) -> Self:
        """Fit a stack to scores (m, n, c; NaN if undefined), signs (n, c) and weights (n, c)."""
        scored: Bools = np.asarray(np.isfinite(scores).all(axis=0))
        known = (T != 0) & scored.any(axis=1, keepdims=True)
        step = max(1, int(known.sum() * len(scores) // MOST_ENTRIES))
        rows = known.any(axis=1)
        rows[np.flatnonzero(rows)[np.arange(rows.sum()) % step != 0]] = False
        place, weight = padded(known[rows])
        place, label = np.flatnonzero(rows)[place], np.arange(T.shape[1])[:, None]
        t = T[place, label].astype(np.float64)
        m, c = len(scores), T.shape[1]
        if weights is not None:
            weight *= weights[place, label]
        # Entries of folds that could not learn a label count for its rate, with the mean score.
        there = weight * scored[place, label]
        S = np.where(there > 0, _linked(scores[:, place, label], shares), 0.0)
        total = np.maximum(there.sum(axis=1), 1)
        centre = (there * S).sum(axis=2) / total
        S = np.where(there > 0, S - centre[:, :, None], 0.0)
        spread = (there * S**2).sum(axis=2) / total
        scale = np.sqrt(np.where(spread > 1e-24, spread, 1.0))
        S /= scale[:, :, None]
        rate = logit(((weight * (t > 0)).sum(axis=1) + 0.5) / (weight.sum(axis=1) + 1.0))
        slope, offset, variance = np.zeros((3, m, c))
        for j in range(m):
            found = fit_shrunk(S[[j]], t, weight, np.ones(1), rate, 0.1, HELD_SLOPE, 0.1)
            slope[j] = np.maximum(found.own[0], FLATTEST * found.common[0])
            offset[j], variance[j] = found.intercept, found.variance[0]
        curves = (values[:, :, None] for values in (offset, slope, variance))
        start = np.full(m, 1 / m) if prior is None else prior, np.zeros(c)
        firm = HELD_COMMON, HELD_WEIGHT, 3.0
        own, intercept, common, _ = fit_shrunk(_calibrated(S, *curves), t, weight, *start, *firm)
        return cls(shares, centre, scale, slope, offset, own, common, intercept, variance)

    @classmethod
    def plain(cls, n_labels: int) -> Self:
        """Return an uncalibrated stack of one least-squares model: ``p = (1 + tanh(s)) / 2``."""
        zero, one = np.zeros((1, n_labels)), np.ones((1, n_labels))
        return cls(np.zeros(1, dtype=bool), zero, one, 2 * one, zero, one, np.ones(1), zero[0])

    @property
    def effects(self) -> Floats:
        """Return the mean change (m,) of log-odds per standard deviation of a model's scores."""
        return np.asarray((self.weights * self.slope).mean(axis=1))

    def log_odds(self, scores: Floats) -> Floats:
        """Return log-odds (n, c) from the scores (m, n, c) of all models; NaN scores give NaN."""
        total = np.tile(self.intercept, (scores.shape[1], 1))
        variance = np.broadcast_to(self.variance, self.slope.shape)
        for j, S in enumerate(_linked(scores, self.shares)):
            Z = (S - self.centre[j]) / self.scale[j]
            total += self.weights[j] * _calibrated(Z, self.offset[j], self.slope[j], variance[j])
        return np.clip(total, -30.0, 30.0)


def _linked(scores: Floats, shares: Bools) -> Floats:
    p = SURE + (1 - 2 * SURE) * np.clip((1 + scores) / 2, 0.0, 1.0)
    return np.where(shares.reshape(-1, *[1] * (scores.ndim - 1)), logit(p), scores)


def _calibrated(Z: Floats, offset: Floats, slope: Floats, variance: Floats) -> Floats:
    return np.asarray(offset + slope * Z / np.sqrt(1 + np.pi / 8 * variance * Z**2))


class ShrunkWeights(NamedTuple):
    """Weights (m, c), intercepts (c,) and common weights (m,), with variances of the weights."""

    own: Floats
    intercept: Floats
    common: Floats
    variance: Floats  # (m, c)


def fit_shrunk(
    Z: Floats, t: Floats, weights: Floats, prior: Floats, rate: Floats, *held: float
) -> ShrunkWeights:
    """Fit weights of inputs ``Z`` (m, c, N) to signs ``t`` (c, N) with entry ``weights`` (c, N)."""
    # Penalties shrink common weights to ``prior``, weights of a label to common weights, and
    # intercepts to ``rate``.
    held_common, held_own, held_intercept = held
    (m, c, _), start = Z.shape, np.column_stack([rate, np.tile(prior, (len(rate), 1))])
    penalty = np.append(held_intercept, np.full(m, held_common / c))
    inputs, tol = np.stack([np.ones_like(t), *Z], axis=1), TOLERANCE * max(weights.sum(), 1.0)
    problem = LogisticProblem(inputs, t, weights, penalty, start, shared=True, nonnegative=True)
    W = problem.minimize(start, tol=tol)
    common = W[0, 1:].copy()
    if c > 1:
        penalty, goal = np.append(held_intercept, np.full(m, held_own)), W.copy()
        goal[:, 0] = rate
        problem = LogisticProblem(inputs, t, weights, penalty, goal, nonnegative=True)
        W = problem.minimize(W, tol=tol / c)
    covariance = np.linalg.inv(problem.hessian(problem.derivatives(W, problem.evaluate(W)[1])[1]))
    variance = np.diagonal(covariance, axis1=1, axis2=2)[:, 1:].T
    return ShrunkWeights(W[:, 1:].T.copy(), W[:, 0].copy(), common, variance)
