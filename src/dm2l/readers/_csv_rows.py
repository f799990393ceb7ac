"""Rows of a CSV file that are too short or too long, which pandas fills up or cuts in silence."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from dm2l.files import DataFileError


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
