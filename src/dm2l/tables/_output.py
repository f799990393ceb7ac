"""Writing columns as CSV, TSV, Parquet or Excel, and results as JSON values."""

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from dm2l._utils import require
from dm2l._utils.files import EXCEL, PARQUET, TABLES, atomic_write
from dm2l.io._xlsx_file import write_sheet

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?[\d.,]+([eE][+-]?\d+)?")


def check_suffix(path: Path) -> None:
    """Reject a file name whose suffix is not that of a text, Parquet or Excel file."""
    if path.suffix.lower() not in TABLES:
        raise ValueError(f"{path} must end in {', '.join(TABLES[:-1])} or {TABLES[-1]}.")


def write_columns(path: Path, columns: Mapping[str, Any], *, safe: bool = False) -> None:
    """Write columns to a file whose suffix names the format; ``safe`` escapes formulas in text."""
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
    """Put an apostrophe before text that begins like a formula and is not a number."""
    if isinstance(value, str) and value.startswith(_FORMULA) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def plain_values(value: Any, *, json: bool = True) -> Any:
    """Convert results to plain data for JSON or, with arrays and NaN, for model files."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    elif json and hasattr(value, "_asdict"):
        value = value._asdict()
    elif isinstance(value, np.generic) or (json and isinstance(value, np.ndarray)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain_values(item, json=json) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(item, json=json) for item in value]
    if json and isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
