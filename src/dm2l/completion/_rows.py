"""Rows that a model was fitted to, and what it would say of their labels had it not seen them.

Scores of training rows are too near their labels: residuals look small, and the coupling finds
nothing left to tell. So a model whose scores bend to its rows keeps a digest of each and the honest
scores of its known entries, and knows the row again when it is asked to fill its holes.
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
# Numbers at a time: what is made of them stays in the cache, which is six times faster.
_BLOCK = 2**18
# Ratio of squared errors, unseen to seen, from which on training rows are remembered.
BENT = 1.02
FEW = 500  # rows that tell


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
    def of(cls, X: Any, T: NDArray[Any], F: Floats, order: NDArray[np.intp] | None = None) -> Self:
        """Remember rows with signs ``T`` and honest scores ``F``, NaN where there are none.

        Of rows with equal inputs it is the first one, in the order that is given.
        """
        order = np.arange(len(T)) if order is None else order
        found, first = np.unique(row_digests(X)[order], return_index=True)
        first = order[first]
        T, F = T[first], F[first]
        known = (T != 0) & np.isfinite(F)
        starts = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        labels = np.nonzero(known)[1].astype(np.int32)
        return cls(found, starts, labels, T[known].astype(np.int8), F[known].astype(np.float32))

    @classmethod
    def if_bent(
        cls,
        X: Any,
        T: NDArray[Any],
        F: Floats,
        score: Callable[[Any], Any],
        order: NDArray[np.intp] | None = None,
    ) -> Self | None:
        """The rows, if the model's own scores of them are nearer the labels than honest ones.

        A few rows tell, the first in the order that is given: ``score`` gives the model's own
        scores of them.
        """
        known = (T != 0) & np.isfinite(F)
        order = np.arange(len(T)) if order is None else order
        few = order[known[order].any(axis=1)][:FEW]
        if not len(few):
            return None
        own = to_numpy(score(take_rows(X, few)))
        errors = [np.square(T[few] - part)[known[few]].mean() for part in (own, F[few])]
        return None if errors[1] < BENT * errors[0] else cls.of(X, T, F, order)

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


def row_keys(X: Any, T: NDArray[Any]) -> NDArray[np.uint64]:
    """A number for each row that looks random and goes by what the row holds.

    Rows in the order of their keys are in an order that means nothing, and that does not depend on
    the one in which they came. Of the signs ``T`` only how many there are of each has a part, so
    that labels may be in any order too, and one that nobody knows changes nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.completion._rows import row_keys
    >>> X, T = np.eye(3), np.array([[1, 0], [0, -1], [0, 1]])
    >>> np.array_equal(row_keys(X[::-1], T[::-1, ::-1]), row_keys(X, T)[::-1])
    True
    """
    sides = [(T > 0).sum(axis=1, dtype=np.uint64), (T < 0).sum(axis=1, dtype=np.uint64)]
    key = row_digests(X) + sides[0] * np.uint64(2**61 - 1) + sides[1] * np.uint64(2**31 - 1)
    # The last steps of splitmix64, after which every bit depends on all.
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))


def row_order(X: Any, T: NDArray[Any]) -> NDArray[np.intp]:
    """Rows by their keys; signs tell those apart whose keys are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.completion._rows import row_order
    >>> X, T = np.eye(3), np.array([[1, 0], [0, -1], [0, 1]])
    >>> sorted(row_order(X, T).tolist())
    [0, 1, 2]
    """
    order: NDArray[np.intp] = np.lexsort((row_digests(T), row_keys(X, T)))
    return order


def row_digests(X: Any) -> NDArray[np.uint64]:
    """A number for the content of each row, the same for dense and sparse ones.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.completion._rows import row_digests
    >>> len(np.unique(row_digests(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))))
    2
    """
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
