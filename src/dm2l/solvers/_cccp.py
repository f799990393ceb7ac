"""The reference solver: the concave-convex procedure, Algorithm 1 of the paper."""

from __future__ import annotations

from typing import Any

from dm2l.solvers._lbfgs import solve_lbfgs
from dm2l.solvers._problem import Minimand, Preconditioner, Report, Solution


def solve_cccp(
    problem: Minimand,
    preconditioner: Preconditioner,
    W: Any,
    *,
    tol: float,
    max_iter: int,
    report: Report | None = None,
) -> Solution:
    """Linearise the concave part at ``W_t``, minimise the convex surrogate, repeat.

    The exact objective never rises: a round that does not lower it is discarded and ends the
    procedure.

    Parameters
    ----------
    problem, preconditioner
        As of :func:`solve_lbfgs`.
    W : array of shape (d, c)
        Start; the paper's is the identity.
    tol : float
        Stop when a round lowers the objective by less than this share.
    max_iter : int
        Most rounds.
    report : callable, default=None
        Called with the round and the exact objective.

    Returns
    -------
    Solution
        Weights and the exact objective after every round.
    """
    evaluations = problem.n_evaluations
    history = [problem.exact(W)]
    converged = False
    for _ in range(max_iter):
        linear = problem.linearise(W) if problem.concave else None
        inner = solve_lbfgs(
            problem,
            preconditioner,
            preconditioner.to_variables(W),
            tol=0.1 * tol,
            max_iter=1000,
            linear=linear,
            smoothing=1e-2 if len(history) == 1 else 1e-4,
        )
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
    return Solution(
        W=W,
        objective=history[-1],
        n_iter=max(1, len(history) - 1),
        converged=converged,
        history=history,
        n_evaluations=problem.n_evaluations - evaluations,
    )
