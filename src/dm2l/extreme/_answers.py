"""Predictions for very many labels: the best of each row, and imputed labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l.labels._entries import checked_weights
from dm2l.labels._sparse import SparseLabelMatrix

# Share of the memory limit that blocks of temporaries may take.
SHARE = 1 / 4


class TopK(NamedTuple):
    """The best labels of each row, best first; metrics at ``k`` take it as scores."""

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


def fill_positives(labels: SparseLabelMatrix, predicted: Any) -> Any:
    """Observed positives, and predicted ones of missing entries, as 1 in CSR."""
    positive = sp.csr_array((labels.signed > 0).astype(np.int64))
    if labels.missing_as == "negative":  # nothing is missing
        return positive
    taken = predicted.multiply((labels.signed != 0).astype(np.int64))
    filled = sp.csr_array(predicted - taken + positive)
    filled.eliminate_zeros()
    return filled


def fill_values(
    labels: SparseLabelMatrix, values: NDArray[np.float64], negative: float
) -> NDArray[np.float64]:
    """Dense values, with 1 and ``negative`` at observed entries."""
    signed = labels.signed
    if labels.missing_as == "negative":
        values = np.full(values.shape, negative)
    rows = np.repeat(np.arange(signed.shape[0]), np.diff(signed.indptr))
    values[rows, signed.indices] = np.where(signed.data > 0, 1.0, negative)
    return values


def observed_accuracy(labels: SparseLabelMatrix, predicted: Any, sample_weight: Any) -> float:
    """Share of the observed entries that sparse predictions have right."""
    n = labels.signed.shape[0]
    observed, weights = labels.n_observed(), np.ones(n)
    if not observed.any():
        raise ValueError("Y has nothing observed, so there is nothing to score against.")
    if sample_weight is not None:
        weights = checked_weights("sample_weight", sample_weight, (n,))
    total = weights @ observed
    if not total:
        raise ValueError("Weights are zero wherever something was observed.")
    positive = sp.csr_array((labels.signed > 0).astype(np.int64))
    if labels.missing_as == "missing":
        predicted = predicted.multiply((labels.signed != 0).astype(np.int64))
    both = predicted.multiply(positive)
    wrong = positive.sum(axis=1) + predicted.sum(axis=1) - 2 * both.sum(axis=1)
    return float(1.0 - weights @ wrong / total)


def block_length(max_memory: float, width: int, most: int) -> int:
    """Rows of a temporary with ``width`` numbers each that fit in its share of the limit."""
    return int(min(most, max(1, SHARE * max_memory / (8 * max(width, 1)))))
