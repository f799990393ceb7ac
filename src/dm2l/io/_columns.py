"""Select columns by name, pattern or number, and convert cells of label columns to 1, 0 and NaN."""

import operator
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from dm2l._utils.files import DataFileError, printable

# Suffixes of the columns that dm2l adds for a label.
PROBABILITY, LOOK, SCORE = "__probability", "__look", "__score"


class ColumnRequestError(ValueError):
    """Error that reports a request for columns that do not exist, or contradictory requests."""


class LabelNames(tuple[str, ...]):
    """Exact names of label columns, which are never read as patterns, prefixes or numbers."""


def match_columns(names: Sequence[str], asked: str | Iterable[Any], where: str) -> list[int]:
    """Return the positions of the columns that match names, glob patterns or prefixes."""
    places: dict[str, list[int]] = {}
    for j, name in enumerate(names):
        places.setdefault(name, []).append(j)
    found: dict[int, None] = {}
    for text in map(str, [asked] if isinstance(asked, str) else asked):
        parts = [text] if text in places else map(str.strip, text.split(","))
        for part in filter(None, parts):
            hits = places.get(part, [])
            if len(hits) > 1:
                reason = f"there are {len(hits)} columns named {part!r}; rename them"
                raise DataFileError(where, reason)
            hits = hits or [j for j, name in enumerate(names) if matches_pattern(name, part)]
            if not hits:
                shown = [printable(name[:60]) for name in names]
                if len(names) > 12:
                    shown = [*shown[:6], "...", *shown[-6:-1], f"{shown[-1]} ({len(names)})"]
                raise ColumnRequestError(
                    f"{where} has no column {part!r}, and no column matches it as a pattern. "
                    f"Columns: {', '.join(shown)}."
                )
            found.update(dict.fromkeys(hits))
    return list(found)


def matches_pattern(name: str, pattern: str) -> bool:
    """Return whether ``pattern``, which may be a name or a prefix, selects the column ``name``."""
    # "tox_" is a prefix. "tox" is not, because it may be a misspelt name.
    whole = pattern[-1].isalnum() or pattern[-1] in "*?]"
    return fnmatchcase(name, pattern if whole else f"{pattern}*")


def added_columns(names: Iterable[str]) -> set[str]:
    """Return the columns that dm2l has added: X__probability with X__look or X__score."""
    known = set(names)
    found: set[str] = set()
    for name in known:
        stem = name.removesuffix(PROBABILITY)
        beside = known & {stem + LOOK, stem + SCORE}
        if stem != name and beside:
            found |= beside | {name}
    return found


def check_distinct(names: Iterable[str], where: str, what: str = "columns") -> None:
    """Raise an error if several columns have the same name."""
    double = [repr(name) for name, count in Counter(names).items() if count > 1]
    if double:
        reason = f"there are several {what} named {', '.join(double[:5])}; rename them"
        raise DataFileError(where, reason)


def choose_labels(names: Sequence[str], labels: Any, where: str) -> list[int]:
    """Return the positions of the label columns; an integer ``labels`` selects the last columns."""
    if isinstance(labels, (int, np.integer)) and not isinstance(labels, bool):
        if not 1 <= labels < len(names):
            raise ColumnRequestError(
                f"labels={labels} selects the last {labels} columns, but {where} has {len(names)} "
                f"columns. Pass a number from 1 to {len(names) - 1}."
            )
        return list(range(len(names) - int(labels), len(names)))
    asked = [labels] if isinstance(labels, str) else list(labels) if np.iterable(labels) else []
    if not asked:
        raise ColumnRequestError(
            "labels= must be names or patterns of label columns, or the number of label columns "
            f"at the end of the table, got {labels!r}."
        )
    exact = labels if isinstance(labels, LabelNames) else ()
    missing = [name for name in exact if name not in names]
    if missing:
        listed = ", ".join(map(repr, missing))
        reason = f"the file lacks {len(missing)} of the {len(labels)} labels of the model: {listed}"
        hint = "Add these columns, and leave the cells of unknown labels blank."
        raise DataFileError(where, reason, hint=hint)
    found: dict[int, None] = {}
    # Patterns for labels do not select columns that an earlier `complete` has added.
    added = added_columns(names) - _by_name(names, asked)
    for one in asked:
        if isinstance(one, str) and one.isdecimal() and one not in names:
            meant = choose_labels(names, int(one), where)
        else:
            matched = match_columns(names, [one], where)
            meant = [j for j in matched if names[j] not in added] or matched
        found.update(dict.fromkeys(meant))
    return list(found)


def labels_without(names: Sequence[str], labels: Any, drop: Any, where: str) -> list[int]:
    """Return the positions of labels that are not dropped; exact names override patterns."""
    chosen, dropped = choose_labels(names, labels, where), match_columns(names, drop, where)
    named = _by_name(names, labels)
    both = sorted(named & _by_name(names, drop))
    if both:
        raise ColumnRequestError(
            f"{where}: {both[0]!r} is listed both as a label and as a column to drop. Remove it "
            "from one of the two lists."
        )
    left = [j for j in chosen if names[j] in named or j not in dropped]
    if left:
        return left
    raise ColumnRequestError(f"{where}: every label is dropped. Keep at least one label.")


def _by_name(names: Sequence[str], asked: Any) -> set[str]:
    """Return the names in ``asked`` that exactly match the name of a column."""
    known = set(names)
    texts = [asked] if isinstance(asked, str) else asked if np.iterable(asked) else []
    found: set[str] = set()
    for text in map(str, texts):
        found |= {text} if text in known else known.intersection(map(str.strip, text.split(",")))
    return found


def split_columns(
    names: Sequence[str], labels: Sequence[int], drop: str | Iterable[str], where: str
) -> list[int]:
    """Return the positions of columns that are not labels, not dropped and not added by dm2l."""
    dropped = set(match_columns(names, drop, where))
    both = dropped.intersection(labels)
    if both:
        reason = f"{names[min(both)]!r} is a label, but dropped. Remove it from drop= or labels=."
        raise ColumnRequestError(f"{where}: {reason}")
    taken, added = dropped.union(labels), added_columns(names)
    features = [j for j, name in enumerate(names) if j not in taken and name not in added]
    if not features:
        reason = "every column is a label or dropped. Keep at least one feature."
        raise ColumnRequestError(f"{where}: {reason}")
    return features


# Spellings of a missing entry in lower case. The last ones are written by spreadsheets and pandas.
MISSING_WORDS = frozenset({"", "?", "na", "n/a", "nan", "null", "none", "#n/a", "#na", "<na>"})

# Answers in lower case: each positive answer has a negative answer at the same position.
_POSITIVE = ("1", "1.0", "yes", "true", "active", "positive", "+1", "+")
_NEGATIVE = ("0", "0.0", "no", "false", "inactive", "negative", "-1", "-")
_PAIRS = tuple(zip(_POSITIVE, _NEGATIVE, strict=True))
_WORDS = {word: 1.0 - side for pair in _PAIRS[2:6] for side, word in enumerate(pair)}
# A check mark is a positive label if its column contains no other kind of answer.
_CHECK_MARKS = frozenset({"x", "*", "✓", "✔", "☑"})
_UNCHECKED = "not "  # this text before a check mark makes a negative label
_MANY_ZEROS = 0.1  # numerals are codes if at least this share of them has leading zeros


def parse_boolean(text: str) -> float | None:
    """Return the label in a cell: 1, 0 or -1; NaN if it is missing; None if it is unclear."""
    # The text "-" is ambiguous, because it may be a negative or a missing label.
    word = text.strip().casefold()
    if word in MISSING_WORDS:
        return np.nan
    if word in _WORDS:
        return _WORDS[word]
    value = as_number(word)
    return value if value in (-1.0, 0.0, 1.0) and "_" not in word else None


def is_check_mark(text: str) -> bool:
    """Return whether a text is a check mark."""
    return text.strip().casefold() in _CHECK_MARKS


def is_unchecked(text: str) -> bool:
    """Return whether a text is a negative answer in a column of check marks, such as "not x"."""
    word = text.strip().casefold()
    return word.startswith(_UNCHECKED) and is_check_mark(word.removeprefix(_UNCHECKED))


def parse_mark_or_boolean(text: str) -> float | None:
    """Return the label in a cell like ``parse_boolean``, but with check marks as positives."""
    return 1.0 if is_check_mark(text) else parse_boolean(text)


class MissingMarkers:
    """Values that mark missing labels; comparisons ignore case, spaces and number formats."""

    def __init__(self, marks: Iterable[Any] = (), *, usual: bool = True) -> None:
        listed = [str(mark).strip() for mark in marks]
        self.first = listed[0] if listed else ""
        self._words = {mark.casefold() for mark in listed}
        self._numbers = {value for word in self._words if (value := as_number(word)) is not None}
        self._words |= MISSING_WORDS if usual else set()

    def __contains__(self, text: str) -> bool:
        word = text.strip().casefold()
        return word in self._words or (bool(self._numbers) and as_number(word) in self._numbers)


def commonest_pair(yes: Counter[Any], no: Counter[Any]) -> tuple[Any, Any] | None:
    """Return a column's most frequent texts for yes and no; None if the column has neither."""
    if not yes and not no:
        return None
    positive, negative = (side.most_common(1)[0][0] if side else None for side in (yes, no))
    return (
        _other(negative, 0) if positive is None else positive,
        _other(positive, 1) if negative is None else negative,
    )


def _other(cell: Any, side: int) -> Any:
    """Return the opposite answer with the same type, quotes and case as ``cell``."""
    if not isinstance(cell, str):
        return type(cell)(side == 0)
    word = cell.strip().strip('"').strip()
    if is_check_mark(word):  # a 0 beside check marks would be ambiguous
        return cell.replace(word, _UNCHECKED + word, 1)
    if is_unchecked(word):
        return cell.replace(word, word[len(_UNCHECKED) :], 1)
    other = next((pair[side] for pair in _PAIRS if word.casefold() == pair[1 - side]), "10"[side])
    if word.isupper():
        other = other.upper()
    elif word.istitle():
        other = other.title()
    return cell.replace(word, other, 1) if word else other


def as_list(marks: Any) -> list[Any]:
    """Return values as a list; a single value becomes [value], and None an empty list."""
    if marks is None:
        return []
    return list(marks) if np.iterable(marks) and not isinstance(marks, str) else [marks]


def are_codes(texts: Iterable[str]) -> bool:
    """Return whether texts are numerals with leading zeros, such as postcodes."""
    found = [text.strip() for text in texts]
    zeros = sum(len(text) > 1 and text.startswith("0") for text in found)
    if not zeros or not all(map(str.isdecimal, found)):
        return False
    # Codes have equal lengths or many leading zeros; a single 07 among numbers is a number.
    return zeros >= _MANY_ZEROS * len(found) or len(set(map(len, found))) == 1


def with_point(text: str, decimal: str) -> str:
    """Return the text of a number, in which a point replaces the character ``decimal``."""
    # With a decimal comma, 1.500 may mean fifteen hundred, so text with a point is not a number.
    return text if decimal == "." else text.replace(".", "x").replace(decimal, ".")


def as_number(text: str) -> float | None:
    """Return a text as a number, or None if it is not a number."""
    try:
        return float(text)
    except ValueError:
        return None


AMONG_LABELS = ", among its labels,"
_SIDES = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_OTHER = {">=": "<", "<=": ">", ">": "<=", "<": ">="}
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_REQUEST = re.compile(rf"(?P<column>.+?)\s*(?P<side>>=|<=|>|<)\s*(?P<value>{_NUMBER})\s*")
BOUND = re.compile(rf"(?P<side>>=|<=|>|<)?\s*(?P<value>{_NUMBER})")


@dataclass(frozen=True)
class Cutoff:
    """Condition for a positive label: a comparison operator such as ``>=``, and a number."""

    side: str
    value: str

    @property
    def words(self) -> tuple[str, str]:
        """Texts for positive and negative cells whose number is unknown, such as >=2 and <2."""
        return f"{self.side}{self.value}", f"{_OTHER[self.side]}{self.value}"

    def parse(self, text: str, decimal: str = ".") -> float | None:
        """Return a cell's label, 1 or 0; None for text or a bound that allows both labels."""
        cell = BOUND.fullmatch(text.strip().replace(decimal, "."))
        if cell is None:
            return None
        # A bound such as <10 is an interval. Each end is a pair of a number and -1, 0 or 1, which
        # is a point just below the number, at the number, or just above it.
        number, side = float(cell["value"]), cell["side"] or ""
        low = (-inf, 0) if side.startswith("<") else (number, int(side == ">"))
        high = (inf, 0) if side.startswith(">") else (number, -int(side == "<"))
        beyond = (float(self.value), 0)
        answers = {_SIDES[self.side](point, beyond) for point in (low, high)}
        return float(answers.pop()) if len(answers) == 1 else None


def cutoffs_of(names: Sequence[str], asked: Iterable[str], where: str) -> dict[int, Cutoff]:
    """Parse cutoffs such as ``column>=2``, and return a mapping from label positions to cutoffs."""
    found: dict[int, Cutoff] = {}
    for one in asked:
        parts = _REQUEST.fullmatch(str(one))
        if parts is None:
            raise ColumnRequestError(
                f"A cutoff must be a label or pattern, then >=, >, <= or <, then a number, "
                f"such as 'fold_*>=2'; got {one!r}."
            )
        cutoff = Cutoff(parts["side"], parts["value"])
        for j in match_columns(names, parts["column"], where + AMONG_LABELS):
            if found.setdefault(j, cutoff) != cutoff:
                raise ColumnRequestError(f"Label {names[j]!r} has two cutoffs. Pass only one.")
    return found


def label_targets(values: Any, names: Sequence[str] | None, where: str) -> NDArray[Any]:
    """Return numeric labels as int8 0/1, or as float64 with NaN if some are missing."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2:
        raise DataFileError(where, f"the labels must have 2 dimensions, got {values.ndim}")
    called = range(1, values.shape[1] + 1) if names is None else list(map(repr, names))
    missing = np.isnan(values)
    bad = ~(missing | np.isin(values, (-1.0, 0.0, 1.0)))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        value = f"{values[row, column]:g} in row {row + 1} ({bad.sum()} invalid entries)"
        hint = "Labels must be 0/1 or -1/+1, and NaN where missing."
        raise DataFileError(where, f"label {called[column]} holds {value}", hint=hint)
    zeros, minus = values == 0, values == -1
    if minus.any() and zeros.any():
        (i, j), (k, m) = np.argwhere(zeros)[0], np.argwhere(minus)[0]
        raise mixed_signs(where, (i + 1, called[j]), (k + 1, called[m]))
    if not missing.any():
        return (values == 1).astype(np.int8)
    return np.where(missing, np.nan, values == 1)


def make_bunch(data: Any, target: NDArray[Any] | None, **known: Any) -> Bunch:
    """Make the Bunch that a reader returns; omitted keys are None, an omitted target is empty."""
    target = np.empty((data.shape[0], 0), dtype=np.int8) if target is None else target
    silent = dict.fromkeys(("target_names", "feature_names", "train_index", "test_index", "source"))
    return Bunch(**{"data": data, "target": target, **silent, **known})


def mixed_signs(where: str, zero: tuple[int, Any], minus: tuple[int, Any]) -> DataFileError:
    """Return the error for labels that contain both 0 and -1."""
    return DataFileError(
        where,
        f"the labels mix 0/1 and -1/+1: label {zero[1]} holds 0 in row {zero[0]}, label {minus[1]} "
        f"holds -1 in row {minus[0]}",
        hint="If 0 or -1 marks missing labels, pass --missing 0 or --missing -1 (missing= in "
        "Python).",
    )
