"""Tables with a header: CSV and Parquet."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from dm2l.readers._columns import (
    as_patterns,
    check_distinct,
    choose_labels,
    label_targets,
    make_bunch,
    match_columns,
    require,
    truth,
)
from dm2l.readers._csv_rows import open_rows, refuse_short_rows

_EXTRA = "io"


def read_csv(
    path: str | Path,
    labels: int | str | Iterable[str],
    *,
    missing_label: Any = None,
    drop: str | Iterable[str] = (),
    sep: str = ",",
) -> Bunch:
    r"""Read features and labels from a CSV file with a header line.

    Parameters
    ----------
    path : str or Path
        The file, in UTF-8; pandas unpacks ``.gz``, ``.bz2``, ``.xz`` and ``.zip``.
    labels : int, str or list of str
        The last k columns, or names or patterns such as ``"tox_*"``.
    missing_label : scalar or list, default=None
        Further marks of a label that was not observed, such as ``-1`` or ``"unknown"``. Blanks,
        ``?`` and what pandas takes as missing (NA, NaN, null, ...) always are.
    drop : str or list of str, default=()
        Columns to leave out, by name or pattern.
    sep : str, default=","
        What separates the columns. If it is one character, rows with more or fewer cells than the
        header are refused; pandas fills up short ones for any other.

    Returns
    -------
    Bunch
        ``data`` (float64, dense; NaN where a feature is missing), ``target`` (int8 0/1, or
        float64 with NaN where labels are missing), ``target_names``, ``feature_names``; the other
        keys of :func:`load_dataset` are None. Labels are 0/1, -1/+1, true/false or yes/no.

    Raises
    ------
    ValueError
        If a column cannot be used; the message names it and says why.
    ImportError
        If pandas is not installed (``pip install 'dm2l[io]'``).

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l.readers import read_csv
    >>> text = "id,mass,charge,tox_liver,tox_skin\na,1.5,0,1,?\nb,2.5,-1,,0\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "assays.csv")
    ...     _ = path.write_text(text)
    ...     assays = read_csv(path, labels="tox_*", drop="id")
    >>> assays.feature_names, assays.target_names
    (['mass', 'charge'], ['tox_liver', 'tox_skin'])
    >>> assays.target
    array([[ 1., nan],
           [nan,  0.]])
    """
    pandas = require("pandas", _EXTRA)
    options = {"sep": sep, "index_col": False, "skipinitialspace": True}
    with warnings.catch_warnings():
        # Rows longer than the header: pandas would cut them off and only warn.
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        try:
            names = [str(name) for name in pandas.read_csv(path, nrows=0, **options).columns]
            check_names(path, sep)
            chosen = choose_labels(names, labels, str(path))
            frame = pandas.read_csv(
                path,
                dtype={names[j]: str for j in chosen},  # marks and words, before any guess
                na_values=["?"],
                low_memory=False,
                **options,
            )
        except (pandas.errors.ParserError, pandas.errors.ParserWarning) as error:
            raise ValueError(f"{path} is no table: {error}") from error
        except pandas.errors.EmptyDataError:
            raise ValueError(f"{path} is empty; a header line is needed.") from None
    if len(sep) == 1:
        refuse_short_rows(frame, path, sep, skipinitialspace=True)
    return _bunch(pandas, frame, chosen, missing_label, as_patterns(drop), str(path))


def check_names(path: str | Path, sep: str) -> None:
    """Refuse a header with a name twice, of which pandas would make two names."""
    if len(sep) == 1:
        with open_rows(path, sep, skipinitialspace=True) as rows:
            check_distinct(filter(None, rows.header), str(path))


def read_parquet(
    path: str | Path,
    labels: int | str | Iterable[str],
    *,
    missing_label: Any = None,
    drop: str | Iterable[str] = (),
) -> Bunch:
    """Read features and labels from a Parquet file.

    Parameters
    ----------
    path : str or Path
        The file.
    labels : int, str or list of str
        The last k columns, or names or patterns such as ``"tox_*"``.
    missing_label : scalar or list, default=None
        Further marks of a label that was not observed. Nulls and NaN always are, and in columns
        of text also blanks, ``?`` and NA.
    drop : str or list of str, default=()
        Columns to leave out, by name or pattern.

    Returns
    -------
    Bunch
        As of :func:`read_csv`.

    Raises
    ------
    ValueError
        If a column cannot be used; the message names it and says why.
    ImportError
        If pandas or pyarrow is not installed (``pip install 'dm2l[io]'``).

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from dm2l.readers import read_parquet
    >>> frame = pd.DataFrame({"mass": [1.5, 2.5], "liver": [True, None], "skin": [0, 1]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "assays.parquet")
    ...     frame.to_parquet(path)
    ...     assays = read_parquet(path, labels=2)
    >>> assays.target
    array([[ 1.,  0.],
           [nan,  1.]])
    """
    pandas = require("pandas", _EXTRA)
    require("pyarrow", _EXTRA)
    frame = pandas.read_parquet(path, engine="pyarrow")
    chosen = choose_labels([str(name) for name in frame.columns], labels, str(path))
    return _bunch(pandas, frame, chosen, missing_label, as_patterns(drop), str(path))


def _bunch(
    pandas: Any, frame: Any, chosen: list[int], marks: Any, drop: list[str], where: str
) -> Bunch:
    names = [str(name) for name in frame.columns]
    dropped = set(match_columns(names, drop, where))
    both = dropped & set(chosen)
    if both:
        raise ValueError(f"{where}: {names[min(both)]!r} is a label and in drop=.")
    if frame.shape[0] == 0:
        raise ValueError(f"{where} has a header and no rows.")
    features = [j for j in range(len(names)) if j not in dropped and j not in set(chosen)]
    if not features:
        raise ValueError(f"{where}: every column is a label or dropped; no features are left.")
    marks = [] if marks is None else marks if isinstance(marks, (list, tuple, set)) else [marks]
    target = np.column_stack(
        [_label_column(pandas, frame.iloc[:, j], list(marks), names[j], where) for j in chosen]
    )
    data = np.empty((len(frame), len(features)))
    unusable = []
    for position, j in enumerate(features):
        column, reason = _feature_column(pandas, frame.iloc[:, j])
        if reason:
            unusable.append(f"{names[j]!r} {reason}")
        else:
            data[:, position] = column
    if unusable:
        more = f", and {len(unusable) - 5} more" if len(unusable) > 5 else ""
        raise ValueError(
            f"{where}: features are numbers, but {'; '.join(unusable[:5])}{more}. Turn them into "
            "numbers first, name them in labels= if they are labels, or leave them out with drop=."
        )
    label_names = [names[j] for j in chosen]
    return make_bunch(
        data,
        label_targets(target, label_names, where),
        target_names=label_names,
        feature_names=[names[j] for j in features],
    )


def _label_column(
    pandas: Any, column: Any, marks: list[Any], name: str, where: str
) -> NDArray[np.float64]:
    """Numbers of a label column, NaN where missing; what they may be is checked later."""
    number_marks = {float(m) for m in marks if not isinstance(m, str)}
    types = pandas.api.types
    if types.is_bool_dtype(column.dtype) or types.is_numeric_dtype(column.dtype):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.where(np.isin(numbers, list(number_marks)), np.nan, numbers)
    words = {m.strip().casefold() for m in marks if isinstance(m, str)}
    texts = [str(value).strip() for value in column.to_numpy(dtype=object)]
    missing = column.isna().to_numpy()
    codes: dict[str, float] = {}
    for row, text in enumerate(texts):
        if text in codes or missing[row]:
            continue
        marked = text.casefold() in words or _number(text) in number_marks
        said = np.nan if marked else truth(text)
        if said is None:
            raise ValueError(
                f"{where}: label {name!r} holds {text[:40]!r} in row {row}. Labels are 0/1, -1/+1, "
                "true/false or yes/no; name a mark of missing entries with missing_label=."
            )
        codes[text] = said
    return np.array(
        [np.nan if hole else codes[text] for text, hole in zip(texts, missing, strict=True)]
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _feature_column(pandas: Any, column: Any) -> tuple[Any, str]:
    """Numbers of a feature column, or why there are none."""
    dtype, types = column.dtype, pandas.api.types
    present = column.dropna()
    if len(present) == 0:
        return None, "is empty"
    if types.is_bool_dtype(dtype) or (
        types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype)
    ):
        return column.to_numpy(dtype=np.float64, na_value=np.nan), ""
    if types.is_object_dtype(dtype) and all(isinstance(value, bool) for value in present):
        numbers = np.full(len(column), np.nan)
        numbers[column.notna().to_numpy()] = present.to_numpy(dtype=np.float64)
        return numbers, ""
    values = column.to_numpy(dtype=object)
    for row in np.flatnonzero(column.notna().to_numpy()):
        if isinstance(values[row], str) and _number(values[row]) is None:
            return None, f"holds text ({values[row][:40]!r} in row {row})"
    return None, f"is of type {dtype}"
