"""Parquet files, whose announced size is checked before they are read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dm2l._utils.extras import require
from dm2l._utils.files import check_regular, translate_errors
from dm2l._utils.memory import check_memory
from dm2l.io._columns import check_distinct
from dm2l.io._unpacking import MEMORY_HINT

PARQUET = (".parquet", ".pq")
_FACTOR = 4.0  # bytes in memory for a byte of the unpacked table, as for text


def translate_arrow_errors(path: str | os.PathLike[str]) -> Any:
    """A context that turns errors of pyarrow into errors of the file."""
    arrow = require("pyarrow", "io")
    return translate_errors(path, "a Parquet file", arrow.lib.ArrowException)


@contextmanager
def open_parquet(path: str | os.PathLike[str], **options: Any) -> Iterator[Any]:
    """A ``pyarrow.parquet.ParquetFile`` whose columns have names of their own."""
    parquet = require("pyarrow.parquet", "io")
    check_regular(path)
    with translate_arrow_errors(path):
        file = parquet.ParquetFile(path, **options)
        names = list(file.schema_arrow.names)
    with file:
        check_distinct(names, str(path))
        yield file


def read_frame(path: str | os.PathLike[str], *, ignore_metadata: bool = False) -> Any:
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
    check_memory(path, _FACTOR * size, f"a table of {rows} rows and {columns} columns", MEMORY_HINT)
    # A text that is stored once is kept once: 3 KB of file became 4 GB.
    with open_parquet(path, read_dictionary=texts) as file, translate_arrow_errors(path):
        frame = file.read().to_pandas(ignore_metadata=ignore_metadata)
        for name in texts:
            if name in frame:  # and not the index
                frame[name] = frame[name].astype(object)
    return frame
