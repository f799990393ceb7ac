"""Rows that a model was fitted to, and what it would say of their labels had it not seen them.

Scores of training rows are too near their labels: residuals look small, and the coupling finds
nothing left to tell. So a model whose scores bend to its rows keeps a digest of each and the honest
scores of its known entries, and knows the row again when it is asked to fill its holes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l.arrays import to_numpy

Floats = NDArray[np.float64]
_BLOCK = 2**22  # numbers at a time


@dataclass(frozen=True)
class TrainingRows:
    """Honest scores of known entries by the rows they stand in.

    Parameters
    ----------
    digests : ndarray of shape (n,), uint64
        Of the inputs of each row, rising.
    starts : ndarray of shape (n + 1,)
        Where the entries of each row begin.
    labels, signs, scores : ndarray
        Column, sign and honest score of each entry.
    """

    digests: NDArray[np.uint64]
    starts: NDArray[np.int64]
    labels: NDArray[np.int32]
    signs: NDArray[np.int8]
    scores: NDArray[np.float32]

    @classmethod
    def of(cls, X: Any, T: NDArray[Any], F: Floats) -> Self:
        """Remember rows with signs ``T`` and honest scores ``F``, NaN where there are none."""
        found, first = np.unique(row_digests(X), return_index=True)
        T, F = T[first], F[first]
        known = (T != 0) & np.isfinite(F)
        starts = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        labels = np.nonzero(known)[1].astype(np.int32)
        return cls(found, starts, labels, T[known].astype(np.int8), F[known].astype(np.float32))

    def honest(self, X: Any, T: NDArray[Any], F: Floats) -> Floats:
        """``F`` with the honest scores of entries that are as they were in training."""
        digests = row_digests(X)
        place = np.minimum(np.searchsorted(self.digests, digests), len(self.digests) - 1)
        rows = np.flatnonzero(self.digests[place] == digests)
        place = place[rows]
        counts = self.starts[place + 1] - self.starts[place]
        rows = np.repeat(rows, counts)
        ends = np.cumsum(counts)
        entries = np.arange(len(rows)) + np.repeat(self.starts[place] - (ends - counts), counts)
        same = T[rows, self.labels[entries]] == self.signs[entries]
        F = F.copy()
        F[rows[same], self.labels[entries[same]]] = self.scores[entries[same]]
        return F


def row_digests(X: Any) -> NDArray[np.uint64]:
    """A number for the content of each row, the same for dense and sparse ones."""
    keys = np.random.default_rng(0).integers(1, 2**63, X.shape[1], dtype=np.uint64) * 2 + 1
    if sp.issparse(X):
        X = X.tocsr()
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mixed(X.data) * keys[X.indices])])
        return sums[X.indptr[1:]] - sums[X.indptr[:-1]]  # differences are right modulo 2^64
    X = to_numpy(X)
    step = _BLOCK // X.shape[1] + 1
    parts = [
        (_mixed(X[start : start + step]) * keys).sum(axis=1, dtype=np.uint64)
        for start in range(0, len(X), step)
    ]
    return np.concatenate(parts)


def _mixed(values: NDArray[Any]) -> NDArray[np.uint64]:
    """The bits of numbers, those of round ones spread over all places; 0 stays 0."""
    bits = np.ascontiguousarray(values + 0.0, dtype=np.float64).view(np.uint64)
    bits = bits ^ (bits >> np.uint64(32))
    return bits ^ (bits >> np.uint64(20))
