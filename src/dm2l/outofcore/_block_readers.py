"""Readers of files for row blocks: functions that yield ``(X, Y)`` block by block."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._utils import require
from dm2l._utils.files import PARQUET, TEXT, DataFileError, open_unpacked, suffix_of
from dm2l._utils.inputs import block_rows, check_choice, check_counts
from dm2l.io._columns import choose_labels, split_columns
from dm2l.io._label_columns import LabelReader
from dm2l.io._matrix_files import map_array, map_member
from dm2l.io._svmlight_file import SvmlightRows
from dm2l.io._table import CsvFile, open_parquet, translate_arrow_errors

SVMLIGHT = (".svm", ".svmlight", ".libsvm")
# A function that starts a pass, the number of rows (None if unknown), and the feature names.
Source = tuple[Callable[[], Iterator[Sequence[Any]]], int | None, list[str] | None]


def mapped_arrays(path: Any, labels: Any = None, **options: Any) -> tuple[Any, Any] | None:
    """Memory-map the rows and labels of npy or npz files; return None for other formats."""
    suffix = suffix_of(path) if isinstance(path, (str, os.PathLike)) else ""
    if suffix not in (".npy", ".npz"):
        return None
    if options:
        raise TypeError(f"{suffix} files have no option {', '.join(options)}. Do not pass it.")
    if suffix == ".npz":
        X, Y = map_member(path, "X"), map_member(path, "Y")
    elif labels is None:
        raise ValueError("A .npy file contains no labels. Pass the file of the labels as labels=.")
    else:
        X, Y = map_array(path), map_array(labels)
    if X.ndim != 2:
        raise ValueError(f"{path}: X must be a 2-D array, got shape {X.shape}.")
    return X, Y


def table_reader(path: Any, labels: Any, **options: Any) -> Source:
    """Return a reader of files in the format given by the suffix of the first file."""
    files = [Path(one) for one in ([path] if isinstance(path, (str, os.PathLike)) else path)]
    if not files:
        raise ValueError("The list of files to read is empty; pass at least one path.")
    suffix = suffix_of(files[0])
    readers = ((TEXT, csv_blocks), (PARQUET, parquet_blocks), (SVMLIGHT, svmlight_blocks))
    for suffixes, reader in readers:
        if suffix in suffixes:
            return reader(files, labels, **options)
    known = ", ".join((*PARQUET, *TEXT, *SVMLIGHT, ".npy", ".npz"))
    raise ValueError(f"{files[0]}: files of this type cannot be read. Use one of {known}.")


def _columns(tables: Any, files: Any, labels: Any, drop: Any) -> tuple[list[str], list[str]]:
    """Return names of features and labels of tables; all tables must have the same columns."""
    names, where = tables[0], str(files[0])
    for other, path in zip(tables, files, strict=True):
        if other != names:
            lack = sorted(set(names) ^ set(other))
            what = f"its columns are not in the same order as the columns of {files[0]}"
            what = f"column {lack[0]!r} is missing in this file or in {files[0]}" if lack else what
            hint = "All files must have the same columns in the same order."
            raise DataFileError(path, what, hint=hint)
    chosen = choose_labels(names, labels, where)
    features = split_columns(names, chosen, drop, where)
    return [names[j] for j in features], [names[j] for j in chosen]


def parquet_blocks(files: list[Path], labels: Any, drop: Any = (), rows: Any = None) -> Source:
    types, frame = require("pyarrow", "io").types, require("pandas", "io").DataFrame
    schemas, n_rows = [], 0
    for path in files:
        with open_parquet(path) as file:
            schemas.append(file.schema_arrow)
            n_rows += file.metadata.num_rows
    features, named = _columns([list(one.names) for one in schemas], files, labels, drop)
    wanted, d = features + named, len(features)
    kinds = [schemas[0].field(name).type for name in wanted]
    for name, kind in zip(wanted, kinds, strict=True):
        if not (types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
            raise DataFileError(
                files[0],
                f"column {name!r} has the type {kind}, but row blocks need numbers or booleans",
                hint="Pass its name in drop=, or convert its values to numbers first.",
            )
    single = all(types.is_floating(kind) and kind.bit_width <= 32 for kind in kinds[:d])
    dtype = np.float32 if single else np.float64
    length = block_rows(rows, d)

    def numbers(column: Any) -> NDArray[Any]:
        """Return the values of a column, with NaN for null."""
        if column.null_count and not types.is_floating(column.type):
            column = column.cast("float64")
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def read() -> Iterator[Sequence[Any]]:
        for path in files:
            with open_parquet(path, pre_buffer=False) as file:
                for groups, size in _portions(file.metadata, length):
                    # An iterator per portion, because pyarrow frees memory when an iterator ends.
                    batches = file.iter_batches(batch_size=size, row_groups=groups, columns=wanted)
                    while True:
                        with translate_arrow_errors(path):
                            batch = next(batches, None)
                        if batch is None:
                            break
                        columns = [numbers(batch.column(name)) for name in wanted]
                        Y = frame(np.column_stack(columns[d:]).astype(np.float32), columns=named)
                        yield np.column_stack(columns[:d]).astype(dtype, copy=False), Y

    return read, n_rows, features


def _portions(metadata: Any, rows: int) -> Iterator[tuple[list[int], int]]:
    """Yield lists of row groups to read together, each with a number of rows per block."""
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    groups: list[int] = []
    total = 0
    for i, size in enumerate(sizes):
        groups.append(i)
        total += size
        following = sizes[i + 1] if i + 1 < len(sizes) else rows
        if total + following > rows:
            pieces = max(1, round(total / rows))
            yield groups, max(1, -(-total // pieces))
            groups, total = [], 0


def csv_blocks(
    files: list[Path],
    labels: Any,
    drop: Any = (),
    rows: int | None = None,
    separator: str | None = None,
    missing: Any = None,
    positive: Any = None,
    cutoffs: str | Iterable[str] = (),
) -> Source:
    frame = require("pandas", "io").DataFrame
    # All passes use the same objects, because only the first pass counts the cells of rows.
    options: dict[str, Any] = {"separator": separator, "skip_blanks": True, "whole": False}
    tables = [CsvFile(path, **options) for path in files]
    features, named = _columns([table.names for table in tables], files, labels, drop)
    length, text = block_rows(rows, len(tables[0].names)), dict.fromkeys(named, str)
    words: dict[str, Any] = {"missing": missing, "positive": positive, "cutoffs": cutoffs}

    def read() -> Iterator[Sequence[Any]]:
        for table in tables:
            reader = LabelReader(named, str(table.path), single=True, **words)
            for part in table.frames(length, text, features + named):
                X = _features(part, features, table.path)
                yield X, frame(reader.read([part[name] for name in named]), columns=named)

    return read, None, features


def _features(frame: Any, names: list[str], path: Path) -> NDArray[np.float64]:
    table = np.empty((len(frame), len(names)))
    for j, name in enumerate(names):
        try:
            table[:, j] = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
        except ValueError as error:
            raise DataFileError(
                path,
                f"feature {name!r} has a value that is not a number ({error})",
                hint="Pass its name in drop= or labels=, or convert its values to numbers first.",
            ) from error
    return table


def svmlight_blocks(
    files: list[Path],
    labels: Sequence[float] | None,
    n_features: int = 0,
    rows: int | None = None,
    zero_based: bool = False,
    missing_as: str = "negative",
) -> Source:
    check_choice("missing_as", missing_as, "negative", "missing")
    check_counts(n_features=n_features)
    numbers = [] if labels is None else list(labels)
    places = {float(label): j for j, label in enumerate(numbers)}
    if not places or len(places) < len(numbers):
        raise ValueError(f"labels must be one or more distinct label numbers, got {numbers!r}.")
    length = block_rows(10_000 if rows is None else rows, n_features)
    absent = 0.0 if missing_as == "negative" else np.nan

    def read() -> Iterator[Sequence[Any]]:
        for path in files:
            with open_unpacked(path, whole=False) as file:
                source = SvmlightRows(file, path, int(n_features), bool(zero_based))
                while (block := source.take(length))[1]:
                    X, listed, _ = block
                    Y = np.full((len(listed), len(places)), absent)
                    for y, row in zip(Y, listed, strict=True):
                        if unknown := [number for number in row if number not in places]:
                            what = f"label {unknown[0]:g} of this file is not listed in labels="
                            raise DataFileError(path, what)
                        y[[places[number] for number in row]] = 1.0
                    yield X, Y

    return read, None, None
