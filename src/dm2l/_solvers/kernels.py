"""Kernels between rows, and exact factors of their matrices."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device
from numpy.typing import NDArray
from scipy.linalg.lapack import get_lapack_funcs

from dm2l._utils.arrays import asarray_like, cholesky, float64, is_non_numpy, take_rows, to_numpy

NOT_SYMMETRIC = "The kernel matrix is not symmetric. A kernel must satisfy k(a, b) = k(b, a)."


@dataclass(frozen=True)
class Kernel:
    """A kernel between rows, defined as in scikit-learn and computed in float64."""

    kernel: str | Callable[..., Any]
    gamma: float
    degree: float = 3
    coef0: float = 1

    def __call__(self, A: Any, B: Any) -> Any:
        """Return the kernel matrix between the rows of ``A`` and ``B``."""
        if self.kernel == "precomputed":
            return A
        A, B = float64(A), float64(B)
        if self.kernel == "rbf" and not sp.issparse(A) and not sp.issparse(B):
            A, B = self._shifted(A, B)
        if not isinstance(self.kernel, str):
            K = self.kernel(A, B)
            K = K.toarray() if sp.issparse(K) else K
            return float64(K if is_non_numpy(K) else np.asarray(K))
        if self.kernel == "tanimoto":
            return tanimoto_kernel(A, B, self.gamma)
        if is_non_numpy(A):
            return self._formula(A, B)
        # Imported here because it takes half of the import time of dm2l.
        from sklearn.metrics.pairwise import pairwise_kernels

        parameters = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        return pairwise_kernels(A, B, metric=self.kernel, filter_params=True, **parameters)

    def _shifted(self, A: Any, B: Any) -> tuple[Any, Any]:
        """Subtract a row of ``B`` from all rows if distances would otherwise be too inexact."""
        largest = float(array_namespace(B).max(B * B)) * B.shape[1] if min(B.shape) else 0.0
        if self.gamma * largest * np.finfo(np.float64).eps < 1e-6:
            return A, B
        return A - B[:1], B - B[:1]

    def _formula(self, A: Any, B: Any) -> Any:
        """Return the kernel matrix for arrays of libraries other than numpy."""
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
        what = f"kernel={self.kernel!r} supports only numpy arrays."
        remedy = "Pass X as a numpy array, or use kernel='precomputed' or a callable kernel."
        raise ValueError(f"{what} {remedy}")


def tanimoto_kernel(A: Any, B: Any, gamma: float) -> Any:
    """Return ``exp(-gamma (1 - s))`` for Tanimoto similarity ``s = x'y / (x'x + y'y - x'y)``."""
    inner = A @ B.T
    if sp.issparse(A) or sp.issparse(B):
        inner = inner.toarray() if sp.issparse(inner) else inner
        squares = [to_numpy((sp.csr_array(M).power(2)).sum(axis=1)) for M in (A, B)]
    else:
        squares = [array_namespace(M).sum(M * M, axis=1) for M in (A, B)]
    # In-place operations save memory.
    union = squares[0][:, None] + squares[1][None, :]
    union -= inner
    nothing = union <= 0  # two rows of zeros have similarity 1
    inner[nothing] = 1.0
    union[nothing] = 1.0
    inner /= union
    inner -= 1.0
    inner *= gamma
    return array_namespace(inner).exp(inner)


@dataclass(eq=False)
class KernelFactor:
    """A factor ``Phi`` with ``K ~ Phi Phi'`` and a lower triangular ``L = Phi[pivots]``."""

    Phi: Any
    pivots: NDArray[np.intp]
    L: Any
    # Number of rows of Phi that equal each row of L; None if other rows exist.
    counts: NDArray[np.intp] | None = None
    error: float = 0.0  # trace(K - Phi Phi') / trace(K)

    def square(self) -> Any:
        """Return ``Phi'Phi``, computed from ``L`` if all rows of ``Phi`` are rows of ``L``."""
        if self.counts is None:
            return self.Phi.T @ self.Phi
        xp, n = array_namespace(self.L), self.L.shape[0]
        weights = asarray_like(np.sqrt(self.counts), self.L)
        total = xp.zeros_like(self.L)
        step = max(256, -(-n // 8))
        for start in range(0, n, step):
            end = min(n, start + step)
            rows = self.L[start:end, :end] * weights[start:end, None]
            total[:end, :end] += rows.T @ rows
        return total


def kernel_factor(K: Any, tol: float = 1e-12) -> KernelFactor:
    """Return the exact factor of a positive semidefinite kernel matrix; rows may be duplicates."""
    # If K may not be positive definite, pivoted Cholesky replaces plain Cholesky. It ends at a
    # pivot below tol times the first pivot.
    xp = array_namespace(K)
    # A float32 kernel matrix is positive semidefinite only up to rounding.
    noise = float(xp.finfo(K.dtype).eps) if xp.isdtype(K.dtype, "real floating") else 0.0
    tol = max(tol, 10 * noise)
    K = float64(K)
    diagonal = xp.linalg.diagonal(K)
    largest = float(xp.max(diagonal)) if K.shape[0] else 0.0
    check_diagonal(float(xp.min(diagonal)) if K.shape[0] else 0.0, largest, noise)
    first = _first_alike(K, diagonal, tol * largest, max(1e-6, 1e4 * noise) * largest)
    kept, place, counts = np.unique(first, return_inverse=True, return_counts=True)
    place = place.ravel()
    repeated = len(kept) < len(first)
    if repeated:
        index = asarray_like(kept, K)
        K = xp.take(xp.take(K, index, axis=0), index, axis=1)
    L = cholesky(K)
    if L is not None and float(xp.min(xp.linalg.diagonal(L))) ** 2 > tol * largest:
        return KernelFactor(take_rows(L, place) if repeated else L, kept, L, counts)
    del L
    lower, order = _pivoted(to_numpy(K), tol, largest, noise)
    example = asarray_like(np.empty(0), K)
    del K, diagonal
    rank = lower.shape[1]
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    Phi, L = (asarray_like(part, example) for part in (lower[back[place]], lower[:rank]))
    return KernelFactor(Phi, kept[order[:rank]], L)


def check_diagonal(lowest: float, largest: float, noise: float, n_pivots: int = 0) -> None:
    """Raise an error if a diagonal shows that the kernel matrix is not positive semidefinite."""
    if not largest > 0:
        raise ValueError(
            "The kernel matrix is not positive semidefinite: it has no positive diagonal entry "
            f"(largest: {largest}). Use a positive semidefinite kernel."
        )
    if lowest < -max(1e-6, 1e4 * noise) * largest:
        raise indefinite(n_pivots, -lowest)


def _first_alike(K: Any, diagonal: Any, tol: float, much: float) -> NDArray[np.intp]:
    """Return for each row the first row equal to it up to ``tol``; reject an invalid ``K``."""
    # Rows are equal if K_ii + K_jj - 2 K_ij <= tol. Far negative values mean an invalid kernel.
    xp, n = array_namespace(K), K.shape[0]
    index = xp.arange(n, device=device(K))
    nobody = xp.full_like(index, n)
    blocks = [(start, min(n, start + 2**24 // n + 1)) for start in range(0, n, 2**24 // n + 1)]
    near = []
    for start, end in blocks:
        rows, columns = K[start:end, :], K[:, start:end].T
        off = xp.abs(rows - columns) - 1e-6 * xp.abs(columns)
        if not float(xp.max(off)) <= 1e-2 * much:
            raise ValueError(NOT_SYMMETRIC)
        apart = diagonal[start:end, None] + diagonal[None, :] - 2 * rows
        if float(xp.min(apart)) < -2 * much:
            raise indefinite(0, -0.5 * float(xp.min(apart)))
        near.append(xp.min(xp.where(apart <= tol, index, nobody), axis=1))
    itself = np.arange(n)
    first = np.minimum(to_numpy(xp.concat(near)), itself)
    first = np.where(first[first] == first, first, itself)  # avoid chains of duplicates
    if np.array_equal(first, itself):
        return first
    chosen = asarray_like(first, K)
    off = (K[start:end, :] - xp.take(K, chosen[start:end], axis=0) for start, end in blocks)
    worst = [xp.max(xp.abs(part), axis=1) for part in off]
    return np.where(to_numpy(xp.concat(worst)) <= tol, first, itself)


def _pivoted(
    K: NDArray[np.float64], tol: float, largest: float, noise: float
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the Cholesky factor with diagonal pivoting, and the order of its rows."""
    (pstrf,) = get_lapack_funcs(("pstrf",), (K,))
    packed, order, rank, _ = pstrf(K, lower=1, tol=tol * largest)
    order = order - 1
    for column in range(1, len(packed)):  # LAPACK does not clear the upper triangle
        packed[:column, column] = 0.0
    lower = packed[:, :rank]
    residual, step = 0.0, 2**22 // len(K) + 1
    for start in range(0, len(K), step):  # copied in parts to save memory
        rows = order[start : start + step]
        off = K[rows][:, order] - lower[start : start + step] @ lower.T
        residual = max(residual, float(np.max(np.abs(off))))
    if residual > max(1e-6, 1e4 * noise) * largest:
        raise indefinite(rank, residual)
    return lower, order


def indefinite(n_pivots: int, residual: float) -> ValueError:
    """Return the exception for a kernel matrix that is not positive semidefinite."""
    return ValueError(
        f"The kernel matrix is not positive semidefinite: its Cholesky factorization has an error "
        f"of {residual:.2g} after {n_pivots} pivots. Use another kernel, or raise its diagonal."
    )
