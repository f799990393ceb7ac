"""The labels of a table with the answers of a journal, and their export."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dm2l._utils.files import PARQUET, TEXT, suffix_of, unpacked_name
from dm2l.review._journal import Decision, Journal, Key, table_digest
from dm2l.review._predictions import Labels, Mask
from dm2l.tables import Completion, Table, write_completion


@dataclass(frozen=True)
class Answers:
    """The labels of a table with the answers of a journal; rows count from 1."""

    table: Table
    journal: Journal

    def given(self) -> list[tuple[Key, Decision]]:
        """Every yes and no."""
        made = [*self.journal.decisions.items(), *self.journal.checks.items()]
        return [(key, decision) for key, decision in made if decision.answer != "skip"]

    def labels(self) -> Labels:
        """All labels."""
        Y = self.table.Y.copy()
        for (row, label), (answer, _) in self.given():
            Y[row - 1, self.place(label)] = answer == "yes"
        return Y

    def row(self, row: int) -> Labels:
        """The labels of a row."""
        known = self.table.Y[row - 1].copy()
        for (r, label), (answer, _) in self.given():
            if r == row:
                known[self.place(label)] = answer == "yes"
        return known

    def rows(self) -> list[int]:
        """Rows with a decision, in the order of the first one."""
        return list(dict.fromkeys(row for row, _ in self.journal.decisions))

    def left(self) -> Mask:
        """Missing labels without a decision."""
        left = np.isnan(self.table.Y)
        for row, label in self.journal.decisions:
            left[row - 1, self.place(label)] = False
        return left

    def observed(self, row: int, label: str) -> str:
        """The label in the table, blank if it is missing."""
        value = self.table.Y[row - 1, self.place(label)]
        return "" if np.isnan(value) else "yes" if value else "no"

    def place(self, label: str) -> int:
        """The column of a label."""
        return self.table.label_names.index(label)


def export_answers(table: Table, Y: Labels, output: Path, marks: Sequence[str], digest: str) -> int:
    """Write a table with the labels ``Y``; return the number of entries that differ."""
    if not table.path.is_file():
        raise ValueError(f"{table.path} is not a file, so there is no table to put answers into.")
    if table_digest(table) != digest:
        raise ValueError(
            f"{table.path} has changed since the review began, so that answers may not belong to "
            "its rows any more. Restore it as it was; the answers are kept."
        )
    given = ~np.isnan(Y) & (table.Y != Y)
    completion = Completion(
        label_names=table.label_names,
        missing=given,
        positive=given & (Y == 1),
        look=np.zeros_like(given),
        probabilities=np.zeros(given.shape),
        warnings=[],
    )
    # Details in another file keep the table free of further columns.
    with tempfile.TemporaryDirectory() as folder:
        write_completion(
            completion, table, output, missing=marks, details=Path(folder, "details.csv")
        )
    return int(given.sum())


def export_name(table: Table) -> str:
    """A name for the table with answers, of the form in which it is written."""
    name = unpacked_name(table.path)
    suffix = name.suffix if suffix_of(name) in (*TEXT, *PARQUET) else ".npz"
    return f"{name.stem}-reviewed{suffix}"
