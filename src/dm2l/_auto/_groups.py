"""Rows that belong together say less, each of them, about rows of other groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Correlation within a group: however large, it counts for no more than ten single rows. Between
# 0.01 and 1 (all groups alike) label AUC of new scaffolds is the same within 0.001
# (benchmarks/groups.py).
WITHIN = 0.1


def says(groups: Any) -> NDArray[np.float64]:
    r"""How much each row counts, 1 on average, where groups that were not seen are asked about.

    Rows of a group of size n count for :math:`n / (1 + (n - 1) \rho)` independent ones: Kish's
    design effect, with :math:`\rho` = :data:`WITHIN`. Four of ten molecules of Tox21 have one of
    two scaffolds, each a fold of its own: scores of models that never saw the like are off by a
    shift, and a stack of rows that all count alike would be fitted to that.
    """
    _, number, size = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    if (size == size[0]).all():
        return np.ones(len(number))
    weight = 1 / (1 + (size[number] - 1) * WITHIN)
    return np.asarray(weight / weight.mean())
