"""Blocks of rows: how they are cut from arrays, and how each is checked."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array

from dm2l._utils.arrays import is_non_numpy
from dm2l._utils.inputs import check_count
from dm2l.labels._entries import Signs, checked_weights
from dm2l.labels._matrix import LabelForm

# Numbers of a block by default: 32 MB of float32. Larger blocks of memory go back to the system and
# have to be allocated anew for every block.
NUMBERS = 8_000_000


class Block(NamedTuple):
    """Rows, the signs of their labels, and weights of the rows or None."""

    X: Any
    T: Signs
    weights: NDArray[np.float64] | None = None


@contextmanager
def naming_block(place: int) -> Iterator[None]:
    """Name the block in errors."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Block {place}: {error}") from error


def read_block(parts: Sequence[Any], form: LabelForm, n_features: int | None) -> Block:
    """Check ``(X, Y, label_mask, sample_weight)`` of a block; the last two are optional."""
    X, Y, mask, sample_weight = [*parts, None, None][:4]
    if is_non_numpy(X):
        raise TypeError("Row blocks are numpy arrays or sparse matrices; move X to the host.")
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=0)
    T = form.read(Y, mask)
    if X.shape[0] != len(T):
        raise ValueError(f"it has {X.shape[0]} rows in X and {len(T)} in Y.")
    if n_features not in (None, X.shape[1]):
        raise ValueError(f"it has {X.shape[1]} features, those before had {n_features}.")
    if sample_weight is None:
        return Block(X, T)
    rows = checked_weights("sample_weight", sample_weight, (len(T),), allow_zero=True)
    return Block(X, np.where(rows[:, None] > 0, T, 0).astype(np.int8), rows)


def block_rows(rows: Any, n_features: int) -> int:
    """Rows of a block: ``rows``, or by default as many as have :data:`NUMBERS` numbers."""
    if rows is None:
        return max(1000, NUMBERS // max(1, n_features))
    check_count("rows", rows)
    return int(rows)


def indexable(part: Any) -> Any:
    """An array-like whose rows can be sliced."""
    if part is None or hasattr(part, "iloc") or hasattr(part, "shape"):
        return part.tocsr() if sp.issparse(part) else part
    return np.asarray(part)


def slices(parts: Sequence[Any], rows: int) -> Iterator[Sequence[Any]]:
    """Arrays block by block."""
    n = parts[0].shape[0]
    for start in range(0, n, max(rows, 1)):
        part = slice(start, min(start + rows, n))
        whole = start == 0 and part.stop == n
        yield [p if whole or p is None else _cut(p, part) for p in parts]


def first_rows(blocks: Iterable[Sequence[Any]], rows: int) -> Iterator[Sequence[Any]]:
    """Blocks up to a number of rows; the last one is cut."""
    for parts in blocks:
        n = parts[0].shape[0]
        if n >= rows:
            yield [p if p is None else _cut(indexable(p), slice(0, rows)) for p in parts]
            return
        yield parts
        rows -= n


def stacked(parts: list[Any]) -> Any:
    """Arrays or sparse matrices below each other."""
    if len(parts) == 1:
        return parts[0]
    if any(sp.issparse(part) for part in parts):
        rows = [part if sp.issparse(part) else sp.csr_matrix(part) for part in parts]
        return sp.vstack(rows, format="csr")
    return np.concatenate(parts)


def _cut(part: Any, rows: slice) -> Any:
    return part.iloc[rows] if hasattr(part, "iloc") else part[rows]
