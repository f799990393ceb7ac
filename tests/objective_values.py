"""The smoothed objective of scores, from its loss and its norms."""

from typing import Any

from dm2l._solvers.nuclear import Evaluation
from dm2l._solvers.objective import Objective


def objective_at(
    objective: Objective, F: Any, norm: Any, linear: Any = None, *, curvature: bool = False
) -> Evaluation:
    """Value and gradient in the scores ``F``, as the problem adds them up."""
    value, gradient = objective.loss(F)
    if not objective.lambda_d:  # without positives
        return Evaluation(float(value), float(value), gradient)
    return objective.add_norms(F, float(value), gradient, norm, linear, curvature=curvature)
