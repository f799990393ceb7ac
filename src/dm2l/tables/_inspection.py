"""What a table with missing labels holds, before anything is learnt from it."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l.io._columns import parse_mark_or_boolean
from dm2l.labels._structure import Cooccurrence, Implication, Spectrum
from dm2l.tables._kinds import ColumnUse, as_text, check_given_kinds, column_kinds
from dm2l.tables._measures import signs_of
from dm2l.tables._output import NO, OPEN, YES, Bar, Cell, block, grid, lines
from dm2l.tables._preparation import duplicates, typed_frame, unread_rows
from dm2l.tables._reading import Table

_GROUP = 10  # rows that share a label from which on their rank means something
_GROUPS = 30  # labels drawn to look at, where there are more
_DRAWS = 10  # random groups to compare with
_MOST_LABELS = 100  # up to which all these are looked at; a rank costs the square or cube of them
_TICKS = 20  # times as many yes as no, from which on a label looks positive-unlabelled
_BLANK = 2 / 3  # share of blanks from which on more yes than no is odd
_SPELLINGS = 30  # yes, Yes, YES, ...: values that a column of answers may have
_LIKE = 12  # columns that look like labels, and are named
_PREFIX = re.compile(r"[^\W_]+[\W_]+(?=.)")  # "dx_" of "dx_ear"
_ALIKE = 10  # rows from which on a column that equals a label is reported


@dataclass(frozen=True)
class Ranks:
    """Effective rank of the labels of rows that share one, against as many random rows.

    The effective rank of a matrix is ``(||Z||_* / ||Z||_F)^2``: 1 if all rows are multiples of
    one, the number of columns if all directions are equally strong.
    """

    group: float
    anyhow: float
    n_groups: int

    def in_words(self) -> str:
        """The conclusion about DM2L's local nuclear norms."""
        if not self.n_groups:
            return "Too few rows share a label to measure the structure of their labels."
        numbers = f"effective rank {self.group:.1f} against {self.anyhow:.1f}"
        if self.group < 0.9 * self.anyhow:
            return (
                f"Rows that share a label are similar in their other labels ({numbers} of as many "
                "random rows), which DM2L's local terms use."
            )
        return (
            f"Rows that share a label are hardly more similar in their labels than random rows "
            f"({numbers}): expect DM2L to be about as good as ridge."
        )


@dataclass(frozen=True)
class LabelCount:
    """Entries of a label."""

    label: str
    positive: int
    negative: int
    missing: int

    @property
    def positives_only(self) -> bool:
        """Whether hardly a no was ever written down."""
        return self.missing > 0 and self.positive >= max(5, _TICKS * self.negative + 1)


@dataclass(frozen=True)
class Inspection:
    """What :func:`inspect_table` has found.

    ``uses`` are those of columns that are no labels (None for sparse matrices), ``implications``
    labels that imply another one, surest first, ``n_duplicates`` counts rows whose features repeat
    those of an earlier row, and ``warnings`` say what should be checked.
    """

    n_rows: int
    n_columns: int
    uses: list[ColumnUse] | None
    labels: list[LabelCount]
    implications: list[Implication]
    ranks: Ranks
    n_duplicates: int
    warnings: list[str]

    def _repr_html_(self) -> str:
        n, colours = max(self.n_rows, 1), (YES, NO, OPEN)
        rows: list[list[Cell]] = []
        for count in self.labels:
            counts = (count.positive, count.negative, count.missing)
            shares = tuple((k / n, colour) for k, colour in zip(counts, colours, strict=True))
            rows.append([count.label, *counts, Bar(shares, "yes, no, missing")])
        kinds = Counter(
            use.kind if use.used else f"{use.kind} (left out)" for use in self.uses or ()
        )
        copies = f"Rows that repeat an earlier one: {self.n_duplicates}."
        return block(
            f"{self.n_rows:,} rows, {self.n_columns} columns, {len(self.labels)} labels",
            grid(("label", "yes", "no", "missing", "shares"), rows),
            lines(f"{number} columns: {kind}" for kind, number in kinds.items()),
            lines([self.ranks.in_words(), copies]),
            lines(f"warning: {line}" for line in self.warnings),
        )


def inspect_table(
    table: Table, *, kinds: Mapping[str, str] | None = None, drop: Sequence[str] = ()
) -> Inspection:
    r"""Inspect a table: kinds of columns, counts of labels, structure, and warnings.

    Parameters
    ----------
    table : Table
        What :func:`read_table` has returned, with labels.
    kinds, drop
        As in :func:`fit_table`.

    Returns
    -------
    Inspection
        Attributes ``uses``, ``labels``, ``implications``, ``ranks``, ``n_duplicates``,
        ``warnings``.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import inspect_table, table_from_frame
    >>> frame = pd.DataFrame({"mass": [1, 2, 2, 4], "tox": [1, 0, None, 1]})
    >>> found = inspect_table(table_from_frame(frame, "tox"))
    >>> found.labels[0]
    LabelCount(label='tox', positive=2, negative=1, missing=1)
    >>> found.n_duplicates
    1
    """
    T = signs_of(table.Y).astype(np.float64)
    uses = None
    if table.frame is not None:
        uses = column_kinds(table.frame, kinds, drop=drop, decimal=table.decimal)
        check_given_kinds(uses, kinds, table.frame, table.decimal)
    counts, copies = _label_counts(table), _n_duplicates(table, uses)
    return Inspection(
        n_rows=table.n_rows,
        n_columns=len(table.feature_names) + len(table.label_names),
        uses=uses,
        labels=counts,
        implications=Cooccurrence.of(T).implications(table.label_names),
        ranks=_ranks(T),
        n_duplicates=copies,
        warnings=[
            *_positive_warnings(counts),
            *_label_warnings(counts),
            *_column_warnings(uses or []),
            *_label_like_warnings(table, uses or []),
            *_leak_warnings(table, uses or []),
            *_duplicate_warnings(copies, table.n_rows),
        ],
    )


def fit_warnings(
    table: Table, uses: list[ColumnUse] | None, *, grouped: bool, missing: bool
) -> list[str]:
    """Warnings about a table that a model was fitted to; ``missing``: blanks are unknown."""
    copies = 0 if grouped else _n_duplicates(table, uses)
    return [
        *_column_warnings(uses or []),
        *_label_like_warnings(table, uses or []),
        *_duplicate_warnings(copies, table.n_rows),
        *(_positive_warnings(_label_counts(table)) if missing else []),
    ]


def _ranks(T: NDArray[np.float64]) -> Ranks:
    rng = np.random.RandomState(0)
    groups, random = [], []
    enough = np.flatnonzero((T > 0).sum(axis=0) >= _GROUP)
    few = min(1.0, _MOST_LABELS / T.shape[1])
    most, n_draws = max(5, round(few * _GROUPS)), max(2, round(few * _DRAWS))
    if len(enough) > most:
        enough = np.sort(rng.permutation(enough)[:most])
    for k in enough:
        # The shared label is the same in all of them.
        others = np.delete(T, k, axis=1)
        rows = np.flatnonzero(T[:, k] > 0)
        if not others[rows].any():
            continue
        draws = [rng.permutation(len(T))[: len(rows)] for _ in range(n_draws)]
        groups.append(Spectrum.of(others[rows]).effective_rank)
        random.append(np.mean([Spectrum.of(others[draw]).effective_rank for draw in draws]))
    if not groups:
        return Ranks(np.nan, np.nan, 0)
    return Ranks(float(np.mean(groups)), float(np.mean(random)), len(groups))


def _n_duplicates(table: Table, uses: list[ColumnUse] | None) -> int:
    if table.frame is None or uses is None:
        return table.n_rows - len(np.unique(duplicates(table.matrix, ())))
    if not any(use.used for use in uses):
        return 0
    inputs, _ = typed_frame(table.frame, uses, str(table.path), table.decimal)
    read = ~unread_rows(inputs, uses)
    return int(read.sum()) - len(np.unique(duplicates(inputs, uses)[read]))


def _label_counts(table: Table) -> list[LabelCount]:
    yes, no = (table.Y == 1).sum(axis=0), (table.Y == 0).sum(axis=0)
    return [
        LabelCount(name, int(p), int(n), table.n_rows - int(p + n))
        for name, p, n in zip(table.label_names, yes, no, strict=True)
    ]


def _positive_warnings(counts: Sequence[LabelCount]) -> list[str]:
    """Labels with hardly a no, and mostly missing labels with more yes than no."""
    found = []
    ticked = [count.label for count in counts if count.positives_only]
    if ticked:
        found.append(
            f"{len(ticked)} of {len(counts)} labels say yes and hardly ever no ({_some(ticked)}). "
            "If a blank there is a no or an overlooked yes, `fit --missing-as unlabelled` learns "
            "from positives only, and estimates how many were overlooked; if every blank is a no, "
            "use --missing-as negative. Otherwise a label without any no cannot be learnt"
        )
    leaning = [
        count.label
        for count in counts
        if count.missing > _BLANK * (count.missing + count.positive + count.negative)
        and count.positive > max(5, count.negative)
        and not count.positives_only
    ]
    if leaning:
        found.append(
            f"{len(leaning)} of {len(counts)} labels say yes more often than no and are mostly "
            f"blank ({_some(leaning)}). If a yes was written down where it was seen and a no "
            "hardly ever, known labels differ from missing ones, too many are filled with yes, and "
            "--max-error-rate does not hold: use `fit --missing-as unlabelled`"
        )
    return found


def _some(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:3]) + (", ..." if len(names) > 3 else "")


def _label_warnings(counts: Sequence[LabelCount]) -> list[str]:
    """Labels that cannot be learnt, or hardly."""
    found = []
    for count in counts:
        least = min(count.positive, count.negative)
        if not count.positive + count.negative:
            found.append(f"label {count.label!r}: nothing is observed; it cannot be learnt")
        elif count.positives_only:  # one line names all of them
            continue
        elif not least:
            what = "yes" if count.positive else "no"
            rest = " unless blanks are negative (--missing-as)" if count.positive else ""
            found.append(
                f"label {count.label!r}: every observed entry says {what}; it cannot be learnt"
                f"{rest}"
            )
        elif least < 5:
            what = "yes" if count.positive < count.negative else "no"
            found.append(f"label {count.label!r}: only {least} observed entries say {what}")
    return found


def _column_warnings(uses: Sequence[ColumnUse]) -> list[str]:
    """Columns that are left out, or odd."""
    left_out = [f"column {u.name!r} is left out: {u.reason}" for u in uses if not u.used]
    return left_out + [f"column {u.name!r}: {u.note}" for u in uses if u.note]


def _leak_warnings(table: Table, uses: Sequence[ColumnUse]) -> list[str]:
    """Columns with two values that equal a label wherever both are known."""
    two = [
        (use.name, signs)
        for use in uses
        if use.used and (signs := _signs(table.frame[use.name])) is not None
    ]
    if not two:
        return []
    # Single precision counts exactly up to 16 million rows, in half the time.
    precision: Any = np.float32 if len(table.Y) < 2**24 else np.float64
    C = np.array([signs for _, signs in two], dtype=precision)
    T = signs_of(table.Y).astype(precision)
    both, same = np.abs(C) @ np.abs(T), C @ T
    # A label that is constant in the rows that have both equals no column.
    varies = np.abs(np.abs(C) @ T) < both
    return [
        f"column {two[j][0]!r} says the same as label {table.label_names[k]!r} in all "
        f"{both[j, k]:.0f} rows that have both; if it was made from the label, leave it out with "
        "--drop"
        for j, k in np.argwhere((both >= _ALIKE) & (np.abs(same) == both) & varies)
    ]


def _signs(column: Any) -> NDArray[np.float64] | None:
    """-1 and 1 for the values of a column that has two, 0 where it is blank; else None."""
    if column.dtype.kind in "bifu":
        values, known = column.to_numpy(), column.notna().to_numpy()
    else:
        values = as_text(column)
        known = values != ""
    found = np.unique(values[known])
    if len(found) != 2:
        return None
    return np.where(known, np.where(values == found[1], 1.0, -1.0), 0.0)


def _label_like_warnings(table: Table, uses: Sequence[ColumnUse]) -> list[str]:
    """Features of yes and no that have missing entries, or are named like a label."""
    prefixes = tuple({found[0] for name in table.label_names if (found := _PREFIX.match(name))})
    akin, like = [], []
    for use in uses:
        if use.kind not in ("numeric", "boolean"):
            continue
        values = table.frame[use.name].drop_duplicates()
        if len(values) > _SPELLINGS:
            continue
        texts = as_text(values)
        answers = {parse_mark_or_boolean(text) for text in texts if text}
        if answers and answers <= {0.0, 1.0} and use.name.startswith(prefixes):
            akin.append(use.name)
        elif answers == {0.0, 1.0} and "" in texts:
            like.append(use.name)
    like = akin + like
    if not like:
        return []
    names = ", ".join(like[:_LIKE]) + (", ..." if len(like) > _LIKE else "")
    one = len(like) == 1
    look = "column looks like a label" if one else "columns look like labels"
    them = "it" if one else "them"
    return [
        f"{len(like)} {look} too, by yes, no and blanks or by name, and {'is' if one else 'are'} "
        f"used as features ({names}): name {them} with --labels, or leave {them} out with --drop"
    ]


def _duplicate_warnings(n_duplicates: int, n_rows: int) -> list[str]:
    """Rows that occur more than once."""
    if n_duplicates < 0.01 * n_rows or not n_duplicates:
        return []
    return [
        f"{n_duplicates} rows repeat the features of an earlier one, so estimates by "
        "cross-validation are too high; --groups duplicates keeps copies in the same fold"
    ]
