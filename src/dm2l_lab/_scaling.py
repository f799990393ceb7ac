"""Features of every data set on one scale."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from dm2l._solvers.features import column_variances
from dm2l._utils.arrays import is_non_numpy


class UnitVarianceScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Divide all features by one number, so that their variances add up to 1.

    .. math:: x \mapsto x / \bigl({\textstyle\sum_j s_j^2}\bigr)^{1/2}

    with ``s_j`` the standard deviation of column ``j`` of the training rows. Distances between
    rows are then about 1 whatever the data set, so that one grid of ``gamma`` and ``alpha`` serves
    all: ``gamma = 1`` is what scikit-learn calls "scale" for centred features.

    Attributes
    ----------
    scale_ : float
        What features are divided by.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l_lab import UnitVarianceScaler
    >>> X = UnitVarianceScaler().fit_transform([[0.0, 1.0], [6.0, 9.0]])
    >>> float(np.var(X, axis=0).sum())
    1.0
    """

    def __sklearn_tags__(self) -> Tags:
        """Capabilities that scikit-learn asks about."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the scale of the training rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training rows.
        y : None
            Not looked at.

        Returns
        -------
        self
            The fitted transformer.
        """
        X = self._checked(X, reset=True)
        total = float(column_variances(X).sum())
        self.scale_ = float(np.sqrt(total)) if total > 0 else 1.0
        return self

    def transform(self, X: Any) -> Any:
        """Divide by the scale.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array or sparse matrix of the same shape
            Scaled rows.
        """
        check_is_fitted(self)
        return self._checked(X, reset=False) / self.scale_

    def _checked(self, X: Any, *, reset: bool) -> Any:
        if is_non_numpy(X):
            return X
        return validate_data(
            self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=reset
        )
