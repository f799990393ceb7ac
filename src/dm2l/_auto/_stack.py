r"""Stacking: calibrated and weighted sums of the scores of the base models.

With the score :math:`s_{ikm}` of row i, label k and model m, standardized by label,

.. math:: z_{ikm} = b_{km} + a_{km} s_{ikm}, \qquad
          \log\frac{p_{ik}}{1 - p_{ik}} = \beta_k + \sum_m w_{km} z_{ikm}, \qquad a, w \ge 0.

Both are logistic regressions on out-of-fold scores of observed labels,

.. math:: \min_{w, b} \sum_{ik} \ell(b_k + w'z_{ik}) + \tfrac{\gamma}{2} \|w - w_0\|^2
          + \tfrac{\eta}{2} \sum_k (b_k - \beta_k)^2

for weights :math:`w` that all labels share. The weights :math:`w_k` of each label are then shrunk
towards :math:`w`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Penalties in units of the log-likelihood. The first is on differences between a label's slopes and
# weights and the common ones, the second on differences between the common weights and equal
# weights, which keeps them nearly equal where positives are few (benchmarks/small_samples.py).
HELD_SLOPE, HELD_WEIGHT, HELD_COMMON = 5.0, 100.0, 100.0
# Smallest allowed slope of a label relative to the common slope. Negative slopes are mostly due to
# chance and would make the scores of all rows equal (benchmarks/study.py, Arts).
FLATTEST = 0.01
# Shares of trees are scaled to the range from this value to one minus this value.
SURE = 0.005
# Largest number of entries of a fit; more take longer without improving it.
MOST_ENTRIES = 4_000_000
# Correlation within a group, by which no group counts for more than ten single rows
# (benchmarks/groups.py).
WITHIN = 0.1
# Relative decrease of the objective at which steps end, most steps, and the shortest step.
TOLERANCE, MOST_STEPS, SHORTEST = 1e-9, 50, 1e-6


def row_weights(groups: Any) -> Floats:
    """Weights of rows, 1 on average, for predictions of new groups."""
    # By Kish's design effect, n rows of a group count as n / (1 + (n - 1) rho) independent rows.
    # Scores of a new group are shifted, and with equal weights the stack would fit to the shift of
    # a large group.
    _, number, size = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    if (size == size[0]).all():
        return np.ones(len(number))
    weight = 1 / (1 + (size[number] - 1) * WITHIN)
    return np.asarray(weight / weight.mean())


@dataclass(frozen=True)
class Stack:
    """Calibration and weights of m models for c labels."""

    shares: Bools  # (m,), whether scores are 2 p - 1 with a share p of trees
    centre: Floats  # (m, c), like the next three, which map scores to log-odds
    scale: Floats
    slope: Floats
    offset: Floats
    weights: Floats  # (m, c)
    common: Floats  # (m,), weights that all labels share
    intercept: Floats  # (c,)

    @classmethod
    def fit(
        cls, scores: Floats, T: NDArray[Any], shares: Bools, weights: Floats | None = None
    ) -> Self:
        """Fit to out-of-fold scores (m, n, c), with NaN where absent, signs and weights (n, c)."""
        known = (T != 0) & np.isfinite(scores).all(axis=0)
        step = max(1, int(known.sum() * len(scores) // MOST_ENTRIES))
        rows = known.any(axis=1)
        rows[np.flatnonzero(rows)[np.arange(rows.sum()) % step != 0]] = False
        # Entries are sorted by label.
        label, place = np.nonzero(known[rows].T)
        place, count = np.flatnonzero(rows)[place], known[rows].sum(axis=0)
        t = T[place, label].astype(np.float64)
        S = _linked(scores[:, place, label], shares)
        m, c = len(scores), T.shape[1]
        weight = np.ones(len(t)) if weights is None else weights[place, label]
        total = np.maximum(np.bincount(label, weight, c), 1)

        def mean(values: Floats) -> Floats:
            return np.array([np.bincount(label, weight * row, c) for row in values]) / total

        centre = mean(S)
        spread = mean((S - centre[:, label]) ** 2)
        scale = np.sqrt(np.where(spread > 1e-24, spread, 1.0))
        Z = (S - centre[:, label]) / scale[:, label]
        rate = logit((np.bincount(label, weight * (t > 0), c) + 0.5) / (total + 1.0))
        slope, offset = np.zeros((m, c)), np.zeros((m, c))
        for j in range(m):
            shrinkage = Shrinkage(np.ones(1), rate, 0.1, HELD_SLOPE, 0.1)
            own, offset[j], common = fit_logistic(
                ObservedEntries(Z[j : j + 1], t, count, weight), shrinkage
            )
            slope[j] = np.maximum(own[0], FLATTEST * common[0])
        L = offset[:, label] + slope[:, label] * Z
        shrinkage = Shrinkage(np.full(m, 1 / m), np.zeros(c), HELD_COMMON, HELD_WEIGHT, 3.0)
        own, intercept, common = fit_logistic(ObservedEntries(L, t, count, weight), shrinkage)
        return cls(shares, centre, scale, slope, offset, own, common, intercept)

    @classmethod
    def plain(cls, n_labels: int) -> Self:
        """Stack of a single least-squares model without calibration: ``p = (1 + tanh(s)) / 2``."""
        zero, one = np.zeros((1, n_labels)), np.ones((1, n_labels))
        common, intercept = np.ones(1), np.zeros(n_labels)
        return cls(np.zeros(1, dtype=bool), zero, one, 2 * one, zero, one, common, intercept)

    @property
    def effects(self) -> Floats:
        """Mean effect (m,) of one standard deviation of the scores of each model."""
        return np.asarray((self.weights * self.slope).mean(axis=1))

    def log_odds(self, scores: Floats) -> Floats:
        """Log-odds (n, c) from the scores (m, n, c) of all models; NaN where a score is NaN."""
        total = np.tile(self.intercept, (scores.shape[1], 1))
        for j, S in enumerate(_linked(scores, self.shares)):
            Z = (S - self.centre[j]) / self.scale[j]
            total += self.weights[j] * (self.offset[j] + self.slope[j] * Z)
        return np.clip(total, -30.0, 30.0)


def _linked(scores: Floats, shares: Bools) -> Floats:
    p = SURE + (1 - 2 * SURE) * np.clip((1 + scores) / 2, 0.0, 1.0)
    return np.where(shares.reshape(-1, *[1] * (scores.ndim - 1)), logit(p), scores)


class Shrinkage(NamedTuple):
    """Targets of the common weights and of the intercepts, and the strength of each penalty."""

    prior: Floats  # target of the common weights
    rate: Floats  # target of the intercepts
    common: float
    own: float  # penalty of the weights of a label, whose target is the common weights
    intercept: float


class ObservedEntries:
    """Observed entries sorted by label: scores (m, N), signs (N,), and their count per label."""

    def __init__(
        self, Z: Floats, t: Floats, count: NDArray[np.intp], weights: Floats | None = None
    ) -> None:
        self._rows = [*Z, np.ones(len(t))]  # the last row belongs to the intercept
        self._t, self._count = t, count
        self._weights = np.ones(len(t)) if weights is None else weights
        self._label = np.repeat(np.arange(len(count)), count)

    def terms(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Log loss (c,), its gradient (c, m + 1) and its second derivatives at ``theta``."""

        def by_label(values: Floats) -> Floats:
            sums = np.bincount(self._label, values, len(self._count))
            return sums.astype(np.float64)

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
            gradient[:, a] = by_label(row * slope)
            bent = row * bend
            for b in range(a + 1):
                curvature[:, a, b] = curvature[:, b, a] = by_label(bent * self._rows[b])
        return by_label(loss), gradient, curvature


def fit_logistic(entries: ObservedEntries, shrinkage: Shrinkage) -> tuple[Floats, Floats, Floats]:
    """Weights (m, c), intercepts (c,) and common weights (m,)."""
    common, b = _fit_shared(entries, shrinkage)
    theta = np.column_stack([np.tile(common, (len(b), 1)), b])
    if len(b) > 1:
        theta = _fit_own(entries, shrinkage, theta)
    return theta[:, :-1].T.copy(), theta[:, -1].copy(), common


def _fit_shared(entries: ObservedEntries, shrinkage: Shrinkage) -> tuple[Floats, Floats]:
    m, c = len(shrinkage.prior), len(shrinkage.rate)

    def at(w: Floats, b: Floats) -> tuple[float, Floats, Floats]:
        loss, gradient, curvature = entries.terms(np.column_stack([np.tile(w, (c, 1)), b]))
        apart = shrinkage.common * np.sum((w - shrinkage.prior) ** 2)
        apart += shrinkage.intercept * np.sum((b - shrinkage.rate) ** 2)
        return float(loss.sum() + apart / 2), gradient, curvature

    w, b = shrinkage.prior, shrinkage.rate
    value, gradient, curvature = at(w, b)
    for _ in range(MOST_STEPS):
        gw = gradient[:, :m].sum(axis=0) + shrinkage.common * (w - shrinkage.prior)
        gb = gradient[:, m] + shrinkage.intercept * (b - shrinkage.rate)
        # No entry has the intercepts of two labels, so each is eliminated on its own.
        own, across = curvature[:, m, m] + shrinkage.intercept, curvature[:, :m, m]
        H = curvature[:, :m, :m].sum(axis=0) + shrinkage.common * np.eye(m)
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
            value, gradient, curvature = at(*there)
            if value <= before:
                break
            size /= 2
        w, b = there
    return w, b


def _fit_own(entries: ObservedEntries, shrinkage: Shrinkage, theta: Floats) -> Floats:
    m = len(shrinkage.prior)
    goal = np.column_stack([theta[:, :m], shrinkage.rate])
    firm = np.append(np.full(m, shrinkage.own), shrinkage.intercept)

    def at(theta: Floats) -> tuple[Floats, Floats, Floats]:
        loss, gradient, curvature = entries.terms(theta)
        apart = loss + (firm * (theta - goal) ** 2).sum(axis=1) / 2
        return apart, gradient + firm * (theta - goal), curvature

    value, gradient, curvature = at(theta)
    for _ in range(MOST_STEPS):
        fixed = (theta <= 0) & (gradient >= 0)
        fixed[:, m] = False
        H = curvature + np.diag(firm)
        H[fixed[:, :, None] | fixed[:, None, :]] = 0.0
        H[fixed[:, :, None] & np.eye(m + 1, dtype=bool)] = 1.0
        step = -np.linalg.solve(H, np.where(fixed, 0.0, gradient)[:, :, None])[:, :, 0]
        if -(gradient * step).sum() <= TOLERANCE * max(value.sum(), 1.0):
            break
        size, before, start = np.ones((len(theta), 1)), value, theta
        while size.max() > SHORTEST:
            theta = start + size * step
            theta[:, :m] = np.maximum(theta[:, :m], 0.0)
            value, gradient, curvature = at(theta)
            worse = value > before * (1 + 1e-12)
            if not worse.any():
                break
            size = np.where(worse[:, None], size / 2, size)
    return theta
