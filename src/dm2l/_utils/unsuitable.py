"""What in the features is not a finite number: its column, its value, and what to do about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def unsuitable(X: Any) -> str | None:
    """Say in a line which value of ``X`` no model can use as it is; None where there is none.

    Only what scikit-learn has refused is worth the search: it looks at every value.

    Examples
    --------
    >>> from dm2l._utils.unsuitable import unsuitable
    >>> print(unsuitable([[1.0, 2.0], [float("nan"), 3.0]]))
    X is NaN in column 0, row 2. Fill such holes, for instance with
    sklearn.impute.SimpleImputer in a pipeline; dm2l.tables.make_table_pipeline, AutoClassifier and
    `dm2l fit` do so by themselves.
    """
    if sp.issparse(X):
        bad = X.data[~np.isfinite(X.data)] if X.dtype.kind == "f" else X.data[:0]
        return _not_finite(bad[0], "", len(bad)) if len(bad) else None
    if hasattr(X, "iloc") and hasattr(X, "dtypes"):
        columns = ((repr(str(name)), X.iloc[:, j]) for j, name in enumerate(X.columns))
    else:
        values = np.asarray(X)
        if values.ndim != 2:
            return None
        columns = ((str(j), values[:, j]) for j in range(values.shape[1]))
    for name, column in columns:
        found = _in_column(name, column)
        if found is not None:
            return found
    return None


def _in_column(name: str, column: Any) -> str | None:
    values = np.asarray(column)
    if values.dtype.kind == "c":  # of which scikit-learn says what there is to say
        return None
    if values.dtype.kind in "mM":
        return (
            f"Column {name} of X holds dates. Turn them into numbers such as the year, the weekday "
            "or days since a day."
        )
    if values.dtype.kind not in "fiub":
        texts = [i for i, value in enumerate(values) if isinstance(value, str)]
        if texts:
            return (
                f"Column {name} of X holds text ({str(values[texts[0]])[:40]!r} in row "
                f"{texts[0] + 1}). Encode it as numbers, for instance with "
                "sklearn.preprocessing.OneHotEncoder in a pipeline; dm2l.tables."
                "make_table_pipeline, AutoClassifier and `dm2l fit` do so by themselves."
            )
        dated = next((value for value in values if hasattr(value, "isoformat")), None)
        if dated is not None:
            return _in_column(name, np.array([dated], dtype="datetime64[s]"))
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            return None
    at = np.flatnonzero(~np.isfinite(values))
    return (
        _not_finite(values[at[0]], f" in column {name}, row {at[0] + 1}", len(at))
        if len(at)
        else None
    )


def _not_finite(value: float, where: str, count: int) -> str:
    more = "" if count == 1 else f" ({count} such values there)"
    if np.isnan(value):
        return (
            f"X is NaN{where}{more}. Fill such holes, for instance with "
            "sklearn.impute.SimpleImputer in a pipeline; dm2l.tables.make_table_pipeline, "
            "AutoClassifier and `dm2l fit` do so by themselves."
        )
    return (
        f"X is {'-' if value < 0 else ''}infinity (inf){where}{more}. Replace or drop such values."
    )
