r"""Models combined: their scores on one scale, and the weights with which they are added.

With the score :math:`s_{ikm}` of row i, label k and model m, standardised by label,

.. math:: z_{ikm} = b_{km} + a_{km} s_{ikm}, \qquad
          \log\frac{p_{ik}}{1 - p_{ik}} = \beta_k + \sum_m w_{km} z_{ikm}, \qquad a, w \ge 0.

Both are logistic regressions on held-out scores of observed labels; the slopes and the weights of
a label are held to those that all labels share, so that a label with five positives borrows them
and one with five hundred has its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from dm2l._auto._logistic import Entries, Held, fit_held

Floats = NDArray[np.float64]

# In units of the log-likelihood: how firmly a label is held to what all labels share, and all
# labels to equal weights.
HELD_SLOPE, HELD_WEIGHT, HELD_COMMON = 5.0, 100.0, 1.0
# Of the slope that all labels share, what a label has at least. Held-out scores that do not rise
# with its answers, by chance as a rule, make a curve flat, not rows equal: their order stays (Arts,
# linear model, 30 % of the labels: label AUC 0.661 without, 0.669 with).
FLATTEST = 0.01
# A share of trees of 0 or 1 stands for less than certainty.
SURE = 0.005
# Entries of a fit; more cost time and gain nothing.
MOST_ENTRIES = 4_000_000


@dataclass(frozen=True)
class Stack:
    """Calibrated and weighted scores of several models.

    Parameters
    ----------
    shares : ndarray of shape (m,), bool
        Models whose scores are ``2 p - 1`` with p a share of trees.
    centre, scale, slope, offset : ndarray of shape (m, c)
        From scores to log-odds.
    weights : ndarray of shape (m, c)
        Of the models.
    common : ndarray of shape (m,)
        Weights that all labels share, before they got their own.
    intercept : ndarray of shape (c,)
        Of the labels.
    """

    shares: NDArray[np.bool_]
    centre: Floats
    scale: Floats
    slope: Floats
    offset: Floats
    weights: Floats
    common: Floats
    intercept: Floats

    @classmethod
    def fit(
        cls,
        scores: Floats,
        T: NDArray[Any],
        shares: NDArray[np.bool_],
        weights: Floats | None = None,
    ) -> Self:
        """Fit to held-out scores (m, n, c), NaN where there are none, and signs (n, c).

        ``weights`` (n, c) say how much entries count.
        """
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
        says = np.ones(len(t)) if weights is None else weights[place, label]
        total = np.maximum(np.bincount(label, says, c), 1)

        def mean(values: Floats) -> Floats:
            return np.array([np.bincount(label, says * row, c) for row in values]) / total

        centre = mean(S)
        spread = mean((S - centre[:, label]) ** 2)
        scale = np.sqrt(np.where(spread > 1e-24, spread, 1.0))
        Z = (S - centre[:, label]) / scale[:, label]
        rate = logit((np.bincount(label, says * (t > 0), c) + 0.5) / (total + 1.0))
        slope, offset = np.zeros((m, c)), np.zeros((m, c))
        for j in range(m):
            held = Held(np.ones(1), rate, 0.1, HELD_SLOPE, 0.1)
            own, offset[j], common = fit_held(Entries(Z[j : j + 1], t, count, says), held)
            slope[j] = np.maximum(own[0], FLATTEST * common[0])
        L = offset[:, label] + slope[:, label] * Z
        held = Held(np.full(m, 1 / m), np.zeros(c), HELD_COMMON, HELD_WEIGHT, 3.0)
        own, intercept, common = fit_held(Entries(L, t, count, says), held)
        return cls(shares, centre, scale, slope, offset, own, common, intercept)

    @classmethod
    def plain(cls, n_labels: int) -> Self:
        """One model of the least-squares kind, not calibrated: ``p = (1 + tanh(s)) / 2``."""
        zero, one = np.zeros((1, n_labels)), np.ones((1, n_labels))
        common, intercept = np.ones(1), np.zeros(n_labels)
        return cls(np.zeros(1, dtype=bool), zero, one, 2 * one, zero, one, common, intercept)

    def log_odds(self, scores: Floats) -> Floats:
        """Of every entry, from the scores (m, n, c) of all models; NaN where one has none."""
        total = np.tile(self.intercept, (scores.shape[1], 1))
        for j, S in enumerate(_linked(scores, self.shares)):
            Z = (S - self.centre[j]) / self.scale[j]
            total += self.weights[j] * (self.offset[j] + self.slope[j] * Z)
        return np.clip(total, -30.0, 30.0)


def _linked(scores: Floats, shares: NDArray[np.bool_]) -> Floats:
    p = SURE + (1 - 2 * SURE) * np.clip((1 + scores) / 2, 0.0, 1.0)
    return np.where(shares.reshape(-1, *[1] * (scores.ndim - 1)), logit(p), scores)
