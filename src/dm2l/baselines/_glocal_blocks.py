"""The blocks of GLOCAL: exact minima, and the descent steps of its released code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg

from dm2l._solvers.features import Features
from dm2l._utils.arrays import check_finite
from dm2l.baselines._linear import weighted_grams
from dm2l.labels._entries import EntryWeights, Signs

Array = NDArray[np.float64]


class Glocal:
    """The objective of :class:`GLOCALClassifier` and the exact minimum of each of its blocks.

    With ``B_m = W' (lambda2 n_m/n X'X + lambda1 X_m'X_m) W`` its last term, which is small where
    scores are smooth on the graph of each group and of all groups together, is ``tr(Z_m' U B_m U'
    Z_m) / 2``. Everywhere below an empty list for ``Z`` leaves it out. ``weights`` are ``lambda``
    and ``lambda1`` to ``lambda5`` as they stand in the formula.
    """

    def __init__(
        self,
        features: Features,
        T: Signs,
        groups: NDArray[np.intp],
        weights: tuple[float, ...],
        entries: EntryWeights | None = None,
    ) -> None:
        self.features = features
        self.T = T.astype(np.float64)
        self.observed = (T != 0).astype(np.float64)
        self._complete = bool((T != 0).all())
        # Of entries, and of rows wherever these stand alone: as if a row were there so often.
        self._rows: Any = None
        self._divisor: Any = None
        if entries is not None and entries.weights is not None:
            self.observed, self._rows = entries.weights, entries.rows
            self.T = self.observed * self.T
            self._complete = False
            self._divisor = np.where(self.observed > 0, self.observed, 1.0)
        self.lam, self.lam1, self.lam2, self.lam3, self.lam4, self.lam5 = weights
        self.gram = features.gram(weights=self._rows)
        self.penalty = features.penalty(1.0)
        members = [np.flatnonzero(groups == m) for m in np.unique(groups)]
        # Per group: lambda2 n_m/n X'X + lambda1 X_m'X_m.
        self.metrics = [
            self.lam2 * self._size(rows) / self._size(slice(None)) * self.gram
            + self.lam1 * features.gram(rows, None if self._rows is None else self._rows[rows])
            for rows in members
        ]
        # A basis in which X'X and the ridge are both diagonal, and their balanced sum is one.
        self._trace = float(np.trace(self.gram)) or 1.0
        self._unit = self._trace / len(self.gram)
        balanced = np.diag(self._unit * self.penalty)
        self._share, self._basis = scipy.linalg.eigh(balanced, self.gram + balanced)

    def _size(self, rows: Any) -> float:
        """What rows weigh."""
        return float(len(self.T[rows]) if self._rows is None else self._rows[rows].sum())

    def _weighed(self, A: Array) -> Array:
        """Rows times what they weigh."""
        return A if self._rows is None else self._rows[:, None] * A

    # -- value ----------------------------------------------------------------------------------

    def data_terms(self, U: Array, V: Array, W: Array) -> float:
        """The two first terms."""
        missed = self.observed * (V @ U.T) - self.T
        apart = V - self.features.scores(W)
        squares = missed if self._divisor is None else missed / self._divisor
        apart_squared = float(np.vdot(apart, self._weighed(apart)))
        return 0.5 * float(np.vdot(missed, squares)) + 0.5 * self.lam * apart_squared

    def value(self, U: Array, V: Array, W: Array, Z: list[Array]) -> float:
        """The objective."""
        total = self.data_terms(U, V, W)
        sizes = float(np.vdot(V, self._weighed(V))), float(np.vdot(U, U))
        total += 0.5 * self.lam3 * sizes[0] + 0.5 * self.lam4 * sizes[1]
        total += 0.5 * self.lam5 * float(np.vdot(W, self.penalty[:, None] * W))
        for B, Zm in zip(self._middles(W, Z), Z, strict=True):
            inner = Zm.T @ U
            total += 0.5 * float(np.vdot(inner, inner @ B))
        return total

    def _middles(self, W: Array, Z: list[Array]) -> list[Array]:
        """``B_m`` of the groups that count."""
        return [W.T @ (metric @ W) for metric in self.metrics[: len(Z)]]

    def _curve_U(self, U: Array, V: Array, middles: list[Array], Z: list[Array]) -> Array:
        total = (self.observed * (V @ U.T)).T @ V + self.lam4 * U
        for B, Zm in zip(middles, Z, strict=True):
            total += Zm @ ((Zm.T @ U) @ B)
        return total

    def _sides(self, U: Array, Z: list[Array]) -> list[Array]:
        """``U' Z_m Z_m' U``."""
        return [(inner := Zm.T @ U).T @ inner for Zm in Z]

    def _curve_W(self, W: Array, sides: list[Array]) -> Array:
        total = self.lam * (self.gram @ W) + self.lam5 * self.penalty[:, None] * W
        for metric, side in zip(self.metrics, sides, strict=False):
            total += metric @ (W @ side)
        return np.asarray(total)

    # -- steps ----------------------------------------------------------------------------------

    def step_U(self, U: Array, V: Array, W: Array, Z: list[Array]) -> Array:
        """Best ``U``: exact where nothing ties the labels, else by conjugate gradients."""
        middles = self._middles(W, Z)
        blocks = weighted_grams(V, self.observed[:, :1] if self._complete else self.observed)
        blocks += self.lam4 * np.eye(V.shape[1])
        right = self.T.T @ V
        if not Z:
            return _solve_blocks(blocks, right)
        blocks += sum(middles)  # rows of Z_m have length one
        inverse = np.linalg.inv(blocks)
        return _conjugate_gradients(
            lambda A: self._curve_U(A, V, middles, Z),
            right,
            U,
            lambda R: (inverse @ R[:, :, None])[:, :, 0],
        )

    def step_V(self, U: Array, V: Array, W: Array) -> Array:
        """Best ``V``, row by row; in blocks of rows, for each has a k x k matrix of its own."""
        right = self.T @ U + self.lam * self._weighed(self.features.scores(W))
        ridge = (self.lam + self.lam3) * np.eye(U.shape[1])
        if self._complete:
            return _solve_blocks(weighted_grams(U, self.observed.T[:, :1]) + ridge, right)
        found = np.empty_like(right)
        size = max(1, int(4e6 // U.shape[1] ** 2))
        for start in range(0, len(right), size):
            rows = slice(start, start + size)
            blocks = weighted_grams(U, self.observed[rows].T)
            of_rows = ridge if self._rows is None else self._rows[rows, None, None] * ridge
            found[rows] = _solve_blocks(blocks + of_rows, right[rows])
        return found

    def step_W(self, U: Array, V: Array, W: Array, Z: list[Array]) -> Array:
        """Best ``W``: ridge on ``V`` where no correlations count, else conjugate gradients.

        Preconditioned with the global part of the correlations, ``X'X W N + lambda5 W = R``, which
        is diagonal in the right bases on both sides.
        """
        sides = self._sides(U, Z)
        N = self.lam * np.eye(U.shape[1])
        for side, metric in zip(sides, self.metrics, strict=False):
            N += np.trace(metric) / self._trace * side
        check_finite(N, "Label correlations")
        height, turn = np.linalg.eigh(N)
        scale = (
            np.outer(1.0 - self._share, height) + (self.lam5 / self._unit) * self._share[:, None]
        )
        scale = np.maximum(scale, np.finfo(float).tiny)

        def precondition(R: Array) -> Array:
            return np.asarray(self._basis @ ((self._basis.T @ R @ turn) / scale) @ turn.T)

        right = self.lam * self.features.adjoint(self._weighed(V))
        if not Z:
            return precondition(right)
        return _conjugate_gradients(lambda A: self._curve_W(A, sides), right, W, precondition)

    def step_Z(self, m: int, U: Array, W: Array, Z: list[Array], n_steps: int = 60) -> Array:
        """Projected gradient steps for ``Z_m``, each at the minimum of a bound from above.

        With ``C = U B_m U'`` and ``D`` the diagonal of its absolute row sums, ``D - C`` is
        positive semi-definite; so normalising the rows of ``(D - C) Z`` never ascends.
        """
        half = self._middles(W, Z)[m] @ U.T
        rows = range(0, len(U), 1000)
        bound = np.concatenate([np.abs(U[i : i + 1000] @ half).sum(axis=1) for i in rows])[:, None]
        now = Z[m]
        for _ in range(n_steps):
            moved = bound * now - U @ (half @ now)
            length = np.linalg.norm(moved, axis=1, keepdims=True)
            now = np.where(length > 1e-300, moved / np.maximum(length, 1e-300), now)
        return np.asarray(now)


def _solve_blocks(blocks: Array, right: Array) -> Array:
    if len(blocks) == 1:
        return np.asarray(np.linalg.solve(blocks[0], right.T).T)
    return np.asarray(np.linalg.solve(blocks, right[:, :, None])[:, :, 0])


def _conjugate_gradients(
    product: Callable[[Array], Array],
    right: Array,
    start: Array,
    precondition: Callable[[Array], Array],
) -> Array:
    """Solve ``product(A) = right`` for a matrix ``A``."""

    def flat(function: Callable[[Array], Array]) -> LinearOperator:
        def apply(a: Array) -> Array:
            return np.ravel(function(a.reshape(right.shape)))

        return LinearOperator((right.size, right.size), matvec=apply, dtype=np.float64)

    found, _ = cg(flat(product), right.ravel(), start.ravel(), rtol=1e-8, M=flat(precondition))
    return np.asarray(found.reshape(right.shape))


class ReleasedGlocal(Glocal):
    """Descent steps instead of exact minima.

    With label correlations the costs of ``U`` and ``W`` take spectral norms for Frobenius norms and
    leave out the factors of one half, so that a step may be refused, or taken, wrongly. The
    gradient of ``Z_m`` is not projected on the tangent space.
    """

    max_steps = 60

    def step_U(self, U: Array, V: Array, W: Array, Z: list[Array]) -> Array:
        """Descend in ``U``."""
        middles = self._middles(W, Z)

        def cost(A: Array) -> float:
            missed = self.observed * (V @ A.T) - self.T
            if not Z:
                return 0.5 * float(np.vdot(missed, missed)) + 0.5 * self.lam4 * float(np.vdot(A, A))
            smooth = sum(
                float(np.vdot(inner := Zm.T @ A, inner @ B))
                for B, Zm in zip(middles, Z, strict=True)
            )
            return _squared_spectral_norm(missed) + self.lam4 * _squared_spectral_norm(A) + smooth

        right = self.T.T @ V
        return steepest_descent(
            cost, lambda A: self._curve_U(A, V, middles, Z) - right, U, max_iter=self.max_steps
        )

    def step_V(self, U: Array, V: Array, W: Array) -> Array:
        """Descend in ``V``."""
        scores = self.features.scores(W)

        def cost(A: Array) -> float:
            missed, apart = self.observed * (A @ U.T) - self.T, A - scores
            fit = float(np.vdot(missed, missed)) + self.lam * float(np.vdot(apart, apart))
            return 0.5 * fit + 0.5 * self.lam3 * float(np.vdot(A, A))

        def gradient(A: Array) -> Array:
            missed = self.observed * (A @ U.T) - self.T
            return missed @ U + self.lam * (A - scores) + self.lam3 * A

        return steepest_descent(cost, gradient, V, max_iter=self.max_steps)

    def step_W(self, U: Array, V: Array, W: Array, Z: list[Array]) -> Array:
        """Descend in ``W``."""
        sides = self._sides(U, Z)
        right = self.lam * self.features.adjoint(V)

        def cost(A: Array) -> float:
            apart, ridge = V - self.features.scores(A), self.penalty[:, None] * A
            if not Z:
                fit = self.lam * float(np.vdot(apart, apart))
                return 0.5 * fit + 0.5 * self.lam5 * float(np.vdot(ridge, ridge))
            smooth = sum(
                float(np.vdot(A, metric @ (A @ side)))
                for metric, side in zip(self.metrics, sides, strict=True)
            )
            squares = _squared_spectral_norm(apart), _squared_spectral_norm(ridge)
            return self.lam * squares[0] + self.lam5 * squares[1] + smooth

        return steepest_descent(
            cost, lambda A: self._curve_W(A, sides) - right, W, max_iter=self.max_steps
        )

    def step_Z(self, m: int, U: Array, W: Array, Z: list[Array], n_steps: int = 60) -> Array:
        """Descend in ``Z_m``, rows normalised after each step."""
        half = self._middles(W, Z)[m] @ U.T
        return steepest_descent(
            lambda A: 0.5 * float(np.vdot(A, U @ (half @ A))),
            lambda A: np.asarray(U @ (half @ A)),
            Z[m],
            unit_rows,
            min(n_steps, self.max_steps),
        )


def unit_rows(A: Array) -> Array:
    return np.asarray(A / np.maximum(np.linalg.norm(A, axis=1, keepdims=True), 1e-300))


def _squared_spectral_norm(A: Array) -> float:
    small = A.T @ A if A.shape[0] > A.shape[1] else A @ A.T
    return float(np.linalg.eigvalsh(small)[-1])


def steepest_descent(
    cost: Callable[[Array], float],
    gradient: Callable[[Array], Array],
    A: Array,
    retract: Callable[[Array], Array] = np.asarray,
    max_iter: int = 60,
) -> Array:
    """Steepest descent with backtracking, as in the first versions of Manopt.

    The first trial step has length one, later ones twice what the last decrease suggests. Stops
    where no trial of 25 descends, or after three changes of the cost below 1e-5. Nothing asks
    whether the gradient is that of the cost.
    """
    costs = [cost(A)]
    for iteration in range(max_iter):
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
