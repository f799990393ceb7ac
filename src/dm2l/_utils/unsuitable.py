"""What in the features is not a finite number: its column, its value, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set, Sized, ValuesView
from contextlib import contextmanager
from numbers import Rational
from typing import Any

import numpy as np
import scipy.sparse as sp


@contextmanager
def explain_unsuitable(X: Any, *, nan_allowed: bool = False) -> Iterator[None]:
    """Raise :func:`unsuitable` errors in place of those of numpy and scikit-learn."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        found = unsuitable(X, error, nan_allowed=nan_allowed)
        if found is None:
            raise
        for note in getattr(error, "__notes__", ()):
            found.add_note(note)
        raise found from error


def unsuitable(
    X: Any, error: Exception | None = None, *, nan_allowed: bool = False
) -> ValueError | TypeError | None:
    """The error for the first value of ``X`` that no model can use; None where there is none.

    Only what scikit-learn has refused, with ``error``, is worth the search through all values.

    Examples
    --------
    >>> from dm2l._utils.unsuitable import unsuitable
    >>> print(unsuitable([[1.0, 2.0], [float("nan"), 3.0]]))
    X is NaN in column 0, row 2. Impute missing values, for instance with
    sklearn.impute.SimpleImputer in a pipeline; dm2l.tables.make_table_pipeline, AutoClassifier and
    `dm2l fit` do so by themselves.
    """
    if sp.issparse(X):
        values = X.data if X.dtype.kind == "f" else X.data[:0]
        return _not_finite(values, "", nan_allowed=nan_allowed)
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        columns = ((repr(str(name)), X.iloc[:, j]) for j, name in enumerate(X.columns))
    else:
        found = _no_array(X)
        if found is not None:
            return found
        values = np.asarray(X)
        if values.ndim != 2:
            return None
        columns = ((str(j), values[:, j]) for j in range(values.shape[1]))
    for name, column in columns:
        found = _in_column(name, column, error, nan_allowed=nan_allowed)
        if found is not None:
            return found
    return None


def check_rows(X: Any) -> None:
    """Refuse what has no rows of the same length."""
    found = _no_array(X)
    if found is not None:
        raise found


def _no_array(X: Any) -> ValueError | TypeError | None:
    """The error for what has no rows of the same length."""
    name = type(X).__name__
    if hasattr(X, "iloc") and not hasattr(X, "columns"):
        return ValueError(
            f"X is a {name}, not a 2-dimensional container. Pass a data frame with a row for each "
            "sample, such as X.to_frame()."
        )
    if isinstance(X, (Mapping, Set, ValuesView)):
        return TypeError(
            f"X is a {name}, not a table of numbers. Pass an array or a data frame with a row for "
            "each sample, such as pandas.DataFrame(X) of a dict of columns."
        )
    if isinstance(X, Iterator):
        return TypeError(
            f"X is a {name}, which can be read only once. Pass an array or a list: list(X)."
        )
    kind = getattr(X, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind == "V":
        fields = f" with the fields {', '.join(map(repr, kind.names))}" if kind.names else ""
        return TypeError(
            f"X is an array of records{fields}. Pass a data frame, pandas.DataFrame(X), or "
            "numpy.lib.recfunctions.structured_to_unstructured(X)."
        )
    if isinstance(X, (list, tuple)) or (
        isinstance(X, np.ndarray) and X.dtype.hasobject and X.ndim == 1
    ):
        return _in_rows(X)
    return None


def _in_rows(X: Any) -> ValueError | TypeError | None:
    """The error for rows that differ in length or are not sequences of single values."""
    for i, row in enumerate(X):
        if isinstance(row, (Mapping, Set, Iterator)):
            return TypeError(
                f"Row {i + 1} of X is a {type(row).__name__}, not a list of numbers. Pass an array "
                "or a data frame, such as pandas.DataFrame(X) of a list of dicts."
            )
    lengths = [_length(row) for row in X]
    for i, length in enumerate(lengths):
        if length != lengths[0]:
            first, other = ("is no list" if n is None else f"has {n}" for n in (lengths[0], length))
            return ValueError(
                f"Rows of X differ in their number of values: row 1 {first}, row {i + 1} {other}. "
                "Each row needs one value for each feature."
            )
    if isinstance(X, np.ndarray):
        if lengths and lengths[0] is not None:
            return ValueError("X is an array of arrays. Pass one array: numpy.stack(X).")
        return None
    try:
        np.asarray(X)
    except ValueError:
        for i, row in enumerate(X):
            for j, value in enumerate(row):
                if _length(value) is not None:
                    return _no_number(str(j), i, value, "Each value must be one number.")
    return None


def _length(values: Any) -> int | None:
    """Number of values in a sequence; None for single values such as numbers and text."""
    single = isinstance(values, (str, bytes)) or getattr(values, "shape", None) == ()
    return None if single or not isinstance(values, Sized) else len(values)


def _in_column(
    name: str, column: Any, error: Exception | None, *, nan_allowed: bool
) -> ValueError | TypeError | None:
    values = np.asarray(column)
    if values.dtype.kind == "c":  # of which scikit-learn says what there is to say
        return None
    if values.dtype.kind in "mM":
        return ValueError(
            f"Column {name} of X holds dates. Turn them into numbers such as the year, the weekday "
            "or days since a day."
        )
    if values.dtype.kind not in "fiub":
        texts = [i for i, value in enumerate(values) if isinstance(value, (str, bytes))]
        if texts:
            return ValueError(
                f"Column {name} of X holds text ({str(values[texts[0]])[:40]!r} in row "
                f"{texts[0] + 1}). Encode it as numbers, for instance with "
                "sklearn.preprocessing.OneHotEncoder in a pipeline; dm2l.tables."
                "make_table_pipeline, AutoClassifier and `dm2l fit` do so by themselves."
            )
        dated = next((value for value in values if hasattr(value, "isoformat")), None)
        if dated is not None:
            dates = np.array([dated], dtype="datetime64[s]")
            return _in_column(name, dates, error, nan_allowed=nan_allowed)
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            return _in_objects(name, values, error)
    return _not_finite(values, f" in column {name}, row ", nan_allowed=nan_allowed)


def _in_objects(name: str, values: Any, error: Exception | None) -> ValueError | TypeError | None:
    """The error for the first object that is no number, or one too large."""
    for i, value in enumerate(values):
        if _length(value) is not None:
            return _no_number(name, i, value, "Each value must be one number.")
        try:
            np.asarray([value], dtype=object).astype(np.float64)
        except OverflowError:
            about = ""
            if isinstance(value, Rational):
                bits = int(value.numerator).bit_length() - int(value.denominator).bit_length()
                about = f" (about {'-' if value < 0 else ''}1e{round((bits - 0.5) * np.log10(2))})"
            return ValueError(
                f"Column {name} of X holds a number in row {i + 1} that is too large for "
                f"float64{about}. Scale the column so that it stays below 1e308, for instance by "
                "its logarithm."
            )
        except (TypeError, ValueError):
            return _no_number(name, i, value, "" if error is None else f"{error}.")
    return None


def _no_number(name: str, i: int, value: Any, reason: str) -> TypeError:
    kind = type(value).__name__
    return TypeError(
        f"Column {name} of X holds a value of type {kind} in row {i + 1}, not a number. {reason}"
    )


def _not_finite(values: Any, where: str, *, nan_allowed: bool) -> ValueError | None:
    wrong = np.isinf(values) if nan_allowed else ~np.isfinite(values)
    at = np.flatnonzero(wrong)
    if not len(at):
        return None
    value = values[at[0]]
    where = f"{where}{at[0] + 1}" if where else ""
    more = "" if len(at) == 1 else f" ({len(at)} such values there)"
    if np.isnan(value):
        return ValueError(
            f"X is NaN{where}{more}. Impute missing values, for instance with "
            "sklearn.impute.SimpleImputer in a pipeline; dm2l.tables.make_table_pipeline, "
            "AutoClassifier and `dm2l fit` do so by themselves."
        )
    return ValueError(
        f"X is {'-' if value < 0 else ''}infinity (inf){where}{more}. Replace or drop such values."
    )
