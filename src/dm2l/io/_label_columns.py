"""Convert the cells of label columns to 1, 0 and NaN (missing)."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._utils.files import DataFileError, check_memory
from dm2l.io._columns import (
    AMONG_LABELS,
    BOUND,
    Cutoff,
    MissingMarkers,
    as_list,
    as_number,
    check_distinct,
    commonest_pair,
    cutoffs_of,
    is_check_mark,
    is_unchecked,
    match_columns,
    mixed_signs,
    parse_boolean,
)
from dm2l.labels._logic import RuleText

_NAME_A_MARK = "pass --missing VALUE for a value that marks missing labels (missing= in Python)"
_SPELLINGS = (
    "Labels must be 0/1, -1/+1, yes/no, true/false, active/inactive, positive/negative or +/-, or "
    "blank if missing. Correct the entry, or remove the column from the labels. Or pass --missing "
    "for values that mark missing labels, --positive LABEL=VALUE to name the positive of two "
    "other values, --values LABEL for a column with more values, or --cutoff for numbers "
    "(missing=, positive=, values=, cutoffs= in Python)."
)
_NO = (-1.0, 0.0)
_WHOLE = re.compile(r"[-+]?\d+")
_FEWEST = 3  # minimum number of values in a column that becomes a group of labels
# Maximum numbers of values in a column, of tags in a column, and of characters in a value or tag.
MOST_VALUES, MOST_TAGS, MOST_CHARACTERS = 50, 1000, 100
_POINT_ZERO = re.compile(r"([-+]?\d+)\.0+")


@dataclass(frozen=True)
class ColumnGroup:
    """A column that encodes several labels: one for each value, ordinal threshold, or tag."""

    column: str
    # "values" (exactly one label is positive), "ordered" (labels such as "stage>=2") or "tags"
    kind: str
    values: tuple[str, ...]
    separator: str = ""  # text that splits tags; blank for JSON lists
    absent: str = "missing"  # meaning of a tag that is not in a cell: "missing" or "negative"
    joint: str = ""  # text that joins tags, such as ", "; blank for JSON lists

    @property
    def labels(self) -> list[str]:
        """The names of the labels of the column."""
        if self.kind == "ordered":
            return [f"{self.column}>={value}" for value in self.values[1:]]
        return [f"{self.column}={value}" for value in self.values]

    @property
    def rules(self) -> list[RuleText]:
        """Rules between the labels of the column; the kind of the column determines these rules."""
        if self.kind == "ordered":
            return [RuleText("implications", pair) for pair in pairwise(reversed(self.labels))]
        one = self.kind == "values" and len(self.values) > 1
        return [RuleText("exactly_one", tuple(self.labels))] if one else []

    @property
    def about(self) -> str:
        """A description of the column and its values for messages."""
        sign = " < " if self.kind == "ordered" else ", "
        some = sign.join([*self.values[:8], *["..."] * (len(self.values) > 8)])
        kind = "ordered values" if self.kind == "ordered" else self.kind
        return f"label column {self.column!r} holds {len(self.values)} {kind}: {some}"

    def read(self, parts: Sequence[Sequence[str]], codes: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the labels of rows; the cell of row ``i`` has the values ``parts[codes[i]]``."""
        place = {value: k for k, value in enumerate(self.values)}
        absent = np.nan if (self.kind, self.absent) == ("tags", "missing") else 0.0
        lines = np.full((len(parts) + 1, len(self.labels)), np.nan)  # code -1, missing, is last
        for line, found in zip(lines, parts, strict=False):
            if found:
                line[:] = absent
                places = [place[value] for value in found if value in place]
                line[range(places[0]) if self.kind == "ordered" else places] = 1.0
        return lines[codes]

    def cell(self, positive: NDArray[np.bool_], p: Any = 0.0, before: str = "") -> str:
        """Return a cell's text for its positive labels; the tags in ``before`` are kept."""
        if self.kind != "tags":
            return self.values[self.place(positive, p)]
        old = split_tags(before, self.separator)
        tags = zip(self.values, positive, strict=True)
        new = [tag for tag, yes in tags if yes and tag not in old]
        if not self.separator:
            return json.dumps([*old, *new], ensure_ascii=False)
        joint = next(iter(_joints(before, self.separator)), self.joint)
        return joint.join(filter(None, [before.strip(), *new]))

    def shares(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each value in each cell; not defined for tags."""
        return np.maximum(-np.diff(p, prepend=1.0, append=0.0), 0) if self.kind == "ordered" else p

    def probability(self, p: NDArray[np.float64], positive: NDArray[np.bool_]) -> Any:
        """Return the probability of each cell's value, or the lowest probability of its tags."""
        if self.kind == "tags":
            return np.where(positive, p, np.inf).min(axis=-1)
        place = self.place(positive, p)
        return np.take_along_axis(self.shares(p), np.asarray(place)[..., None], axis=-1)[..., 0]

    def place(self, positive: NDArray[np.bool_], p: Any = 0.0) -> Any:
        """Return the position of each cell's value, given the cell's labels; undefined for tags."""
        if self.kind == "ordered":
            return np.cumprod(positive, axis=-1).sum(axis=-1)
        # A model without rules may predict no positive label; the most probable one is used then.
        return np.argmax(positive + np.nan_to_num(p), axis=-1)


def label_columns(table: Any) -> dict[str, tuple[list[int], ColumnGroup | None]]:
    """Map each label column to the positions of its labels, and its ColumnGroup or None."""
    owners = {label: group for group in table.words.groups for label in group.labels}
    found: dict[str, tuple[list[int], ColumnGroup | None]] = {}
    for k, name in enumerate(table.label_names):
        group = owners.get(name)
        found.setdefault(group.column if group else name, ([], group))[0].append(k)
    return found


def value_of(text: str) -> str:
    """Normalize the text of a value: remove extra spaces, and write 2.0 as 2."""
    word = " ".join(text.split())
    whole = _POINT_ZERO.fullmatch(word)
    return word if whole is None else whole[1]


def _joints(text: str, separator: str) -> list[str]:
    """Return every separator in a cell, including the spaces around the separator."""
    return re.findall(rf"\s*{re.escape(separator)}\s*", text.strip()) if separator else []


def split_tags(text: str, separator: str) -> list[str]:
    """Return the distinct tags of a cell; if the separator is empty, the cell is a JSON list."""
    parts: Any = text.split(separator) if separator else json_list(text)
    return list(dict.fromkeys(filter(None, (value_of(str(part)) for part in parts or ()))))


def json_list(text: str) -> list[Any] | None:
    """Return the items of a JSON list of texts and numbers; None if the text is not such a list."""
    if not (text := text.strip()).startswith("["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    plain = isinstance(found, list) and all(type(item) in (str, int, float) for item in found)
    return found if plain else None


def parse_orders(values: str | Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Map columns or patterns to the declared order of their values; () means no order."""
    found: dict[str, tuple[str, ...]] = {}
    for text in [values] if isinstance(values, str) else values:
        column, equals, order = text.partition("=")
        steps = tuple(map(value_of, order.split("<")))
        missing = any(step in MissingMarkers() for step in steps)
        if equals and (len(set(steps)) < max(len(steps), 2) or missing):
            raise ValueError(
                f"{text!r} must be COLUMN=LOW<MID<HIGH with distinct values in ascending order, or "
                "only COLUMN if its values have no order. Rename values called none, null or NA."
            )
        found[column.strip()] = steps if equals else ()
    return found


@dataclass(frozen=True)
class LabelVocabulary:
    """How a table encodes its labels: positive values, cutoffs, and the texts for yes and no."""

    positive: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by name or pattern
    cutoffs: tuple[str, ...] = ()
    # The most frequent texts for yes and no, by label.
    written: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    groups: tuple[ColumnGroup, ...] = ()  # columns with several labels


class LabelReader:
    """Reads label columns of a table; ``written`` and ``groups`` may come from another table."""

    # With ``single``, every column is one label, which is required to read rows in several calls.
    def __init__(
        self,
        names: Sequence[str],
        where: str,
        *,
        missing: Any = None,
        positive: Any = None,
        cutoffs: str | Iterable[str] = (),
        values: str | Iterable[str] = (),
        split: Any = None,
        written: Mapping[str, tuple[str, str]] | None = None,
        groups: Iterable[ColumnGroup] = (),
        single: bool = False,
        decimal: str = ".",
        first_row: int = 1,
    ) -> None:
        self._where = where
        cutoffs = (cutoffs,) if isinstance(cutoffs, str) else tuple(cutoffs)
        if not isinstance(positive, Mapping):
            positive = {"*": positive} if as_list(positive) else {}
        by_label = {str(one): tuple(map(str, as_list(values))) for one, values in positive.items()}
        self._vocabulary = LabelVocabulary(by_label, cutoffs)
        marks = {label: MissingMarkers(found, usual=False) for label, found in by_label.items()}
        splits = {"*": split} if isinstance(split, str) else split or {}
        given = (by_column(names, one, where) for one in (marks, parse_orders(values), splits))
        found = (cutoffs_of(names, cutoffs, where), *given)
        options = [[one.get(j) for j in range(len(names))] for one in found]
        same = where, decimal, single, first_row, MissingMarkers(as_list(missing))
        known = {group.column: group for group in groups}
        self._columns = [
            _LabelColumn(name, *same, (written or {}).get(name), known.get(name), *by_place)
            for name, *by_place in zip(names, *options, strict=True)
        ]

    def read(self, columns: Sequence[Any]) -> NDArray[np.float64]:
        """Return the labels in pandas columns; later calls read further rows of the same file."""
        size = len(columns[0]) if columns else 0
        parts = [label.read(column) for label, column in zip(self._columns, columns, strict=True)]
        values = np.hstack(parts) if parts else np.empty((size, 0))
        self.names = [name for column in self._columns for name in column.labels]
        check_distinct(self.names, self._where, "labels")
        # Both -1 and 0 are negative. In a table with both, one of them may mark missing labels.
        zero, minus = (
            [(c.first[number], repr(c.name)) for c in self._columns if number in c.first]
            for number in (0.0, -1.0)
        )
        if zero and minus:
            raise mixed_signs(self._where, zero[0], minus[0])
        return values

    @property
    def words(self) -> LabelVocabulary:
        """Return the options for reading labels, with the texts and groups found in the table."""
        pairs = {label.name: pair for label in self._columns if (pair := label.pair()) is not None}
        groups = tuple(label.group for label in self._columns if label.group is not None)
        return replace(self._vocabulary, written=pairs, groups=groups)


def by_column(names: Sequence[str], asked: Mapping[str, Any], where: str) -> dict[int, Any]:
    """Map label positions to options given by name or pattern; exact names override patterns."""
    found: dict[int, Any] = {}
    for label in sorted(asked, key=lambda label: (label in names, label != "*")):
        found.update(dict.fromkeys(match_columns(names, label, where + AMONG_LABELS), asked[label]))
    return found


@dataclass
class _LabelColumn:
    """Reads one label column; its rows may be passed in several calls."""

    name: str
    where: str
    decimal: str
    single: bool
    first_row: int  # the number of the first row in messages
    missing: MissingMarkers
    written: tuple[str, str] | None
    group: ColumnGroup | None
    cutoff: Cutoff | None
    positive: MissingMarkers | None
    order: tuple[str, ...] | None  # declared values in ascending order; None if undeclared
    separator: str | None  # text between two tags

    def __post_init__(self) -> None:
        self.first: dict[float, int] = {}  # the first rows of the numbers 0 and -1
        yes, no = self.written or ("", "not ")
        self.other = None if no == f"not {yes}" else no  # the negative value if a table had one
        self.yes: Counter[str] = Counter()
        self.no: Counter[str] = Counter()
        self.has_plus = False  # if + occurs in the column, - is negative
        # If a column contains only x and blanks, x is a check mark and means positive.
        self.checks = self.written is not None and is_check_mark(self.written[0])
        self.only_checks = False
        self.check_mark = ""  # a check mark in a column that may also have negative answers
        self.rows = 0

    def read(self, column: Any) -> NDArray[np.float64]:
        """Return the labels in the next rows of the column."""
        try:
            codes, distinct = column.factorize()
        except TypeError:  # cells such as lists are not hashable
            codes, distinct = column.map(as_cell, na_action="ignore").factorize()
        texts = [str(value) for value in distinct]
        first = np.empty(len(texts) + 1, dtype=np.int64)  # first rows; missing cells are last
        first[codes[::-1]] = np.arange(self.rows + len(codes), self.rows, -1) + self.first_row - 1
        times = np.bincount(codes[codes >= 0], minlength=len(texts)).tolist()
        if self.group is None and not self.rows and not self.single:
            self.group = self._find_group(dict(zip(texts, times, strict=True)))
        if self.group is not None:
            size = 8 * (len(codes) + len(texts)) * len(self.group.values)
            check_memory(self.where, size, f"a label for each value of {self.name!r}")
            return self.group.read(list(map(self._values, texts, first.tolist())), codes)
        self.has_plus = self.has_plus or "+" in map(str.strip, texts)
        if self.positive is None and self.cutoff is None and not (self.yes or self.no):
            words = [text for text in texts if text not in self.missing]
            checks = [text for text in words if is_check_mark(text) or is_unchecked(text)]
            if checks and all(is_check_mark(text) or parse_boolean(text) in _NO for text in words):
                self.check_mark = self.check_mark or checks[0].strip()
            if checks and len(checks) == len(words) and not self.checks:
                self.checks = self.only_checks = True
        answers = list(map(self._parse, texts, first.tolist()))
        self.rows += len(codes)
        for text, answer, n in zip(texts, answers, times, strict=True):
            if answer == answer:
                (self.yes if answer else self.no)[text.strip()] += n
        return np.array([*answers, np.nan])[codes, None]  # a code of -1 is a missing entry

    @property
    def labels(self) -> list[str]:
        """The names of the labels, which are known after the first call of ``read``."""
        return [self.name] if self.group is None else self.group.labels

    def _find_group(self, times: Mapping[str, int]) -> ColumnGroup | None:
        """Return the label group of a column with several values or tags; otherwise None."""
        if self.positive is not None or self.cutoff is not None:
            return None
        words, given = [text for text in times if text not in self.missing], self.separator or ""
        joints = Counter(one for text in words for one in _joints(text, given) * times[text])
        separator = given if joints else ""
        n_known = sum(times[text] for text in words)
        if separator or (words and all(json_list(text) is not None for text in words)):
            kind, found = "tags", {tag for text in words for tag in split_tags(text, separator)}
        else:
            kind, found = "values", set(map(value_of, words))
            if self.order is None and not self._are_values(found, n_known):
                return None
        numbers = [as_number(value) for value in found]
        values = sorted(found, key=str if None in numbers else float)
        if kind == "values" and self.order:
            kind, values = "ordered", list(self.order)
        if not values:
            return None
        most, longest = MOST_TAGS if kind == "tags" else MOST_VALUES, max(map(len, values))
        if len(values) > most or longest > MOST_CHARACTERS:
            reason = f"label {self.name!r} holds {len(values)} different {kind}"
            hint = (
                f"A column can have at most {most} {kind} of at most {MOST_CHARACTERS} characters. "
                f"Merge rare {kind}, or leave out the column with --drop (drop=). For numbers pass "
                '--cutoff "LABEL>=X" (cutoffs=); for several tags in a cell, --split "," (split=).'
            )
            raise DataFileError(self.where, reason, hint=hint)
        joint = max(joints, key=joints.__getitem__, default="")
        return ColumnGroup(self.name, kind, tuple(values), separator, joint=joint)

    def _are_values(self, values: set[str], n_known: int) -> bool:
        """Return whether values are recurring words or integers, and not answers such as yes."""
        if len(values) < _FEWEST or len(values) == n_known:
            return False
        read = [parse_boolean(value) is not None for value in values]
        if all(_WHOLE.fullmatch(value) for value in values):
            return not all(read)
        return not any(read) and not any(
            is_check_mark(value) or BOUND.fullmatch(value.replace(self.decimal, "."))
            for value in values
        )

    def _values(self, text: str, row: int) -> list[str]:
        """Return the values or tags in a cell."""
        if text in self.missing or self.group is None:
            return []
        if self.group.kind == "tags":
            return split_tags(text, self.group.separator)
        if (value := value_of(text)) in self.group.values:
            return [value]
        known = ", ".join(self.group.values)
        hint = f"Expected one of {known}. Correct the cell, or {_NAME_A_MARK}."
        raise self._unclear(text, row, hint)

    def pair(self) -> tuple[str, str] | None:
        """Return the texts for yes and no in the column; None if the column has neither."""
        if self.cutoff is not None:
            return self.cutoff.words
        found = commonest_pair(self.yes, self.no)
        if self.positive is not None and found is not None:
            # If only one of the two values occurs, the text of the other is unknown.
            yes = found[0] if self.yes else self.positive.first
            found = yes, found[1] if self.no else f"not {yes}"
        return found or self.written

    def _parse(self, text: str, row: int) -> float:
        if text in self.missing:
            return np.nan
        if self.cutoff is not None:
            found = self.cutoff.parse(text, self.decimal)
            if found is None:
                side = f", which may or may not be {self.cutoff.words[0]}"
                hint = "Enter a number, or a bound that lies on one side of the cutoff"
                raise self._unclear(text, row, f"{hint}, or {_NAME_A_MARK}.", side)
            return found
        word = text.strip()
        if self.positive is not None:  # the label has exactly one other value
            if text in self.positive:
                return 1.0
            self.other = word if self.other is None else self.other
            if text in MissingMarkers([self.other], usual=False):
                return 0.0
            beside = f", besides the values {self.positive.first!r} and {self.other[:40]!r}"
            raise self._unclear(text, row, f"A label has two values; {_NAME_A_MARK}.", beside)
        if self.checks and (is_check_mark(word) or is_unchecked(word)):
            return float(is_check_mark(word))
        signs = self.has_plus and word in ("+", "-")
        answer = float(word == "+") if signs else parse_boolean(word)
        if answer is None or self.only_checks:
            mark = self.check_mark
            beside = (
                f"{mark} is ambiguous beside other answers. If it means positive, pass --positive "
                f"{mark} (LABEL={mark} for one label). If it means missing, pass --missing {mark} "
                "(positive=, missing= in Python)."
            )
            known = mark and (is_check_mark(word) or answer in _NO)
            raise self._unclear(text, row, beside if known else _SPELLINGS)
        if answer <= 0 and answer not in self.first and as_number(word) is not None:
            self.first[answer] = row
        return max(answer, 0.0)

    def _unclear(self, text: str, row: int, hint: str, more: str = "") -> DataFileError:
        reason = f"label {self.name!r} holds {text.strip()[:40]!r} in row {row}{more}"
        return DataFileError(self.where, reason, hint=hint)


def as_cell(value: Any) -> str:
    """Return a cell as text; lists become JSON."""
    plain = isinstance(value, str) or not np.iterable(value)
    return str(value) if plain else json.dumps(list(value), default=str)
