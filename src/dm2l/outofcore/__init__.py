"""More rows than memory: row blocks, Gram statistics, and fits that go through them.

``J`` depends on the features only through the Gram matrices ``H_j = Phi_Oj'Phi_Oj`` of the rows on
which label ``j`` is observed, ``G_k = Phi_k'Phi_k`` of its observed positives, and ``G_C`` of all
rows with an observed positive: ``||F_k||_* = tr((W'G_kW)^(1/2))``. They add up over blocks of rows,
and a block can be subtracted again. :mod:`dm2l.outofcore.cluster` has rows on a cluster.
"""

from dm2l.outofcore._source import RowBlocks
from dm2l.outofcore._statistics import GramStatistics

__all__ = ["GramStatistics", "RowBlocks"]
