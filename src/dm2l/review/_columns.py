"""Columns that a review asks about: labels, tags, and columns with several values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dm2l.io._label_columns import ColumnGroup, label_columns
from dm2l.tables import Table

Labels = NDArray[np.float64]
Mask = NDArray[np.bool_]


class AskedColumn(NamedTuple):
    """The column that a question is about: a label, or a column with several values."""

    name: str
    labels: list[int]
    group: ColumnGroup | None  # None for a label
    tag: str = ""  # a tag with its column

    def answers(self, word: Any) -> dict[str, Any]:
        """Return an answer for each label, given the answer ``word`` for the whole column."""
        if self.group is None:
            return {self.name: word}
        if word == "skip":
            return dict.fromkeys(self.group.labels, "skip")
        value = str(word)[1:]
        if str(word)[:1] != "=" or value not in self.group.values:
            known = " or =".join(self.group.values)
            raise ValueError(f"{word!r:.40} is no answer for {self.name!r}. Pass skip or ={known}.")
        line = self.group.read([[value]], np.zeros(1, dtype=np.intp))[0]
        return dict(zip(self.group.labels, np.where(line, "yes", "no").tolist(), strict=True))

    def answer(self, known: Labels) -> str:
        """Return the answer that equals the known labels of a row, or "" if a label is missing."""
        line = known[self.labels]
        return "" if np.isnan(line).any() else self.predicted(line)

    def predicted(self, p: Labels) -> str:
        """Return the predicted answer, given the probabilities of the labels."""
        if self.group is None:
            return "yes" if p[0] > 0.5 else "no"
        return f"={self.group.cell(p > 0.5, p)}"

    def choices(self, p: Labels) -> list[tuple[str, float]]:
        """Return the values of the column with probabilities, given the probabilities of labels."""
        if self.group is None:
            return []
        return list(zip(self.group.values, self.group.shares(p[self.labels]).tolist(), strict=True))


def asked_columns(table: Table) -> dict[str, AskedColumn]:
    """Return the columns that a review asks about, by column name and by label name."""
    found: dict[str, AskedColumn] = {}
    for name, (labels, group) in label_columns(table).items():
        if group is None or group.kind == "tags":
            tags = [""] if group is None else [f"{tag} ({name})" for tag in group.values]
            for k, tag in zip(labels, tags, strict=True):
                label = table.label_names[k]
                found[label] = AskedColumn(label, [k], None, tag)
        else:
            found |= dict.fromkeys([name, *group.labels], AskedColumn(name, labels, group))
    return found
