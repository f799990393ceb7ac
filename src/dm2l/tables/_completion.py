"""Imputation of the missing labels of a table, and suspected label errors."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from dm2l._utils.html import NO, OPEN, YES, Bar, block, grid, lines
from dm2l.completion._errors import CompletionSummary
from dm2l.io._label_columns import ColumnGroup
from dm2l.labels._entries import Signs
from dm2l.model_selection import Interval
from dm2l.tables._measures import impute
from dm2l.tables._model import TableModel, constant_warnings, listed, no_positive_warnings
from dm2l.tables._reading import Table, count_cells

MARGIN = 0.2


@dataclass(frozen=True)
class Completion:
    """Imputed labels of a table.

    Attributes
    ----------
    missing : ndarray of bool of shape (n_rows, n_labels)
        Entries that are missing in the table.
    positive : ndarray of bool of shape (n_rows, n_labels)
        Missing entries that are filled in as positive.
    look : ndarray of bool of shape (n_rows, n_labels)
        Uncertain entries (see ``margin``) or, with ``max_error_rate``, all unfilled entries.
    probabilities : ndarray of shape (n_rows, n_labels)
        Probability of a positive label; 0 or 1 for observed entries, NaN without a prediction.
    left : ndarray of bool of shape (n_rows, n_labels) or None
        Missing entries that are not filled, because the error rate would be too high, the SMILES
        are invalid, or the label has a single class; None if all missing entries are filled.
    expected_wrong, expected_wrong_yes, expected_wrong_no : float
        Expected error rates of all filled entries, of filled positives and of filled negatives:
        upper bounds with ``max_error_rate``, otherwise means of error probabilities. Entries that
        rules imply count as correct. NaN for positive-unlabelled labels.
    lowest_bound : float
        Lowest ``max_error_rate`` that fills at least one entry; NaN if no limit was passed.
    expected_wrong_values : float
        Expected error rate of the filled cells of columns with several values. Each filled cell
        counts as one entry in ``expected_wrong``.
    n_implied : int
        Number of missing entries that follow from rules.
    exclusive : list of (list of int, ColumnGroup)
        Labels of each column with several values. Each cell of such a column counts as one entry.
    lowest_bounds : dict of str to float
        For each label or column with several values, the lowest limit that fills an entry.
    overlooked : float
        Estimated number of overlooked positives; NaN without positive-unlabelled labels.
    """

    label_names: list[str]
    missing: NDArray[np.bool_]
    positive: NDArray[np.bool_]
    look: NDArray[np.bool_]
    probabilities: NDArray[np.float64]
    warnings: list[str]
    left: NDArray[np.bool_] | None = None
    expected_wrong: float = np.nan
    expected_wrong_yes: float = np.nan
    expected_wrong_no: float = np.nan
    lowest_bound: float = np.nan
    expected_wrong_values: float = np.nan
    n_implied: int = 0
    exclusive: list[tuple[list[int], ColumnGroup]] = field(default_factory=list)
    lowest_bounds: dict[str, float] = field(default_factory=dict)
    overlooked: float = np.nan

    def count(self, entries: NDArray[np.bool_]) -> int:
        """Count label entries; several entries in a cell of exclusive labels count as one."""
        return count_cells(entries, self.exclusive)

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Mask of the missing entries that are filled."""
        return self.missing if self.left is None else self.missing & ~self.left

    def _repr_html_(self) -> str:
        rows = []
        for one in counted_columns(self):
            yes, n = one["positive"], max(one["missing"], 1)
            counts = ("", "") if yes is None else (yes, one["filled"] - yes)
            shares = (one["filled"], 0) if yes is None else counts
            parts = zip((*shares, one["left"]), (YES, NO, OPEN), strict=True)
            bar = Bar(tuple((k / n, colour) for k, colour in parts), "yes, no, not filled")
            rows.append((one["label"], one["missing"], *counts, one["left"], one["look"], bar))
        first, *more = completion_summary(self)
        return block(
            first,
            lines(more),
            grid(("label", "missing", "yes", "no", "not filled", "to check", "shares"), rows),
            lines(f"warning: {line}" for line in self.warnings),
        )


def complete_table(
    model: TableModel, table: Table, margin: float = MARGIN, *, max_error_rate: float | None = None
) -> Completion:
    """Impute the missing labels of a table from the features and the known labels of each row.

    Labels with a single class in the training table are not filled, and a warning names them.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    table : Table
        A table with the columns and labels of the model, read with the label names of the model.
    margin : float, default=0.2
        Entries whose probability differs from 0.5 by at most ``margin`` are marked for checking. A
        cell of a column with several values is marked if its value has a probability of at most 0.5
        + ``margin``.
    max_error_rate : float, default=None
        Limit of the expected error rate, both of entries filled with yes and of entries filled with
        no. As many entries as possible are filled, and unfilled entries are marked for checking.

    Returns
    -------
    Completion
        Imputed labels and probabilities, for :func:`write_completion`.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import FitOptions, complete_table, fit_table, table_from_frame
    >>> frame = pd.DataFrame({"mass": [0, 1, 2, 3] * 20, "toxic": [0, 0, 1, None] * 20})
    >>> table = table_from_frame(frame, "toxic")
    >>> model = fit_table(table, FitOptions("linear", 0.1, 1.0), estimate_folds=0)
    >>> completion = complete_table(model, table)
    >>> int(completion.filled.sum()), completion.positive[:4, 0]
    (20, array([False, False, False,  True]))
    """
    X, unread, warnings = model.prepared(table)
    missing, classifier = np.isnan(table.Y), model.classifier
    found = impute(classifier, X, table.Y, max_error_rate, table.exclusive)
    learnable = np.asarray(classifier._learnable, dtype=bool)
    implied = np.broadcast_to(found.implied, missing.shape)
    answered = missing & (learnable & ~unread[:, None] | implied)
    left = missing & ~(answered & found.chosen)
    p = np.where(missing & ~answered, np.nan, found.probabilities)
    near = missing & (np.abs(p - 0.5) <= margin)
    positive, names = found.positive & ~left, table.label_names
    alone = np.ones(missing.shape[1], dtype=bool)  # labels that have a column of their own
    unsure, filled, n_implied, bounds = np.zeros(0), np.zeros(0, dtype=bool), 0, {}
    for labels, group in table.exclusive:
        alone[labels], given = False, implied[:, labels].all(axis=1)
        n_implied += int(given.sum())
        open_ = answered[:, labels].any(axis=1) & ~given
        likely = group.probability(found.probabilities[:, labels], found.positive[:, labels])
        unsure = np.append(unsure, 1 - likely[open_])
        filled = np.append(filled, found.chosen[open_][:, labels].any(axis=1))
        bounds[group.column] = float(np.min(1 - likely[open_], initial=1.0))
        near[:, labels] = (open_ & (likely <= 0.5 + margin))[:, None]
    single, expected = missing & alone, found.expected_wrong
    wrong = np.where(found.positive, 1 - found.probabilities, found.probabilities)
    rated = getattr(classifier, "missing_as", None) != "unlabelled"
    if max_error_rate is not None:
        rates = classifier._completer.correlation.error_rates
        lowest, _ = rates._bounds(1 - wrong, found.positive, answered & alone, (1.0, 1.0))
        bounds |= {names[k]: float(lowest[:, k].min()) for k in np.flatnonzero(alone)}
        known = table.Y[~missing & alone]
        share = float(known.mean()) if len(known) else 0.5
        if (most := max(share, 1 - share)) >= 1 - max_error_rate:
            always = f"{most:.1%} of the known labels are {'yes' if share > 0.5 else 'no'}, so the"
            same = "limit would also be met if this value filled every missing label; compare the"
            warnings = [*warnings, f"{always} {same} error rates of yes and of no"]
    else:
        open_ = single & ~left & ~implied
        sides = [open_ & ~found.positive, open_ & found.positive]
        expected = np.array([wrong[side].sum() if rated else np.nan for side in sides])
    warnings = [*warnings, *no_positive_warnings(names, ~left & single, positive)]
    summary = CompletionSummary.of(single, single & ~left, found.positive, expected, implied)
    prior = getattr(classifier, "class_prior_", np.nan)
    overlooked = np.maximum(prior * (~unread).sum() - (table.Y == 1).sum(axis=0), 0)
    n_values = int(filled.sum()) if rated else 0
    n = summary.n_yes + summary.n_no + summary.n_implied + n_values
    stay = ": {n} missing entries were not filled because {lack} in the training table"
    done = Completion(
        label_names=names,
        missing=missing,
        positive=positive,
        look=near if max_error_rate is None else left,
        probabilities=p,
        warnings=[*warnings, *constant_warnings(classifier, names, stay, missing)],
        left=left if left.any() or max_error_rate is not None else None,
        expected_wrong=float(expected.sum() + unsure[filled].sum()) / n if n else np.nan,
        expected_wrong_yes=summary.expected_wrong_yes,
        expected_wrong_no=summary.expected_wrong_no,
        lowest_bound=np.nan if max_error_rate is None else min([1.0, *bounds.values()]),
        expected_wrong_values=float(unsure[filled].mean()) if n_values else np.nan,
        n_implied=summary.n_implied + n_implied,
        exclusive=table.exclusive,
        lowest_bounds=bounds,
        overlooked=float(overlooked[learnable].sum()),
    )
    limit, columns = 1.0 if max_error_rate is None else max_error_rate, counted_columns(done)
    if over := [one["label"] for one in columns if (one["expected_wrong"] or 0.0) > limit]:
        words = f"the expected error rate of {listed(over)} exceeds the limit, which applies"
        done.warnings.append(f"{words} to all columns together and not to each column")
    return done


def counted_columns(found: Completion) -> list[dict[str, Any]]:
    """Return counts and expected error rates of labels, and of columns with several values."""
    p, positive = found.probabilities, found.positive
    error, rated = np.where(positive, 1 - p, p), found.expected_wrong == found.expected_wrong
    for labels, group in found.exclusive:
        error[:, labels[0]] = 1 - group.probability(p[:, labels], positive[:, labels])
    masks = {"missing": found.missing, "filled": found.filled, "positive": found.positive}
    masks |= {"left": found.missing & ~found.filled, "look": found.look}
    cells = {labels[0]: (group.column, labels) for labels, group in found.exclusive}
    later = {k for labels, _ in found.exclusive for k in labels[1:]}
    rows: list[dict[str, Any]] = []
    for k, label in enumerate(found.label_names):
        if k not in later:
            name, labels = cells.get(k, (label, [k]))
            counts = {what: int(mask[:, labels].any(axis=1).sum()) for what, mask in masks.items()}
            wrong = error[found.filled[:, labels].any(axis=1), k]
            rate = float(wrong.mean()) if rated and len(wrong) else None
            row = {"label": name, **counts, "expected_wrong": rate}
            rows.append(row | ({"positive": None} if k in cells else {}))
    return rows


def completion_summary(found: Completion, limit: float | None = None) -> list[str]:
    """Return sentences about filled entries, their expected error rate and unfilled columns."""
    n_filled, n_missing = found.count(found.filled), found.count(found.missing)
    bounded = found.lowest_bound == found.lowest_bound
    if not n_missing:
        return ["No label is missing."]
    if bounded and not n_filled:
        lowest = f"A limit of at least {_percent(found.lowest_bound)} is needed to fill a label."
        no_limit = "No limit below 100% is high enough to fill a label."
        return [f"No label was filled. {lowest if found.lowest_bound < 1 else no_limit}"]
    lines = [f"{n_filled} of {n_missing} missing labels were filled."]
    if (n := found.overlooked) == n:
        yes = found.filled & found.positive
        more = max(n - yes.sum(), 0)
        lines.append(
            f"Proposed positives: {yes.sum()}, in {yes.any(axis=1).sum()} rows. Estimate: "
            f"{n:.0f} overlooked positives in the table, so at least {more:.0f} are not proposed."
        )
    rates = {what: getattr(found, f"expected_wrong_{what}") for what in ("yes", "no", "values")}
    parts = ", ".join(f"{name} {rate:.1%}" for name, rate in rates.items() if rate == rate)
    if parts:
        most = "at most " * bounded
        end = "" if limit is None else f" Limit: {100 * limit:.4g}% over all columns."
        lines.append(f"Expected error rate: {most}{found.expected_wrong:.1%} ({parts}).{end}")
    blank = [one["label"] for one in counted_columns(found) if one["left"] and not one["filled"]]
    rates = {name: found.lowest_bounds[name] for name in blank if bounded}
    if needs := [f"{name} ({_percent(rate)})" for name, rate in rates.items() if rate < 1]:
        lines.append(
            "The limit is too low for these columns (in brackets: the lowest limit with which a "
            f"label is filled): {', '.join(needs)}."
        )
    return lines


def _percent(bound: float) -> str:
    """Return a limit in percent, rounded up so that the printed limit is sufficient."""
    return f"{np.ceil(1e3 * bound) / 10:g}%"


@dataclass(frozen=True)
class Audit:
    """Suspected label errors of a table, most likely first."""

    row: NDArray[np.intp]
    label: list[str]
    observed: NDArray[np.bool_]
    blank: NDArray[np.bool_]
    probability: NDArray[np.float64]
    deviation: NDArray[np.float64] | None
    contradicted: NDArray[np.bool_]
    warnings: list[str]
    test: tuple[int, int] | None = None
    lowest: NDArray[np.float64] | None = None

    def expected_errors(self, n: int) -> Interval:
        """Return the expected share of errors in the first ``n`` entries, and a 95 % interval."""
        p = self.probability[:n]
        n, low, high = max(len(p), 1), np.nan, np.nan
        if len(p) and self.deviation is not None and self.lowest is not None:
            values = np.stack([self.lowest[:n], p])
            # Two variances: of the table's error rate, and of each label's error given this rate.
            var = (self.deviation[:n].sum() ** 2 + (values * (1 - values)).sum(axis=1)) / n**2
            mean = np.clip(values.sum(axis=1) / n, 1e-6, 1 - 1e-6)
            size = np.maximum(mean * (1 - mean) / np.maximum(var, 1e-12) - 1, 1e-3)
            ends = n * betaincinv(mean * size, (1 - mean) * size, (0.025, 0.975))
            low, high = float(np.floor(ends[0] + 1e-6)) / n, float(np.ceil(ends[1] - 1e-6)) / n
        return Interval(float(p.sum()) / n, low, high)


# Tests of an audit: share of labels to invert, number of tests, number of first suspects.
INVERTED, REPEATED, FIRST = 0.02, 5, 20


def audit_table(model: TableModel, table: Table, top: int | None = None) -> Audit:
    """Rank the observed labels of a table by the probability that they are wrong.

    Positive-unlabelled labels are ranked by the probability of an overlooked positive.

    Parameters
    ----------
    model, table
        As in :func:`complete_table`.
    top : int, default=None
        Maximum number of entries to return; None returns all entries.

    Returns
    -------
    Audit
        Arrays ``row`` (1 is the first row below the header), ``label``, ``observed``, ``blank``
        (for positive-unlabelled labels), ``probability`` of an error, its posterior standard
        ``deviation`` (None for positive-unlabelled labels), and ``contradicted``, whether the
        prediction or a rule contradicts the label. ``test`` is the result of five tests that each
        invert 2 % of the observed labels of yes/no columns: how many of the first suspects are
        inverted labels, and the number of first suspects. ``test`` is None with too few labels.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import FitOptions, audit_table, fit_table, table_from_frame
    >>> frame = pd.DataFrame({"mass": [0, 1, 2, 3] * 20, "toxic": [0, 0, 1, 1] * 20})
    >>> frame.loc[40, "toxic"] = 1  # all other rows with a mass of 0 have the label 0
    >>> table = table_from_frame(frame, "toxic")
    >>> model = fit_table(table, FitOptions("linear", 0.1, 1.0), estimate_folds=0)
    >>> found = audit_table(model, table, top=1)
    >>> int(found.row[0]), found.label[0], bool(found.observed[0])
    (41, 'toxic', True)
    """
    X, unread, warnings = model.prepared(table)
    Y = np.where(unread[:, None], np.nan, table.Y)
    cells = [labels for labels, _ in table.exclusive]
    T, scores, trained = model.classifier._held_out_labels(X, Y)
    found = model.classifier._completer.find_label_errors(T, scores, refit=trained, together=cells)
    # Suspected blanks include rows with invalid SMILES.
    first = np.flatnonzero(~unread[found.row])[:top]
    row, label = found.row[first], found.label[first]
    blank = np.isnan(table.Y[row, label])
    return Audit(
        row=row + 1,
        label=[table.label_names[k] for k in label],
        observed=found.observed[first],
        blank=blank,
        probability=found.probability[first],
        deviation=None if found.deviation is None else found.deviation[first],
        lowest=None if found.lowest is None else found.lowest[first],
        contradicted=blank if found.contradicted is None else found.contradicted[first],
        warnings=warnings,
        test=_test_audit(model.classifier, T, scores, refit=trained, together=cells),
    )


def _test_audit(classifier: Any, T: Signs, scores: Any, **given: Any) -> tuple[int, int] | None:
    """Invert known labels; return the numbers of inverted and of all first suspects."""
    known = (T != 0) & classifier._learnable & np.isfinite(scores)
    for labels in given["together"]:
        known[:, labels] = False
    places, rng, found = np.flatnonzero(known), np.random.default_rng(0), 0
    n = round(INVERTED * len(places))
    if not n or getattr(classifier, "missing_as", None) == "unlabelled":
        return None
    for _ in range(REPEATED):
        inverted, signs = rng.choice(places, n, replace=False), T.copy()
        signs.flat[inverted] *= -1
        errors = classifier._completer.find_label_errors(signs, scores, folds=0, **given)
        suspects = (errors.row * T.shape[1] + errors.label)[: min(n, FIRST)]
        found += int(np.isin(suspects, inverted).sum())
    return found, REPEATED * min(n, FIRST)
