"""What goes into the holes of a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dm2l.tables._model import TableModel
from dm2l.tables._table import Table

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
        That the label is positive.
    warnings : list of str
        What was odd about the table.
    """

    label_names: list[str]
    holes: NDArray[np.bool_]
    positive: NDArray[np.bool_]
    look: NDArray[np.bool_]
    probabilities: NDArray[np.float64]
    warnings: list[str]


def complete_table(model: TableModel, table: Table, margin: float = MARGIN) -> Completion:
    """Decide every hole of a table.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    table : Table
        A table with the columns and the labels of the model, read with the model's label names.
    margin : float, default=0.2
        Entries whose probability is this close to one half are worth a look.

    Returns
    -------
    Completion
        What goes where; :func:`write_completion` writes it.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import Wishes, complete_table, fit_table, table_from_frame
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
    answer = model.answer(inputs)
    holes = np.isnan(table.Y)
    return Completion(
        label_names=table.label_names,
        holes=holes,
        positive=answer.positive & holes,
        look=holes & (np.abs(answer.probabilities - 0.5) <= margin),
        probabilities=answer.probabilities,
        warnings=warnings,
    )
