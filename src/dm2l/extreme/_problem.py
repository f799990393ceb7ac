r"""The DM2L objective with a low-rank head, computed without ``n_rows x n_labels`` operations.

Scores are ``F = t_0 + G B'`` with ``G = Phi W + 1 b'`` of shape (n, r), ``B`` (c x r) with
orthonormal columns, and ``t_0`` the target of an entry that is not stored. Therefore
``||G_k B'||_* = ||G_k||_*``, and in the loss over all ``n c`` entries

.. math:: \tfrac w2 \sum_{ij} f_{ij}^2
          + \tfrac12 \sum_{stored} \bigl[v_{ij} (f_{ij} - y_{ij})^2 - w f_{ij}^2\bigr],
          \qquad f = G B', \quad y = T - t_0,

the first sum is ``||G||_F^2``.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from array_api_compat import numpy as numpy_namespace
from numpy.typing import NDArray

from dm2l._solvers.features import Features, LinearMap, ridge_value
from dm2l._solvers.lbfgs import solve_lbfgs
from dm2l._solvers.nuclear import Evaluation, SmoothNorm, nuclear_norm
from dm2l._solvers.problem import Preconditioner, Solution, solve_by_cg
from dm2l._utils.arrays import blas_thread_count, check_finite, one_blas_thread
from dm2l.labels._parsing import SparseLabelMatrix
from dm2l.metrics import propensities
from dm2l.metrics._complete import check_propensities

Array = NDArray[np.float64]

STACK = 2**22  # maximum size of a stack in numbers (32 MB); larger stacks are not faster
# The sizes of groups in a stack differ by at most the factor PADDING, or all groups have at most
# SMALL rows.
PADDING, SMALL = 1.1, 8


class _Stack(NamedTuple):
    """Groups with similar numbers of rows."""

    places: NDArray[np.intp]  # for each group, the positions of its rows among covered rows
    heights: NDArray[np.intp]  # for each group, its number of rows
    weights: NDArray[Any]  # for each group, the sum of its row weights, for the curvature
    back: Any  # sparse matrix that sums rows of the stack into covered rows


@dataclass(frozen=True)
class SharedRows:
    """Groups of rows that share a positive label; ``covered`` rows are in at least one group."""

    covered: NDArray[np.intp]
    stacks: list[_Stack]

    @classmethod
    def gather(
        cls, positives: Any, rank: int, min_rows: int = 2, *, size: int = STACK, rows: Any = None
    ) -> Self:
        """Return the group of rows of each label, in stacks of at most ``size`` numbers."""
        positives = positives.tocsc()
        counts = np.diff(positives.indptr)
        sizes = counts if rows is None else positives.T @ rows
        labels = np.flatnonzero(sizes >= min_rows)
        labels = labels[np.argsort(counts[labels], kind="stable")]
        members = [positives.indices[slice(*positives.indptr[j : j + 2])] for j in labels]
        n = positives.shape[0]
        covered = np.unique(np.concatenate([np.zeros(0, dtype=np.intp), *members]))
        filler = len(covered)
        place = np.full(n, filler, dtype=np.intp)
        place[covered] = np.arange(filler)
        weights = None if rows is None else np.append(rows[covered], 0.0)
        heights = counts[labels].astype(np.intp)
        stacks, start = [], 0
        while start < len(labels):
            lowest = heights[start]
            highest = max(PADDING * lowest, lowest if lowest >= rank else SMALL)
            most = max(1, int(size / (highest * rank)))
            end = start + int(np.searchsorted(heights[start:], highest, side="right"))
            some = slice(start, min(end, start + most))
            places = np.full((len(heights[some]), heights[some][-1]), filler, dtype=np.intp)
            for row, group in zip(places, members[some], strict=True):
                row[: len(group)] = np.sort(place[group])
            flat = places.ravel()
            real = np.flatnonzero(flat < filler)
            inverse = (np.ones(len(real)), (flat[real], real))
            back = sp.csr_array(inverse, shape=(filler, len(flat)))
            heavy = heights[some]
            # a weight of two counts as two rows; a weight below one counts as one row
            if weights is not None:
                heavy = np.maximum(heavy, weights[places].sum(axis=1))
            stacks.append(_Stack(places, heights[some], heavy, back))
            start = some.stop
        return cls(covered, stacks)

    def norms(self, F: Array, norm: SmoothNorm, *, curvature: bool = False) -> Evaluation:
        """Return the sum of the norms of all groups; ``F`` has a last row of zeros for padding."""
        value = exact = 0.0
        r = F.shape[1]
        gradient = np.zeros((len(F) - 1, r))
        bend = np.zeros((r, r)) if curvature else None
        for stack in self.stacks:
            Z = F[stack.places]
            at = norm(Z, curvature=curvature, heights=stack.weights)
            value += at.value
            exact += at.exact
            gradient += stack.back @ at.gradient.reshape(-1, r)
            if bend is not None:
                bend += at.curvature
        return Evaluation(value, exact, gradient, bend)

    def exact(self, F: Array) -> float:
        """Compute ``sum_k ||F_k||_*`` from singular values."""
        total = 0.0
        for stack in self.stacks:
            for places, height in zip(stack.places, stack.heights, strict=True):
                total += nuclear_norm(F[places[:height]])
        return total


SHARE = 1 / 4  # share of the memory limit that temporary blocks may use
CHUNK = 2**22  # stored entries whose scores are computed at a time, multiplied by the rank
# Number of arrays of weights in the solver, including its history of steps and gradients.
REMEMBERED = 2 * 20 + 10
# Number of arrays of scores during an evaluation, or of squared features before the fit.
SCORES = 8
SQUARES = 4
STORED = 120  # bytes per stored label, for two CSR matrices, row number, weights and score


class LowRankProblem:
    """A ``SmoothProblem`` in the weights of a low-rank head; :meth:`attach` sets the head."""

    xp: Any = numpy_namespace

    # ``stored`` (CSR) holds targets minus the target of an entry that is not stored. ``v`` are the
    # weights of stored entries, and ``w`` is the weight of all others; ``rows`` multiply both.
    def __init__(
        self, features: Features, stored: Any, v: Array, w: float, rows: Any, *, alpha: float
    ) -> None:
        n, c = stored.shape
        self.features, self._stored, self._absent = features, stored, w
        self.penalty = float(alpha) * features.penalized[:, None]
        self.n_evaluations = 0
        self.example = np.empty(0)
        self._rows = np.repeat(np.arange(n), np.diff(stored.indptr))
        counts: Any = 1.0 if rows is None else rows[self._rows]
        self._excess = counts * (v - w)
        # If all entries have the same weight, stored entries only affect the linear part.
        self.uniform = not self._excess.any()
        self.n = float(n if rows is None else rows.sum())
        self.rho = w + float(self._excess.sum()) / (self.n * c)
        weights = counts * v
        self.at_zero = 0.5 * float(weights @ stored.data**2)
        # This is the negative gradient of the loss at zero.
        self.pulls = self._where_stored(weights * stored.data)
        self._weights: Any = 1.0 if rows is None else rows[:, None]
        self._roots: Any = 1.0
        self.gram = partial(features.gram, weights=rows)
        self.to_original, self.from_original = features.to_original, features.from_original

    def _where_stored(self, values: Array) -> Any:
        """Return a sparse matrix with ``values`` at the stored entries."""
        stored = self._stored
        return sp.csr_array((values, stored.indices, stored.indptr), shape=stored.shape)

    def attach(self, B: Array, groups: SharedRows, lambda_d: float, *, discriminant: bool) -> None:
        """Set the head ``B`` (c, r) and the groups of rows."""
        self.B, self.groups = B, groups
        if np.ndim(self._weights):
            self._roots = np.sqrt(self._weights[groups.covered])
        self.n_labels = B.shape[1]
        self.lambda_d = float(lambda_d) if groups.stacks else 0.0
        self.concave = discriminant and self.lambda_d > 0
        self._pull = np.asarray(self.pulls @ B)

    def right(self) -> Array:
        return np.asarray(self.features.adjoint(self._pull))

    def _curve(self, G: Array) -> tuple[float, Array]:
        """Return the quadratic part of the loss, and its gradient with respect to ``G``."""
        value = 0.5 * self._absent * float(np.vdot(G, self._weights * G))
        gradient = self._absent * self._weights * G
        if not self.uniform:
            entries, step = np.empty(len(self._rows)), max(1, CHUNK // self.B.shape[1])
            for start in range(0, len(entries), step):
                part = slice(start, start + step)
                rows, columns = self._rows[part], self._stored.indices[part]
                entries[part] = np.einsum("ij,ij->i", G[rows], self.B[columns])
            excess = self._excess * entries
            value += 0.5 * float(excess @ entries)
            gradient += self._where_stored(excess) @ self.B
        return value, gradient

    def product(self, W: Array) -> Array:
        return np.asarray(self.features.adjoint(self._curve(self.features.scores(W))[1]))

    def _loss(self, G: Array) -> tuple[float, Array]:
        value, gradient = self._curve(G)
        return value - float(np.vdot(G, self._pull)) + self.at_zero, gradient - self._pull

    def _ridge(self, W: Array) -> float:
        return 0.5 * float((self.penalty * W * W).sum())

    def evaluate(self, W: Array, norm: Any, *, curvature: bool = False) -> Evaluation:
        self.n_evaluations += 1
        G = np.asarray(self.features.scores(W))
        value, gradient = self._loss(G)
        value += self._ridge(W)
        exact, bend = value, None
        if self.lambda_d and np.isfinite(value):
            padded = self._covered(G)
            local = self.groups.norms(padded, norm, curvature=curvature)
            bend, slope = local.curvature, local.gradient
            shared, shared_exact = 0.0, 0.0
            if self.concave:
                everyone = norm(padded[:-1])
                shared, shared_exact = everyone.value, everyone.exact
                slope -= everyone.gradient
            gradient[self.groups.covered] += self.lambda_d * (self._roots * slope)
            value += self.lambda_d * (local.value - shared)
            exact += self.lambda_d * (local.exact - shared_exact)
        pulled = np.asarray(self.features.adjoint(gradient)) + self.penalty * W
        return Evaluation(value, exact, pulled, bend)

    def _covered(self, G: Array) -> Array:
        """Return the scores of covered rows, and a last row of zeros for padding."""
        padded = np.zeros((len(self.groups.covered) + 1, G.shape[1]))
        padded[:-1] = self._roots * G[self.groups.covered]
        return padded

    def exact(self, W: Array) -> float:
        G = np.asarray(self.features.scores(W))
        value = self._loss(G)[0] + self._ridge(W)
        if self.lambda_d:
            F = self._covered(G)[:-1]
            value += self.lambda_d * self.groups.exact(F)
            value -= self.lambda_d * nuclear_norm(F) if self.concave else 0.0
        return value


def ridge_start(problem: LowRankProblem, preconditioner: Preconditioner, tol: float) -> Array:
    """Return the solution without nuclear norms, in the variables of the preconditioner."""
    # All columns are solved together, because different weights of entries couple them.
    right = np.asarray(preconditioner.to_gradient(problem.right()))
    if problem.uniform and preconditioner.rho == 1.0:
        return right
    product = partial(preconditioner.hessian, problem)
    return solve_by_cg(product, right, right, tol, maxiter=500)


def label_basis(features: Any, stored: Any, ridge: Any, rank: int, *, block: int = 1024) -> Array:
    """Return orthonormal directions in label space, sorted by how well ridge predicts them."""
    # With ``RR' = rho Phi'Phi + alpha I`` (``ridge`` holds R), these are the leading right singular
    # vectors of ``A = R^-1 Phi'Y`` (features x labels). If there are more labels than features,
    # ``AA'`` is summed over blocks of labels, and a second pass computes ``B = A'U / s``.
    c = stored.shape[1]
    if rank >= c:
        return np.eye(c)
    columns = stored.tocsc()

    def predictable(start: int) -> Array:
        return np.asarray(ridge.to_gradient(_pull(features, columns[:, start : start + block])))

    if c <= features.size:  # then A is smaller than AA'
        block = c
        values, Vt = scipy.linalg.svd(predictable(0), full_matrices=False)[1:]
        kept = values[:rank] > features.size * np.finfo(np.float64).eps * values[0]
        kept[0] = True  # keep one direction even if the features predict nothing
        return np.ascontiguousarray(Vt[:rank][kept].T)
    square = np.zeros((features.size, features.size))
    for start in range(0, c, block):
        A = predictable(start)
        square += A @ A.T
    size = features.size
    first = max(0, size - rank)
    values, U = scipy.linalg.eigh(square, subset_by_index=[first, size - 1])
    values, U = values[::-1], U[:, ::-1]
    if not values[0] > 0:
        return np.eye(c, 1)
    # Eigenvalues below this limit are rounding errors.
    kept = values > size * np.finfo(np.float64).eps * values[0]
    values, U = values[kept], U[:, kept]
    B = np.empty((c, len(values)))
    for start in range(0, c, block):
        B[start : start + block] = predictable(start).T @ (U / np.sqrt(values))
    # Small singular values lost digits in AA', so the columns are not exactly orthogonal.
    return np.ascontiguousarray(scipy.linalg.qr(B, mode="economic", overwrite_a=True)[0])


def _pull(features: Features, stored: Any) -> Array:
    """Return ``Phi'Y`` for a sparse ``Y``, computed from its stored entries only."""
    product = stored.T @ features.Phi
    product = product.toarray() if sp.issparse(product) else np.asarray(product)
    if not features.intercept:
        return product.T.astype(np.float64, copy=False)
    sums = np.asarray(stored.sum(axis=0), dtype=np.float64).reshape(1, -1)
    product = product.T.astype(np.float64)
    if features.mean is not None and sp.issparse(features.Phi):  # sparse features are not centred
        product -= features.mean[:, None] * sums
    return np.concatenate([product, sums])


def bytes_needed(
    n_rows: int, n_features: int, n_labels: int, n_stored: int, rank: int, *, dense: bool = True
) -> float:
    """Estimate the bytes that a fit needs in addition to ``X`` and temporary blocks."""
    m = min(n_rows, n_features)  # size of the Gram matrix of the features
    rank = min(rank, m + 1, n_labels)
    features = SQUARES * m**2 + (n_rows * m if dense or n_features > n_rows else 0)
    weights = REMEMBERED * m * rank + 2 * n_features * rank
    labels = SCORES * n_rows * rank + 2 * n_labels * rank + 4 * n_labels
    return 8.0 * (features + weights + labels) + STORED * n_stored


def block_length(max_memory: float, width: int, most: int) -> int:
    """Return how many rows of ``width`` numbers fit into the memory for temporary blocks."""
    return int(min(most, max(1, SHARE * max_memory / (8 * max(width, 1)))))


def check_memory(rank: int, max_memory: float, **sizes: Any) -> None:
    """Raise an error that names the largest possible rank if a fit needs too much memory."""
    limit = (1 - SHARE) * max_memory
    needed = bytes_needed(rank=rank, **sizes)
    if needed <= limit:
        return
    low = bisect_right(range(1, rank), limit, key=lambda r: bytes_needed(rank=r, **sizes))
    advice = f"use rank={low} or less" if low else "use fewer rows or features, as no rank fits"
    what = f"With rank={rank}, this fit needs about {needed / (1 - SHARE):.3g} bytes,"
    raise ValueError(f"{what} but max_memory is {max_memory:.3g}. Raise max_memory, or {advice}.")


def absent_target(labels: SparseLabelMatrix) -> float:
    """Return the target of an entry that is not stored."""
    return 0.0 if labels.missing_as == "missing" else -1.0


def fit_head(
    model: Any, X: Any, labels: SparseLabelMatrix, learnable: NDArray[np.bool_], rows: Array | None
) -> tuple[Solution, Array, Array, Array]:
    """Fit the learnable labels; return the solution, coefficients, intercepts and label vectors."""
    chosen = np.flatnonzero(learnable)
    signed = labels.signed if learnable.all() else sp.csr_array(labels.signed[:, chosen])
    weights, absent = np.ones(signed.nnz), float(labels.missing_as != "missing")
    if labels.missing_as == "unlabelled":
        absent = float(model.absent_weight)
        positive = signed.data > 0
        given, c = model.propensities, labels.signed.shape[1]
        p = propensities(labels.signed) if given is None else check_propensities(given, c)
        weights[positive] = 1.0 / p[chosen][signed.indices[positive]]
    if labels.missing_as == "missing":  # omit rows without observed entries
        kept = np.flatnonzero(np.diff(signed.indptr))
        if len(kept) < signed.shape[0]:
            X, signed = X[kept], sp.csr_array(signed[kept])
            rows = rows if rows is None else rows[kept]
    # A stored negative has the same target as an unlabelled entry, but full weight.
    stored = signed.copy()
    stored.data = signed.data - absent_target(labels)
    intercept = bool(model.fit_intercept)
    feature_map = LinearMap(True, intercept)
    Phi = feature_map.fit(X)
    features = Features(Phi, intercept, feature_map.square, blas_thread_count())
    features = features.centre() if Phi is X else features
    alpha = ridge_value(model.alpha, X, rows)
    problem = LowRankProblem(features, stored, weights, absent, rows, alpha=alpha)
    preconditioner = Preconditioner(problem)
    block = block_length(model.max_memory, 2 * features.size, 4096)
    B = label_basis(features, problem.pulls, preconditioner, int(model.rank), block=block)
    size = block_length(model.max_memory, 4, STACK)
    groups = SharedRows.gather(signed > 0, B.shape[1], int(model.min_rows), size=size, rows=rows)
    problem.attach(B, groups, model.lambda_d, discriminant=bool(model.discriminant))
    with one_blas_thread():
        V = ridge_start(problem, preconditioner, 0.1 if problem.lambda_d else 1e-8)
        if problem.lambda_d:
            tol, max_iter = float(model.tol), int(model.max_iter)
            solution = solve_lbfgs(problem, preconditioner, V, tol=tol, max_iter=max_iter)
        else:
            W = preconditioner.to_weights(V)
            value = problem.exact(W)
            solution = Solution(W, value, [value])
    W = problem.to_original(solution.W)
    coef, b = feature_map.on_inputs(W, intercept)
    check_finite(coef, "Weights")
    vectors = np.zeros((len(learnable), B.shape[1]))
    vectors[chosen] = B
    return solution, np.ascontiguousarray(np.asarray(coef).T), b, vectors
