"""Readers of row blocks from files: a call begins a pass and gives ``(X, Y)`` block by block."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._utils.extras import require
from dm2l._utils.files import PARQUET, TEXT, DataFileError, open_unpacked, suffix_of
from dm2l._utils.parameters import check_count
from dm2l.io._columns import choose_labels, split_columns
from dm2l.io._csv_file import CsvFile
from dm2l.io._label_reader import LabelReader
from dm2l.io._npz_file import map_array, map_member
from dm2l.io._svmlight_file import SvmlightRows
from dm2l.io._table import open_parquet, translate_arrow_errors
from dm2l.outofcore._block import block_rows

# Rows that are turned from columns into rows together, so that they stay in the cache.
TILE = 1024
SVMLIGHT = (".svm", ".svmlight", ".libsvm")


def mapped_arrays(path: Any, labels: Any = None, **options: Any) -> tuple[Any, Any] | None:
    """Rows and labels of npy or npz files, mapped into memory; None for other formats."""
    suffix = suffix_of(path) if isinstance(path, (str, os.PathLike)) else ""
    if suffix not in (".npy", ".npz"):
        return None
    if options:
        raise TypeError(f"{suffix} files take no {', '.join(options)}.")
    if suffix == ".npz":
        X, Y = map_member(path, "X"), map_member(path, "Y")
    elif labels is None:
        raise ValueError("labels= must name the .npy file of the labels.")
    else:
        X, Y = map_array(path), map_array(labels)
    if X.ndim != 2:
        raise ValueError(f"The rows must be an array of two dimensions, got {X.ndim}.")
    return X, Y


def table_reader(path: Any, labels: Any, **options: Any) -> Any:
    """The reader of one or several files, by the suffix of the first."""
    several = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if not several:
        raise ValueError("There is no file to read.")
    files = [Path(one) for one in several]
    suffix = suffix_of(files[0])
    if suffix in TEXT:
        return CsvReader(files, labels, **options)
    if suffix in PARQUET:
        return ParquetReader(files, labels, **options)
    if suffix in SVMLIGHT:
        return SvmlightReader(files, labels, **options)
    known = ", ".join((*PARQUET, *TEXT, *SVMLIGHT, ".npy", ".npz"))
    raise ValueError(f"{files[0]} has no suffix that row blocks can be read from: {known}.")


def _columns(names: list[str], labels: Any, drop: Any, where: str) -> tuple[list[str], list[str]]:
    """Names of the features and of the labels of a table."""
    chosen = choose_labels(names, labels, where)
    features = split_columns(names, chosen, drop, where)
    return [names[j] for j in features], [names[j] for j in chosen]


def _check_same(names: list[str], first: list[str], path: Path) -> None:
    if names != first:
        raise DataFileError(path, "it has other columns than the first file")


class ParquetReader:
    """Blocks of Parquet files."""

    def __init__(
        self, files: list[Path], labels: Any, drop: Any = (), rows: int | None = None
    ) -> None:
        self._arrow = require("pyarrow", "io")
        self._frame = require("pandas", "io").DataFrame
        self._files = files
        self.n_rows = 0
        first: list[str] = []
        for path in files:
            with open_parquet(path) as file:
                names = list(file.schema_arrow.names)
                if path == files[0]:
                    first = names
                    self.feature_names, self._names = _columns(names, labels, drop, str(path))
                    self._check_types(file.schema_arrow, str(path))
                _check_same(names, first, path)
                self.n_rows += file.metadata.num_rows
        self._rows = block_rows(rows, len(self.feature_names))

    def _check_types(self, schema: Any, where: str) -> None:
        types = self._arrow.types
        for name in self.feature_names + self._names:
            kind = schema.field(name).type
            if not (types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
                raise DataFileError(
                    where,
                    f"column {name!r} is of type {kind}; blocks are made of numbers and booleans",
                    hint="Leave it out with drop=, or turn it into numbers first.",
                )
        single = {schema.field(name).type.bit_width for name in self.feature_names}
        floating = all(types.is_floating(schema.field(name).type) for name in self.feature_names)
        self._dtype = np.float32 if floating and max(single) <= 32 else np.float64

    def __call__(self) -> Iterator[Sequence[Any]]:
        wanted = self.feature_names + self._names
        d = len(self.feature_names)
        for path in self._files:
            with open_parquet(path, pre_buffer=False) as file:
                for groups, rows in self._portions(file.metadata):
                    # A portion at a time: pyarrow frees memory only when an iteration ends.
                    batches = file.iter_batches(batch_size=rows, row_groups=groups, columns=wanted)
                    while True:
                        with translate_arrow_errors(path):
                            batch = next(batches, None)
                        if batch is None:
                            break
                        columns = [self._numbers(batch.column(name)) for name in wanted]
                        labels = _by_rows(columns[d:], np.float32)
                        X = _by_rows(columns[:d], self._dtype)
                        yield X, self._frame(labels, columns=self._names)

    def _portions(self, metadata: Any) -> Iterator[tuple[list[int], int]]:
        """Row groups that are read together, and rows of the blocks that they are cut into."""
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        groups: list[int] = []
        total = 0
        for i, size in enumerate(sizes):
            groups.append(i)
            total += size
            following = sizes[i + 1] if i + 1 < len(sizes) else self._rows
            if total + following > self._rows:
                pieces = max(1, round(total / self._rows))
                yield groups, max(1, -(-total // pieces))
                groups, total = [], 0

    def _numbers(self, column: Any) -> NDArray[Any]:
        """Values of a column, NaN where null."""
        if column.null_count and not self._arrow.types.is_floating(column.type):
            column = column.cast(self._arrow.float64())
        return np.asarray(column.to_numpy(zero_copy_only=False))


def _by_rows(columns: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    """Columns side by side, row by row in memory."""
    table = np.empty((len(columns[0]), len(columns)), dtype=dtype)
    for start in range(0, len(table), TILE):
        part = slice(start, start + TILE)
        for j, column in enumerate(columns):
            table[part, j] = column[part]
    return table


class CsvReader:
    """Blocks of CSV files."""

    n_rows = None

    def __init__(
        self,
        files: list[Path],
        labels: Any,
        drop: Any = (),
        rows: int | None = None,
        separator: str | None = None,
        missing: Any = None,
        positive: Any = None,
        cutoffs: str | Iterable[str] = (),
    ) -> None:
        self._frame = require("pandas", "io").DataFrame
        # Files stay: only the first pass has to count the cells of rows.
        options: dict[str, Any] = {"separator": separator, "skip_blanks": True, "whole": False}
        self._files = [CsvFile(path, **options) for path in files]
        names = self._files[0].names
        self.feature_names, self._label_names = _columns(names, labels, drop, str(files[0]))
        for file in self._files[1:]:
            _check_same(file.names, names, file.path)
        self._rows = block_rows(rows, len(names))
        self._words = {"missing": missing, "positive": positive, "cutoffs": cutoffs}

    def __call__(self) -> Iterator[Sequence[Any]]:
        text, wanted = dict.fromkeys(self._label_names, str), self.feature_names + self._label_names
        for file in self._files:
            labels = LabelReader(self._label_names, str(file.path), **self._words)
            for frame in file.frames(self._rows, text, wanted):
                X = self._features(frame, file.path)
                Y = labels.read([frame[name] for name in self._label_names])
                yield X, self._frame(Y, columns=self._label_names)

    def _features(self, frame: Any, path: Path) -> NDArray[np.float64]:
        table = np.empty((len(frame), len(self.feature_names)))
        for j, name in enumerate(self.feature_names):
            try:
                table[:, j] = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
            except ValueError as error:
                raise DataFileError(
                    path,
                    f"feature {name!r} is not a number in every row ({error})",
                    hint="Leave it out with drop=, name it in labels=, or turn it into numbers "
                    "first.",
                ) from error
        return table


class SvmlightReader:
    """Blocks of multi-label svmlight files."""

    n_rows, feature_names = None, None

    def __init__(
        self,
        files: list[Path],
        labels: Sequence[float] | None,
        n_features: int = 0,
        rows: int | None = None,
        zero_based: bool = False,
        missing_as: str = "negative",
    ) -> None:
        if missing_as not in ("negative", "missing"):
            raise ValueError(f"missing_as must be 'negative' or 'missing', got {missing_as!r}.")
        self._files = files
        check_count("n_features", n_features)
        self._n_features = int(n_features)
        numbers = [] if labels is None else list(labels)
        self._place = {float(label): j for j, label in enumerate(numbers)}
        if not self._place or len(self._place) < len(numbers):
            raise ValueError(f"labels must name each label once, got {numbers!r}.")
        self._rows = block_rows(10_000 if rows is None else rows, n_features)
        self._zero_based = bool(zero_based)
        self._absent = 0.0 if missing_as == "negative" else np.nan

    def __call__(self) -> Iterator[Sequence[Any]]:
        for path in self._files:
            with open_unpacked(path, whole=False) as file:
                rows = SvmlightRows(file, path, self._n_features, self._zero_based)
                while (block := rows.take(self._rows))[1]:
                    X, listed, _ = block
                    yield X, self._labels(listed, path)

    def _labels(self, listed: list[tuple[float, ...]], path: Path) -> NDArray[np.float64]:
        Y = np.full((len(listed), len(self._place)), self._absent)
        for i, numbers in enumerate(listed):
            for number in numbers:
                if number not in self._place:
                    reason = f"it lists the label {number:g}, which labels= does not name"
                    raise DataFileError(path, reason)
                Y[i, self._place[number]] = 1.0
        return Y
