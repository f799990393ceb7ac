"""Residuals of rows that the scores were not fitted to, in closed form."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from dm2l.arrays import cholesky as factor
from dm2l.arrays import like, namespace, solve_triangular, to_numpy
from dm2l.coupling._patterns import Mask

# A row that all but determines its own score would otherwise get a residual without bound.
MOST = 0.98


def leverages(
    Phi: Any,
    known: Mask,
    alpha: float,
    *,
    intercept: bool = True,
    method: Literal["auto", "exact", "shared"] = "auto",
) -> Any:
    r"""How much each known entry pulls its own score, :math:`h_{ij} = \phi_i' H_j^{-1} \phi_i`.

    For ridge on the known entries of each label,
    :math:`H_j = \Phi_{O_j}'\Phi_{O_j} + \alpha I`, with an intercept that is not penalised.

    Parameters
    ----------
    Phi : array of shape (n, d)
        Features, dense.
    known : ndarray of bool, shape (n, c)
        True where the label is known.
    alpha : float
        Ridge penalty, positive.
    intercept : bool, default=True
        Whether the scores have one.
    method : {"auto", "exact", "shared"}, default="auto"
        "exact" factors every label's own curvature; "shared" puts :math:`\rho_j \Phi'\Phi` in its
        place, with the share :math:`\rho_j` of known entries, so that one eigenvalue
        decomposition serves all labels. "auto" is "shared" unless all labels have one mask.

    Returns
    -------
    array of shape (n, c)
        Between 0 and 1; only entries that are known mean something.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.coupling import leverages
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> leverages(X, np.ones((3, 1), bool), 1e-9).round(2).ravel()
    array([0.83, 0.33, 0.83])
    """
    if method not in ("auto", "exact", "shared"):
        raise ValueError(f"method must be 'auto', 'exact' or 'shared', got {method!r}.")
    if bool((known == known[:, :1]).all()):
        h = _exact(Phi, known[:, 0], alpha, intercept)
        return h[:, None] * like(np.ones((1, known.shape[1])), Phi)
    if method == "exact":
        xp = namespace(Phi)
        labels = range(known.shape[1])
        return xp.stack([_exact(Phi, known[:, j], alpha, intercept) for j in labels], axis=1)
    return _shared(Phi, known, alpha, intercept)


def _exact(Phi: Any, rows: Any, alpha: float, intercept: bool) -> Any:
    xp, n = namespace(Phi), int(rows.sum())
    if not n:
        return xp.zeros(Phi.shape[0], dtype=Phi.dtype, device=Phi.device)
    used = xp.take(Phi, like(np.flatnonzero(rows), Phi), axis=0)
    centre = xp.mean(used, axis=0) if intercept else xp.zeros_like(Phi[0, :])
    used = used - centre
    if used.shape[1] <= n:
        H = used.T @ used + alpha * like(np.eye(used.shape[1]), Phi)
        half = solve_triangular(factor(H), (Phi - centre).T)
        h = xp.sum(half * half, axis=0)
    else:
        # (Z'Z + aI)^-1 = (I - Z'(ZZ' + aI)^-1 Z) / a
        K = used @ used.T + alpha * like(np.eye(n), Phi)
        others = Phi - centre
        half = solve_triangular(factor(K), used @ others.T)
        h = (xp.sum(others * others, axis=1) - xp.sum(half * half, axis=0)) / alpha
    return h + (1.0 / n if intercept else 0.0)


def _shared(Phi: Any, known: Mask, alpha: float, intercept: bool) -> Any:
    xp = namespace(Phi)
    n, seen = len(known), np.maximum(known.sum(axis=0), 1).astype(np.float64)
    Z = Phi - xp.mean(Phi, axis=0) if intercept else Phi
    wide = Z.shape[1] > n
    values, vectors = xp.linalg.eigh(Z @ Z.T if wide else Z.T @ Z)
    values = xp.where(values > 0.0, values, xp.zeros_like(values))
    rate = like(seen / n, Phi)
    if wide:
        # Rows in the basis of left singular vectors: phi'v = u * singular value.
        squares = vectors**2 * values
    else:
        squares = (Z @ vectors) ** 2
    h = squares @ (1.0 / (rate[None, :] * values[:, None] + alpha))
    # What a known row adds to the curvature of its own label is all there, not a share of it.
    own = h * (1.0 - rate)
    h = h / (1.0 + own)
    return h + (like(1.0 / seen, Phi) if intercept else 0.0)


def leave_row_out(E: Any, h: Any) -> Any:
    """Residuals as if each row had not been there, ``e / (1 - h)``.

    Parameters
    ----------
    E : array of shape (n, c)
        Residuals of the fit, zero at holes.
    h : array of shape (n, c)
        :func:`leverages`.
    """
    xp = namespace(E)
    most = like(np.asarray(MOST), E)
    return E / (1.0 - xp.where(h < most, h, most))


def honest_scores(T: Any, F: Any, h: Any) -> Any:
    """Scores that no known entry has pulled: holes keep theirs, known ones leave their row out."""
    xp = namespace(F)
    signs = to_numpy(T)
    at, t = like(signs != 0, F), like(signs.astype(np.float64), F)
    return xp.where(at, t - leave_row_out(t - F, h), F)
