"""Columns written as CSV, TSV, Parquet or Excel, results as plain values for JSON."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from dm2l._utils.extras import require
from dm2l._utils.files import EXCEL, PARQUET, TEXT, atomic_write
from dm2l.io._xlsx_file import write_sheet

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?[\d.,]+([eE][+-]?\d+)?")


def check_suffix(path: Path) -> None:
    """Refuse a name whose suffix is no form in which columns are written."""
    known = (*TEXT, *PARQUET, *EXCEL)
    if path.suffix.lower() not in known:
        raise ValueError(f"{path}: the name must end in one of {', '.join(known)}.")


def write_columns(path: Path, columns: Mapping[str, Any], *, safe: bool = False) -> None:
    """Write columns as CSV, TSV, Parquet or Excel, by the suffix; None is a blank.

    With ``safe`` no text of a CSV file is one that a spreadsheet takes for a formula.
    """
    check_suffix(path)
    suffix = path.suffix.lower()
    with atomic_write(path) as partial:
        if suffix in PARQUET:
            pandas = require("pandas", "io")
            pandas.DataFrame(dict(columns)).to_parquet(partial, index=False)
            return
        rows = chain([list(columns)], zip(*columns.values(), strict=True))
        if suffix in EXCEL:
            write_sheet(partial, rows)
            return
        with partial.open("w", encoding="utf-8", newline="") as file:
            separator = "\t" if suffix in (".tsv", ".tab") else ","
            writer = csv.writer(file, delimiter=separator, lineterminator="\n")
            for row in rows:
                writer.writerow(map(harmless, row) if safe else row)


def harmless(value: Any) -> Any:
    """The value, with an apostrophe before text that begins like a formula and is no number."""
    if isinstance(value, str) and value.startswith(_FORMULA) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def plain_values(value: Any) -> Any:
    """Dataclasses, arrays and numbers as values for JSON; what is undefined is None."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain_values(vars(value))
    if hasattr(value, "_asdict"):
        return plain_values(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): plain_values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain_values(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
