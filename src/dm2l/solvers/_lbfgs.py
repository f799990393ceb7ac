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
SMOOTHING = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


def solve_lbfgs(
    problem: Problem,
    preconditioner: Preconditioner,
    V: Any,
    *,
    tol: float,
    max_iter: int,
    linear: Any = None,
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

    def record(intermediate_result: OptimizeResult) -> None:
        history.append(latest["exact"])
        if report is not None:
            report(len(history) - 1, latest["exact"])

    v = np.asarray(V, dtype=np.float64).ravel()
    best, best_exact = v, np.inf
    converged = False
    for mu in SMOOTHING if problem.objective.lambda_d else SMOOTHING[-1:]:
        start = function(v, mu)
        if not history:
            history.append(latest["exact"])
            best_exact = history[0]
        size = float(np.linalg.norm(start[1]))
        converged = len(history) > 1 and 0.5 * size**2 <= tol * abs(best_exact)
        left = max_iter - (len(history) - 1)
        if converged or left <= 0 or not size:
            converged = converged or not size
            break
        result = _minimise(partial(function, mu=mu), v, start, size, tol, left, record)
        v, exact = result.x * size, history[-1]
        gain = best_exact - exact
        if gain > 0:
            best, best_exact = v, exact
        if result.status == 1:  # iteration limit
            break
        converged = gain <= tol * abs(best_exact) or mu == SMOOTHING[-1]
        if converged:
            break
    return Solution(
        W=preconditioner.to_weights(best.reshape(shape)),
        n_iter=max(1, len(history) - 1),
        converged=converged,
        history=history,
        n_evaluations=problem.n_evaluations - evaluations,
    )


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

    options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": tol, "gtol": 0.0, "maxcor": 20}
    return minimize(scaled, begin, jac=True, method="L-BFGS-B", callback=record, options=options)
