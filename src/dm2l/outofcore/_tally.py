"""Counts and the Gram matrix of all rows: what a stream is like before any label is looked at."""

from __future__ import annotations

import warnings
from copy import deepcopy
from functools import partial
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.arrays import scale_rows
from dm2l._utils.threads import blas_thread_count, run_all
from dm2l.labels._entries import Signs
from dm2l.outofcore._grams import Array, Cover, square
from dm2l.outofcore._sample import MOST, RowSample

# Rows that are prepared together, so that they stay in the cache.
CHUNK = 1024
# Share of a sum of squares that rounding may have taken before it is worth a word.
ROUNDING = 1e-6
_NOTHING = 0.1  # the share from which on no fit makes sense
_EPS = float(np.finfo(np.float64).eps)


class RoundingWarning(UserWarning):
    """Rows that were taken away left few digits of the others, or were not quite those seen.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from dm2l.outofcore import RoundingWarning
    >>> from dm2l.outofcore._tally import Tally
    >>> T = np.array([[1], [-1]], dtype=np.int8)
    >>> huge = Tally(1, 1).add(np.array([[1e6], [-1e6]]), T)
    >>> both = huge + Tally(1, 1).add(np.array([[1.0], [-1.0]]), T)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     left = both - huge
    >>> [warning.category is RoundingWarning for warning in caught]
    [True]
    """


class Tally:
    """How often each label was seen, and the Gram matrix of the rows.

    Features are held less ``offset``, the means of the first dense block, and with a column of
    ones: Gram matrices of columns far from zero would lose digits, and with the ones they can be
    moved to any other offset.

    Attributes
    ----------
    positives, negatives : ndarray of shape (n_labels,), int64
        Entries observed so far, without weights.
    weights : ndarray of shape (2, n_labels)
        What they weigh, forgetting aside.
    sample : RowSample
        Rows that were kept.
    offset : ndarray of shape (n_features,)
        What is subtracted from the rows.
    peaks : ndarray of shape (n_features + 1,)
        The largest sum of squares that each column has had: what rounding is measured by.
    """

    def __init__(self, n_features: int, n_labels: int, sample: int = MOST) -> None:
        self.n_features = int(n_features)
        self.n_labels = int(n_labels)
        self.sample = RowSample(sample)
        self.positives = np.zeros(self.n_labels, dtype=np.int64)
        self.negatives = np.zeros(self.n_labels, dtype=np.int64)
        self.weights: Array = np.zeros((2, self.n_labels))
        self.offset: Array = np.zeros(self.n_features)
        self._begun = False
        self.rows = Cover(self.n_features + 1, self.n_labels)
        self.peaks: Array = np.zeros(self.n_features + 1)
        self._room = np.empty((0, 0))  # for the features of a block

    # -- gathering ------------------------------------------------------------------------------

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
        if learnable is not None:
            T = T * learnable
        seen = np.flatnonzero((T != 0).any(axis=1))
        if not len(seen):
            return self
        Phi = self._features(X, seen)
        T = T if len(seen) == len(T) else T[seen]
        counts = np.stack([(T > 0).sum(axis=0), (T < 0).sum(axis=0)])
        self.positives += counts[0]
        self.negatives += counts[1]
        if weights is not None:
            # Gram matrices of rows times the roots of their weights: all sums are then weighted.
            Phi = scale_rows(Phi, np.sqrt(weights[seen]))
            counts = np.stack([weights[seen] @ (T > 0), weights[seen] @ (T < 0)])
        self.weights += counts
        learnable = self.learnable if learnable is None else learnable
        total = self._add_labels(Phi, T, learnable)
        self.rows.add(Phi, T != 0, learnable, total)
        self._note_peaks()
        return self

    def _add_labels(self, Phi: Any, T: Signs, learnable: NDArray[np.bool_]) -> Array:
        """Add what belongs to single labels; returns ``Phi'Phi``."""
        return square(Phi)

    def _check(self, X: Any, T: Any) -> tuple[Any, Signs]:
        X = X.tocsr() if sp.issparse(X) else np.asarray(X)
        T = np.asarray(T)
        expected = (X.shape[0], self.n_labels)
        if X.ndim != 2 or X.shape[1] != self.n_features or T.shape != expected:
            raise ValueError(
                f"X has shape {X.shape} and T {T.shape}; these statistics are of "
                f"{self.n_features} features and {self.n_labels} labels."
            )
        if T.dtype != np.int8 or (len(T) and (T.min() < -1 or T.max() > 1)):
            raise ValueError(
                "T holds signs: int8 of -1, 0 (missing) and +1. dm2l.labels.signs makes them from "
                "labels of any form."
            )
        return X, T

    def _features(self, X: Any, rows: NDArray[np.intp]) -> Any:
        """Some rows less the offset, with a column of ones, in float64."""
        if sp.issparse(X):
            X = X[rows].astype(np.float64)
            _refuse_infinite(X.data)
            if not self.offset.any():
                self._begun = True
                ones = sp.csr_array(np.ones((X.shape[0], 1)))
                return sp.csr_array(sp.hstack([X, ones], format="csr"))
            X, rows = X.toarray(), np.arange(len(rows))  # a block among dense ones
        offset = self.offset
        if not self._begun:
            offset = np.asarray(np.mean(X[rows], axis=0, dtype=np.float64))
        n = len(rows)
        if n > len(self._room):  # kept: to get such memory anew costs as much as to fill it
            self._room = np.empty((n, self.n_features + 1))
        Phi = self._room[:n]

        def fill(start: int) -> None:
            part = slice(start, min(n, start + CHUNK))
            np.subtract(np.take(X, rows[part], axis=0), offset, out=Phi[part, :-1])
            Phi[part, -1] = 1.0
            _refuse_infinite(Phi[part])

        run_all([partial(fill, start) for start in range(0, n, CHUNK)], self._workers)
        self.offset, self._begun = offset, True
        return Phi

    @property
    def _workers(self) -> int:
        return blas_thread_count()

    # -- arithmetic -----------------------------------------------------------------------------

    def copy(self) -> Self:
        """An independent copy."""
        return deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_room": np.empty((0, 0))}

    def scale(self, forgetting: float) -> Self:
        """Let everything so far count ``forgetting`` times as much: for streams that drift.

        Rows then weigh so much in the loss; the norms of their scores shrink by its root.
        """
        if not isinstance(forgetting, Real) or not 0 < float(forgetting) <= 1:
            raise ValueError(f"forgetting must be a number > 0 and <= 1, got {forgetting!r}.")
        for gram in self._grams():
            gram *= float(forgetting)
        self.sample.scale(float(forgetting))
        return self

    def __iadd__(self, other: Self) -> Self:
        return self._combine(other, 1)

    def __isub__(self, other: Self) -> Self:
        return self._combine(other, -1)

    def __add__(self, other: Self) -> Self:
        return self.copy()._combine(other, 1)

    def __sub__(self, other: Self) -> Self:
        return self.copy()._combine(other, -1)

    def _combine(self, other: Self, sign: int) -> Self:
        if type(other) is not type(self):
            raise TypeError(f"Only {type(self).__name__} can be added, got {type(other).__name__}.")
        shapes = [(part.n_features, part.n_labels) for part in (self, other)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"Statistics of {shapes[0][0]} features and {shapes[0][1]} labels cannot be "
                f"combined with those of {shapes[1][0]} and {shapes[1][1]}."
            )
        if sign < 0:
            self._check_part(other)
        if not self._begun:
            self.offset, self._begun = other.offset.copy(), other._begun
        elif other._begun and not np.array_equal(self.offset, other.offset):
            other = other.copy()
            other.move(self.offset)
        if sign < 0:
            self._check_squares(other)
        self.positives += sign * other.positives
        self.negatives += sign * other.negatives
        self.weights += sign * other.weights
        self._combine_grams(other, sign)
        if not self.sample.combine(other.sample, sign):
            warnings.warn(
                "Rows that were taken away are, bit by bit, not among those seen, so that the "
                "sample kept for coupling may hold them in another form. It is given up: complete "
                "goes by features until statistics are gathered anew.",
                RoundingWarning,
                stacklevel=3,
            )
        self.peaks = np.maximum(self.peaks, other.peaks)
        self._note_peaks()
        if sign < 0 and self.rounding > ROUNDING:
            warnings.warn(
                f"Rows that were taken away were so large beside the others that rounding has "
                f"changed these by up to {self.rounding:.1g} of their squares. Gather statistics "
                "anew from the rows that are left.",
                RoundingWarning,
                stacklevel=3,
            )
        return self

    def _note_peaks(self) -> None:
        self.peaks = np.maximum(self.peaks, self._squares())

    def _squares(self) -> Array:
        """Sums of squares of the columns, over all rows."""
        return np.asarray(sum(np.diagonal(gram) for gram in self.rows.each()))

    def _check_squares(self, other: Self) -> None:
        """Refuse rows whose squares are more than there are: they cannot have been added."""
        excess = other._squares() - self._squares()
        # Far more than rounding makes, so that rows that were added are never refused.
        if (excess > 1e-9 * self.peaks).any():
            column = int(np.argmax(excess - 1e-9 * self.peaks))
            name = "the number of rows" if column == self.n_features else f"feature {column}"
            raise ValueError(
                f"The sum of squares of {name} would be negative: the block is not part of these "
                "statistics."
            )
        if _rounding(-excess, self.peaks) > _NOTHING:
            raise ValueError(
                "These rows are so large that without them nothing but rounding would be left. "
                "Gather statistics anew from the other rows."
            )

    def _combine_grams(self, other: Self, sign: int) -> None:
        self.rows.combine(other.rows, sign, self.learnable)

    def _check_part(self, other: Self) -> None:
        for name in ("positives", "negatives"):
            excess = getattr(other, name) - getattr(self, name)
            if (excess > 0).any():
                label = int(np.argmax(excess))
                raise ValueError(
                    f"{getattr(other, name)[label]} {name} of label {label} cannot be taken away "
                    f"from {getattr(self, name)[label]}: the block is not part of these statistics."
                )

    def move(self, offset: Array) -> None:
        """Change what was subtracted from the rows."""
        shift = self.offset - offset
        for grams in self._grams():
            for gram in grams if grams.ndim == 3 else grams[None]:  # one copy at a time
                gram[...] = moved(gram, shift)
        self.offset = np.array(offset, dtype=np.float64)
        self._note_peaks()

    def _grams(self) -> list[Array]:
        """Every Gram matrix, or stack of them."""
        return self.rows.each()

    # -- what they say --------------------------------------------------------------------------

    @property
    def learnable(self) -> NDArray[np.bool_]:
        """Labels of which both classes were observed."""
        return np.asarray((self.positives > 0) & (self.negatives > 0))

    @property
    def seen(self) -> Signs:
        """Two rows of signs that show of every label the classes that were observed."""
        return np.array([self.positives > 0, -1 * (self.negatives > 0)], dtype=np.int8)

    @property
    def overcounted(self) -> bool:
        """Whether rows were counted in of which no label can be learnt: too many kinds waited."""
        return bool((self.rows.counted & ~self.learnable).any())

    @property
    def rounding(self) -> float:
        """Bound on what rounding has cost: the largest share of a column's sum of squares.

        Beside the sum itself stands what a ridge of the usual size adds, so that a column of
        which nothing is left is no loss.
        """
        return _rounding(self._squares(), self.peaks)

    @property
    def weight(self) -> float:
        """Number of rows, or what they weigh."""
        return float(self.rows.gram[-1, -1])

    def means(self) -> Array:
        """Means of the features."""
        return np.asarray(self.offset + self.rows.gram[-1, :-1] / self.weight)

    def variances(self) -> Array:
        """Variances of the features."""
        apart = self.rows.gram[-1, :-1] / self.weight
        squares = np.diagonal(self.rows.gram)[:-1] / self.weight
        return np.maximum(squares - apart**2, 0.0)


def _rounding(squares: Array, peaks: Array) -> float:
    """Share of sums of squares that rounding may have taken; the last is the number of rows."""
    left = np.maximum(squares[:-1], 0.0)
    usual = left.sum() / max(float(squares[-1]), 1.0)
    lost = _EPS * peaks[:-1]
    # One row may lie where the offset is, and has no squares then; so have rows of zeros.
    if squares[-1] < 1.5 or not lost.any():
        return 0.0
    return float((lost / (left + usual)).max()) if usual > 0 else np.inf


def _refuse_infinite(X: Array) -> None:
    # The sum tells whether to look closer, which takes longer.
    if not np.isfinite(X.sum()) and not np.isfinite(X).all():
        raise ValueError("X contains NaN or infinity; impute or drop such values.")


def moved(gram: Array, shift: Array) -> Array:
    """Gram matrix (with a border of ones) of rows that have moved by ``shift``."""
    result = gram.copy()
    cross = np.outer(shift, gram[-1, :-1])
    result[:-1, :-1] += cross + cross.T + gram[-1, -1] * np.outer(shift, shift)
    result[-1, :-1] += gram[-1, -1] * shift
    result[:-1, -1] = result[-1, :-1]
    return result
