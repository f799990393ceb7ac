"""Columns, label counts and possible problems of a table, before a model is fitted to it."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from dm2l._utils.html import NO, OPEN, YES, Bar, Cell, block, grid, lines, percent
from dm2l.io._columns import PROBABILITY, added_columns, match_columns, parse_mark_or_boolean
from dm2l.io._label_columns import label_columns
from dm2l.labels._logic import RuleText
from dm2l.labels._rules import LabelRules
from dm2l.labels._structure import Cooccurrence
from dm2l.tables._kinds import ColumnUse, Kinds, as_text, check_kinds, column_kinds
from dm2l.tables._measures import signs_of
from dm2l.tables._model import listed
from dm2l.tables._options import FitOptions
from dm2l.tables._preparation import duplicates, typed_frame, unread_rows
from dm2l.tables._reading import Table, count_cells

_POSITIVES = 20  # a label with this many times more yes than no looks positive-unlabelled
_BLANK = 2 / 3  # a label with a larger share of blanks and more yes than no is suspicious
_SPELLINGS = 30  # maximum number of distinct values in a yes/no column, such as yes, Yes and YES
_PREFIX = re.compile(r"[^\W_]+[\W_]+(?=.)")  # "dx_" of "dx_ear"
# Labels exclude each other if they are rarely positive together, although independent labels would
# be positive together in this many rows.
_EXCEPTIONS, _EXPECTED = 0.02, 5
_CONTRADICTIONS = 3  # maximum number of rows that a warning about rules lists
_RARE = 5  # labels with fewer positive or negative entries are reported
_NOTES = 5  # maximum number of columns with unexpected values in warnings
_EMPTY = 0.95  # columns with a larger share of blanks are reported
_ALIKE = 10  # a column that equals a label in at least this many rows is reported


@dataclass(frozen=True)
class LabelCount:
    """Numbers of positive, negative and missing entries of a label."""

    label: str
    positive: int
    negative: int
    missing: int

    @property
    def positives_only(self) -> bool:
        """Whether negative entries are almost never recorded."""
        return self.missing > 0 and self.positive >= max(5, _POSITIVES * self.negative + 1)


@dataclass(frozen=True)
class RuleCandidate:
    """Rule that ``holds`` of ``rows`` rows obey, and a lower 95 % bound of that share."""

    rule: str
    rows: int
    holds: int
    at_least: float

    def __str__(self) -> str:
        share = int(100 * self.at_least)
        return f"{self.rule}  # in {self.holds} of {self.rows} rows, at least {share}%"


@dataclass(frozen=True)
class Inspection:
    """Result of :func:`inspect_table`; ``uses`` is None for a sparse matrix of features."""

    n_rows: int
    n_columns: int
    n_label_columns: int
    n_entries: int  # number of label entries; entries in one cell count once
    n_missing: int
    uses: list[ColumnUse] | None
    labels: list[LabelCount]
    groups: list[str]
    rules: list[RuleCandidate]
    n_duplicates: int
    warnings: list[str]

    def _repr_html_(self) -> str:
        n, colours = max(self.n_rows, 1), (YES, NO, OPEN)
        rows: list[list[Cell]] = []
        for count in self.labels:
            counts = (count.positive, count.negative, count.missing)
            shares = tuple((k / n, colour) for k, colour in zip(counts, colours, strict=True))
            rows.append([count.label, *counts, Bar(shares, "yes, no, missing")])
        kinds = Counter(use.kind + " (left out)" * (not use.used) for use in self.uses or ())
        return block(
            f"{self.n_rows:,} rows, {self.n_columns} columns, {self.n_label_columns} label columns",
            grid(("label", "yes", "no", "missing", "shares"), rows),
            lines(f"{number} columns: {kind}" for kind, number in kinds.items()),
            lines([f"Duplicate rows: {self.n_duplicates}."]),
            lines(f"warning: {line}" for line in self.warnings),
        )


def inspect_table(
    table: Table,
    *,
    kinds: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
    missing_as: str | Mapping[str, str] = "missing",
) -> Inspection:
    """Report the kind of each column, the counts of each label, and possible problems.

    Parameters
    ----------
    table : Table
        A table with labels, from :func:`read_table`.
    kinds, drop
        As in :func:`fit_table`.
    missing_as
        As in :class:`FitOptions`.

    Returns
    -------
    Inspection
        The use of each column (``uses``), counts of each label (``labels``), label columns with
        several values (``groups``), implications and exclusions in the data (``rules``), the number
        of rows with the same features as an earlier row (``n_duplicates``), and possible problems
        (``warnings``).

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
    options = FitOptions(missing_as=missing_as)
    table = options.read(table)
    T, uses = signs_of(table.Y).astype(np.float64), None
    if table.frame is not None:
        uses = column_kinds(table.frame, kinds, drop=drop, decimal=table.decimal)
        check_kinds(uses, kinds, table.frame, table.decimal)
        # Numbers 0 and 1 are reported as yes and no.
        bits = {use.name for use in uses if use.kind == "numeric"}
        bits = {name for name in bits if table.frame[name].dropna().isin((0, 1)).all()}
        uses = [replace(use, kind="boolean") if use.name in bits else use for use in uses]
    counts, copies = _label_counts(table), _n_duplicates(table, uses)
    return Inspection(
        n_rows=table.n_rows,
        n_columns=len(table.feature_names) + len(label_columns(table)),
        n_label_columns=len(label_columns(table)),
        n_entries=count_cells(np.ones(T.shape, dtype=bool), table.exclusive),
        n_missing=count_cells(T == 0, table.exclusive),
        uses=uses,
        labels=counts,
        groups=[*(group.about for group in table.words.groups), *order_hints(table)],
        rules=_rule_candidates(T, table),
        n_duplicates=copies,
        warnings=[
            *([] if options.unlabelled else _positive_warnings(counts)),
            *_label_warnings(counts),
            *_column_warnings(uses or []),
            *_blank_warnings(table, uses or []),
            *_list_warnings(table),
            *_label_like_warnings(table, uses or [], kinds),
            *_leak_warnings(table, uses or []),
            *_duplicate_warnings(copies, table.n_rows, uses),
            *observed_warnings(table),
        ],
    )


def _rule_candidates(T: NDArray[np.float64], table: Table) -> list[RuleCandidate]:
    """Return implications and exclusions between labels of two columns, the most certain first."""
    found, names = Cooccurrence.of(T), table.label_names
    both = np.rint(np.nan_to_num(found.probability) * found.count).astype(int)
    either = found.count + found.count.T - both
    chance = np.nan_to_num(found.base) * found.count
    apart = (both <= _EXCEPTIONS * either) & (np.minimum(chance, chance.T) >= _EXPECTED)
    other = np.ones(both.shape, dtype=bool)
    for labels, _ in label_columns(table).values():
        other[np.ix_(labels, labels)] = False
    # Rules imply only more frequent labels, because equal labels would imply each other in a cycle.
    rank = np.argsort(np.argsort(found.base, kind="stable"))
    implied = found.implied() & other & (rank[:, None] < rank)
    excluded = np.triu(apart & other)
    rules = []
    implications = ("implications", implied, found.count, both)
    for kind, mask, rows, holds in (implications, ("exclusions", excluded, either, either - both)):
        for j, k in np.argwhere(mask):
            n, x = int(rows[j, k]), int(holds[j, k])
            at_least = float(beta.ppf(0.05, x, n - x + 1))  # Clopper-Pearson, one-sided
            text = RuleText(kind, (names[j], names[k]))
            rules.append(RuleCandidate(str(text), n, x, at_least))
    return sorted(rules, key=lambda rule: -rule.at_least)


def _rule_warnings(table: Table, rules: LabelRules | None) -> list[str]:
    """Warn about rows that contradict the rules."""
    found = {} if rules is None else rules.contradictions(table.Y, table.label_names)
    if not found:
        return []
    broken = {row: why.rpartition("which contradicts ")[2] for row, why in found.items()}
    rules_of = Counter(broken.values())
    worst = sorted(found, key=lambda row: (-rules_of[broken[row]], broken[row]))
    some = [f"row {row + 1}: {found[row]}" for row in worst[:_CONTRADICTIONS]]
    more = "; ..." if len(found) > len(some) else ""
    count = "1 row contradicts" if len(found) == 1 else f"{len(found)} rows contradict"
    rule, n = rules_of.most_common(1)[0]
    remedy = f"correct the labels, or remove rules that are false (most violated, {n}: {rule})"
    return [f"{table.path}: {count} the rules; {remedy} ({'; '.join(some)}{more})"]


def order_hints(table: Table) -> list[str]:
    """Return a hint for each column with several values whose order was not declared."""
    names = [group.column for group in table.words.groups if group.kind == "values"]
    pass_ = 'pass --values "{}=LOWEST<...<HIGHEST"'
    return [f"If the values of {name!r} have an order, {pass_.format(name)}." for name in names]


def observed_warnings(table: Table, rules: LabelRules | None = None) -> list[str]:
    """Warn about labels that dm2l has filled in, and about rows that contradict the rules."""
    found, added = {}, added_columns(table.feature_names)
    for name, (labels, _) in label_columns(table).items():
        known = ~np.isnan(table.Y[:, labels]).all(axis=1)
        stems = {name, *(table.label_names[k] for k in labels)}
        for beside in {stem + PROBABILITY for stem in stems} & added:
            known &= table.frame[beside].notna().to_numpy()
            found[name] = int(known.sum())
    if not any(found.values()):
        return _rule_warnings(table, rules)
    return [
        f"{sum(found.values())} labels in {listed([name for name, n in found.items() if n])} were "
        "filled in by dm2l (the table has their probabilities) and are read as observed; to train "
        "or evaluate on observed labels only, use the original table",
        *_rule_warnings(table, rules),
    ]


def fit_warnings(
    table: Table,
    uses: list[ColumnUse] | None,
    kinds: Mapping[str, str] | None,
    rules: LabelRules | None,
    *,
    grouped: bool,
    missing: bool,
) -> list[str]:
    """Return warnings about a training table; with ``missing``, blank labels are unknown."""
    copies = 0 if grouped else _n_duplicates(table, uses)
    return [
        *_column_warnings(uses or []),
        *_label_like_warnings(table, uses or [], kinds),
        *_duplicate_warnings(copies, table.n_rows, uses),
        *observed_warnings(table, rules),
        *(_positive_warnings(_label_counts(table)) if missing else []),
    ]


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
    """Warn about labels that may be positive-unlabelled."""
    found = []
    positive = [count.label for count in counts if count.positives_only]
    if positive:
        found.append(
            f"{len(positive)} of {len(counts)} labels have positive and almost no negative entries "
            f"({listed(positive)}). If their blanks are negative or overlooked positives, fit with "
            "--missing-as unlabelled; if all blanks are negative, with --missing-as negative. "
            "Otherwise, labels without negative entries cannot be learned."
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
            f"{len(leaning)} of {len(counts)} labels are mostly blank and have more positive than "
            f"negative entries ({listed(leaning)}). If negatives were recorded less often than "
            "positives, too many blanks are filled with yes, and error rates can exceed "
            "--max-error-rate. In that case, fit with --missing-as unlabelled."
        )
    return found


def _label_warnings(counts: Sequence[LabelCount]) -> list[str]:
    """Warn about labels that have too few entries of a class."""
    groups: dict[str, list[str]] = {}
    for count in counts:
        least = min(count.positive, count.negative)
        if not count.positive + count.negative:
            why = "no observed entries and cannot be learned"
        elif count.positives_only or least >= _RARE:  # _positive_warnings lists the former
            continue
        elif not least and count.positive:
            why = "only positive entries and cannot be learned unless blanks are read as "
            why += "negative (see --missing-as)"
        elif not least:
            why = "only negative entries and cannot be learned"
        else:
            why = f"fewer than {_RARE} entries of a class, so estimates are uncertain"
        groups.setdefault(why, []).append(count.label)
    return [
        f"{len(labels)} of {len(counts)} labels ({listed(labels)}) have {why}"
        for why, labels in groups.items()
    ]


def _column_warnings(uses: Sequence[ColumnUse]) -> list[str]:
    """Warn about columns that are left out, and about unexpected values in other columns."""
    left_out: dict[str, list[str]] = {}
    noted = [f"column {use.name!r}: {use.note}" for use in uses if use.used and use.note]
    for use in uses:
        if not use.used:
            left_out.setdefault(use.reason, []).append(use.name)
    found = [
        f"column {names[0]!r} is left out: {reason}"
        if len(names) == 1
        else f"{len(names)} columns ({listed(names)}) are left out: {reason}"
        for reason, names in left_out.items()
    ]
    if len(noted) > _NOTES:
        more = f"{len(noted) - _NOTES} more columns have unexpected values; to see all, pass --json"
        noted = [*noted[:_NOTES], more]
    return found + noted


def _blank_warnings(table: Table, uses: Sequence[ColumnUse]) -> list[str]:
    """Warn about feature columns in which almost all cells are blank."""
    n, names = table.n_rows, [use.name for use in uses if use.used]
    blank = [(name, int(table.frame[name].isna().sum())) for name in names]
    found = [f"column {name!r} is {percent(k, n)} blank" for name, k in blank if k > _EMPTY * n]
    more = f"{len(found) - _NOTES} more columns are more than {_EMPTY:.0%} blank"
    return found if len(found) <= _NOTES else [*found[:_NOTES], more]


def _list_warnings(table: Table) -> list[str]:
    """Warn about label columns that are read as one value per cell but look like lists of tags."""
    found = []
    for name, (labels, group) in label_columns(table).items():
        values = group.values if group is not None and group.kind == "values" else ()
        times = (table.Y[:, labels] == 1).sum(axis=0)
        for separator in ",;|":
            lists = [separator in value for value in values]
            if times[: len(lists)][lists].sum() > times.sum() / 2:
                found.append(
                    f"most cells of label column {name!r} look like lists, such as "
                    f'{values[lists.index(True)]!r}; to read each tag, pass --split "{separator}"'
                )
    return found


def _leak_warnings(table: Table, uses: Sequence[ColumnUse]) -> list[str]:
    """Warn about two-valued feature columns that equal a label wherever both are known."""
    coded = {use.name: _signs(table.frame[use.name]) for use in uses if use.used}
    two = [(name, signs) for name, signs in coded.items() if signs is not None]
    if not two:
        return []
    C, T = np.array([signs for _, signs in two]), signs_of(table.Y).astype(np.float64)
    both, same = np.abs(C) @ np.abs(T), C @ T
    # A label that is constant where both are known would equal every constant column.
    varies = np.abs(np.abs(C) @ T) < both
    return [
        f"column {two[j][0]!r} equals label {table.label_names[k]!r} in all {both[j, k]:.0f} rows "
        "where both are known; if the column was derived from the label, omit it with --drop"
        for j, k in np.argwhere((both >= _ALIKE) & (np.abs(same) == both) & varies)
    ]


def _signs(column: Any) -> NDArray[np.float64] | None:
    """Return a column with two values as -1 and 1, and 0 for blanks; None for other columns."""
    if column.dtype.kind in "bifu":
        values, known = column.to_numpy(), column.notna().to_numpy()
    else:
        values = as_text(column)
        known = values != ""
    found = np.unique(values[known])
    if len(found) != 2:
        return None
    return np.where(known, np.where(values == found[1], 1.0, -1.0), 0.0)


def _label_like_warnings(table: Table, uses: Sequence[ColumnUse], kinds: Kinds) -> list[str]:
    """Warn about yes/no columns that may be labels, as they have blanks or a label's prefix."""
    prefixes = tuple({found[0] for name in table.label_names if (found := _PREFIX.match(name))})
    akin, like = [], []
    names = [use.name for use in uses]
    given = {names[j] for j in match_columns(names, list(kinds or ()), str(table.path))}
    for use in uses:
        if use.kind not in ("numeric", "boolean") or use.name in given:
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
    columns, are, them = "columns have", "they are labels", "them"
    if len(like) == 1:
        columns, are, them = "column has", "it is a label", "it"
    return [
        f"{len(like)} feature {columns} values like a label ({listed(like)}). If {are}, name "
        f"{them} with --labels or leave {them} out with --drop. To keep {them} as features without "
        'this warning, pass --kind "COLUMN=boolean".'
    ]


def _duplicate_warnings(n_duplicates: int, n_rows: int, uses: list[ColumnUse] | None) -> list[str]:
    """Warn about duplicate rows, except for molecules, whose copies share a fold by default."""
    molecules = any(use.kind == "smiles" for use in uses or ())
    if n_duplicates < 0.01 * n_rows or not n_duplicates or molecules:
        return []
    return [
        f"{n_duplicates} rows have the same features as an earlier row, so cross-validated "
        "estimates are too high; pass --groups duplicates to keep copies in the same fold"
    ]
