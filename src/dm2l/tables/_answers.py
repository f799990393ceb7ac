"""What a label column says, and how it spells yes and no."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dm2l.readers._columns import MISSING_WORDS, truth

# What stands for a hole in any column, in lower case; the last ones are spreadsheets' and pandas'.
HOLES = MISSING_WORDS | {"#n/a", "#na", "<na>"}

# Pairs in lower case, positive first; a bare number is also written as 1.0 or +1.
_PAIRS = (("1", "0"), ("1.0", "0.0"), ("yes", "no"), ("true", "false"), ("+1", "-1"))


class Spelling(NamedTuple):
    """How a column writes an observed positive and an observed negative."""

    positive: Any
    negative: Any


class Marks:
    """What stands for "not observed" in a label column, besides blanks, ``?`` and NA."""

    def __init__(self, marks: Iterable[Any] = ()) -> None:
        self.words = {str(mark).strip().casefold() for mark in marks}
        self.numbers = {number for word in self.words if (number := _number(word)) is not None}

    def __contains__(self, text: str) -> bool:
        word = text.strip().casefold()
        if word in HOLES or word in self.words:
            return True
        return bool(self.numbers) and _number(word) in self.numbers


def read_answers(
    columns: Sequence[Any], names: Sequence[str], marks: Marks, where: str
) -> NDArray[np.float64]:
    """Labels as 1, 0 and NaN from pandas columns of text, numbers or booleans.

    -1 is a no like 0, but a table that uses both is ambiguous: one of them may well mean that
    nobody looked.
    """
    values = np.full((len(columns[0]) if columns else 0, len(columns)), np.nan)
    first: dict[float, tuple[int, int]] = {}
    for j, column in enumerate(columns):
        missing = column.isna().to_numpy()
        known: dict[str, float] = {}
        for i, value in enumerate(column.to_numpy(dtype=object)):
            if missing[i]:
                continue
            text = str(value)
            if text not in known:
                answer = np.nan if text in marks else truth(text)
                if answer is None:
                    raise ValueError(
                        f"{where}: label {names[j]!r} holds {text.strip()[:40]!r} in row {i + 1}. "
                        "Labels are 0/1, -1/+1, true/false or yes/no, blank where nobody looked. "
                        "Name a mark of missing entries with --missing (missing= in Python), or "
                        "leave the column out of the labels."
                    )
                known[text] = answer
                if _number(text) is not None and not np.isnan(answer):
                    first.setdefault(answer, (i, j))
            values[i, j] = known[text]
    if -1.0 in first and 0.0 in first:
        (i, j), (k, m) = first[0.0], first[-1.0]
        raise ValueError(
            f"{where}: the labels mix 0/1 and -1/+1: label {names[j]!r} holds '0' in row {i + 1}, "
            f"label {names[m]!r} holds '-1' in row {k + 1}. If one of the two means that nobody "
            "looked, say so with --missing 0 or --missing -1 (missing= in Python)."
        )
    values[values < 0] = 0.0
    return values


def find_spelling(cells: Sequence[Any], answers: NDArray[np.float64]) -> Spelling | None:
    """The commonest way in which a column writes yes and no; None if it shows neither."""
    found: list[Any] = []
    for wanted in (1.0, 0.0):
        counts = Counter(cells[i] for i in np.flatnonzero(answers == wanted).tolist())
        found.append(counts.most_common(1)[0][0] if counts else None)
    if found == [None, None]:
        return None
    positive, negative = found
    return Spelling(
        _other(negative, 0) if positive is None else positive,
        _other(positive, 1) if negative is None else negative,
    )


def _other(cell: Any, side: int) -> Any:
    """The other answer, written as this one is: of the same type, in the same quotes and case."""
    if not isinstance(cell, str):
        return type(cell)(side == 0)
    word = cell.strip().strip('"').strip()
    other = next((pair[side] for pair in _PAIRS if word.casefold() == pair[1 - side]), None)
    if other is None:
        other = "10"[side]
    if word.isupper():
        other = other.upper()
    elif word.istitle():
        other = other.title()
    return cell.replace(word, other, 1) if word else other


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
