"""Sums over rows from sufficient statistics: the rows themselves are never needed again."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np

from dm2l.scale._gram_problem import Array, Scores, Sums
from dm2l.scale._statistics import SufficientStatistics
from dm2l.solvers import solve_normal
from dm2l.threads import WORTH_SHARING, run_all


class StatisticsSums(Sums):
    """Scores' Gram matrices ``W'G_kW``, about ``2 c^2 d^2`` operations an evaluation.

    Parameters
    ----------
    statistics : SufficientStatistics
        Of the rows; not changed, not copied where every label can be learnt.
    intercept : bool
        Whether the model has one.
    workers : int, default=1
        Threads.
    """

    def __init__(self, statistics: SufficientStatistics, intercept: bool, workers: int = 1) -> None:
        chosen, groups = statistics.learnable, statistics.groups
        self.intercept = intercept
        self.H = statistics.H if chosen.all() else statistics.H[chosen]
        self.G = statistics.G if groups.all() else statistics.G[groups]
        self._covered = statistics.covered
        self._border = 2.0 * statistics.G[chosen, :, -1] - self.H[:, :, -1]  # positives - negatives
        self.offset = statistics.offset
        self._total = statistics.rows.gram
        self.heights = self.G[:, -1, -1].copy()
        self.ranks = statistics.positives[groups]
        counts = self.H[:, -1, -1]
        self.weight = statistics.weight
        self.n_labels = int(chosen.sum())
        complete = (statistics.positives + statistics.negatives)[chosen]
        self.rho = float(counts.sum()) / (self.weight * self.n_labels)
        if np.all(complete == complete.max()) and np.isclose(self.rho, 1.0, rtol=1e-12):
            self.rho = 1.0  # the preconditioner wants to know exactly
        self.at_zero = 0.5 * float(counts.sum())
        self.size = statistics.n_features + int(intercept)
        self._workers = workers

    def _lift(self, W: Array) -> Array:
        """Without an intercept the offset comes back as one: ``XW = (X - 1o')W + 1 o'W``."""
        return W if self.intercept else np.vstack([W, self.offset @ W])

    def _lower(self, gradient: Array) -> Array:
        if self.intercept:
            return gradient
        return np.asarray(gradient[:-1] + np.outer(self.offset, gradient[-1]))

    def right(self) -> Array:
        """``Phi'T``."""
        return self._lower(self._border.T)

    def product(self, W: Array) -> Array:
        """``H_j w_j`` for every label."""
        return self._lower(self._observed(self._lift(W)))

    def _observed(self, U: Array) -> Array:
        return np.matmul(self.H, U.T[:, :, None])[:, :, 0].T

    def scores(self, W: Array, norms: bool) -> Scores:
        """Loss and Gram matrices of the scores."""
        U = self._lift(W)
        HU = self._observed(U)
        loss = 0.5 * float(np.sum(U * HU)) - float(np.sum(U * self._border.T)) + self.at_zero
        if not norms:
            return Scores(loss, np.empty((0, 0, 0)), (HU, None))
        c = U.shape[1]
        GU = np.empty((len(self.G) + 1, len(U), c))
        grams = np.empty((len(self.G) + 1, c, c))

        def part(some: slice) -> None:
            flat = self.G[some].reshape(-1, len(U))
            np.matmul(flat, U, out=GU[some].reshape(-1, c))
            np.matmul(U.T, GU[some], out=grams[some])

        self._share(part)
        GU[-1] = self._covered @ U
        grams[-1] = U.T @ GU[-1]
        return Scores(loss, grams, (HU, GU))

    def _share(self, task: Any) -> None:
        """Groups in parts, by threads where there is enough to do."""
        work = self.G.size * self.n_labels
        parts = 4 * self._workers if self._workers > 1 and work > WORTH_SHARING else 1
        borders = np.linspace(0, len(self.G), parts + 1).astype(int)
        slices = [slice(a, b) for a, b in itertools.pairwise(borders) if b > a]
        run_all([partial(task, some) for some in slices], self._workers)

    def pull(self, at: Scores, factors: Array | None, loss: bool = True) -> Array:
        """Gradient of the loss plus ``sum_k G_kW A_k``."""
        HU, GU = at.kept
        gradient = HU - self._border.T if loss else np.zeros_like(HU)
        if factors is not None:
            # One product: the groups side by side, their factors one under the other.
            k, size, c = GU.shape
            gradient += GU.transpose(1, 0, 2).reshape(size, k * c) @ factors.reshape(k * c, c)
        return self._lower(gradient)

    def ridge(self, alpha: float) -> Array:
        """Masked ridge: a system of equations for each label."""
        penalty = np.full(self.size, float(alpha))
        if self.intercept:
            penalty[-1] = 0.0
        right = self.right()
        W = np.empty_like(right)
        for j, H in enumerate(self.H):
            A = self._as_seen(H) + np.diag(penalty)
            W[:, [j]] = solve_normal(A, right[:, [j]], self.intercept)
        return W
