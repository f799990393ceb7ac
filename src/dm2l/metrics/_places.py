"""Who stands in the first ``k`` places of each row, and the truth about them."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.arrays import to_numpy
from dm2l.labels._matrix import stored_labels
from dm2l.labels._sparse import StoredLabels
from dm2l.metrics._units import Missing, check_missing, signs_and_scores

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Places:
    """The first ``k`` judged labels of each row, best first, and the truth about them.

    Unjudged labels take no place. A row with fewer than ``k`` judged labels in reach has signs of
    0 at the end.
    """

    labels: NDArray[np.intp]
    signs: NDArray[np.int8]
    truth: StoredLabels

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


def find_places(
    Y: Any,
    scores: Any,
    k: int,
    missing: Missing,
    label_mask: Any,
    missing_label: Any,
    missing_as: Any,
) -> Places:
    """The first ``k`` places by all scores, or by a list of the best labels."""
    check_k(k)
    if not isinstance(scores, tuple):
        T, S = signs_and_scores(Y, scores, missing, label_mask, missing_label, missing_as)
        order = np.argsort(np.where(T != 0, -S, np.inf), axis=1, kind="stable")[:, :k]
        truth = StoredLabels(sp.csr_array(T.astype(np.float64)), "missing", dense=True)
        return Places(order, np.take_along_axis(T, order, axis=1), truth)
    check_missing(missing)
    if missing_as == "unlabelled":
        raise ValueError(
            "missing_as='unlabelled' is a way to learn; a metric has to count absence as "
            "'missing' or as 'negative'."
        )
    truth = stored_labels(
        Y,
        label_mask=label_mask,
        missing_label=missing_label,
        missing_as=missing_as,
        allow_empty=True,
    )
    n, c = truth.signed.shape
    if missing == "error" and truth.absent == "missing" and truth.signed.nnz < n * c:
        raise ValueError(
            f"Y has {n * c - truth.signed.nnz} missing entries, and missing='error' allows none."
        )
    labels = _check_list(scores, truth.signed.shape, k)
    signs = truth.at(labels)
    # A stable sort by "not judged" moves the judged ones up and keeps their order.
    order = np.argsort(signs == 0, axis=1, kind="stable")[:, :k]
    return Places(
        np.take_along_axis(labels, order, axis=1), np.take_along_axis(signs, order, axis=1), truth
    )


def _check_list(scores: tuple[Any, ...], shape: tuple[int, int], k: int) -> NDArray[np.intp]:
    if len(scores) != 2:
        raise ValueError(
            f"A list of the best labels is a pair (indices, scores), got {len(scores)} parts."
        )
    labels, values = (np.asarray(to_numpy(part)) for part in scores)
    n, c = shape
    if labels.ndim != 2 or len(labels) != n or labels.shape != values.shape:
        raise ValueError(
            f"indices and scores of a list must both have shape ({n}, at least {k}), got "
            f"{labels.shape} and {values.shape}."
        )
    if labels.shape[1] < min(k, c):
        raise ValueError(f"k={k}, but the list has {labels.shape[1]} labels per row.")
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
