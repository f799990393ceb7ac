r"""Exact kernel models in the scores: one Cholesky factor and nothing else of the kernel's size.

With ``F = K A + 1 b'`` and ``1'A = 0``, which every step below keeps, the ridge term
``alpha tr(A'KA)`` is ``alpha <A, F>``, and loss and ridge have the Hessian

.. math:: \langle (F_1, A_1), (F_2, A_2) \rangle = \rho \langle F_1, F_2 \rangle
          + \alpha \langle A_1, F_2 \rangle

for entries observed at random. A gradient is the array ``D`` for which ``<D, F_1>`` is the slope
along a step ``(F_1, A_1, b_1)``, and the step that this Hessian turns it into solves
``rho F + alpha A = D``: with ``M = rho K + alpha I`` that is ``A = M^{-1}(D - rho 1 b')`` and
``F = (D - alpha A) / rho``, without another product. Neither a factor ``K = Phi Phi'`` is needed,
which would be a second decomposition, nor ``Phi'Phi``, nor products with them, and ``M`` may take
the place of ``K``.
"""

from __future__ import annotations

from copy import copy
from threading import Condition
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from dm2l._solvers.features import Features
from dm2l._solvers.nuclear import Evaluation, Norm
from dm2l._solvers.problem import Preconditioner, Problem, SmoothProblem
from dm2l._utils.arrays import (
    add_diagonal,
    asarray_like,
    cholesky,
    float64,
    invert_triangular,
    is_non_numpy,
    solve_triangular,
    symmetrize,
)

# Columns of the inverse of the factor that are looked at together.
_WIDTH = 256
# Rows, about, that tell how far scores and coefficients disagree.
_LOOKED_AT = 500


class KernelOperator(Features):
    """Scores as their own coordinates: weights stack ``F``, ``A`` and, with an intercept, ``b``."""

    def __init__(self, K: Any, intercept: bool) -> None:
        super().__init__(K, intercept)
        self.example = asarray_like(np.empty((0, 0)), K)
        self._spread = float(self.xp.mean(self.xp.linalg.diagonal(K)) - self.xp.mean(K))

    def spread(self, weights: NDArray[np.float64] | None = None) -> float:
        """Variances of the columns of any ``Phi`` with ``K = Phi Phi'``, added up."""
        return self._spread

    def release(self) -> Any:
        """The kernel matrix, for others to overwrite: scores and steps do without it."""
        K, self.Phi = self.Phi, None
        return K

    def scores(self, W: Any) -> Any:
        return W[: self.n, :]

    def adjoint(self, G: Any) -> Any:
        """Slopes along scores are gradients already."""
        return float64(G)

    def dual(self, W: Any) -> Any:
        return W[self.n : 2 * self.n, :]

    def to_original(self, W: Any) -> Any:
        return W[self.n :, :]

    def from_original(self, W: Any) -> Any:
        """``F`` on top of ``A`` over ``b``; columns of ``A`` are made to sum up to 0."""
        xp, A, b = self.xp, W[: self.n, :], W[self.n :, :]
        if self.intercept:
            A = A - xp.mean(A, axis=0, keepdims=True)
        F = self.Phi @ A
        return xp.concat([F + b if self.intercept else F, A, b], axis=0)

    def drift(self, W: Any) -> float:
        """How far ``F`` is from what ``A`` and ``b`` give, relative to it, by some of its rows."""
        some = slice(None, None, max(1, self.n // _LOOKED_AT))
        F, A, b = self.scores(W)[some, :], self.dual(W), W[2 * self.n :, :]
        norm, K = self.xp.linalg.vector_norm, self.Phi[some, :]
        apart = F - K @ A - b if self.intercept else F - K @ A
        return float(norm(apart)) / max(float(norm(F)), 1e-300)

    def with_intercept(self, W: Any, other: Any) -> Any:
        moved = W[: self.n, :] + (other[2 * self.n :, :] - W[2 * self.n :, :])
        return self.xp.concat([moved, self.dual(W), other[2 * self.n :, :]], axis=0)


class KernelProblem(Problem):
    """The problem in these coordinates; gradients are those along scores, of shape (n, c)."""

    features: KernelOperator

    def product(self, W: Any) -> Any:
        """The Hessian of loss and ridge, times ``W``."""
        loss = self.features.scores(W) * self.objective.observed
        return loss + self.alpha * self.features.dual(W)

    def evaluate(
        self, W: Any, norm: Norm, linear: Any = None, *, curvature: bool = False
    ) -> Evaluation:
        self.n_evaluations += 1
        F = self.features.scores(W)
        at = self.objective.evaluate(F, norm, linear, curvature=curvature)
        ridge = self.ridge(W)
        gradient = at.gradient + self.alpha * self.features.dual(W)
        return Evaluation(at.value + ridge, at.exact + ridge, gradient, at.curvature)

    def ridge(self, W: Any) -> float:
        """``alpha/2 tr(A'KA)``."""
        F, A = self.features.scores(W), self.features.dual(W)
        return 0.5 * self.alpha * float(self.xp.sum(F * A))


class KernelPreconditioner(Preconditioner):
    """``M = rho K + alpha I = R R'``, which turns gradients into steps."""

    # Who solves systems for this factor and its copies in other threads together.
    together: BatchedSolver | None = None
    place = 0

    def __init__(self, problem: KernelProblem, *, keep: bool = False, single: bool = False) -> None:
        features, xp = problem.features, problem.xp
        self.rho, self.alpha = problem.rho, problem.alpha
        # F is a difference of the gradient and A.
        self.rounding = float(np.finfo(np.float64).eps) / self.rho
        M = features.Phi if keep else features.release()
        if single:
            M = np.multiply(M, self.rho, dtype=np.float32, casting="same_kind")
        elif not keep and not is_non_numpy(M):
            M *= self.rho
        else:
            M = self.rho * M
        M = add_diagonal(M, xp.full_like(M[:, 0], self.alpha))
        R = cholesky(M, overwrite=True)
        if R is None:
            raise np.linalg.LinAlgError("The kernel matrix is not positive semi-definite.")
        # In float32 BLAS takes a half longer for L Z = B than for (L')'Z = B, with L' at hand.
        self._R, self._mirrored = (symmetrize(R), True) if single else (R, False)
        self._inverse = invert_triangular(R) if is_non_numpy(R) else None
        self._ones = None
        if features.intercept:
            self._ones = self._solve(xp.ones_like(R[:, :1]))

    def _solve(self, D: Any) -> Any:
        if self.together is not None:
            return self.together.solve(self.place, D)
        return self.solve(D)

    def solve(self, D: Any) -> Any:
        """``M^-1 D``, in float64."""
        D = array_namespace(D).astype(D, self._R.dtype, copy=False)
        if self._inverse is not None:
            return float64(self._inverse.T @ (self._inverse @ D))
        half = solve_triangular(self._R.T if self._mirrored else self._R, D)
        return float64(solve_triangular(self._R, half, transpose=True))

    def step(self, gradient: Any) -> Any:
        xp = array_namespace(gradient)
        A = self._solve(gradient)
        if self._ones is None:
            return xp.concat([(gradient - self.alpha * A) / self.rho, A], axis=0)
        b = xp.sum(A, axis=0, keepdims=True) / (self.rho * xp.sum(self._ones))
        A = A - self.rho * self._ones * b
        return xp.concat([(gradient - self.alpha * A) / self.rho, A, b], axis=0)

    def hessian(self, problem: SmoothProblem, V: Any) -> Any:
        return problem.product(V)

    def leverages(self) -> Any:
        """Pull of each row on its score: ``(1 - alpha (M^-1)_ii) / rho``, less the intercept."""
        xp, R = array_namespace(self._R), self._R
        n, parts = R.shape[0], []
        for start in range(0, n, _WIDTH):
            end = min(n, start + _WIDTH)
            if self._inverse is None:
                columns = solve_triangular(R[start:, start:], np.eye(n - start, end - start))
            else:
                columns = self._inverse[:, start:end]
            parts.append(xp.sum(columns * columns, axis=0))
        inverse = xp.concat(parts)
        if self._ones is not None:
            inverse = inverse - self._ones[:, 0] ** 2 / xp.sum(self._ones)
        return (1.0 - self.alpha * inverse) / self.rho

    def members(self, count: int) -> list[KernelPreconditioner]:
        """The same factor for descents in so many threads, all of which have to leave."""
        together, members = BatchedSolver(self, count), []
        for place in range(count):
            member = copy(self)
            member.together, member.place = together, place
            members.append(member)
        return members

    def to_weights(self, V: Any) -> Any:
        return V

    def to_gradient(self, gradient: Any) -> Any:
        return gradient

    def to_variables(self, W: Any) -> Any:
        return W


class BatchedSolver:
    """Waits until all descents that are left have asked, and solves for all of them at once.

    Who is left when is decided by the descents, never by the threads.
    """

    def __init__(self, factor: KernelPreconditioner, count: int) -> None:
        self._factor = factor
        self._left = set(range(count))
        self._asked: dict[int, Any] = {}
        self._answers: dict[int, Any] = {}
        self._failure: BaseException | None = None
        self._changed = Condition()

    def solve(self, place: int, D: Any) -> Any:
        with self._changed:
            self._asked[place] = D
            self._answer()
            self._changed.wait_for(lambda: place in self._answers or self._failure is not None)
            if self._failure is not None:
                raise self._failure
            return self._answers.pop(place)

    def leave(self, place: int) -> None:
        """Let the others go on without this one."""
        with self._changed:
            self._left.discard(place)
            self._answer()

    def _answer(self) -> None:
        if self._failure is not None or not self._asked or len(self._asked) < len(self._left):
            return
        places = sorted(self._asked)
        try:
            solved = self._factor.solve(np.concatenate([self._asked[k] for k in places], axis=1))
        except BaseException as error:  # or the others would wait for ever
            self._failure = error
            self._changed.notify_all()
            raise
        self._answers = dict(zip(places, np.split(solved, len(places), axis=1), strict=True))
        self._asked = {}
        self._changed.notify_all()
