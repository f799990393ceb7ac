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
from scipy.optimize import minimize
from scipy.special import expit, logit

Floats = NDArray[np.float64]

# In units of the log-likelihood: how firmly a label is held to what all labels share, and all
# labels to equal weights.
HELD_SLOPE, HELD_WEIGHT, HELD_COMMON = 5.0, 100.0, 1.0
# A share of trees of 0 or 1 stands for less than certainty.
SURE = 0.005
# Entries of a fit; more cost time and gain nothing.
MOST_ENTRIES = 4_000_000
# Of the log-likelihood: less than a label can tell.
FTOL = 1e-7


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
        step = max(1, int(scores.size // MOST_ENTRIES))
        rows = known.any(axis=1)
        rows[np.flatnonzero(rows)[np.arange(rows.sum()) % step != 0]] = False
        S = _linked(scores[:, rows], shares)
        T, known = np.where(known, T, 0)[rows].astype(np.float64), known[rows]
        says = np.ones(1) if weights is None else weights[rows]
        count = np.maximum((says * known).sum(axis=0), 1)
        centre = np.where(known, says * S, 0.0).sum(axis=1) / count
        spread = np.where(known, says * (S - centre[:, None]) ** 2, 0.0).sum(axis=1) / count
        scale = np.sqrt(np.where(spread > 1e-24, spread, 1.0))
        Z = np.where(known, (S - centre[:, None]) / scale[:, None], 0.0)
        m, c = centre.shape
        rate = logit(((says * (T > 0)).sum(axis=0) + 0.5) / (count + 1.0))
        slope, offset = np.zeros((m, c)), np.zeros((m, c))
        for j in range(m):
            slope[j : j + 1], offset[j], _ = _held(
                Z[j : j + 1], T, rate, np.ones(1), 0.1, HELD_SLOPE, 0.1, says
            )
        L = np.where(known, offset[:, None] + slope[:, None] * Z, 0.0)
        weights, intercept, common = _held(
            L, T, np.zeros(c), np.full(m, 1 / m), HELD_COMMON, HELD_WEIGHT, 3.0, says
        )
        return cls(shares, centre, scale, slope, offset, weights, common, intercept)

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
    return np.where(shares[:, None, None], logit(p), scores)


def _held(
    Z: Floats,
    T: Floats,
    b: Floats,
    prior: Floats,
    held_common: float,
    held_own: float,
    held_intercept: float,
    says: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Logistic regressions, one a label, held to one that all share; weights are not negative.

    Entries count as ``says`` says. Returns weights (m, c), intercepts (c,), common weights (m,).
    """
    m, c = len(Z), T.shape[1]

    def loss(W: Floats, b: Floats) -> tuple[float, Floats]:
        eta = b + np.einsum("mnc,mc->nc", Z, W)
        margin = T * eta
        value = float((says * np.logaddexp(0.0, -margin))[T != 0].sum())
        return value, -T * says * expit(-margin)

    def minimise(start: Floats, held: Floats, firm: float, shared: bool) -> Floats:
        size = m if shared else m * c

        def objective(x: Floats) -> tuple[float, Floats]:
            w, own = x[:size], x[size:]
            W = np.tile(w[:, None], (1, c)) if shared else w.reshape(m, c)
            value, g = loss(W, own)
            value += 0.5 * firm * np.sum((w - held) ** 2)
            value += 0.5 * held_intercept * np.sum((own - b) ** 2)
            by_label = np.einsum("mnc,nc->mc", Z, g)
            gw = (by_label.sum(axis=1) if shared else by_label.ravel()) + firm * (w - held)
            return value, np.concatenate([gw, g.sum(axis=0) + held_intercept * (own - b)])

        bounds = [(0.0, None)] * size + [(None, None)] * c
        found = minimize(
            objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": FTOL}
        )
        return np.asarray(found.x, dtype=np.float64)

    x = minimise(np.concatenate([prior, b]), prior, held_common, True)
    common = x[:m]
    if c == 1:
        return common[:, None], x[m:], common
    wide = np.repeat(common, c)
    x = minimise(np.concatenate([wide, x[m:]]), wide, held_own, False)
    return x[: m * c].reshape(m, c), x[m * c :], common
