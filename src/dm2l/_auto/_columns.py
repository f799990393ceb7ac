"""The columns of a data frame or matrix as numbers: categories become codes, NaN stays."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.unsuitable import explain_unsuitable

# Values of a category that get a code of their own; rarer ones count as unknown.
MOST_VALUES = 200
# Larger integers are no float64: they are categories by their digits.
MOST = 10**308


@dataclass(frozen=True)
class CategoryEncoder:
    """Codes of the categories in each column."""

    # For each column None if it holds numbers, else its values: code j stands for value j, NaN for
    # a missing value or one that was not seen.
    categories: list[list[Any] | None]

    @classmethod
    def of(cls, X: Any, chosen: Any = None) -> Self:
        """Learn from a data frame or a matrix; ``chosen`` columns are categories."""
        frame = hasattr(X, "iloc")
        names = list(X.columns) if frame else list(range(X.shape[1]))
        wanted = _places(chosen, names)
        found: list[list[Any] | None] = []
        for j, name in enumerate(names):
            column = X.iloc[:, j] if frame else None
            if column is None and j not in wanted:
                found.append(None)
            elif column is None:
                found.append(_values(_counts(X[:, j])))
            elif j in wanted or not _is_numeric(column, name):
                counts = _counts(_plain(column))
                if j not in wanted:
                    _warn_of_texts(counts, name)
                found.append(_values(counts))
            else:
                found.append(None)
        return cls(found)

    def encode(self, X: Any) -> Any:
        """The same columns as float64, or CSR as it is."""
        if sp.issparse(X):
            return X
        frame = hasattr(X, "iloc")
        if not frame and not any(values is not None for values in self.categories):
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


def _warn_of_texts(counts: dict[Any, int], name: Any) -> None:
    """Warn about a column of text with too many values for a category."""
    rows = sum(counts.values())
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


def _plain(column: Any) -> NDArray[Any]:
    """Values as objects, None where missing."""
    values = column.to_numpy(dtype=object)
    result: NDArray[Any] = values.copy()
    result[column.isna().to_numpy()] = None
    return result


def _key(value: Any) -> Any:
    """A value as JSON stores it, so that a model file keeps it."""
    if value is None or (isinstance(value, (float, np.floating)) and np.isnan(value)):
        return None
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (float, np.number)) or (isinstance(value, int) and abs(value) < MOST):
        return float(value)
    return str(value)


def _counts(column: NDArray[Any]) -> dict[Any, int]:
    """Number of rows of each value, in order of appearance."""
    counts: dict[Any, int] = {}
    for value in column:
        key = _key(value)
        if key is not None:
            counts[key] = counts.get(key, 0) + 1
    return counts


def _values(counts: dict[Any, int]) -> list[Any]:
    """The values of a category: the most frequent ones."""
    often = sorted(counts, key=lambda key: (-counts[key], str(key)))[:MOST_VALUES]
    return sorted(often, key=lambda key: (str(type(key)), key))
