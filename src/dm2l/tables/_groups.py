"""Rows of a table that belong together, so that no fold judges a model by copies of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._utils.arrays import factorize
from dm2l._utils.extras import require
from dm2l.chemistry import MorganFingerprints, scaffold_groups
from dm2l.datasets import duplicate_groups
from dm2l.io._columns import ColumnRequestError
from dm2l.tables._kinds import ColumnUse, as_text
from dm2l.tables._table import Table

Groups = NDArray[np.intp]
DUPLICATES, SCAFFOLD = "duplicates", "scaffold"


def group_column(table: Table, groups: Any) -> str | None:
    """The column that says what belongs together; it is no feature then."""
    named = isinstance(groups, str) and table.frame is not None and groups in table.frame.columns
    return groups if named else None


def row_groups(
    table: Table, inputs: Any, uses: Sequence[ColumnUse] | None, groups: Any
) -> Groups | None:
    """A number for each row, the same for rows that belong together.

    ``groups`` is None, the name of a column, "duplicates", "scaffold", or one value a row.
    """
    if groups is None:
        return None
    column = group_column(table, groups)
    if column is not None:
        values = as_text(table.frame[column])
        # Rows of which nothing is known belong to no others.
        return factorize([text or row for row, text in enumerate(values)])
    if not isinstance(groups, str):
        values = np.asarray(groups)
        if values.shape != (table.n_rows,):
            raise ValueError(f"groups has shape {values.shape}; the table has {table.n_rows} rows.")
        return factorize(values.tolist())
    if groups == DUPLICATES:
        return duplicates(inputs, uses)
    molecules = [use.name for use in uses or () if use.kind == "smiles"]
    if groups == SCAFFOLD and molecules:
        return factorize(zip(*(scaffold_groups(inputs[name]) for name in molecules), strict=True))
    what = (
        "it has no SMILES to take scaffolds of" if groups == SCAFFOLD else "it has no such column"
    )
    raise ColumnRequestError(
        f"{table.path} cannot be grouped by {groups!r}: {what}. Groups are a column, "
        f"{DUPLICATES!r}, or {SCAFFOLD!r} where SMILES are read."
    )


def duplicates(inputs: Any, uses: Sequence[ColumnUse] | None) -> Groups:
    """Rows whose features are the same; of molecules those with the same fingerprint."""
    if uses is None:
        return duplicate_groups(inputs)
    frame = inputs
    for use in uses:
        if use.kind == "smiles":
            bits = duplicate_groups(MorganFingerprints().fit_transform(inputs[use.name]))
            frame = frame.assign(**{use.name: bits})
    hashes = require("pandas", "io").util.hash_pandas_object(frame, index=False)
    return factorize(hashes.tolist())
