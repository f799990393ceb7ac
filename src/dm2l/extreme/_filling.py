"""Sparse labels with their holes filled."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l.labels import StoredLabels


def fill_positives(labels: StoredLabels, predicted: Any) -> Any:
    """Observed positives, and predicted ones where nothing was observed; the latter 1 in CSR."""
    positive = sp.csr_array((labels.signed > 0).astype(np.int64))
    if labels.absent == "negative":  # there are no holes
        return positive
    taken = predicted.multiply((labels.signed != 0).astype(np.int64))
    filled = sp.csr_array(predicted - taken + positive)
    filled.eliminate_zeros()
    return filled


def fill_values(
    labels: StoredLabels, values: NDArray[np.float64], negative: float
) -> NDArray[np.float64]:
    """Dense values, with 1 and ``negative`` where something was observed."""
    signed = labels.signed
    if labels.absent == "negative":
        values = np.full(values.shape, negative)
    rows = np.repeat(np.arange(signed.shape[0]), np.diff(signed.indptr))
    values[rows, signed.indices] = np.where(signed.data > 0, 1.0, negative)
    return values
