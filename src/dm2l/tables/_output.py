"""Tables out: CSV, TSV or Parquet."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dm2l.extras import require
from dm2l.files import whole_file
from dm2l.readers.csv_file import TEXT
from dm2l.readers.parquet_file import PARQUET


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
