"""The question about an entry: its row, the model's prediction, and why it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dm2l.review._journal import Decision, Journal, Key
from dm2l.review._predictions import Labels, Prediction, TablePredictions
from dm2l.tables import Table

# Further columns, and longer texts, are left out and counted.
MOST_COLUMNS, MOST_CHARACTERS = 300, 4000
# Columns on top: some that the model does not use, such as names, and those of the largest weight.
UNUSED, HEAVY = 2, 8


class Column(NamedTuple):
    """A column of a row."""

    name: str
    text: str
    used: bool  # by the model
    # Change of the score from a row with the mean of this column; for a whole row the sum over its
    # open labels, without sign.
    weight: float


class OtherLabel(NamedTuple):
    """Another label of the row."""

    name: str
    state: str  # "observed", "answered" or "open"
    answer: str
    probability: float | None  # of an open label
    if_yes: float | None = None  # the same after either answer
    if_no: float | None = None


class Question(NamedTuple):
    """A question about an entry of the table, or about all open labels of a row."""

    row: int  # 1 is the first below the header
    label: str  # blank for a whole row
    answer: str | None  # if it was decided already
    prediction: Prediction | None  # for a missing label
    observed: str  # "yes" or "no" of a suspected label error
    error_probability: float  # that the observed label is wrong
    columns: list[Column]  # of a sparse row those that are not zero
    n_first: int  # columns that are shown at first
    n_left_out: int
    others: list[OtherLabel]  # those first that the answer changes most


def make_question(
    journal: Journal,
    predictions: TablePredictions,
    key: Key,
    cases: Labels | None = None,
    *,
    prediction: Prediction | None = None,
    made: Mapping[Key, Decision] | None = None,
    error_probability: float = 0.0,
) -> Question:
    """Question about an entry, or about a row if the label of the key is blank.

    ``cases`` are the known labels of the row after a yes and after a no, ``made`` the decisions of
    this queue.
    """
    row, label = key
    known, names = journal.row_labels(row), journal.table.label_names
    asked = [names.index(label)] if label else np.flatnonzero(np.isnan(known)).tolist()
    weights = predictions.column_weights(row - 1, asked or list(range(len(names))))
    columns, n_first = arranged(row_columns(journal.table, row, predictions.used, weights))
    moved = None if cases is None else predictions.supposing(row - 1, cases).tolist()
    others = []
    for k, name in enumerate(names):
        if name == label:
            continue
        if np.isnan(known[k]):
            p = float(predictions.values.probability[row - 1, k])
            after = (None, None) if moved is None else (moved[0][k], moved[1][k])
            others.append(OtherLabel(name, "open", "", p, *after))
        else:
            answer = "yes" if known[k] == 1 else "no"
            state = "observed" if journal.observed(row, name) == answer else "answered"
            others.append(OtherLabel(name, state, answer, None))
    if moved is not None:
        others.sort(key=lambda o: (o.state != "open", -abs((o.if_yes or 0.0) - (o.if_no or 0.0))))
    decision = (made or {}).get(key)
    return Question(
        row=row,
        label=label,
        answer=decision and decision.answer,
        prediction=prediction,
        observed=journal.observed(row, label) if label else "",
        error_probability=error_probability,
        columns=columns[:MOST_COLUMNS],
        n_first=n_first,
        n_left_out=max(0, len(columns) - MOST_COLUMNS),
        others=others,
    )


def arranged(columns: list[Column]) -> tuple[list[Column], int]:
    """Columns with the most informative ones first, and how many these are."""
    unused = [column for column in columns if not column.used][:UNUSED]
    heavy = sorted((c for c in columns if c.weight), key=lambda column: -abs(column.weight))
    first = [*unused, *heavy[:HEAVY]] or columns[:HEAVY]
    chosen = {column.name for column in first}
    return [*first, *(c for c in columns if c.name not in chosen)], len(first)


def row_columns(
    table: Table, row: int, used: frozenset[str] | None, weights: Mapping[str, float] | None = None
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
