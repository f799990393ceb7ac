"""The best labels of each row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class TopK(NamedTuple):
    """The best labels of each row, best first: what the metrics at ``k`` take as scores."""

    indices: NDArray[np.intp]
    scores: NDArray[np.float64]


def top_k(S: NDArray[np.float64], k: int) -> TopK:
    """The ``k`` highest scores of each row; of equal ones those of earlier labels."""
    c = S.shape[1]
    if k < c:
        found = np.argpartition(S, c - k, axis=1)[:, c - k :]
        last = np.take_along_axis(S, found, axis=1).min(axis=1)
        # A partition takes any of those that tie for the last place.
        for i in np.flatnonzero((last[:, None] <= S).sum(axis=1) > k):
            found[i] = np.argsort(-S[i], kind="stable")[:k]
    else:
        found = np.broadcast_to(np.arange(c), S.shape)
    found = np.sort(found, axis=1)
    values = np.take_along_axis(S, found, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    return TopK(np.take_along_axis(found, order, axis=1), np.take_along_axis(values, order, axis=1))
