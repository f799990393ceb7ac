"""What the readers share: which columns are labels, what a label may say, what comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any

import numpy as np
from numpy import iterable
from numpy.typing import NDArray
from sklearn.utils import Bunch

# Marks of a missing entry that every text format knows, in lower case.
MISSING_WORDS = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
_TRUTH_WORDS = {"false": 0.0, "no": 0.0, "true": 1.0, "yes": 1.0}


class ColumnRequestError(ValueError):
    """Columns were asked for that are not there: the fault is the question's, not the table's."""


def require(module: str, extra: str) -> Any:
    """Import an optional module, or say which extra brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "") != module:
            raise
        raise ImportError(
            f"This needs {error.name}, which is not installed: pip install 'dm2l[{extra}]'"
        ) from error


def match_columns(names: Sequence[str], patterns: Iterable[str], where: str) -> list[int]:
    """Positions of the columns that names or glob patterns ask for, in the order asked for."""
    places: dict[str, list[int]] = {}
    for j, name in enumerate(names):
        places.setdefault(name, []).append(j)
    found: dict[int, None] = {}
    for pattern in patterns:
        # A name that is there is meant as it stands, even where it looks like a pattern.
        exact = places.get(pattern, [])
        hits = exact or [j for j, name in enumerate(names) if fnmatchcase(name, pattern)]
        if not hits:
            raise ColumnRequestError(
                f"{where} has no column {pattern!r}, nor one that matches it as a pattern. "
                f"{_listing(names)}"
            )
        if len(exact) > 1:
            raise ValueError(f"{where} has {len(exact)} columns named {pattern!r}; rename them.")
        found.update(dict.fromkeys(hits))
    return list(found)


def check_distinct(names: Iterable[str], where: str) -> None:
    """Refuse columns of the same name."""
    double = sorted(name for name, count in Counter(names).items() if count > 1)
    if double:
        listed = ", ".join(map(repr, double[:5]))
        raise ValueError(f"{where} has several columns named {listed}; rename them.")


def choose_labels(names: Sequence[str], labels: Any, where: str) -> list[int]:
    """Positions of the label columns: the last ``labels``, or those it names."""
    if isinstance(labels, (int, np.integer)) and not isinstance(labels, bool):
        if not 1 <= labels < len(names):
            raise ColumnRequestError(
                f"labels={labels} asks for that many last columns as labels; {where} has "
                f"{len(names)} columns, of which 1 to {len(names) - 1} can be labels."
            )
        return list(range(len(names) - int(labels), len(names)))
    patterns = [labels] if isinstance(labels, str) else list(labels) if iterable(labels) else []
    if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
        raise ColumnRequestError(
            f"labels= takes names or patterns of label columns, or the number of last columns "
            f"that are labels; got {labels!r}."
        )
    return match_columns(names, patterns, where)


def as_patterns(drop: str | Iterable[str]) -> list[str]:
    """The argument ``drop`` as a list: a single string is one pattern, not its letters."""
    return [drop] if isinstance(drop, str) else list(drop)


def truth(text: str) -> float | None:
    """What a word of a label column says: 0, 1 or -1, NaN where missing, None where unclear."""
    word = text.strip().casefold()
    if word in MISSING_WORDS:
        return np.nan
    if word in _TRUTH_WORDS:
        return _TRUTH_WORDS[word]
    try:
        number = float(word)
    except ValueError:
        return None
    return number if number in (-1.0, 0.0, 1.0) and "_" not in word else None


def label_targets(values: Any, names: Sequence[str] | None, where: str) -> NDArray[Any]:
    """Labels as int8 0/1, or as float64 with NaN where some are missing."""
    values = np.asarray(values, dtype=np.float64)
    missing = np.isnan(values)
    bad = ~(missing | np.isin(values, (-1.0, 0.0, 1.0)))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"{where}: {_label(names, column)} holds {values[row, column]:g} in row {row} "
            f"({bad.sum()} such entries). Labels are 0/1 or -1/+1, and NaN where not observed; "
            "a column with other values is no label."
        )
    if (values == -1).any() and (values == 0).any():
        row, column = np.argwhere(values == 0)[0]
        raise ValueError(
            f"{where}: the labels mix the codings 0/1 and -1/+1: {_label(names, column)} holds 0 "
            f"in row {row}, and there is -1 elsewhere. Where the reader has missing_label=, it "
            "says which of the two means not observed."
        )
    if not missing.any():
        return (values == 1).astype(np.int8)
    return np.where(missing, np.nan, (values == 1).astype(np.float64))


def no_labels(data: Any) -> NDArray[np.int8]:
    """The labels of rows that come without."""
    return np.empty((data.shape[0], 0), dtype=np.int8)


def make_bunch(data: Any, target: NDArray[Any], **known: Any) -> Bunch:
    """The Bunch of every reader: what the file does not say is None."""
    silent = dict.fromkeys(("target_names", "feature_names", "train_index", "test_index", "source"))
    return Bunch(**{"data": data, "target": target, **silent, **known})


def _label(names: Sequence[str] | None, column: int) -> str:
    return f"label {column}" if names is None else f"label {names[column]!r}"


def _listing(names: Sequence[str]) -> str:
    if len(names) <= 12:
        return f"Columns: {', '.join(names)}."
    return f"Columns: {', '.join(names[:6])}, ..., {', '.join(names[-6:])} ({len(names)})."
