"""Rows in batches: those with the same known labels together, none larger than the memory allows.

A row needs the inverse of a block of the covariance: of its known labels or, on the side of the
precision matrix, of its missing ones. :func:`batches` takes the smaller of the two, so that no
inverse is larger than half of the labels, and pads the blocks of a batch to one size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.arrays import asarray_like, is_non_numpy, to_numpy

Mask = NDArray[np.bool_]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class Batch:
    """Rows whose blocks are inverted in one call.

    ``index`` (p, k) names the labels of each of p patterns, ``valid`` which of them are not
    padding, ``pattern`` (b,) the pattern of each of the ``rows`` (b,); ``known`` says whether the
    labels named are the known ones or the missing ones.
    """

    rows: Index
    known: bool
    index: Index
    valid: Mask
    pattern: Index

    def blocks(self, matrix: Any, xp: Any) -> Any:
        """The blocks of a c x c matrix, padded with the identity, (p, k, k)."""
        k = self.index.shape[1]
        flat = self.index[:, :, None] * matrix.shape[0] + self.index[:, None, :]
        both = self.valid[:, :, None] & self.valid[:, None, :]
        found = xp.reshape(
            xp.take(xp.reshape(matrix, (-1,)), asarray_like(flat.ravel(), matrix)), (-1, k, k)
        )
        return xp.where(
            asarray_like(both, matrix), found, asarray_like(np.eye(k), matrix)[None, ...]
        )

    def strips(self, matrix: Any, xp: Any) -> Any:
        """The rows of a c x c matrix that the blocks lie in, zero where padded, (p, k, c)."""
        found = xp.take(matrix, asarray_like(self.index.ravel(), matrix), axis=0)
        found = xp.reshape(found, (*self.index.shape, matrix.shape[1]))
        return xp.where(
            asarray_like(self.valid, matrix)[:, :, None], found, asarray_like(np.zeros(()), matrix)
        )

    def gather(self, values: Any, xp: Any) -> Any:
        """Entries of the labels named, zero where padded, from (b, c) to (b, k)."""
        b, c = values.shape
        flat = self.index[self.pattern] + c * np.arange(b)[:, None]
        found = xp.take(xp.reshape(values, (-1,)), asarray_like(flat.ravel(), values))
        found = xp.reshape(found, flat.shape)
        return xp.where(
            asarray_like(self.valid[self.pattern], values),
            found,
            asarray_like(np.zeros(()), values),
        )

    def scatter(self, values: Any, n_labels: int, xp: Any) -> Any:
        """The way back, from (b, k) to (b, c), zero where no label is named."""
        p, k = self.index.shape
        place = np.zeros((p, n_labels), dtype=np.intp)
        named = np.zeros((p, n_labels), dtype=bool)
        at, rank = np.nonzero(self.valid)
        place[at, self.index[at, rank]], named[at, self.index[at, rank]] = rank, True
        flat = place[self.pattern] + k * np.arange(len(self.pattern))[:, None]
        found = xp.take(xp.reshape(values, (-1,)), asarray_like(flat.ravel(), values))
        found = xp.reshape(found, flat.shape)
        return xp.where(
            asarray_like(named[self.pattern], values), found, asarray_like(np.zeros(()), values)
        )

    def add_up(self, inverses: Any, n_labels: int, xp: Any) -> Any:
        """Sum over rows of their blocks (p, k, k), each at its place in a c x c matrix."""
        p = len(self.index)
        flat = self.index[:, :, None] * n_labels + self.index[:, None, :]
        # Padding goes to a place of its own behind the matrix.
        both = self.valid[:, :, None] & self.valid[:, None, :]
        flat = np.where(both, flat, n_labels * n_labels).ravel()
        times = np.bincount(self.pattern, minlength=p).astype(np.float64)
        weighted = xp.reshape(inverses * asarray_like(times, inverses)[:, None, None], (-1,))
        size = n_labels * n_labels + 1
        # The standard has no scatter; every library but its strict model has this one.
        if hasattr(xp, "bincount"):
            total = xp.bincount(asarray_like(flat, inverses), weights=weighted, minlength=size)
        else:
            total = asarray_like(np.bincount(flat, to_numpy(weighted), size), inverses)
        return xp.reshape(total[:-1], (n_labels, n_labels))


def batches(known: Mask, memory: float) -> Iterator[Batch]:
    """Batches of the rows of a mask, in the order of what they cost."""
    n, c = known.shape
    packed = np.ascontiguousarray(np.packbits(known, axis=1))
    _, pattern = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_inverse=True)
    n_known = known.sum(axis=1)
    by_known = 2 * n_known <= c
    size = np.maximum(np.where(by_known, n_known, c - n_known), 1)
    order = np.lexsort((pattern, size, by_known))
    start = 0
    while start < n:
        side = by_known[order[start]]
        end = start + int(np.searchsorted(by_known[order[start:]], side, side="right"))
        # Sizes grow along the order: the last row that may join is the last that fits at its size.
        reach = np.arange(1, end - start + 1)
        k = size[order[start:end]]
        bytes_needed = 8.0 * reach * (4 * k * k + 4 * k * c + 12 * c)
        stop = start + max(int(np.searchsorted(bytes_needed, memory, side="right")), 1)
        # A batch of mixed sizes pays for the largest: do not mix much.
        near = int(np.searchsorted(k, 1.25 * k[0] + 2, side="right"))
        stop = min(stop, start + near)
        rows = order[start:stop]
        # Rows of one pattern lie side by side; patterns are counted as they come.
        new = np.append(True, np.diff(pattern[rows]) != 0)
        first, which = np.flatnonzero(new), np.cumsum(new) - 1
        named = known[rows[first]] if side else ~known[rows[first]]
        width = int(size[rows[-1]])
        index = np.argsort(~named, axis=1, kind="stable")[:, :width]
        valid = np.arange(width) < named.sum(axis=1)[:, None]
        yield Batch(rows, bool(side), index, valid, which)
        start = stop


def row_blocks(n_rows: int, bytes_a_row: float, memory: float) -> Iterator[slice]:
    """Slices of rows that fit into the memory."""
    step = max(int(memory / bytes_a_row), 1)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def known_signs(T: Any, rows: slice | Index, other: Any) -> tuple[Any, Mask]:
    """Some rows of the labels as floats beside ``other``, and where they are known.

    Labels are signs (0 where missing), dense or in CSR; only these rows are made dense.
    """
    if sp.issparse(T):
        signs = T[rows].toarray()
    elif is_non_numpy(T):
        signs = to_numpy(T)[rows]
    else:
        signs = T[rows]
    return asarray_like(signs.astype(np.float64), other), signs != 0
