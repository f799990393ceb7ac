"""What the model believes of the holes of a table, kept up with the answers without a refit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l.review._question import Belief
from dm2l.tables import Table, TableModel
from dm2l.tables._explanation import column_weights
from dm2l.tables._suggestion import row_values, table_values

Labels = NDArray[np.float64]


class TableBeliefs:
    """Beliefs of one model, by row and label (counted from 0).

    An answer changes those about the other holes of its row at once: they are conditioned on what
    the row now knows. What was answered keeps the belief that it was asked with.
    """

    def __init__(
        self, model: TableModel, table: Table, Y: Labels, before: TableBeliefs | None = None
    ) -> None:
        self.model = model
        self.values, _, self.warnings = table_values(model, table, Y)
        self.open = np.isnan(Y)
        self._X = model.pipeline[:-1].transform(model.inputs(table)[0])
        self._sources = [feature.column for feature in model.features]
        if before is not None:
            for name in ("probability", "row"):
                ours, theirs = getattr(self.values, name), getattr(before.values, name)
                ours[~self.open] = theirs[~self.open]

    def learn(self, row: int, known: Labels) -> None:
        """Take note of what a row knows now, NaN for its holes."""
        p, gains = row_values(self.model.classifier, self._at(row), known[None], self.values.trust)
        self.open[row] = holes = np.isnan(known)
        self.values.probability[row, holes] = p[0, holes]
        self.values.row[row, holes] = gains[0, holes]

    def supposing(self, row: int, cases: Labels) -> NDArray[np.float64]:
        """Probabilities of a row's labels if it knew what each case says, (n_cases, n_labels)."""
        X = self._X[np.full(len(cases), row)]
        return row_values(self.model.classifier, X, cases, 0.0)[0]

    def of(self, row: int, label: int, left: NDArray[np.bool_]) -> Belief:
        """What is believed of an entry, and its rank among those that are left."""
        values = self.values
        total = values.total
        numbers = (
            float(part[row, label])
            for part in (values.probability, total, values.own, values.row, values.others)
        )
        p, value, own, gain, others = numbers
        rank = 1 + int(np.sum(total > total[row, label], where=left))
        return Belief(p, value, rank, own, gain, others)

    def best(self, left: NDArray[np.bool_]) -> tuple[int, int] | None:
        """The most valuable of the entries that are left; None if none is."""
        if not left.any():
            return None
        row, label = np.unravel_index(
            np.argmax(np.where(left, self.values.total, -1.0)), left.shape
        )
        return int(row), int(label)

    def best_row(self, left: NDArray[np.bool_]) -> int | None:
        """The row most worth reading; None if nothing is left."""
        if not left.any():
            return None
        value = np.sum(self.values.own + self.values.others, axis=1, where=left)
        return int(np.argmax(np.where(left.any(axis=1), value, -1.0)))

    def speak(self, row: int, labels: list[int]) -> dict[str, float]:
        """How the columns of a row speak for labels; of several, how loudly."""
        found = column_weights(self.model, self._sources, self._X, row, labels)
        if found is None:
            return {}
        names, weights = found
        one = weights[:, 0] if len(labels) == 1 else np.abs(weights).sum(axis=1)
        return dict(zip(names, one.tolist(), strict=True))

    def _at(self, row: int) -> Any:
        return self._X[row : row + 1]
