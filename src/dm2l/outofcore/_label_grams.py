"""Gram matrices of the rows in which each label is observed, computed for all labels together."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.arrays import one_blas_thread, run_all
from dm2l.labels._entries import Signs

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Minimum number of rows in a block, and number of labels that share products in such a block.
# Products of fewer than a few hundred rows are slow (benchmarks/blocks.py --tune).
SHARING = ((12_000, 3), (1_500, 2), (0, 1))
PIECE = 1024  # number of rows that are copied and multiplied together
MAX_PENDING = 16  # maximum number of label patterns with a separate Gram matrix


def square(Phi: Any) -> Array:
    """Return ``Phi'Phi`` as a dense matrix."""
    product = Phi.T @ Phi  # numpy recognizes the transpose and computes only half of the product
    return np.asarray(product.toarray() if sp.issparse(product) else product)


def square_of_rows(Phi: Any, rows: NDArray[np.intp]) -> Array:
    """Return the Gram matrix of the given rows."""
    if sp.issparse(Phi):
        return square(Phi[rows])
    # Pieces are small enough to be in the processor's cache when they are multiplied.
    m = Phi.shape[1]
    pieces, product = np.empty((min(PIECE, len(rows)), m)), np.empty((m, m))
    total: Array | None = None
    for start in range(0, len(rows), PIECE):
        some = rows[start : start + PIECE]
        # With this mode, numpy writes to `out` without a temporary copy.
        part = np.take(Phi, some, axis=0, out=pieces[: len(some)], mode="clip")
        np.matmul(part.T, part, out=product)
        total = product.copy() if total is None else np.add(total, product, out=total)
    return np.zeros((m, m)) if total is None else total


def add_label_grams(Phi: Any, T: Signs, H: Array, G: Array, workers: int) -> tuple[Array, Array]:
    """Add a block to ``H`` and ``G``; return Gram matrices of all rows and of positive rows."""
    # Rows with the same signs in two or three labels form a cell. The Gram matrix of each cell is
    # computed once; the Gram matrix of the largest cell follows from the total.
    n, c = T.shape
    width = next(labels for rows, labels in SHARING if n >= rows)
    groups = [slice(first, min(first + width, c)) for first in range(0, c, width)]
    covered = np.asarray((T > 0).any(axis=1))
    many = 2 * np.count_nonzero(covered) > n

    def first() -> Array:
        total = np.zeros(H.shape[1:])
        for gram, cell in _cells(Phi, T[:, groups[0]], skip=False):
            _spread(gram, cell, H[groups[0]], G[groups[0]])
            total += gram
        return total

    def further(labels: slice) -> tuple[Array, int]:
        others, largest = np.zeros(H.shape[1:]), 0
        for gram, cell in _cells(Phi, T[:, labels], skip=True):
            if gram is None:
                largest = cell
                continue
            _spread(gram, cell, H[labels], G[labels])
            others += gram
        return others, largest

    side = partial(square_of_rows, Phi, np.flatnonzero(covered != many))
    # Each task writes to separate matrices.
    with one_blas_thread():
        tasks: list[Callable[[], Any]] = [first, side, *(partial(further, g) for g in groups[1:])]
        total, smaller, *rest = run_all(tasks, workers)
    for labels, (others, largest) in zip(groups[1:], rest, strict=True):
        _spread(total - others, largest, H[labels], G[labels])
    return total, total - smaller if many else smaller


def _cells(Phi: Any, T: Signs, *, skip: bool) -> Iterator[tuple[Any, int]]:
    """Yield Gram matrix and number of each cell (rows with equal signs); None if skipped."""
    states = np.asarray(T + 1, dtype=np.uint8)  # 0 negative, 1 missing, 2 positive
    powers = 3 ** np.arange(T.shape[1], dtype=np.uint8)
    codes = (states * powers).sum(axis=1, dtype=np.uint8)
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=3 ** T.shape[1])
    ends = np.cumsum(counts)
    largest = int(np.argmax(counts)) if skip else -1
    for cell in np.flatnonzero(counts).tolist():
        rows = order[ends[cell] - counts[cell] : ends[cell]]
        yield None if cell == largest else square_of_rows(Phi, rows), cell


def _spread(gram: Array, cell: int, H: Array, G: Array) -> None:
    """Add the Gram matrix of rows with equal signs to those of their observed labels."""
    for label in range(len(H)):
        cell, state = divmod(cell, 3)
        if state != 1:
            H[label] += gram
        if state == 2:
            G[label] += gram


class LearnableRows:
    """Gram matrix of the rows with an observed entry in at least one learnable label."""

    # Which labels are learnable is known only after the last block. Until then, rows without a
    # learnable label are kept in a Gram matrix per pattern of labels. If there are too many
    # patterns, all of these rows are included.

    def __init__(self, size: int, n_labels: int) -> None:
        self.gram = np.zeros((size, size))
        self.counted: Mask = np.zeros(n_labels, dtype=bool)
        self.pending: dict[bytes, Array] = {}

    def add(self, Phi: Any, entries: Mask, learnable: Mask, gram: Array) -> None:
        """Add rows with any observed entry; ``gram`` is their Gram matrix."""
        waiting = entries.any(axis=1) & ~entries[:, learnable].any(axis=1)
        if waiting.any():
            rows = np.flatnonzero(waiting)
            patterns, which = np.unique(entries[rows], axis=0, return_inverse=True)
            for i, pattern in enumerate(patterns):
                part = square_of_rows(Phi, rows[np.ravel(which) == i])
                gram = gram - part
                key = pattern.tobytes()
                self.pending[key] = self.pending.get(key, 0.0) + part
        self.gram += gram
        self.settle(learnable)

    def settle(self, learnable: Mask) -> None:
        """Include pending rows with a learnable label, or all if they have many label patterns."""
        self.counted |= learnable
        crowded = len(self.pending) > MAX_PENDING
        for pattern in list(self.pending):
            labels = np.frombuffer(pattern, dtype=bool)
            if crowded or (labels & learnable).any():
                self.gram += self.pending.pop(pattern)
                self.counted |= labels

    def combine(self, other: Self, sign: float, learnable: Mask) -> None:
        """Add or subtract the rows of ``other``; ``sign`` is 1 or -1."""
        self.gram += sign * other.gram
        if sign > 0:
            self.counted |= other.counted
        for pattern, gram in other.pending.items():
            if sign > 0 or pattern in self.pending:
                self.pending[pattern] = self.pending.get(pattern, 0.0) + sign * gram
            else:  # these rows have been included in the meantime
                self.gram -= gram
        self.settle(learnable)

    def each(self) -> list[Array]:
        """Return the Gram matrix of the included rows, and those of the pending rows."""
        return [self.gram, *self.pending.values()]
