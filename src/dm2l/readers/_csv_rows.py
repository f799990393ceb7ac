"""Rows of a CSV file that are too short or too long, which pandas fills up or cuts in silence."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


class CsvRows:
    """The rows of a CSV file, to see that each has as many cells as the header.

    What is a row and what a cell is as in pandas: a cell that begins with a quote runs to the
    closing one, and blank lines are no rows.

    Parameters
    ----------
    lines : iterable of str
        The text, with its line ends.
    where : str
        The file.
    sep : str
        The one character between cells.
    skipinitialspace : bool, default=False
        Whether blanks before a cell are none of it.
    """

    def __init__(
        self, lines: Iterable[str], where: str, sep: str, *, skipinitialspace: bool = False
    ) -> None:
        self._where, self._sep = where, sep
        self._blanks = " \t\r\n".replace(sep, "")
        self._lines = iter(lines)
        self._line = self._row = 0
        self._first: list[str] = []  # a line that is read, for the csv module to go on from
        self._cells = csv.reader(self._fed(), delimiter=sep, skipinitialspace=skipinitialspace)
        self.header: list[str] = []
        for line in self._lines:
            self._line += 1
            line = line.removeprefix("\ufeff") if self._line == 1 else line
            if line.strip(self._blanks):
                self._first.append(line)
                self.header = next(self._cells)
                break

    def check(self, rows: int | None = None) -> None:
        """Raise if one of the next rows, or of all, has more or fewer cells than the header."""
        commas, sep = len(self.header) - 1, self._sep
        last = None if rows is None else self._row + rows
        limit = csv.field_size_limit(2**31 - 1)  # a long text is no mistake
        try:
            while self._row != last and (line := next(self._lines, None)) is not None:
                self._line += 1
                # Without quotes a line is a row, and counting takes half the time in which pandas
                # reads it; the csv module takes more than pandas.
                if '"' not in line and line.count(sep) == commas > 0:
                    self._row += 1
                elif line.strip(self._blanks):
                    self._check_cells(line)
        finally:
            csv.field_size_limit(limit)

    def _check_cells(self, line: str) -> None:
        start, size = self._line, len(self.header)
        self._first.append(line)
        found = len(next(self._cells))
        self._row += 1
        if found != size:
            raise ValueError(
                f"{self._where}: row {self._row} (line {start}) has {found} cells, the header has "
                f"{size}. Make them agree."
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


def refuse_short_rows(frame: Any, path: str | Path, sep: str, **options: Any) -> None:
    """Raise if pandas has filled up a row of the file: such a row of the frame ends in a hole."""
    if frame.iloc[:, -1].isna().any():
        with open_rows(path, sep, **options) as rows:
            rows.check()


@contextmanager
def open_rows(
    path: str | Path, sep: str, encoding: str = "utf-8", **options: Any
) -> Iterator[CsvRows]:
    """The rows of a file, unpacked if it ends in .gz, .bz2, .xz or .zip, as in pandas."""
    path = Path(path)
    with ExitStack() as stack:
        file: IO[bytes]
        if path.suffix == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(path))
            file = stack.enter_context(archive.open(archive.namelist()[0]))
        else:
            file = stack.enter_context(_OPENERS.get(path.suffix, open)(path, "rb"))
        text = stack.enter_context(io.TextIOWrapper(file, encoding=encoding, newline=""))
        yield CsvRows(text, str(path), sep, **options)
