"""The preparation of the command line as a step of scikit-learn's pipelines."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dm2l._auto._classifier import AutoClassifier
from dm2l.tables._kinds import ColumnUse
from dm2l.tables._preparation import (
    codes_of,
    features_of,
    preparation,
    typed_frame,
    unread_rows,
    usable,
)


@dataclass(eq=False, repr=False)
class TableColumns(TransformerMixin, BaseEstimator):
    """Columns of a data frame as features; ``raw``: as AutoClassifier takes them."""

    kinds: Mapping[str, str] | None = None
    drop: Sequence[str] = ()
    decimal: str = "."
    raw: bool = False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Decide the use of every column, and learn scales, values and words; ignores ``y``."""
        if not hasattr(X, "iloc"):
            raise TypeError(
                f"X must be a pandas.DataFrame, got {type(X).__name__}: pass pandas.DataFrame(X)."
            )
        uses = usable(X, self.kinds, self.drop, self.decimal, "X")
        # Plain tuples: model files hold them.
        self._uses = [astuple(use) for use in uses]
        inputs = self._typed(X)
        self.transformer_ = preparation(uses, inputs, raw=self.raw).fit(inputs)
        self.n_features_in_ = len(uses)
        return self

    @property
    def uses_(self) -> list[ColumnUse]:
        """The use of every column."""
        return [ColumnUse(*use) for use in self._uses]

    def transform(self, X: Any) -> Any:
        """Features of the rows; further columns are ignored."""
        check_is_fitted(self, "transformer_")
        return self.transformer_.transform(self._typed(X))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the features: ``column``, ``column=value``, ``column: word``."""
        found = features_of(self.transformer_, [])
        return np.array([feature.name for feature in found], dtype=object)

    def _typed(self, X: Any) -> Any:
        uses = self.uses_
        inputs, odd = typed_frame(X, uses, "X", self.decimal)
        if unread_rows(inputs, uses).any():
            # A step of a pipeline cannot leave rows out, and must not make molecules up.
            raise ValueError(
                f"{odd[0]}. Leave such rows out by dm2l.chemistry.is_valid_smiles; fit_table does "
                "so."
            )
        for line in odd:
            warnings.warn(line, stacklevel=3)
        return inputs


def make_table_pipeline(
    frame: Any,
    estimator: Any = None,
    *,
    kinds: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
    decimal: str = ".",
) -> Pipeline:
    """Make a scikit-learn pipeline that takes a data frame as ``dm2l fit`` takes a table.

    Missing numbers are filled and marked, numbers standardised, yes and no become 1 and 0,
    categories columns, texts TF-IDF, molecules fingerprints; identifiers, dates and constants are
    left out. :func:`dm2l.persistence.save_model` writes it.

    Parameters
    ----------
    frame : pandas.DataFrame
        Features without labels, by which kinds of columns are decided, here and once.
    estimator : estimator, default=None
        The classifier; None: :class:`dm2l.AutoClassifier`, which treats missing numbers itself.
    kinds : mapping of str to str, default=None
        Kinds of columns that should not be guessed, by name or pattern: "numeric", "boolean",
        "category", "text" or "smiles".
    drop : sequence of str, default=()
        Columns to leave out, by name or pattern.
    decimal : str, default="."
        The decimal point of numbers that are text.

    Returns
    -------
    Pipeline
        With the steps ``columns`` and ``labels``, to be fitted.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l import DM2LClassifier
    >>> from dm2l.tables import make_table_pipeline
    >>> frame = pd.DataFrame({"mass": [1.0, None, 3.0, 4.0] * 5, "phase": ["gas", "solid"] * 10})
    >>> Y = [[0, 1], [None, 0], [1, 1], [1, None]] * 5
    >>> model = make_table_pipeline(frame, DM2LClassifier()).fit(frame, Y)
    >>> model.predict(frame).shape
    (20, 2)
    """
    uses = usable(frame, kinds, drop, decimal, "The data frame")
    given = {use.name: use.kind for use in uses if use.used}
    left_out = [use.name for use in uses if not use.used]
    columns = TableColumns(given, left_out, decimal, raw=estimator is None)
    if estimator is None:
        codes = codes_of(preparation(uses, raw=True))
        estimator = AutoClassifier(categorical_features=codes or None)
    return Pipeline([("columns", columns), ("labels", estimator)])
