"""Writing columns as CSV, TSV, Parquet or Excel, and results as JSON values or HTML."""

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dm2l._utils import require
from dm2l._utils.files import EXCEL, PARQUET, TEXT, atomic_write, printable
from dm2l.io._xlsx_file import write_sheet

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?[\d.,]+([eE][+-]?\d+)?")


def check_suffix(path: Path) -> None:
    """Reject a file name with a suffix that is not a format for columns."""
    known = (*TEXT, *PARQUET, *EXCEL)
    if path.suffix.lower() not in known:
        raise ValueError(f"{path} must end in {', '.join(known[:-1])} or {known[-1]}.")


def write_columns(path: Path, columns: Mapping[str, Any], *, safe: bool = False) -> None:
    """Write columns in the format of the suffix; ``safe`` escapes formulas in text files."""
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
    """Convert results to plain data: for JSON, or for model files, which keep arrays and NaN."""
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


YES, NO, OPEN = "#2f6f8f", "#b4632a", "#d5dade"
MOST_ROWS = 100  # maximum number of rows of a table; the number of further rows is printed
_CELL = "padding:2px 8px;text-align:{};vertical-align:middle"


class Bar(NamedTuple):
    """Make a stacked bar with a tooltip, from shares of the cell width and their colours."""

    parts: tuple[tuple[float, str], ...]
    words: str


Cell = str | int | float | Bar


def block(headline: str, *parts: str) -> str:
    """Make an HTML block of a headline and the parts below it."""
    return f"<div><p><strong>{_text(headline)}</strong></p>{''.join(parts)}</div>"


def grid(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Make an HTML table with numbers aligned to the right."""
    head = "".join(f'<th style="{_CELL.format("left")}">{_text(name)}</th>' for name in headings)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:MOST_ROWS])
    more = lines([f"{len(rows) - MOST_ROWS} more rows"]) if len(rows) > MOST_ROWS else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return table + more


def lines(texts: Iterable[str]) -> str:
    """Make an HTML list; an empty string without items."""
    items = "".join(f"<li>{_text(text)}</li>" for text in texts)
    return f"<ul>{items}</ul>" if items else ""


def _cell(cell: Cell) -> str:
    if isinstance(cell, Bar):
        drawn = "".join(
            f'<span style="display:inline-block;height:.8em;background:{colour};'
            f'width:{100 * min(max(share, 0.0), 1.0):.1f}%"></span>'
            for share, colour in cell.parts
            if share == share
        )
        style = "width:10em;line-height:.8em;font-size:inherit;white-space:nowrap"
        bar = f'<div style="{style}" title="{_text(cell.words)}">{drawn}</div>'
        return f'<td style="{_CELL.format("left")}">{bar}</td>'
    if isinstance(cell, str):
        return f'<td style="{_CELL.format("left")}">{_text(cell)}</td>'
    shown = f"{cell:,}" if isinstance(cell, int) else "-" if cell != cell else f"{cell:.3f}"
    return f'<td style="{_CELL.format("right")}">{shown}</td>'


def _text(text: str) -> str:
    return escape(printable(text))
