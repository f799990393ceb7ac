"""The default solver: quasi-Newton on the smoothed objective in preconditioned variables."""

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

# Smoothing is lowered in these steps until the exact objective no longer cares. The first is for
# starts from which more than FAR of the objective may be gained.
SMOOTHING = (5e-2, 1.5e-2, 5e-3, 1.5e-3, 5e-4, 1.5e-4, 5e-5, 1e-5)
FAR = 2e-2
# At smoothing mu a step has to gain so much, relative to the objective, or it is taken at the
# next smoothing: PATIENCE (mu / SMOOTHING[1])^0.6. Less patience costs more in the end: each
# smoothing prepares the singular values that vanish in the next.
PATIENCE = 7e-6
# Convergence counts only if the previous smoothing had ended within this multiple of ``tol``.
NEARLY = 2.0
# Pairs of steps and gradient changes that are remembered.
MEMORY = 20
FEW = 8  # for which room is made at a time: most fits need less than all
# The curvature of the norms is looked at again after so many iterations.
REFRESH = 2
# An iteration may lower the objective by this share of what the slope predicts, or is shortened.
SUFFICIENT = 1e-4
SHORTENINGS = 20
# Relative differences of the objective that mean nothing.
ROUNDING = 1e-14
# Tolerances below this ask for more than values of the objective can tell.
ROUNDING_OF_J = 1e-12
# Steps whose predicted gains tell how fast they fall, and the least share that they fall by.
WINDOW, SLOWEST = 5, 0.95
# After a shortened step the next one begins at most this much longer.
LENGTHENING = 1.5
# A start is shortened where its best multiple is below this.
SHORTER = 0.9


def solve_lbfgs(
    problem: SmoothProblem,
    preconditioner: Preconditioner,
    V: Any,
    *,
    tol: float,
    max_iter: int,
    linear: Any = None,
    smoothing: float = SMOOTHING[1],
    finest: float = SMOOTHING[-1],
    report: Report | None = None,
    known: Known | None = None,
) -> Solution:
    """Minimise the objective by L-BFGS with falling smoothing, in ``V = R'W``.

    There loss and ridge have a Hessian near the identity, and the nuclear norms one near
    ``I (x) lambda_d Q / rho`` with ``Q`` the mean curvature that a row sees: the quasi-Newton model
    starts from both. Where the predicted decrease of a step is small, the next one is taken at a
    finer smoothing. Its sum over the steps to come estimates the distance to the minimum, and ends
    the descent. (scipy's L-BFGS takes no initial Hessian and lives on the host.)
    """
    descent = _Descent(problem, preconditioner, linear, report)
    evaluations = problem.n_evaluations
    steps = np.asarray(SMOOTHING)
    ladder = steps[(steps >= finest) & (steps <= smoothing)].tolist()
    if not problem.lambda_d:
        ladder = ladder[-1:]
    if known is not None and known.smoothing != ladder[0]:
        known = None
    # The start, or that multiple of it which is best. Along t V the objective is
    # J(0) - t p + t^2 q/2, the nuclear norms being part of p: value and slope at the start say all.
    # Weights for a smaller lambda_d, ridge among them, are too long, and where they are all wrong,
    # t is 0.
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
    # The best point, or the last one where rounding hides which is better: of two points on the way
    # the later one has the smaller gradient. A start that nothing improved was the end of another
    # run. Values are noise where singular values vanish, gradients are not.
    slack = 1e-9
    if best is not start:
        slack = 1e-6 if tol < ROUNDING_OF_J else 1e-8
    if latest.exact <= best.exact + slack * abs(best.exact):
        best = latest
    seen = descent.bent  # with the last curvature that was
    if seen is not None:
        seen = best.at._replace(curvature=seen.curvature)
    return Solution(
        W=preconditioner.to_weights(best.V),
        objective=best.exact,
        n_iter=max(1, descent.n_iter),
        converged=converged,
        history=descent.history,
        n_evaluations=problem.n_evaluations - evaluations,
        known=None if seen is None else Known(seen, best.mu),
    )


@dataclass
class _Point:
    """Where the descent stands."""

    V: Any
    value: float
    exact: float
    gradient: Any
    at: Evaluation
    mu: float


@dataclass
class _Memory:
    """The last steps ``s`` and gradient changes ``y``, and the direction they suggest.

    The two loops of L-BFGS are two triangular systems in the products ``s_i'y_j``: few passes over
    the memory, and few waits for an accelerator.
    """

    _steps: Any = None
    _changes: Any = None
    order: list[int] = field(default_factory=list)
    _products: NDArray[np.float64] = field(default_factory=partial(np.zeros, (MEMORY, MEMORY)))

    def add(self, step: Any, change: Any) -> None:
        """Remember a pair, if the function curves upwards along it."""
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
        # Only products of a step with later changes are ever needed.
        products = to_numpy(self._steps[:, : y.shape[0]] @ y)
        self._products[: len(products), slot] = products

    def direction(self, gradient: Any, precondition: Any) -> Any:
        """``-H g`` with ``H`` built on ``precondition`` as the initial inverse Hessian."""
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
    """The iterations of all stages, what they remember, and the best point so far."""

    problem: SmoothProblem
    preconditioner: Preconditioner
    linear: Any
    report: Report | None
    memory: _Memory = field(default_factory=_Memory)
    model: Any = None
    bent: Evaluation | None = None  # where the curvature was seen last
    length: float = 1.0
    history: list[float] = field(default_factory=list)
    n_iter: int = 0
    best: _Point = field(init=False)
    latest: _Point = field(init=False)

    def run(self, ladder: list[float], tol: float, max_iter: int) -> bool:
        """Descend, the smoothing falling along the ladder; returns whether the end was reached."""
        level, settled = 0, False
        # How fast predicted gains fall at one smoothing, and the last few of them.
        rate = 0.5
        promises: list[float] = []
        while True:
            point = self.latest
            direction, slope = self._direction(point)
            promise = -0.5 * slope / abs(point.value) if point.value else 0.0
            promises = [*promises, promise][-WINDOW:]
            if len(promises) > 1 and promises[0] > 0:
                rate = min(SLOWEST, (promise / promises[0]) ** (1.0 / (len(promises) - 1)))
            # Twice the sum of this gain and those to come: it falls short by up to a half.
            remaining = 2.0 * promise / (1.0 - rate)
            last = level == len(ladder) - 1
            here = remaining <= max(tol, 1e-16)
            if here and (last or (settled and tol >= ROUNDING_OF_J)):
                return True
            settled = here
            if self.n_iter == max_iter:
                return False
            following = None
            if not self.n_iter and promise > FAR and ladder[0] == SMOOTHING[1]:
                ladder = list(SMOOTHING[: 1 + len(ladder)])
                following = self._jump(point, direction, ladder[0])
            elif not settled and (
                last or promise > PATIENCE * (ladder[level] / SMOOTHING[1]) ** 0.6
            ):
                following = self._step(point, direction, slope, ladder[level])
                if following is None and last:
                    return True  # slopes vanish in rounding
            if following is None:
                level += 1
                settled = remaining <= NEARLY * tol
                promises = []  # those of another smoothing do not compare
                following = self._jump(point, direction, ladder[level])
            self.n_iter += 1
            self.history.append(following.exact)
            self.latest = following
            if following.exact < self.best.exact:
                self.best = following
            if self.report is not None:
                self.report(self.n_iter, following.exact)

    def _direction(self, point: _Point) -> tuple[Any, float]:
        """Where to go, and the slope that way, which is never positive."""
        direction = self.memory.direction(point.gradient, self._precondition)
        slope = self.inner(point.gradient, direction)
        if slope > 0:
            self.memory = _Memory()
            direction = -self._precondition(point.gradient)
            slope = self.inner(point.gradient, direction)
        if slope > 0:  # at extreme scales rounding leaves the model of the curvature indefinite
            self.model, direction = None, -self.preconditioner.step(point.gradient)
            slope = self.inner(point.gradient, direction)
        return direction, min(slope, 0.0)

    def _jump(self, point: _Point, direction: Any, mu: float) -> _Point:
        """A step whose end is seen at another smoothing; none where the exact objective rises."""
        step = min(1.0, LENGTHENING * self.length)
        trial = self.evaluate(point.V + step * direction, mu, curvature=True)
        if trial.exact <= point.exact * (1.0 + PATIENCE):
            return trial
        return self.evaluate(point.V, mu, curvature=True)

    def _step(self, point: _Point, direction: Any, slope: float, mu: float) -> _Point | None:
        """One iteration, again without memory if it fails; None where no step helps."""
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
        """Shorten the step, by the parabola through what is known, until it gains enough."""
        step = min(1.0, LENGTHENING * self.length)
        for _ in range(SHORTENINGS):
            trial = self.evaluate(point.V + step * direction, mu, curvature)
            excess = trial.value - point.value - step * slope
            enough = trial.value <= point.value + SUFFICIENT * step * slope
            if not enough and trial.value <= point.value + ROUNDING * abs(point.value):
                # Values no longer tell, gradients still do: not past the minimum by much.
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
            at = self.problem.evaluate(W, SmoothNorm(mu), self.linear, curvature=curvature)
        else:
            at = known.at
        gradient = self.preconditioner.to_gradient(at.gradient)
        if at.curvature is not None:
            # Half the mean curvature: the global norm takes about the other half away again.
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
        """Of a gradient and a step, whose first rows are what the gradient is about."""
        flat = self.problem.xp.reshape
        return float(self.problem.xp.vecdot(flat(A, (-1,)), flat(B[: A.shape[0], :], (-1,))))
