"""Arrays in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from dm2l.parameters import check_count

# Numbers of a block unless told otherwise: 32 MB of float32. Memory in pieces beyond that is
# handed back to the system and has to be got anew for every block.
NUMBERS = 8_000_000


def default_rows(n_features: int) -> int:
    """Rows of a block of :data:`NUMBERS` numbers."""
    return max(1000, NUMBERS // max(1, n_features))


def block_rows(rows: Any, n_features: int) -> int:
    """Rows of a block as they were asked for, or as many as usual."""
    if rows is None:
        return default_rows(n_features)
    check_count("rows", rows)
    return int(rows)


def indexable(part: Any) -> Any:
    """An array-like whose rows can be sliced."""
    if part is None or hasattr(part, "iloc") or hasattr(part, "shape"):
        return part.tocsr() if sp.issparse(part) else part
    return np.asarray(part)


def slices(X: Any, Y: Any, mask: Any, *, rows: int) -> Callable[[], Iterator[Sequence[Any]]]:
    """Reader of arrays."""

    def read() -> Iterator[Sequence[Any]]:
        n = X.shape[0]
        for start in range(0, n, max(rows, 1)):
            part = slice(start, min(start + rows, n))
            whole = start == 0 and part.stop == n
            yield [p if whole or p is None else _cut(p, part) for p in (X, Y, mask)]

    return read


def first_rows(blocks: Iterable[Sequence[Any]], rows: int) -> Iterator[Sequence[Any]]:
    """Blocks until there are so many rows, the last one cut."""
    for parts in blocks:
        n = parts[0].shape[0]
        if n >= rows:
            yield [p if p is None else _cut(indexable(p), slice(0, rows)) for p in parts]
            return
        yield parts
        rows -= n


def _cut(part: Any, rows: slice) -> Any:
    return part.iloc[rows] if hasattr(part, "iloc") else part[rows]
