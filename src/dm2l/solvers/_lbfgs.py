"""The default solver: quasi-Newton on the smoothed objective in preconditioned variables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from array_api_compat import array_namespace, device

from dm2l.arrays import identity, like, to_numpy
from dm2l.nuclear import smooth_nuclear_norm
from dm2l.solvers._problem import Preconditioner, Problem, Report, Solution

# Smoothing is lowered in these steps until the exact objective no longer cares.
SMOOTHING = (1e-2, 1e-3, 1e-4, 1e-5)
# Pairs of steps and gradient changes that are remembered.
MEMORY = 20
# The curvature of the norms is looked at again after so many iterations.
REFRESH = 2
# An iteration may lower the objective by this share of what the slope promises, or is shortened.
SUFFICIENT = 1e-4
SHORTENINGS = 20
# Relative differences of the objective that mean nothing.
ROUNDING = 1e-14
# Tolerances below this ask for more than values of the objective can tell.
ROUNDING_OF_J = 1e-12
# After a shortened step the next one begins at most this much longer.
LENGTHENING = 1.5


def solve_lbfgs(
    problem: Problem,
    preconditioner: Preconditioner,
    V: Any,
    *,
    tol: float,
    max_iter: int,
    linear: Any = None,
    smoothing: float = SMOOTHING[0],
    finest: float = SMOOTHING[-1],
    report: Report | None = None,
) -> Solution:
    """Minimise the objective by L-BFGS with falling smoothing.

    Each stage minimises the smoothed objective in ``V = R'W`` and starts where the one before
    ended. In these variables loss and ridge have a Hessian near the identity, and the nuclear
    norms one near ``I (x) lambda_d Q / rho`` with ``Q`` the mean curvature that a row sees, which
    is what the quasi-Newton model starts from. Half the squared gradient, measured by that model,
    bounds what a further stage could still gain: when that is below ``tol`` of the objective, or
    a stage has gained less than that, the smoothing no longer matters.

    Written here rather than taken from scipy, whose L-BFGS knows no initial Hessian, forgets all
    it has learnt when the variables change, and lives on the host.

    Parameters
    ----------
    problem : Problem
        What to minimise.
    preconditioner : Preconditioner
        The change of variables.
    V : array of shape (d, c)
        Start.
    tol : float
        Relative change of the objective, per iteration and per stage, that counts as none.
    max_iter : int
        Most iterations over all stages.
    linear : array of shape (n, c), default=None
        Linearises the concave part: the convex surrogate of Algorithm 1.
    smoothing : float, default=1e-2
        Where the smoothing starts; a start near the solution wants it small.
    finest : float, default=1e-5
        Where it ends at the latest.
    report : callable, default=None
        Called with the iteration and the exact objective.

    Returns
    -------
    Solution
        Weights ``W`` and history.
    """
    descent = _Descent(problem, preconditioner, linear, report)
    evaluations = problem.n_evaluations
    V = descent.xp.astype(V, descent.xp.float64)
    stages = [mu for mu in SMOOTHING if finest <= mu <= smoothing]
    converged = False
    last_end = np.inf
    for mu in stages if problem.objective.lambda_d else stages[-1:]:
        start = descent.begin(V, mu)
        gain = descent.possible_gain(start)
        converged = not gain or (np.isfinite(last_end) and gain <= tol * abs(descent.best.exact))
        left = max_iter - descent.n_iter
        if converged or left <= 0:
            break
        end, exhausted = descent.minimise(start, mu, tol, left)
        V = end.V
        if exhausted:
            break
        converged = last_end - end.exact <= tol * abs(descent.best.exact) or mu == stages[-1]
        if converged:
            break
        last_end = end.exact
    best = descent.result(tol)
    return Solution(
        W=preconditioner.to_weights(best.V),
        objective=best.exact,
        n_iter=max(1, descent.n_iter),
        converged=converged,
        history=descent.history,
        n_evaluations=problem.n_evaluations - evaluations,
    )


@dataclass
class _Point:
    """Where the descent stands."""

    V: Any
    value: float
    exact: float
    gradient: Any
    curvature: Any


class _Descent:
    """The iterations of all stages, what they remember, and the best point so far."""

    def __init__(
        self, problem: Problem, preconditioner: Preconditioner, linear: Any, report: Report | None
    ) -> None:
        self.xp = problem.features.xp
        self._problem = problem
        self._preconditioner = preconditioner
        self._linear = linear
        self._report = report
        self._memory = _Memory()
        self._model: Any = None
        self._length = 1.0
        self._promised = 0.0
        self.history: list[float] = []
        self.n_iter = 0

    def begin(self, V: Any, mu: float) -> _Point:
        """Evaluate at the start of a stage, the curvature of the norms included."""
        point = self._evaluate(V, mu, curvature=True)
        self._latest = point
        if not self.history:
            self.history.append(point.exact)
            self.best = self._start = point
        return point

    def possible_gain(self, point: _Point) -> float:
        """Half the squared gradient, as the initial model measures it."""
        return 0.5 * self._inner(point.gradient, self._precondition(point.gradient))

    def minimise(self, point: _Point, mu: float, tol: float, max_iter: int) -> tuple[_Point, bool]:
        """Minimise at one smoothing; returns the end and whether the iterations ran out."""
        for iteration in range(1, max_iter + 1):
            following = self._step(point, mu, curvature=iteration % REFRESH == 0)
            if following is None:
                return point, False
            self._accept(following)
            gained = point.value - following.value
            if tol < ROUNDING_OF_J:
                # Differences of values are noise by now; what the slope promised is not.
                gained = max(gained, self._promised)
            point = following
            if gained <= max(tol, 1e-16) * abs(point.value):
                return point, False
        return point, True

    def result(self, tol: float) -> _Point:
        """The best point, or the last one where rounding hides which is better.

        Of two points on the way the later one has the smaller gradient. A start that nothing
        improved was the end of another run.
        """
        best, latest = self.best, self._latest
        slack = 1e-8 if best is not self._start else 1e-9
        if tol < ROUNDING_OF_J and best is not self._start:
            slack = 1e-6  # values are noise where singular values vanish, gradients are not
        return latest if latest.exact <= best.exact + slack * abs(best.exact) else best

    def _step(self, point: _Point, mu: float, *, curvature: bool) -> _Point | None:
        """One iteration; None where no step lowers the objective.

        A search that fails usually fails because of what is remembered, so it is tried again
        without.
        """
        while True:
            direction = self._memory.direction(point.gradient, self._precondition)
            slope = self._inner(point.gradient, direction)
            following = self._search(point, direction, slope, mu, curvature) if slope < 0 else None
            if following is not None:
                self._memory.add(following.V - point.V, following.gradient - point.gradient)
                return following
            if not len(self._memory):
                return None
            self._memory.clear()
            self._length = 1.0

    def _search(
        self, point: _Point, direction: Any, slope: float, mu: float, curvature: bool
    ) -> _Point | None:
        """Shorten the step, by the parabola through what is known, until it gains enough."""
        step = min(1.0, LENGTHENING * self._length)
        for _ in range(SHORTENINGS):
            trial = self._evaluate(point.V + step * direction, mu, curvature)
            excess = trial.value - point.value - step * slope
            enough = trial.value <= point.value + SUFFICIENT * step * slope
            if not enough and trial.value <= point.value + ROUNDING * abs(point.value):
                # Values no longer tell, gradients still do: not past the minimum by much.
                enough = self._inner(trial.gradient, direction) <= (2 * SUFFICIENT - 1) * slope
            if enough:
                self._length = step
                self._promised = -0.5 * step * slope
                return trial
            if not np.isfinite(excess):
                step *= 0.1
                continue
            step = min(0.5 * step, max(0.1 * step, -0.5 * slope * step * step / excess))
            if not -step * slope > 1e-16 * abs(point.value):
                return None
        return None

    def _evaluate(self, V: Any, mu: float, curvature: bool) -> _Point:
        W = self._preconditioner.to_weights(V)
        norm = partial(smooth_nuclear_norm, mu=mu)
        at = self._problem.evaluate(W, norm, self._linear, curvature=curvature)
        point = _Point(
            V, at.value, at.exact, self._preconditioner.to_gradient(at.gradient), at.curvature
        )
        if at.curvature is not None:
            self._set_model(at.curvature)
        return point

    def _set_model(self, curvature: Any) -> None:
        """Half the mean curvature: the global norm takes about the other half away again."""
        share = 0.5 * self._problem.objective.lambda_d
        share /= self._preconditioner.rho * self._problem.features.n
        self._model = self.xp.linalg.inv(identity(curvature) + share * curvature)

    def _precondition(self, gradient: Any) -> Any:
        return gradient if self._model is None else gradient @ self._model

    def _accept(self, point: _Point) -> None:
        self.n_iter += 1
        self.history.append(point.exact)
        self._latest = point
        if point.exact < self.best.exact:
            self.best = point
        if self._report is not None:
            self._report(self.n_iter, point.exact)

    def _inner(self, A: Any, B: Any) -> float:
        flat = self.xp.reshape
        return float(self.xp.vecdot(flat(A, (-1,)), flat(B, (-1,))))


class _Memory:
    """The last steps ``s`` and gradient changes ``y``, and the direction they suggest.

    The two loops of L-BFGS are two triangular systems in the inner products ``s_i'y_j``, so that
    an iteration passes over the memory five times, whatever its length, and waits for an
    accelerator as rarely.
    """

    def __init__(self, size: int = MEMORY) -> None:
        self._size = size
        self.clear()

    def __len__(self) -> int:
        return len(self._order)

    def clear(self) -> None:
        """Forget everything."""
        self._order: list[int] = []
        self._products = np.zeros((self._size, self._size))

    def add(self, step: Any, change: Any) -> None:
        """Remember a pair, if the function curves upwards along it."""
        xp = array_namespace(step)
        s, y = xp.reshape(step, (-1,)), xp.reshape(change, (-1,))
        sy, ss, yy = float(xp.vecdot(s, y)), float(xp.vecdot(s, s)), float(xp.vecdot(y, y))
        if not sy > 1e-10 * (ss * yy) ** 0.5:
            return
        if not self._order:
            shape = (self._size, s.shape[0])
            self._steps = xp.zeros(shape, dtype=s.dtype, device=device(s))
            self._changes = xp.zeros(shape, dtype=s.dtype, device=device(s))
        full = len(self._order) == self._size
        slot = self._order.pop(0) if full else len(self._order)
        self._order.append(slot)
        self._steps[slot, :] = s
        self._changes[slot, :] = y
        # Only products of a step with later changes are ever needed.
        self._products[:, slot] = to_numpy(self._steps @ y)

    def direction(self, gradient: Any, precondition: Any) -> Any:
        """``-H g`` with ``H`` built on ``precondition`` as the initial inverse Hessian."""
        if not self._order:
            return -precondition(gradient)
        xp = array_namespace(gradient)
        k, order = len(self._order), self._order
        steps, changes = self._steps[:k, :], self._changes[:k, :]
        upper = np.triu(self._products[np.ix_(order, order)])
        back = np.argsort(order)
        g = xp.reshape(gradient, (-1,))
        alpha = scipy.linalg.solve_triangular(upper, to_numpy(steps @ g)[order])
        q = g - like(alpha[back], g) @ changes
        r = xp.reshape(precondition(xp.reshape(q, gradient.shape)), (-1,))
        rest = np.diagonal(upper) * alpha - to_numpy(changes @ r)[order]
        gamma = scipy.linalg.solve_triangular(upper, rest, trans="T")
        return -xp.reshape(r + like(gamma[back], g) @ steps, gradient.shape)
