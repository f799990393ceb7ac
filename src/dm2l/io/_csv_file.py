"""Text files of tables: a header, a separator, and rows as long as the header."""

from __future__ import annotations

import codecs
import csv
import os
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np

from dm2l._utils.extras import require
from dm2l._utils.files import DataFileError, reading
from dm2l.io._columns import check_distinct
from dm2l.io._unpacking import form, open_text, open_unpacked
from dm2l.io._words import HOLES, are_codes
from dm2l.io.cells import plain, records

__all__ = ["TEXT", "CsvFile", "check_encoding", "check_separator"]

TEXT = (".csv", ".tsv", ".tab", ".txt")

# pandas compares letter by letter; columns of text are looked at once more.
_SPELT_HOLES = sorted({form for word in HOLES for form in (word, word.upper(), word.title())})
_SPELT_HOLES.append("NaN")

_SEPARATORS = ",;\t|"
_BEGINNING = 2**20  # letters, which show the decimal point
_QUOTED = re.compile(rf'(?:^|(?<=[{_SEPARATORS}]))"[^"]*+(?:""[^"]*+)*+"')


def check_separator(separator: str | None) -> None:
    """Refuse what cannot separate columns."""
    if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
        raise ValueError(
            f"A separator is one character, such as ',' or ';', and no quote or line end; got "
            f"{separator!r}."
        )


def check_encoding(encoding: str) -> None:
    """Refuse what is not a text encoding."""
    try:
        "".encode(encoding)
        codecs.lookup(encoding)
    except (LookupError, ValueError) as error:
        raise ValueError(
            f"{encoding!r} is not a text encoding; use utf-8, latin-1, cp1252 or another one."
        ) from error


class CsvFile:
    """A text file whose header line gives the ``names`` of its columns.

    A ``separator`` of None goes by the header, a ``decimal`` of None by the first rows: it is a
    comma where something else separates columns and numbers have commas only. ``skip_blanks``:
    blanks before a cell are no part of it. ``whole``: all rows have to fit into memory.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        separator: str | None = None,
        decimal: str | None = ".",
        encoding: str = "utf-8",
        skip_blanks: bool = False,
        whole: bool = True,
    ) -> None:
        check_separator(separator)
        check_encoding(encoding)
        self.path, self.encoding = Path(path), encoding
        self._skip_blanks, self._in_memory = skip_blanks, whole
        head = self._head()
        if separator is None:
            usual = "\t" if form(path) in (".tsv", ".tab") else ","
            # Spreadsheets of countries with a decimal comma write semicolons.
            bare = _QUOTED.sub("", head)
            separator = usual if usual in bare else max(_SEPARATORS, key=bare.count)
        self.separator = separator
        self.decimal = self._point() if decimal is None else decimal
        with reading(path, "a table with a header"):
            first = next(records(head, separator))
        cells = [plain(cell.lstrip() if skip_blanks else cell).strip() for cell in first.cells]
        self.names = [name or f"column {j + 1}" for j, name in enumerate(cells)]
        check_distinct(self.names, str(path))
        self._whole = False  # whether rows are known to be as long as the header

    def frame(self, text: Mapping[str, Any], **options: Any) -> Any:
        """The rows as a data frame; columns in ``text`` are left as they stand."""
        with open_unpacked(self.path, whole=self._in_memory) as file, self._problems():
            frame = require("pandas", "io").read_csv(file, **self._options(text), **options)
        # pandas fills up a row that is too short: such a row ends in a hole.
        if not self._whole and len(frame) and frame.iloc[:, -1].isna().any():
            with self._counted() as rows:
                rows.check()
        self._whole = True
        return frame

    def codes(self, frame: Any, skip: Collection[str]) -> Any:
        """Columns of :meth:`frame` that became numbers and are codes such as 01067, as text."""
        edge = rf'["\s{re.escape(self.separator)}]'
        zeros = re.compile(rf"(?:^|{edge})0\d+(?:{edge}|$)")
        whole = [name for name in self.names if name not in skip and _whole(frame[name])]
        with self._text() as lines:
            # Nearly all files have none, and need not be read again.
            if not whole or not any(zeros.search(line) for line in lines):
                return frame[[]]
        texts = self.frame(dict.fromkeys(whole, str), usecols=whole)
        return texts[[name for name in whole if are_codes(texts[name].dropna().unique())]]

    def frames(self, rows: int, text: Mapping[str, Any], columns: list[str]) -> Iterator[Any]:
        """The same for so many rows at a time."""
        options = self._options(text) | {"low_memory": True}
        with open_unpacked(self.path, whole=self._in_memory) as file, self._counted() as counted:
            with self._problems():
                chunks = require("pandas", "io").read_csv(
                    file, usecols=columns, chunksize=rows, **options
                )
            while True:
                with self._problems():
                    frame = next(chunks, None)
                if frame is None:
                    break
                if not self._whole:  # in the first pass
                    counted.check(len(frame))
                yield frame
        self._whole = True

    def _options(self, text: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "names": self.names,
            "header": 0,
            "index_col": False,
            "sep": self.separator,
            "decimal": self.decimal,
            "encoding": self.encoding,
            "dtype": dict(text),
            "keep_default_na": False,
            "na_values": _SPELT_HOLES,
            "low_memory": False,
            "skipinitialspace": self._skip_blanks,
        }

    @contextmanager
    def _problems(self) -> Iterator[None]:
        pandas = require("pandas", "io")
        with (
            reading(self.path, "a table", pandas.errors.ParserWarning),
            warnings.catch_warnings(),
        ):
            # Rows longer than the header: pandas would cut them off and only warn.
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            yield

    @contextmanager
    def _counted(self) -> Iterator[CsvRows]:
        with self._text() as lines:
            yield CsvRows(lines, self.path, self.separator, skip_blanks=self._skip_blanks)

    def _text(self) -> AbstractContextManager[TextIOWrapper]:
        return open_text(self.path, self.encoding, "a table", whole=self._in_memory)

    def _head(self) -> str:
        """The first line with something on it, and those that a quote in it runs over."""
        with self._text() as lines:
            head = [next((line for line in lines if line.strip("\ufeff \t\r\n")), "")]
            quotes = head[0].count('"')
            while quotes % 2 and (line := lines.readline()):
                head.append(line)
                quotes += line.count('"')
        text = "".join(head).removeprefix("\ufeff")
        if not text:
            raise DataFileError(self.path, "the file is empty", way_out="A header line is needed.")
        return text

    def _point(self) -> str:
        """The sign between the digits of numbers that fill a cell."""
        if self.separator == ",":
            return "."
        edge = rf'["\r\n{re.escape(self.separator)}]'
        thousands = rf"[1-9]\d{{0,2}}[.,]\d{{3}}{edge}"  # perhaps: they decide nothing
        number = re.compile(rf"(?<={edge})[+-]?(?!{thousands})\d+([.,])\d+(?={edge})")
        with self._text() as lines:
            found = set(number.findall(lines.read(_BEGINNING)))
        return "," if found == {","} else "."


def _whole(column: Any) -> bool:
    """Whether a column holds whole numbers, and perhaps blanks."""
    if column.dtype.kind == "f":
        values = column.to_numpy()
        return bool(((values == np.round(values)) | np.isnan(values)).all())
    return column.dtype.kind in "iu"


class CsvRows:
    """The rows of a CSV file, to see that each has as many cells as the header.

    What is a row and what a cell is as in pandas: a cell that begins with a quote runs to the
    closing one, and blank lines are no rows.
    """

    def __init__(
        self,
        lines: Iterable[str],
        where: str | os.PathLike[str],
        separator: str,
        *,
        skip_blanks: bool = False,
    ) -> None:
        self._where, self._separator = where, separator
        self._blanks = " \t\r\n".replace(separator, "")
        self._lines = iter(lines)
        self._line = self._row = 0
        self._first: list[str] = []  # a line that is read, for the csv module to go on from
        self._cells = csv.reader(self._fed(), delimiter=separator, skipinitialspace=skip_blanks)
        self.header: list[str] = []
        with self._long_cells():
            for line in self._lines:
                self._line += 1
                line = line.removeprefix("\ufeff") if self._line == 1 else line
                if line.strip(self._blanks):
                    self._first.append(line)
                    self.header = next(self._cells)
                    break

    def check(self, rows: int | None = None) -> None:
        """Raise if one of the next rows, or of all, has more or fewer cells than the header."""
        commas, separator = len(self.header) - 1, self._separator
        last = None if rows is None else self._row + rows
        with self._long_cells():
            while self._row != last and (line := next(self._lines, None)) is not None:
                self._line += 1
                # Without quotes a line is a row, and counting takes half the time in which pandas
                # reads it; the csv module takes more than pandas.
                if '"' not in line and line.count(separator) == commas > 0:
                    self._row += 1
                elif line.strip(self._blanks):
                    self._check_cells(line)

    def _check_cells(self, line: str) -> None:
        start, size = self._line, len(self.header)
        self._first.append(line)
        found = len(next(self._cells))
        self._row += 1
        if found != size:
            raise DataFileError(
                self._where,
                f"row {self._row} has {found} cells, the header has {size}",
                place=f"line {start}",
                way_out="Make them agree.",
            )

    def _fed(self) -> Iterator[str]:
        """Lines of the row that begins with the first one."""
        while True:
            if self._first:
                yield self._first.pop()
            else:
                line = next(self._lines, None)
                if line is None:
                    return
                self._line += 1
                yield line

    @contextmanager
    def _long_cells(self) -> Iterator[None]:
        """A long text is no mistake."""
        limit = csv.field_size_limit(2**31 - 1)
        try:
            yield
        except csv.Error as error:
            raise DataFileError(self._where, str(error), place=f"line {self._line}") from error
        finally:
            csv.field_size_limit(limit)
