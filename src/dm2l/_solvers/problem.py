"""Optimization problems for the solvers, preconditioners, and masked ridge solutions."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning

from dm2l._solvers.features import Features
from dm2l._solvers.nuclear import Evaluation, Norm
from dm2l._solvers.objective import Objective
from dm2l._utils import arrays
from dm2l.labels._entries import EntryWeights

Array = NDArray[Any]
Report = Callable[[int, float], None]
Map = Callable[[Array], Array]


class Known(NamedTuple):
    """Value and gradient of the objective for one ``smoothing``."""

    at: Evaluation
    smoothing: float

    def reweighed(self, plain: Evaluation, ratio: float) -> Self:
        """Return the evaluation for ``ratio * lambda_d``; ``plain`` is the one without norms."""
        old = self.at
        value, exact, gradient = (
            without + ratio * (with_norms - without)
            for with_norms, without in zip(old[:3], plain[:3], strict=True)
        )
        return self._replace(at=old._replace(value=value, exact=exact, gradient=gradient))


@dataclass
class Solution:
    """Result of a solver."""

    W: Any
    objective: float  # the exact objective at W
    history: list[float]  # the exact objective at the start and after every iteration
    converged: bool = True
    n_evaluations: int = 0
    factor: "Preconditioner | None" = None  # the preconditioner of the problem
    ridge: Any = None  # the solution without norms, if the solver started there
    known: Known | None = None  # the evaluation at W

    @property
    def n_iter(self) -> int:
        """Return the number of iterations, which is at least one."""
        return max(1, len(self.history) - 1)


class SmoothProblem(Protocol):
    """Interface between solvers and optimization problems, in memory or out of core."""

    xp: Any  # array namespace of weights and gradients
    example: Any  # an array with the library, device and dtype of the features
    n: float  # number of rows, or the sum of their weights
    n_labels: int
    lambda_d: float  # weight of the nuclear norms
    concave: bool  # whether a global norm is subtracted
    penalty: Any  # diagonal of the ridge term as a column
    n_evaluations: int

    @property
    def rho(self) -> float: ...  # share of observed entries
    @property
    def at_zero(self) -> float: ...  # J(0)
    def gram(self) -> Any: ...  # Phi'Phi
    def right(self) -> Any: ...  # Phi'T
    # Phi'(O * Phi W), the Hessian of the loss times W; KernelProblem adds the ridge.
    def product(self, W: Any) -> Any: ...
    def exact(self, W: Any) -> float: ...  # the exact objective
    def to_original(self, W: Any) -> Any: ...  # from weights of centred features
    def from_original(self, W: Any) -> Any: ...  # the inverse of to_original

    def evaluate(self, W: Any, norm: Norm, *, curvature: bool = False) -> Evaluation:
        """Return the smoothed and the exact objective, and the gradient in ``W``."""


class ConcaveProblem(SmoothProblem, Protocol):
    """A problem whose global norm can be linearized, as in Algorithm 1."""

    def linearize(self, W: Any) -> Any: ...  # a subgradient of the global norm
    def evaluate(
        self, W: Any, norm: Norm, linear: Any = None, *, curvature: bool = False
    ) -> Evaluation: ...  # ``linear`` replaces the global norm


class Problem:
    """The problem ``J(W) = J(Phi W) + alpha/2 ||W||^2`` with all rows in memory."""

    # Whether norms are computed with fewer columns if there are fewer features than labels.
    narrows = True

    def __init__(self, features: Features, objective: Objective, alpha: float) -> None:
        self.features = features
        self.objective = objective
        self.alpha = float(alpha)
        self.penalty = self.alpha * features.penalized[:, None]
        self.n_evaluations = 0
        self.xp = features.xp
        self.example = features.example
        self.n: float = features.n if objective.rows is None else float(objective.rows.sum())
        self.n_labels = int(objective.targets.shape[1])
        self.lambda_d = objective.lambda_d
        self.concave = objective.discriminant and objective.lambda_d > 0
        self.gram = partial(features.gram, weights=objective.rows)
        self.to_original = features.to_original
        self.from_original = features.from_original

    @property
    def rho(self) -> float:
        observed = float(self.xp.sum(self.objective.observed, dtype=self.xp.float64))
        return observed / (self.n * self.n_labels)

    @property
    def at_zero(self) -> float:
        squares = self.objective.targets**2
        if self.objective.divisor is not None:
            squares = squares / self.objective.divisor
        return 0.5 * float(self.xp.sum(squares))

    def right(self) -> Any:
        return self.features.adjoint(self.objective.targets)

    def product(self, W: Any) -> Any:
        return self.features.adjoint(self.features.scores(W) * self.objective.observed)

    def linearize(self, W: Any, delta: float = 0.0) -> Any:
        return self.objective.global_subgradient(self.features.scores(W), delta)

    def evaluate(
        self, W: Any, norm: Norm, linear: Any = None, *, curvature: bool = False
    ) -> Evaluation:
        self.n_evaluations += 1
        F = self.features.scores(W)
        ridge, shrunk = self.ridge(W)
        loss, slope = self.objective.loss(F)
        at = Evaluation(float(loss), float(loss), slope)
        # If the step was too long, the loss may overflow.
        normed = self.lambda_d and np.isfinite(at.value)
        narrow = self.narrows and linear is None and W.shape[0] < W.shape[1]
        if normed and not narrow:
            at = self.objective.add_norms(F, at.value, slope, norm, linear, curvature=curvature)
        F = None  # free the memory
        gradient = self.features.adjoint(at.gradient) + shrunk
        if normed and narrow:
            part = self._narrow(W, norm, curvature=curvature)
            at = part._replace(value=at.value + part.value, exact=at.exact + part.exact)
            gradient += part.gradient
        return Evaluation(at.value + ridge, at.exact + ridge, gradient, at.curvature)

    def _narrow(self, W: Any, norm: Norm, *, curvature: bool) -> Evaluation:
        """Return the nuclear terms, computed from the smaller ``Phi A'`` with ``W' = QA``."""
        xp, size = self.xp, W.shape[0]
        Q, A = xp.linalg.qr(W.T)
        A = A.T
        if curvature:  # a column of zeros has the curvature of the directions outside of Q
            A = xp.concat([A, xp.zeros_like(A[:, :1])], axis=1)
        G = self.features.scores(A)
        slope = xp.zeros_like(G)
        at = self.objective.add_norms(G, 0.0, slope, norm, None, curvature=curvature)
        gradient = self.features.adjoint(slope[:, :size]) @ Q.T
        if not curvature:
            return at._replace(gradient=gradient)
        outside = at.curvature[size, size]
        bend = at.curvature[:size, :size]
        bend = Q @ (bend - outside * arrays.identity(bend)) @ Q.T
        bend = arrays.add_diagonal(bend, xp.zeros_like(bend[:, 0]) + outside)
        return at._replace(gradient=gradient, curvature=bend)

    def ridge(self, W: Any) -> tuple[float, Any]:
        """Return the ridge term and its gradient."""
        shrunk = self.penalty * W
        return 0.5 * float(self.features.xp.sum(shrunk * W)), shrunk

    def exact(self, W: Any) -> float:
        return self.objective.exact(self.features.scores(W)) + self.ridge(W)[0]


class Preconditioner:
    """The change of variables ``V = R'W`` with ``rho Phi'Phi + alpha I = R R'``."""

    # If all entries are observed, loss and ridge are exactly 1/2 ||V||^2 plus a linear term.
    rounding = 0.0  # rounding error of slopes along a step, relative to the squared gradient

    def __init__(self, problem: SmoothProblem, gram: Any = None) -> None:
        xp = problem.xp
        self.rho = problem.rho
        gram = problem.gram() if gram is None else gram
        arrays.check_finite(gram, "Products of the features")
        diagonal = self.rho * xp.linalg.diagonal(gram)
        largest = xp.full_like(diagonal, max(float(xp.max(diagonal)), 1.0))
        sizes = xp.where(diagonal > 0, diagonal, largest)
        # Any nonsingular R is valid, so a small multiple of the diagonal can be added to a
        # rank-deficient Gram matrix. Its scale is per column, because features may differ in scale.
        # Sparse columns with large means need larger multiples, which only cost iterations.
        usual = 10 * gram.shape[0] * float(xp.finfo(problem.example.dtype).eps)
        for trace in (usual, 1e-8, 1e-4):
            C = arrays.add_diagonal(self.rho * gram, problem.penalty[:, 0] + trace * sizes)
            R = arrays.cholesky(C, overwrite=True)
            if R is not None:
                break
        else:
            what = "The Gram matrix of the features is not positive definite."
            raise np.linalg.LinAlgError(f"{what} Scale the features, or raise alpha.")
        self._R = R
        # Accelerators multiply many times faster than they solve triangular systems.
        self._inverse = arrays.invert_triangular(R) if arrays.is_non_numpy(R) else None

    def to_weights(self, V: Any) -> Any:
        """Return the weights ``W = R'^-1 V``."""
        if self._inverse is not None:
            return self._inverse.T @ V
        return arrays.solve_triangular(self._R, V, transpose=True)

    def to_gradient(self, gradient: Any) -> Any:
        """Convert the gradient in ``W`` to the gradient ``R^-1 g`` in ``V``."""
        if self._inverse is not None:
            return self._inverse @ gradient
        return arrays.solve_triangular(self._R, gradient)

    def to_variables(self, W: Any) -> Any:
        """Return the preconditioned variables ``V = R'W``."""
        return self._R.T @ W

    def step(self, gradient: Any) -> Any:
        """Return the gradient in ``V`` itself: the Hessian is approximated by the identity."""
        return gradient

    def hessian(self, problem: SmoothProblem, V: Any) -> Any:
        """Return the product of ``V`` with the Hessian of loss and ridge."""
        W = self.to_weights(V)
        return self.to_gradient(problem.product(W) + problem.penalty * W)


def conjugate_gradients(
    problem: SmoothProblem,
    preconditioner: Preconditioner,
    *,
    tol: float = 1e-3,
    max_iter: int = 10,
    start: Any = None,
) -> Any:
    """Return the masked ridge solution for all labels by preconditioned conjugate gradients."""
    xp = problem.xp
    right = preconditioner.to_gradient(problem.right())
    n = right.shape[0]  # in kernel problems, steps have more rows than gradients
    first = preconditioner.step(right)
    V = first if start is None else start
    if start is None and preconditioner.rho == 1.0:  # V is already the solution
        return V
    residual = right - preconditioner.hessian(problem, V)
    direction = preconditioner.step(residual)
    size = xp.sum(residual * direction[:n, :], axis=0)
    floor = preconditioner.rounding * xp.sum(right**2, axis=0)
    goal = xp.maximum(tol**2 * xp.sum(right * first[:n, :], axis=0), floor)
    zero = xp.zeros_like(size)
    tiny = xp.full_like(size, float(np.finfo(np.float64).tiny))
    for _ in range(max_iter):
        if not bool(xp.any(size > goal)):
            break
        image = preconditioner.hessian(problem, direction)
        bend = xp.sum(image * direction[:n, :], axis=0)
        # Labels that have converged up to rounding are no longer updated.
        step = xp.where((size > floor) & (bend > 0), size / xp.maximum(bend, tiny), zero)
        V = V + step * direction
        residual = residual - step * image
        turned = preconditioner.step(residual)
        fresh = xp.sum(residual * turned[:n, :], axis=0)
        share = xp.where(size > floor, fresh / xp.maximum(size, tiny), zero)
        direction = turned + share * direction
        size = fresh
    return V


def solve_by_cg(
    product: Map, right: Array, start: Array, tol: float, inverse: Map | None = None, **limits: Any
) -> Array:
    """Solve ``product(A) = right`` by conjugate gradients; ``inverse`` is the preconditioner."""

    def flat(function: Map) -> LinearOperator:
        size = right.size
        return LinearOperator(
            (size, size), lambda a: np.ravel(function(a.reshape(right.shape))), dtype=np.float64
        )

    M = None if inverse is None else flat(inverse)
    found, _ = cg(flat(product), right.ravel(), start.ravel(), rtol=tol, M=M, **limits)
    return np.asarray(found.reshape(right.shape))


def masked_ridge(
    features: Features,
    T: Array,
    alpha: float,
    *,
    observed: Array | None = None,
    entries: EntryWeights | None = None,
    method: str = "auto",
) -> Array:
    """Return the minimizer of ``1/2 ||O*(Phi W) - T||^2 + alpha/2 ||W||^2`` (masked ridge)."""
    T = np.asarray(T)
    if observed is None:
        observed = T != 0
    else:
        method = "direct"
    features = features.centre()
    if arrays.is_non_numpy(features.Phi):
        method = "cg"
    weights = None if entries is None else entries.weights
    kinds = np.packbits(observed, axis=0) if weights is None else weights
    patterns, which = np.unique(kinds, axis=1, return_inverse=True)
    chosen = method == "auto"
    if chosen:
        steps = 50  # usual alphas need fewer iterations
        size, n, c = features.size, features.n, T.shape[1]
        direct = patterns.shape[1] * size**2 * (size / 3 + n / 2)
        method = "cg" if alpha > 0 and steps * (4 * n + 2 * size) * size * c < direct else "direct"
    if method == "cg":
        objective = Objective(T, 0.0, like=features.example, entries=entries)
        problem = Problem(features, objective, alpha)
        W, settled = ridge_by_steps(problem)
        if not settled and not chosen:
            what = "Conjugate gradients did not reach a relative gradient of 1e-8."
            what += " Scale the features, raise alpha, or use solver='direct'."
            warnings.warn(what, ConvergenceWarning, stacklevel=2)
        if settled or not chosen:
            return arrays.to_numpy(features.to_original(W))
    if entries is not None:
        T = T if entries.targets is None else entries.targets
        T = T if weights is None else weights * T
    W = _direct(features, T, observed, alpha, np.ravel(which), weights)
    return np.asarray(features.to_original(W))


def ridge_by_steps(problem: SmoothProblem) -> tuple[Any, bool]:
    """Return the masked ridge solution, and whether it converged for every label."""
    preconditioner = Preconditioner(problem)
    V = conjugate_gradients(problem, preconditioner, tol=1e-10, max_iter=1000)
    W = preconditioner.to_weights(V)
    zero = problem.right()
    here = preconditioner.to_gradient(problem.product(W) - zero + problem.penalty * W)
    zero = preconditioner.to_gradient(zero)
    sizes = [np.sqrt((arrays.to_numpy(g) ** 2).sum(axis=0)) for g in (here, zero)]
    return W, bool((sizes[0] <= 1e-8 * sizes[1]).all())


def _direct(
    features: Features, T: Array, observed: Array, alpha: float, which: Array, weights: Array | None
) -> Array:
    """Solve masked ridge with one factorization for all labels with the same rows and weights."""
    right = features.adjoint(T.astype(features.Phi.dtype))
    penalty = np.diag(alpha * features.penalized)
    full = features.gram() if weights is None else None
    W = np.empty((features.size, T.shape[1]))
    for pattern in range(int(which.max()) + 1):
        labels = np.flatnonzero(which == pattern)
        rows = observed[:, labels[0]]
        if weights is not None:
            seen = np.flatnonzero(rows)
            gram = features.gram(seen, weights[seen, labels[0]])
        elif rows.all():
            gram = full
        elif 2 * rows.sum() <= len(rows):
            gram = features.gram(np.flatnonzero(rows))
        else:  # the Gram matrix of the missing rows is cheaper
            gram = full - features.gram(np.flatnonzero(~rows))
        W[:, labels] = solve_normal(gram + penalty, right[:, labels], features.intercept)
    return W


def solve_normal(A: Array, B: Array, intercept: bool) -> Array:
    """Return the least-norm solution of normal equations; the norm excludes the intercept."""
    if intercept:
        # The intercept, which is the last variable, is eliminated, so it is not part of the norm.
        column, corner = A[:-1, -1:], A[-1, -1]
        S = A[:-1, :-1] - column @ column.T / corner
        W = solve_normal(S, B[:-1] - column * B[-1:] / corner, False)
        return np.vstack([W, (B[-1:] - column.T @ W) / corner])
    if not len(A):
        return np.empty((0, B.shape[1]))
    arrays.check_finite(A, "Normal equations")
    arrays.check_finite(B, "Normal equations")
    # Scaling to a unit diagonal keeps columns of very different scales from seeming rank-deficient.
    scale = np.sqrt(np.maximum(np.diagonal(A), 0.0))
    scale = 1.0 / np.where(scale > 0, scale, 1.0)
    try:
        factor = scipy.linalg.cho_factor(scale[:, None] * A * scale, lower=True, check_finite=False)
        if np.diagonal(factor[0]).min() > 1e-6:
            solution = scipy.linalg.cho_solve(factor, scale[:, None] * B, check_finite=False)
            return np.asarray(scale[:, None] * solution)
    except scipy.linalg.LinAlgError:
        pass  # A is singular; continue with the least-norm solution
    cond = 100 * len(A) * np.finfo(np.float64).eps
    return np.asarray(scipy.linalg.lstsq(A, B, cond=cond, check_finite=False)[0])
