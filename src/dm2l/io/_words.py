"""What a label column says: the one place where words, numbers and holes are understood."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._utils.files import DataFileError
from dm2l.io._columns import match_columns
from dm2l.io._cutoffs import cutoffs_of, undecided

__all__ = [
    "MISSING_WORDS",
    "LabelReader",
    "LabelVocabulary",
    "MissingMarkers",
    "are_codes",
    "by_label",
    "commonest_pair",
    "label_targets",
    "parse_boolean",
    "parse_tick_or_boolean",
]

# What stands for a hole in any column, in lower case; the last ones are spreadsheets' and pandas'.
MISSING_WORDS = frozenset({"", "?", "na", "n/a", "nan", "null", "none", "#n/a", "#na", "<na>"})

# Pairs in lower case, positive first; a bare number is also written as 1.0 or +1.
PAIRS = (
    ("1", "0"),
    ("1.0", "0.0"),
    ("yes", "no"),
    ("true", "false"),
    ("active", "inactive"),
    ("positive", "negative"),
    ("+1", "-1"),
    ("+", "-"),
)
_WORDS = {word: 1.0 - side for pair in PAIRS[2:6] for side, word in enumerate(pair)}
# What people tick with; a yes in a column that has nothing else.
_TICKS = frozenset({"x", "*", "✓", "✔", "☑"})
_MANY_ZEROS = 0.1  # share of numerals with leading zeros from which on they are codes
_SPELLINGS = "Labels are 0/1, -1/+1, yes/no, true/false, active/inactive, positive/negative or +/-"


def parse_boolean(text: str) -> float | None:
    """What a word of a label column says: 0, 1 or -1, NaN where missing, None where unclear.

    A lone ``-`` is unclear: it may mean no, or that nobody looked.
    """
    word = text.strip().casefold()
    if word in MISSING_WORDS:
        return np.nan
    if word in _WORDS:
        return _WORDS[word]
    value = as_number(word)
    return value if value in (-1.0, 0.0, 1.0) and "_" not in word else None


def _is_tick(text: str) -> bool:
    return text.strip().casefold() in _TICKS


def _is_no(text: str) -> bool:
    return parse_boolean(text) in (-1.0, 0.0)


def parse_tick_or_boolean(text: str) -> float | None:
    """What a word says in a column that may have been ticked."""
    return 1.0 if _is_tick(text) else parse_boolean(text)


class MissingMarkers:
    """Words and numbers that are compared without regard to case, blanks and 9 or 9.0."""

    def __init__(self, marks: Iterable[Any] = (), *, holes: bool = True) -> None:
        self._words = {str(mark).strip().casefold() for mark in marks}
        self._numbers = {value for word in self._words if (value := as_number(word)) is not None}
        self._words |= MISSING_WORDS if holes else set()

    def __contains__(self, text: str) -> bool:
        word = text.strip().casefold()
        return word in self._words or (bool(self._numbers) and as_number(word) in self._numbers)


@dataclass(frozen=True)
class LabelVocabulary:
    """How labels are read that have a positive value of their own or a cutoff.

    ``positive`` has values by names or patterns of labels, ``"*"`` for all. ``written`` is yes and
    no of labels, as their column writes them most often.
    """

    positive: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cutoffs: tuple[str, ...] = ()
    written: Mapping[str, tuple[str, str]] = field(default_factory=dict)


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
    other = next((pair[side] for pair in PAIRS if word.casefold() == pair[1 - side]), None)
    if other is None:
        other = "10"[side]
    if word.isupper():
        other = other.upper()
    elif word.istitle():
        other = other.title()
    return cell.replace(word, other, 1) if word else other


class LabelReader:
    """Columns of words, numbers or booleans as 1, 0 and NaN.

    -1 is a no like 0, but a table that uses both is ambiguous: one of them may well mean that
    nobody looked. ``missing`` are further marks of a label that was not observed; with
    ``positive``, a label has that and one other value, all labels or those that a mapping names;
    with ``cutoffs``, numbers on one side are a yes. ``written`` is yes and no of labels in an
    earlier table. A column of ``x`` and blanks, and nothing else, has been ticked: x is a yes.
    """

    def __init__(
        self,
        names: Sequence[str],
        where: str,
        *,
        missing: Any = None,
        positive: Any = None,
        cutoffs: str | Iterable[str] = (),
        written: Mapping[str, tuple[str, str]] | None = None,
        decimal: str = ".",
    ) -> None:
        self._names, self._where, self._decimal = names, where, decimal
        self._missing = MissingMarkers(listed(missing))
        asked = by_label(positive)
        self._positive = _positives_of(names, asked, where)
        cutoffs = (cutoffs,) if isinstance(cutoffs, str) else tuple(cutoffs)
        self._cutoffs = cutoffs_of(names, cutoffs, where)
        self._asked = LabelVocabulary(asked, cutoffs)
        known = {j: written[name] for j, name in enumerate(names) if written and name in written}
        self._others = {j: pair[1] for j, pair in known.items()}  # the other value of a column
        self._known = known
        self._counts: dict[int, tuple[Counter[str], Counter[str]]] = {}  # words of yes and of no
        self._signs: set[int] = set()  # columns with a +, in which - is a no
        # Columns in which a tick is a yes, and whether nothing else may stand there.
        self._ticks = {j: False for j, pair in known.items() if _is_tick(pair[0])}
        self._marks: dict[int, str] = {}  # ticks of columns that have a no beside them, or nothing
        self._numbers: dict[float, tuple[int, int]] = {}  # where 0 and -1 first occurred
        self._rows = 0

    def read(self, columns: Sequence[Any]) -> NDArray[np.float64]:
        """Labels of pandas columns; further rows of the same file are given in further calls."""
        size = len(columns[0]) if columns else 0
        values = np.full((size, len(columns)), np.nan)
        for j, column in enumerate(columns):
            try:
                codes, distinct = column.factorize()
            except TypeError:  # lists and the like have no hash
                codes, distinct = column.map(str, na_action="ignore").factorize()
            texts = [str(value) for value in distinct]
            if "+" in map(str.strip, texts):
                self._signs.add(j)
            self._see_ticks(j, texts)
            said = np.array([self._say(text, j, codes, k) for k, text in enumerate(texts)])
            if len(said):
                values[:, j] = np.where(codes < 0, np.nan, said[codes])
                self._count(j, texts, said, np.bincount(codes[codes >= 0], minlength=len(texts)))
        self._rows += size
        if len(self._numbers) == 2:
            (i, j), (k, m) = self._numbers[0.0], self._numbers[-1.0]
            raise _mixed(self._where, (i, repr(self._names[j])), (k, repr(self._names[m])))
        return values

    @property
    def words(self) -> LabelVocabulary:
        """How labels were read, and how they write yes and no."""
        found = {j: commonest_pair(*counts) for j, counts in self._counts.items()}
        # Beside a positive value one that was not seen could be any.
        found = {j: p for j, p in found.items() if j not in self._positive or all(self._counts[j])}
        pairs = self._known | {j: pair for j, pair in found.items() if pair is not None}
        pairs |= {j: cutoff.words for j, cutoff in self._cutoffs.items()}
        return replace(self._asked, written={self._names[j]: pairs[j] for j in sorted(pairs)})

    def _see_ticks(self, j: int, texts: Sequence[str]) -> None:
        """Whether a column has ticks, and has had nothing else in earlier rows."""
        if j in self._positive or j in self._cutoffs or any(self._counts.get(j, ())):
            return
        said = [text for text in texts if text not in self._missing]
        ticks = [text for text in said if _is_tick(text)]
        if ticks and all(_is_tick(text) or _is_no(text) for text in said):
            self._marks.setdefault(j, ticks[0].strip())
        if ticks and len(ticks) == len(said):
            self._ticks.setdefault(j, True)

    def _count(
        self, j: int, texts: list[str], said: NDArray[np.float64], times: NDArray[np.intp]
    ) -> None:
        sides = self._counts.setdefault(j, (Counter(), Counter()))
        for text, answer, n in zip(texts, said.tolist(), times.tolist(), strict=True):
            if answer == answer:
                sides[0 if answer else 1][text.strip()] += n

    def _say(self, text: str, j: int, codes: NDArray[Any], k: int) -> float:
        if text in self._missing:
            return np.nan
        if j in self._cutoffs:
            said = self._cutoffs[j].says(text, self._decimal)
            if said is None:
                row = self._row(codes, k)
                raise undecided(self._where, self._names[j], text, row, self._cutoffs[j])
            return said
        if j in self._positive:
            if text in self._positive[j]:
                return 1.0
            if text in MissingMarkers([self._others.setdefault(j, text.strip())], holes=False):
                return 0.0
            row = self._row(codes, k)
            raise DataFileError(
                self._where,
                f"label {self._names[j]!r} holds {text.strip()[:40]!r} in row {row} beside "
                f"{self._others[j][:40]!r}, and neither is the positive value",
                hint="A label has two values; name a mark of missing entries with --missing "
                "(missing= in Python).",
            )
        sign = j in self._signs and text.strip() in ("+", "-")
        answer = float(text.strip() == "+") if sign else parse_boolean(text)
        if j in self._ticks and _is_tick(text):
            answer = 1.0
        elif self._ticks.get(j):
            answer = None
        if answer is None:
            hint = (
                f"{_SPELLINGS}, blank where nobody looked. Correct the entry, or name a mark of "
                "missing entries with --missing (missing= in Python), the positive value of "
                "another pair with --positive LABEL=VALUE (positive=), the side of a number that "
                "counts as yes with --cutoff (cutoffs=), or leave the column out of the labels."
            )
            if j in self._marks and (_is_tick(text) or _is_no(text)):
                tick = self._marks[j]
                hint = (
                    f"Beside other answers {tick} may be a yes, or say that nobody looked: pass "
                    f"--positive {tick} (positive= in Python; LABEL={tick} for one label) or "
                    f"--missing {tick} (missing=)."
                )
            raise DataFileError(
                self._where,
                f"label {self._names[j]!r} holds {text.strip()[:40]!r} in row "
                f"{self._row(codes, k)}",
                hint=hint,
            )
        if answer <= 0 and as_number(text) is not None:
            self._numbers.setdefault(answer, (self._row(codes, k), j))
        return max(answer, 0.0)

    def _row(self, codes: NDArray[Any], k: int) -> int:
        """The first row with a value, from 1."""
        return self._rows + 1 + int(np.argmax(codes == k))


def by_label(positive: Any) -> dict[str, tuple[str, ...]]:
    """Positive values by names or patterns of labels; those of all labels under ``"*"``."""
    if not isinstance(positive, Mapping):
        positive = {"*": positive} if listed(positive) else {}
    return {str(label): tuple(map(str, listed(values))) for label, values in positive.items()}


def _positives_of(
    names: Sequence[str], asked: Mapping[str, tuple[str, ...]], where: str
) -> dict[int, MissingMarkers]:
    """Positive values of label columns by their places."""
    found: dict[int, MissingMarkers] = {}
    labels = f"{where}, among its labels,"
    # Patterns first: what is said of a label by its own name counts.
    for label, values in sorted(asked.items(), key=lambda item: (item[0] in names, item[0] != "*")):
        everywhere = label == "*"
        meant = range(len(names)) if everywhere else match_columns(names, label, labels)
        found.update(dict.fromkeys(meant, MissingMarkers(values, holes=False)))
    return found


def label_targets(values: Any, names: Sequence[str] | None, where: str) -> NDArray[Any]:
    """Labels that are numbers as int8 0/1, or as float64 with NaN where some are missing."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2:
        raise DataFileError(where, f"the labels have {values.ndim} dimensions, not 2")
    missing = np.isnan(values)
    bad = ~(missing | np.isin(values, (-1.0, 0.0, 1.0)))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise DataFileError(
            where,
            f"label {_called(names, column)} holds {values[row, column]:g} in row {row + 1} "
            f"({bad.sum()} such entries)",
            hint="Labels are 0/1 or -1/+1, and NaN where not observed; a column with other "
            "values is not a label.",
        )
    zeros, minus = values == 0, values == -1
    if minus.any() and zeros.any():
        (i, j), (k, m) = np.argwhere(zeros)[0], np.argwhere(minus)[0]
        raise _mixed(where, (i + 1, _called(names, j)), (k + 1, _called(names, m)))
    if not missing.any():
        return (values == 1).astype(np.int8)
    return np.where(missing, np.nan, (values == 1).astype(np.float64))


def _mixed(where: str, zero: tuple[int, str], minus: tuple[int, str]) -> DataFileError:
    return DataFileError(
        where,
        f"the labels mix 0/1 and -1/+1: label {zero[1]} holds 0 in row {zero[0]}, label {minus[1]} "
        f"holds -1 in row {minus[0]}",
        hint="If one of the two means that nobody looked, say so with --missing 0 or --missing "
        "-1 (missing= in Python).",
    )


def _called(names: Sequence[str] | None, column: int) -> str:
    return str(column + 1) if names is None else repr(names[column])


def listed(marks: Any) -> list[Any]:
    """Marks in a list, of which one may come alone, and None stands for none."""
    if marks is None:
        return []
    return list(marks) if np.iterable(marks) and not isinstance(marks, str) else [marks]


def are_codes(texts: Iterable[str]) -> bool:
    """Whether texts are whole numerals with leading zeros: postcodes, keys.

    All are as long as each other, or many have zeros: one 07 among numbers is a number.
    """
    found = [text.strip() for text in texts]
    if not all(text.isdecimal() for text in found):
        return False
    zeros = sum(len(text) > 1 and text.startswith("0") for text in found)
    return zeros > 0 and (zeros >= _MANY_ZEROS * len(found) or len(set(map(len, found))) == 1)


def with_point(text: str, decimal: str) -> str:
    """A number with another decimal sign as Python writes it.

    A point then is none: 1.500 may well be a thousand and a half.
    """
    return text if decimal == "." else text.replace(".", "x").replace(decimal, ".")


def as_number(text: str) -> float | None:
    """The number that a text is, if it is one."""
    try:
        return float(text)
    except ValueError:
        return None
