"""Masked ridge in the dual, with one variable per row and label, for wide sparse features."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]

TOLERANCE, MOST_STEPS = 1e-3, 100  # relative residual for convergence, and maximum number of steps


def dual_ridge(X: Any, T: Any, alpha: float, weights: Array | None = None) -> tuple[Array, Array]:
    """Solve ``min 1/2 ||O*(XW + b - T)||^2 + alpha/2 ||W||^2`` for ``W`` (d, c) and ``b``."""
    # W = X'A, where A is 0 at missing entries and its columns sum to 0, because the intercept is
    # not penalized. Conjugate gradients solve P (XX'A + alpha A / weights) = P T in this subspace,
    # with the projection P onto it.
    observed = (T != 0).astype(np.float64)
    count = observed.sum(axis=0)
    penalty = alpha * (1.0 if weights is None else 1 / np.where(observed > 0, weights, 1.0))
    X = sp.csr_array(X)
    transposed = X.T.tocsr()

    def project(values: Array) -> Array:
        values = observed * values
        return values - observed * (values.sum(axis=0) / count)

    residual = project(T.astype(np.float64))
    A, direction = np.zeros_like(residual), residual
    size = (residual**2).sum(axis=0)
    enough = TOLERANCE**2 * size
    for _ in range(MOST_STEPS):
        image = project(X @ (transposed @ direction) + penalty * direction)
        step = size / np.maximum((direction * image).sum(axis=0), 1e-300)
        A = A + step * direction
        residual = residual - step * image
        before, size = size, (residual**2).sum(axis=0)
        if (size <= enough).all():
            break
        direction = residual + size / np.maximum(before, 1e-300) * direction
    W = np.asarray(transposed @ A)
    rest = observed * (T - X @ W - penalty * A)
    return W, rest.sum(axis=0) / count
