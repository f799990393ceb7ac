"""Sheets as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dm2l_lab.report._sheets import Item, Sheet

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&])")


def markdown_text(text: str) -> str:
    r"""A text on one line, in which nothing is markup.

    Examples
    --------
    >>> from dm2l_lab.report._markdown import markdown_text
    >>> print(markdown_text("a|b *c*"))
    a\|b \*c\*
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def markdown_sheet(sheet: Sheet) -> str:
    """A heading, a table and its notes.

    Parameters
    ----------
    sheet : Sheet
        What to write.

    Returns
    -------
    str
        Ends with a line break.
    """
    lines = [
        f"### {markdown_text(sheet.title)}",
        "",
        _line([markdown_text(column) for column in sheet.columns]),
        _line(["--:" if kind == "n" else ":--" for kind in sheet.numeric]),
        *(_line([_item(item) for item in row]) for row in sheet.rows),
        "",
    ]
    for note in sheet.notes:
        lines += [markdown_text(note), ""]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _item(item: Item) -> str:
    text = markdown_text(item.text)
    if item.bold:
        text = f"**{text}**"
    return f"{text} {markdown_text(item.small)}".strip()
