"""The text of a CSV file cell by cell: what is not edited comes out byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Record(NamedTuple):
    """One record as it stands in the file: raw cells, quotes included, and what ends it."""

    cells: list[str]
    end: str

    @property
    def blank(self) -> bool:
        """Whether this is an empty line, which is no row of the table."""
        return len(self.cells) == 1 and not self.cells[0].strip()


def records(text: str, separator: str) -> Iterator[Record]:
    """Cut a text into records; joining cells and ends again gives the same text.

    A cell that begins with a quote runs to the closing one, whatever stands between; elsewhere
    quotes are letters. This is how pandas and the csv module read.
    """
    mark = re.escape(separator)
    cell = rf'"[^"]*+(?:""[^"]*+)*+"[^{mark}\r\n]*+|(?!")[^{mark}\r\n]*+'
    token = re.compile(rf"({cell})({mark}|\r\n|\n|\r|\Z)")
    line_end = re.compile(r"\r\n|\n|\r|\Z")
    position = 0
    cells: list[str] = []
    while position < len(text) or cells:
        end = None if cells else line_end.search(text, position)
        # Without quotes a line is a record, and split takes a tenth of the time.
        if end is not None and '"' not in (line := text[position : end.start()]):
            yield Record(line.split(separator), end[0])
            position = end.end()
            continue
        match = token.match(text, position)
        if match is None:
            number = 1 + len(re.findall(r"\r\n|\n|\r", text[:position]))
            raise ValueError(f"a quote that opens in line {number} is never closed")
        cells.append(match[1])
        position = match.end()
        if match[2] != separator:
            yield Record(cells, match[2])
            cells = []


def plain(cell: str) -> str:
    """What a raw cell says, without its quotes."""
    if not cell.startswith('"'):
        return cell
    close = re.match(r'"[^"]*+(?:""[^"]*+)*+"', cell)
    if close is None:
        return cell
    return close[0][1:-1].replace('""', '"') + cell[close.end() :]


def raw(value: str, separator: str, *, always: bool = False) -> str:
    """A value as a cell, in quotes where it needs them."""
    needs = value != value.strip() or any(mark in value for mark in (separator, '"', "\r", "\n"))
    return '"' + value.replace('"', '""') + '"' if needs or always else value
