"""Encoding of columns as numbers, and as features of linear and kernel models."""

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.inputs import explain_unsuitable

Floats = NDArray[np.float64]

# Maximum number of values of a categorical column; rarer values count as unknown.
MOST_VALUES = 200
# Columns with larger integers become categories, because float64 cannot represent them.
MOST = 10**308
# Values are clipped at this many standard deviations, so that one misplaced decimal point does not
# dominate the distances of a row.
FARTHEST = 10.0
# Data count as binary if at least this share of the columns contains only 0 and 1.
MOSTLY = 0.9
# With at least this number of dense columns beside sparse bits, trees use only dense columns.
MANY = 20


@dataclass(frozen=True)
class CategoryEncoder:
    """Encoder of categorical columns as integer codes."""

    # For each column, None if it is numeric, otherwise its values: code j means value j, and NaN
    # means a missing or unknown value.
    categories: list[list[Any] | None]

    @classmethod
    def of(cls, X: Any, chosen: Any = None) -> Self:
        """Learn the categories of text columns and of the ``chosen`` columns."""
        frame = hasattr(X, "iloc")
        names = list(X.columns) if frame else list(range(X.shape[1]))
        wanted = _places(chosen, names)
        found: list[list[Any] | None] = [None] * len(names)
        for j, name in enumerate(names):
            if j in wanted or (frame and not _is_numeric(X.iloc[:, j], name)):
                values = _plain(X.iloc[:, j]) if frame else X[:, j]
                counts = Counter(key for value in values if (key := _key(value)) is not None)
                rows = counts.total()
                if j not in wanted and len(counts) > max(MOST_VALUES, rows // 2):
                    first = str(next(iter(counts)))[:40]
                    warnings.warn(
                        f"Column {name!r} of X is read as a category, but has {len(counts)} "
                        f"different values in {rows} rows, for example {first!r}. Drop the column, "
                        "or, if it holds texts or dates, use "
                        "dm2l.tables.make_table_pipeline(X, AutoClassifier()).",
                        UserWarning,
                        stacklevel=3,
                    )
                often = sorted(counts, key=lambda key: (-counts[key], str(key)))[:MOST_VALUES]
                found[j] = sorted(often, key=lambda key: (str(type(key)), key))
        return cls(found)

    def encode(self, X: Any) -> Any:
        """Encode the columns as float64; a sparse matrix is returned unchanged."""
        if sp.issparse(X):
            return X
        frame = hasattr(X, "iloc")
        if not frame and all(values is None for values in self.categories):
            return X
        result = np.empty(X.shape, dtype=np.float64)
        for j, values in enumerate(self.categories):
            column = X.iloc[:, j] if frame else X[:, j]
            if values is None:
                with explain_unsuitable(X.iloc[:, [j]] if frame else X, nan_allowed=True):
                    numbers = column.to_numpy(np.float64, na_value=np.nan) if frame else column
                    result[:, j] = numbers
            else:
                codes = {value: code for code, value in enumerate(values)}
                plain = _plain(column) if frame else column
                result[:, j] = [codes.get(_key(value), np.nan) for value in plain]
        return result


def _places(chosen: Any, names: list[Any]) -> set[int]:
    if chosen is None:
        return set()
    chosen = np.asarray(chosen)
    if chosen.dtype == bool:
        if chosen.shape != (len(names),):
            raise ValueError(
                f"categorical_features is a boolean mask of shape {chosen.shape}, but must have "
                f"shape ({len(names)},): one value per column of X."
            )
        return set(np.flatnonzero(chosen).tolist())
    places = {name: j for j, name in enumerate(names)} | dict(enumerate(range(len(names))))
    missing = [value for value in chosen.tolist() if value not in places]
    if missing:
        what = f"categorical_features contains {missing[0]!r}, which is not a column of X."
        raise ValueError(f"{what} Pass names or positions of columns.")
    return {places[value] for value in chosen.tolist()}


def _is_numeric(column: Any, name: Any) -> bool:
    kind = getattr(column.dtype, "kind", "O")
    if kind in "mMc":
        raise ValueError(
            f"Column {name!r} of X has the type {column.dtype}, which is not supported. Drop the "
            "column, or convert it to numbers, for example dates to years or to numbers of days."
        )
    return kind in "biuf"


def _plain(column: Any) -> list[Any]:
    """Return the values of a column as objects, with None for missing values."""
    return list(column.astype(object).where(column.notna(), None))


def _key(value: Any) -> Any:
    """Convert a value to a type that JSON can store, because model files contain JSON."""
    if value is None or (isinstance(value, (float, np.floating)) and np.isnan(value)):
        return None
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (float, np.number)) or (isinstance(value, int) and abs(value) < MOST):
        return float(value)
    return str(value)


def without_far_values(X: Any) -> Any:
    """Clip ``X`` at ten robust standard deviations from the median of each column."""
    # The largest of several estimates is used, so that long tails and rare values are kept.
    # Quantiles are rounded inwards and exclude at least one row at each end.
    median, spread = np.median(X, axis=0), np.zeros(X.shape[1:])
    for percent, deviations in ((25, 1.349), (5, 3.290), (1, 4.653)):
        high = np.percentile(X, 100 - percent, axis=0, method="lower")
        low = np.percentile(X, percent, axis=0, method="higher")
        spread = np.maximum(spread, (high - low) / deviations)
    reach = np.where(spread > 0, FARTHEST * spread, np.inf)
    return np.clip(X, median - reach, median + reach)


@dataclass(frozen=True)
class FeatureEncoder:
    """Encoder of columns as standardized numbers, missing-value indicators and categories."""

    # Columns of 0 and 1 are not scaled: with unit variance a rare 1 would outweigh all others
    # (benchmarks/study.py, Tox21). Sparse columns stay sparse: if their largest value is large,
    # they are divided by it; small values such as TF-IDF are not changed.

    median: Floats  # replaces missing values
    centre: Floats
    scale: Floats
    gaps: NDArray[np.intp]  # columns with a missing-value indicator
    levels: NDArray[np.intp]  # number of categories of each column, 0 for numbers
    bits: bool  # whether nearly all columns contain only 0 and 1
    # Positions of dense columns in a sparse matrix of bits, such as descriptors with fingerprints.
    numbers: NDArray[np.intp] | None = None

    @classmethod
    def of(cls, X: Any, levels: NDArray[np.intp]) -> Self:
        """Learn imputed values, scales and categories from encoded columns."""
        d = X.shape[1]
        zero, one = np.zeros(d), np.ones(d)
        if sp.issparse(X):
            zero, one = zero.astype(np.float32), one.astype(np.float32)  # files contain both
            X = sp.csc_array(X)
            whole = (X.data == 0) | (X.data == 1)
            odd = np.zeros(d, dtype=bool)
            odd[np.repeat(np.arange(d), np.diff(X.indptr))[~whole]] = True
            largest = np.ravel(abs(X).max(axis=0).toarray())
            scale = np.where(odd & (largest > FARTHEST), largest, one)
            dense = odd & (np.diff(X.indptr) > 0.5 * X.shape[0]) & (np.mean(~odd) > 0.5)
            bits = bool(np.mean(~odd | dense) >= MOSTLY)
            numbers = np.flatnonzero(dense) if bits and dense.sum() >= MANY else None
            return cls(zero, zero, scale, np.arange(0), levels, bits, numbers)
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
                whole = without_far_values(np.where(missing[:, j], median[j], X[:, j]))
                centre[j], spread = whole.mean(), whole.std()
                scale[j] = spread if spread > 0 else 1.0
        gaps = np.flatnonzero(numbers & missing.any(axis=0))
        return cls(median, centre, scale, gaps, levels, bool(bit.sum() >= MOSTLY * d))

    def transform(self, X: Any) -> Any:
        """Return the features of rows as dense float64, or as CSR for a sparse ``X``."""
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
        columns = np.clip(columns, -FARTHEST, FARTHEST)
        blocks = [columns, missing[:, self.gaps].astype(np.float64)]
        blocks += [
            (X[:, [j]] == np.arange(self.levels[j])).astype(np.float64)
            for j in np.flatnonzero(~numbers)
        ]
        return np.hstack(blocks)

    def sources(self) -> NDArray[np.intp]:
        """Return for each feature the index of the column that it is computed from."""
        numbers = self.levels == 0
        columns = [np.flatnonzero(numbers), self.gaps]
        columns += [np.full(self.levels[j], j) for j in np.flatnonzero(~numbers)]
        return np.concatenate(columns)
