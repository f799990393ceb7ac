r"""Stacking: scores of the base models on one scale, and the weights of their sum.

With the score :math:`s_{ikm}` of row i, label k and model m, standardised by label,

.. math:: z_{ikm} = b_{km} + a_{km} s_{ikm}, \qquad
          \log\frac{p_{ik}}{1 - p_{ik}} = \beta_k + \sum_m w_{km} z_{ikm}, \qquad a, w \ge 0.

Both are logistic regressions on held-out scores of observed labels; the slopes and the weights of
a label are shrunk to those that all labels share, which a label with five positives mostly uses,
while one with five hundred has its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from dm2l._auto._logistic import ObservedEntries, Shrinkage, fit_logistic

Floats = NDArray[np.float64]

# Penalties, in units of the log-likelihood: of slopes and weights of a label that differ from the
# common ones, and of common weights that differ from equal ones.
HELD_SLOPE, HELD_WEIGHT, HELD_COMMON = 5.0, 100.0, 1.0
# Least slope of a label, relative to the common one: held-out scores that fall with the label,
# mostly by chance, must not make all rows equal (benchmarks/study.py, Arts).
FLATTEST = 0.01
# Shares of trees of 0 and 1 become this, and 1 less this.
SURE = 0.005
# Entries of a fit; more cost time and gain nothing.
MOST_ENTRIES = 4_000_000
# Correlation within a group: however large, a group counts for at most ten single rows
# (benchmarks/groups.py).
WITHIN = 0.1


def row_weights(groups: Any) -> Floats:
    r"""Weights of the rows, 1 on average, where predictions are for new groups.

    Rows of a group of size n count for :math:`n / (1 + (n - 1) \rho)` independent ones: Kish's
    design effect, with :math:`\rho` = :data:`WITHIN`. Scores of models that never saw a group are
    off by a shift, to which a large group would fit the stack if all rows counted alike.
    """
    _, number, size = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    if (size == size[0]).all():
        return np.ones(len(number))
    weight = 1 / (1 + (size[number] - 1) * WITHIN)
    return np.asarray(weight / weight.mean())


@dataclass(frozen=True)
class Stack:
    """Calibrated and weighted scores of m models for c labels."""

    shares: NDArray[np.bool_]  # (m,), models whose scores are 2 p - 1 with a share p of trees
    centre: Floats  # (m, c), as are the next three: from scores to log-odds
    scale: Floats
    slope: Floats
    offset: Floats
    weights: Floats  # (m, c)
    common: Floats  # (m,), weights that all labels share
    intercept: Floats  # (c,)

    @classmethod
    def fit(
        cls,
        scores: Floats,
        T: NDArray[Any],
        shares: NDArray[np.bool_],
        weights: Floats | None = None,
    ) -> Self:
        """Fit to held-out scores (m, n, c), NaN where there are none, signs and weights (n, c)."""
        known = (T != 0) & np.isfinite(scores).all(axis=0)
        step = max(1, int(known.sum() * len(scores) // MOST_ENTRIES))
        rows = known.any(axis=1)
        rows[np.flatnonzero(rows)[np.arange(rows.sum()) % step != 0]] = False
        # Entries of a label follow each other.
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
        """A single least-squares model without calibration: ``p = (1 + tanh(s)) / 2``."""
        zero, one = np.zeros((1, n_labels)), np.ones((1, n_labels))
        common, intercept = np.ones(1), np.zeros(n_labels)
        return cls(np.zeros(1, dtype=bool), zero, one, 2 * one, zero, one, common, intercept)

    def log_odds(self, scores: Floats) -> Floats:
        """Log-odds (n, c) from the scores (m, n, c) of all models; NaN where one has none."""
        total = np.tile(self.intercept, (scores.shape[1], 1))
        for j, S in enumerate(_linked(scores, self.shares)):
            Z = (S - self.centre[j]) / self.scale[j]
            total += self.weights[j] * (self.offset[j] + self.slope[j] * Z)
        return np.clip(total, -30.0, 30.0)


def _linked(scores: Floats, shares: NDArray[np.bool_]) -> Floats:
    p = SURE + (1 - 2 * SURE) * np.clip((1 + scores) / 2, 0.0, 1.0)
    return np.where(shares.reshape(-1, *[1] * (scores.ndim - 1)), logit(p), scores)
