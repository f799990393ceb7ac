"""Predictions for the missing labels of a table, kept up with the answers without a refit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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

    def best_entry(self, left: Mask) -> tuple[int, int] | None:
        """The most valuable of the entries that are left; None if none is."""
        if not left.any():
            return None
        place = np.argmax(np.where(left, self.values.total, -1.0))
        row, label = np.unravel_index(place, left.shape)
        return int(row), int(label)

    def rank_rows(self, left: Mask) -> list[int]:
        """Rows with entries that are left, the most valuable first."""
        value = np.sum(self.values.own + self.values.others, axis=1, where=left)
        rows = np.flatnonzero(left.any(axis=1))
        order: list[int] = rows[np.argsort(-value[rows], kind="stable")].tolist()
        return order

    def column_weights(self, row: int, labels: list[int]) -> dict[str, float]:
        """Weights of the columns of a row for a label; for several, sums without sign."""
        found = column_weights(self.model, self._sources, self._X, row, labels)
        if found is None:
            return {}
        names, weights = found
        one = weights[:, 0] if len(labels) == 1 else np.abs(weights).sum(axis=1)
        return dict(zip(names, one.tolist(), strict=True))
