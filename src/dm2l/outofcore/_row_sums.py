"""Sums over rows: from Gram statistics, or from passes over row blocks.

An evaluation takes two passes, both a map and a sum: :func:`score_sums` and :func:`gradient_sums`
turn a block and the weights into a few small arrays, whatever the number of rows; a *reducer*
applies them to all blocks and adds up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from dm2l._solvers.ridge import solve_normal
from dm2l._utils.threads import WORTH_SHARING, run_all
from dm2l.outofcore._block import Block
from dm2l.outofcore._gram_problem import Array, RowSums, ScoreGrams
from dm2l.outofcore._statistics import GramStatistics, RowStatistics

Part = tuple[Any, ...]
Reducer = Callable[[Callable[[Any], Part], Iterable[Any]], Part]


class StatisticsSums(RowSums):
    """Sums from statistics: ``W'G_kW``, about ``2 c^2 d^2`` operations an evaluation."""

    def __init__(self, statistics: GramStatistics, intercept: bool, workers: int = 1) -> None:
        chosen, groups = statistics.learnable, statistics.groups
        self.intercept = intercept
        self.H = statistics.H if chosen.all() else statistics.H[chosen]
        self.G = statistics.G if groups.all() else statistics.G[groups]
        self._covered = statistics.covered
        self._border = 2.0 * statistics.G[chosen, :, -1] - self.H[:, :, -1]  # positives - negatives
        self.offset = statistics.offset
        self._total = statistics.rows.gram
        self.ranks = statistics.positives[groups]
        # At least the number of rows, or light rows would give negative curvature.
        self.heights = np.maximum(self.G[:, -1, -1], self.ranks)
        counts = self.H[:, -1, -1]
        self.weight = statistics.weight
        self.n_labels = int(chosen.sum())
        complete = (statistics.positives + statistics.negatives)[chosen]
        self.rho = float(counts.sum()) / (self.weight * self.n_labels)
        if np.all(complete == complete.max()) and np.isclose(self.rho, 1.0, rtol=1e-12):
            self.rho = 1.0  # exactly, as the preconditioner needs it
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

    def scores(self, W: Array, norms: bool) -> ScoreGrams:
        """Loss and Gram matrices of the scores."""
        U = self._lift(W)
        HU = self._observed(U)
        loss = 0.5 * float(np.sum(U * HU)) - float(np.sum(U * self._border.T)) + self.at_zero
        if not norms:
            return ScoreGrams(loss, np.empty((0, 0, 0)), (HU, None))
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
        return ScoreGrams(loss, grams, (HU, GU))

    def _share(self, task: Any) -> None:
        """Run a task on parts of the groups, by threads if there is enough work."""
        work = self.G.size * self.n_labels
        parts = 4 * self._workers if self._workers > 1 and work > WORTH_SHARING else 1
        borders = np.linspace(0, len(self.G), parts + 1).astype(int)
        slices = [slice(a, b) for a, b in itertools.pairwise(borders) if b > a]
        run_all([partial(task, some) for some in slices], self._workers)

    def pull(self, at: ScoreGrams, factors: Array | None, loss: bool = True) -> Array:
        """Gradient of the loss plus ``sum_k G_kW A_k``."""
        HU, GU = at.kept
        gradient = HU - self._border.T if loss else np.zeros_like(HU)
        if factors is not None:
            # One product: the groups side by side, their factors one under the other.
            k, size, c = GU.shape
            gradient += GU.transpose(1, 0, 2).reshape(size, k * c) @ factors.reshape(k * c, c)
        return self._lower(gradient)

    def ridge(self, alpha: float) -> Array:
        """Masked ridge, by a system of equations for each label."""
        penalty = np.full(self.size, float(alpha))
        if self.intercept:
            penalty[-1] = 0.0
        right = self.right()
        W = np.empty_like(right)
        for j, H in enumerate(self.H):
            A = self._as_seen(H) + np.diag(penalty)
            W[:, [j]] = solve_normal(A, right[:, [j]], self.intercept)
        return W


def sum_over_blocks(function: Callable[[Any], Part], blocks: Iterable[Any]) -> Part:
    """Sum of ``function(block)`` over blocks, in a loop."""
    total: Part = ()
    for block in blocks:
        part = function(block)
        total = tuple(a + b for a, b in zip(total, part, strict=True)) if total else part
    return total


def block_scores(Phi: Any, W: Array, intercept: bool) -> Array:
    """``Phi W + 1 b'`` in float64."""
    if not sp.issparse(Phi):
        Phi = np.asarray(Phi, dtype=np.float64)
    return np.asarray(Phi @ W[:-1] + W[-1] if intercept else Phi @ W)


def score_sums(block: Block, W: Array, *, intercept: bool, norms: bool = True) -> Part:
    """Loss of a block and Gram matrices of the scores of its groups: the first pass."""
    Phi, T, weights = block
    F, T = block_scores(Phi, W, intercept), np.asarray(T)
    goal: Any = T
    if weights is not None:
        root = np.sqrt(weights)[:, None]
        F, goal = root * F, root * T
    residual = F * (T != 0) - goal
    loss = 0.5 * float(np.vdot(residual, residual))
    c = T.shape[1]
    grams = np.zeros((c + 1 if norms else 0, c, c))
    if norms:
        positive = T > 0
        F_C = F[positive.any(axis=1)]
        grams[c] = F_C.T @ F_C
        for k in range(c):
            F_k = F[positive[:, k]]
            grams[k] = F_k.T @ F_k
    return loss, grams


def gradient_sums(
    block: Block,
    W: Array,
    factors: Array | None,
    *,
    intercept: bool,
    loss: bool = True,
    targets: bool = True,
) -> Part:
    """Gradient of a block: the second pass."""
    Phi, T, weights = block
    F = block_scores(Phi, W, intercept)
    root = None if weights is None else np.sqrt(weights)[:, None]
    F = F if root is None else root * F
    D = F * (T != 0) if loss else np.zeros_like(F)
    if loss and targets:
        D -= T if root is None else root * T
    if factors is not None:
        positive = T > 0
        covered = np.flatnonzero(positive.any(axis=1))
        D[covered] += F[covered] @ factors[-1]
        for k in range(T.shape[1]):
            rows = np.flatnonzero(positive[:, k])
            D[rows] += F[rows] @ factors[k]
    D = D if root is None else root * D
    if not sp.issparse(Phi):
        Phi = np.asarray(Phi, dtype=np.float64)
    gradient = np.asarray(Phi.T @ D)
    return (np.vstack([gradient, D.sum(axis=0)]) if intercept else gradient,)


class PassSums(RowSums):
    """Sums from passes over row blocks."""

    def __init__(
        self,
        blocks: Iterable[Any],
        statistics: RowStatistics,
        intercept: bool,
        reducer: Reducer = sum_over_blocks,
    ) -> None:
        self._blocks, self._reducer = blocks, reducer
        self.intercept = intercept
        self.offset = statistics.offset
        self._total = statistics.rows.gram
        chosen = statistics.learnable
        self.ranks = np.asarray(statistics.positives[chosen])
        self.heights = np.maximum(statistics.weights[0, chosen], self.ranks)
        self.weight = statistics.weight
        self.n_labels = int(chosen.sum())
        observed = float(statistics.weights[:, chosen].sum())
        self.rho = observed / (self.weight * self.n_labels)
        self.at_zero = 0.5 * observed
        self.size = statistics.n_features + int(intercept)

    def _sum(self, function: Callable[..., Part], **arguments: Any) -> Part:
        return self._reducer(partial(function, intercept=self.intercept, **arguments), self._blocks)

    def _lower(self, gradient: Array) -> Array:
        """Gradient in the weights for the features less the offset."""
        if not self.intercept:
            return gradient
        return np.vstack([gradient[:-1] - np.outer(self.offset, gradient[-1]), gradient[-1:]])

    def ridge(self, alpha: float) -> None:
        """None: a system of equations for each label would take a pass each."""
        return

    def right(self) -> Array:
        """``Phi'T``, from one pass."""
        zero = np.zeros((self.size, self.n_labels))
        return -self._lower(self._sum(gradient_sums, W=zero, factors=None)[0])

    def product(self, W: Array) -> Array:
        """``Phi'(O * Phi W)``, from one pass."""
        U = self.to_original(W)
        return self._lower(self._sum(gradient_sums, W=U, factors=None, targets=False)[0])

    def scores(self, W: Array, norms: bool) -> ScoreGrams:
        """The first pass of an evaluation."""
        U = self.to_original(W)
        loss, grams = self._sum(score_sums, W=U, norms=norms)
        return ScoreGrams(float(loss), grams, U)

    def pull(self, at: ScoreGrams, factors: Array | None, loss: bool = True) -> Array:
        """The second pass."""
        return self._lower(self._sum(gradient_sums, W=at.kept, factors=factors, loss=loss)[0])
