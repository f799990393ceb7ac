"""Sufficient statistics: what the objective knows of the rows, in memory that they do not fill.

``J`` depends on the features only through the Gram matrices ``H_j = Phi_Oj'Phi_Oj`` of the rows on
which label ``j`` is observed, ``G_k = Phi_k'Phi_k`` of its observed positives, and ``G_C`` of all
rows with an observed positive: ``||F_k||_* = tr((W'G_kW)^(1/2))``. They add up over blocks of rows,
and a block can be taken away again.
"""

from dm2l.statistics._statistics import SufficientStatistics
from dm2l.statistics._tally import Tally

__all__ = ["SufficientStatistics", "Tally"]
