"""How blocks are read: each reader is called for a pass and gives (X, Y, ...) block by block."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l.parameters import check_count
from dm2l.readers._columns import as_patterns, choose_labels, match_columns, require, truth
from dm2l.readers._csv_rows import CsvRows, open_rows
from dm2l.readers._svmlight import SvmlightRows, open_svmlight
from dm2l.readers._table import check_names
from dm2l.scale._slices import block_rows

# Rows that are turned from columns into rows together, so that they stay in the cache.
TILE = 1024


def paths(path: Any) -> list[Path]:
    """One file or several."""
    several = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if not several:
        raise ValueError("There is no file to read.")
    return [Path(one) for one in several]


class _Columns:
    """Which columns of a table are labels and which are features."""

    def __init__(self, names: list[str], labels: Any, drop: Any, where: str) -> None:
        chosen = choose_labels(names, labels, where)
        dropped = set(match_columns(names, as_patterns(drop), where))
        both = dropped & set(chosen)
        if both:
            raise ValueError(f"{where}: {names[min(both)]!r} is a label and in drop=.")
        taken = dropped | set(chosen)
        self.names = names
        self.label_names = [names[j] for j in chosen]
        self.feature_names = [name for j, name in enumerate(names) if j not in taken]
        if not self.feature_names:
            raise ValueError(f"{where}: every column is a label or dropped; no features are left.")

    def check(self, names: list[str], where: str) -> None:
        """Refuse a further file with other columns."""
        if names != self.names:
            raise ValueError(f"{where} has other columns than the first file.")


class ParquetReader:
    """Blocks of Parquet files."""

    def __init__(self, files: list[Path], labels: Any, drop: Any, rows: int | None) -> None:
        self._parquet = require("pyarrow.parquet", "io")
        self._arrow = require("pyarrow", "io")
        self._files = files
        first = self._parquet.ParquetFile(files[0])
        columns = _Columns(list(first.schema_arrow.names), labels, drop, str(files[0]))
        self.feature_names, self._names = columns.feature_names, columns.label_names
        self._check_types(first.schema_arrow, str(files[0]))
        self.n_rows = 0
        for path in files:
            with self._parquet.ParquetFile(path) as file:
                columns.check(list(file.schema_arrow.names), str(path))
                self.n_rows += file.metadata.num_rows
        self._rows = block_rows(rows, len(self.feature_names))

    def _check_types(self, schema: Any, where: str) -> None:
        types = self._arrow.types
        for name in self.feature_names + self._names:
            kind = schema.field(name).type
            if not (types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
                raise ValueError(
                    f"{where}: column {name!r} is of type {kind}; blocks are made of numbers and "
                    "booleans. Leave it out with drop=, or turn it into numbers first."
                )
        single = {schema.field(name).type.bit_width for name in self.feature_names}
        floating = all(types.is_floating(schema.field(name).type) for name in self.feature_names)
        self._dtype = np.float32 if floating and max(single) <= 32 else np.float64

    def __call__(self) -> Iterator[Sequence[Any]]:
        wanted = self.feature_names + self._names
        d = len(self.feature_names)
        for path in self._files:
            with self._parquet.ParquetFile(path, pre_buffer=False) as file:
                for groups, rows in self._portions(file.metadata):
                    # A portion at a time: a reader keeps what it has read until it ends.
                    batches = file.iter_batches(batch_size=rows, row_groups=groups, columns=wanted)
                    for batch in batches:
                        columns = [self._numbers(batch.column(name)) for name in wanted]
                        labels = _by_rows(columns[d:], np.float32)
                        yield _by_rows(columns[:d], self._dtype), LabelTable(labels, self._names)

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


class LabelTable:
    """Label columns with their names: as much of a data frame as reading labels takes."""

    def __init__(self, values: NDArray[Any], names: list[str]) -> None:
        self.values = values
        self.columns = names
        self.shape = values.shape

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return LabelTable(self.values[key], self.columns)
        return LabelColumn(self.values[:, self.columns.index(key)])


class LabelColumn:
    """One of them."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._values = values

    def isna(self) -> NDArray[np.bool_]:
        """Where nothing was observed."""
        return np.isnan(self._values)

    def to_numpy(self) -> NDArray[Any]:
        """Values."""
        return self._values


class CsvReader:
    """Blocks of CSV files."""

    def __init__(
        self, files: list[Path], labels: Any, drop: Any, rows: int | None, sep: str
    ) -> None:
        self._pandas = require("pandas", "io")
        self._files = files
        self._options: dict[str, Any] = {
            "sep": sep,
            "index_col": False,
            "skipinitialspace": True,
        }
        self._whole: set[Path] = set()  # files whose rows are known to be as long as the header
        names = self._header(files[0])
        columns = _Columns(names, labels, drop, str(files[0]))
        for path in files[1:]:
            columns.check(self._header(path), str(path))
        self.feature_names, self._label_names = columns.feature_names, columns.label_names
        self._rows = block_rows(rows, len(names))

    def _header(self, path: Path) -> list[str]:
        check_names(path, self._options["sep"])
        return [str(n) for n in self._pandas.read_csv(path, nrows=0, **self._options).columns]

    def __call__(self) -> Iterator[Sequence[Any]]:
        dtype = dict.fromkeys(self._label_names, str)
        for path in self._files:
            with (
                self._rows_of(path) as rows,
                self._pandas.read_csv(
                    path,
                    usecols=self.feature_names + self._label_names,
                    dtype=dtype,
                    na_values=["?"],
                    chunksize=self._rows,
                    **self._options,
                ) as chunks,
            ):
                for frame in chunks:
                    if rows is not None:
                        rows.check(len(frame))
                    yield self._features(frame, path), self._labels(frame, path)
            self._whole.add(path)

    def _rows_of(self, path: Path) -> AbstractContextManager[CsvRows | None]:
        """Rows to be counted while pandas reads them, in the first pass."""
        if path in self._whole or len(self._options["sep"]) != 1:
            return nullcontext()
        return open_rows(path, self._options["sep"], skipinitialspace=True)

    def _features(self, frame: Any, path: Path) -> NDArray[np.float64]:
        table = np.empty((len(frame), len(self.feature_names)))
        for j, name in enumerate(self.feature_names):
            try:
                table[:, j] = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
            except ValueError as error:
                raise ValueError(
                    f"{path}: feature {name!r} is no number everywhere ({error}). Leave it out "
                    "with drop=, name it in labels=, or turn it into numbers first."
                ) from error
        return table

    def _labels(self, frame: Any, path: Path) -> LabelTable:
        values = np.empty((len(frame), len(self._label_names)))
        for j, name in enumerate(self._label_names):
            column = frame[name]
            codes = {text: truth(text) for text in column.dropna().unique()}
            unclear = [text for text, code in codes.items() if code is None]
            if unclear:
                raise ValueError(
                    f"{path}: label {name!r} holds {unclear[0]!r}. Labels are 0/1, -1/+1, "
                    "true/false or yes/no, and blank where not observed."
                )
            values[:, j] = column.map(codes).to_numpy(dtype=np.float64, na_value=np.nan)
        return LabelTable(values, self._label_names)


class SvmlightReader:
    """Blocks of multi-label svmlight files."""

    def __init__(
        self,
        files: list[Path],
        n_features: int,
        labels: Sequence[float],
        rows: int,
        zero_based: bool,
        absent_label: str,
    ) -> None:
        if absent_label not in ("negative", "missing"):
            raise ValueError(f"absent_label must be 'negative' or 'missing', got {absent_label!r}.")
        self._files = files
        check_count("n_features", n_features)
        self._n_features = int(n_features)
        self._place = {float(label): j for j, label in enumerate(labels)}
        if not self._place or len(self._place) < len(labels):
            raise ValueError(f"labels must name each label once, got {list(labels)!r}.")
        self._rows = block_rows(rows, n_features)
        self._zero_based = bool(zero_based)
        self._absent = 0.0 if absent_label == "negative" else np.nan

    def __call__(self) -> Iterator[Sequence[Any]]:
        for path in self._files:
            with open_svmlight(path) as file:
                rows = SvmlightRows(file, path, self._n_features, self._zero_based)
                while (block := rows.take(self._rows))[1]:
                    X, listed, _ = block
                    yield X, self._labels(listed, path)

    def _labels(self, listed: list[tuple[float, ...]], path: Path) -> NDArray[np.float64]:
        Y = np.full((len(listed), len(self._place)), self._absent)
        for i, numbers in enumerate(listed):
            for number in numbers:
                if number not in self._place:
                    raise ValueError(f"{path} lists the label {number:g}, which labels= misses.")
                Y[i, self._place[number]] = 1.0
        return Y
