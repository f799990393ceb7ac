r"""Penalized logistic regressions of all labels by Newton's method.

The weights :math:`w_k` of the labels k minimize the sum over labels of

.. math:: \sum_i v_{ik} \log(1 + e^{-t_{ik} (o_{ik} + w_k' z_{ik})})
          + \tfrac12 \sum_a \pi_a (w_{ka} - g_{ka})^2,

with signs t, entry weights v, offsets o, penalties :math:`\pi` and targets g.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
# A step that increases the objective is multiplied by SHORTER, up to this number of times.
SHORTER, SHORTENINGS = 0.25, 10


@dataclass
class LogisticProblem:
    """Data of one regression per label, padded to equal lengths with entries of weight zero."""

    Z: Floats  # (c, p, N), the inputs
    t: Floats  # (c, N), the signs
    weights: Floats  # (c, N)
    penalty: Floats  # (p,)
    goal: Floats  # (c, p) or (p,)
    offset: Floats | float = 0.0
    shared: bool = False  # whether labels share all weights except the first, the intercept
    nonnegative: bool = False  # whether all weights except the intercept must be nonnegative

    def scores(self, W: Floats) -> Floats:
        """Return the log-odds of the entries, without the offset, as an array of shape (c, N)."""
        return np.asarray((W[:, None, :] @ self.Z)[:, 0])

    def products(self, U: Floats) -> Floats:
        """Sum each label's features over entries, weighted by ``U``; the sums have shape (c, p)."""
        return np.asarray((self.Z @ U[:, :, None])[:, :, 0])

    def evaluate(self, W: Floats) -> tuple[Floats, Floats]:
        """Return each label's objective, and the margins of its entries as rows of a matrix."""
        margin = self.t * (self.scores(W) + self.offset)
        loss = np.log1p(np.exp(-np.abs(margin))) + np.maximum(-margin, 0.0)
        return (self.weights * loss).sum(axis=1) + 0.5 * (W - self.goal) ** 2 @ self.penalty, margin

    def derivatives(self, W: Floats, margin: Floats) -> tuple[Floats, Floats]:
        """Return the gradient of each label's objective, and each loss's second derivative."""
        wrong = 0.5 - 0.5 * np.tanh(0.5 * margin)
        pull = wrong * self.weights
        gradient = self.penalty * (W - self.goal) - self.products(self.t * pull)
        return gradient, pull * (1.0 - wrong)

    def hessian(self, bend: Floats) -> Floats:
        """Return the Hessian of each label's objective, given each loss's second derivative."""
        H: Any = (self.Z * bend[:, None, :]) @ self.Z.transpose(0, 2, 1)
        return np.asarray(H + np.diag(self.penalty[: H.shape[1]]))

    def step(self, gradient: Floats, bend: Floats, fixed: Bools) -> Floats:
        """Return the Newton step for the weights that are not ``fixed``."""
        H = self.hessian(bend)
        if self.shared:
            # No entry has the intercepts of two labels, so each intercept is eliminated separately.
            own, across, free = H[:, 0, 0], H[:, 0, 1:], ~fixed[0, 1:]
            ratio = across / own[:, None]
            common = (H[:, 1:, 1:] - ratio[:, :, None] * across[:, None, :]).sum(axis=0)
            g = (gradient[:, 1:] - ratio * gradient[:, :1]).sum(axis=0)
            slopes = np.zeros(len(g))
            slopes[free] = -np.linalg.solve(common[np.ix_(free, free)], g[free])
            first = -gradient[:, 0] / own - ratio @ slopes
            return np.hstack([first[:, None], np.tile(slopes, (len(first), 1))])
        if fixed.any():
            H[fixed[:, :, None] | fixed[:, None, :]] = 0.0
            H[fixed[:, :, None] & np.eye(fixed.shape[1], dtype=bool)] = 1.0
        return np.asarray(-np.linalg.solve(H, np.where(fixed, 0.0, gradient)[:, :, None])[:, :, 0])

    def minimize(self, W: Floats, *, tol: float, steps: int = 50) -> Floats:
        """Return weights of shape (c, p); stop when a step lowers no objective by ``tol``."""
        loss, margin = self.evaluate(W)
        for _ in range(steps):
            gradient, bend = self.derivatives(W, margin)
            slope = gradient.sum(axis=0) if self.shared else gradient
            fixed = self.nonnegative & (W <= 0) & (slope >= 0)
            fixed[:, 0] = False
            start, before, step = W, loss, self.step(gradient, bend, fixed)
            # A full Newton step can be too long for rare labels.
            for _ in range(SHORTENINGS):
                W = start + step
                if self.nonnegative:
                    W[:, 1:] = np.maximum(W[:, 1:], 0.0)
                loss, margin = self.evaluate(W)
                gain = before - loss
                if self.shared:
                    gain[:] = gain.sum()
                worse = gain < -1e-9
                if not worse.any():
                    break
                step[worse] *= SHORTER
            if gain.max(initial=0.0) < tol:
                break
        return W


def padded(known: Bools) -> tuple[NDArray[np.intp], Floats]:
    """Return padded row numbers of each label's known entries, and weights (0 for padding)."""
    rows = np.argsort(~known, axis=0, kind="stable")[: known.sum(axis=0).max(initial=0)].T
    return rows, np.take_along_axis(known.T, rows, axis=1).astype(np.float64)
