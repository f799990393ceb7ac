r"""Exact kernel models with scores as variables; a fit needs only one Cholesky factor.

Let ``F = K A + 1 b'`` and ``1'A = 0``; all steps below preserve these equations. The ridge term
``alpha tr(A'KA)`` is then ``alpha <A, F>``, and loss and ridge have the Hessian

.. math:: \langle (F_1, A_1), (F_2, A_2) \rangle = \rho \langle F_1, F_2 \rangle
          + \alpha \langle A_1, F_2 \rangle

if entries are observed at random. A gradient is an array ``D`` such that ``<D, F_1>`` is the slope
along a step ``(F_1, A_1, b_1)``. The preconditioned step solves ``rho F + alpha A = D``: with
``M = rho K + alpha I``, ``A = M^{-1}(D - rho 1 b')`` and ``F = (D - alpha A) / rho``. Neither
a factor of ``K`` nor products with ``K`` are needed, so ``M`` may overwrite ``K``.
"""

from copy import copy
from threading import Condition
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from dm2l._solvers.features import Features
from dm2l._solvers.problem import Preconditioner, Problem, SmoothProblem
from dm2l._utils import arrays

_WIDTH = 256  # number of columns of the inverse that are computed together


class KernelOperator(Features):
    """A kernel matrix as features; ``F``, ``A`` and any intercepts ``b`` are stacked as weights."""

    def __init__(self, K: Any, intercept: bool) -> None:
        super().__init__(K, intercept)
        self.example = arrays.asarray_like(np.empty((0, 0)), K)
        self._spread = float(self.xp.mean(self.xp.linalg.diagonal(K)) - self.xp.mean(K))

    def spread(self, weights: NDArray[np.float64] | None = None) -> float:
        """Return the sum of the column variances of any ``Phi`` with ``K = Phi Phi'``."""
        return self._spread

    def release(self) -> Any:
        """Return the kernel matrix and drop the reference to it, so that it may be overwritten."""
        K, self.Phi = self.Phi, None
        return K

    def scores(self, W: Any) -> Any:
        return W[: self.n, :]

    def adjoint(self, G: Any) -> Any:
        """Return the gradient with respect to the scores in float64."""
        return self.xp.astype(G, self.xp.float64, copy=False)

    def dual(self, W: Any) -> Any:
        return W[self.n : 2 * self.n, :]

    def to_original(self, W: Any) -> Any:
        return W[self.n :, :]

    def from_original(self, W: Any) -> Any:
        """Stack ``F``, ``A`` and ``b``; the columns of ``A`` are centred to sum to 0."""
        xp, A, b = self.xp, W[: self.n, :], W[self.n :, :]
        if self.intercept:
            A = A - xp.mean(A, axis=0, keepdims=True)
        F = self.Phi @ A
        return xp.concat([F + b if self.intercept else F, A, b], axis=0)

    def with_intercept(self, W: Any, other: Any) -> Any:
        moved = W[: self.n, :] + (other[2 * self.n :, :] - W[2 * self.n :, :])
        return self.xp.concat([moved, self.dual(W), other[2 * self.n :, :]], axis=0)


class KernelProblem(Problem):
    """The problem for a :class:`KernelOperator`, with gradients with respect to the scores."""

    features: KernelOperator
    narrows = False

    def product(self, W: Any) -> Any:
        """Return the product of ``W`` with the Hessian of loss and ridge."""
        loss = self.features.scores(W) * self.objective.observed
        return loss + self.alpha * self.features.dual(W)

    def ridge(self, W: Any) -> tuple[float, Any]:
        """Return ``alpha/2 tr(A'KA)`` and its gradient."""
        F, A = self.features.scores(W), self.features.dual(W)
        return 0.5 * self.alpha * float(self.xp.sum(F * A)), self.alpha * A


class KernelPreconditioner(Preconditioner):
    """Preconditioner based on the Cholesky factor of ``M = rho K + alpha I``."""

    # Solves the systems of this object and of its copies in other threads together.
    together: "BatchedSolver | None" = None
    place = 0

    def __init__(self, problem: KernelProblem, *, keep: bool = False) -> None:
        features, xp = problem.features, problem.xp
        self.rho, self.alpha = problem.rho, problem.alpha
        # F = (D - alpha A) / rho divides the rounding error by rho.
        self.rounding = float(np.finfo(np.float64).eps) / self.rho
        M = features.Phi if keep else features.release()
        if not keep and not arrays.is_non_numpy(M):
            M *= self.rho
        else:
            M = self.rho * M
        M = arrays.add_diagonal(M, xp.full_like(M[:, 0], self.alpha))
        R = arrays.cholesky(M, overwrite=True)
        if R is None:
            what = "The kernel matrix is not positive semidefinite."
            remedy = "Use a valid kernel, or add a small constant to its diagonal."
            raise np.linalg.LinAlgError(f"{what} {remedy}")
        self._R, self._inverse = R, arrays.invert_triangular(R) if arrays.is_non_numpy(R) else None
        self._ones = self._solve(xp.ones_like(R[:, :1])) if features.intercept else None

    def _solve(self, D: Any) -> Any:
        return self.solve(D) if self.together is None else self.together.solve(self.place, D)

    def solve(self, D: Any) -> Any:
        """Return ``M^-1 D`` by solving the two triangular systems."""
        return super().to_weights(super().to_gradient(D))

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
        """Return each row's leverage ``(1 - alpha (M^-1)_ii) / rho``, without the intercept."""
        xp, R = array_namespace(self._R), self._R
        n, parts = R.shape[0], []
        for start in range(0, n, _WIDTH):
            end = min(n, start + _WIDTH)
            if self._inverse is None:
                columns = arrays.solve_triangular(R[start:, start:], np.eye(n - start, end - start))
            else:
                columns = self._inverse[:, start:end]
            parts.append(xp.sum(columns * columns, axis=0))
        inverse = xp.concat(parts)
        if self._ones is not None:
            inverse = inverse - self._ones[:, 0] ** 2 / xp.sum(self._ones)
        return (1.0 - self.alpha * inverse) / self.rho

    def members(self, count: int) -> "list[KernelPreconditioner]":
        """Return a copy for each of ``count`` threads, which must call ``leave`` when they end."""
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
    """Solver that waits for one linear system from each active thread, and solves all together."""

    # The set of active threads depends only on convergence, so results are deterministic.
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
        """Let the other threads continue without the thread at ``place``."""
        with self._changed:
            self._left.discard(place)
            self._answer()

    def _answer(self) -> None:
        if self._failure is not None or not self._asked or len(self._asked) < len(self._left):
            return
        places = sorted(self._asked)
        try:
            solved = self._factor.solve(np.concatenate([self._asked[k] for k in places], axis=1))
        except BaseException as error:  # without this, the other threads would wait forever
            self._failure = error
            self._changed.notify_all()
            raise
        self._answers = dict(zip(places, np.split(solved, len(places), axis=1), strict=True))
        self._asked = {}
        self._changed.notify_all()
