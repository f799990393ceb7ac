"""The table with a person's answers, as a file."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dm2l.io._csv_file import TEXT
from dm2l.io._parquet_file import PARQUET
from dm2l.io._unpacking import suffix_of, unpacked_name
from dm2l.review._journal import table_digest
from dm2l.tables import Completion, Table, write_completion


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
        holes=given,
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
