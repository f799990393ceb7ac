"""The question about an entry: its row, the model's prediction, and why it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dm2l.review._journal import Decision, Journal, Key
from dm2l.tables import Table, TableModel
from dm2l.tables._explanation import column_weights
from dm2l.tables._suggestion import row_values, table_values

Labels = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Prediction(NamedTuple):
    """Prediction for an entry, given the known labels of its row, and why it is asked for."""

    probability: float
    value: float  # expected number of mistakes that an answer avoids, as in suggest_entries:
    rank: int  # of the value, from 1
    own: float  # in the entry,
    row: float  # in others of its row,
    others: float  # in other rows


class TablePredictions:
    """Predictions of one model by row and label (from 0); an answered entry keeps its own."""

    def __init__(
        self, model: TableModel, table: Table, Y: Labels, before: TablePredictions | None = None
    ) -> None:
        self.model = model
        uses = model.uses
        self.used = None if uses is None else frozenset(use.name for use in uses if use.used)
        self.values, _, self.warnings = table_values(model, table, Y)
        self._X = model.pipeline[:-1].transform(model.inputs(table)[0])
        self._sources = [feature.column for feature in model.features]
        if before is not None:
            known = ~np.isnan(Y)
            for name in ("probability", "row"):
                getattr(self.values, name)[known] = getattr(before.values, name)[known]

    def condition(self, row: int, known: Labels) -> None:
        """Condition a row on its known labels, NaN where one is missing."""
        X, trust = self._X[row : row + 1], self.values.trust
        p, gains = row_values(self.model.classifier, X, known[None], trust)
        missing = np.isnan(known)
        self.values.probability[row, missing] = p[0, missing]
        self.values.row[row, missing] = gains[0, missing]

    def supposing(self, row: int, cases: Labels) -> Labels:
        """Probabilities of a row's labels given each of several known labels."""
        X = self._X[np.full(len(cases), row)]
        return row_values(self.model.classifier, X, cases, 0.0)[0]

    def entry(self, row: int, label: int, left: Mask) -> Prediction:
        """Prediction for an entry, and its rank among those that are left."""
        values, total = self.values, self.values.total
        numbers = (values.probability, total, values.own, values.row, values.others)
        p, value, own, gain, others = (float(number[row, label]) for number in numbers)
        rank = 1 + int(np.sum(total > value, where=left))
        return Prediction(p, value, rank, own, gain, others)

    def best_entry(self, left: Mask) -> tuple[int, int]:
        """The most valuable of the entries that are left."""
        return divmod(int(np.argmax(np.where(left, self.values.total, -1.0))), left.shape[1])

    def rank_rows(self, left: Mask) -> list[int]:
        """Rows with entries that are left, the most valuable first."""
        value = np.sum(self.values.own + self.values.others, axis=1, where=left)
        rows = np.flatnonzero(left.any(axis=1))
        return [int(i) for i in rows[np.argsort(-value[rows], kind="stable")]]

    def column_weights(self, row: int, labels: list[int]) -> dict[str, float]:
        """Weights of the columns of a row for a label; for several, sums without sign."""
        found = column_weights(self.model, self._sources, self._X, row, labels)
        if found is None:
            return {}
        names, weights = found
        one = weights[:, 0] if len(labels) == 1 else np.abs(weights).sum(axis=1)
        return dict(zip(names, one.tolist(), strict=True))


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
    """Question about an entry, or about a row if the label is blank; ``cases`` after yes and no."""
    row, label = key
    known, names = journal.labels(row), journal.table.label_names
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
