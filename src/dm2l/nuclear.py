r"""Nuclear norms: the exact value, a subgradient, and a smooth stand-in that needs no tall SVD.

For any ``Z`` with Gram matrix ``S = Z'Z`` (or ``ZZ'``, whichever is smaller) and ``mu > 0``

.. math:: \|Z\|_\mu = \operatorname{tr}\bigl((S + \mu^2 I)^{1/2}\bigr) - \mu r,
          \qquad \nabla \|Z\|_\mu = Z (S + \mu^2 I)^{-1/2},

with ``r = min(Z.shape)``, is smooth and lies between ``||Z||_* - mu r`` and ``||Z||_*``.
All functions take arrays of any array-API library.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from array_api_compat import array_namespace
from threadpoolctl import ThreadpoolController

__all__ = [
    "Norm",
    "NormValue",
    "blas_threads",
    "nuclear_norm",
    "one_blas_thread",
    "smooth_nuclear_norm",
    "subgradient",
    "thresholded_nuclear_norm",
]


class NormValue(NamedTuple):
    """Value that is minimised, exact value, and gradient of the former."""

    value: float
    exact: float
    gradient: Any


Norm = Callable[[Any], NormValue]


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Context in which BLAS uses one thread.

    In an ``eigh`` of a hundred rows threads bring nothing on an idle machine and cost dearly on a
    busy one: 26 matrices of 153 x 153 took 53 ms with either on two idle cores, and on two busy
    ones 416 ms with two threads and 58 ms with one (``benchmarks/blas.py``).
    """
    return _controller().limit(limits=1, user_api="blas")


def blas_threads(size: float) -> AbstractContextManager[Any]:
    """Context for products of ``size`` multiplications: small ones get one BLAS thread.

    There a second thread waits more than it works (``benchmarks/blas.py``).
    """
    return one_blas_thread() if size < 1e8 else nullcontext()


def nuclear_norm(Z: Any) -> float:
    """Sum of the singular values of ``Z``.

    Parameters
    ----------
    Z : array of shape (n, c)
        Any real matrix; a matrix without rows has norm 0.

    Returns
    -------
    float
        The norm, from a singular value decomposition.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.nuclear import nuclear_norm
    >>> nuclear_norm(np.diag([3.0, 4.0]))
    7.0
    """
    xp = array_namespace(Z)
    return float(xp.sum(xp.linalg.svdvals(Z))) if 0 not in Z.shape else 0.0


def subgradient(Z: Any, delta: float = 0.005) -> Any:
    """Return a subgradient of the nuclear norm at ``Z`` (Algorithm 2 of the paper).

    ``U1 V1'`` of the singular value decomposition ``Z = U diag(s) V'``, with the columns whose
    singular value exceeds ``delta``. Its spectral norm is at most one, so
    ``||A||_* >= <U1 V1', A>`` for every ``A``; with ``delta = 0`` there is equality at ``Z``.

    Parameters
    ----------
    Z : array of shape (n, c)
        Where to differentiate.
    delta : float, default=0.005
        The paper's threshold.

    Returns
    -------
    array of shape (n, c)
        The subgradient.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.nuclear import subgradient
    >>> subgradient(np.diag([3.0, 0.001]))
    array([[1., 0.],
           [0., 0.]])
    """
    return thresholded_nuclear_norm(Z, delta).gradient


def smooth_nuclear_norm(Z: Any, mu: float) -> NormValue:
    """Smoothed nuclear norm, the exact one, and the gradient of the smoothed one.

    One Gram matrix and one ``eigh`` of size ``min(Z.shape)``, both in float64: the square root
    of an eigenvalue loses half its digits, which float32 cannot spare.

    Parameters
    ----------
    Z : array of shape (n, c)
        Any real matrix.
    mu : float
        Smoothing; singular values far below it count quadratically.

    Returns
    -------
    NormValue
        ``value``, ``exact``, ``gradient`` (in the dtype of ``Z``).

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.nuclear import smooth_nuclear_norm
    >>> norm = smooth_nuclear_norm(np.diag([3.0, 4.0]), mu=1e-6)
    >>> round(norm.value, 4), round(norm.exact, 4)
    (7.0, 7.0)
    """
    xp = array_namespace(Z)
    if 0 in Z.shape:
        return NormValue(0.0, 0.0, Z)
    tall = Z.shape[0] >= Z.shape[1]
    Z64 = xp.astype(Z, xp.float64, copy=False)
    eigenvalues, vectors = xp.linalg.eigh(Z64.T @ Z64 if tall else Z64 @ Z64.T)
    eigenvalues = xp.where(eigenvalues > 0, eigenvalues, xp.zeros_like(eigenvalues))
    roots = xp.sqrt(eigenvalues + mu * mu)
    inverse_root = xp.astype((vectors / roots) @ vectors.T, Z.dtype, copy=False)
    return NormValue(
        value=float(xp.sum(roots)) - mu * min(Z.shape),
        exact=float(xp.sum(xp.sqrt(eigenvalues))),
        gradient=Z @ inverse_root if tall else inverse_root @ Z,
    )


def thresholded_nuclear_norm(Z: Any, delta: float = 0.005) -> NormValue:
    """Exact nuclear norm with the subgradient of Algorithm 2, as the paper's solver uses them.

    Parameters
    ----------
    Z : array of shape (n, c)
        Any real matrix.
    delta : float, default=0.005
        Singular values up to this contribute nothing to the subgradient.

    Returns
    -------
    NormValue
        ``value`` equals ``exact``; ``gradient`` is :func:`subgradient`.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.nuclear import thresholded_nuclear_norm
    >>> thresholded_nuclear_norm(np.diag([3.0, 4.0])).value
    7.0
    """
    xp = array_namespace(Z)
    if 0 in Z.shape:
        return NormValue(0.0, 0.0, Z)
    U, s, Vt = xp.linalg.svd(Z, full_matrices=False)
    # A singular value at rounding level has no direction of its own.
    keep = xp.astype(s > max(delta, float(s[0]) * 1e-13), Z.dtype)
    value = float(xp.sum(s))
    return NormValue(value, value, (U * keep) @ Vt)
