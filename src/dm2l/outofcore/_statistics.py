"""Gram statistics: sums over rows that determine the objective."""

import os
import warnings
from collections.abc import Iterable
from copy import deepcopy
from numbers import Real
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.arrays import blas_thread_count, scale_rows
from dm2l._utils.files import FAULTS, atomic_write
from dm2l.labels._entries import Signs
from dm2l.outofcore._label_grams import Array, LearnableRows, add_label_grams, square
from dm2l.outofcore._sample import MAX_ROWS, MEMBERS, RowSample

_EPS = float(np.finfo(np.float64).eps)
_FORMAT = 2
_FOREIGN = "so these statistics do not contain the block. Subtract only rows that were added."
_ROWS = ("rows", "positive_rows")
_PARTS = ("gram", "counted", "patterns", "pending")
_NAMES = ("n_features", "n_labels", "positives", "negatives", "offset", "H", "G")
_WAITING = [f"{rows}_{part}" for rows in _ROWS for part in _PARTS]
_MEMBERS = ("format", "begun", *_NAMES, *_WAITING, *MEMBERS)


class RowStatistics:
    """Label counts and the Gram matrix of all rows, collected before a fit by passes."""

    # ``offset`` is subtracted from features, because large means would cause rounding errors. A
    # column of ones allows changing the offset. ``weights`` (2, n_labels) are sums
    # of the weights of observed positives and negatives, without forgetting.

    def __init__(self, n_features: int, n_labels: int, sample: int = MAX_ROWS) -> None:
        self.n_features = int(n_features)
        self.n_labels = int(n_labels)
        self.sample = RowSample(sample)
        self.positives = np.zeros(self.n_labels, dtype=np.int64)
        self.negatives = np.zeros(self.n_labels, dtype=np.int64)
        self.weights: Array = np.zeros((2, self.n_labels))
        self.offset: Array = np.zeros(self.n_features)
        self._begun = False
        self.rows = LearnableRows(self.n_features + 1, self.n_labels)
        self._rows: tuple[LearnableRows, ...] = (self.rows,)

    def add(
        self,
        X: Any,
        T: Signs,
        learnable: NDArray[np.bool_] | None = None,
        inputs: Any = None,
        weights: Array | None = None,
    ) -> Self:
        """Add a block of rows."""
        X, T = self._check(X, T)
        self.sample.add(X if inputs is None else inputs, T, weights)
        counts = np.stack([T > 0, T < 0]).astype(np.float64)
        self.weights += counts.sum(axis=1) if weights is None else weights @ counts
        if learnable is not None:
            T = T * learnable
        seen = np.flatnonzero((T != 0).any(axis=1))
        if not len(seen):
            return self
        Phi = self._features(X, seen)
        T = T if len(seen) == len(T) else T[seen]
        self.positives += (T > 0).sum(axis=0)
        self.negatives += (T < 0).sum(axis=0)
        if weights is not None:
            # Rows are multiplied by the roots of their weights, which gives weighted sums.
            Phi = scale_rows(Phi, np.sqrt(weights[seen]))
        self._add_grams(Phi, T, self.learnable if learnable is None else learnable)
        return self

    def _add_grams(self, Phi: Any, T: Signs, learnable: NDArray[np.bool_]) -> None:
        self.rows.add(Phi, T != 0, learnable, square(Phi))

    def _check(self, X: Any, T: Any) -> tuple[Any, Signs]:
        X = X.tocsr() if sp.issparse(X) else np.asarray(X)
        T = np.asarray(T)
        expected = (X.shape[0], self.n_labels)
        if X.ndim != 2 or X.shape[1] != self.n_features or T.shape != expected:
            raise ValueError(
                f"X has shape {X.shape} and T has shape {T.shape}, but the statistics have "
                f"{self.n_features} features and {self.n_labels} labels."
            )
        if T.dtype != np.int8 or (len(T) and (T.min() < -1 or T.max() > 1)):
            what = "T must hold signs as int8: -1, 0 (missing) and +1."
            remedy = "Convert other labels with RowBlocks.from_arrays and GramStatistics.gather."
            raise ValueError(f"{what} {remedy}")
        return X, T

    def _features(self, X: Any, rows: NDArray[np.intp]) -> Any:
        """Return the rows minus the offset in float64, with a column of ones."""
        if sp.issparse(X):
            X = X[rows].astype(np.float64)
            _refuse_infinite(X.data, X.indices)
            if not self.offset.any():
                self._begun = True
                ones = sp.csr_array(np.ones((X.shape[0], 1)))
                return sp.csr_array(sp.hstack([X, ones], format="csr"))
            X, rows = X.toarray(), np.arange(len(rows))  # earlier blocks were dense
        offset = self.offset
        if not self._begun:
            offset = np.asarray(np.mean(X[rows], axis=0, dtype=np.float64))
        Phi = np.ones((len(rows), self.n_features + 1))
        np.subtract(np.take(X, rows, axis=0), offset, out=Phi[:, :-1])
        _refuse_infinite(Phi)
        self.offset, self._begun = offset, True
        return Phi

    def scale(self, forgetting: float) -> Self:
        """Multiply the weights of all rows by ``forgetting``."""
        if not isinstance(forgetting, Real) or not 0 < float(forgetting) <= 1:
            raise ValueError(f"forgetting must be a number > 0 and <= 1, got {forgetting!r}.")
        for gram in self._grams():
            gram *= float(forgetting)
        self.sample.scale(float(forgetting))
        return self

    def _combine(self, other: Self, sign: int) -> Self:
        if type(other) is not type(self):
            text = f"{type(self).__name__} can only be combined with its own type,"
            raise TypeError(f"{text} got {type(other).__name__}.")
        for name in ("n_features", "n_labels"):
            if (mine := getattr(self, name)) != (its := getattr(other, name)):
                raise ValueError(f"The statistics must have equal {name}, got {mine} and {its}.")
        if sign < 0:
            more = (other.positives > self.positives) | (other.negatives > self.negatives)
            if more.any():
                what = f"Label {np.argmax(more)} has fewer positives or negatives than the block"
                raise ValueError(f"{what}, {_FOREIGN}")
        if not self._begun:
            self.offset, self._begun = other.offset.copy(), other._begun
        elif other._begun and not np.array_equal(self.offset, other.offset):
            other = deepcopy(other)
            other.move(self.offset)
        if sign < 0:
            self._check_squares(other)
        self.positives += sign * other.positives
        self.negatives += sign * other.negatives
        self.weights += sign * other.weights
        for grams, others in zip(self._of_labels, other._of_labels, strict=True):
            grams += sign * others
        for rows, further in zip(self._rows, other._rows, strict=True):
            rows.combine(further, sign, self.learnable)
        if not self.sample.combine(other.sample, sign):
            warnings.warn(
                "Some subtracted rows differ slightly from the added rows, so the sample of rows "
                "for label correlations may still contain them. The sample is discarded: until you "
                "gather statistics again, complete uses the features only.",
                stacklevel=3,
            )
        return self

    def __iadd__(self, other: Self) -> Self:
        return self._combine(other, 1)

    def __isub__(self, other: Self) -> Self:
        return self._combine(other, -1)

    def __add__(self, other: Self) -> Self:
        return deepcopy(self)._combine(other, 1)

    def __sub__(self, other: Self) -> Self:
        return deepcopy(self)._combine(other, -1)

    def _squares(self) -> Array:
        """Return the sum of squares of each column; the last value is the sum of the weights."""
        return np.asarray(sum(np.diagonal(gram) for gram in self.rows.each()))

    def _check_squares(self, other: Self) -> None:
        """Raise an error if rows of ``other`` were not added, or if rounding errors dominate."""
        before = self._squares()
        left = before - other._squares()
        excess = -left - 1e-9 * before  # far larger than rounding errors
        if (excess > 0).any():
            column = int(np.argmax(excess))
            name = "the column of ones" if column == self.n_features else f"feature {column}"
            raise ValueError(f"The sum of squares of {name} would be negative, {_FOREIGN}")
        kept = np.maximum(left[:-1], 0.0)
        # Roughly the default alpha is added, because a single remaining row may equal the offset.
        kept += kept.sum() / max(float(left[-1]), 1.0)
        if left[-1] >= 1.5 and (_EPS * before[:-1] > 0.1 * kept).any():
            raise ValueError(
                "The subtracted values are so large that rounding errors would dominate the other "
                "rows. Gather statistics again from the other rows."
            )

    def move(self, offset: Array) -> None:
        """Change the offset that is subtracted from the features."""
        shift = self.offset - offset
        for grams in self._grams():
            for gram in grams if grams.ndim == 3 else grams[None]:  # one copy at a time
                gram[...] = moved(gram, shift)
        self.offset = np.array(offset, dtype=np.float64)

    def _grams(self) -> list[Array]:
        """Return all Gram matrices and stacks of Gram matrices."""
        return [*self._of_labels, *(gram for rows in self._rows for gram in rows.each())]

    @property
    def _of_labels(self) -> tuple[Array, ...]:
        """Return the stacks of Gram matrices per label."""
        return ()

    @property
    def learnable(self) -> NDArray[np.bool_]:
        """Mask of the labels with both classes observed."""
        return np.asarray((self.positives > 0) & (self.negatives > 0))

    @property
    def seen(self) -> Signs:
        """Return two rows of signs that contain the observed classes of every label."""
        return np.array([self.positives > 0, -1 * (self.negatives > 0)], dtype=np.int8)

    @property
    def has_unlearnable_rows(self) -> bool:
        """Whether the Gram matrices include rows without any learnable label."""
        return any((rows.counted & ~self.learnable).any() for rows in self._rows)

    @property
    def weight(self) -> float:
        """Sum of the weights of all rows."""
        return float(self.rows.gram[-1, -1])

    def variances(self) -> Array:
        """Return the variances of the features."""
        apart = self.rows.gram[-1, :-1] / self.weight
        squares = np.diagonal(self.rows.gram)[:-1] / self.weight
        return np.maximum(squares - apart**2, 0.0)


class GramStatistics(RowStatistics):
    """Sufficient statistics of the objective: Gram matrices of the features, per label.

    The statistics contain about ``2 n_labels (n_features + 1)^2`` numbers for any number of rows. A
    fit to statistics (:meth:`dm2l.DM2LClassifier.fit_statistics`) equals a fit to the rows. Add
    statistics to combine different rows, and subtract statistics to unlearn rows.

    Gram matrices square the condition number of the features. Scale features of very different
    magnitudes, and do not subtract rows with values a million times larger than in other rows.

    Parameters
    ----------
    n_features, n_labels : int
        Number of columns of ``X`` and of ``T``.
    sample : int, default=20000
        Number of rows that are stored for label correlations (``coupling``). With 0, models that
        are fitted to these statistics impute missing labels from the features only.

    Attributes
    ----------
    H, G : ndarray of shape (n_labels, n_features + 1, n_features + 1)
        Gram matrices of the rows on which each label is observed, and of its observed positives,
        with a last column of ones.
    positives, negatives : ndarray of shape (n_labels,)
        Numbers of observed positives and of observed negatives of each label.
    offset : ndarray of shape (n_features,)
        The column means of the first dense block, which are subtracted from all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.outofcore import GramStatistics
    >>> X, T = np.eye(4), np.array([[1, 0], [-1, 1], [0, 1], [1, -1]], dtype=np.int8)
    >>> whole, first = GramStatistics(4, 2).add(X, T), GramStatistics(4, 2).add(X[:2], T[:2])
    >>> (whole - first).positives
    array([1, 1])
    """

    def __init__(self, n_features: int, n_labels: int, sample: int = MAX_ROWS) -> None:
        super().__init__(n_features, n_labels, sample)
        size = self.n_features + 1
        self.H = np.zeros((self.n_labels, size, size))
        self.G = np.zeros((self.n_labels, size, size))
        self.positive_rows = LearnableRows(size, self.n_labels)
        self._rows = self.rows, self.positive_rows

    @classmethod
    def gather(cls, blocks: Iterable[tuple[Any, ...]], sample: int = MAX_ROWS) -> Self:
        """Gather the statistics of all blocks, in one pass.

        Blocks are ``(X, T)`` or ``(X, T, weights)``, as :class:`dm2l.outofcore.RowBlocks` yields.
        """
        statistics: Self | None = None
        for X, T, *weights in blocks:
            if statistics is None:
                statistics = cls(X.shape[1], T.shape[1], sample)
            statistics.add(X, T, weights=weights[0] if weights else None)
        if statistics is None:
            raise ValueError("There are no blocks to gather statistics from; pass at least one.")
        return statistics

    def _add_grams(self, Phi: Any, T: Signs, learnable: NDArray[np.bool_]) -> None:
        total, covered = add_label_grams(Phi, T, self.H, self.G, blas_thread_count())
        self.positive_rows.add(Phi, T > 0, learnable, covered)
        self.rows.add(Phi, T != 0, learnable, total)

    @property
    def _of_labels(self) -> tuple[Array, ...]:
        return self.H, self.G

    @property
    def groups(self) -> NDArray[np.bool_]:
        """Mask of labels with a local norm: learnable, or with a positive in an included row."""
        # Without local norms for all included positives, the objective would have no lower bound.
        left = self.positive_rows.counted & (self.positives > 0)
        return np.asarray(self.learnable | left)

    def state(self) -> dict[str, Any]:
        """Return a dictionary of the arrays and numbers of the statistics, without copies."""
        state = {"begun": self._begun} | {name: getattr(self, name) for name in _NAMES}
        for name, rows in zip(_ROWS, self._rows, strict=True):
            patterns = [np.frombuffer(pattern, dtype=bool) for pattern in rows.pending]
            shape = (len(patterns), self.n_labels)
            state[f"{name}_gram"] = rows.gram
            state[f"{name}_counted"] = rows.counted
            state[f"{name}_patterns"] = np.array(patterns, dtype=bool).reshape(shape)
            pending = np.array(list(rows.pending.values()), dtype=np.float64)
            state[f"{name}_pending"] = pending.reshape(len(patterns), *rows.gram.shape)
        return state | self.sample.state()

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Create statistics from a :meth:`state` without copying its arrays."""
        n_labels, size = state["H"].shape[:2]
        self = cls(size - 1, n_labels)
        self._begun = bool(state["begun"])
        for name in ("positives", "negatives", "offset", "H", "G"):
            setattr(self, name, state[name])
        self.weights = np.stack([self.G[:, -1, -1], (self.H - self.G)[:, -1, -1]])
        for name, rows in zip(_ROWS, self._rows, strict=True):
            rows.gram, rows.counted = state[f"{name}_gram"], state[f"{name}_counted"]
            patterns, pending = state[f"{name}_patterns"], state[f"{name}_pending"]
            rows.pending = {
                np.ascontiguousarray(pattern).tobytes(): gram
                for pattern, gram in zip(patterns, pending, strict=True)
            }
        self.sample = RowSample.from_state(state)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics to an uncompressed npz file without pickle."""
        upper = np.triu_indices(self.n_features + 1)
        arrays: dict[str, Any] = {  # store only the upper triangle of symmetric matrices
            name: value[..., upper[0], upper[1]] if _symmetric(name) else value
            for name, value in self.state().items()
        }
        with atomic_write(Path(path)) as partial, partial.open("wb") as file:
            np.savez(file, format=_FORMAT, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read statistics from a file written by :meth:`save`."""
        from dm2l.io._matrix_files import read_members  # needed only for files

        try:
            state = read_members(path, _MEMBERS)
            if state["format"] != _FORMAT:
                raise ValueError(f"its format is {state['format']}, expected {_FORMAT}")
            size = int(state["n_features"]) + 1
            state |= {name: _whole(state[name], size) for name in filter(_symmetric, state)}
            return cls.from_state(state)._checked()
        except FAULTS as error:
            what = f"{path} is not a valid file of GramStatistics: {error}."
            raise ValueError(f"{what} Gather the statistics again and save them.") from error

    def _checked(self) -> Self:
        size, c = self.n_features + 1, self.n_labels
        arrays: list[Any] = [("offset", self.offset, "f", (size - 1,))]
        arrays += [(name, getattr(self, name), "f", (c, size, size)) for name in ("G", "H")]
        arrays += [(name, getattr(self, name), "i", (c,)) for name in ("positives", "negatives")]
        for rows in self._rows:
            arrays += [("a Gram matrix", gram, "f", (size, size)) for gram in rows.each()]
            arrays += [("counted", rows.counted, "b", (c,))]
            if any(len(pattern) != c for pattern in rows.pending):
                raise ValueError(f"a label pattern does not have {c} labels")
        for name, array, kind, shape in arrays:
            if array.shape != shape:
                raise ValueError(f"{name} has shape {array.shape}, not {shape}")
            if array.dtype.kind != kind or not np.isfinite(array).all():
                raise ValueError(f"{name} holds values that are not valid numbers")
        return self


def _symmetric(name: str) -> bool:
    return name in ("H", "G") or name.endswith(("_gram", "_pending"))


def _whole(triangle: Array, size: int) -> Array:
    """Return symmetric matrices given their upper triangles."""
    if triangle.shape[-1:] != (size * (size + 1) // 2,):  # check before allocating memory
        raise ValueError(f"a triangle of {size} rows has shape {triangle.shape}")
    upper = np.triu_indices(size)
    whole = np.zeros((*triangle.shape[:-1], size, size))
    whole[..., upper[0], upper[1]] = triangle
    whole[..., upper[1], upper[0]] = triangle
    return whole


def _refuse_infinite(values: Array, columns: Any = None) -> None:
    # If the sum is finite, all values are finite; summing is faster than testing every value.
    if not np.isfinite(values.sum()) and not np.isfinite(values).all():
        place = np.flatnonzero(~np.isfinite(values))[0]
        column = place % values.shape[1] if columns is None else columns[place]
        what = f"X contains NaN or infinity in column {column}."
        raise ValueError(f"{what} Impute or drop such values.")


def moved(gram: Array, shift: Array) -> Array:
    """Return the Gram matrix after ``shift`` is added to each row, with a column of ones."""
    result = gram.copy()
    cross = np.outer(shift, gram[-1, :-1])
    result[:-1, :-1] += cross + cross.T + gram[-1, -1] * np.outer(shift, shift)
    result[-1, :-1] += gram[-1, -1] * shift
    result[:-1, -1] = result[-1, :-1]
    return result
