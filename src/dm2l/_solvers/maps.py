"""Kernel models as feature maps.

With ``K = Phi Phi'``, a kernel model is a linear model on ``Phi``. There are four maps:

* :class:`KernelMap`: an exact factor of the kernel matrix, which needs ``n^2`` memory, or a
  Nystroem factor with ``r`` columns, for any kernel;
* :class:`FourierMap`: ``r/2`` random frequencies for the rbf kernel, with an error of about
  ``1/sqrt(r)``; the model stores no training rows;
* :class:`KernelColumns`: ``Phi = K``, for the published solver, and for exact kernels with nuclear
  norms, where a :class:`~dm2l._solvers.kernel_problem.KernelOperator` has scores as variables;
* :class:`LandmarkMap`: a Nystroem factor with fixed rows, which transforms any rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device
from array_api_compat import numpy as numpy_namespace
from numpy.typing import NDArray
from sklearn.utils import check_random_state, gen_batches

from dm2l._solvers.features import FeatureMap
from dm2l._solvers.kernels import NOT_SYMMETRIC, Kernel, KernelFactor, check_diagonal, kernel_factor
from dm2l._utils.arrays import (
    asarray_like,
    float64,
    solve_triangular,
    take_columns,
    take_rows,
    to_numpy,
)

Floats = NDArray[np.float64]
_PAIRS = 1000  # number of pairs of rows for estimating the error of a FourierMap
_ANGLES = 2**20  # maximum number of angles that a FourierMap keeps in memory


class KernelColumns(FeatureMap):
    """The kernel matrix ``K`` with coefficients ``A``, as in equation (4) of the paper."""

    error = 0.0
    pivots: NDArray[np.intp]  # training rows with coefficients

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def fit(self, X: Any) -> Any:
        K = self._kernel(X, X)
        self.n_coefficients, self.pivots = X.shape[0], np.arange(X.shape[0])
        # The kernel matrix is not stored, because the solver may overwrite it.
        self.example = asarray_like(np.empty((0, 0)), K)
        return K

    def stored(self, X: Any) -> dict[str, Any]:
        """Return the pivot rows, or their row numbers if ``X`` is the kernel matrix."""
        precomputed = self._kernel.kernel == "precomputed"
        kept = self.pivots if precomputed else take_rows(X, self.pivots)
        return {"kernel": self._kernel, "X_fit": kept}


class KernelMap(KernelColumns):
    """An exact factor of the kernel matrix, or a Nystroem factor with ``n_components`` columns."""

    def __init__(self, kernel: Kernel, n_components: Any = None, random_state: Any = None) -> None:
        super().__init__(kernel)
        self._n_components, self._random_state = n_components, random_state

    def _keep(self, factor: KernelFactor) -> None:
        self._factor, self.pivots, self.error = factor, factor.pivots, factor.error
        self.example, self.n_coefficients = factor.L, len(factor.pivots)

    def fit(self, X: Any) -> Any:
        kernel = self._kernel
        if self._n_components is None:
            factor = kernel_factor(kernel(X, X))
        else:
            factor = pivoted_cholesky(kernel, X, self._n_components, self._random_state)
        self._keep(factor)
        self.square = factor.square
        return factor.Phi

    def fixed(self, X: Any) -> FeatureMap:
        rows = take_rows(X, self.pivots)
        return LandmarkMap(self._kernel, rows, self._factor.L, self.error)

    def coefficients(self, W: Any) -> Any:
        """Return ``A`` such that scores are ``k(x, pivots) A``."""
        return solve_triangular(self._factor.L, W, transpose=True)

    def weights(self, coefficients: Any) -> Any:
        return self._factor.L.T @ coefficients


class LandmarkMap(KernelMap):
    """Map of any rows ``X`` to features ``K(X, P) L'^-1``, with fixed rows ``P``."""

    def __init__(self, kernel: Kernel, rows: Any, L: Any, error: float) -> None:
        super().__init__(kernel)
        self._keep(KernelFactor(L, np.arange(rows.shape[0]), L, error=error))
        self.rows = rows

    def transform(self, X: Any) -> Any:
        """Return the features of rows in float64."""
        return solve_triangular(self._factor.L, self._kernel(X, self.rows).T).T

    def fixed(self, X: Any) -> FeatureMap:
        return self

    def inputs(self, X: Any) -> Any:
        return self.rows

    def stored(self, X: Any) -> dict[str, Any]:
        """Return the kernel, the rows ``P`` and their Cholesky factor, which define this map."""
        return {"kernel": self._kernel, "X_fit": self.rows, "landmark_factor": self._factor.L}


class FourierMap(FeatureMap):
    """Random Fourier features of the rbf kernel: cosines and sines (Rahimi and Recht, 2007)."""

    def __init__(self, gamma: float, n_components: int, random_state: Any = None) -> None:
        self.gamma = gamma
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any) -> Any:
        """Draw frequencies for the columns of ``X``, and return the features of ``X``."""
        random = check_random_state(self.random_state)
        frequencies = self._draw(X.shape[1], random)
        self.frequencies = frequencies if sp.issparse(X) else asarray_like(frequencies, X)
        Phi = self.transform(X)
        self.error = self._measure(X, Phi, random)
        return Phi

    def transform(self, X: Any) -> Any:
        """Return the features of rows, in the dtype of ``X`` if it is a floating-point type."""
        frequencies: Any = to_numpy(self.frequencies)
        xp: Any = numpy_namespace
        if sp.issparse(X):
            X = X.tocsr()
        else:
            xp = array_namespace(X)
            frequencies = asarray_like(frequencies, X)
        if X.shape[1] != frequencies.shape[0]:
            what = f"X has {X.shape[1]} columns,"
            raise ValueError(f"{what} but the model was fitted to {frequencies.shape[0]} columns.")
        n, m = X.shape[0], frequencies.shape[1]
        dtype = X.dtype if xp.isdtype(X.dtype, "real floating") else xp.float64
        Phi = xp.empty((n, self.n_components), dtype=dtype, device=device(frequencies))
        for rows in gen_batches(n, max(1, _ANGLES // m)):
            # Angles are in float64 for any X, because large angles are imprecise in float32.
            angles = float64(X[rows, :]) @ frequencies
            Phi[rows, :m] = xp.astype(xp.cos(angles) / m**0.5, dtype)
            angles = angles[:, : self.n_components - m]
            Phi[rows, m:] = xp.astype(xp.sin(angles) / m**0.5, dtype)
        return Phi

    def _draw(self, d: int, random: np.random.RandomState) -> NDArray[np.float64]:
        """Draw frequencies from ``N(0, 2 gamma I)``, orthogonal if this lowers the variance."""
        m = (int(self.n_components) + 1) // 2
        if d > 4 * m:
            # In many dimensions, a few random directions are nearly orthogonal anyway.
            return np.asarray(np.sqrt(2 * self.gamma) * random.standard_normal((d, m)))
        blocks = []
        for start in range(0, m, d):
            # Orthogonal frequencies lower the variance (Yu et al., "Orthogonal Random Features",
            # 2016). The signs of the columns do not matter.
            normal = random.standard_normal((d, min(d, m - start)))
            blocks.append(np.linalg.qr(normal).Q)
        lengths = np.sqrt(2 * self.gamma * random.chisquare(d, size=m))
        return np.asarray(np.concatenate(blocks, axis=1) * lengths)

    def _measure(self, X: Any, Phi: Any, random: np.random.RandomState) -> float:
        """Return the root mean square error of the kernel over random pairs of rows."""
        n = X.shape[0]
        first = random.randint(n, size=_PAIRS)
        second = (first + random.randint(1, max(n, 2), size=_PAIRS)) % n
        xp = array_namespace(Phi)
        X = X.tocsr() if sp.issparse(X) else X
        apart = float64(take_rows(X, first)) - float64(take_rows(X, second))
        if sp.issparse(apart):
            squares = np.asarray(apart.multiply(apart).sum(axis=1)).ravel()
        else:
            squares = to_numpy(xp.sum(apart * apart, axis=1))
        products = xp.sum(take_rows(Phi, first) * take_rows(Phi, second), axis=1, dtype=xp.float64)
        errors = np.exp(-self.gamma * squares) - to_numpy(products)
        return float(np.sqrt(np.mean(errors**2)))

    # These are properties, because model files store attributes of instances.
    @property
    def n_coefficients(self) -> int:  # type: ignore[override]
        return self.n_components

    @property
    def example(self) -> Any:
        return self.frequencies

    def stored(self, X: Any) -> dict[str, Any]:
        """Return the map itself, because it does not store any rows."""
        return {"kernel": Kernel("rbf", self.gamma), "fourier": self}


_DIAGONAL_ROWS = 64  # number of rows whose kernel is evaluated together to obtain their diagonal


def pivoted_cholesky(
    kernel: Callable[[Any, Any], Any],
    X: Any,
    n_components: int,
    random_state: Any = None,
    *,
    tol: float = 1e-12,
    block_size: int = 256,
) -> KernelFactor:
    """Return the Nystroem factor of a kernel matrix by randomly pivoted Cholesky."""
    # With D the diagonal of the residual K - Phi Phi', the next pivot is row i with probability
    # D_i / trace(D) (Chen et al., arXiv:2207.06503). Candidates are drawn in blocks and accepted
    # with probability D_i now / D_i when drawn: the distribution is the same (arXiv:2410.03969).
    random = check_random_state(random_state)
    matrix = _KernelMatrix(kernel, X)
    diagonal = matrix.diagonal()
    xp = array_namespace(diagonal)
    n, most = diagonal.shape[0], min(n_components, diagonal.shape[0])
    left = to_numpy(diagonal).copy()  # names with "left" refer to the residual
    trace, largest = float(left.sum()), float(left.max(initial=0.0))
    floor = max(tol, 10 * matrix.noise) * largest
    Phi = xp.zeros((n, most), dtype=xp.float64, device=device(diagonal))
    pivots = np.zeros(0, dtype=np.intp)
    while True:
        if not np.isfinite(left).all():
            what = "The kernel matrix contains NaN or infinity."
            raise ValueError(f"{what} Use a kernel with finite values.")
        check_diagonal(float(left.min()), largest, matrix.noise, len(pivots))
        left[left <= 0] = 0.0
        weights = np.where(left > floor, left, 0.0)
        rank = len(pivots)
        if rank == most or not weights.any():
            break
        drawn = random.choice(n, size=block_size, p=weights / weights.sum())
        uniforms = random.uniform(size=len(drawn))
        rows, order = np.unique(drawn, return_inverse=True)
        known = Phi[:, :rank]
        known_rows = take_rows(known, rows)
        block = matrix.block(rows, rows)
        entries = to_numpy(block)
        if not np.allclose(entries, entries.T, rtol=1e-6, atol=1e-8 * largest, equal_nan=True):
            raise ValueError(NOT_SYMMETRIC)
        block_left = to_numpy(block - known_rows @ known_rows.T)
        chosen, L = _accept(block_left, left[rows], order, uniforms, most - rank, floor)
        new = rows[chosen]
        columns_left = matrix.block(None, new) - known @ take_rows(known, new).T
        columns = solve_triangular(asarray_like(L, Phi), columns_left.T).T
        Phi[:, rank : rank + len(new)] = columns
        left -= to_numpy(xp.sum(columns * columns, axis=1))
        left[new] = 0.0
        pivots = np.concatenate([pivots, new])
    # In the row of a pivot, later columns contain only rounding errors.
    for column, pivot in enumerate(pivots.tolist()):
        Phi[pivot, column + 1 :] = 0.0
    most_unused = 2 * len(pivots) < Phi.shape[1]
    Phi = Phi[:, : len(pivots)]
    Phi = xp.asarray(Phi, copy=True) if most_unused else Phi  # free the unused columns
    error = float(left.sum()) / trace
    return KernelFactor(Phi, pivots, take_rows(Phi, pivots), error=error)


def _accept(
    H: Floats, diagonal: Floats, order: NDArray[np.intp], uniforms: Floats, limit: int, floor: float
) -> tuple[NDArray[np.intp], Floats]:
    """Return the row numbers of the pivots, and the Cholesky factor of their kernel matrix."""
    # ``order`` may repeat a candidate. ``diagonal`` is the diagonal of H, but more precise.
    left = diagonal.copy()
    L = np.zeros((len(H), min(limit, len(H))))
    chosen: list[int] = []
    for row, uniform in zip(order.tolist(), uniforms.tolist(), strict=True):
        if left[row] <= floor or left[row] <= uniform * diagonal[row]:
            continue
        k = len(chosen)
        root = float(np.sqrt(left[row]))
        L[:, k] = (H[:, row] - L[:, :k] @ L[row, :k]) / root
        L[row, k] = root
        left -= L[:, k] ** 2
        chosen.append(row)
        if len(chosen) == limit:
            break
    return np.asarray(chosen, dtype=np.intp), L[chosen, : len(chosen)]


class _KernelMatrix:
    """Kernel matrix of ``X`` in float64; its entries are computed on demand."""

    def __init__(self, kernel: Callable[[Any, Any], Any], X: Any) -> None:
        self._kernel = kernel
        self._X = X.tocsr() if sp.issparse(X) else X
        self._name = kernel.kernel if isinstance(kernel, Kernel) else None
        if self._name == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(f"A precomputed kernel matrix must be square, got shape {X.shape}.")
        self.noise = 0.0  # entries in a lower precision than float64 have larger rounding errors

    def block(self, rows: NDArray[np.intp] | None, columns: NDArray[np.intp]) -> Any:
        """Return the entries of the given columns in some or all rows."""
        A = self._X if rows is None else take_rows(self._X, rows)
        if self._name == "precomputed":
            K = take_columns(A, columns)
        else:
            K = self._kernel(A, A if rows is columns else take_rows(self._X, columns))
        K = K.toarray() if sp.issparse(K) else K
        xp = array_namespace(K)
        if xp.isdtype(K.dtype, "real floating"):
            eps = float(xp.finfo(K.dtype).eps)
            if eps > np.finfo(np.float64).eps:
                self.noise = max(self.noise, eps)
        K = xp.astype(K, xp.float64, copy=False)
        if K.shape != (A.shape[0], len(columns)):
            raise ValueError(
                f"kernel(A, B) returned shape {tuple(K.shape)}, but must return shape "
                f"{(A.shape[0], len(columns))}: one row per row of A, one column per row of B."
            )
        return K

    def diagonal(self) -> Any:
        """Return the diagonal without computing the rest of the matrix."""
        n = self._X.shape[0]
        if self._name in ("rbf", "laplacian"):
            if sp.issparse(self._X):
                return np.ones(n)
            xp = array_namespace(self._X)
            return xp.ones((n,), dtype=xp.float64, device=device(self._X))
        parts = []
        for batch in gen_batches(n, _DIAGONAL_ROWS):
            rows = np.arange(batch.start, batch.stop)
            K = self.block(rows, rows)
            xp = array_namespace(K)
            # A copy, because a view would keep the whole block in memory.
            parts.append(xp.asarray(xp.linalg.diagonal(K), copy=True))
        return xp.concat(parts)
