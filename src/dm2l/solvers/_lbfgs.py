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
SMOOTHING = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


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
    ended. The stages end when lowering the smoothing has changed the exact objective by less than
    ``tol`` of its value: on Arts after ``mu = 1e-3``.

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
    latest: dict[str, Any] = {}

    def function(v: NDArray[np.float64], mu: float) -> tuple[float, NDArray[np.float64]]:
        W = preconditioner.to_weights(v.reshape(shape))
        at = problem.evaluate(W, partial(smooth_nuclear_norm, mu=mu), linear)
        latest["exact"] = at.exact
        return at.value, np.asarray(preconditioner.to_gradient(at.gradient)).ravel()

    v = np.asarray(V, dtype=np.float64).ravel()
    smooth_loss = not problem.objective.lambda_d
    function(v, SMOOTHING[-1])
    history = [latest["exact"]]

    def record(intermediate_result: OptimizeResult) -> None:
        history.append(latest["exact"])
        if report is not None:
            report(len(history) - 1, latest["exact"])

    converged = False
    best, best_exact = v, history[0]
    for mu in SMOOTHING[-1:] if smooth_loss else SMOOTHING:
        left = max_iter - (len(history) - 1)
        if left <= 0:
            break
        result = minimize(
            function,
            v,
            args=(mu,),
            jac=True,
            method="L-BFGS-B",
            callback=record,
            options={"maxiter": left, "maxfun": 20 * left, "ftol": tol, "gtol": 0.0, "maxcor": 20},
        )
        v = result.x
        exact = history[-1]
        improvement = best_exact - exact
        if improvement > 0:
            best, best_exact = v, exact
        finished = result.status != 1  # 1: iteration limit
        first = mu == SMOOTHING[0]
        if finished and (smooth_loss or (not first and improvement <= tol * abs(best_exact))):
            converged = True
            break
    else:
        converged = finished
    return Solution(
        W=preconditioner.to_weights(best.reshape(shape)),
        n_iter=max(1, len(history) - 1),
        converged=converged,
        history=history,
        n_evaluations=problem.n_evaluations - evaluations,
    )
