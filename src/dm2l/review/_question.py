"""What a person is shown of an entry: its row, what the model believes, why it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dm2l.review._journal import Decision
from dm2l.tables import Table

# Of a row with more columns, and of a longer text, the rest is left out and counted.
MOST_COLUMNS, MOST_CHARACTERS = 300, 4000
# Columns that are not folded away: those that a row may be known by, and those that say most.
KNOWN_BY, FIRST = 2, 8

Key = tuple[int, str]


class Belief(NamedTuple):
    """What the model says about a hole, given what its row knows.

    ``probability`` is that of a yes. ``value`` are the mistakes that an answer is expected to
    spare, see :func:`dm2l.tables.suggest_entries`: ``own`` about the hole, ``row`` about others
    of its row, ``others`` in other rows. ``rank`` counts from 1, the most valuable.
    """

    probability: float
    value: float
    rank: int
    own: float
    row: float
    others: float


class Column(NamedTuple):
    """A column of the row as text, whether the model uses it, and how it speaks for a yes.

    ``weight`` is the movement of the score against a row with the mean of this column; for a whole
    row, that of all its open labels, without sign.
    """

    name: str
    text: str
    used: bool
    weight: float


class OtherLabel(NamedTuple):
    """A label of the row: observed, answered, or open with the probability of a yes.

    ``if_yes`` and ``if_no`` are what that would be after either answer to what is asked.
    """

    name: str
    state: str
    answer: str
    probability: float | None
    if_yes: float | None = None
    if_no: float | None = None


@dataclass(frozen=True)
class Question:
    """An entry of the table, or all open labels of a row, as a person is asked about it.

    Attributes
    ----------
    row : int
        Row number; 1 is the first row below the header.
    label : str
        Name of the label; blank if all labels of the row are asked for, which then are ``others``.
    answer : str or None
        "yes", "no" or "skip" if it was decided already.
    belief : Belief or None
        What the model says; None for a whole row, and for a label that was observed.
    observed : str
        What stands there ("yes" or "no") if this is a doubtful label; blank else.
    doubt : float
        Probability that it is wrong.
    columns : list of Column
        The row; of a sparse one what is not zero. First come those that it may be known by and
        those that speak loudest.
    n_first : int
        How many these are.
    n_left_out : int
        Columns that are not among these because there are too many.
    others : list of OtherLabel
        The row's other labels; open ones first, those first that the answer settles most.
    """

    row: int
    label: str
    answer: str | None
    belief: Belief | None
    observed: str
    doubt: float
    columns: list[Column]
    n_first: int
    n_left_out: int
    others: list[OtherLabel]


def arranged(columns: list[Column]) -> tuple[list[Column], int]:
    """Columns with those first that matter, and how many these are."""
    known_by = [column for column in columns if not column.used][:KNOWN_BY]
    loud = sorted((c for c in columns if c.weight), key=lambda column: -abs(column.weight))
    first = [*known_by, *loud[:FIRST]] or columns[:FIRST]
    chosen = {column.name for column in first}
    return [*first, *(c for c in columns if c.name not in chosen)], len(first)


def row_columns(
    table: Table, row: int, used: frozenset[str] | None, weights: dict[str, float] | None = None
) -> list[Column]:
    """The features of a row as text; of a sparse one those that are not zero."""
    values: list[tuple[str, Any]]
    if table.frame is None:
        one = table.matrix.tocsr()[row - 1].tocoo()
        names = table.feature_names
        values = [(names[j], x) for j, x in zip(one.col.tolist(), one.data.tolist(), strict=True)]
    else:
        # Cell by cell: a row of numbers would be of one type, and cut long integers short.
        frame = table.frame.iloc[row - 1 : row]
        values = [
            (name, "" if column.isna().iloc[0] else column.iloc[0])
            for name in table.feature_names
            for column in [frame[name]]
        ]
    weights = weights or {}
    return [
        Column(name, _text(value), used is None or name in used, weights.get(name, 0.0))
        for name, value in values
    ]


def _text(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{value:.12g}"
    text = str(value)
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]} ... ({len(text) - MOST_CHARACTERS} more characters)"


class Progress(NamedTuple):
    """How far a review is.

    ``suggested`` entries are asked for in all; ``answered`` of them got a yes or no, ``skipped``
    none. Of the ``believed`` answers to which the model gave a probability when it asked,
    ``foreseen`` lie on its side of one half: it had not learnt from them yet. Of the ``checked``
    labels, which were observed, ``corrected`` are said to be wrong.
    """

    suggested: int
    answered: int
    skipped: int
    foreseen: int
    believed: int
    checked: int = 0
    corrected: int = 0

    @property
    def decided(self) -> int:
        """Entries that were answered or skipped."""
        return self.answered + self.skipped


class Doubting(NamedTuple):
    """Whether doubtful labels are being looked for, how many were found, and why that failed."""

    running: bool = False
    found: int = 0
    error: str = ""
    done: bool = False


def count(decisions: Mapping[Key, Decision], suggested: int) -> Progress:
    """Sum up what was decided."""
    answered = [made for made in decisions.values() if made.answer != "skip"]
    known = [(answer == "yes", p) for answer, p in answered if p is not None]
    return Progress(
        suggested=suggested,
        answered=len(answered),
        skipped=len(decisions) - len(answered),
        foreseen=sum((p > 0.5) == yes for yes, p in known),
        believed=len(known),
    )
