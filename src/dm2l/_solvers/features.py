"""Features and feature maps of linear and kernel models, and the default alpha.

Scores are ``F = Phi W + 1 b'``. For a linear model, ``Phi`` is ``X``. For most kernel models,
``Phi`` is a factor of the kernel matrix, ``K = Phi Phi'``. A kernel model with coefficients ``A``
is then a linear model on ``Phi`` with ``||W||_F^2 = tr(A'KA)``. :mod:`dm2l._solvers.maps` lists
the maps; for exact kernels with norms, see :mod:`dm2l._solvers.kernel_problem`.
"""

import itertools
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device, is_numpy_array
from numpy.typing import NDArray
from sklearn.utils.sparsefuncs import mean_variance_axis

from dm2l._solvers.kernels import Kernel, KernelFactor, kernel_factor
from dm2l._utils.arrays import (
    WORTH_SHARING,
    asarray_like,
    float64,
    is_non_numpy,
    namespace,
    one_blas_thread,
    run_all,
    scale_rows,
    solve_triangular,
    take_columns,
    take_rows,
    to_numpy,
)
from dm2l.labels._matrix import LearnableMask

Floats = NDArray[np.float64]
WORTH_SPARSE = 2**16  # minimum size of a dense matrix for checking whether it is sparse
# Sparse products are faster up to this share of nonzero entries (benchmarks/blas.py).
FEW = 0.1
# Up to this share of nonzero entries, a sparse product X'X is faster.
FEW_IN_GRAM = 0.04


class Features:
    """A matrix ``Phi``, with an implicit last column of ones for the intercept."""

    def __init__(self, Phi: Any, intercept: bool, square: Any = None, workers: int = 1) -> None:
        self.xp = namespace(Phi)
        # An empty array with the library, device and dtype of the scores.
        self.example = np.empty(0, dtype=Phi.dtype) if sp.issparse(Phi) else Phi
        self.mean: Any = None
        # Column means of a sparse Phi, which products subtract so that it stays sparse.
        self._implied: Any = None
        self.variance: float | None = None  # sum of the column variances, if it is known
        self.Phi = Phi
        self.intercept = intercept
        self.n, self.d = Phi.shape
        self.size = self.d + int(intercept)
        self._transposed = Phi.T.tocsr() if sp.issparse(Phi) else None
        penalized = np.ones(self.size)
        penalized[self.d :] = 0.0  # no ridge penalty on the column of ones
        self.penalized = asarray_like(penalized, self.example)
        self._square = square
        self._workers = workers if is_numpy_array(Phi) else 1

    def centre(self, mean: Any = None, *, in_place: bool = False) -> "Features":
        """Return the features minus ``mean`` (default: their mean) if there is an intercept."""
        if not self.intercept or self.mean is not None:
            return self
        centred = copy(self)
        if sp.issparse(self.Phi):
            if mean is None:
                mean = self.Phi.mean(axis=0, dtype=np.float64)
            centred.mean = centred._implied = np.asarray(mean).ravel()
            return centred
        xp = self.xp
        if mean is None:
            mean = xp.sum(self.Phi, axis=0, dtype=xp.float64) / self.n
        centred.mean = xp.astype(mean, self.Phi.dtype)
        if in_place:
            centred.Phi -= centred.mean
        else:
            centred.Phi = self.Phi - centred.mean
        centred.example, centred._square = centred.Phi, None
        return centred

    def to_original(self, W: Any) -> Any:
        """Convert weights of centred features to weights of the original features."""
        if self.mean is None:
            return W
        mean = self.xp.astype(self.mean, W.dtype, copy=False)
        moved = W[self.d :, :] - (mean @ W[: self.d, :])[None, :]
        return self.xp.concat([W[: self.d, :], moved], axis=0)

    def from_original(self, W: Any) -> Any:
        """Convert weights of the original features to weights of centred features."""
        if self.mean is None:
            return W
        mean = self.xp.astype(self.mean, W.dtype, copy=False)
        moved = W[self.d :, :] + (mean @ W[: self.d, :])[None, :]
        return self.xp.concat([W[: self.d, :], moved], axis=0)

    def spread(self, weights: Floats | None = None) -> float:
        """Return the sum of the variances of all columns."""
        if self.variance is None:
            self.variance = float(column_variances(self.Phi, weights).sum())
        return self.variance

    def with_intercept(self, W: Any, other: Any) -> Any:
        """Return ``W`` with its intercepts replaced by the intercepts of other weights."""
        return self.xp.concat([W[: self.d, :], other[self.d :, :]], axis=0)

    def scores(self, W: Any) -> Any:
        """Return ``Phi W + 1 b'``, where ``b`` is the last row of ``W``."""
        W = self.xp.astype(W, self.Phi.dtype, copy=False)
        A = W[: self.d, :] if self.intercept else W
        if self._workers > 1 and self.n * self.d * W.shape[1] > WORTH_SHARING:
            F = np.empty((self.n, W.shape[1]), dtype=self.Phi.dtype)
            self._by_rows(lambda rows: np.matmul(self.Phi[rows], A, out=F[rows]))
        else:
            F = self.Phi @ A
        if not self.intercept:
            return F
        intercept = W[self.d :, :]
        if self._implied is not None:
            intercept = intercept - (self._implied @ A).astype(W.dtype)
        F += intercept
        return F

    def _by_rows(self, work: Callable[[slice], Any]) -> list[Any]:
        """Apply a function to slices of the rows in threads, with two slices per worker."""
        borders = np.linspace(0, self.n, 2 * self._workers + 1).astype(int)
        parts = [slice(*pair) for pair in itertools.pairwise(borders)]
        with one_blas_thread():
            return run_all([partial(work, rows) for rows in parts], self._workers)

    def adjoint(self, G: Any) -> Any:
        """Return ``Phi' G`` with the column sums of ``G`` as the last row."""
        xp = self.xp
        R = xp.astype(G, self.Phi.dtype, copy=False)  # a product of two dtypes copies Phi
        # For a row-major Phi, (R'Phi)' takes half the time of Phi'R (benchmarks/blas.py).
        if self._transposed is not None:
            product = self._transposed @ R
        elif self._workers > 1 and self.n * self.d * R.shape[1] > WORTH_SHARING:
            parts = self._by_rows(lambda rows: np.matmul(R[rows].T, self.Phi[rows]))
            product = sum(parts[1:], parts[0]).T
        else:
            product = (R.T @ self.Phi).T
        product = xp.astype(product, xp.float64, copy=False)
        if not self.intercept:
            return product
        sums = xp.sum(G, axis=0, keepdims=True, dtype=xp.float64)
        if self._implied is not None:
            product = product - self._implied[:, None] * sums
        return xp.concat([product, sums], axis=0)

    def gram(self, rows: NDArray[np.intp] | None = None, weights: Floats | None = None) -> Any:
        """Return the weighted Gram matrix of all or some rows, including the column of ones."""
        xp = self.xp
        Phi = self.Phi if rows is None else self.Phi[rows, :]
        if self._implied is not None:
            # Subtracting the means afterwards would be imprecise in float32.
            Phi = Phi.astype(np.float64, copy=False)
        root = None if weights is None else np.sqrt(weights)
        Phi = Phi if root is None else scale_rows(Phi, root)
        if rows is None and root is None and self._square is not None:
            square = self._square()
        else:
            square = Phi.T @ Phi
        square = square.toarray() if sp.issparse(square) else square
        square = xp.astype(square, xp.float64, copy=False)
        if not self.intercept:
            return square
        total = float(Phi.shape[0]) if weights is None else float(weights.sum())
        if root is not None:
            sums = (float64(Phi).T @ asarray_like(root, self.example, xp.float64))[:, None]
        elif sp.issparse(Phi):
            sums = np.asarray(Phi.sum(axis=0, dtype=np.float64)).reshape(-1, 1)
        else:
            sums = xp.sum(Phi, axis=0, dtype=xp.float64)[:, None]
        count = xp.full((1, 1), total, dtype=xp.float64, device=device(square))
        if self._implied is not None:
            cross = sums * self._implied
            raw = np.diagonal(square).copy()
            square = square - cross - cross.T + count * np.outer(self._implied, self._implied)
            # Columns whose variance is a rounding error count as constant.
            rounding = 10 * np.sqrt(Phi.shape[0]) * np.finfo(np.float64).eps
            constant = np.diagonal(square) <= rounding * raw
            square[constant, :] = square[:, constant] = 0.0
            sums = sums - count * self._implied[:, None]
        whole = xp.empty((self.size, self.size), dtype=xp.float64, device=device(square))
        whole[: self.d, : self.d] = square
        whole[: self.d, self.d :] = sums
        whole[self.d :, : self.d] = sums.T
        whole[self.d :, self.d :] = count
        return whole


def without_zeros(X: Any) -> Any:
    """Convert ``X`` to a sparse matrix if it is a dense numpy array with few nonzero entries."""
    if not is_numpy_array(X):
        return X
    some = X[:: 1 + len(X) // 64]  # a sample of rows recognizes most dense matrices quickly
    if np.count_nonzero(some) > 2 * FEW * some.size or np.count_nonzero(X) > FEW * X.size:
        return X
    sparse = sp.csr_array(X)
    mean, variance = mean_variance_axis(sparse, axis=0)
    # Sparse matrices are centred within products, which loses precision if means are large.
    return X if np.any(mean**2 > 99 * variance) else sparse


def column_variances(X: Any, weights: Floats | None = None) -> Floats:
    """Return the weighted variance of each column of a dense or sparse matrix."""
    if sp.issparse(X):
        weights = None if weights is None else weights.astype(X.dtype)
        moments = mean_variance_axis(X.tocsr(), axis=0, weights=weights)
        return np.asarray(moments[1], dtype=np.float64)
    if weights is not None:
        share = weights / weights.sum()
        apart = float64(X) - asarray_like(share, X) @ float64(X)
        return to_numpy(asarray_like(share, X) @ (apart * apart))
    if is_non_numpy(X):
        xp = array_namespace(X)
        return to_numpy(xp.var(xp.astype(X, xp.float64, copy=False), axis=0))
    # The rows are processed in blocks, because np.var copies X.
    mean = np.mean(X, axis=0, dtype=np.float64)
    total = np.zeros_like(mean)
    step = max(1, 2**20 // X.shape[1])
    for start in range(0, X.shape[0], step):
        apart = X[start : start + step] - mean
        total += np.einsum("ij,ij->j", apart, apart)
    return np.asarray(total / X.shape[0])


def default_ridge(variances: Floats) -> float:
    """Return ``4 (sum_j s_j)^2 / d``, the default alpha for column standard deviations ``s_j``."""
    # This is near the best alpha for many data sets (benchmarks/ridge.py).
    alpha = 4.0 * float(np.sqrt(variances).sum()) ** 2 / len(variances)
    return alpha if alpha > 0 else 1.0


def ridge_value(alpha: float | str, X: Any, weights: Floats | None = None) -> float:
    """Return alpha as a number; ``"scale"`` means the value of :func:`default_ridge`."""
    return default_ridge(column_variances(X, weights)) if isinstance(alpha, str) else float(alpha)


class FeatureMap:
    """A map from inputs to features; it also converts feature weights to coefficients ``A``."""

    # Attributes have no defaults, because model files store only attributes of instances.
    error: float  # error of an approximate kernel; 0 for exact maps
    n_coefficients: int  # number of rows of A
    example: Any  # an array with the library and device of the features
    offset: Any = None  # (d,), means that were subtracted from the inputs and change the intercept
    plain = False  # whether the features equal the inputs
    square: Callable[[], Any] | None = None  # returns Phi'Phi faster than the product, if available
    fit: Callable[[Any], Any]  # returns features of the training rows
    transform: Callable[[Any], Any]  # function of a fixed map that returns the features of any rows

    def coefficients(self, W: Any) -> Any:
        """Return the coefficients ``A`` for feature weights ``W``."""
        return W

    def weights(self, coefficients: Any) -> Any:
        """Return the feature weights for coefficients ``A`` of an earlier fit, for warm starts."""
        return coefficients

    def identity(self, n_labels: int) -> Any:
        """Return the starting point of the paper: the feature weights of ``A = I``."""
        return self.weights(asarray_like(np.eye(self.n_coefficients, n_labels), self.example))

    def fixed(self, X: Any) -> "FeatureMap":
        """Return a map, fitted to ``X``, that transforms any rows to features."""
        return self

    def inputs(self, X: Any) -> Any:
        """Return inputs with the array library and dtype of the fitted model."""
        return X

    def stored(self, X: Any) -> dict[str, Any]:
        """Return the fields of :class:`Weights` that a model needs besides its coefficients."""
        return {}


@dataclass(eq=False)
class LinearMap(FeatureMap):
    """Map to ``Phi = X``, or to a factor of ``XX'`` if ``X`` has more columns than rows."""

    reduce: bool = True
    intercept: bool = False
    error = 0.0
    _factor: KernelFactor | None = field(default=None, init=False)

    def fit(self, X: Any) -> Any:
        n, d = X.shape
        # An identity map stores no rows, so it can be sent to other processes cheaply.
        self.example, self.n_coefficients, self.plain = X[:0, :], d, d <= n or not self.reduce
        if self.plain:
            return X
        X = float64(X)
        if self.intercept and not sp.issparse(X):
            mean = namespace(X).mean(X, axis=0)
            # XX' is imprecise if means are much larger than standard deviations.
            if float(mean @ mean) > 1e4 * column_variances(X).sum():
                self.offset, X = mean, X - mean
        self._X = self.example = X
        values = X.data if sp.issparse(X) else X
        if bool(namespace(values).any(values * values > 0)):  # small squares may underflow
            # No variable refers to the matrix, so kernel_factor can free it.
            self._factor = kernel_factor(_dense_gram(X) if sp.issparse(X) else X @ X.T)
        else:  # a constant X is represented by one column of zeros
            zero, one = asarray_like(np.zeros((n, 1)), values), asarray_like(np.eye(1), values)
            self._factor = KernelFactor(zero, np.arange(1), one)
        self.square = self._factor.square
        return self._factor.Phi

    def transform(self, X: Any) -> Any:
        """Return ``X`` unchanged, because its columns are the features."""
        return X

    def coefficients(self, W: Any) -> Any:
        """Return the weights of the columns of ``X``."""
        if self._factor is None:
            return W
        A = solve_triangular(self._factor.L, W, transpose=True)
        return take_rows(self._X, self._factor.pivots).T @ A

    def on_inputs(self, W: Any, intercept: bool) -> tuple[Any, Any]:
        """Return the weights of the columns of ``X``, and the intercepts."""
        coef = self.coefficients(W[:-1, :] if intercept else W)
        b = W[-1, :] if intercept else asarray_like(np.zeros(W.shape[1]), W)
        return coef, b if self.offset is None else b - self.offset @ coef

    def weights(self, coefficients: Any) -> Any:
        """Return feature weights that give training rows the same scores as ``coefficients``."""
        if self._factor is None:
            return coefficients
        F = self._X @ coefficients
        return solve_triangular(self._factor.L, take_rows(F, self._factor.pivots))


def _dense_gram(X: Any) -> Floats:
    """Return ``XX'`` of a sparse ``X`` as a dense matrix, computed by blocks to save memory."""
    n, others = X.shape[0], X.T.tocsr()
    K = np.empty((n, n))
    step = 2**24 // n + 1
    for start in range(0, n, step):
        (X[start : start + step] @ others).toarray(out=K[start : start + step])
    return K


class Weights(NamedTuple):
    """Weights for predictions; the fitted attributes in :data:`FITTED` have the same names."""

    intercept: Any
    coef: Any = None  # (c, d) of a linear model
    dual_coef: Any = None  # (m, c) of other models, on the rows X_fit or on Fourier features
    X_fit: Any = None
    kernel: Kernel | None = None
    fourier: Any = None  # the map of a Fourier approximation
    landmark_factor: Any = None
    approximation_error: float | None = None

    def scores(self, X: Any, mask: LearnableMask) -> Any:
        """Return the scores of rows for the learnable labels."""
        chosen = np.flatnonzero(mask.learnable)
        intercept = take_rows(self.intercept, chosen)
        if self.coef is not None:
            coef = take_rows(self.coef, chosen).T
            if is_non_numpy(X):  # some libraries do not multiply float32 with float64
                xp = namespace(X)
                coef = xp.astype(coef, X.dtype, copy=False)
                intercept = xp.astype(intercept, X.dtype, copy=False)
            return X @ coef + intercept
        if self.fourier is not None:
            K = float64(self.fourier.transform(X))
        elif self.kernel is not None and self.kernel.kernel == "precomputed":
            pivots = np.flatnonzero(mask.keep)[self.X_fit]
            # Taking all columns of a large matrix would copy it.
            whole = X.shape[1] > 1000 and np.array_equal(pivots, np.arange(X.shape[1]))
            K = float64(X if whole else take_columns(X, pivots))
        else:
            K = self.kernel(X, self.X_fit)  # type: ignore[misc]
        return K @ take_columns(self.dual_coef, chosen) + intercept


# Attributes of a fitted estimator that hold its weights, in the order of their fields.
FITTED: tuple[str, ...] = ("intercept_", "coef_", "dual_coef_", "X_fit_", "_kernel")
FITTED += ("_fourier_map", "_landmark_factor", "approximation_error_")
