"""What a solver sees: a smooth function of the weights, and variables in which it is round."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from array_api_compat import device

from dm2l.arrays import invert_triangular, is_foreign, solve_triangular
from dm2l.features import Features
from dm2l.nuclear import Norm
from dm2l.objective import Evaluation, Objective

Report = Callable[[int, float], None]


@dataclass
class Solution:
    """Weights, and how the solver got there.

    ``objective`` is the exact objective at ``W``; ``history`` holds that of the start and of every
    iteration.
    """

    W: Any
    objective: float
    n_iter: int
    converged: bool
    history: list[float]
    n_evaluations: int = 0


class Problem:
    """``J(W) = J(Phi W) + alpha/2 ||W||^2`` with value, exact value and gradient.

    Parameters
    ----------
    features : Features
        Gives the scores.
    objective : Objective
        Loss and nuclear norms of the scores.
    alpha : float
        Ridge on everything but the intercept.
    """

    def __init__(self, features: Features, objective: Objective, alpha: float) -> None:
        self.features = features
        self.objective = objective
        self.alpha = float(alpha)
        self.penalty = features.penalty(alpha)[:, None]
        self.n_evaluations = 0

    def evaluate(
        self, W: Any, norm: Norm, linear: Any = None, *, curvature: bool = False
    ) -> Evaluation:
        """Smoothed and exact objective and the gradient in ``W``."""
        self.n_evaluations += 1
        F = self.features.scores(W)
        at = self.objective.evaluate(F, norm, linear, curvature=curvature)
        shrunk = self.penalty * W
        ridge = 0.5 * float(self.features.xp.sum(shrunk * W))
        gradient = self.features.adjoint(at.gradient) + shrunk
        return Evaluation(at.value + ridge, at.exact + ridge, gradient, at.curvature)

    def ridge(self, W: Any) -> float:
        """``alpha/2 ||W||^2``."""
        return 0.5 * float(self.features.xp.sum(self.penalty * W * W))

    def exact(self, W: Any) -> float:
        """The exact objective, from singular values."""
        return self.objective.exact(self.features.scores(W)) + self.ridge(W)


class Preconditioner:
    """``C = rho Phi'Phi + alpha I = R R'`` and the change of variables ``V = R'W``.

    ``rho`` is the share of entries observed: with every entry observed the loss and the ridge
    together are exactly ``1/2 ||V||^2`` plus a linear term.
    """

    def __init__(self, problem: Problem, gram: Any = None) -> None:
        features, xp = problem.features, problem.features.xp
        observed = problem.objective.observed
        self.rho = float(xp.sum(observed, dtype=xp.float64)) / math.prod(observed.shape)
        C = self.rho * (features.gram() if gram is None else gram)
        diagonal = xp.linalg.diagonal(C)
        largest = xp.full_like(diagonal, max(float(xp.max(diagonal)), 1.0))
        # Any nonsingular R will do: a trace on the diagonal keeps a rank-deficient Gram matrix
        # away from zero without touching the problem that is solved. Column by column, for one
        # large feature must not drown the others.
        trace = 10 * C.shape[0] * float(xp.finfo(features.Phi.dtype).eps)
        trace = trace * xp.where(diagonal > 0, diagonal, largest)
        index = xp.arange(C.shape[0], device=device(C))
        on_diagonal = index[:, None] == index[None, :]
        added = problem.penalty + trace[:, None]
        self._R = xp.linalg.cholesky(xp.where(on_diagonal, C + added, C))
        # Accelerators multiply many times faster than they solve, and any nonsingular matrix
        # serves as a change of variables as long as both directions use the same one.
        self._inverse = invert_triangular(self._R) if is_foreign(self._R) else None

    def to_weights(self, V: Any) -> Any:
        """``W = R'^-1 V``."""
        if self._inverse is not None:
            return self._inverse.T @ V
        return solve_triangular(self._R, V, transpose=True)

    def to_gradient(self, gradient: Any) -> Any:
        """Gradient in ``V`` from the gradient in ``W``: ``R^-1 g``."""
        if self._inverse is not None:
            return self._inverse @ gradient
        return solve_triangular(self._R, gradient)

    def to_variables(self, W: Any) -> Any:
        """``V = R'W``."""
        return self._R.T @ W
