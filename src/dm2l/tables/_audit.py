"""Observed labels of a table that everything else about their rows contradicts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dm2l.tables._model import TableModel
from dm2l.tables._table import Table


@dataclass(frozen=True)
class Audit:
    """Observed labels of a table, the most doubtful first.

    Attributes
    ----------
    row : ndarray of int
        Row numbers; 1 is the first row below the header.
    label : list of str
        Labels.
    observed : ndarray of bool
        What stands there; False for a blank.
    blank : ndarray of bool
        Whether nothing stands there: where ticks alone were learnt from, blanks are doubted.
    probability : ndarray
        That it is wrong.
    false_alarms : ndarray
        Expected share of right ones among this entry and all before it.
    warnings : list of str
        What was odd about the table.
    """

    row: NDArray[np.intp]
    label: list[str]
    observed: NDArray[np.bool_]
    blank: NDArray[np.bool_]
    probability: NDArray[np.float64]
    false_alarms: NDArray[np.float64]
    warnings: list[str]


def audit_table(model: TableModel, table: Table, top: int | None = None) -> Audit:
    """Rank the observed labels of a table by how likely they are to be wrong.

    Of a table with ticks alone, blanks by how likely somebody overlooked something there.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    table : Table
        A table with the columns and the labels of the model.
    top : int, default=None
        How many; None for all.

    Returns
    -------
    Audit
        Rows, labels and probabilities.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import FitOptions, audit_table, fit_table, table_from_frame
    >>> frame = pd.DataFrame({"mass": [i % 7 for i in range(140)]})
    >>> frame["tox_a"] = [i % 7 > 3 if i % 3 else None for i in range(140)]
    >>> frame["tox_b"] = [i % 7 < 2 if i % 4 else None for i in range(140)]
    >>> frame.loc[70, "tox_b"] = False  # as nowhere else with a mass of 0
    >>> table = table_from_frame(frame, "tox_*")
    >>> model = fit_table(table, Wishes("linear", 0.1, 1.0), estimate_folds=0)
    >>> found = audit_table(model, table, top=1)
    >>> int(found.row[0]), found.label[0], bool(found.observed[0])
    (71, 'tox_b', False)
    """
    model.check_labels(table)
    inputs, warnings = model.inputs(table)
    X = model.pipeline[:-1].transform(inputs)
    unread = model.unread(inputs)
    Y = np.where(unread[:, None], np.nan, table.Y)
    found = model.classifier.find_label_errors(X, Y)
    # Where blanks are doubted, those of rows that could not be read are among them.
    first = np.flatnonzero(~unread[found.row])[:top]
    return Audit(
        row=found.row[first] + 1,
        label=[table.label_names[k] for k in found.label[first]],
        observed=found.observed[first],
        blank=np.isnan(table.Y[found.row[first], found.label[first]]),
        probability=found.probability[first],
        false_alarms=found.false_alarms[first],
        warnings=warnings,
    )
