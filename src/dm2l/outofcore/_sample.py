"""A random sample of the rows of a stream, for estimating label correlations."""

from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.arrays import sparse_from_parts, take_rows
from dm2l.completion._completer import row_digests, row_keys
from dm2l.labels._entries import Signs
from dm2l.outofcore._source import stacked

# More rows would not improve the label covariance, and would take longer than a second.
MAX_ROWS = 20_000
# Memory limit of the sample, including intermediate results of a few bytes per row and label.
MAX_BYTES = 2**27
_LABEL = 32
_CSR = ("data", "indices", "indptr")
# Names of the arrays that store a sample in a file.
MEMBERS = [f"sample_{name}" for name in ("limits", "X", *_CSR, "shape", "T", "ranks", "weights")]
_NOTHING = 1e-9  # smaller weights are rounding errors of subtracted rows


class _Rows(NamedTuple):
    X: Any
    T: Signs
    ids: NDArray[np.uint64]  # (n, 2), a hash of each row and a hash of its labels
    ranks: NDArray[np.float64]
    weights: NDArray[np.float64]

    def take(self, rows: NDArray[np.intp]) -> "_Rows":
        others = self.T[rows], self.ids[rows], self.ranks[rows], self.weights[rows]
        return _Rows(take_rows(self.X, rows), *others)


class RowSample:
    """A bounded sample of the rows with an observed label; each row has a pseudo-random rank."""

    # The rank is a hash of the row between 0 and 1. The sample therefore does not depend on the
    # order or the blocks of rows, equal rows are stored once with a weight, and subtracted rows are
    # recognized. The limit never rises, so the sample contains all rows below it. With forgetting,
    # the rank of a row of weight w is its hash divided by w (priority sampling).

    def __init__(self, most: int = MAX_ROWS, below: float = np.inf) -> None:
        self.most = int(most)
        self.below = float(below) if most else 0.0
        self._parts: list[_Rows] = []

    def expect(self, rows: int) -> None:
        """Lower the limit of the ranks in advance if at least ``rows`` rows are expected."""
        if rows > 2 * self.most:
            # The limit allows for seven standard deviations of the number of sampled rows.
            spare = self.most + 7.0 * self.most**0.5
            self.below = min(self.below, spare / rows)

    def add(self, X: Any, T: Signs, weights: NDArray[np.float64] | None = None) -> Self:
        """Add rows (dense or CSR) and their signs; a row of weight two counts as two rows."""
        if not self.below:
            return self
        keys = row_keys(row_digests(X), T)
        ranks = keys / 2.0**64
        chosen = np.flatnonzero((T != 0).any(axis=1) & (ranks < self.below))
        smallest = np.unique(ranks[chosen])
        if len(smallest) > self.most:  # lower the limit first, so that fewer rows are copied
            self.below = float(smallest[self.most])
            chosen = chosen[ranks[chosen] < self.below]
        if len(chosen):
            ids = np.stack([keys[chosen], row_digests(T[chosen])], axis=1)
            rows = take_rows(X, chosen)
            times = np.ones(len(chosen)) if weights is None else weights[chosen]
            self._parts.append(_Rows(rows, T[chosen], ids, ranks[chosen], times))
            self._settle(2 * self.most)
        return self

    def scale(self, forgetting: float) -> None:
        """Multiply the weight of every row by ``forgetting``."""
        self.below /= forgetting
        self._parts = [
            part._replace(ranks=part.ranks / forgetting, weights=part.weights * forgetting)
            for part in self._parts
        ]

    def combine(self, other: Self, sign: int) -> bool:
        """Add or subtract a sample; if rows to subtract are missing, drop all and return False."""
        self.most = min(self.most, other.most)
        self.below = min(self.below, other.below)
        if sign > 0:
            self._parts += other._parts
            self._settle(2 * self.most)
            return True
        self._settle()
        for part in other._parts:
            part = part.take(np.flatnonzero(part.ranks < self.below))
            gone = part._replace(ranks=np.full(len(part.T), np.inf), weights=-part.weights)
            self._parts.append(gone)
        self._settle()
        found = not any(np.isinf(part.ranks).any() for part in self._parts)
        if not found:
            self.below, self._parts = 0.0, []
        return found

    def _settle(self, allowed: int = 0) -> None:
        """If there are over ``allowed`` rows, merge equal rows and keep the smallest ranks."""
        self._parts = [part for part in self._parts if len(part.T)]
        if sum(len(part.T) for part in self._parts) <= allowed:
            return
        joined = self._parts[0]
        if len(self._parts) > 1:
            X, *others = zip(*self._parts, strict=True)
            joined = _Rows(stacked(list(X)), *map(np.concatenate, others))
        order = np.lexsort(joined.ids.T[::-1])
        ids = joined.ids[order]
        first = np.flatnonzero(np.append(True, (ids[1:] != ids[:-1]).any(axis=1)))
        ranks = np.minimum.reduceat(joined.ranks[order], first)
        weights = np.add.reduceat(joined.weights[order], first)
        # Subtracted rows that are not in the sample get an infinite rank.
        left = np.flatnonzero((weights > _NOTHING) | np.isinf(ranks))
        left = left[np.argsort(ranks[left], kind="stable")]
        ranks, chosen = ranks[left], order[first[left]]
        sizes = np.cumsum(_bytes(joined, chosen))
        most = min(int(np.searchsorted(sizes, MAX_BYTES, side="right")), self.most)
        if most < len(ranks):
            self.below = min(self.below, float(ranks[most]))
        inside = (ranks < self.below) | np.isinf(ranks)
        rows = joined.take(chosen[inside])
        rows = rows._replace(ranks=ranks[inside], weights=weights[left][inside])
        self._parts = [rows] if len(rows.T) else []

    def rows(self, width: int = 0) -> tuple[Any, Signs] | None:
        """Return inputs and signs, each row as often as its weight; None if the sample is empty."""
        # The number of rows is limited, because the caller computes ``width`` values per row.
        self._settle()
        if not self._parts:
            return None
        (part,) = self._parts
        u = part.ids[:, 0] / 2.0**64
        chance = np.minimum(1.0, self.below * u / np.maximum(part.ranks, 1e-300))
        weights = part.weights * (chance.max() / chance)
        size = np.maximum(_bytes(part, np.arange(len(u))), 8.0 * width)
        share = min(1.0, self.most / weights.sum(), MAX_BYTES / (weights @ size))
        # Fractional weights are rounded up or down by another hash, because the ranks of all
        # sampled rows are small.
        luck = (part.ids.sum(axis=1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) / 2.0**64
        times = np.floor(weights * share + luck).astype(np.intp)
        if (times == 1).all():
            return part.X, part.T
        found = part.take(np.repeat(np.arange(len(u)), times))
        return found.X, found.T

    def state(self) -> dict[str, Any]:
        """Return the sample as a dictionary of arrays."""
        self._settle()
        state: dict[str, Any] = {"limits": np.array([self.most, self.below])}
        for part in self._parts:  # there is one part or none
            state |= {"X": part.X, "T": part.T, "ranks": part.ranks, "weights": part.weights}
            if sp.issparse(part.X):
                X = state.pop("X")
                state |= {name: getattr(X, name) for name in _CSR} | {"shape": np.array(X.shape)}
        return {f"sample_{name}": value for name, value in state.items()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return the sample stored in a :meth:`state`, or an empty sample."""
        most, below = state.get("sample_limits", (0, 0.0))
        self = cls(int(most), float(below))
        if "sample_T" in state:
            T, ranks, weights = (state[f"sample_{name}"] for name in ("T", "ranks", "weights"))
            X = state.get("sample_X")
            if X is None:
                data, indices, indptr = (state[f"sample_{name}"] for name in _CSR)
                shape = state["sample_shape"].tolist()
                X = sp.csr_matrix(sparse_from_parts(data, indices, indptr, shape))
            sizes = {len(part) for part in (T, ranks, weights)} | {X.shape[0]}
            if len(sizes) > 1 or X.ndim != 2 or T.ndim != 2 or T.dtype != np.int8:
                raise ValueError("the arrays of its row sample do not have matching shapes")
            kinds = X.dtype.kind + weights.dtype.kind
            if set(kinds) != {"f"} or not all(np.isfinite(part).all() for part in (ranks, weights)):
                raise ValueError("its row sample holds values that are not finite numbers")
            ids = np.stack([row_keys(row_digests(X), T), row_digests(T)], axis=1)
            self._parts = [_Rows(X, T, ids, ranks, weights)]
        return self


def _bytes(part: _Rows, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the size of each row in bytes."""
    X = part.X
    of_row = 12.0 * np.diff(X.indptr)[rows] if sp.issparse(X) else 8.0 * X.shape[1]
    return np.full(len(rows), of_row + float(_LABEL * part.T.shape[1]))
