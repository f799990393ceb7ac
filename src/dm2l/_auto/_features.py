"""Features of the linear and kernel models: no missing values, columns on one scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Standard deviations at which values are clipped: one slip of a decimal point must not decide the
# distances of a row.
FARTHEST = 10.0
# Share of columns that hold nothing but 0 and 1 in data that count as binary.
MOSTLY = 0.9


@dataclass(frozen=True)
class FeatureEncoder:
    """Imputed and standardised numbers, missing-value indicators, one column for a category.

    Columns of 0 and 1 stay as they are: with unit variance a rare bit would outweigh all others
    (benchmarks/study.py, Tox21). Columns of a sparse matrix are divided by their largest value,
    so that they stay sparse.
    """

    median: Floats  # replaces a missing value
    centre: Floats
    scale: Floats
    gaps: NDArray[np.intp]  # columns that have an indicator
    levels: NDArray[np.intp]  # number of values of a category, 0 for numbers
    bits: bool  # whether nearly all columns hold 0 and 1 only

    @classmethod
    def of(cls, X: Any, levels: NDArray[np.intp]) -> Self:
        """Learn from rows whose categories are codes."""
        d = X.shape[1]
        zero, one = np.zeros(d), np.ones(d)
        if sp.issparse(X):
            X = sp.csc_array(X)
            whole = np.ones(X.nnz, dtype=bool) if not X.nnz else (X.data == 0) | (X.data == 1)
            odd = np.zeros(d, dtype=bool)
            odd[np.repeat(np.arange(d), np.diff(X.indptr))[~whole]] = True
            largest = np.ravel(abs(X).max(axis=0).toarray())
            scale = np.where(odd & (largest > 0), largest, 1.0)
            return cls(zero, zero, scale, np.arange(0), levels, bool(np.mean(~odd) >= MOSTLY))
        missing = np.isnan(X)
        numbers = levels == 0
        median, centre, scale = zero.copy(), zero.copy(), one
        bit = np.zeros(d, dtype=bool)
        for j in np.flatnonzero(numbers):
            column = X[~missing[:, j], j]
            if not len(column):
                continue
            median[j] = np.median(column)
            bit[j] = bool(((column == 0) | (column == 1)).all())
            if bit[j]:
                median[j] = np.round(median[j])
            else:
                whole = np.where(missing[:, j], median[j], X[:, j])
                centre[j], spread = whole.mean(), whole.std()
                scale[j] = spread if spread > 0 else 1.0
        gaps = np.flatnonzero(numbers & missing.any(axis=0))
        most = bool(bit.sum() >= MOSTLY * d)
        return cls(median, centre, scale, gaps, levels, most)

    def transform(self, X: Any) -> Any:
        """Features of rows: dense float64, or CSR for CSR."""
        if sp.issparse(X):
            if (self.scale == 1).all():
                return X
            return sp.csr_array(X @ sp.diags_array(1 / self.scale))
        numbers = self.levels == 0
        plain = numbers.all() and (self.scale == 1).all() and not self.centre.any()
        if plain and not len(self.gaps) and not np.isnan(X).any():
            return X
        missing = np.isnan(X)
        columns = np.where(missing, self.median, X)[:, numbers]
        columns = (columns - self.centre[numbers]) / self.scale[numbers]
        if not self.bits:
            columns = np.clip(columns, -FARTHEST, FARTHEST)
        blocks = [columns, missing[:, self.gaps].astype(np.float64)]
        blocks += [
            (X[:, [j]] == np.arange(self.levels[j])).astype(np.float64)
            for j in np.flatnonzero(~numbers)
        ]
        return np.hstack(blocks)

    def sources(self) -> NDArray[np.intp]:
        """The column that each feature comes from."""
        numbers = self.levels == 0
        columns = [np.flatnonzero(numbers), self.gaps]
        columns += [np.full(self.levels[j], j) for j in np.flatnonzero(~numbers)]
        return np.concatenate(columns)
