"""The linear model as a feature map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._solvers.features import column_variances
from dm2l._solvers.kernels._factor import KernelFactor, kernel_factor
from dm2l._solvers.kernels._map import FeatureMap
from dm2l._utils.arrays import asarray_like, float64, namespace, solve_triangular, take_rows


class LinearMap(FeatureMap):
    """``Phi = X``, or a factor of ``XX'`` when ``X`` has more columns than rows."""

    error = 0.0

    def __init__(self, reduce: bool = True, intercept: bool = False) -> None:
        self._reduce = reduce
        self._intercept = intercept
        self._factor: KernelFactor | None = None

    def fit(self, X: Any) -> Any:
        """Return the features of ``X``."""
        n, d = X.shape
        # Rows that are their own features are not kept: maps travel to where rows are.
        self._X = X[:0, :]
        self._factor, self.offset = None, None
        if d <= n or not self._reduce:
            return X
        X = float64(X)
        if self._intercept and not sp.issparse(X):
            mean = namespace(X).mean(X, axis=0)
            # Each decade of distance over spread costs XX' two digits; a few are spare.
            if float(mean @ mean) > 1e4 * column_variances(X).sum():
                self.offset, X = mean, X - mean
        self._X = X
        values = X.data if sp.issparse(X) else X
        if bool(namespace(values).any(values * values > 0)):  # squares may be zero where X is not
            # No name for the matrix here: it goes when the factor is done with it.
            self._factor = kernel_factor(_dense_gram(X) if sp.issparse(X) else X @ X.T)
        else:  # nothing but zeros: one zero column says as much as all of them
            zero, one = asarray_like(np.zeros((n, 1)), values), asarray_like(np.eye(1), values)
            self._factor = KernelFactor(zero, np.arange(1), one)
        return self._factor.Phi

    @property
    def plain(self) -> bool:
        """Whether rows are their own features."""
        return self._factor is None

    def transform(self, X: Any) -> Any:
        """Features of rows: themselves, or ``X P' L'^-1`` with the pivot rows ``P``."""
        if self._factor is None:
            return X
        X = float64(X) if self.offset is None else float64(X) - self.offset
        inner = take_rows(self._X, self._factor.pivots) @ X.T
        return solve_triangular(self._factor.L, inner.toarray() if sp.issparse(inner) else inner).T

    @property
    def square(self) -> Callable[[], Any] | None:
        """How to get ``Phi'Phi``, if there is a cheaper way than the product."""
        return None if self._factor is None else self._factor.square

    def coefficients(self, W: Any) -> Any:
        """``W`` itself, or ``X'A``."""
        if self._factor is None:
            return W
        return take_rows(self._X, self._factor.pivots).T @ self._factor.dual(W)

    def on_inputs(self, W: Any, intercept: bool) -> tuple[Any, Any]:
        """Weights on the columns of ``X`` and intercepts, of weights with or without intercept."""
        coef = self.coefficients(W[:-1, :] if intercept else W)
        b = W[-1, :] if intercept else asarray_like(np.zeros(W.shape[1]), W)
        return coef, b if self.offset is None else b - self.offset @ coef

    def weights(self, coefficients: Any) -> Any:
        """``W`` itself, or the weights that give the same training scores."""
        if self._factor is None:
            return coefficients
        return self._factor.primal(self._X @ coefficients)

    @property
    def n_coefficients(self) -> int:
        """Number of columns of ``X``."""
        return int(self._X.shape[1])

    @property
    def example(self) -> Any:
        """Inputs."""
        return self._X


def _dense_gram(X: Any) -> NDArray[np.float64]:
    """``XX'`` of a sparse ``X``, which is nearly full: its sparse form would take twice as much."""
    n, others = X.shape[0], X.T.tocsr()
    K = np.empty((n, n))
    step = 2**24 // n + 1
    for start in range(0, n, step):
        (X[start : start + step] @ others).toarray(out=K[start : start + step])
    return K
