"""Covariance from the pairs of labels that were seen together, each shrunk by its own noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from dm2l._utils.arrays import add_diagonal, asarray_like, namespace
from dm2l.completion._patterns import Mask

# Smallest eigenvalue of a correlation matrix that is conditioned on.
FLOOR = 0.01


def variances(E: Any, known: Any) -> Any:
    """Second moment of each label's residuals, with one more residual of size 1.

    Without it a label of which only one side was seen would have next to no variance, and one
    surprise in a new row would outvote everything else.
    """
    xp = namespace(E)
    return (xp.sum(E * E, axis=0) + 1.0) / (xp.sum(known, axis=0) + 1.0)


def pairwise_covariance(E: Any, mask: Mask, shrinkage: float = 1.0) -> Any:
    r"""Covariance from pairwise moments, positive definite.

    The mean :math:`s_{jk}` of :math:`e_{ij} e_{ik}` over the rows where both labels are known has
    the sampling variance :math:`v_{jk}`, estimated from the same rows; it is multiplied by

    .. math:: \max(0,\; 1 - \mathrm{shrinkage} \cdot v_{jk} / s_{jk}^2)

    so that pairs seldom seen together, and pairs of rare labels, fall back to "unrelated" while
    those with evidence stay as they are. On Enron, 30 % observed, average precision of the holes is
    0.182 without shrinkage, 0.206 with the best common factor for all pairs and 0.210 with this.

    Parameters
    ----------
    E : array of shape (n, c)
        Residuals, zero at holes.
    mask : ndarray of bool, shape (n, c)
        True where the label is known.
    shrinkage : float, default=1
        0 keeps the moments as they are.
    """
    xp = namespace(E)
    known = asarray_like(mask.astype(np.float64), E)
    d = variances(E, known)
    together = known.T @ known
    times = xp.where(together > 0, together, xp.ones_like(together))
    S = (E.T @ E) / times
    if shrinkage:
        squares = E * E
        noise = ((squares.T @ squares) / times - S * S) / times
        tiny = asarray_like(np.asarray(1e-300), E)
        keep = 1.0 - shrinkage * noise / xp.where(tiny < S * S, S * S, tiny)
        S = xp.where(keep > 0.0, S * keep, xp.zeros_like(S))
    return _positive(S, d)


def _positive(S: Any, d: Any) -> Any:
    """``S`` with the variances ``d`` and no eigenvalue near zero, in units of these."""
    xp = namespace(S)
    scale = xp.sqrt(d)
    off = S / (scale[:, None] * scale[None, :])
    correlation = add_diagonal(off, 1.0 - xp.linalg.diagonal(off))
    values, vectors = xp.linalg.eigh(correlation)
    floor = asarray_like(np.asarray(FLOOR), S)
    if bool(xp.min(values) < floor):
        values = xp.where(values > floor, values, floor)
        correlation = (vectors * values) @ vectors.T
        again = 1.0 / xp.sqrt(xp.linalg.diagonal(correlation))
        scale = scale * again
    return correlation * (scale[:, None] * scale[None, :])
