"""Algorithm 1 of the paper (concave-convex procedure), run to convergence or as published.

As published, the solver takes a few descent steps from the identity matrix: at most 24 line
searches along the negative subgradient of the surrogate for the linear model, and at most 9 rounds
of Polak-Ribiere conjugate gradients, restarted every 20 steps, for the kernel model. Neither model
converges within these limits, so the small number of steps has the effect of a regularizer.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, line_search, minimize

from dm2l._solvers.lbfgs import solve_lbfgs
from dm2l._solvers.nuclear import thresholded_nuclear_norm
from dm2l._solvers.problem import ConcaveProblem, Problem, Report, Solution
from dm2l._utils.arrays import asarray_like, to_numpy

DELTA = 0.005  # threshold for singular values in Algorithm 2
RESTART = 20
MOST_EVALUATIONS = 1000
RELATIVE_CHANGE = 1e-3

Array = NDArray[np.float64]
_norm = partial(thresholded_nuclear_norm, delta=DELTA)


def solve_cccp(
    problem: ConcaveProblem,
    preconditioner: Any,
    W: Any,
    *,
    tol: float,
    max_iter: int,
    report: Any = None,
) -> Solution:
    """Repeat until ``J`` converges: linearize the concave part, and minimize the surrogate."""
    evaluations = problem.n_evaluations
    history = [problem.exact(W)]
    converged = False
    for _ in range(max_iter):
        linear = problem.linearize(W) if problem.concave else None
        surrogate = partial(problem.evaluate, linear=linear)
        limits: dict[str, Any] = {"tol": 0.1 * tol, "max_iter": 1000}
        limits["smoothing"] = 1e-2 if len(history) == 1 else 1e-4
        V = preconditioner.to_variables(W)
        inner = solve_lbfgs(problem, preconditioner, V, evaluate=surrogate, **limits)
        value = problem.exact(inner.W)
        gain = history[-1] - value
        if gain > 0:
            W = inner.W
            history.append(value)
            if report is not None:
                report(len(history) - 1, value)
        if gain <= tol * abs(history[-1]) or not problem.concave:
            converged = True
            break
    return Solution(W, history[-1], history, converged, problem.n_evaluations - evaluations)


def solve_published(
    problem: Problem, W: Any, *, steepest: bool, max_iter: int, report: Report | None = None
) -> Solution:
    """Run Algorithm 1 with the published inner solver and iteration limits."""
    # scipy's optimizer runs on the CPU; scores and norms are computed on the device of X.
    shape, example = W.shape, problem.features.example
    w = np.asarray(to_numpy(W), dtype=np.float64).ravel()

    def weights(w: Array) -> Any:
        return asarray_like(w.reshape(shape), example, example.dtype)

    history: list[float] = [problem.exact(weights(w))]
    for _ in range(max_iter):
        linear = problem.linearize(weights(w), DELTA) if problem.concave else None
        surrogate = _Surrogate(problem, linear, weights)
        fresh = _descend(surrogate, w) if steepest else _conjugate_gradients(surrogate, w)
        if fresh is None:
            break
        w = fresh
        history.append(problem.exact(weights(w)))
        if report is not None:
            report(len(history) - 1, history[-1])
        if not steepest and history[-2] - history[-1] <= RELATIVE_CHANGE * abs(history[-2]):
            break
    return Solution(weights(w), history[-1], history, n_evaluations=problem.n_evaluations)


class _Surrogate:
    """Value and gradient of the surrogate at flattened weights; the last result is cached."""

    def __init__(self, problem: Problem, linear: Any, weights: Callable[[Array], Any]) -> None:
        self._problem, self._linear, self._weights = problem, linear, weights
        self._at: Array | None = None

    def __call__(self, w: Array) -> tuple[float, Array]:
        if self._at is None or not np.array_equal(w, self._at):
            at = self._problem.evaluate(self._weights(w), _norm, self._linear)
            self._at = w.copy()
            self._result = at.value, np.asarray(to_numpy(at.gradient), dtype=np.float64).ravel()
        return self._result

    def best_step(self, gradient: Array) -> float:
        """Return the step along the negative gradient that minimizes the squared loss."""
        change = self._problem.features.scores(self._weights(gradient))
        seen = change * self._problem.objective.observed
        bend = float(self._problem.features.xp.sum(seen * change))
        return float(gradient @ gradient) / bend if bend else 1.0


def _descend(surrogate: _Surrogate, w: Array) -> Array | None:
    value, gradient = surrogate(w)
    # The line search begins at the minimum of the loss, because suitable steps are far below 1 for
    # features of large norm. scipy computes its first step from the previous objective.
    slope = float(gradient @ gradient)
    before = value + 0.5 * slope * surrogate.best_step(gradient) / 1.01
    with warnings.catch_warnings():
        # If the line search fails, the descent has converged.
        warnings.simplefilter("ignore", RuntimeWarning)
        # c2 = 0.1 makes the line search nearly exact.
        values, slopes = (lambda w: surrogate(w)[0]), (lambda w: surrogate(w)[1])
        step = line_search(values, slopes, w, -gradient, gradient, value, before, c2=0.1)[0]
    return None if step is None else w - step * gradient


def _conjugate_gradients(surrogate: _Surrogate, w: Array) -> Array:
    """Run conjugate gradients, restarted every ``RESTART`` steps, until the objective converges."""
    values: list[float] = []  # objective before the block and after each of its steps

    def small() -> bool:
        return values[0] - values[1] <= RELATIVE_CHANGE * abs(values[0])

    def test(intermediate_result: OptimizeResult) -> None:
        values.append(intermediate_result.fun)
        if len(values) == 2 and small():
            raise StopIteration

    used = 0
    while used < MOST_EVALUATIONS:
        values[:] = [surrogate(w)[0]]
        options = {"maxiter": RESTART, "gtol": 0.0, "c2": 0.1}
        result = minimize(surrogate, w, jac=True, method="CG", callback=test, options=options)
        w, used = result.x, used + result.nfev
        if len(values) == 1 or small():
            break
    return w
