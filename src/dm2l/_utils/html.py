"""HTML tables, lists and bars that show results in notebooks, with escaped names."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from dm2l._utils.files import printable


def percent(part: int, whole: int) -> str:
    """Format a share as a percentage; only exact 0 and 1 become 0% and 100%."""
    share = part / max(whole, 1)
    text = f"{share:.0%}"
    if text in ("0%", "100%") and 0 < part < whole:
        text = f"{min(max(share, 0.001), 0.999):.1%}"
    return text


YES, NO, OPEN = "#2f6f8f", "#b4632a", "#d5dade"
MOST_ROWS = 100  # maximum number of table rows; the number of omitted rows is shown
_CELL = "padding:2px 8px;text-align:{};vertical-align:middle"


class Bar(NamedTuple):
    """Stacked bar with a tooltip, drawn from shares of the cell width and their colours."""

    parts: tuple[tuple[float, str], ...]
    words: str


Cell = str | int | float | Bar


def block(headline: str, *parts: str) -> str:
    """Make an HTML block from a headline and the parts below it."""
    return f"<div><p><strong>{_text(headline)}</strong></p>{''.join(parts)}</div>"


def grid(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Make an HTML table with numbers aligned to the right."""
    head = "".join(f'<th style="{_CELL.format("left")}">{_text(name)}</th>' for name in headings)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:MOST_ROWS])
    more = lines([f"{len(rows) - MOST_ROWS} more rows"]) if len(rows) > MOST_ROWS else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return table + more


def lines(texts: Iterable[str]) -> str:
    """Make an HTML list, or an empty string if there are no items."""
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
