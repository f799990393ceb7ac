"""CSV files: header, separator and decimal sign, rows as long as the header, cells as text."""

from __future__ import annotations

import codecs
import io
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from dm2l._utils import require
from dm2l._utils.files import (
    AnyPath,
    DataFileError,
    open_text,
    open_unpacked,
    suffix_of,
    translate_errors,
)
from dm2l.io._columns import check_distinct
from dm2l.io._label_reader import MISSING_WORDS, are_codes

# pandas compares letter by letter; columns of text are looked at once more.
_MISSING_SPELLINGS = sorted(
    {spelling for word in MISSING_WORDS for spelling in (word, word.upper(), word.title())}
)
_MISSING_SPELLINGS.append("NaN")

_SEPARATORS = ",;\t|"
_KEPT = 2**26  # bytes of a file that stay in memory for further passes over it
_PIECE = 2**20  # bytes that are read at once
_BEGINNING = 2**20  # letters, which show the decimal point
_QUOTED = re.compile(rf'(?:^|(?<=[{_SEPARATORS}]))"[^"]*+(?:""[^"]*+)*+"')


def check_separator(separator: str | None) -> None:
    """Refuse a text that cannot separate columns."""
    if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
        wanted = "one character, such as ',' or ';', and no quote or line end"
        raise ValueError(f"A separator is {wanted}; got {separator!r}.")


def check_encoding(encoding: str) -> None:
    """Refuse an unknown text encoding."""
    try:
        "".encode(encoding)
        codecs.lookup(encoding)
    except (LookupError, ValueError) as error:
        known = "utf-8, latin-1, cp1252 or another one"
        raise ValueError(f"{encoding!r} is not a text encoding; use {known}.") from error


class Record(NamedTuple):
    """One record as it stands in the file: raw cells, quotes included, and the line end."""

    cells: list[str]
    end: str

    @property
    def blank(self) -> bool:
        """Whether this is an empty line, which is no row of the table."""
        return len(self.cells) == 1 and not self.cells[0].strip()


class _RecordCutter:
    """Cuts lines into records, as pandas and the csv module do."""

    # A cell that begins with a quote runs to the closing one, over line ends too; elsewhere quotes
    # are letters. With ``skip_blanks``, blanks may come before the quote.

    def __init__(self, separator: str, *, skip_blanks: bool = False) -> None:
        self._separator = separator
        rest = rf"[^{re.escape(separator)}\r\n]*+"
        self._quote = re.compile(' *"' if skip_blanks else '"')
        self._closed = re.compile(rf'[^"]*+(?:""[^"]*+)*+"{rest}')
        self._bare = re.compile(rest)
        self._cells: list[str] = []
        self.open: list[str] = []  # of a cell whose quote is not closed yet

    def cut(self, line: str) -> Record | None:
        """The record that ends with this line, if one does."""
        if not self.open and '"' not in line:
            text = line.rstrip("\r\n")
            return Record(text.split(self._separator), line[len(text) :])
        position = 0
        while True:
            start = position
            if not self.open and (quote := self._quote.match(line, position)) is not None:
                position = quote.end()
            quoted = self.open or position > start
            cell = (self._closed if quoted else self._bare).match(line, position)
            if cell is None:
                self.open.append(line[start:])
                return None
            self._cells.append("".join([*self.open, line[start : cell.end()]]))
            self.open = []
            position = cell.end()
            if line[position : position + 1] != self._separator:
                cells, self._cells = self._cells, []
                return Record(cells, line[position:])
            position += 1


def records(text: str, separator: str) -> Iterator[Record]:
    """Cut a text into records; joining cells and ends again gives the same text."""
    cutter, begin = _RecordCutter(separator), 1
    for number, line in enumerate(io.StringIO(text, newline=""), 1):
        begin = begin if cutter.open else number
        record = cutter.cut(line)
        if record is not None:
            yield record
    if cutter.open:
        raise ValueError(f"a quote that opens in line {begin} is never closed")


def unquote(cell: str) -> str:
    """The value of a cell, without its quotes."""
    if not cell.startswith('"'):
        return cell
    close = re.match(r'"[^"]*+(?:""[^"]*+)*+"', cell)
    if close is None:
        return cell
    return close[0][1:-1].replace('""', '"') + cell[close.end() :]


def quote(value: str, separator: str, *, always: bool = False) -> str:
    """A value as a cell, in quotes where it needs them or ``always``."""
    needs = value != value.strip() or any(mark in value for mark in (separator, '"', "\r", "\n"))
    return '"' + value.replace('"', '""') + '"' if needs or always else value


class CsvFile:
    """A text file whose header line gives the ``names`` of its columns.

    ``skip_blanks``: blanks before a cell are no part of it. ``whole``: all rows have to fit into
    memory; a file of moderate size is then opened once.
    """

    def __init__(
        self,
        path: AnyPath,
        *,
        separator: str | None = None,
        decimal: str | None = ".",
        encoding: str = "utf-8",
        skip_blanks: bool = False,
        whole: bool = True,
    ) -> None:
        check_separator(separator)
        check_encoding(encoding)
        self.path, self.encoding, self._skip_blanks = Path(path), encoding, skip_blanks
        content = None
        if whole and self.path.stat().st_size <= _KEPT:
            with open_unpacked(self.path) as file:
                # In pieces: a read of so many bytes at once takes their memory before it begins.
                pieces = takewhile(len, (file.read(_PIECE) for _ in range(_KEPT // _PIECE + 1)))
                content = b"".join(pieces)
            content = content if len(content) <= _KEPT else None
        self._text = partial(open_text, path, encoding, "a table", whole=whole, content=content)
        with self._text() as lines:
            beginning = (lines.read(_BEGINNING) + lines.readline()).removeprefix("\ufeff")
        head = _head(beginning)
        if not head:
            raise DataFileError(self.path, "the file is empty", hint="A header line is needed.")
        if separator is None:
            usual = "\t" if suffix_of(path) in (".tsv", ".tab") else ","
            # Spreadsheets of countries with a decimal comma write semicolons.
            bare = _QUOTED.sub("", head)
            separator = usual if usual in bare else max(_SEPARATORS, key=bare.count)
        self.separator = separator
        self.decimal = _decimal_sign(beginning, separator) if decimal is None else decimal
        with translate_errors(path, "a table with a header"):
            first = next(records(head, separator))
        cells = [unquote(cell.lstrip() if skip_blanks else cell).strip() for cell in first.cells]
        self.names = [name or f"column {j + 1}" for j, name in enumerate(cells)]
        check_distinct(self.names, str(path))
        self._checked = False  # whether rows are known to be as long as the header

    def text(self) -> str:
        """All of the file."""
        with self._text() as lines:
            return lines.read()

    def frame(self, text: Mapping[str, Any], *, keep_codes: bool = False, **options: Any) -> Any:
        """The rows as a data frame; columns in ``text``, and codes such as 01067, stay text."""
        mark = re.escape(self.separator)
        # It begins with a letter to be found at the speed of memory; what is before it comes next.
        zeros = re.compile(rf'0(?<![^"\s{mark}]0)\d++(?=["\s{mark}]|$)')
        with self._rows(zeros if keep_codes else None) as rows:
            frame = self._parse(rows, text, **options)
        if keep_codes and rows.found:
            numbers = [
                name
                for name in self.names
                if name not in text and frame[name].dtype.kind in "iuf"
                if (frame[name].dropna() % 1 == 0).all()
            ]
            texts = self.frame(dict.fromkeys(numbers, str), usecols=numbers)
            codes = [name for name in numbers if are_codes(texts[name].dropna().unique())]
            frame[codes] = texts[codes]
        return frame

    def frames(self, rows: int, text: Mapping[str, Any], columns: list[str]) -> Iterator[Any]:
        """Data frames of at most ``rows`` rows each."""
        with self._rows() as source:
            chunks = self._parse(source, text, usecols=columns, chunksize=rows, low_memory=True)
            while True:
                with self._problems():
                    frame = next(chunks, None)
                if frame is None:
                    break
                yield frame

    def _parse(self, rows: Any, text: Mapping[str, Any], **options: Any) -> Any:
        settings = {
            "names": self.names,
            "header": 0,
            "index_col": False,
            "sep": self.separator,
            "decimal": self.decimal,
            "dtype": dict(text),
            "keep_default_na": False,
            "na_values": _MISSING_SPELLINGS,
            "low_memory": False,
            "skipinitialspace": self._skip_blanks,
        }
        with self._problems():
            return require("pandas", "io").read_csv(rows, **settings | options)

    @contextmanager
    def _problems(self) -> Iterator[None]:
        with translate_errors(self.path, "a table"), warnings.catch_warnings():
            # Rows longer than the header: pandas would cut them off and only warn.
            warnings.simplefilter("error", require("pandas", "io").errors.ParserWarning)
            yield

    @contextmanager
    def _rows(self, wanted: re.Pattern[str] | None = None) -> Iterator[Any]:
        """The text of the file, of which the first pass checks every row."""
        width, options = len(self.names), {"skip_blanks": self._skip_blanks}
        with self._text() as lines:
            checked = check_rows(lines, self.path, self.separator, width, **options)
            unchecked = self._checked and wanted is None
            yield lines if unchecked else LineReader(checked, wanted)
            self._checked = True


def _head(beginning: str) -> str:
    """The first line with something on it, and those that a quote in it runs over."""
    lines = io.StringIO(beginning, newline="")
    head = [next((line for line in lines if line.strip("\ufeff \t\r\n")), "")]
    quotes = head[0].count('"')
    while quotes % 2 and (line := lines.readline()):
        head.append(line)
        quotes += line.count('"')
    return "".join(head)


def _decimal_sign(beginning: str, separator: str) -> str:
    """The sign between the digits of numbers that fill a cell."""
    if separator == ",":
        return "."
    edge = rf'["\r\n{re.escape(separator)}]'
    thousands = rf"[1-9]\d{{0,2}}[.,]\d{{3}}{edge}"  # perhaps: they decide nothing
    number = re.compile(rf"(?<={edge})[+-]?(?!{thousands})\d+([.,])\d+(?={edge})")
    return "," if set(number.findall(beginning)) == {","} else "."


class LineReader:
    """Lines as a file that pandas reads; ``wanted`` is looked for in them."""

    def __init__(self, lines: Iterator[str], wanted: re.Pattern[str] | None = None) -> None:
        self._lines, self._wanted = lines, wanted
        self.found = False

    def read(self, size: int = -1) -> str:
        """The next lines, together of about this size."""
        found, length = [], 0
        for line in self._lines:
            found.append(line)
            length += len(line)
            if 0 <= size <= length:
                break
        text = "".join(found)
        if self._wanted is not None and not self.found:
            self.found = self._wanted.search(text) is not None
        return text


def check_rows(
    lines: TextIO, path: AnyPath, separator: str, width: int, *, skip_blanks: bool = False
) -> Iterator[str]:
    """The same lines; an error where a row is not as long as the header: pandas fills it up."""
    cutter = _RecordCutter(separator, skip_blanks=skip_blanks)
    blanks = " \t\r\n\ufeff".replace(separator, "")
    row, begin = 0, 1
    for number, line in enumerate(lines, 1):
        # Without quotes a line is a row; to count its separators takes half as long as pandas does.
        if not cutter.open and '"' not in line:
            begin, count = number, 1 + line.count(separator)
            cells = count if count == width > 1 or line.strip(blanks) else 0
        else:
            begin = begin if cutter.open else number
            record = cutter.cut(line.removeprefix("\ufeff") if number == 1 else line)
            cells = 0 if record is None else len(record.cells)
        if cells and cells != width:
            reason = f"row {row} has {cells} cells, the header has {width}"
            raise DataFileError(path, reason, place=f"line {begin}", hint="Make them agree.")
        row += cells > 0
        yield line
