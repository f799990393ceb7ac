"""What looks wrong with a table, a line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dm2l.tables._kinds import ColumnUse, as_text
from dm2l.tables._table import Table

ROWS = 10  # that say the same before it means anything


@dataclass(frozen=True)
class LabelCount:
    """Entries of a label."""

    label: str
    positive: int
    negative: int
    missing: int

    @property
    def observed(self) -> int:
        """Entries somebody looked at."""
        return self.positive + self.negative


def label_warnings(counts: Sequence[LabelCount]) -> list[str]:
    """Labels that cannot be learnt, or hardly."""
    found = []
    for count in counts:
        if not count.observed:
            found.append(f"label {count.label!r}: nothing is observed; it cannot be learnt")
        elif not count.positive or not count.negative:
            what = "yes" if count.positive else "no"
            found.append(
                f"label {count.label!r}: every observed entry says {what}; it cannot be learnt"
            )
        elif min(count.positive, count.negative) < 5:
            what = "yes" if count.positive < count.negative else "no"
            least = min(count.positive, count.negative)
            found.append(f"label {count.label!r}: only {least} observed entries say {what}")
    return found


def column_warnings(uses: Sequence[ColumnUse]) -> list[str]:
    """Columns that are left out, or odd."""
    left_out = [f"column {u.name!r} is left out: {u.reason}" for u in uses if not u.used]
    return left_out + [f"column {u.name!r}: {u.note}" for u in uses if u.note]


def leak_warnings(table: Table, uses: Sequence[ColumnUse]) -> list[str]:
    """Columns with two values that say the same as a label wherever both are known."""
    found = []
    for use in uses:
        if not use.used:
            continue
        texts = as_text(table.frame[use.name])
        values = sorted(set(texts) - {""})
        if len(values) != 2:
            continue
        column: Any = np.where(texts == "", np.nan, (texts == values[1]).astype(float))
        for k, name in enumerate(table.label_names):
            both = ~np.isnan(column) & ~np.isnan(table.Y[:, k])
            answers = table.Y[both, k]
            if both.sum() < ROWS or answers.min() == answers.max():
                continue
            same = column[both] == answers
            if same.all() or not same.any():
                found.append(
                    f"column {use.name!r} says the same as label {name!r} in all {both.sum()} rows "
                    "that have both; if it was made from the label, leave it out with --drop"
                )
    return found


def duplicate_warnings(n_duplicates: int, n_rows: int) -> list[str]:
    """Rows that are there more than once."""
    if n_duplicates < 0.01 * n_rows or not n_duplicates:
        return []
    return [
        f"{n_duplicates} rows repeat the features of an earlier one: estimates from "
        "cross-validation are too good, since copies are on both sides"
    ]
