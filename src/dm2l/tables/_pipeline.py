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
    """Columns of a data frame as features: numbers, yes and no, categories, texts, molecules.

    Parameters
    ----------
    kinds : mapping of str to str, default=None
        Kinds of columns that should not be guessed, see :func:`column_kinds`.
    drop : sequence of str, default=()
        Columns to leave out, by name or pattern.
    decimal : str, default="."
        The decimal point of numbers that are text.
    raw : bool, default=False
        Whether numbers stay as they are and categories become codes, NaN where they are missing,
        as :class:`dm2l.AutoClassifier` takes them; not beside texts and molecules.

    Attributes
    ----------
    transformer_ : ColumnTransformer
        scikit-learn's transformers of the columns that are used.
    n_features_in_ : int
        Columns of the frame.

    See Also
    --------
    make_table_pipeline : This step and a classifier.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables._pipeline import TableColumns
    >>> frame = pd.DataFrame({"mass": ["1.5", "n.d.", "3"], "phase": ["gas", "solid", "gas"]})
    >>> columns = TableColumns(kinds={"mass": "numeric"})
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # that "n.d." is taken as missing
    ...     X = columns.fit_transform(frame)
    >>> columns.get_feature_names_out().tolist()
    ['mass', 'mass is missing', 'phase=gas', 'phase=solid']
    """

    kinds: Mapping[str, str] | None = None
    drop: Sequence[str] = ()
    decimal: str = "."
    raw: bool = False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Decide what every column is good for, and learn its scale, values or words.

        Parameters
        ----------
        X : pandas.DataFrame
            Columns as they are.
        y : object
            Ignored, for compatibility.

        Returns
        -------
        self
            The fitted transformer.
        """
        if not hasattr(X, "iloc"):
            raise TypeError(f"Columns are those of a pandas.DataFrame, got {type(X).__name__}.")
        uses = usable(X, self.kinds, self.drop, self.decimal, "X")
        # Plain tuples: model files hold them.
        self._uses = [astuple(use) for use in uses]
        inputs = self._typed(X)
        self.transformer_ = preparation(uses, inputs, raw=self.raw).fit(inputs)
        self.n_features_in_ = len(uses)
        return self

    @property
    def uses_(self) -> list[ColumnUse]:
        """What every column is used for."""
        return [ColumnUse(*use) for use in self._uses]

    def transform(self, X: Any) -> Any:
        """Features of the rows.

        Parameters
        ----------
        X : pandas.DataFrame
            Columns of the same names, in any order; further ones are passed over.

        Returns
        -------
        array or sparse matrix of shape (n_rows, n_prepared)
            Numbers; see :meth:`get_feature_names_out`.
        """
        check_is_fitted(self, "transformer_")
        return self.transformer_.transform(self._typed(X))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the features: ``column``, ``column=value``, ``column: word``.

        Parameters
        ----------
        input_features : object
            Ignored, for compatibility.

        Returns
        -------
        ndarray of str of shape (n_prepared,)
            One for each.
        """
        found = features_of(self.transformer_, [])
        return np.array([feature.name for feature in found], dtype=object)

    def _typed(self, X: Any) -> Any:
        uses = self.uses_
        inputs, odd = typed_frame(X, uses, "X", self.decimal)
        if unread_rows(inputs, uses).any():
            # A step of a pipeline cannot leave rows out, and must not make molecules up.
            raise ValueError(
                f"{odd[0]}. Leave such rows out by dm2l.chemistry.readable; fit_table does so."
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
    """Make a pipeline that takes a data frame as ``dm2l fit`` takes a table.

    Gaps are filled and marked, numbers standardised, yes and no become 1 and 0, categories columns,
    texts TF-IDF, molecules fingerprints; identifiers, dates and constants are left out. It is one
    of scikit-learn's, for its searches and folds, and :func:`dm2l.persistence.save_model` writes
    it.

    Parameters
    ----------
    frame : pandas.DataFrame
        Features without labels, by which kinds of columns are decided, here and once.
    estimator : estimator, default=None
        What learns; None: :class:`dm2l.AutoClassifier`, which sees to gaps and categories itself.
    kinds, drop, decimal
        As in :class:`TableColumns`.

    Returns
    -------
    Pipeline
        With the steps ``columns`` and ``labels``, to be fitted.

    See Also
    --------
    fit_table : The whole of ``dm2l fit``, with an estimate of quality.

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
    told = {use.name: use.kind for use in uses if use.used}
    left = [use.name for use in uses if not use.used]
    raw = estimator is None
    if estimator is None:
        codes = codes_of(preparation(uses, raw=True))
        estimator = AutoClassifier(categorical_features=codes or None)
    return Pipeline([("columns", TableColumns(told, left, decimal, raw)), ("labels", estimator)])
