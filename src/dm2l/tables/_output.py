"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

from dm2l.datasets._columns import require

TEXT = (".csv", ".tsv", ".tab", ".txt")
PARQUET = (".parquet", ".pq")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path in the same folder to write to; renamed to ``path`` when all went well."""
    # The suffix stays the last: some writers go by it.
    partial = path.with_name(f".{token_hex(4)}.part.{path.name}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def check_suffix(path: Path) -> None:
    """Refuse a name that does not say which form the file should have."""
    if path.suffix.lower() not in (*TEXT, *PARQUET):
        raise ValueError(f"{path}: the name has to end in one of {', '.join((*TEXT, *PARQUET))}.")


def write_columns(path: Path, columns: Mapping[str, Any]) -> None:
    """Write columns as CSV, TSV or Parquet, by the suffix; None is a blank."""
    check_suffix(path)
    suffix = path.suffix.lower()
    with whole_file(path) as partial:
        if suffix in PARQUET:
            pandas = require("pandas", "io")
            pandas.DataFrame(dict(columns)).to_parquet(partial, index=False)
            return
        with partial.open("w", encoding="utf-8", newline="") as file:
            separator = "\t" if suffix in (".tsv", ".tab") else ","
            writer = csv.writer(file, delimiter=separator, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
