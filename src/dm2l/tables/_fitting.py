"""Preparation, search and final fit on one set of rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from dm2l.extras import require
from dm2l.labels import ConstantLabelWarning
from dm2l.tables._kinds import ColumnUse
from dm2l.tables._preparation import preparation
from dm2l.tables._settings import Settings, Tell, Wishes, choose_settings


def fit_pipeline(
    inputs: Any,
    uses: Sequence[ColumnUse] | None,
    Y: NDArray[np.float64],
    wishes: Wishes,
    *,
    label_names: Sequence[str] | None = None,
    tell: Tell | None = None,
) -> tuple[Pipeline, Settings]:
    """A fitted pipeline of ``columns`` and ``labels``, and the settings that were chosen."""
    columns = preparation(uses)
    X = columns.fit_transform(inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantLabelWarning)  # the final fit says it once
        settings = choose_settings(X, Y, wishes, tell)
    if tell is not None:
        tell("fitting and calibrating")
    labels: Any = Y
    if label_names is not None:
        labels = require("pandas", "io").DataFrame(Y, columns=list(label_names))
    model = settings.model(wishes, Y).fit(X, labels)
    return Pipeline([("columns", columns), ("labels", model)]), settings


def take(inputs: Any, rows: NDArray[np.intp]) -> Any:
    """Rows of a data frame or of a matrix."""
    return inputs.iloc[rows] if hasattr(inputs, "iloc") else inputs[rows]
