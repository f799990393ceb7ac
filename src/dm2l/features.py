"""Features: what the scores are linear in.

Scores are ``F = Phi W + 1 b'``. For the linear model ``Phi`` is ``X``; for a kernel model it is a
factor of the kernel matrix, ``K = Phi Phi'``, so that ``||W||_F^2 = tr(A'KA)`` and the kernel
model *is* the linear model on ``Phi``. One core serves both. When there are more columns than
rows the linear model takes the kernel side as well, with ``K = XX'``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device, is_numpy_array
from numpy.typing import NDArray
from scipy.linalg.lapack import get_lapack_funcs
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils.sparsefuncs import mean_variance_axis

from dm2l.arrays import (
    cholesky,
    is_foreign,
    like,
    namespace,
    solve_triangular,
    take_rows,
    to_numpy,
)
from dm2l.threads import WORTH_SHARING, one_blas_thread, run_all

__all__ = [
    "FeatureMap",
    "Features",
    "Kernel",
    "KernelColumns",
    "KernelMap",
    "LandmarkMap",
    "LinearMap",
    "kernel_factor",
]


class Features:
    """``Phi`` with, if asked for, an implicit last column of ones.

    Parameters
    ----------
    Phi : array or sparse matrix of shape (n, d)
        Features; a sparse matrix is never made dense.
    intercept : bool
        Whether there is a column of ones; its coefficients are not penalised.
    square : callable, default=None
        Gives ``Phi'Phi`` where there is a cheaper way than the product.
    workers : int, default=1
        Threads that share the rows of a dense numpy ``Phi`` in products. Those of BLAS wait for
        each other in between and lose all their gain, and much more, where a core is busy.
    """

    def __init__(
        self,
        Phi: Any,
        intercept: bool,
        square: Callable[[], Any] | None = None,
        workers: int = 1,
    ) -> None:
        self.xp = namespace(Phi)
        # An array that stands for the library, device and dtype of the scores.
        self.example = np.empty(0, dtype=Phi.dtype) if sp.issparse(Phi) else Phi
        self.mean: Any = None
        self.Phi = Phi
        self.intercept = intercept
        self.n, self.d = Phi.shape
        self.size = self.d + int(intercept)
        self._transposed = Phi.T.tocsr() if sp.issparse(Phi) else None
        self._square = square
        self._workers = workers if is_numpy_array(Phi) else 1

    def centre(self, *, in_place: bool = False) -> Features:
        """The same features with zero column means, so that one far from zero costs no digits.

        :meth:`to_original` and :meth:`from_original` carry weights across. Nothing changes
        without an intercept. A sparse ``Phi`` stays sparse: products subtract what its means add.
        ``in_place`` is for a ``Phi`` that nobody else needs.
        """
        if not self.intercept or self.mean is not None:
            return self
        if sp.issparse(self.Phi):
            centred = copy(self)
            centred.mean = np.asarray(self.Phi.mean(axis=0, dtype=np.float64)).ravel()
            return centred
        xp = self.xp
        mean = xp.astype(xp.sum(self.Phi, axis=0, dtype=xp.float64) / self.n, self.Phi.dtype)
        Phi = self.Phi
        if in_place:
            Phi -= mean
        centred = Features(Phi if in_place else Phi - mean, self.intercept, None, self._workers)
        centred.mean = mean
        return centred

    @property
    def _implied(self) -> Any:
        """Means that are still in ``Phi``, because it is sparse, and that products subtract."""
        return self.mean if sp.issparse(self.Phi) else None

    def to_original(self, W: Any) -> Any:
        """Weights for the features as they were given."""
        return self._shift(W, -1.0)

    def from_original(self, W: Any) -> Any:
        """Weights for the features as they are held here."""
        return self._shift(W, 1.0)

    def _shift(self, W: Any, sign: float) -> Any:
        if self.mean is None:
            return W
        mean = self.xp.astype(self.mean, W.dtype, copy=False)
        moved = W[self.d :, :] + sign * (mean @ W[: self.d, :])[None, :]
        return self.xp.concat([W[: self.d, :], moved], axis=0)

    def scores(self, W: Any) -> Any:
        """``Phi W + 1 b'`` with ``b`` the last row of ``W``."""
        W = self.xp.astype(W, self.Phi.dtype, copy=False)
        if not self.intercept:
            return self._product(W)
        intercept = W[self.d :, :]
        if self._implied is not None:
            intercept = intercept - (self._implied @ W[: self.d, :]).astype(W.dtype)
        F = self._product(W[: self.d, :])
        F += intercept
        return F

    def _product(self, W: Any) -> Any:
        """``Phi W``."""
        if not self._shared(W.shape[1]):
            return self.Phi @ W
        F = np.empty((self.n, W.shape[1]), dtype=self.Phi.dtype)
        with one_blas_thread():
            run_all(
                [partial(np.matmul, self.Phi[rows], W, out=F[rows]) for rows in self._shares()],
                self._workers,
            )
        return F

    def _adjoint_product(self, R: Any) -> Any:
        """``Phi'R``."""
        if self._transposed is not None:
            return self._transposed @ R
        # (R'Phi)' is Phi'R without the strided pass over a row-major Phi: about half the time
        # (benchmarks/blas.py).
        if not self._shared(R.shape[1]):
            return (R.T @ self.Phi).T
        with one_blas_thread():
            parts = run_all(
                [partial(np.matmul, R[rows].T, self.Phi[rows]) for rows in self._shares()],
                self._workers,
            )
        return sum(parts[1:], parts[0]).T

    def _shared(self, columns: int) -> bool:
        """Whether threads pay for a product with so many columns."""
        return self._workers > 1 and self.n * self.d * columns > WORTH_SHARING

    def _shares(self) -> list[slice]:
        """Rows in about equal parts, two for each worker."""
        borders = np.linspace(0, self.n, 2 * self._workers + 1).astype(int)
        return [slice(*pair) for pair in itertools.pairwise(borders)]

    def adjoint(self, G: Any) -> Any:
        """``Phi' G``, with the column sums of ``G`` as the last row."""
        xp = self.xp
        # In the dtype of Phi, or every product would begin with a copy of it in another.
        R = xp.astype(G, self.Phi.dtype, copy=False)
        product = xp.astype(self._adjoint_product(R), xp.float64, copy=False)
        if not self.intercept:
            return product
        sums = xp.sum(G, axis=0, keepdims=True, dtype=xp.float64)
        if self._implied is not None:
            product = product - self._implied[:, None] * sums
        return xp.concat([product, sums], axis=0)

    def gram(self, rows: NDArray[np.intp] | None = None) -> Any:
        """``Phi'Phi`` with the border of the ones column, over all or some rows."""
        xp = self.xp
        Phi = self.Phi if rows is None else self.Phi[rows, :]
        if self._implied is not None:
            # What the means add is subtracted afterwards: float32 would not leave enough digits.
            Phi = Phi.astype(np.float64, copy=False)
        if rows is None and self._square is not None:
            square = self._square()
        else:
            square = Phi.T @ Phi
        square = square.toarray() if sp.issparse(square) else square
        square = xp.astype(square, xp.float64, copy=False)
        if not self.intercept:
            return square
        if sp.issparse(Phi):
            sums = np.asarray(Phi.sum(axis=0, dtype=np.float64)).reshape(-1, 1)
        else:
            sums = xp.sum(Phi, axis=0, dtype=xp.float64)[:, None]
        count = xp.full((1, 1), float(Phi.shape[0]), dtype=xp.float64, device=device(square))
        if self._implied is not None:
            cross = sums * self._implied
            square = square - cross - cross.T + count * np.outer(self._implied, self._implied)
            sums = sums - count * self._implied[:, None]
        whole = xp.empty((self.size, self.size), dtype=xp.float64, device=device(square))
        whole[: self.d, : self.d] = square
        whole[: self.d, self.d :] = sums
        whole[self.d :, : self.d] = sums.T
        whole[self.d :, self.d :] = count
        return whole

    def penalty(self, alpha: float) -> Any:
        """Diagonal of the ridge term: ``alpha``, and 0 for the ones column."""
        diagonal = np.full(self.size, float(alpha))
        if self.intercept:
            diagonal[self.d] = 0.0
        return like(diagonal, self.example)


def column_variances(X: Any) -> NDArray[np.float64]:
    """Variance of each column of a dense or sparse matrix."""
    if sp.issparse(X):
        return np.asarray(mean_variance_axis(X.tocsr(), axis=0)[1], dtype=np.float64)
    if is_foreign(X):
        xp = array_namespace(X)
        return to_numpy(xp.var(xp.astype(X, xp.float64, copy=False), axis=0))
    # By blocks of rows: numpy's own makes a copy of X.
    mean = np.mean(X, axis=0, dtype=np.float64)
    total = np.zeros_like(mean)
    step = max(1, 2**20 // X.shape[1])
    for start in range(0, X.shape[0], step):
        apart = X[start : start + step] - mean
        total += np.einsum("ij,ij->j", apart, apart)
    return np.asarray(total / X.shape[0])


def default_ridge(X: Any) -> float:
    """Ridge ``4 (s_1 + ... + s_d)^2 / d`` for a linear model on columns with deviations ``s_j``.

    With masks that keep 30 % of the labels the best ridge of eleven benchmark sets lay between
    1 and 30 times the summed variance, and of one with a dominating column at 0.03 times
    (``benchmarks/ridge.py``). The squared mean deviation used here is near that sum when columns
    have similar scales, and is not ruled by a single column when they do not.
    """
    return ridge_of_variances(column_variances(X))


def ridge_of_variances(variances: NDArray[np.float64]) -> float:
    """:func:`default_ridge` of columns with these variances."""
    alpha = 4.0 * float(np.sqrt(variances).sum()) ** 2 / len(variances)
    return alpha if alpha > 0 else 1.0


def check_ridge(alpha: Any, name: str = "alpha") -> None:
    """Refuse a ridge that is neither "scale" nor a finite number >= 0."""
    number = isinstance(alpha, Real) and 0 <= float(alpha) < np.inf
    if not number and not (isinstance(alpha, str) and alpha == "scale"):
        raise ValueError(f"{name} must be 'scale' or a finite number >= 0, got {alpha!r}.")


def ridge_value(alpha: float | str, X: Any) -> float:
    """The ridge itself, or what "scale" means for these inputs."""
    return default_ridge(X) if isinstance(alpha, str) else float(alpha)


class FeatureMap(Protocol):
    """From inputs to features and from feature weights back to what predicts."""

    def fit(self, X: Any) -> Any:
        """Features of the training rows."""

    def coefficients(self, W: Any) -> Any:
        """Weights on the inputs (linear) or on training rows (kernel)."""

    def weights(self, coefficients: Any) -> Any:
        """Feature weights whose ``coefficients`` these are, for warm starts."""

    def identity(self, n_labels: int) -> Any:
        """The paper's start: feature weights of the identity matrix."""

    @property
    def n_coefficients(self) -> int:
        """Number of inputs (linear) or training rows (kernel) that carry weights."""


class LinearMap:
    """``Phi = X``, or a factor of ``XX'`` when ``X`` has more columns than rows.

    Parameters
    ----------
    reduce : bool, default=True
        False keeps ``Phi = X`` whatever its shape.
    intercept : bool, default=False
        Whether the model has an intercept. Dense rows that lie far from zero are then centred
        before ``XX'`` is formed, and ``offset`` is what they were centred by.
    """

    def __init__(self, reduce: bool = True, intercept: bool = False) -> None:
        self._reduce = reduce
        self._intercept = intercept
        self.offset: Any = None

    def fit(self, X: Any) -> Any:
        """Return the features of ``X``."""
        self._X = X
        self._factor: KernelFactor | None = None
        n, d = X.shape
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
            zero, one = like(np.zeros((n, 1)), values), like(np.eye(1), values)
            self._factor = KernelFactor(zero, np.arange(1), one)
        return self._factor.Phi

    def transform(self, X: Any) -> Any:
        """Rows are their own features."""
        return X

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
        b = W[-1, :] if intercept else like(np.zeros(W.shape[1]), W)
        return coef, b if self.offset is None else b - self.offset @ coef

    def weights(self, coefficients: Any) -> Any:
        """``W`` itself, or the weights that give the same training scores."""
        if self._factor is None:
            return coefficients
        return self._factor.primal(self._X @ coefficients)

    def identity(self, n_labels: int) -> Any:
        """Weights of the identity matrix on the columns of ``X``."""
        return self.weights(like(np.eye(self.n_coefficients, n_labels), self._X))

    @property
    def n_coefficients(self) -> int:
        """Number of columns of ``X``."""
        return int(self._X.shape[1])


def _dense_gram(X: Any) -> NDArray[np.float64]:
    """``XX'`` of a sparse ``X``, which is nearly full: its sparse form would take twice as much."""
    n, others = X.shape[0], X.T.tocsr()
    K = np.empty((n, n))
    step = 2**24 // n + 1
    for start in range(0, n, step):
        (X[start : start + step] @ others).toarray(out=K[start : start + step])
    return K


class KernelMap:
    """``Phi`` with ``K = Phi Phi'``; predicts through the pivot rows.

    Parameters
    ----------
    kernel : callable
        ``kernel(A, B)`` gives the kernel matrix between rows; a precomputed one is ``A`` itself.
    """

    def __init__(self, kernel: Callable[[Any, Any], Any]) -> None:
        self._kernel = kernel

    def fit(self, X: Any) -> Any:
        """Return an exact factor of the kernel matrix of ``X``."""
        self._factor = kernel_factor(self._kernel(X, X))
        self.pivots = self._factor.pivots
        return self._factor.Phi

    @property
    def square(self) -> Callable[[], Any]:
        """How to get ``Phi'Phi``."""
        return self._factor.square

    def landmarks(self, X: Any) -> LandmarkMap:
        """The map that takes any rows to these features; ``X`` is what was fitted."""
        rows = take_rows(X, self.pivots)
        return LandmarkMap(self._kernel, rows, self._factor.L, float(getattr(self, "error", 0.0)))

    def coefficients(self, W: Any) -> Any:
        """``A`` on the pivot rows, with ``k(x, pivots) A`` the scores."""
        return self._factor.dual(W)

    def weights(self, coefficients: Any) -> Any:
        """Feature weights of given ``A``."""
        return self._factor.L.T @ coefficients

    def identity(self, n_labels: int) -> Any:
        """Weights of ``A = I``."""
        return self.weights(like(np.eye(self.n_coefficients, n_labels), self._factor.L))

    @property
    def n_coefficients(self) -> int:
        """Number of pivot rows."""
        return len(self.pivots)


class LandmarkMap:
    """Features of any rows by way of some that were chosen: ``Phi = K(X, P) L'^-1``.

    Parameters
    ----------
    kernel : callable
        ``kernel(A, B)`` gives the kernel matrix between rows.
    rows : array or sparse matrix of shape (r, d)
        The chosen rows ``P``.
    L : array of shape (r, r)
        Lower triangular factor of ``K(P, P)``.
    error : float
        How much of the kernel matrix of the rows that they were chosen from is left out.
    """

    def __init__(self, kernel: Callable[[Any, Any], Any], rows: Any, L: Any, error: float) -> None:
        self._kernel = kernel
        self.rows = rows
        self.error = error
        self.pivots = np.arange(rows.shape[0])
        self.factor = KernelFactor(L, self.pivots, L)

    def fit(self, X: Any) -> Any:
        """Features of rows: nothing is left to be fitted."""
        return self.transform(X)

    def transform(self, X: Any) -> Any:
        """Features of rows, in float64."""
        return solve_triangular(self.factor.L, self._kernel(X, self.rows).T).T

    def coefficients(self, W: Any) -> Any:
        """``A`` on the chosen rows, with ``k(x, P) A`` the scores."""
        return self.factor.dual(W)

    def weights(self, coefficients: Any) -> Any:
        """Feature weights of given ``A``."""
        return self.factor.L.T @ coefficients

    def identity(self, n_labels: int) -> Any:
        """Weights of ``A = I``."""
        return self.weights(like(np.eye(self.n_coefficients, n_labels), self.factor.L))

    @property
    def n_coefficients(self) -> int:
        """Number of chosen rows."""
        return len(self.pivots)


class KernelColumns:
    """``Phi = K`` with ``A`` as the weights: the variables in which (4) was published."""

    def __init__(self, kernel: Callable[[Any, Any], Any]) -> None:
        self._kernel = kernel

    def fit(self, X: Any) -> Any:
        """Return the kernel matrix."""
        self.pivots = np.arange(X.shape[0])
        self._K = self._kernel(X, X)
        return self._K

    def coefficients(self, W: Any) -> Any:
        """``A`` itself."""
        return W

    weights = coefficients

    def identity(self, n_labels: int) -> Any:
        """``A = I``."""
        return like(np.eye(self.n_coefficients, n_labels), self._K)

    @property
    def n_coefficients(self) -> int:
        """Number of rows."""
        return len(self.pivots)


class KernelFactor:
    """``K ~ Phi Phi'`` with ``Phi[pivots] = L`` lower triangular.

    ``counts`` says, for an ``L`` without rows that are not pivots, how many rows of ``Phi`` equal
    each of its rows.
    """

    def __init__(
        self, Phi: Any, pivots: NDArray[np.intp], L: Any, counts: NDArray[np.intp] | None = None
    ) -> None:
        self.Phi = Phi
        self.pivots = pivots
        self.L = L
        self._counts = counts

    def dual(self, W: Any) -> Any:
        """``A`` with ``L'A = W``."""
        return solve_triangular(self.L, W, transpose=True)

    def primal(self, F: Any) -> Any:
        """``W`` with ``L W = F`` on the pivot rows."""
        return solve_triangular(self.L, take_rows(F, self.pivots))

    def square(self) -> Any:
        """``Phi'Phi``, a third of the work where ``Phi`` is ``L`` with repeated rows."""
        if self._counts is None:
            return self.Phi.T @ self.Phi
        xp, n = namespace(self.L), self.L.shape[0]
        weights = like(np.sqrt(self._counts), self.L)
        total = xp.zeros_like(self.L)
        step = max(256, -(-n // 8))
        for start in range(0, n, step):
            end = min(n, start + step)
            rows = self.L[start:end, :end] * weights[start:end, None]
            total[:end, :end] += rows.T @ rows
        return total


def kernel_factor(K: Any, tol: float = 1e-12) -> KernelFactor:
    """Exact factor of a positive semi-definite kernel matrix.

    A plain Cholesky factor where ``K`` is safely positive definite, else Cholesky with diagonal
    pivoting, stopped when the largest remaining diagonal entry falls below ``tol`` times the
    first one. Duplicate rows, or a linear kernel on few columns, thus cost rank, not accuracy.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric and positive semi-definite up to rounding.
    tol : float, default=1e-12
        Relative size of what may be left out.

    Returns
    -------
    KernelFactor
        ``Phi`` of shape (n, r) with ``Phi Phi' = K`` up to ``tol``.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.features import kernel_factor
    >>> X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    >>> factor = kernel_factor(X @ X.T)
    >>> factor.Phi.shape
    (3, 2)
    >>> np.allclose(factor.Phi @ factor.Phi.T, X @ X.T)
    True
    """
    xp = namespace(K)
    # A float32 kernel matrix is positive semi-definite up to its own rounding only.
    noise = float(xp.finfo(K.dtype).eps) if xp.isdtype(K.dtype, "real floating") else 0.0
    tol = max(tol, 10 * noise)
    K = float64(K)
    diagonal = xp.linalg.diagonal(K)
    largest = float(xp.max(diagonal)) if K.shape[0] else 0.0
    if not largest > 0:
        raise ValueError(
            f"The kernel matrix has no positive diagonal entry (largest: {largest}); it must be "
            "positive semi-definite and not zero."
        )
    if float(xp.min(diagonal)) < -max(1e-6, 1e4 * noise) * largest:
        raise _indefinite(0, -float(xp.min(diagonal)))
    first = _first_alike(K, diagonal, tol * largest, max(1e-6, 1e4 * noise) * largest)
    kept, place, counts = np.unique(first, return_inverse=True, return_counts=True)
    place = place.ravel()
    repeated = len(kept) < len(first)
    if repeated:
        index = like(kept, K)
        K = xp.take(xp.take(K, index, axis=0), index, axis=1)
    L = cholesky(K)
    if L is not None and float(xp.min(xp.linalg.diagonal(L))) ** 2 > tol * largest:
        return KernelFactor(take_rows(L, place) if repeated else L, kept, L, counts)
    del L
    lower, order = _pivoted(to_numpy(K), tol, largest, noise)
    example = like(np.empty(0), K)
    del K, diagonal
    rank = lower.shape[1]
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    Phi, L = (like(part, example) for part in (lower[back[place]], lower[:rank]))
    return KernelFactor(Phi, kept[order[:rank]], L)


def _first_alike(K: Any, diagonal: Any, tol: float, much: float) -> NDArray[np.intp]:
    """For every row the first one that equals it within ``tol``; checks the symmetry too.

    Only rows whose ``K_ii + K_jj - 2 K_ij``, a squared distance in feature space, is within
    ``tol`` are compared. A negative one, by ``much``, has no such meaning.
    """
    xp, n = namespace(K), K.shape[0]
    index = xp.arange(n, device=device(K))
    nobody = xp.full_like(index, n)
    blocks = [(start, min(n, start + 2**24 // n + 1)) for start in range(0, n, 2**24 // n + 1)]
    near = []
    for start, end in blocks:
        rows, columns = K[start:end, :], K[:, start:end].T
        off = xp.abs(rows - columns) - 1e-6 * xp.abs(columns)
        if not float(xp.max(off)) <= 1e-2 * much:
            raise ValueError("The kernel matrix is not symmetric.")
        apart = diagonal[start:end, None] + diagonal[None, :] - 2 * rows
        if float(xp.min(apart)) < -2 * much:
            raise _indefinite(0, -0.5 * float(xp.min(apart)))
        near.append(xp.min(xp.where(apart <= tol, index, nobody), axis=1))
    itself = np.arange(n)
    first = np.minimum(to_numpy(xp.concat(near)), itself)
    first = np.where(first[first] == first, first, itself)  # no chains
    if np.array_equal(first, itself):
        return first
    chosen = like(first, K)
    worst = [
        xp.max(xp.abs(K[start:end, :] - xp.take(K, chosen[start:end], axis=0)), axis=1)
        for start, end in blocks
    ]
    return np.where(to_numpy(xp.concat(worst)) <= tol, first, itself)


def _pivoted(
    K: NDArray[np.float64], tol: float, largest: float, noise: float
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Cholesky factor with diagonal pivoting, rows in the order of the pivots, and that order."""
    (pstrf,) = get_lapack_funcs(("pstrf",), (K,))
    packed, order, rank, _ = pstrf(K, lower=1, tol=tol * largest)
    order = order - 1
    for column in range(1, len(packed)):  # what LAPACK leaves above the diagonal
        packed[:column, column] = 0.0
    lower = packed[:, :rank]
    residual, step = 0.0, 2**22 // len(K) + 1
    for start in range(0, len(K), step):  # a few rows at a time: whole, it is three more matrices
        rows = order[start : start + step]
        off = K[rows][:, order] - lower[start : start + step] @ lower.T
        residual = max(residual, float(np.max(np.abs(off))))
    if residual > max(1e-6, 1e4 * noise) * largest:
        raise _indefinite(rank, residual)
    return lower, order


def _indefinite(rank: int, residual: float) -> ValueError:
    return ValueError(
        f"The kernel matrix is not positive semi-definite: after {rank} pivots an entry is still "
        f"off by {residual:.2g}. Use a valid kernel, or add to its diagonal."
    )


def float64(X: Any) -> Any:
    """``X``, dense or sparse, of any library, in float64."""
    if is_foreign(X):
        xp = array_namespace(X)
        return xp.astype(X, xp.float64, copy=False)
    return X.astype(np.float64, copy=False)


@dataclass(frozen=True)
class Kernel:
    """Kernel between rows as scikit-learn defines it, in float64.

    Parameters
    ----------
    kernel : str or callable
        A name that :func:`sklearn.metrics.pairwise.pairwise_kernels` knows, "precomputed" (the
        first argument is the kernel matrix), or a function of two arrays of rows.
    gamma, degree, coef0 : float
        Parameters of the kernels that have them.
    """

    kernel: str | Callable[..., Any]
    gamma: float
    degree: float
    coef0: float

    def __call__(self, A: Any, B: Any) -> Any:
        """Kernel matrix between the rows of ``A`` and ``B``."""
        if self.kernel == "precomputed":
            return A
        A, B = float64(A), float64(B)
        if not isinstance(self.kernel, str):
            K = self.kernel(A, B)
            K = K.toarray() if sp.issparse(K) else K
            return float64(K if is_foreign(K) else np.asarray(K))
        if is_foreign(A):
            return self._formula(A, B)
        parameters = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        return pairwise_kernels(A, B, metric=self.kernel, filter_params=True, **parameters)

    def _formula(self, A: Any, B: Any) -> Any:
        """The same for arrays of other libraries."""
        xp = array_namespace(A)
        if self.kernel == "cosine":
            A, B = (M / xp.clip(xp.linalg.vector_norm(M, axis=1), 1e-300)[:, None] for M in (A, B))
        if self.kernel == "rbf":
            squares = [xp.sum(M * M, axis=1) for M in (A, B)]
            K = A @ B.T
            K *= -2.0
            K += squares[0][:, None]
            K += squares[1][None, :]
            return xp.exp(-self.gamma * xp.clip(K, 0.0))
        if self.kernel in ("linear", "cosine"):
            return A @ B.T
        inner = self.gamma * (A @ B.T) + self.coef0
        if self.kernel in ("poly", "polynomial"):
            return inner**self.degree
        if self.kernel == "sigmoid":
            return xp.tanh(inner)
        raise ValueError(
            f"kernel={self.kernel!r} takes numpy arrays only; pass X as numpy, the kernel matrix "
            "with kernel='precomputed', or a function as kernel."
        )
