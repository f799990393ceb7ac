"""Words in cells: yes, no, a missing entry, a number, a code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

# Missing entries of any column, in lower case; the last ones are spreadsheets' and pandas'.
MISSING_WORDS = frozenset({"", "?", "na", "n/a", "nan", "null", "none", "#n/a", "#na", "<na>"})

# Pairs in lower case, positive first; a bare number is also written as 1.0 or +1.
_PAIRS = (
    ("1", "0"),
    ("1.0", "0.0"),
    ("yes", "no"),
    ("true", "false"),
    ("active", "inactive"),
    ("positive", "negative"),
    ("+1", "-1"),
    ("+", "-"),
)
_WORDS = {word: 1.0 - side for pair in _PAIRS[2:6] for side, word in enumerate(pair)}
# Check marks: a yes in a column that has nothing else.
_CHECK_MARKS = frozenset({"x", "*", "✓", "✔", "☑"})
_MANY_ZEROS = 0.1  # share of numerals with leading zeros from which on they are codes


def parse_boolean(text: str) -> float | None:
    """Read a word of a label column: 0, 1 or -1, NaN where missing, None where unclear."""
    # A lone - is unclear: it may mean no, or a missing label.
    word = text.strip().casefold()
    if word in MISSING_WORDS:
        return np.nan
    if word in _WORDS:
        return _WORDS[word]
    value = as_number(word)
    return value if value in (-1.0, 0.0, 1.0) and "_" not in word else None


def is_check_mark(text: str) -> bool:
    """Whether a text is one of the signs with which people tick."""
    return text.strip().casefold() in _CHECK_MARKS


def parse_tick_or_boolean(text: str) -> float | None:
    """Read a word in a column that may hold check marks."""
    return 1.0 if is_check_mark(text) else parse_boolean(text)


class MissingMarkers:
    """Words and numbers, compared without regard to case, blanks and 9 or 9.0."""

    def __init__(self, marks: Iterable[Any] = (), *, usual: bool = True) -> None:
        self._words = {str(mark).strip().casefold() for mark in marks}
        self._numbers = {value for word in self._words if (value := as_number(word)) is not None}
        self._words |= MISSING_WORDS if usual else set()

    def __contains__(self, text: str) -> bool:
        word = text.strip().casefold()
        return word in self._words or (bool(self._numbers) and as_number(word) in self._numbers)


def commonest_pair(yes: Counter[Any], no: Counter[Any]) -> tuple[Any, Any] | None:
    """The commonest way in which a column writes yes and no; None if it shows neither."""
    if not yes and not no:
        return None
    positive, negative = (side.most_common(1)[0][0] if side else None for side in (yes, no))
    return (
        _other(negative, 0) if positive is None else positive,
        _other(positive, 1) if negative is None else negative,
    )


def _other(cell: Any, side: int) -> Any:
    """The other answer, written as this one is: of the same type, in the same quotes and case."""
    if not isinstance(cell, str):
        return type(cell)(side == 0)
    word = cell.strip().strip('"').strip()
    other = next((pair[side] for pair in _PAIRS if word.casefold() == pair[1 - side]), "10"[side])
    if word.isupper():
        other = other.upper()
    elif word.istitle():
        other = other.title()
    return cell.replace(word, other, 1) if word else other


def as_list(marks: Any) -> list[Any]:
    """Markers as a list; a single one is a list of one, None an empty list."""
    if marks is None:
        return []
    return list(marks) if np.iterable(marks) and not isinstance(marks, str) else [marks]


def are_codes(texts: Iterable[str]) -> bool:
    """Whether texts are whole numerals with leading zeros: postcodes, keys."""
    found = [text.strip() for text in texts]
    if not all(text.isdecimal() for text in found):
        return False
    zeros = sum(len(text) > 1 and text.startswith("0") for text in found)
    # All are as long as each other, or many have zeros: one 07 among numbers is a number.
    return zeros > 0 and (zeros >= _MANY_ZEROS * len(found) or len(set(map(len, found))) == 1)


def with_point(text: str, decimal: str) -> str:
    """A number with another decimal sign as Python writes it."""
    # A point is then no decimal sign: 1.500 may well be fifteen hundred.
    return text if decimal == "." else text.replace(".", "x").replace(decimal, ".")


def as_number(text: str) -> float | None:
    """The number that a text spells, or None."""
    try:
        return float(text)
    except ValueError:
        return None
