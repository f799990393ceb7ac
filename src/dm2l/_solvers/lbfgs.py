"""The default solver: a quasi-Newton method for the smoothed, preconditioned objective."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from dm2l._solvers.nuclear import Evaluation, SmoothNorm
from dm2l._solvers.problem import Known, Preconditioner, Report, SmoothProblem, Solution
from dm2l._utils.arrays import add_diagonal, asarray_like, to_numpy

# Successive values of the smoothing. The first value is used only if the first step may decrease
# the objective by more than the fraction FAR.
SMOOTHING = (5e-2, 1.5e-2, 5e-3, 1.5e-3, 5e-4, 1.5e-4, 5e-5, 1e-5)
FAR = 2e-2
# The smoothing mu is lowered if a step decreases the objective by less than the fraction
# PATIENCE (mu / SMOOTHING[1])^0.6. Lowering it earlier would require more steps later.
PATIENCE = 7e-6
# For convergence, the previous smoothing must also have ended within this multiple of ``tol``.
NEARLY = 2.0
MEMORY = 20  # maximum number of stored pairs of steps and gradient changes
FEW = 8  # number of pairs for which memory is allocated at once, because most fits need few pairs
REFRESH = 2  # number of iterations between evaluations of the curvature of the norms
# A step is shortened if its decrease is below this share of the decrease predicted by the slope.
SUFFICIENT = 1e-4
SHORTENINGS = 20
ROUNDING = 1e-14  # smaller relative differences of the objective are rounding errors
ROUNDING_OF_J = 1e-12  # smallest tolerance for which the objective is precise enough
# The rate at which predicted gains fall is measured over WINDOW steps and limited to SLOWEST.
WINDOW, SLOWEST = 5, 0.95
LENGTHENING = 1.5  # maximum growth factor of the step after a shortened step
SHORTER = 0.9  # the starting point is scaled if its best multiple is below this value


def solve_lbfgs(
    problem: SmoothProblem,
    preconditioner: Preconditioner,
    V: Any,
    *,
    tol: float,
    max_iter: int,
    evaluate: Callable[..., Evaluation] | None = None,
    smoothing: float = SMOOTHING[1],
    finest: float = SMOOTHING[-1],
    report: Report | None = None,
    known: Known | None = None,
) -> Solution:
    """Minimize the objective by L-BFGS in ``V = R'W``, with decreasing smoothing."""
    # In these variables, the Hessian of loss and ridge is near the identity, and the Hessian of the
    # norms is near I (x) lambda_d Q / rho, where Q is the mean curvature of a row. L-BFGS starts
    # from their sum. The solver stops when the sum of predicted gains is below tol. (scipy's
    # L-BFGS takes no initial Hessian.) ``evaluate`` replaces the method of the problem.
    descent = _Descent(problem, preconditioner, evaluate or problem.evaluate, report)
    evaluations = problem.n_evaluations
    steps = np.asarray(SMOOTHING)
    ladder = steps[(steps >= finest) & (steps <= smoothing)].tolist()
    if not problem.lambda_d:
        ladder = ladder[-1:]
    if known is not None and known.smoothing != ladder[0]:
        known = None
    # Start at the best multiple t of V, because weights for a smaller lambda_d, such as ridge
    # weights, are too large. Along t V, the objective is J(0) - t p + t^2 q/2, and p includes the
    # nuclear norms. Value and slope at V determine t.
    V = problem.xp.astype(V, problem.xp.float64)
    start = descent.evaluate(V, ladder[0], curvature=True, known=known)
    descent.history.append(start.exact)
    slope = descent.inner(start.gradient, V)
    q = 2.0 * (slope - start.exact + problem.at_zero)
    if q > 0 and slope > (1.0 - SHORTER) * q:
        shorter = descent.evaluate(max(0.0, 1.0 - slope / q) * V, ladder[0], curvature=True)
        if shorter.exact < start.exact:
            start = shorter
    descent.best = descent.latest = start
    converged = descent.run(ladder, tol, max_iter)
    best, latest = descent.best, descent.latest
    # Return the best point, or the last point if both differ only by rounding, because its gradient
    # is smaller. If the start was not improved, it is the solution of an earlier run.
    slack = 1e-9
    if best is not start:
        slack = 1e-6 if tol < ROUNDING_OF_J else 1e-8
    if latest.exact <= best.exact + slack * abs(best.exact):
        best = latest
    seen = descent.bent  # the last evaluation with curvature
    if seen is not None:
        seen = best.at._replace(curvature=seen.curvature)
    W, evaluations = preconditioner.to_weights(best.V), problem.n_evaluations - evaluations
    solution = Solution(W, best.exact, descent.history, converged, evaluations)
    solution.known = None if seen is None else Known(seen, best.mu)
    return solution


@dataclass
class _Point:
    """A point of the descent and its evaluation."""

    V: Any
    value: float
    exact: float
    gradient: Any
    at: Evaluation
    mu: float


@dataclass
class _Memory:
    """The last steps ``s`` and gradient changes ``y`` of L-BFGS."""

    # The two loops of L-BFGS are written as two triangular systems in s_i'y_j, which need few
    # passes over memory and few synchronizations with an accelerator.
    _steps: Any = None
    _changes: Any = None
    order: list[int] = field(default_factory=list)
    _products: NDArray[np.float64] = field(default_factory=partial(np.zeros, (MEMORY, MEMORY)))

    def add(self, step: Any, change: Any) -> None:
        """Store a step and its gradient change if the curvature along the step is positive."""
        xp = array_namespace(step)
        s, y = xp.reshape(step, (-1,)), xp.reshape(change, (-1,))
        met = s[: y.shape[0]]
        sy, ss, yy = float(xp.vecdot(met, y)), float(xp.vecdot(met, met)), float(xp.vecdot(y, y))
        if not sy > 1e-10 * (ss * yy) ** 0.5:
            return
        full = len(self.order) == MEMORY
        slot = self.order.pop(0) if full else len(self.order)
        self.order.append(slot)
        if not full and slot % FEW == 0:
            rows = min(FEW, MEMORY - slot)
            steps = xp.zeros((rows, s.shape[0]), dtype=s.dtype, device=device(s))
            changes = xp.zeros((rows, y.shape[0]), dtype=y.dtype, device=device(y))
            if slot:
                steps = xp.concat([self._steps, steps], axis=0)
                changes = xp.concat([self._changes, changes], axis=0)
            self._steps, self._changes = steps, changes
        self._steps[slot, :] = s
        self._changes[slot, :] = y
        # Only products of a step with later gradient changes are needed.
        products = to_numpy(self._steps[:, : y.shape[0]] @ y)
        self._products[: len(products), slot] = products

    def direction(self, gradient: Any, precondition: Any) -> Any:
        """Return ``-H g``; the inverse Hessian ``H`` of L-BFGS starts from ``precondition``."""
        if not self.order:
            return -precondition(gradient)
        xp = array_namespace(gradient)
        k, order = len(self.order), self.order
        steps, changes = self._steps[:k, :], self._changes[:k, :]
        upper = np.triu(self._products[np.ix_(order, order)])
        back = np.argsort(order)
        g = xp.reshape(gradient, (-1,))
        alpha = scipy.linalg.solve_triangular(upper, to_numpy(steps[:, : g.shape[0]] @ g)[order])
        q = g - asarray_like(alpha[back], g) @ changes
        step = precondition(xp.reshape(q, gradient.shape))
        r = xp.reshape(step, (-1,))
        rest = np.diagonal(upper) * alpha - to_numpy(changes @ r[: g.shape[0]])[order]
        gamma = scipy.linalg.solve_triangular(upper, rest, trans="T")
        return -xp.reshape(r + asarray_like(gamma[back], g) @ steps, step.shape)


@dataclass
class _Descent:
    """State of the iterations: the L-BFGS memory, the curvature model and the best point."""

    problem: SmoothProblem
    preconditioner: Preconditioner
    objective: Callable[..., Evaluation]
    report: Report | None
    memory: _Memory = field(default_factory=_Memory)
    model: Any = None
    bent: Evaluation | None = None  # the last evaluation with curvature
    length: float = 1.0
    history: list[float] = field(default_factory=list)
    n_iter: int = 0
    best: _Point = field(init=False)
    latest: _Point = field(init=False)

    def run(self, ladder: list[float], tol: float, max_iter: int) -> bool:
        """Iterate over the smoothing values in ``ladder``; return whether the solver converged."""
        level, settled = 0, False
        # Rate at which predicted gains fall for the current smoothing, and the last predicted gain.
        rate = 0.5
        gains: list[float] = []
        while True:
            point = self.latest
            direction, slope = self._direction(point)
            gain = -0.5 * slope / abs(point.value) if point.value else 0.0
            gains = [*gains, gain][-WINDOW:]
            if len(gains) > 1 and gains[0] > 0:
                rate = min(SLOWEST, (gain / gains[0]) ** (1.0 / (len(gains) - 1)))
            # The predicted sum of this and all later gains is doubled, because it may be too low
            # by a factor of two.
            remaining = 2.0 * gain / (1.0 - rate)
            last = level == len(ladder) - 1
            here = remaining <= max(tol, 1e-16)
            if here and (last or (settled and tol >= ROUNDING_OF_J)):
                return True
            settled = here
            if self.n_iter == max_iter:
                return False
            following = None
            if not self.n_iter and gain > FAR and ladder[0] == SMOOTHING[1]:
                ladder = list(SMOOTHING[: 1 + len(ladder)])
                following = self._jump(point, direction, ladder[0])
            elif not settled and (last or gain > PATIENCE * (ladder[level] / SMOOTHING[1]) ** 0.6):
                following = self._step(point, direction, slope, ladder[level])
                if following is None and last:
                    return True  # slopes are rounding errors
            if following is None:
                level += 1
                settled = remaining <= NEARLY * tol
                gains = []  # gains with different smoothings are not comparable
                following = self._jump(point, direction, ladder[level])
            self.n_iter += 1
            self.history.append(following.exact)
            self.latest = following
            if following.exact < self.best.exact:
                self.best = following
            if self.report is not None:
                self.report(self.n_iter, following.exact)

    def _direction(self, point: _Point) -> tuple[Any, float]:
        """Return the search direction and the slope along it, which is at most 0."""
        direction = self.memory.direction(point.gradient, self._precondition)
        slope = self.inner(point.gradient, direction)
        if slope > 0:
            self.memory = _Memory()
            direction = -self._precondition(point.gradient)
            slope = self.inner(point.gradient, direction)
        if slope > 0:  # with extreme scales, rounding can make the curvature model indefinite
            self.model, direction = None, -self.preconditioner.step(point.gradient)
            slope = self.inner(point.gradient, direction)
        return direction, min(slope, 0.0)

    def _jump(self, point: _Point, direction: Any, mu: float) -> _Point:
        """Take a step with the smoothing ``mu``; return the old point if the objective rises."""
        step = min(1.0, LENGTHENING * self.length)
        trial = self.evaluate(point.V + step * direction, mu, curvature=True)
        if trial.exact <= point.exact * (1.0 + PATIENCE):
            return trial
        return self.evaluate(point.V, mu, curvature=True)

    def _step(self, point: _Point, direction: Any, slope: float, mu: float) -> _Point | None:
        """Return the next point; retry without L-BFGS memory, and return None if this fails."""
        curvature = self.n_iter % REFRESH == REFRESH - 1
        while True:
            following = self._search(point, direction, slope, mu, curvature) if slope < 0 else None
            if following is not None:
                self.memory.add(following.V - point.V, following.gradient - point.gradient)
                return following
            if not self.memory.order:
                return None
            self.memory = _Memory()
            self.length = 1.0
            direction, slope = self._direction(point)

    def _search(
        self, point: _Point, direction: Any, slope: float, mu: float, curvature: bool
    ) -> _Point | None:
        """Shorten the step by quadratic interpolation until the objective falls enough."""
        step = min(1.0, LENGTHENING * self.length)
        for _ in range(SHORTENINGS):
            trial = self.evaluate(point.V + step * direction, mu, curvature)
            excess = trial.value - point.value - step * slope
            enough = trial.value <= point.value + SUFFICIENT * step * slope
            if not enough and trial.value <= point.value + ROUNDING * abs(point.value):
                # If values differ only by rounding, the slope decides.
                enough = self.inner(trial.gradient, direction) <= (2 * SUFFICIENT - 1) * slope
            if enough:
                self.length = step
                return trial
            if not np.isfinite(excess):
                step *= 0.1
                continue
            step = min(0.5 * step, max(0.1 * step, -0.5 * slope * step * step / excess))
            if not -step * slope > 1e-16 * abs(point.value):
                return None
        return None

    def evaluate(self, V: Any, mu: float, curvature: bool, known: Known | None = None) -> _Point:
        if known is None:
            W = self.preconditioner.to_weights(V)
            at = self.objective(W, SmoothNorm(mu), curvature=curvature)
        else:
            at = known.at
        gradient = self.preconditioner.to_gradient(at.gradient)
        if at.curvature is not None:
            # The global norm cancels about half of the mean curvature.
            share = 0.5 * self.problem.lambda_d
            share /= self.preconditioner.rho * self.problem.n
            bend = share * at.curvature
            bend = add_diagonal(bend, self.problem.xp.ones_like(bend[:, 0]))
            self.model = self.problem.xp.linalg.inv(bend)
            self.bent = at._replace(gradient=None)
        return _Point(V, at.value, at.exact, gradient, at, mu)

    def _precondition(self, gradient: Any) -> Any:
        turned = gradient if self.model is None else gradient @ self.model
        return self.preconditioner.step(turned)

    def inner(self, A: Any, B: Any) -> float:
        """Return the inner product of a gradient and a step; extra rows of a step are ignored."""
        flat = self.problem.xp.reshape
        return float(self.problem.xp.vecdot(flat(A, (-1,)), flat(B[: A.shape[0], :], (-1,))))
