"""Missing labels of a table filled in, and known ones that may be wrong."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dm2l.tables._measures import impute
from dm2l.tables._model import TableModel, constant_warnings
from dm2l.tables._output import NO, OPEN, YES, Bar, block, grid, lines
from dm2l.tables._reading import Table

MARGIN = 0.2


@dataclass(frozen=True)
class Completion:
    """Answers for the missing labels of a table.

    Attributes
    ----------
    missing, positive, look : ndarray of bool of shape (n_rows, n_labels)
        Entries that were missing, that are filled with yes, that are worth a look: their
        probability is near one half.
    probabilities : ndarray of shape (n_rows, n_labels)
        Probability of a yes; 0 or 1 where it was observed, NaN where there is no estimate.
    left : ndarray of bool of shape (n_rows, n_labels) or None
        Missing entries that are not filled, because too many answers would be wrong, the row has no
        molecule that can be read, or the label has a single class; None for none.
    expected_wrong : float
        Expected error rate of the filled entries; NaN without ``max_error_rate``.
    """

    label_names: list[str]
    missing: NDArray[np.bool_]
    positive: NDArray[np.bool_]
    look: NDArray[np.bool_]
    probabilities: NDArray[np.float64]
    warnings: list[str]
    left: NDArray[np.bool_] | None = None
    expected_wrong: float = np.nan

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Missing entries that get an answer."""
        return self.missing if self.left is None else self.missing & ~self.left

    def _repr_html_(self) -> str:
        filled, rows = self.filled, []
        for k, label in enumerate(self.label_names):
            missing, given = int(self.missing[:, k].sum()), int(filled[:, k].sum())
            yes, n = int(self.positive[:, k].sum()), max(missing, 1)
            parts = ((yes / n, YES), ((given - yes) / n, NO), ((missing - given) / n, OPEN))
            counts = (missing, yes, given - yes, missing - given, int(self.look[:, k].sum()))
            rows.append((label, *counts, Bar(parts, "yes, no, left")))
        bound = self.expected_wrong
        expected = [f"{bound:.1%} of them are expected to be wrong"] if bound == bound else []
        return block(
            f"{int(filled.sum()):,} of {int(self.missing.sum()):,} missing labels filled",
            lines(expected),
            grid(("label", "missing", "yes", "no", "left", "worth a look", "shares"), rows),
            lines(f"warning: {line}" for line in self.warnings),
        )


def complete_table(
    model: TableModel, table: Table, margin: float = MARGIN, *, max_error_rate: float | None = None
) -> Completion:
    """Fill the missing labels of a table by its features and the known labels of each row.

    Labels that had a single class when the model was fitted are left, with a warning.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    table : Table
        A table with the columns and the labels of the model, read with the model's label names.
    margin : float, default=0.2
        Entries whose probability is this close to one half are worth a look.
    max_error_rate : float, default=None
        Fill only as many entries as keep the expected error rate at or below this, and leave the
        others, which are then those worth a look.

    Returns
    -------
    Completion
        Answers and probabilities; :func:`write_completion` writes them.

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
    found = impute(classifier, X, table.Y, max_error_rate)
    learnable = np.asarray(classifier._learnable, dtype=bool)
    answered = missing & learnable & ~unread[:, None]
    left = missing & ~(answered & found.chosen)
    p = np.where(missing & ~answered, np.nan, found.probabilities)
    near = missing & (np.abs(p - 0.5) <= margin)
    if max_error_rate is not None and missing.any() and left[missing].all():
        confidence = np.where(found.positive, found.probabilities, 1 - found.probabilities)
        least = classifier._completer.correlation.error_rates.least(confidence, answered)
        nothing = (
            f"no missing label can be filled with an expected error rate of at most "
            f"{100 * max_error_rate:.4g}%"
        )
        # Rounded up, so that the rate that is named can be passed.
        lowest = f"; the lowest rate that fills any is {np.ceil(1e4 * least) / 100:.4g}%"
        warnings = [*warnings, nothing + (lowest if least < 1 else "")]
    stay = ": {n} blanks stay blank, since {lack} where the model was fitted"
    return Completion(
        label_names=table.label_names,
        missing=missing,
        positive=found.positive & ~left,
        look=near if max_error_rate is None else left,
        probabilities=p,
        warnings=[*warnings, *constant_warnings(classifier, table.label_names, stay, missing)],
        left=left if left.any() or max_error_rate is not None else None,
        expected_wrong=found.expected_wrong,
    )


@dataclass(frozen=True)
class Audit:
    """Suspected label errors of a table, the most likely first."""

    row: NDArray[np.intp]
    label: list[str]
    observed: NDArray[np.bool_]
    blank: NDArray[np.bool_]
    probability: NDArray[np.float64]
    false_alarms: NDArray[np.float64]
    warnings: list[str]


def audit_table(model: TableModel, table: Table, top: int | None = None) -> Audit:
    """Rank the observed labels of a table by how likely they are to be wrong.

    With positive-unlabelled labels, rank blanks by how likely a positive was overlooked.

    Parameters
    ----------
    model, table
        As in :func:`complete_table`.
    top : int, default=None
        How many; None for all.

    Returns
    -------
    Audit
        Arrays ``row`` (1 is the first row below the header), ``label``, ``observed``, ``blank``
        (suspected with positive-unlabelled labels), ``probability`` of being wrong, and
        ``false_alarms``, the expected share of correct labels down to this entry.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import FitOptions, audit_table, fit_table, table_from_frame
    >>> frame = pd.DataFrame({"mass": [0, 1, 2, 3] * 20, "toxic": [0, 0, 1, 1] * 20})
    >>> frame.loc[40, "toxic"] = 1  # unlike any other row with a mass of 0
    >>> table = table_from_frame(frame, "toxic")
    >>> model = fit_table(table, FitOptions("linear", 0.1, 1.0), estimate_folds=0)
    >>> found = audit_table(model, table, top=1)
    >>> int(found.row[0]), found.label[0], bool(found.observed[0])
    (41, 'toxic', True)
    """
    X, unread, warnings = model.prepared(table)
    Y = np.where(unread[:, None], np.nan, table.Y)
    found = model.classifier.find_label_errors(X, Y)
    # Where blanks are suspected, those of rows that could not be read are among them.
    first = np.flatnonzero(~unread[found.row])[:top]
    row, label = found.row[first], found.label[first]
    return Audit(
        row=row + 1,
        label=[table.label_names[k] for k in label],
        observed=found.observed[first],
        blank=np.isnan(table.Y[row, label]),
        probability=found.probability[first],
        false_alarms=found.false_alarms[first],
        warnings=warnings,
    )
