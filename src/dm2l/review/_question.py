"""What a person is shown of an entry: its row, what the model believes, why it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dm2l.review._journal import Decision
from dm2l.tables import Suggestions, Table

# Of a row with more columns, and of a longer text, the rest is left out and counted.
MOST_COLUMNS, MOST_CHARACTERS = 300, 4000

Key = tuple[int, str]


class Belief(NamedTuple):
    """What the model says about a hole.

    ``probability`` is that of a yes; ``value`` that of an answer, see
    :func:`dm2l.tables.suggest_entries`; ``rank`` counts from 1, the most valuable.
    """

    probability: float
    value: float
    rank: int


class Column(NamedTuple):
    """A column of the row as text, and whether the model uses it."""

    name: str
    text: str
    used: bool


class OtherLabel(NamedTuple):
    """A further label of the row: observed, answered, or open with the probability of a yes."""

    name: str
    state: str
    answer: str
    probability: float | None


@dataclass(frozen=True)
class Question:
    """A hole of the table, as a person is asked about it.

    Attributes
    ----------
    row : int
        Row number; 1 is the first row below the header.
    label : str
        Name of the label.
    answer : str or None
        "yes", "no" or "skip" if it was decided already.
    belief : Belief
        What the model says.
    n_open : int
        Further holes of this label without an answer, which this answer bears on.
    columns : list of Column
        The row; of a sparse one what is not zero.
    n_left_out : int
        Columns that are not among these because there are too many.
    others : list of OtherLabel
        The row's other labels.
    """

    row: int
    label: str
    answer: str | None
    belief: Belief
    n_open: int
    columns: list[Column]
    n_left_out: int
    others: list[OtherLabel]


def beliefs(found: Suggestions) -> dict[Key, Belief]:
    """What a ranking says, by row and label, the most valuable first."""
    rows, *numbers = (part.tolist() for part in (found.row, found.probability, found.value))
    keys = zip(rows, found.label, strict=True)
    ranks = range(1, len(rows) + 1)
    return dict(zip(keys, map(Belief, *numbers, ranks), strict=True))


def make_question(
    table: Table,
    key: Key,
    believed: dict[Key, Belief],
    decisions: dict[Key, Decision],
    used: frozenset[str] | None,
) -> Question:
    """Gather what is shown; ``used`` are the columns that the model takes, None for all."""
    row, label = key
    columns = row_columns(table, row, used)
    mine = table.label_names.index(label)
    holes = 1 + np.flatnonzero(np.isnan(table.Y[:, mine]))
    answered = {r for (r, name), made in decisions.items() if name == label and made[0] != "skip"}
    return Question(
        row=row,
        label=label,
        answer=decisions[key].answer if key in decisions else None,
        belief=believed[key],
        n_open=len(set(holes.tolist()) - answered - {row}),
        columns=columns[:MOST_COLUMNS],
        n_left_out=max(0, len(columns) - MOST_COLUMNS),
        others=[
            _other(table, (row, name), believed, decisions)
            for name in table.label_names
            if name != label
        ],
    )


def row_columns(table: Table, row: int, used: frozenset[str] | None) -> list[Column]:
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
    return [Column(name, _text(value), used is None or name in used) for name, value in values]


def _other(
    table: Table, key: Key, believed: dict[Key, Belief], decisions: dict[Key, Decision]
) -> OtherLabel:
    row, name = key
    observed = table.Y[row - 1, table.label_names.index(name)]
    if not np.isnan(observed):
        return OtherLabel(name, "observed", "yes" if observed else "no", None)
    if key in decisions and decisions[key].answer != "skip":
        return OtherLabel(name, "answered", decisions[key].answer, None)
    return OtherLabel(name, "open", "", believed[key].probability)


def _text(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{value:.12g}"
    text = str(value)
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]} ... ({len(text) - MOST_CHARACTERS} more characters)"
