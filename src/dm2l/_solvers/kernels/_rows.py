"""Kernel models as feature maps: scores are ``K(x, P) A`` with some training rows ``P``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._solvers.kernels._factor import KernelFactor, kernel_factor
from dm2l._solvers.kernels._kernel import is_precomputed
from dm2l._solvers.kernels._map import FeatureMap
from dm2l._utils.arrays import asarray_like, solve_triangular, take_rows

KernelFunction = Callable[[Any, Any], Any]


class _RowMap(FeatureMap):
    """A map whose coefficients belong to the training rows ``pivots``."""

    pivots: NDArray[np.intp]

    def __init__(self, kernel: KernelFunction) -> None:
        self._kernel = kernel
        self.error = 0.0

    def stored(self, X: Any) -> dict[str, Any]:
        """The pivot rows, or their numbers where ``X`` is the kernel matrix."""
        kept = self.pivots if is_precomputed(self._kernel) else take_rows(X, self.pivots)
        return {"_kernel": self._kernel, "X_fit_": kept}

    @property
    def n_coefficients(self) -> int:
        """Number of pivot rows."""
        return len(self.pivots)


class _FactorMap(_RowMap):
    """A map by a factor ``K ~ Phi Phi'`` with ``Phi[pivots] = L``."""

    _factor: KernelFactor

    def coefficients(self, W: Any) -> Any:
        """``A`` on the pivot rows, with ``k(x, pivots) A`` the scores."""
        return self._factor.dual(W)

    def weights(self, coefficients: Any) -> Any:
        """Feature weights of given ``A``."""
        return self._factor.L.T @ coefficients

    @property
    def example(self) -> Any:
        """The factor of the pivot rows."""
        return self._factor.L


class KernelMap(_FactorMap):
    """``Phi`` with ``K = Phi Phi'``; predicts through the pivot rows."""

    def fit(self, X: Any) -> Any:
        """Return an exact factor of the kernel matrix of ``X``."""
        return self._keep(kernel_factor(self._kernel(X, X)), X)

    def _keep(self, factor: KernelFactor, X: Any) -> Any:
        self._factor, self.pivots, self.error = factor, factor.pivots, factor.error
        self._X = X
        return factor.Phi

    @property
    def square(self) -> Callable[[], Any]:
        """How to get ``Phi'Phi``."""
        return self._factor.square

    def transform(self, X: Any) -> Any:
        """Features of any rows, by way of the pivot rows."""
        return self.fixed(self._X).transform(X)

    def fixed(self, X: Any) -> LandmarkMap:
        """The map that takes any rows to these features; ``X`` is what was fitted."""
        rows = take_rows(X, self.pivots)
        return LandmarkMap(self._kernel, rows, self._factor.L, self.error)


class LandmarkMap(_FactorMap):
    """Features of any rows by way of some that were chosen: ``Phi = K(X, P) L'^-1``."""

    def __init__(self, kernel: KernelFunction, rows: Any, L: Any, error: float) -> None:
        super().__init__(kernel)
        self.rows = rows
        self.error = error
        self.pivots = np.arange(rows.shape[0])
        self._factor = KernelFactor(L, self.pivots, L)

    def fit(self, X: Any) -> Any:
        """Features of rows: nothing is left to be fitted."""
        return self.transform(X)

    def transform(self, X: Any) -> Any:
        """Features of rows, in float64."""
        return solve_triangular(self._factor.L, self._kernel(X, self.rows).T).T

    def inputs(self, X: Any) -> Any:
        """The chosen rows."""
        return self.rows

    def stored(self, X: Any) -> dict[str, Any]:
        """The chosen rows and their factor: the next block goes through them too."""
        kept = {"X_fit_": self.rows, "_landmark_factor": self._factor.L}
        return {"_kernel": self._kernel, **kept}


class KernelColumns(_RowMap):
    """``Phi = K`` with ``A`` as the weights: as the paper states its equation (4)."""

    def fit(self, X: Any) -> Any:
        """Return the kernel matrix."""
        self.pivots = np.arange(X.shape[0])
        self._X, K = X, self._kernel(X, X)
        self._example = asarray_like(
            np.empty((0, 0)), K
        )  # the matrix itself is for others to overwrite
        return K

    def transform(self, X: Any) -> Any:
        """Kernel with the training rows."""
        return self._kernel(X, self._X)

    @property
    def example(self) -> Any:
        """An empty array."""
        return self._example
