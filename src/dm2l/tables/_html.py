"""Tables with bars for notebooks: HTML without scripts, in which every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from dm2l._utils.files import printable

YES, NO, OPEN = "#2f6f8f", "#b4632a", "#d5dade"
# Rows of a table; of more, the rest is counted.
MOST_ROWS = 100
_CELL = "padding:2px 8px;text-align:{};vertical-align:middle"


class Bar(NamedTuple):
    """Shares of the width of a cell, each with its colour, and what they mean in words."""

    parts: tuple[tuple[float, str], ...]
    words: str

    def html(self) -> str:
        """The bar."""
        drawn = "".join(
            f'<span style="display:inline-block;height:.8em;background:{colour};'
            f'width:{100 * min(max(share, 0.0), 1.0):.1f}%"></span>'
            for share, colour in self.parts
            if share == share
        )
        style = "width:10em;line-height:.8em;font-size:inherit;white-space:nowrap"
        return f'<div style="{style}" title="{_text(self.words)}">{drawn}</div>'


Cell = str | int | float | Bar


def block(headline: str, *parts: str) -> str:
    """A headline and what comes below it."""
    return f"<div><p><strong>{_text(headline)}</strong></p>{''.join(parts)}</div>"


def grid(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A table; numbers stand at the right, bars and texts at the left."""
    head = "".join(f'<th style="{_CELL.format("left")}">{_text(name)}</th>' for name in headings)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:MOST_ROWS])
    more = lines([f"{len(rows) - MOST_ROWS} more rows"]) if len(rows) > MOST_ROWS else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return table + more


def lines(texts: Iterable[str]) -> str:
    """A list of remarks; nothing for none."""
    items = "".join(f"<li>{_text(text)}</li>" for text in texts)
    return f"<ul>{items}</ul>" if items else ""


def _cell(cell: Cell) -> str:
    if isinstance(cell, Bar):
        return f'<td style="{_CELL.format("left")}">{cell.html()}</td>'
    if isinstance(cell, str):
        return f'<td style="{_CELL.format("left")}">{_text(cell)}</td>'
    shown = f"{cell:,}" if isinstance(cell, int) else "-" if cell != cell else f"{cell:.3f}"
    return f'<td style="{_CELL.format("right")}">{shown}</td>'


def _text(text: str) -> str:
    return escape(printable(text))
