"""What goes into the holes of a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dm2l.tables._html import NO, OPEN, YES, Bar, block, grid, lines
from dm2l.tables._model import TableModel
from dm2l.tables._table import Table
from dm2l.tables._unlearnt import completion_warnings, learnt

MARGIN = 0.2


@dataclass(frozen=True)
class Completion:
    """What goes into the holes of a table.

    Attributes
    ----------
    label_names : list of str
        Labels, in the order of the columns below.
    holes, positive, look : ndarray of bool of shape (n_rows, n_labels)
        Entries that were not observed, that are filled with yes, that are worth a look: their
        probability is near one half.
    probabilities : ndarray of shape (n_rows, n_labels)
        That the label is positive; 0 or 1 where it was observed, NaN where nothing can be said.
    warnings : list of str
        What was odd about the table.
    left : ndarray of bool of shape (n_rows, n_labels) or None
        Holes that are not filled, because too many answers would be wrong, the row has no molecule
        that can be read, or one answer alone was ever seen of the label; None for none.
    expected_wrong : float
        Share of wrong ones to expect among the filled; NaN if nothing was promised.
    """

    label_names: list[str]
    holes: NDArray[np.bool_]
    positive: NDArray[np.bool_]
    look: NDArray[np.bool_]
    probabilities: NDArray[np.float64]
    warnings: list[str]
    left: NDArray[np.bool_] | None = None
    expected_wrong: float = np.nan

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Holes that get an answer."""
        return self.holes if self.left is None else self.holes & ~self.left

    def _repr_html_(self) -> str:
        filled, rows = self.filled, []
        for k, label in enumerate(self.label_names):
            holes, given = int(self.holes[:, k].sum()), int(filled[:, k].sum())
            yes, n = int(self.positive[:, k].sum()), max(int(self.holes[:, k].sum()), 1)
            parts = ((yes / n, YES), ((given - yes) / n, NO), ((holes - given) / n, OPEN))
            counts = (holes, yes, given - yes, holes - given, int(self.look[:, k].sum()))
            rows.append((label, *counts, Bar(parts, "yes, no, left")))
        bound = self.expected_wrong
        expected = [f"{bound:.1%} of them are expected to be wrong"] if bound == bound else []
        return block(
            f"{int(filled.sum()):,} of {int(self.holes.sum()):,} holes filled",
            lines(expected),
            grid(("label", "holes", "yes", "no", "left", "worth a look", "shares"), rows),
            lines(f"warning: {line}" for line in self.warnings),
        )


def complete_table(
    model: TableModel, table: Table, margin: float = MARGIN, *, max_error_rate: float | None = None
) -> Completion:
    """Decide the holes of a table by its features and by what each row already knows.

    Holes of a label of which one answer alone was seen when the model was fitted are left, with a
    warning: nothing tells its yes from its no.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    table : Table
        A table with the columns and the labels of the model, read with the model's label names.
    margin : float, default=0.2
        Entries whose probability is this close to one half are worth a look.
    max_error_rate : float, default=None
        Fill only as many holes as keep the expected share of wrong ones among the filled at or
        below this, and leave the others, which are then those worth a look.

    Returns
    -------
    Completion
        What goes where; :func:`write_completion` writes it.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import FitOptions, complete_table, fit_table, table_from_frame
    >>> frame = pd.DataFrame({"mass": [i % 7 for i in range(60)]})
    >>> frame["tox_a"] = [i % 7 > 3 if i % 3 else None for i in range(60)]
    >>> frame["tox_b"] = [i % 7 < 2 if i % 4 else None for i in range(60)]
    >>> table = table_from_frame(frame, "tox_*")
    >>> model = fit_table(table, Wishes("linear", 0.1, 1.0), estimate_folds=0)
    >>> completion = complete_table(model, table)
    >>> completion.holes.sum(axis=0)
    array([20, 15])
    >>> completion.positive[0], completion.look[0]
    (array([False,  True]), array([False, False]))
    """
    model.check_labels(table)
    inputs, warnings = model.inputs(table)
    found = model.fill(inputs, table.Y, max_error_rate)
    holes = np.isnan(table.Y)
    untold = holes & ~learnt(model.classifier)
    left, p = found.left | untold, np.where(untold, np.nan, found.probabilities)
    near = holes & (np.abs(p - 0.5) <= margin)
    if max_error_rate is not None and holes.any() and left[holes].all():
        least = model.lowest_error_rate(inputs, table.Y)
        warnings = [*warnings, _out_of_reach(max_error_rate, least)]
    return Completion(
        label_names=table.label_names,
        holes=holes,
        positive=found.positive & ~untold,
        look=near if max_error_rate is None else left,
        probabilities=p,
        warnings=[*warnings, *completion_warnings(model.classifier, table.label_names, holes)],
        left=left if left.any() or max_error_rate is not None else None,
        expected_wrong=found.expected_wrong,
    )


def _out_of_reach(max_error_rate: float, least: float) -> str:
    nothing = f"no hole can be filled with at most {100 * max_error_rate:.4g}% wrong answers"
    if least >= 1:
        return nothing
    # Rounded up: what is said can be asked for.
    return f"{nothing}; {np.ceil(1e4 * least) / 100:.4g}% is the least with which some can"
