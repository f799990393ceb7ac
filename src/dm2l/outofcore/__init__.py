"""Data that does not fit into memory: row blocks, Gram statistics, and dask clusters.

The objective depends on the features only through Gram matrices of three groups of rows: rows in
which a label is observed, observed positives of a label, and all rows with an observed positive.
These matrices can be added up over blocks of rows, and the rows of a block can be subtracted again.
For rows on several machines, see :mod:`dm2l.outofcore.cluster`.
"""

from dm2l.outofcore._source import RowBlocks
from dm2l.outofcore._statistics import GramStatistics

__all__ = ["GramStatistics", "RowBlocks"]
