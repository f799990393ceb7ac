"""Training on data that does not fit into memory: row blocks, Gram statistics, dask clusters.

The objective depends on the features only through Gram matrices of three kinds of rows: rows in
which a label is observed, observed positives of a label, and rows with any observed positive.
Gram matrices are sums over blocks of rows, and rows of a block can be subtracted again.
For rows on several machines, see :mod:`dm2l.outofcore.cluster`.
"""

from dm2l.outofcore._source import RowBlocks
from dm2l.outofcore._statistics import GramStatistics

__all__ = ["GramStatistics", "RowBlocks"]
