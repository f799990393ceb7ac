"""Questions about missing labels: the row, the model's prediction, and the value of an answer."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from dm2l.review._columns import AskedColumn, Labels, Mask
from dm2l.review._journal import Journal
from dm2l.review._sample import Key
from dm2l.tables import Table, TableModel
from dm2l.tables._explanation import column_weights
from dm2l.tables._suggestion import one_per_cell, row_values, table_values


class Prediction(NamedTuple):
    """Probability of an entry given the known labels of its row, and the value of an answer."""

    probability: float
    value: float  # expected number of errors that an answer avoids: own + row + others
    rank: int  # rank of the value, from 1
    own: float  # avoided errors in this entry
    row: float  # avoided errors in other entries of the row
    others: float  # avoided errors in other rows


class TablePredictions:
    """Predictions of a model for each row and label; rows and labels are counted from 0."""

    def __init__(self, model: TableModel, table: Table, Y: Labels, old: Self | None = None) -> None:
        self.model = model
        uses, self._exclusive = model.uses, table.exclusive
        self.used = None if uses is None else frozenset(use.name for use in uses if use.used)
        self.values, _, self.warnings = table_values(model, table, Y)
        self._X = model.pipeline[:-1].transform(model.inputs(table)[0])
        self._sources = [feature.column for feature in model.features]
        if old is not None:  # an answered entry keeps its prediction from before the answer
            known = ~np.isnan(Y)
            for name in ("probability", "row"):
                getattr(self.values, name)[known] = getattr(old.values, name)[known]

    def condition(self, row: int, known: Labels) -> None:
        """Condition the predictions for a row on its known labels; NaN marks missing labels."""
        X, trust = self._X[row : row + 1], self.values.trust
        p, gains = row_values(self.model.classifier, X, known[None], trust, self._exclusive)
        missing = np.isnan(known)
        self.values.probability[row, missing] = p[0, missing]
        self.values.row[row, missing] = gains[0, missing]

    def supposing(self, row: int, cases: Labels) -> Labels:
        """Return the probabilities of a row's labels for each set of known labels in ``cases``."""
        X = self._X[[row] * len(cases)]
        return row_values(self.model.classifier, X, cases, 0.0, self._exclusive)[0]

    def entry(self, row: int, label: int, left: Mask) -> Prediction:
        """Return the prediction for an entry, with its rank among the open entries ``left``."""
        values, total = self.values, self.values.total
        numbers = (values.probability, total, values.own, values.row, values.others)
        p, value, own, gain, others = (float(number[row, label]) for number in numbers)
        rank = 1 + int(np.sum(total > value, where=one_per_cell(total, left, self._exclusive)))
        return Prediction(p, value, rank, own, gain, others)

    def column_weights(self, row: int, labels: list[int]) -> dict[str, float]:
        """Return columns' contributions to a label, or sums of absolute contributions to labels."""
        found = column_weights(self.model, self._sources, self._X, row, labels)
        if found is None:
            return {}
        names, weights = found
        one = weights[:, 0] if len(labels) == 1 else np.abs(weights).sum(axis=1)
        return dict(zip(names, one.tolist(), strict=True))


# Maximum number of columns and of characters per value in a question; others are only counted.
MOST_COLUMNS, MOST_CHARACTERS = 300, 4000
UNUSED, HEAVY = 2, 8  # numbers of unused (such as names) and of important columns at the top
LONG = 60  # values with at least this many characters are texts, which come first


class Column(NamedTuple):
    name: str
    text: str
    used: bool  # whether the model uses the column
    weight: float  # contribution to the score; for a whole row, absolute sum over missing labels


class OtherLabel(NamedTuple):
    name: str
    state: str  # "observed", "answered", "implied" or "open"
    answer: str
    probability: float | None  # probability of "yes" for an open label
    if_yes: float | None = None  # probability of "yes" after the answer "yes"
    if_no: float | None = None
    choices: Sequence[tuple[str, float]] = ()  # the values of a column, and their probabilities


class Question(NamedTuple):
    """A question about an entry of the table, or about all missing labels of a row."""

    row: int  # row number, counted from 1 below the header
    name: str  # values of the columns that identify the row
    label: str  # blank for a whole row
    tag: str  # the tag that the label stands for, and its column, or blank
    choices: Sequence[tuple[str, float]]  # the values of a column, and their probabilities
    answer: str | None  # the current answer, if there is one
    prediction: Prediction | None  # for a missing label
    observed: str  # "yes" or "no" for an observed label
    error_probability: float  # probability that the observed label is wrong
    columns: list[Column]  # nonzero columns of a sparse row, all columns of other rows
    n_first: int  # number of columns that are shown at first
    n_left_out: int
    others: list[OtherLabel]  # sorted by the change of their probability due to the answer


def make_question(
    journal: Journal,
    predictions: TablePredictions,
    key: Key,
    prediction: Prediction | None = None,
    error_probability: float = 0.0,
    identifiers: Sequence[str] = (),
) -> Question:
    """Return the question about an entry or, if the label is blank, about a whole row."""
    row, label = key
    mine = journal.columns[label] if label else AskedColumn("", [], None)
    known, names = journal.labels(row), journal.table.label_names
    p = predictions.values.probability[row - 1]
    asked = mine.labels if label else np.flatnonzero(np.isnan(known)).tolist()
    weights = predictions.column_weights(row - 1, asked or list(range(len(names))))
    columns = row_columns(journal.table, row, predictions.used, weights)
    moved = None
    if prediction is not None and mine.group is None:
        cases = np.tile(known, (2, 1))
        cases[:, asked[0]] = 1, 0  # one case for the answer "yes", one for "no"
        moved = predictions.supposing(row - 1, cases).tolist()
    others = []
    for name, other in journal.columns.items():
        if name != other.name or name == mine.name:
            continue
        k, answer = other.labels[0], other.answer(known)
        state = "observed" if journal.observed(row, names[k]) else "implied"
        state = state if journal.answer(row, name) in ("", "skip") else "answered"
        one = OtherLabel(name, state if answer else "open", answer, None, choices=other.choices(p))
        if not answer and other.group is None:
            after = (None, None) if moved is None else (moved[0][k], moved[1][k])
            one = one._replace(probability=float(p[k]), if_yes=after[0], if_no=after[1])
        others.append(one)
    if moved is not None:
        others.sort(key=lambda o: (o.state != "open", -abs((o.if_yes or 0.0) - (o.if_no or 0.0))))
    cells = {column.name: column.text for column in columns}
    shown = [column for column in columns if column.name not in identifiers]
    columns, n_first = arranged(shown or columns)
    return Question(
        row=row,
        name=" ".join(filter(None, (cells[name] for name in identifiers))),
        label=mine.name,
        tag=mine.tag,
        choices=mine.choices(p),
        answer=journal.answer(*key) or None if label else None,
        prediction=prediction,
        observed=mine.answer(journal.table.Y[row - 1]).removeprefix("=") if label else "",
        error_probability=error_probability,
        columns=columns[:MOST_COLUMNS],
        n_first=n_first,
        n_left_out=max(0, len(columns) - MOST_COLUMNS),
        others=others,
    )


def arranged(columns: list[Column]) -> tuple[list[Column], int]:
    """Return the columns, the most informative first, and the number of informative columns."""
    unused = [column for column in columns if not column.used][:UNUSED]
    heavy = sorted((c for c in columns if c.weight), key=lambda column: -abs(column.weight))
    first = [*unused, *heavy[:HEAVY]] or columns[:HEAVY]
    first.sort(key=lambda column: len(column.text) < LONG)
    chosen = {column.name for column in first}
    return [*first, *(c for c in columns if c.name not in chosen)], len(first)


def row_columns(
    table: Table, row: int, used: frozenset[str] | None, weights: Mapping[str, float] | None = None
) -> list[Column]:
    """Return the features of a row as text; for a sparse row, only the nonzero features."""
    names = table.feature_names
    if table.frame is None:
        one = table.matrix.tocsr()[row - 1].tocoo()
        values = [(names[j], x) for j, x in zip(one.col.tolist(), one.data.tolist(), strict=True)]
    else:
        # Read cells one by one, because long integers lose digits in a row with a common type.
        cells = [(name, table.frame[name].iloc[row - 1 : row]) for name in names]
        values = [(name, "" if cell.isna().iloc[0] else cell.iloc[0]) for name, cell in cells]
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
