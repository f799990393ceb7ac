"""Solvers: each takes a problem and a start and returns weights with their history."""

from dm2l.solvers._cccp import solve_cccp
from dm2l.solvers._gram_problem import GramProblem
from dm2l.solvers._lbfgs import solve_lbfgs
from dm2l.solvers._passes import PassSums, gradient_sums, score_sums, sum_over_blocks, traffic
from dm2l.solvers._problem import Minimand, Preconditioner, Problem, Solution
from dm2l.solvers._published import solve_published
from dm2l.solvers._ridge import conjugate_gradients, masked_ridge
from dm2l.solvers._statistics_sums import StatisticsSums
from dm2l.solvers._trust_region import trust_region_newton

__all__ = [
    "GramProblem",
    "Minimand",
    "PassSums",
    "Preconditioner",
    "Problem",
    "Solution",
    "StatisticsSums",
    "conjugate_gradients",
    "gradient_sums",
    "masked_ridge",
    "score_sums",
    "solve_cccp",
    "solve_lbfgs",
    "solve_published",
    "sum_over_blocks",
    "traffic",
    "trust_region_newton",
]
