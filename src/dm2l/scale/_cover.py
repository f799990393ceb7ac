"""Gram matrix of the rows that have an entry in some label that can be learnt."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l.scale._grams import Array, square_of_rows

# Patterns of which a Gram matrix of their own is kept.
MOST_PENDING = 16


class Cover:
    """Rows with an entry in at least one *settled* label: one of which both classes were seen.

    A fit leaves out the labels that it cannot learn, and with them the rows that have nothing
    else. Which labels these are is known at the end only. Rows that have entries in unsettled
    labels alone therefore wait, a Gram matrix for each pattern of such labels, until one of these
    is settled. There are few such patterns in earnest; where more than a handful wait, all of them
    are counted in, and ``counted`` remembers on account of which labels.
    """

    def __init__(self, size: int, n_labels: int) -> None:
        self.gram = np.zeros((size, size))
        self.counted: NDArray[np.bool_] = np.zeros(n_labels, dtype=bool)
        self.pending: dict[bytes, Array] = {}

    def add(
        self, Phi: Any, entries: NDArray[np.bool_], settled: NDArray[np.bool_], gram: Array
    ) -> None:
        """Add the rows that have any entry; ``gram`` is their Gram matrix."""
        waiting = entries.any(axis=1) & ~entries[:, settled].any(axis=1)
        if waiting.any():
            rows = np.flatnonzero(waiting)
            patterns, which = np.unique(entries[rows], axis=0, return_inverse=True)
            for i, pattern in enumerate(patterns):
                part = square_of_rows(Phi, rows[np.ravel(which) == i])
                gram = gram - part
                self._wait(pattern.tobytes(), part)
        self.gram += gram
        self.settle(settled)

    def _wait(self, pattern: bytes, gram: Array) -> None:
        before = self.pending.get(pattern)
        self.pending[pattern] = gram if before is None else before + gram

    def settle(self, settled: NDArray[np.bool_]) -> None:
        """Count in the rows whose wait is over."""
        self.counted |= settled
        crowded = len(self.pending) > MOST_PENDING
        for pattern in list(self.pending):
            labels = np.frombuffer(pattern, dtype=bool)
            if crowded or (labels & settled).any():
                self.gram += self.pending.pop(pattern)
                self.counted |= labels

    def combine(self, other: Cover, sign: float, settled: NDArray[np.bool_]) -> None:
        """Add or subtract all rows of another one."""
        self.gram += sign * other.gram
        if sign > 0:
            self.counted |= other.counted
        for pattern, gram in other.pending.items():
            if sign > 0 or pattern in self.pending:
                self._wait(pattern, sign * gram)
            else:  # counted in since
                self.gram -= gram
        self.settle(settled)

    def each(self) -> list[Array]:
        """All Gram matrices, for what is done to every one of them."""
        return [self.gram, *self.pending.values()]
