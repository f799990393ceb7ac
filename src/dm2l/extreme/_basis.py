"""Directions in label space that the features can predict."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l.features import Features

Array = NDArray[np.float64]


def label_basis(
    features: Features, stored: Any, ridge: Any, rank: int, *, block: int = 1024
) -> Array:
    """The ``rank`` best directions of ridge regression on all labels, orthonormal, best first.

    Reduced-rank regression: with ``RR' = rho Phi'Phi + alpha I``, of which ``ridge`` knows ``R``,
    they are the leading right singular vectors of ``A = R^-1 Phi'Y`` (features x labels). Where
    there are more labels than features, only ``AA'`` is kept of it, summed over blocks of labels,
    and a second pass over them gives ``B = A'U / s``. Nothing is drawn at random.
    """
    c = stored.shape[1]
    if rank >= c:
        return np.eye(c)
    columns = stored.tocsc()

    def predictable(start: int) -> Array:
        return np.asarray(ridge.to_gradient(_pull(features, columns[:, start : start + block])))

    if c <= features.size:  # A itself is smaller than AA'
        block = c
        values, Vt = scipy.linalg.svd(predictable(0), full_matrices=False)[1:]
        kept = values[:rank] > features.size * np.finfo(np.float64).eps * values[0]
        kept[0] = True  # features that predict nothing get a direction all the same
        return np.ascontiguousarray(Vt[:rank][kept].T)
    square = np.zeros((features.size, features.size))
    for start in range(0, c, block):
        A = predictable(start)
        square += A @ A.T
    size = features.size
    first = max(0, size - rank)
    values, U = scipy.linalg.eigh(square, subset_by_index=[first, size - 1])
    values, U = values[::-1], U[:, ::-1]
    if not values[0] > 0:
        return np.eye(c, 1)
    # Squares: below this the digits of a singular value are rounding.
    kept = values > size * np.finfo(np.float64).eps * values[0]
    values, U = values[kept], U[:, kept]
    B = np.empty((c, len(values)))
    for start in range(0, c, block):
        B[start : start + block] = predictable(start).T @ (U / np.sqrt(values))
    # Small singular values lose digits in the square; the span stays, the angles are set right.
    return np.ascontiguousarray(scipy.linalg.qr(B, mode="economic", overwrite_a=True)[0])


def _pull(features: Features, stored: Any) -> Array:
    """``Phi'Y`` of sparse ``Y``, through the stored entries only."""
    product = stored.T @ features.Phi
    product = product.toarray() if sp.issparse(product) else np.asarray(product)
    if not features.intercept:
        return product.T.astype(np.float64, copy=False)
    sums = np.asarray(stored.sum(axis=0), dtype=np.float64).reshape(1, -1)
    product = product.T.astype(np.float64)
    if features.mean is not None and sp.issparse(features.Phi):  # its means are still in it
        product -= features.mean[:, None] * sums
    return np.concatenate([product, sums])
