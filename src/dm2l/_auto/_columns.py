"""Columns of a data frame or matrix as numbers, and as features of linear and kernel models."""

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.inputs import explain_unsuitable

Floats = NDArray[np.float64]

# Values of a category that get a code of their own; rarer ones count as unknown.
MOST_VALUES = 200
# Larger integers are no float64: they are categories by their digits.
MOST = 10**308
# Standard deviations at which values are clipped: one slip of a decimal point must not decide the
# distances of a row.
FARTHEST = 10.0
# Share of columns that hold nothing but 0 and 1 in data that count as binary.
MOSTLY = 0.9


@dataclass(frozen=True)
class CategoryEncoder:
    """Codes of the categories in each column; NaN stays."""

    # For each column None if it holds numbers, else its values: code j stands for value j, NaN for
    # a missing value or one that was not seen.
    categories: list[list[Any] | None]

    @classmethod
    def of(cls, X: Any, chosen: Any = None) -> Self:
        """Learn from a data frame or a matrix; ``chosen`` columns are categories."""
        frame = hasattr(X, "iloc")
        names = list(X.columns) if frame else list(range(X.shape[1]))
        wanted = _places(chosen, names)
        found: list[list[Any] | None] = [None] * len(names)
        for j, name in enumerate(names):
            if j in wanted or (frame and not _is_numeric(X.iloc[:, j], name)):
                values = _plain(X.iloc[:, j]) if frame else X[:, j]
                counts = Counter(key for value in values if (key := _key(value)) is not None)
                if j not in wanted:
                    _warn_of_texts(counts, name)
                often = sorted(counts, key=lambda key: (-counts[key], str(key)))[:MOST_VALUES]
                found[j] = sorted(often, key=lambda key: (str(type(key)), key))
        return cls(found)

    def encode(self, X: Any) -> Any:
        """The same columns as float64, or CSR as it is."""
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
                    result[:, j] = (
                        column.to_numpy(dtype=np.float64, na_value=np.nan) if frame else column
                    )
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
                f"categorical_features has shape {chosen.shape}; X has {len(names)} columns."
            )
        return set(np.flatnonzero(chosen).tolist())
    places = {name: j for j, name in enumerate(names)} | dict(enumerate(range(len(names))))
    missing = [value for value in chosen.tolist() if value not in places]
    if missing:
        raise ValueError(f"categorical_features names {missing[0]!r}, which X does not have.")
    return {places[value] for value in chosen.tolist()}


def _is_numeric(column: Any, name: Any) -> bool:
    kind = getattr(column.dtype, "kind", "O")
    if kind in "biuf":
        return True
    if kind in "mMc":
        raise ValueError(
            f"Column {name!r} of X holds {column.dtype}; turn it into numbers (year, weekday, days "
            "since) or leave it out."
        )
    return False


def _warn_of_texts(counts: Counter[Any], name: Any) -> None:
    """Warn about a column of text with too many values for a category."""
    rows = counts.total()
    if len(counts) > max(MOST_VALUES, rows // 2):
        first = str(next(iter(counts)))[:40]
        warnings.warn(
            f"Column {name!r} of X has {len(counts)} different values in {rows} rows, for "
            f"example {first!r}, and is read as a category. For texts, dates and "
            "numbers that are spelt in words, use dm2l.tables.make_table_pipeline(X, "
            "AutoClassifier()), or leave the column out.",
            UserWarning,
            stacklevel=4,
        )


def _plain(column: Any) -> list[Any]:
    """Values as objects, None where missing."""
    return list(column.astype(object).where(column.notna(), None))


def _key(value: Any) -> Any:
    """A value as JSON stores it, so that a model file keeps it."""
    if value is None or (isinstance(value, (float, np.floating)) and np.isnan(value)):
        return None
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (float, np.number)) or (isinstance(value, int) and abs(value) < MOST):
        return float(value)
    return str(value)


@dataclass(frozen=True)
class FeatureEncoder:
    """Imputed and standardised numbers, missing-value indicators, one column for a category."""

    # Columns of 0 and 1 stay as they are: with unit variance a rare bit would outweigh all others
    # (benchmarks/study.py, Tox21). Columns of a sparse matrix are divided by their largest value,
    # so that they stay sparse.

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
            whole = (X.data == 0) | (X.data == 1)
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
        return cls(median, centre, scale, gaps, levels, bool(bit.sum() >= MOSTLY * d))

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
