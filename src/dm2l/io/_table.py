"""Tables with a header: CSV and Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from dm2l._utils import require
from dm2l._utils.files import AnyPath, DataFileError, check_memory, check_regular, translate_errors
from dm2l.io._columns import check_distinct, choose_labels, split_columns
from dm2l.io._csv_file import CsvFile
from dm2l.io._label_reader import LabelReader, as_number, make_bunch

_FACTOR = 4.0  # bytes in memory for a byte of an unpacked Parquet table


def read_csv(
    path: str | Path,
    labels: int | str | Iterable[str],
    *,
    missing: Any = None,
    positive: Any = None,
    cutoffs: str | Iterable[str] = (),
    drop: str | Iterable[str] = (),
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8",
) -> Bunch:
    r"""Read features and labels from a CSV file with a header line.

    Labels are 0/1, -1/+1, yes/no, true/false, active/inactive, positive/negative or +/-, in any
    case, or check marks (``x``, ``*``, ``✓``) and nothing else.

    Parameters
    ----------
    path : str or Path
        The file; one that ends in ``.gz``, ``.bz2``, ``.xz`` or ``.zip`` is unpacked.
    labels : int, str or list of str
        The last k columns, or names, patterns such as ``"tox_*"``, prefixes that end in a sign
        such as ``"tox_"``, or several of them with commas: ``"NR-*,SR-*"``.
    missing : scalar or list, default=None
        Further marks of a missing label, such as ``-1`` or ``"unknown"``. Blanks, ``?``, NA, NaN,
        null and none always are.
    positive : scalar, list or mapping, default=None
        The positive value of labels that have one other value: ``positive=2`` of labels that are
        1 and 2. A mapping gives it for some labels, by name or pattern: ``{"dx_*": "found"}``.
    cutoffs : str or list of str, default=()
        Labels that are numbers, and the side of a number that is a yes: ``"fold_*>=2"``, with
        ``>=``, ``>``, ``<=`` or ``<``. A bound such as ``>10`` counts if it settles the question.
    drop : str or list of str, default=()
        Columns to leave out, in the same syntax as ``labels``.
    separator, decimal : str, default=None
        The character between columns, and the decimal point; None goes by the first rows.
    encoding : str, default="utf-8"
        Encoding of the file.

    Returns
    -------
    Bunch
        ``data`` (float64, dense; NaN where a feature is missing), ``target`` (int8 0/1, or
        float64 with NaN where labels are missing), ``target_names``, ``feature_names``; the other
        keys of :func:`~dm2l.datasets.load_dataset` are None.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l.io import read_csv
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
    file = CsvFile(path, separator=separator, decimal=decimal, encoding=encoding, skip_blanks=True)
    # Labels as they stand: marks and words, before any guess.
    text = {file.names[j]: str for j in choose_labels(file.names, labels, str(path))}
    words = {"missing": missing, "positive": positive, "cutoffs": cutoffs, "decimal": file.decimal}
    return _bunch(path, file.frame(text), labels, drop, words)


def read_parquet(
    path: str | Path,
    labels: int | str | Iterable[str],
    *,
    missing: Any = None,
    positive: Any = None,
    cutoffs: str | Iterable[str] = (),
    drop: str | Iterable[str] = (),
) -> Bunch:
    """Read features and labels from a Parquet file.

    Parameters
    ----------
    path : str or Path
        The file.
    labels, missing, positive, cutoffs, drop
        As of :func:`read_csv`; nulls are missing, too.

    Returns
    -------
    Bunch
        As of :func:`read_csv`; needs pandas and pyarrow (the extra ``io``).

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from dm2l.io import read_parquet
    >>> frame = pd.DataFrame({"mass": [1.5, 2.5], "liver": [True, None], "skin": [0, 1]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "assays.parquet")
    ...     frame.to_parquet(path)
    ...     assays = read_parquet(path, labels=2)
    >>> assays.target
    array([[ 1.,  0.],
           [nan,  1.]])
    """
    words = {"missing": missing, "positive": positive, "cutoffs": cutoffs}
    return _bunch(path, read_frame(path), labels, drop, words)


def read_labels(
    Y: Any, *, missing: Any = None, positive: Any = None, cutoffs: str | Iterable[str] = ()
) -> Any:
    """Turn labels that are words, or numbers on a scale, into 1, 0 and NaN.

    Parameters
    ----------
    Y : data frame, or array-like of shape (n, c)
        Labels only. Columns of an array are called ``"0"``, ``"1"`` and so on.
    missing, positive, cutoffs
        As of :func:`read_csv`.

    Returns
    -------
    pandas.DataFrame or ndarray of shape (n, c), float64
        1, 0, and NaN where missing; a frame, with its names and its index, if ``Y`` is one.

    Examples
    --------
    >>> from dm2l.io import read_labels
    >>> read_labels([["active", "+"], ["inactive", "-"], [None, "+"]])
    array([[ 1.,  1.],
           [ 0.,  0.],
           [nan,  1.]])
    >>> read_labels([[1, 2.5], [2, 0.4], [2, None]], positive=2, cutoffs="1>=2")
    array([[ 0.,  1.],
           [ 1.,  0.],
           [ 1., nan]])
    """
    if hasattr(Y, "to_pandas"):  # polars
        Y = Y.to_pandas()
    frame = Y if hasattr(Y, "iloc") else require("pandas", "io").DataFrame(Y)
    names = [str(name) for name in frame.columns]
    reader = LabelReader(names, "Y", missing=missing, positive=positive, cutoffs=cutoffs)
    values = reader.read([frame.iloc[:, j] for j in range(len(names))])
    return (
        frame.__class__(values, index=frame.index, columns=frame.columns) if frame is Y else values
    )


def _bunch(
    path: str | Path, frame: Any, labels: Any, drop: str | Iterable[str], words: Mapping[str, Any]
) -> Bunch:
    names = [str(name) for name in frame.columns]
    chosen = choose_labels(names, labels, str(path))
    features = split_columns(names, chosen, drop, str(path))
    if len(frame) == 0:
        raise DataFileError(path, "there is a header, but there are no rows")
    label_names = [names[j] for j in chosen]
    reader = LabelReader(label_names, str(path), **words)
    target = reader.read([frame.iloc[:, j] for j in chosen])
    what = f"a matrix of {len(frame)} rows and {len(features)} columns"
    check_memory(path, 8 * len(frame) * len(features), what)
    data = np.empty((len(frame), len(features)))
    unusable = []
    for position, j in enumerate(features):
        column = frame.iloc[:, j]
        if reason := _no_numbers(column):
            unusable.append(f"{names[j]!r} {reason}")
        else:
            data[:, position] = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if unusable:
        more = f", and {len(unusable) - 5} more" if len(unusable) > 5 else ""
        hint = "Turn them into numbers, name them in labels= if they are labels, or drop= them."
        reason = f"features are numbers, but {'; '.join(unusable[:5])}{more}"
        raise DataFileError(path, reason, hint=hint)
    return make_bunch(
        data,
        target if np.isnan(target).any() else target.astype(np.int8),
        target_names=label_names,
        feature_names=[names[j] for j in features],
    )


def _no_numbers(column: Any) -> str:
    """Why a column cannot be a feature; blank if it can."""
    dtype, types = column.dtype, require("pandas", "io").api.types
    present = column.dropna()
    if len(present) == 0:
        return "is empty"
    if types.is_object_dtype(dtype) and all(isinstance(value, bool) for value in present):
        return ""  # with blanks
    real = types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype)
    if real or types.is_bool_dtype(dtype):
        return ""
    values = column.to_numpy(dtype=object)
    for row in np.flatnonzero(column.notna().to_numpy()):
        if isinstance(values[row], str) and as_number(values[row]) is None:
            return f"holds text ({values[row][:40]!r} in row {row + 1})"
    return f"is of type {dtype}"


def translate_arrow_errors(path: AnyPath) -> Any:
    """A context that turns errors of pyarrow into errors of the file."""
    arrow = require("pyarrow", "io")
    return translate_errors(path, "a Parquet file", arrow.lib.ArrowException)


@contextmanager
def open_parquet(path: AnyPath, **options: Any) -> Iterator[Any]:
    """A ``pyarrow.parquet.ParquetFile`` whose columns have names of their own."""
    parquet = require("pyarrow.parquet", "io")
    check_regular(path)
    with translate_arrow_errors(path):
        file = parquet.ParquetFile(path, **options)
        names = list(file.schema_arrow.names)
    with file:
        check_distinct(names, str(path))
        yield file


def read_frame(path: AnyPath, *, ignore_metadata: bool = False) -> Any:
    """All of a file as a data frame, if memory can hold it; pandas' metadata can be ignored."""
    require("pandas", "io")
    types = require("pyarrow", "io").types
    with open_parquet(path) as file, translate_arrow_errors(path):
        metadata, schema = file.metadata, file.schema_arrow
        rows, columns = metadata.num_rows, len(schema.names)
        groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
        # Repeated values are stored once: the number of cells tells more than that of bytes.
        size = max(sum(group.total_byte_size for group in groups), 8 * rows * columns)
        texts = [f.name for f in schema if types.is_string(f.type) or types.is_large_string(f.type)]
    check_memory(path, _FACTOR * size, f"a table of {rows} rows and {columns} columns")
    # A text that is stored once is kept once: 3 KB of file became 4 GB.
    with open_parquet(path, read_dictionary=texts) as file, translate_arrow_errors(path):
        frame = file.read().to_pandas(ignore_metadata=ignore_metadata)
        for name in texts:
            if name in frame:  # and not the index
                frame[name] = frame[name].astype(object)
    return frame
