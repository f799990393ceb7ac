"""The default solver: quasi-Newton on the smoothed objective in preconditioned variables."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize

from dm2l.nuclear import smooth_nuclear_norm
from dm2l.solvers._problem import Preconditioner, Problem, Report, Solution

# Smoothing is lowered in these steps until the exact objective no longer cares.
SMOOTHING = (1e-2, 1e-3, 1e-4, 1e-5)


def solve_lbfgs(
    problem: Problem,
    preconditioner: Preconditioner,
    V: Any,
    *,
    tol: float,
    max_iter: int,
    linear: Any = None,
    smoothing: float = SMOOTHING[0],
    report: Report | None = None,
) -> Solution:
    """Minimise the objective by L-BFGS with falling smoothing.

    Each stage minimises the smoothed objective in ``V = R'W`` and starts where the one before
    ended. In these variables the loss and the ridge have a Hessian near the identity, so half the
    squared gradient bounds what a further stage could still gain: when that is below ``tol`` of
    the objective, or a stage has gained less than that, the smoothing no longer matters.

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
    report : callable, default=None
        Called with the iteration and the exact objective.

    Returns
    -------
    Solution
        Weights ``W`` and history.
    """
    shape = V.shape
    evaluations = problem.n_evaluations
    history: list[float] = []
    latest: dict[str, Any] = {}

    def function(v: NDArray[np.float64], mu: float) -> tuple[float, NDArray[np.float64]]:
        W = preconditioner.to_weights(v.reshape(shape))
        at = problem.evaluate(W, partial(smooth_nuclear_norm, mu=mu), linear)
        latest["exact"] = at.exact
        return at.value, np.asarray(preconditioner.to_gradient(at.gradient)).ravel()

    v = np.asarray(V, dtype=np.float64).ravel()
    best, best_exact = v, np.inf

    def record(at: NDArray[np.float64]) -> None:
        nonlocal best, best_exact
        history.append(latest["exact"])
        if latest["exact"] < best_exact:
            best, best_exact = at, latest["exact"]
        if report is not None:
            report(len(history) - 1, latest["exact"])

    converged = False
    stages = [mu for mu in SMOOTHING if mu <= smoothing]
    last_end = np.inf
    for mu in stages if problem.objective.lambda_d else stages[-1:]:
        start = function(v, mu)
        if not history:
            history.append(latest["exact"])
            best_exact = history[0]
        size = float(np.linalg.norm(start[1]))
        converged = not size or (np.isfinite(last_end) and 0.5 * size**2 <= tol * abs(best_exact))
        left = max_iter - (len(history) - 1)
        if converged or left <= 0:
            break

        v, limit = _stage(partial(function, mu=mu), v, start, tol, left, record)
        if limit:
            break
        converged = last_end - history[-1] <= tol * abs(best_exact) or mu == stages[-1]
        if converged:
            break
        last_end = history[-1]
    # The exact value carries rounding of about 1e-8: within it the last point, where the gradient
    # is smallest, is the better one.
    if history[-1] <= best_exact + 1e-7 * abs(best_exact):
        best, best_exact = v, history[-1]
    return Solution(
        W=preconditioner.to_weights(best.reshape(shape)),
        objective=best_exact,
        n_iter=max(1, len(history) - 1),
        converged=converged,
        history=history,
        n_evaluations=problem.n_evaluations - evaluations,
    )


def _stage(
    function: Any,
    v: NDArray[np.float64],
    start: tuple[float, NDArray[np.float64]],
    tol: float,
    max_iter: int,
    record: Any,
) -> tuple[NDArray[np.float64], bool]:
    """Minimise at one smoothing; returns the point and whether the iterations ran out.

    A line search that fails usually fails because of what L-BFGS remembers; it starts afresh as
    long as that gains something.
    """
    while True:
        size = float(np.linalg.norm(start[1]))
        result = _minimise(function, v, start, size, tol, max_iter, record)
        v = result.x * size
        max_iter -= result.nit
        if result.status == 1 or max_iter <= 0:
            return v, True
        if result.status == 0 or start[0] - result.fun <= tol * abs(result.fun):
            return v, False
        start = result.fun, result.jac / size


def _minimise(
    function: Any,
    v: NDArray[np.float64],
    start: tuple[float, NDArray[np.float64]],
    size: float,
    tol: float,
    max_iter: int,
    record: Any,
) -> OptimizeResult:
    """One stage of scipy's L-BFGS-B in ``u = v / size``.

    Its first trial step has length one. Measured in units of the first gradient this is the full
    gradient step, which preconditioning has made the right one to try.
    """
    begin = v / size

    def scaled(u: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, gradient = start if np.array_equal(u, begin) else function(u * size)
        return value, gradient * size

    def callback(intermediate_result: OptimizeResult) -> None:
        record(intermediate_result.x * size)

    # scipy measures a change against max(|f|, 1); an objective below one wants its own measure.
    ftol = tol * min(1.0, abs(start[0]))
    options = {
        "maxiter": max_iter,
        "maxfun": 20 * max_iter,
        "ftol": ftol,
        "gtol": 0.0,
        "maxcor": 20,
    }
    return minimize(scaled, begin, jac=True, method="L-BFGS-B", callback=callback, options=options)
