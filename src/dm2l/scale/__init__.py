"""More rows than memory: row blocks, sufficient statistics, and fits that go through them.

``J`` depends on the features only through the Gram matrices ``H_j = Phi_Oj'Phi_Oj`` of the rows on
which label ``j`` is observed, ``G_k = Phi_k'Phi_k`` of its observed positives, and ``G_C`` of all
rows with an observed positive: ``||F_k||_* = tr((W'G_kW)^(1/2))``. They add up over blocks of rows,
and a block can be taken away again. :mod:`dm2l.scale.cluster` has rows on a cluster.
"""

from dm2l.scale._block import Block
from dm2l.scale._gram_problem import GramProblem
from dm2l.scale._remote import RemoteBlocks
from dm2l.scale._sample import RowSample
from dm2l.scale._source import RowBlocks
from dm2l.scale._source_fit import collect, fit_arrays, fit_source, way_for
from dm2l.scale._statistics import SufficientStatistics
from dm2l.scale._strategy import STRATEGIES, Cost, available_memory, choose, costs, free_memory
from dm2l.scale._stream import Stream
from dm2l.scale._sums import (
    PassSums,
    StatisticsSums,
    gradient_sums,
    score_sums,
    sum_over_blocks,
    traffic,
)
from dm2l.scale._tally import RoundingWarning, Tally

__all__ = [
    "STRATEGIES",
    "Block",
    "Cost",
    "GramProblem",
    "PassSums",
    "RemoteBlocks",
    "RoundingWarning",
    "RowBlocks",
    "RowSample",
    "StatisticsSums",
    "Stream",
    "SufficientStatistics",
    "Tally",
    "available_memory",
    "choose",
    "collect",
    "costs",
    "fit_arrays",
    "fit_source",
    "free_memory",
    "gradient_sums",
    "score_sums",
    "sum_over_blocks",
    "traffic",
    "way_for",
]
