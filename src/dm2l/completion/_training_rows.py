"""Training rows, recognised by their content, and the held-out scores of their known entries.

A model's scores of its training rows are too close to their labels: residuals look small, and
label correlation has nothing left to correct. So a fit keeps a digest of each row, and completion
and the search for label errors use held-out scores for rows that they recognise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from array_api_compat import is_torch_array
from numpy.typing import NDArray

from dm2l._utils.arrays import asarray_like, namespace, take_rows, to_numpy

Floats = NDArray[np.float64]
# Numbers at a time: intermediate results stay in the cache, which is six times faster.
_BLOCK = 2**18
# Ratio of squared errors, held-out scores to the model's own, from which the former are kept.
OVERFIT = 1.02
FEW = 500  # rows that are enough to estimate the ratio


@dataclass(frozen=True)
class TrainingRows:
    """Digests of the rows of a fit, in rising order, and held-out scores of their known entries.

    Those of row ``i`` are ``labels``, ``signs`` and ``scores`` from ``starts[i]`` on.
    """

    digests: NDArray[np.uint64]
    starts: NDArray[np.int64]
    labels: NDArray[np.int32]
    signs: NDArray[np.int8]
    scores: NDArray[np.float32]

    @classmethod
    def of(
        cls,
        digests: NDArray[np.uint64],
        T: NDArray[Any],
        F: Floats | None = None,
        order: NDArray[np.intp] | None = None,
    ) -> Self:
        """Rows with signs ``T`` and held-out scores ``F``; of equal rows the first in ``order``."""
        order = np.arange(len(T)) if order is None else order
        found, first = np.unique(digests[order], return_index=True)
        T = T[order[first]]
        F = np.full(T.shape, np.nan) if F is None else F[order[first]]
        known = (T != 0) & np.isfinite(F)
        starts = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        labels = np.nonzero(known)[1].astype(np.int32)
        return cls(found, starts, labels, T[known].astype(np.int8), F[known].astype(np.float32))

    def _places(self, X: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows of ``X`` that are training rows, and their places among these."""
        digests = row_digests(X)
        place = np.searchsorted(self.digests, digests)
        rows = np.flatnonzero(np.searchsorted(self.digests, digests, side="right") > place)
        return rows, place[rows]

    def recognise(self, X: Any) -> NDArray[np.bool_]:
        """Whether each row of ``X`` is a training row."""
        found = np.zeros(X.shape[0], dtype=bool)
        found[self._places(X)[0]] = True
        return found

    def hold_out(self, X: Any, T: NDArray[Any], F: Floats) -> Floats:
        """``F`` with the held-out scores of entries that are as they were in training."""
        if not len(self.scores):
            return F
        rows, place = self._places(X)
        counts = self.starts[place + 1] - self.starts[place]
        rows = np.repeat(rows, counts)
        ends = np.cumsum(counts)
        entries = np.arange(len(rows)) + np.repeat(self.starts[place] - (ends - counts), counts)
        same = T[rows, self.labels[entries]] == self.signs[entries]
        F = F.copy()
        F[rows[same], self.labels[entries[same]]] = self.scores[entries[same]]
        return F


def overfits(
    X: Any,
    T: NDArray[Any],
    F: Floats,
    score: Callable[[Any], Any],
    order: NDArray[np.intp] | None = None,
) -> bool:
    """Whether the model's own scores of training rows are closer to the labels than ``F``."""
    known = (T != 0) & np.isfinite(F)
    order = np.arange(len(T)) if order is None else order
    few = order[known[order].any(axis=1)][:FEW]
    if not len(few):
        return False
    own = to_numpy(score(take_rows(X, few)))
    errors = [np.square(T[few] - part)[known[few]].mean() for part in (own, F[few])]
    return bool(errors[1] >= OVERFIT * errors[0])


def row_keys(digests: NDArray[np.uint64], T: NDArray[Any]) -> NDArray[np.uint64]:
    """A pseudo-random number for each row, from its content.

    Sorting by it gives an order that does not depend on the order in which rows came. Of the signs
    ``T`` it uses the counts alone, so that it does not depend on the order of labels either, nor
    on labels that are missing everywhere.
    """
    positive, negative = (part.sum(axis=1, dtype=np.uint64) for part in (T > 0, T < 0))
    key = digests + positive * np.uint64(2**61 - 1) + negative * np.uint64(2**31 - 1)
    # The last steps of splitmix64, after which every bit depends on all.
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))


def row_digests(X: Any) -> NDArray[np.uint64]:
    """A number for the content of each row, the same for dense and sparse ones."""
    X = X.tocsr() if sp.issparse(X) else X if is_torch_array(X) else to_numpy(X)
    keys = np.random.default_rng(0).integers(1, 2**63, X.shape[1], dtype=np.uint64) * 2 + 1
    keys = keys.view(np.int64)
    if sp.issparse(X):
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(_mixed(X.data) * keys[X.indices])])
        found = sums[X.indptr[1:]] - sums[X.indptr[:-1]]  # right modulo 2^64, like all sums here
        return found.view(np.uint64)
    # Where the rows are: a kernel matrix would take longer to leave a GPU than to be factorised.
    step, keys = _BLOCK // X.shape[1] + 1, asarray_like(keys, X)
    parts = [X[start : start + step] for start in range(0, X.shape[0], step)]
    found = [to_numpy((_mixed(part) * keys).sum(-1)) for part in parts]
    return np.concatenate([np.zeros(0, np.int64), *found]).view(np.uint64)


def _mixed(values: Any) -> Any:
    """The bits of numbers, those of round ones spread over all places; 0 stays 0."""
    xp = namespace(values)
    bits = xp.asarray(values + 0.0, dtype=xp.float64, copy=None).view(xp.int64)
    bits = bits ^ ((bits >> 32) & (2**32 - 1))
    return bits ^ ((bits >> 20) & (2**44 - 1))
