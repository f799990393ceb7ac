"""Row blocks that are elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from dm2l.outofcore._source import RowBlocks


class RemoteBlocks(RowBlocks, ABC):
    """Row blocks that are elsewhere: functions go to them, and small results come back."""

    @abstractmethod
    def reduce(self, function: Callable[[Any], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Sum of ``function(block)`` over all blocks, thing by thing of the tuple."""

    @abstractmethod
    def map(self, function: Callable[[Any], Any]) -> Any:
        """The blocks with a function applied to each: something else with :meth:`reduce`."""

    def counts(self) -> tuple[Any, Any, int]:
        """Observed positives and negatives of every label, and rows that have any."""
        positives, negatives, rows = self.reduce(label_counts)
        return positives, negatives, int(rows)

    def result_memory(self) -> float:
        """Bytes that the result of a block may take where it is made; infinite where unknown."""
        return float("inf")


def label_counts(block: tuple[Any, ...]) -> tuple[Any, Any, int]:
    """Observed positives and negatives of every label of a block, and rows that have any."""
    T = block[1]
    return (T > 0).sum(axis=0), (T < 0).sum(axis=0), int((T != 0).any(axis=1).sum())
