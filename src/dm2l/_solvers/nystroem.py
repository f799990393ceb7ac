r"""Nystrom features: all rows explained by some, chosen by randomly pivoted Cholesky.

.. math:: \Phi \Phi' = K_{:p}\, K_{pp}^{-1} K_{p:}

with ``p`` the rows that were chosen: any kernel, an error that follows the spectrum of ``K``, and
``n r`` numbers in memory instead of ``n^2``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device
from numpy.typing import NDArray
from sklearn.utils import check_random_state, gen_batches

from dm2l._solvers.kernels import Kernel, KernelFactor, check_largest
from dm2l._utils.arrays import asarray_like, solve_triangular, take_columns, take_rows, to_numpy

_DIAGONAL_ROWS = 64  # rows whose kernel is evaluated together to find their diagonal


def pivoted_cholesky(
    kernel: Callable[[Any, Any], Any],
    X: Any,
    n_components: int,
    random_state: Any = None,
    *,
    tol: float = 1e-12,
    block_size: int = 256,
) -> KernelFactor:
    r"""Nystrom factor of a kernel matrix by randomly pivoted Cholesky.

    With ``D`` the diagonal of what is left of the kernel matrix, the next pivot is row ``i`` with
    probability ``D_i / trace(D)``, and one step of Cholesky takes its row and column away,

    .. math:: K \leftarrow K - k_i k_i' / K_{ii}, \qquad D \leftarrow D - k_i^2 / K_{ii}.

    Rows that the pivots already explain are thus rarely drawn, and the expected error is near
    that of the best rank-``r`` matrix [1]_. The steps are taken in blocks: candidates are drawn
    together and each is kept with probability (what is left of its diagonal now) / (what was left
    when it was drawn), so that the pivots have exactly the law of single steps while the work is
    done by matrix products [2]_. It takes about ``n r^2`` multiplications and ``n r`` evaluations
    of the kernel; memory holds ``Phi`` and a few blocks of ``block_size`` columns.

    References
    ----------
    .. [1] Y. Chen, E. N. Epperly, J. A. Tropp and R. J. Webber, "Randomly pivoted Cholesky:
       Practical approximation of a kernel matrix with few entry evaluations", Communications on
       Pure and Applied Mathematics, 2025 (arXiv:2207.06503).
    .. [2] E. N. Epperly, J. A. Tropp and R. J. Webber, "Embrace rejection: Kernel matrix
       approximation by accelerated randomly pivoted Cholesky", 2024 (arXiv:2410.03969).
    """
    random = check_random_state(random_state)
    matrix = _KernelMatrix(kernel, X)
    diagonal = matrix.diagonal()
    xp = array_namespace(diagonal)
    n, most = diagonal.shape[0], min(n_components, diagonal.shape[0])
    # Names end in `left` where they belong to K - Phi Phi'.
    left = to_numpy(diagonal).copy()
    trace, largest = float(left.sum()), float(left.max(initial=0.0))
    floor = max(tol, 10 * matrix.noise) * largest
    Phi = xp.zeros((n, most), dtype=xp.float64, device=device(diagonal))
    pivots = np.zeros(0, dtype=np.intp)
    while True:
        _check_diagonal(left, largest, matrix.noise, len(pivots))
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
            raise ValueError("The kernel matrix is not symmetric.")
        block_left = to_numpy(block - known_rows @ known_rows.T)
        chosen, L = _accept(block_left, left[rows], order, uniforms, limit=most - rank, floor=floor)
        new = rows[chosen]
        columns_left = matrix.block(None, new) - known @ take_rows(known, new).T
        columns = solve_triangular(asarray_like(L, Phi), columns_left.T).T
        Phi[:, rank : rank + len(new)] = columns
        left -= to_numpy(xp.sum(columns * columns, axis=1))
        left[new] = 0.0
        pivots = np.concatenate([pivots, new])
    # Beyond its own column nothing is left of the row of a pivot but rounding.
    for column, pivot in enumerate(pivots.tolist()):
        Phi[pivot, column + 1 :] = 0.0
    most_held = 2 * len(pivots) < Phi.shape[1]  # by columns that nobody needs
    Phi = Phi[:, : len(pivots)]
    Phi = xp.asarray(Phi, copy=True) if most_held else Phi
    error = float(left.sum()) / trace
    return KernelFactor(Phi, pivots, take_rows(Phi, pivots), error=error)


def _accept(
    H: NDArray[np.float64],
    diagonal: NDArray[np.float64],
    order: NDArray[np.intp],
    uniforms: NDArray[np.float64],
    *,
    limit: int,
    floor: float,
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Candidates that are kept, as rows of ``H``, and the Cholesky factor of ``H`` on them.

    ``order`` names the candidates as rows of ``H``, first come first served; one that was turned
    down may come again. ``diagonal`` is that of ``H``, computed the better way.
    """
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


def _check_diagonal(left: NDArray[np.float64], largest: float, noise: float, n_pivots: int) -> None:
    """Refuse what cannot be the diagonal of what is left of a kernel matrix."""
    if not np.isfinite(left).all():
        raise ValueError("The kernel matrix contains NaN or infinity.")
    check_largest(largest)
    lowest = float(left.min())
    if lowest < -max(1e-6, 1e4 * noise) * largest:
        raise ValueError(
            f"The kernel matrix is not positive semi-definite: after {n_pivots} pivots a diagonal "
            f"entry is {lowest:.2g}. Use a valid kernel, or add to its diagonal."
        )


class _KernelMatrix:
    """Entries of the kernel matrix of ``X`` in float64, evaluated when they are asked for."""

    def __init__(self, kernel: Callable[[Any, Any], Any], X: Any) -> None:
        self._kernel = kernel
        self._X = X.tocsr() if sp.issparse(X) else X
        self._name = kernel.kernel if isinstance(kernel, Kernel) else None
        if self._name == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(f"A precomputed kernel matrix must be square, got shape {X.shape}.")
        self.noise = 0.0  # rounding of the entries, where they were not evaluated in float64

    def block(self, rows: NDArray[np.intp] | None, columns: NDArray[np.intp]) -> Any:
        """Entries of some rows, or all, and some columns."""
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
                f"kernel(A, B) must have a row for each of the {A.shape[0]} rows of A and a column "
                f"for each of the {len(columns)} rows of B, got shape {tuple(K.shape)}."
            )
        return K

    def diagonal(self) -> Any:
        """The diagonal, without the matrix."""
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
            # A copy: a view would hold the whole block.
            parts.append(xp.asarray(xp.linalg.diagonal(K), copy=True))
        return xp.concat(parts)
