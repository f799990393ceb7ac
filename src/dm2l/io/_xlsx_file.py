"""The first sheet of an Excel file: read as a data frame, changed, written."""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dm2l._utils.extras import require
from dm2l._utils.files import DataFileError, check_regular, reading
from dm2l._utils.memory import check_room, room
from dm2l.io._columns import check_distinct
from dm2l.io._unpacking import FEWER

__all__ = ["EXCEL", "MOST_COLUMNS", "edit_sheet", "read_sheet", "write_sheet"]

EXCEL = (".xlsx",)
# Bytes in memory for a byte of unpacked XML; a cell takes about 40 there, and as an object here.
_FACTOR = 3.0
# The same where every cell is kept with its style, to be written again.
_EDITED = 8.0
# Bytes of a cell that is not in the file at all, here and in a data frame.
_BLANK = 32
# Those of Excel. A file that says its next row is a later one has all in between counted.
_MOST_ROWS, MOST_COLUMNS = 2**20, 2**14
_MOST_LETTERS = 2**15 - 1  # of a cell; openpyxl cuts off what is more


def read_sheet(path: str | os.PathLike[str]) -> Any:
    """All rows of the first sheet, with its first row for names; blank rows do not count.

    Of formulas the values are read that the program which saved the file has computed.
    """
    pandas, openpyxl = require("pandas", "io"), require("openpyxl", "excel")
    _check_size(path, _FACTOR)
    most = room() / _BLANK
    names: list[str] = []
    columns: list[list[Any]] = []
    with reading(path, "an Excel file"), Path(path).open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of styles and rules, which are not read
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        try:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # what a file announces need not be so
            for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
                made = len(columns) and len(columns) * len(columns[0])
                if number > _MOST_ROWS or made > most:
                    why = "more rows than Excel has" if made <= most else "more than fits in memory"
                    place = f"row {number} of the sheet"
                    raise DataFileError(path, why, place=place, way_out=FEWER)
                size = _width(row)
                if not size:
                    continue
                if not names:
                    names = [_name(cell, j) for j, cell in enumerate(row[:size])]
                    columns = [[] for _ in names]
                    continue
                if size > len(names):
                    raise DataFileError(
                        path,
                        f"a cell beyond the {len(names)} columns of the header",
                        place=f"row {number} of the sheet",
                        way_out="Give its column a name, or clear it.",
                    )
                for j, column in enumerate(columns):
                    column.append(row[j] if j < len(row) else None)
        finally:
            book.close()
    if not names:
        raise DataFileError(path, "its first sheet is empty")
    check_distinct(names, str(path))
    return pandas.DataFrame(dict(zip(names, columns, strict=True)))


def edit_sheet(path: str | os.PathLike[str]) -> tuple[Any, Any, list[int]]:
    """A workbook to be changed and saved again, its first sheet, and the rows that are not blank.

    Formulas stay formulas, and whatever is in other sheets stays.
    """
    openpyxl = require("openpyxl", "excel")
    _check_size(path, _EDITED)
    with reading(path, "an Excel file"), Path(path).open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        book = openpyxl.load_workbook(file)
    sheet = book.worksheets[0]
    rows = enumerate(sheet.iter_rows(values_only=True), 1)
    return book, sheet, [number for number, row in rows if _width(row)]


def write_sheet(path: str | os.PathLike[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write rows as the only sheet of a file; text is text, also if it begins with ``=``."""
    book = require("openpyxl", "excel").Workbook(write_only=True)
    sheet = book.create_sheet()
    try:
        for number, row in enumerate(rows, 1):
            sheet.append(_new_cells(sheet, row, number))
    except ValueError:
        sheet.close()
        raise
    book.save(path)


def _new_cells(sheet: Any, row: Sequence[Any], number: int) -> list[Any]:
    """Cells for the values of a row; ``number`` is for messages."""
    make = require("openpyxl.cell", "excel").WriteOnlyCell
    fault = require("openpyxl.utils.exceptions", "excel").IllegalCharacterError
    longest = max((len(value) for value in row if isinstance(value, str)), default=0)
    if number > _MOST_ROWS or len(row) > MOST_COLUMNS or longest > _MOST_LETTERS:
        raise ValueError(
            f"Row {number} is beyond what Excel takes ({_MOST_ROWS} rows, {MOST_COLUMNS} columns, "
            f"{_MOST_LETTERS} letters a cell); write a .csv file."
        )
    try:
        cells = [make(sheet, value) for value in row]
    except fault as error:
        raise ValueError(
            f"Row {number} holds a control character, which Excel does not take; write a .csv file."
        ) from error
    for cell, value in zip(cells, row, strict=True):
        if isinstance(value, str):
            cell.data_type = "s"
    return cells


def _check_size(path: str | os.PathLike[str], factor: float) -> None:
    check_regular(path)
    with reading(path, "an Excel file"), zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    check_room(path, factor * size, "a sheet of this size", FEWER)


def _width(row: tuple[Any, ...]) -> int:
    """Cells up to the last that holds something."""
    return max((j + 1 for j, cell in enumerate(row) if cell is not None), default=0)


def _name(cell: Any, j: int) -> str:
    return ("" if cell is None else str(cell).strip()) or f"column {j + 1}"
