"""Sheets as LaTeX tables with the rules of booktabs."""

from __future__ import annotations

import re
from itertools import zip_longest

from dm2l_lab.report._sheets import Item, Sheet

# Brackets and stars are wrapped: after \\ they would be taken for its arguments.
_SPECIAL = {
    "\\": r"\textbackslash{}",
    **{letter: rf"\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{letter: f"{{{letter}}}" for letter in "[]*|\""},
    "ρ": r"$\rho$",
    "χ": r"$\chi$",
    "²": r"$^2$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "–": "--",
}  # fmt: skip
_SIGN = re.compile(r"(?<![\w.])([+-])(?=\d)")
_MANY_COLUMNS = 7
_NEAR = r" \\*[-2pt]"  # the end of a line that belongs to the next


def latex_text(text: str) -> str:
    r"""A text on one line, in which nothing is a command.

    Examples
    --------
    >>> from dm2l_lab.report._latex import latex_text
    >>> print(latex_text("50% of a_b: -0.1 ± 0.2"))
    50\% of a\_b: $-$0.1 $\pm$ 0.2
    """
    line = "".join(c for c in " ".join(text.split()) if c.isprintable())
    escaped = "".join(_SPECIAL.get(letter, letter) for letter in line)
    return _SIGN.sub(r"$\1$", escaped)


def latex_sheet(sheet: Sheet, label: str) -> str:
    r"""A floating table; a long one is a ``longtable``, which breaks across pages.

    Parameters
    ----------
    sheet : Sheet
        What to write.
    label : str
        For ``\ref``.

    Returns
    -------
    str
        Needs the packages booktabs and, for long tables, longtable.
    """
    size = [r"\scriptsize", r"\setlength{\tabcolsep}{3pt}"]
    size = size if len(sheet.columns) > _MANY_COLUMNS else []
    columns = "".join("r" if kind == "n" else "l" for kind in sheet.numeric)
    title = [rf"\caption{{{latex_text(sheet.title)}}}", rf"\label{{tab:{label}}}"]
    titles = " & ".join(map(_head, sheet.columns, sheet.numeric)) + r" \\"
    head = [r"\toprule", titles, r"\midrule"]
    notes = " ".join(map(latex_text, sheet.notes))
    if sheet.folded:
        last = rf"\multicolumn{{{len(columns)}}}{{p{{0.9\linewidth}}}}{{\footnotesize {notes}}} \\"
        lines = [
            *(["{", *size] if size else []),
            rf"\begin{{longtable}}{{{columns}}}",
            title[0] + title[1] + r" \\",
            *head,
            r"\endhead",
            *_body(sheet),
            r"\bottomrule",
            *([last] if notes else []),
            r"\end{longtable}",
            *(["}"] if size else []),
        ]
    else:
        lines = [
            r"\begin{table}",
            r"\centering",
            *size,
            *title,
            rf"\begin{{tabular}}{{{columns}}}",
            *head,
            *_body(sheet),
            r"\bottomrule",
            r"\end{tabular}",
            *([rf"\par\smallskip{{\footnotesize {notes}\par}}"] if notes else []),
            r"\end{table}",
        ]
    return "\n".join(lines) + "\n"


def _head(title: str, kind: str) -> str:
    """A heading over numbers takes a line for each word: columns are narrow."""
    words = title.split()
    if kind == "t" or len(words) < 2:
        return latex_text(title)
    lines = r" \\ ".join(map(latex_text, words))
    return rf"\shortstack[r]{{{lines}}}"


def _body(sheet: Sheet) -> list[str]:
    lines: list[str] = []
    names = [row[0].text for row in sheet.rows]
    grouped = len(set(names)) < len(names)
    for i, row in enumerate(sheet.rows):
        if grouped and i and names[i] != names[i - 1]:
            lines.append(r"\addlinespace")
        # Below, or no page would be wide enough.
        below = list(zip_longest(*(item.small.split(", ") for item in row), fillvalue=""))
        below = below if any(item.small for item in row) else []
        lines.append(" & ".join(map(_item, row)) + (_NEAR if below else r" \\"))
        lines += [" & ".join(map(_small, texts)) + _NEAR for texts in below[:-1]]
        lines += [" & ".join(map(_small, texts)) + r" \\" for texts in below[-1:]]
    return lines


def _item(item: Item) -> str:
    text = latex_text(item.text)
    return rf"\textbf{{{text}}}" if item.bold else text


def _small(text: str) -> str:
    return rf"{{\tiny {latex_text(text)}}}" if text else ""
