"""Selecting columns by name, pattern or number: one syntax for labels and dropped columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from dm2l._utils.files import DataFileError, printable

# Ends of the names of columns that dm2l itself adds to a label's.
PROBABILITY, LOOK, SCORE = "__probability", "__look", "__score"


class ColumnRequestError(ValueError):
    """Columns were asked for that are not there: an error of the call, not of the file."""


class LabelNames(tuple[str, ...]):
    """Label columns by exact name: none is a number of columns, a prefix or a pattern."""


def match_columns(names: Sequence[str], asked: str | Iterable[Any], where: str) -> list[int]:
    """Positions of the columns that are asked for, in that order.

    Each is a name, a glob pattern such as ``tox_*``, a prefix that ends in a sign such as
    ``tox_``, or a list of these with commas. An existing name is meant as it stands.
    """
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
                    f"{where} has no column {part!r}, nor one that matches it as a pattern. "
                    f"Columns: {', '.join(shown)}."
                )
            found.update(dict.fromkeys(hits))
    return list(found)


def matches_pattern(name: str, pattern: str) -> bool:
    """Whether a name, a pattern or a prefix selects a column."""
    # "tox_" is a prefix; without the sign at its end it may as well be a typing error.
    if pattern[-1].isalnum() or pattern[-1] in "*?]":
        return fnmatchcase(name, pattern)
    return fnmatchcase(name, f"{pattern}*")


def added_columns(names: Iterable[str]) -> set[str]:
    """Columns that dm2l has added: of one label a probability, and a look or a score."""
    known = set(names)
    found: set[str] = set()
    for name in known:
        stem = name.removesuffix(PROBABILITY)
        beside = known & {stem + LOOK, stem + SCORE}
        if stem != name and beside:
            found |= beside | {name}
    return found


def check_distinct(names: Iterable[str], where: str, what: str = "columns") -> None:
    """Refuse columns of the same name."""
    names = list(names)
    if len(set(names)) < len(names):
        double = sorted(name for name, count in Counter(names).items() if count > 1)
        listed = ", ".join(map(repr, double[:5]))
        raise DataFileError(where, f"there are several {what} named {listed}; rename them")


def choose_labels(names: Sequence[str], labels: Any, where: str) -> list[int]:
    """Positions of the label columns: the last ``labels``, or those that are asked for."""
    if isinstance(labels, (int, np.integer)) and not isinstance(labels, bool):
        if not 1 <= labels < len(names):
            most = len(names) - 1
            known = f"{where} has {len(names)} columns, of which 1 to {most} can be labels."
            raise ColumnRequestError(f"labels={labels} asks for that many last columns; {known}")
        return list(range(len(names) - int(labels), len(names)))
    asked = [labels] if isinstance(labels, str) else list(labels) if np.iterable(labels) else []
    if not asked:
        raise ColumnRequestError(
            f"labels= takes names or patterns of label columns, or the number of last columns "
            f"that are labels; got {labels!r}."
        )
    exact = labels if isinstance(labels, LabelNames) else ()
    missing = [name for name in exact if name not in names]
    if missing:
        listed = ", ".join(map(repr, missing))
        reason = f"it lacks {len(missing)} of the {len(labels)} labels of the model: {listed}"
        raise DataFileError(where, reason, hint="Add the columns, blank where nobody looked.")
    found: dict[int, None] = {}
    # A pattern of labels does not select columns that an earlier `complete` has added.
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
    """Positions of the label columns that are not dropped; an exact name wins over a pattern."""
    chosen, dropped = choose_labels(names, labels, where), match_columns(names, drop, where)
    told = _by_name(names, labels)
    both = sorted(told & _by_name(names, drop))
    if both:
        raise ColumnRequestError(f"{where}: {both[0]!r} is named as a label and to be dropped.")
    left = [j for j in chosen if names[j] in told or j not in dropped]
    if not left:
        raise ColumnRequestError(f"{where}: every label is to be dropped; none is left.")
    return left


def _by_name(names: Sequence[str], asked: Any) -> set[str]:
    """Columns that are requested by exact name."""
    known = set(names)
    texts = [asked] if isinstance(asked, str) else asked if np.iterable(asked) else []
    found: set[str] = set()
    for text in map(str, texts):
        found |= {text} if text in known else known.intersection(map(str.strip, text.split(",")))
    return found


def split_columns(
    names: Sequence[str], labels: Sequence[int], drop: str | Iterable[str], where: str
) -> list[int]:
    """Positions of the features: columns that are neither labels, nor dropped, nor dm2l's own."""
    dropped = set(match_columns(names, drop, where))
    both = dropped.intersection(labels)
    if both:
        name = names[min(both)]
        raise ColumnRequestError(f"{where}: {name!r} is a label and in drop=; it cannot be both.")
    taken = dropped.union(labels)
    added = added_columns(names)
    features = [j for j, name in enumerate(names) if j not in taken and name not in added]
    if not features:
        reason = "every column is a label or dropped; no features are left."
        raise ColumnRequestError(f"{where}: {reason}")
    return features
