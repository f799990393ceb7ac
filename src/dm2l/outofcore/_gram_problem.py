"""The objective from Gram matrices of the scores, without the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import numpy as numpy_namespace
from numpy.typing import NDArray

from dm2l._solvers.nuclear import Evaluation, SmoothNorm
from dm2l._utils.threads import WORTH_SHARING, run_all
from dm2l.outofcore._statistics import moved

Array = NDArray[np.float64]


class ScoreGrams(NamedTuple):
    """Loss at some weights, ``F_k'F_k`` of every group with ``F_C'F_C`` last, and intermediates."""

    loss: float
    grams: Array
    kept: Any


class RowSums(ABC):
    """Sums over all rows, from statistics or from passes over the rows.

    Weights have a row for each feature and, with an intercept, a last row for it. Rows are held
    less an offset.
    """

    intercept: bool
    weight: float
    rho: float
    at_zero: float
    n_labels: int
    size: int
    heights: Array
    ranks: NDArray[np.int64]
    offset: Array
    _total: Array

    def gram(self) -> Array:
        """``Phi'Phi``."""
        return self._as_seen(self._total)

    def _as_seen(self, gram: Array) -> Array:
        """A Gram matrix as a model with or without intercept sees it."""
        return gram if self.intercept else moved(gram, self.offset)[:-1, :-1]

    def to_original(self, W: Array) -> Array:
        """Weights for the given features."""
        return self._shifted(W, -self.offset)

    def from_original(self, W: Array) -> Array:
        """Weights for the features less the offset."""
        return self._shifted(W, self.offset)

    def _shifted(self, W: Array, offset: Array) -> Array:
        """Weights with the intercept moved by ``offset``."""
        if not self.intercept:
            return W
        return np.vstack([W[:-1], W[-1:] + (offset @ W[:-1])[None, :]])

    @abstractmethod
    def right(self) -> Array:
        """``Phi'T``."""

    @abstractmethod
    def product(self, W: Array) -> Array:
        """``Phi'(O * Phi W)``."""

    @abstractmethod
    def scores(self, W: Array, norms: bool) -> ScoreGrams:
        """Loss and, with ``norms``, Gram matrices of the scores."""

    @abstractmethod
    def pull(self, at: ScoreGrams, factors: Array | None, loss: bool = True) -> Array:
        """Gradient of the loss plus ``sum_k Phi_k'F_k A_k`` for the factors ``A_k``."""

    @abstractmethod
    def ridge(self, alpha: float) -> Array | None:
        """The solution without norms, if it takes no pass over the rows."""


class GramProblem:
    """``J(W) + alpha/2 ||W||^2`` from sums over rows.

    ``||F_k||_*`` is the trace of a root of ``F_k'F_k``, a matrix of the size of the labels, and its
    gradient ``Phi_k'F_k (F_k'F_k)^(-1/2)``. :class:`Problem`, which has the rows, is
    faster, because it can take the smaller of ``F_k'F_k`` and ``F_kF_k'``.
    """

    xp: Any = numpy_namespace

    def __init__(
        self,
        sums: RowSums,
        lambda_d: float,
        alpha: float,
        *,
        local: bool = True,
        discriminant: bool = True,
        workers: int = 1,
    ) -> None:
        self.sums = sums
        self.lambda_d = float(lambda_d) if local and sums.heights.any() else 0.0
        self.concave = bool(discriminant) and self.lambda_d > 0
        self.alpha = float(alpha)
        self.penalty: Any = np.full((sums.size, 1), self.alpha)
        if sums.intercept:
            self.penalty[-1] = 0.0
        self.n_evaluations = 0
        self.example: Any = np.empty(0)
        self.n, self.rho, self.at_zero = sums.weight, sums.rho, sums.at_zero
        self.n_labels = sums.n_labels
        work = 10.0 * len(sums.heights) * sums.n_labels**3
        self._workers = workers if work > WORTH_SHARING else 1
        self.gram, self.right, self.product = sums.gram, sums.right, sums.product
        self.to_original, self.from_original = sums.to_original, sums.from_original

    def evaluate(
        self, W: Any, norm: Any, linear: Any = None, *, curvature: bool = False
    ) -> Evaluation:
        """Smoothed and exact objective and the gradient in ``W``."""
        self.n_evaluations += 1
        at = self.sums.scores(W, norms=self.lambda_d > 0)
        shrunk = self.penalty * W
        value = exact = at.loss + 0.5 * float(np.sum(shrunk * W))
        if not self.lambda_d or not np.isfinite(value):
            return Evaluation(value, exact, self.sums.pull(at, None) + shrunk)
        local = self._local(at.grams[:-1], norm, curvature)
        factors = self.lambda_d * np.concatenate([*local.gradient, np.zeros_like(at.grams[-1:])])
        shared = 0.0, 0.0
        if self.concave and linear is None:
            everyone = norm.of_gram(at.grams[-1:], heights=np.ones(1))
            shared = everyone.value, everyone.exact
            factors[-1] = -self.lambda_d * everyone.gradient[0]
        elif self.concave:
            inner = float(np.sum(linear * W))
            shared = inner, inner
            shrunk -= self.lambda_d * linear
        value += self.lambda_d * (local.value - shared[0])
        exact += self.lambda_d * (local.exact - shared[1])
        gradient = self.sums.pull(at, factors) + shrunk
        return Evaluation(value, exact, gradient, local.curvature)

    def _local(self, grams: Array, norm: Any, curvature: bool) -> Evaluation:
        """Norms of all groups, by threads; ``gradient`` is a list of stacks."""
        parts = np.array_split(np.arange(len(grams)), min(len(grams), 4 * self._workers))
        tasks = [
            partial(
                norm.of_gram,
                grams[part],
                heights=self.sums.heights[part],
                ranks=self.sums.ranks[part],
                curvature=curvature,
            )
            for part in (parts if self._workers > 1 else [slice(None)])
        ]
        found = run_all(tasks, self._workers)
        bend = sum(one.curvature for one in found) if curvature else None
        value, exact = sum(one.value for one in found), sum(one.exact for one in found)
        return Evaluation(value, exact, [one.gradient for one in found], bend)

    def exact(self, W: Array) -> float:
        """The exact objective, as far as square roots of eigenvalues are."""
        at = self.sums.scores(W, norms=self.lambda_d > 0)
        value = at.loss + 0.5 * float(np.sum(self.penalty * W * W))
        if self.lambda_d:
            norm = SmoothNorm(0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                local = self._local(at.grams[:-1], norm, curvature=False).exact
                everyone = norm.of_gram(at.grams[-1:], heights=np.ones(1)).exact
            value += self.lambda_d * (local - (everyone if self.concave else 0.0))
        return value

    def linearise(self, W: Array) -> Array:
        """A subgradient of the global norm at ``W``, in the weights."""
        at = self.sums.scores(W, norms=True)
        eigenvalues, vectors = np.linalg.eigh(at.grams[-1])
        # A Gram matrix cannot tell smaller singular values from rounding.
        safe = eigenvalues > 1e-14 * max(float(eigenvalues[-1]), 0.0)
        roots = np.where(safe, 1.0 / np.sqrt(np.where(safe, eigenvalues, 1.0)), 0.0)
        factors = np.zeros_like(at.grams)
        factors[-1] = (vectors * roots) @ vectors.T
        return self.sums.pull(at, factors, loss=False)
