"""What a table knows with a person's answers, and what is shown of it when more is asked."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dm2l.io._csv_file import TEXT
from dm2l.io._parquet_file import PARQUET
from dm2l.io._unpacking import suffix_of, unpacked_name
from dm2l.review._beliefs import TableBeliefs
from dm2l.review._journal import Decision, Journal, table_digest
from dm2l.review._question import (
    MOST_COLUMNS,
    Belief,
    Key,
    OtherLabel,
    Question,
    arranged,
    row_columns,
)
from dm2l.tables import Completion, Table, write_completion

Labels = NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """The labels of a table with those of a journal in them; rows count from 1."""

    table: Table
    journal: Journal

    def said(self) -> list[tuple[Key, Decision]]:
        """Every yes and no."""
        made = [*self.journal.decisions.items(), *self.journal.checks.items()]
        return [(key, decision) for key, decision in made if decision.answer != "skip"]

    def labels(self) -> Labels:
        """All labels."""
        Y = self.table.Y.copy()
        for (row, label), (answer, _) in self.said():
            Y[row - 1, self.place(label)] = answer == "yes"
        return Y

    def row(self, row: int) -> Labels:
        """What a row knows."""
        known = self.table.Y[row - 1].copy()
        for (r, label), (answer, _) in self.said():
            if r == row:
                known[self.place(label)] = answer == "yes"
        return known

    def rows(self) -> list[int]:
        """Rows of which something was decided, in that order."""
        return list(dict.fromkeys(row for row, _ in self.journal.decisions))

    def left(self) -> NDArray[np.bool_]:
        """Holes that nobody has decided."""
        left = np.isnan(self.table.Y)
        for row, label in self.journal.decisions:
            left[row - 1, self.place(label)] = False
        return left

    def observed(self, row: int, label: str) -> str:
        """What the table says, blank for a hole."""
        value = self.table.Y[row - 1, self.place(label)]
        return "" if np.isnan(value) else "yes" if value else "no"

    def place(self, label: str) -> int:
        """The column of a label."""
        return self.table.label_names.index(label)


def make_question(
    answers: Answers,
    beliefs: TableBeliefs,
    used: frozenset[str] | None,
    key: Key,
    *,
    cases: Labels | None = None,
    belief: Belief | None = None,
    made: Mapping[Key, Decision] | None = None,
    doubt: float = 0.0,
) -> Question:
    """Gather what is shown of an entry, or of a row if the label of the key is blank.

    ``used`` are the columns that the model takes, None for all; ``cases`` what the row would know
    after a yes and after a no; ``made`` what was decided in this queue.
    """
    row, label = key
    known, names = answers.row(row), answers.table.label_names
    asked = [answers.place(label)] if label else np.flatnonzero(np.isnan(known)).tolist()
    spoken = beliefs.speak(row - 1, asked or list(range(len(names))))
    columns, n_first = arranged(row_columns(answers.table, row, used, spoken))
    made = made or {}
    moved = None if cases is None else beliefs.supposing(row - 1, cases).tolist()
    others = []
    for k, name in enumerate(names):
        if name == label:
            continue
        if np.isnan(known[k]):
            p = float(beliefs.values.probability[row - 1, k])
            after = (None, None) if moved is None else (moved[0][k], moved[1][k])
            others.append(OtherLabel(name, "open", "", p, *after))
        else:
            answer = "yes" if known[k] == 1 else "no"
            state = "observed" if answers.observed(row, name) == answer else "answered"
            others.append(OtherLabel(name, state, answer, None))
    if moved is not None:  # what the answer settles most comes first
        others.sort(key=lambda o: (o.state != "open", -abs((o.if_yes or 0.0) - (o.if_no or 0.0))))
    return Question(
        row=row,
        label=label,
        answer=made[key].answer if key in made else None,
        belief=belief,
        observed=answers.observed(row, label) if label else "",
        doubt=doubt,
        columns=columns[:MOST_COLUMNS],
        n_first=n_first,
        n_left_out=max(0, len(columns) - MOST_COLUMNS),
        others=others,
    )


def export_answers(
    table: Table, Y: NDArray[np.float64], output: Path, marks: Sequence[str], digest: str
) -> int:
    """Write a table with what ``Y`` fills and corrects; returns how many entries these are."""
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
    # Details in a file of their own keep the table free of further columns; nobody asked for them.
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
