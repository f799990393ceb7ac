"""Out-of-fold scores of another model as columns of a table."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dm2l._utils import require
from dm2l.io._columns import ColumnRequestError
from dm2l.tables._kinds import SCORE_OF, typed_column
from dm2l.tables._reading import Table, read_cells, read_table


def add_scores(
    table: Table, path: str | Path, labels: Sequence[str], row_id: str | None = None
) -> Table:
    """Add a column ``score of LABEL`` for each label from a file, matching rows by order or ID."""
    found = read_table(path)
    if table.frame is None or found.frame is None:
        raise ValueError(f"{path}: --scores cannot read matrices. Pass TABLE and SCORES as .csv.")
    for name in labels:
        if name not in found.frame.columns:
            raise ValueError(
                f"{path} has no column {name!r}. Pass one column of scores for each label, with "
                "the name of the label; cells may be blank."
            )
    place: Any = np.arange(table.n_rows)
    if row_id is not None:
        place = _places(table, found, row_id)
    elif found.n_rows != table.n_rows:
        raise ValueError(
            f"{path} has {found.n_rows} rows, but {table.path} has {table.n_rows}. Pass the scores "
            "of the same rows in the same order, or --id with a column that identifies rows."
        )
    columns: dict[str, Any] = {}
    for name in labels:
        values, note = typed_column(found.frame[name], "score", found.decimal)
        if note:
            note = note.removesuffix(" and is read as missing")
            raise ValueError(f"{path}, column {name!r}: {note}. Scores must be numbers or blank.")
        columns[SCORE_OF + name] = np.where(place < 0, np.nan, values[place])
    frame = require("pandas", "io").DataFrame(columns, index=table.frame.index)
    names = [*table.feature_names, *columns]
    return replace(table, frame=table.frame.join(frame), feature_names=names)


def _places(table: Table, found: Table, row_id: str) -> Any:
    """Return the position of each row's scores in the file, or -1 for a row without scores."""
    for each in (table, found):
        if row_id not in each.frame.columns:
            raise ColumnRequestError(
                f"{each.path} has no column {row_id!r}. Pass --id with a column of both files that "
                "is not a label."
            )
    ids, keys = (read_cells(each, [row_id])[row_id] for each in (table, found))
    hint = "Pass --id with a column that identifies the rows of both files."
    rows: dict[Any, int] = {}
    for row, key in enumerate(keys, 1):
        if key is None or key in rows:
            fault = "is blank" if key is None else f"repeats {key!r} of row {rows[key]}"
            raise ValueError(f"{found.path}, row {row}: column {row_id!r} {fault}. {hint}")
        rows[key] = row
    place = np.array([rows.get(key, 0) for key in ids]) - 1
    if (place < 0).all():
        what = f"{found.path}: no value of column {row_id!r} occurs in {table.path}"
        raise ValueError(f"{what}. {hint}")
    return place
