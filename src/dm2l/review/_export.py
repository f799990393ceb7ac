"""Write tables with the answers of a review, and put checked values into completed tables."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dm2l._utils.files import unpacked_name
from dm2l.review._columns import Labels
from dm2l.review._journal import Journal, table_digest
from dm2l.review._sample import FilledRate
from dm2l.tables import Completion, Table, write_completion
from dm2l.tables._reading import count_cells


def verify(completion: Completion, journal: Journal) -> tuple[Completion, list[FilledRate]]:
    """Replace filled values by answers, and estimate the error rates from the random sample."""
    sample = journal.sample
    if sample is None:
        raise ValueError(
            f"{journal.path} has no random sample. Draw a sample with dm2l review --check 50, and "
            "answer its questions."
        )
    said = {key: journal.answer(*key) for key in sample.entries}
    if n_left := list(said.values()).count(""):
        raise ValueError(
            f"{journal.path}: {n_left} of {len(sample.entries)} entries of the sample are not "
            "checked yet. Continue dm2l review until all entries are checked or skipped, because "
            "an estimate from a part of the sample would be biased."
        )
    if not sample.matches(completion):
        raise ValueError(
            f"{journal.path}: the sample was drawn from other filled entries. Pass the model and "
            "options with which the sample was drawn, or draw a new sample with dm2l review "
            "--check and a new file of answers."
        )
    Y = journal.labels()
    given = completion.missing & ~np.isnan(Y)
    return replace(
        completion,
        positive=np.where(given, Y == 1, completion.positive),
        look=completion.look & ~given,
        probabilities=np.where(given, Y, completion.probabilities),
        left=None if completion.left is None else completion.left & ~given,
    ), sample.rates(said)


def export_answers(table: Table, Y: Labels, output: Path, marks: Sequence[str], digest: str) -> int:
    """Write a copy of a table with the labels ``Y``, and return the number of changed cells."""
    if not table.path.is_file():
        raise ValueError(f"{table.path} does not exist. Restore the table to export the answers.")
    if table_digest(table) != digest:
        raise ValueError(
            f"{table.path} has changed since the review began, so its rows may not match the "
            "answers. Restore the unchanged table and export again."
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
    # Details are written to a temporary file; otherwise the table would get additional columns.
    with tempfile.TemporaryDirectory() as folder:
        details = Path(folder, "details.csv")
        write_completion(completion, table, output, missing=marks, details=details)
    return count_cells(given, table.exclusive)


def export_name(table: Table) -> str:
    """Return a file name for the table with the answers, in the table's format if possible."""
    name = unpacked_name(table.path)
    suffix = name.suffix if table.bunch is None else ".npz"  # see check_form in dm2l.tables
    return f"{name.stem}-reviewed{suffix}"
