"""Missing labels read as negatives, to measure what that costs."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from dm2l.baselines._one_vs_rest import explained


class ZeroFillClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Read every missing label as a negative, and fit an estimator.

    Gradient boosting libraries may do this without a warning.

    Parameters
    ----------
    estimator : estimator
        Cloned, then fitted to the complete labels.

    Attributes
    ----------
    estimator_ : estimator
        The fitted clone.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.baselines import ZeroFillClassifier, MaskedRidgeClassifier
    >>> X, Y = np.eye(3), np.array([[1, np.nan], [0, 1], [np.nan, 0]])
    >>> model = ZeroFillClassifier(MaskedRidgeClassifier(alpha=1.0)).fit(X, Y)
    >>> filled = MaskedRidgeClassifier(alpha=1.0).fit(X, [[1, 0], [0, 1], [0, 0]])
    >>> bool((model.decision_function(X) == filled.decision_function(X)).all())
    True
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, Y: Any) -> Self:
        """Fill in the missing labels and fit.

        Parameters
        ----------
        X, Y : array of shape (n, d) and (n, c)
            Rows, and their labels 0/1, NaN where missing.

        Returns
        -------
        self
            The fitted estimator.
        """
        with explained(self.estimator, X, whole=True):
            Y = np.nan_to_num(np.asarray(Y, dtype=float))
            self.estimator_ = clone(self.estimator).fit(X, Y)
        return self

    def decision_function(self, X: Any) -> Any:
        """Scores of the fitted estimator.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows.

        Returns
        -------
        array of shape (n, c)
            Scores.
        """
        check_is_fitted(self)
        with explained(self.estimator, X, whole=True):
            return self.estimator_.decision_function(X)

    def predict(self, X: Any) -> Any:
        """Labels that the fitted estimator predicts.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows.

        Returns
        -------
        array of shape (n, c)
            Labels.
        """
        check_is_fitted(self)
        with explained(self.estimator, X, whole=True):
            return self.estimator_.predict(X)
