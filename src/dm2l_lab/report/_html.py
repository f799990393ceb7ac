"""Sheets as HTML, and the small words of which a page is made."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping

from dm2l_lab._results import Place
from dm2l_lab.report._sheets import Item, Sheet

_LONG = 36  # letters that a column may wrap

Anchor = Callable[[Place], str | None]

_CONTROL = dict.fromkeys((*range(32), *range(127, 160)), "\N{REPLACEMENT CHARACTER}")
_CONTROL |= dict.fromkeys(map(ord, "\t\n\r"), " ")


def printable(text: object) -> str:
    """A text on one line without characters that no page may hold."""
    return str(text).translate(_CONTROL)


def escape(text: object) -> str:
    """A text in which nothing is markup, neither between tags nor in an attribute.

    Examples
    --------
    >>> from dm2l_lab.report._html import escape
    >>> escape('<b title="x">&')
    '&lt;b title=&quot;x&quot;&gt;&amp;'
    """
    return html.escape(printable(text))


def element(tag: str, content: str = "", attributes: Mapping[str, object] | None = None) -> str:
    """An element; the content is HTML, values of attributes are text.

    Attributes that are None are left out.
    """
    found = attributes or {}
    shown = "".join(f' {k}="{escape(v)}"' for k, v in found.items() if v is not None)
    return f"<{tag}{shown}>{content}</{tag}>"


def link(anchor: str, content: str) -> str:
    """A link within the page."""
    return f'<a href="#{escape(anchor)}">{content}</a>'


def facts_html(facts: Mapping[str, str]) -> str:
    """A list of what things are; empty ones are left out."""
    pairs = (f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>\n" for k, v in facts.items() if v)
    return f"<dl>\n{''.join(pairs)}</dl>\n"


def sheet_html(sheet: Sheet, identifier: str, anchor: Anchor) -> str:
    """A table with its title and notes; a folded one has to be opened.

    Parameters
    ----------
    sheet : Sheet
        What to write.
    identifier : str
        For links to it.
    anchor : callable
        Tells where on the page the rows behind a number are.

    Returns
    -------
    str
        A ``section``, or a ``details``.
    """
    title, table = escape(sheet.title), table_html(sheet, anchor)
    notes = "".join(element("p", escape(note), {"class": "note"}) for note in sheet.notes)
    if sheet.folded:
        inside = f'<div id="{identifier}">{table}{notes}</div>'
        return f"<details>\n<summary>{title}</summary>\n{inside}\n</details>\n"
    return f'<section id="{identifier}">\n<h5>{title}</h5>\n{table}{notes}</section>\n'


def table_html(sheet: Sheet, anchor: Anchor) -> str:
    """The table alone, in a box that scrolls sideways."""
    kinds = {"n": "n", "t": None}
    head = "".join(
        element("th", escape(column), {"scope": "col", "class": kinds[kind]})
        for column, kind in zip(sheet.columns, sheet.numeric, strict=True)
    )
    body, before = [], None
    for row in sheet.rows:
        # A rule between data sets.
        first = ' class="g"' if before not in (None, row[0].text) else ""
        before = row[0].text
        cells = "".join(
            _cell(item, kind, anchor, header=i == 0)
            for i, (item, kind) in enumerate(zip(row, sheet.numeric, strict=True))
        )
        body.append(f"<tr{first}>{cells}</tr>\n")
    box = {"class": "box", "tabindex": "0", "role": "region", "aria-label": sheet.title}
    table = (
        f'<table class="sortable">\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{''.join(body)}</tbody>\n</table>"
    )
    return element("div", table, box) + "\n"


def _cell(item: Item, kind: str, anchor: Anchor, *, header: bool) -> str:
    text = escape(item.text)
    if item.bold:
        text = f"<b>{text}</b>"
    target = None if item.place is None else anchor(item.place)
    if target is not None:
        text = link(target, text)
    if item.small:
        text += f" <small>{escape(item.small)}</small>"
    size = "long" if len(item.text) > _LONG else ""
    classes = " ".join(part for part in ("n" if kind == "n" else "", item.tone, size) if part)
    attributes = {
        "class": classes or None,
        "data-v": None if item.sort is None else repr(float(item.sort)),
        "scope": "row" if header else None,
    }
    return element("th" if header else "td", text, attributes)
