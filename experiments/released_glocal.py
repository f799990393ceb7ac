"""GLOCAL with the steepest-descent steps of its released code instead of exact block minima."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dm2l._base import FitResult
from dm2l.baselines import GLOCALClassifier
from dm2l.baselines._glocal import STEPS, Glocal, unit_rows
from dm2l.baselines._linear import Array
from dm2l.labels._matrix import LabelMatrix


class ReleasedGlocal(Glocal):
    """Blocks of GLOCAL with the released descent steps, by which the objective may rise."""

    # With label correlations its costs of U and W are spectral norms, without the factor one half,
    # so that a step may be refused, or taken, wrongly; the gradient of Z_m is not projected.

    def settled(self, before: float, value: float, tol: float) -> bool:
        return False  # the released code takes all rounds

    def step_U(self, U: Array, V: Array, W: Array, Z: list[Array]) -> Array:
        middles, right = self._middles(W, Z), self.T.T @ V

        def cost(A: Array) -> float:
            missed = self.observed * (V @ A.T) - self.T
            pairs = zip(middles, (Zm.T @ A for Zm in Z), strict=True)
            smooth = sum(float(np.vdot(side, side @ B)) for B, side in pairs)
            return _released_cost([(1.0, missed), (self.lam4, A)], bool(Z)) + smooth

        return steepest_descent(cost, lambda A: self._curve_U(A, V, middles, Z) - right, U)

    def step_V(self, U: Array, V: Array, W: Array) -> Array:
        scores = self.features.scores(W)

        def cost(A: Array) -> float:
            missed, apart = self.observed * (A @ U.T) - self.T, A - scores
            return _released_cost([(1.0, missed), (self.lam, apart), (self.lam3, A)], False)

        def gradient(A: Array) -> Array:
            missed = self.observed * (A @ U.T) - self.T
            return missed @ U + self.lam * (A - scores) + self.lam3 * A

        return steepest_descent(cost, gradient, V)

    def step_W(self, U: Array, V: Array, W: Array, Z: list[Array]) -> Array:
        sides, right = self._sides(U, Z), self.lam * self.features.adjoint(V)

        def cost(A: Array) -> float:
            apart, ridge = V - self.features.scores(A), self.penalty[:, None] * A
            pairs = zip(self.metrics, sides, strict=False)
            smooth = sum(float(np.vdot(A, metric @ (A @ side))) for metric, side in pairs)
            return _released_cost([(self.lam, apart), (self.lam5, ridge)], bool(Z)) + smooth

        return steepest_descent(cost, lambda A: self._curve_W(A, sides) - right, W)

    def step_Z(self, m: int, U: Array, W: Array, Z: list[Array], n_steps: int = STEPS) -> Array:
        half = self._middles(W, Z)[m] @ U.T

        def gradient(A: Array) -> Array:
            return np.asarray(U @ (half @ A))

        return steepest_descent(
            lambda A: 0.5 * float(np.vdot(A, gradient(A))), gradient, Z[m], unit_rows
        )


def _released_cost(terms: list[tuple[float, Array]], spectral: bool) -> float:
    """Weighted squared norms of matrices: half those of Frobenius, or all of the spectral ones."""
    if not spectral:
        return 0.5 * sum(weight * float(np.vdot(A, A)) for weight, A in terms)
    small = [(weight, A.T @ A if A.shape[0] > A.shape[1] else A @ A.T) for weight, A in terms]
    return sum(weight * float(np.linalg.eigvalsh(square)[-1]) for weight, square in small)


def steepest_descent(
    cost: Callable[[Array], float],
    gradient: Callable[[Array], Array],
    A: Array,
    retract: Callable[[Array], Array] = np.asarray,
) -> Array:
    """Steepest descent with backtracking, as in the first versions of Manopt."""
    costs = [cost(A)]
    for iteration in range(STEPS):
        slope = gradient(A)
        square = float(np.vdot(slope, slope))
        if square < 1e-12:
            break
        length = square**-0.5
        if iteration:
            length = max(4.0 * (costs[-2] - costs[-1]) / square, 1e-300)
        for _ in range(25):
            trial = retract(A - length * slope)
            value = cost(trial)
            if value <= costs[-1] - 1e-4 * length * square:
                break
            length /= 2
        if value > costs[-1] or length * square**0.5 < 1e-10:
            break
        A = trial
        costs.append(value)
        if iteration >= 4 and max(abs(np.diff(costs[-4:]))) < 1e-5:
            break
    return A


class ReleasedGLOCALClassifier(GLOCALClassifier):
    """GLOCAL by the steps of its released code, which always takes ``max_iter`` rounds."""

    _blocks = ReleasedGlocal

    def _fit_labels(self, X: Any, labels: LabelMatrix) -> FitResult:
        if labels.entries is not None:
            raise ValueError("The released steps of GLOCAL take no weights; fit without weights.")
        return super()._fit_labels(X, labels)
