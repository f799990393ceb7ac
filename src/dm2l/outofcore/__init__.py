"""Data that does not fit into memory: row blocks, Gram statistics, and dask clusters.

The objective depends on the features only through Gram matrices: of the rows on which each label is
observed, of the observed positives of each label, and of all rows with an observed positive. These
matrices can be added up over blocks of rows, and the rows of a block can be subtracted again. For
rows on several machines, see :mod:`dm2l.outofcore.cluster`.
"""

from dm2l.outofcore._source import RowBlocks
from dm2l.outofcore._statistics import GramStatistics

__all__ = ["GramStatistics", "RowBlocks"]
