"""The first ``k`` places of each row, and their labels."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.arrays import to_numpy
from dm2l.labels._matrix import parse_sparse_labels
from dm2l.labels._sparse import SparseLabelMatrix
from dm2l.metrics._reading import Given, checked_rows, given_rows, signs_and_scores

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Places:
    """The first ``k`` observed labels of each row, best first, and their signs.

    A row with fewer than ``k`` observed labels has signs of 0 at the end.
    """

    labels: NDArray[np.intp]
    signs: NDArray[np.int8]
    truth: SparseLabelMatrix
    weights: Array | None

    @property
    def hits(self) -> NDArray[np.bool_]:
        return self.signs > 0

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Whether each row is known completely."""
        return np.asarray(self.truth.n_observed() == self.truth.signed.shape[1])

    @property
    def count(self) -> NDArray[np.int64]:
        return np.count_nonzero(self.signs, axis=1)

    def best(self, gains: Array, discounts: Array) -> Array:
        """Most that ``k`` places can hold, each place worth its discount, in each row."""
        stored = self.truth.signed
        positive = stored.data > 0
        rows = np.repeat(np.arange(stored.shape[0]), np.diff(stored.indptr))[positive]
        values = gains[stored.indices[positive]]
        order = np.lexsort((-values, rows))
        rows, values = rows[order], values[order]
        counts = np.bincount(rows, minlength=stored.shape[0])
        place = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        inside = place < len(discounts)
        weights = values[inside] * discounts[place[inside]]
        found = np.bincount(rows[inside], weights=weights, minlength=stored.shape[0])
        return found.astype(np.float64)  # without a positive the counts are integers


def check_k(k: int) -> None:
    """Refuse a number of places that is none."""
    if not isinstance(k, Integral) or k < 1:
        raise ValueError(f"k must be an integer of at least 1, got {k!r}.")


class Listed(NamedTuple):
    """A list of the best labels of each row, best first."""

    truth: SparseLabelMatrix
    labels: NDArray[np.intp]
    weights: Array | None


def read_ranking(
    y_true: Any, y_score: Any, sample_weight: Any, estimate: bool, rates: Any = None
) -> Given | Listed:
    """Labels with all scores, or with a list of the best labels."""
    if isinstance(y_true, Given):
        return y_true
    if not isinstance(y_score, tuple):
        T, S = signs_and_scores(y_true, y_score)
        given = given_rows(T, S, sample_weight, estimate, rates)
        # Without an estimate rows of weight zero stay, and count as undefined.
        alone = Given(T, S, checked_rows(sample_weight, len(T)), None)
        return alone if given.complete is None else given
    truth = parse_sparse_labels(y_true, allow_empty=True)
    if truth.missing_as == "unlabelled":
        raise ValueError(
            "missing_as='unlabelled' is a way to learn; a metric has to count an entry that is not "
            "stored as 'missing' or as 'negative'."
        )
    weights = checked_rows(sample_weight, truth.signed.shape[0])
    return Listed(truth, _check_list(y_score, truth.signed.shape), weights)


def find_places(given: Given | Listed, k: int) -> Places:
    """The first ``k`` places of each row."""
    if isinstance(given, Given):
        T, S, w, _ = given
        order = np.argsort(np.where(T != 0, -S, np.inf), axis=1, kind="stable")[:, :k]
        truth = SparseLabelMatrix(sp.csr_array(T.astype(np.float64)), "missing", dense=True)
        return Places(order, np.take_along_axis(T, order, axis=1), truth, w)
    truth, labels, w = given
    if labels.shape[1] < min(k, truth.signed.shape[1]):
        raise ValueError(f"k={k}, but the list has {labels.shape[1]} labels per row.")
    signs = truth.at(labels)
    # A stable sort by "not observed" moves the observed ones up and keeps their order.
    order = np.argsort(signs == 0, axis=1, kind="stable")[:, :k]
    first = np.take_along_axis(labels, order, axis=1)
    return Places(first, np.take_along_axis(signs, order, axis=1), truth, w)


def _check_list(scores: tuple[Any, ...], shape: tuple[int, int]) -> NDArray[np.intp]:
    if len(scores) != 2:
        raise ValueError(
            f"A list of the best labels is a pair (indices, scores), got {len(scores)} parts."
        )
    labels, values = (np.asarray(to_numpy(part)) for part in scores)
    n, c = shape
    if labels.ndim != 2 or len(labels) != n or labels.shape != values.shape:
        raise ValueError(
            f"indices and scores of a list must both have shape ({n}, at least k), got "
            f"{labels.shape} and {values.shape}."
        )
    if labels.dtype.kind not in "iu" or (labels.size and not 0 <= labels.min() <= labels.max() < c):
        raise ValueError(f"indices must be integers from 0 to {c - 1}, the columns of Y.")
    if np.isnan(values).any() or (np.diff(values, axis=1) > 0).any():
        raise ValueError("scores of a list must not increase from one place to the next.")
    ordered = np.sort(labels, axis=1)
    twice = np.argwhere(ordered[:, 1:] == ordered[:, :-1])
    if len(twice):
        row, column = twice[0]
        raise ValueError(f"The list names label {ordered[row, column]} twice in row {row}.")
    return labels.astype(np.intp)
