r"""Logistic regressions of many labels, shrunk to one that all share, by Newton's method.

With weights :math:`w_k \ge 0` and intercept :math:`b_k` of label k, two problems in turn:

.. math:: \min_{w, b} \sum_{ik} \ell(b_k + w'z_{ik}) + \tfrac{\gamma}{2} \|w - w_0\|^2
          + \tfrac{\eta}{2} \sum_k (b_k - \beta_k)^2

for weights that all labels share, and the same with :math:`w_k` shrunk to that :math:`w`. Both need
only sums of observed entries by label: a step solves a small system for each label.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Least gain in log-likelihood of a step that another one follows.
TOLERANCE = 1e-9
MOST_STEPS = 50
SHORTEST = 1e-6  # of a full step


class Shrinkage(NamedTuple):
    """Targets of the common weights and the intercepts, and the strength of each penalty."""

    prior: Floats  # of the common weights
    rate: Floats  # of the intercepts
    common: float
    own: float  # of the weights of a label, whose target is the common weights
    intercept: float


class LossTerms(NamedTuple):
    """Log-loss by label (c,), its gradient (c, m + 1) and its second derivatives."""

    loss: Floats
    gradient: Floats
    curvature: Floats


class ObservedEntries:
    """Observed entries, grouped by label: ``Z`` (m, N), ``t`` (N,) and their numbers by label."""

    def __init__(
        self, Z: Floats, t: Floats, count: NDArray[np.intp], weights: Floats | None = None
    ) -> None:
        self._rows = [*Z, np.ones(len(t))]  # the last is the intercept's
        self._t, self._count = t, count
        self._weights = np.ones(len(t)) if weights is None else weights
        self._label = np.repeat(np.arange(len(count)), count)

    def terms(self, theta: Floats) -> LossTerms:
        """At weights and intercepts (c, m + 1)."""
        eta = np.zeros(len(self._t))
        for row, own in zip(self._rows, theta.T, strict=True):
            eta += row * np.repeat(own, self._count)
        margin = self._t * eta
        small = np.exp(-np.abs(margin))
        loss = self._weights * (np.log1p(small) + np.maximum(-margin, 0.0))
        wrong = np.where(margin > 0, small, 1.0) / (1.0 + small)
        slope, bend = -self._t * wrong * self._weights, wrong * (1.0 - wrong) * self._weights
        c, size = theta.shape
        gradient, curvature = np.empty((c, size)), np.empty((c, size, size))
        for a, row in enumerate(self._rows):
            gradient[:, a] = self._sum(row * slope)
            bent = row * bend
            for b in range(a + 1):
                curvature[:, a, b] = curvature[:, b, a] = self._sum(bent * self._rows[b])
        return LossTerms(self._sum(loss), gradient, curvature)

    def _sum(self, values: Floats) -> Floats:
        return np.bincount(self._label, values, len(self._count)).astype(np.float64)


def fit_logistic(entries: ObservedEntries, shrinkage: Shrinkage) -> tuple[Floats, Floats, Floats]:
    """Weights (m, c), intercepts (c,) and common weights (m,)."""
    common, b = _fit_shared(entries, shrinkage)
    theta = np.column_stack([np.tile(common, (len(b), 1)), b])
    if len(b) > 1:
        theta = _fit_own(entries, shrinkage, theta)
    return theta[:, :-1].T.copy(), theta[:, -1].copy(), common


def _fit_shared(entries: ObservedEntries, shrinkage: Shrinkage) -> tuple[Floats, Floats]:
    m, c = len(shrinkage.prior), len(shrinkage.rate)

    def at(w: Floats, b: Floats) -> tuple[float, LossTerms]:
        found = entries.terms(np.column_stack([np.tile(w, (c, 1)), b]))
        apart = shrinkage.common * np.sum((w - shrinkage.prior) ** 2)
        apart += shrinkage.intercept * np.sum((b - shrinkage.rate) ** 2)
        return float(found.loss.sum() + apart / 2), found

    w, b = shrinkage.prior, shrinkage.rate
    value, found = at(w, b)
    for _ in range(MOST_STEPS):
        gw = found.gradient[:, :m].sum(axis=0) + shrinkage.common * (w - shrinkage.prior)
        gb = found.gradient[:, m] + shrinkage.intercept * (b - shrinkage.rate)
        # Intercepts of different labels do not meet: they are eliminated one by one.
        own, across = found.curvature[:, m, m] + shrinkage.intercept, found.curvature[:, :m, m]
        H = found.curvature[:, :m, :m].sum(axis=0) + shrinkage.common * np.eye(m)
        H -= (across / own[:, None]).T @ across
        free = (w > 0) | (gw < 0)
        dw = np.zeros(m)
        dw[free] = -np.linalg.solve(H[np.ix_(free, free)], (gw - across.T @ (gb / own))[free])
        db = -(gb + across @ dw) / own
        if -(gw @ dw + gb @ db) <= TOLERANCE * max(value, 1.0):
            break
        size, before = 1.0, value
        while size > SHORTEST:
            there = np.maximum(w + size * dw, 0.0), b + size * db
            value, found = at(*there)
            if value <= before:
                break
            size /= 2
        w, b = there
    return w, b


def _fit_own(entries: ObservedEntries, shrinkage: Shrinkage, theta: Floats) -> Floats:
    m = len(shrinkage.prior)
    goal = np.column_stack([theta[:, :m], shrinkage.rate])
    firm = np.append(np.full(m, shrinkage.own), shrinkage.intercept)

    def at(theta: Floats) -> tuple[Floats, LossTerms]:
        found = entries.terms(theta)
        return found.loss + (firm * (theta - goal) ** 2).sum(axis=1) / 2, found

    value, found = at(theta)
    for _ in range(MOST_STEPS):
        gradient = found.gradient + firm * (theta - goal)
        fixed = (theta <= 0) & (gradient >= 0)
        fixed[:, m] = False
        H = found.curvature + np.diag(firm)
        H[fixed[:, :, None] | fixed[:, None, :]] = 0.0
        H[fixed[:, :, None] & np.eye(m + 1, dtype=bool)] = 1.0
        step = -np.linalg.solve(H, np.where(fixed, 0.0, gradient)[:, :, None])[:, :, 0]
        if -(gradient * step).sum() <= TOLERANCE * max(value.sum(), 1.0):
            break
        size, before, start = np.ones((len(theta), 1)), value, theta
        while size.max() > SHORTEST:
            theta = start + size * step
            theta[:, :m] = np.maximum(theta[:, :m], 0.0)
            value, found = at(theta)
            worse = value > before * (1 + 1e-12)
            if not worse.any():
                break
            size = np.where(worse[:, None], size / 2, size)
    return theta
