"""Solvers: each takes a problem and a start and returns weights with their history."""

from dm2l.solvers._cccp import solve_cccp, solve_published
from dm2l.solvers._kernel import KernelPreconditioner, KernelProblem, KernelScores, Member
from dm2l.solvers._lbfgs import solve_lbfgs
from dm2l.solvers._problem import Minimand, Preconditioner, Problem, Solution
from dm2l.solvers._ridge import conjugate_gradients, masked_ridge, ridge_by_steps, solve_normal

__all__ = [
    "KernelPreconditioner",
    "KernelProblem",
    "KernelScores",
    "Member",
    "Minimand",
    "Preconditioner",
    "Problem",
    "Solution",
    "conjugate_gradients",
    "masked_ridge",
    "ridge_by_steps",
    "solve_cccp",
    "solve_lbfgs",
    "solve_normal",
    "solve_published",
]
