"""Optimization problems that use Gram statistics, or passes over row blocks."""

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from array_api_compat import numpy as numpy_namespace
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dm2l._solvers.nuclear import Evaluation, SmoothNorm
from dm2l._solvers.problem import ridge_by_steps, solve_normal
from dm2l._utils.arrays import WORTH_SHARING, run_all
from dm2l.outofcore._source import Block
from dm2l.outofcore._statistics import GramStatistics, RowStatistics, moved

Array = NDArray[np.float64]
Part = tuple[Any, ...]
Reducer = Callable[[Callable[[Any], Part]], Part]


class ScoreGrams(NamedTuple):
    """Loss, Gram matrices of the scores (per label and in total), and terms of the gradient."""

    loss: float
    grams: Array
    kept: Any


class GramProblem:
    """A ``SmoothProblem`` computed from sums over rows, with features minus an offset."""

    # ``||F_k||_*`` is the trace of ``(F_k'F_k)^(1/2)``, and its gradient is
    # ``Phi_k'F_k (F_k'F_k)^(-1/2)``. The last row of the weights is the intercept, if there is one.

    xp: Any = numpy_namespace
    example: Any = np.empty(0)
    right: Callable[[], Array]  # Phi'T
    product: Callable[[Array], Array]  # Phi'(O * Phi W)
    scores: Callable[[Array, bool], ScoreGrams]  # for given weights, with or without Gram matrices
    pull: Callable[..., Array]  # gradient of the loss plus ``sum_k G_kW A_k`` for factors ``A_k``

    def __init__(
        self,
        statistics: RowStatistics,
        observed: float,
        heights: Array,
        ranks: NDArray[np.int64],
        lambda_d: float,
        alpha: float,
        *,
        intercept: bool = True,
        local: bool = True,
        discriminant: bool = True,
        workers: int = 1,
    ) -> None:
        self.intercept, self.offset = intercept, statistics.offset
        self.n = statistics.weight
        self.n_labels = int(statistics.learnable.sum())
        self.rho = observed / (self.n * self.n_labels)
        self.at_zero = 0.5 * observed
        self._total = statistics.rows.gram
        # Otherwise, rows of small weight would cause negative curvature.
        self.heights, self.ranks = np.maximum(heights, ranks), ranks
        self.lambda_d = float(lambda_d) if local and self.heights.any() else 0.0
        self.concave = bool(discriminant) and self.lambda_d > 0
        self.alpha = float(alpha)
        self.penalty: Any = np.full((statistics.n_features + intercept, 1), self.alpha)
        if intercept:
            self.penalty[-1] = 0.0
        self.n_evaluations = 0
        self._workers = workers

    def ridge(self) -> Array:
        """Return the masked ridge solution by conjugate gradients."""
        W, settled = ridge_by_steps(self)
        if not settled:
            what = "Conjugate gradients did not reach a relative gradient of 1e-8, because alpha"
            what += " is small and the features have very different scales."
            remedy = "Scale the features, or use strategy='statistics'."
            warnings.warn(f"{what} {remedy}", ConvergenceWarning, stacklevel=2)
        return np.asarray(W)

    def gram(self, of: Array | None = None) -> Array:
        """Return ``of`` or else ``Phi'Phi``; undo the feature offset if there is no intercept."""
        gram = self._total if of is None else of
        return gram if self.intercept else moved(gram, self.offset)[:-1, :-1]

    def to_original(self, W: Array, sign: int = -1) -> Array:
        """Convert weights for features minus the offset to weights for the original features."""
        if not self.intercept:
            return W
        return np.vstack([W[:-1], W[-1:] + sign * (self.offset @ W[:-1])[None, :]])

    def from_original(self, W: Array) -> Array:
        """Convert weights for the original features to weights for features minus the offset."""
        return self.to_original(W, 1)

    def evaluate(
        self, W: Any, norm: Any, linear: Any = None, *, curvature: bool = False
    ) -> Evaluation:
        self.n_evaluations += 1
        at = self.scores(W, self.lambda_d > 0)
        shrunk = self.penalty * W
        value = exact = at.loss + 0.5 * float(np.sum(shrunk * W))
        if not self.lambda_d or not np.isfinite(value):
            return Evaluation(value, exact, self.pull(at, None) + shrunk)
        local = self._local(at.grams[:-1], norm, curvature)
        factors = self.lambda_d * np.concatenate([*local.gradient, np.zeros_like(at.grams[-1:])])
        shared = shared_exact = 0.0
        if self.concave and linear is None:
            everyone = norm.of_gram(at.grams[-1:], heights=np.ones(1))
            shared, shared_exact = float(everyone.value), float(everyone.exact)
            factors[-1] = -self.lambda_d * everyone.gradient[0]
        elif self.concave:
            shared = shared_exact = float(np.sum(linear * W))
            shrunk -= self.lambda_d * linear
        value += self.lambda_d * (local.value - shared)
        exact += self.lambda_d * (local.exact - shared_exact)
        gradient = self.pull(at, factors) + shrunk
        return Evaluation(value, exact, gradient, local.curvature)

    def _local(self, grams: Array, norm: Any, curvature: bool) -> Evaluation:
        """Compute the norms of all groups in threads; their ``gradient`` is a list of arrays."""
        heights, ranks = self.heights, self.ranks
        parts: list[Any] = [slice(None)]
        if self._workers > 1 and 10.0 * len(heights) * self.n_labels**3 > WORTH_SHARING:
            parts = np.array_split(np.arange(len(grams)), min(len(grams), 4 * self._workers))
        of_gram = partial(norm.of_gram, curvature=curvature)
        tasks = [partial(of_gram, grams[i], heights=heights[i], ranks=ranks[i]) for i in parts]
        found = run_all(tasks, self._workers)
        bend = sum(one.curvature for one in found) if curvature else None
        value, exact = (float(sum(one[k] for one in found)) for k in range(2))
        return Evaluation(value, exact, [one.gradient for one in found], bend)

    def exact(self, W: Array) -> float:
        at = self.scores(W, self.lambda_d > 0)
        value = at.loss + 0.5 * float(np.sum(self.penalty * W * W))
        if self.lambda_d:
            norm = SmoothNorm(0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                local = self._local(at.grams[:-1], norm, curvature=False).exact
                everyone = norm.of_gram(at.grams[-1:], heights=np.ones(1)).exact
            value += self.lambda_d * (local - (everyone if self.concave else 0.0))
        return value

    def linearize(self, W: Array) -> Array:
        at = self.scores(W, True)
        eigenvalues, vectors = np.linalg.eigh(at.grams[-1])
        # Smaller eigenvalues of the Gram matrix are rounding errors.
        safe = eigenvalues > 1e-14 * max(float(eigenvalues[-1]), 0.0)
        roots = np.where(safe, 1.0 / np.sqrt(np.where(safe, eigenvalues, 1.0)), 0.0)
        factors = np.zeros_like(at.grams)
        factors[-1] = (vectors * roots) @ vectors.T
        return self.pull(at, factors, loss=False)


class StatisticsProblem(GramProblem):
    """Optimization problem with Gram statistics; an evaluation costs ``2 c^2 d^2`` operations."""

    def __init__(self, statistics: GramStatistics, *parameters: float, **options: Any) -> None:
        chosen, groups = statistics.learnable, statistics.groups
        self.H = statistics.H if chosen.all() else statistics.H[chosen]
        self.G = statistics.G if groups.all() else statistics.G[groups]
        observed, heights = float(self.H[:, -1, -1].sum()), self.G[:, -1, -1]
        ranks = statistics.positives[groups]
        super().__init__(statistics, observed, heights, ranks, *parameters, **options)
        complete = (statistics.positives + statistics.negatives)[chosen]
        if np.all(complete == complete.max()) and np.isclose(self.rho, 1.0, rtol=1e-12):
            self.rho = 1.0  # the preconditioner tests for exactly 1
        self._covered = statistics.positive_rows.gram
        # Sums over positive rows minus sums over negative rows.
        self._border = (2.0 * statistics.G[chosen, :, -1] - self.H[:, :, -1]).T

    def _lift(self, W: Array) -> Array:
        # Without an intercept, the offset still needs one: ``XW = (X - 1o')W + 1 o'W``.
        return W if self.intercept else np.vstack([W, self.offset @ W])

    def _lower(self, gradient: Array) -> Array:
        if self.intercept:
            return gradient
        return np.asarray(gradient[:-1] + np.outer(self.offset, gradient[-1]))

    def _observed(self, U: Array) -> Array:
        return np.matmul(self.H, U.T[:, :, None])[:, :, 0].T

    def right(self) -> Array:
        return self._lower(self._border)

    def product(self, W: Array) -> Array:
        return self._lower(self._observed(self._lift(W)))

    def scores(self, W: Array, norms: bool) -> ScoreGrams:
        U = self._lift(W)
        HU = self._observed(U)
        loss = 0.5 * float(np.sum(U * HU)) - float(np.sum(U * self._border)) + self.at_zero
        if not norms:
            return ScoreGrams(loss, np.empty((0, 0, 0)), (HU, None))
        c = U.shape[1]
        GU = np.empty((len(self.G) + 1, len(U), c))
        grams = np.empty((len(self.G) + 1, c, c))

        def part(first: int, last: int) -> None:
            flat = self.G[first:last].reshape(-1, len(U))
            np.matmul(flat, U, out=GU[first:last].reshape(-1, c))
            np.matmul(U.T, GU[first:last], out=grams[first:last])

        shared = self._workers > 1 and self.G.size * self.n_labels > WORTH_SHARING
        borders = np.linspace(0, len(self.G), 1 + (4 * self._workers if shared else 1)).astype(int)
        run_all([partial(part, a, b) for a, b in pairwise(borders) if b > a], self._workers)
        GU[-1] = self._covered @ U
        grams[-1] = U.T @ GU[-1]
        return ScoreGrams(loss, grams, (HU, GU))

    def pull(self, at: ScoreGrams, factors: Array | None, loss: bool = True) -> Array:
        HU, GU = at.kept
        gradient = HU - self._border if loss else np.zeros_like(HU)
        if factors is not None:
            # A single matrix product adds up all groups.
            k, size, c = GU.shape
            gradient += GU.transpose(1, 0, 2).reshape(size, k * c) @ factors.reshape(k * c, c)
        return self._lower(gradient)

    def ridge(self) -> Array:
        right = self.right()
        W = np.empty_like(right)
        for j, H in enumerate(self.H):
            A = self.gram(H) + np.diag(self.penalty[:, 0])
            W[:, [j]] = solve_normal(A, right[:, [j]], self.intercept)
        return W


def sum_over_blocks(blocks: Iterable[Any], change: Any, function: Callable[[Any], Part]) -> Part:
    """Return the sum of ``function(change(block))`` over blocks."""
    total: Part = ()
    for block in blocks if change is None else map(change, blocks):
        part = function(block)
        total = tuple(a + b for a, b in zip(total, part, strict=True)) if total else part
    return total


def _open_block(block: Block, W: Array, intercept: bool) -> tuple[Any, Array, Any, Any]:
    """Return features, weighted scores and targets, and the square roots of the row weights."""
    Phi, T, weights = block
    Phi = Phi if sp.issparse(Phi) else np.asarray(Phi, dtype=np.float64)
    F = np.asarray(Phi @ W[:-1] + W[-1] if intercept else Phi @ W)
    if weights is None:
        return Phi, F, T, 1.0
    root = np.sqrt(weights)[:, None]
    return Phi, root * F, root * T, root


def score_sums(block: Block, W: Array, *, intercept: bool, norms: bool = True) -> Part:
    """Return a block's loss and Gram matrices of scores, for the first pass of an evaluation."""
    _, F, targets, _ = _open_block(block, W, intercept)
    T = block.T
    residual = F * (T != 0) - targets
    loss = 0.5 * float(np.vdot(residual, residual))
    c = T.shape[1]
    grams = np.zeros((c + 1 if norms else 0, c, c))
    if norms:
        positive = T > 0
        for k, rows in enumerate([*positive.T, positive.any(axis=1)]):
            F_k = F[rows]
            grams[k] = F_k.T @ F_k
    return loss, grams


def gradient_sums(
    block: Block,
    W: Array,
    factors: Array | None = None,
    *,
    intercept: bool,
    loss: bool = True,
    targets: bool = True,
) -> Part:
    """Return the gradient of a block, for the second pass of an evaluation."""
    Phi, F, goal, root = _open_block(block, W, intercept)
    T = block.T
    D = F * (T != 0) if loss else np.zeros_like(F)
    if loss and targets:
        D -= goal
    if factors is not None:
        positive = T > 0
        # The last factor belongs to the rows with any observed positive.
        for k, some in enumerate([positive.any(axis=1), *positive.T], start=-1):
            rows = np.flatnonzero(some)
            D[rows] += F[rows] @ factors[k]
    D *= root
    gradient = np.asarray(Phi.T @ D)
    return (np.vstack([gradient, D.sum(axis=0)]) if intercept else gradient,)


class PassProblem(GramProblem):
    """Optimization problem with passes over row blocks; ``reduce`` computes sums over blocks."""

    def __init__(
        self, reduce: Reducer, statistics: RowStatistics, *parameters: float, **options: Any
    ) -> None:
        chosen = statistics.learnable
        weights = statistics.weights[:, chosen]
        ranks = np.asarray(statistics.positives[chosen])
        observed = float(weights.sum())
        super().__init__(statistics, observed, weights[0], ranks, *parameters, **options)
        self._reduce = reduce

    def _gradient(self, W: Array, **terms: Any) -> Array:
        # ``W`` refers to the original features; the gradient refers to features minus the offset.
        function = partial(gradient_sums, W=W, intercept=self.intercept, **terms)
        (gradient,) = self._reduce(function)
        if not self.intercept:
            return np.asarray(gradient)
        return np.vstack([gradient[:-1] - np.outer(self.offset, gradient[-1]), gradient[-1:]])

    def right(self) -> Array:
        return -self._gradient(np.zeros((len(self.penalty), self.n_labels)))

    def product(self, W: Array) -> Array:
        return self._gradient(self.to_original(W), targets=False)

    def scores(self, W: Array, norms: bool) -> ScoreGrams:
        U = self.to_original(W)
        loss, grams = self._reduce(partial(score_sums, W=U, intercept=self.intercept, norms=norms))
        return ScoreGrams(float(loss), grams, U)

    def pull(self, at: ScoreGrams, factors: Array | None, loss: bool = True) -> Array:
        return self._gradient(at.kept, factors=factors, loss=loss)
