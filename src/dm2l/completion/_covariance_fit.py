"""Estimation of the residual covariance: pairwise moments, and EM from there.

Dense for a moderate number of labels, low rank plus diagonal for more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from dm2l.completion._covariance import (
    DenseCovariance,
    FactorCovariance,
    Floats,
    LabelCovariance,
    Mask,
    batches,
    conditional_moments,
    residuals,
    row_blocks,
)

# Smallest eigenvalue of a correlation matrix that is conditioned on.
FLOOR = 0.01
# Weight of the start, in rows, for every row of the data (benchmarks/completion.py).
PRIOR = 0.3
# Shrinkage of a factor's loading, in rows (benchmarks/completion.py).
RIDGE = 30.0
# Up to so many labels the covariance is dense: a row costs at most (c / 2)^3.
MAX_DENSE = 200
RANK = 24
# Rows times labels cubed for which a round of EM takes about a tenth of a second.
WORK = 1e9
# Folds of rows, for means by a covariance that was fitted to other rows.
FOLDS = 3


def quick_covariance(T: NDArray[np.int8], F: Floats) -> LabelCovariance:
    """Covariance of the residuals of signs and scores, in a time that does not make fits longer.

    Dense, or factors for many labels. Rounds of EM are fewer if each costs more than :data:`WORK`,
    and none if ten times as much; factors are fitted to a sample of rows.
    """
    n, c = T.shape
    E, known = residuals(T, F)
    if c > MAX_DENSE:
        some = slice(0, max(int(WORK / (100.0 * c)), 2000))
        return em_factor(E[some], known[some], min(RANK, c - 1), rounds=5)[0]
    start, work = DenseCovariance(pairwise_covariance(E, known)), float(n) * c**3 / WORK
    if work > 10:
        return start
    return em_dense(E, known, start, rounds=10 if work <= 1 else 5)[0]


def out_of_fold_moments(
    T: NDArray[np.int8], F: Floats, folds: NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """Means and variances of all entries by a covariance that was fitted to the other folds."""
    mean, variance = np.empty(F.shape), np.empty(F.shape)
    for k in range(FOLDS):
        here, others = folds == k, folds != k
        covariance = quick_covariance(T[others], F[others])
        mean[here], variance[here] = conditional_moments(covariance, T[here], F[here])
    return mean, variance


def _variances(E: Floats, known: Mask) -> Floats:
    # With one more residual of size 1: a label with one class observed would have next to no
    # variance, and one entry of the other class in a new row would outweigh everything else.
    return np.asarray((np.sum(E * E, axis=0) + 1.0) / (known.sum(axis=0) + 1.0))


def pairwise_covariance(E: Floats, mask: Mask, shrinkage: float = 1.0) -> Floats:
    r"""Covariance from pairwise moments, positive definite.

    The mean :math:`s_{jk}` of :math:`e_{ij} e_{ik}` over the rows where both labels are known, with
    the sampling variance :math:`v_{jk}`, is multiplied by
    :math:`\max(0, 1 - \mathrm{shrinkage} \cdot v_{jk} / s_{jk}^2)`, so that pairs that are seldom
    observed together, and pairs of rare labels, become uncorrelated.
    """
    known, squares = mask.astype(np.float64), E * E
    times = np.maximum(known.T @ known, 1.0)
    S = (E.T @ E) / times
    noise = ((squares.T @ squares) / times - S * S) / times
    S = S * np.maximum(1.0 - shrinkage * noise / np.maximum(S * S, 1e-300), 0.0)
    # With the variances d, and no eigenvalue near zero in units of these.
    scale = np.sqrt(_variances(E, mask))
    correlation = S / (scale[:, None] * scale[None, :])
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    if np.min(values) < FLOOR:
        correlation = (vectors * np.maximum(values, FLOOR)) @ vectors.T
        scale = scale * (1.0 / np.sqrt(np.diagonal(correlation)))
    return np.asarray(correlation * (scale[:, None] * scale[None, :]))


def em_dense(
    E: Floats,
    mask: Mask,
    start: DenseCovariance,
    *,
    prior: float = PRIOR,
    rounds: int = 10,
    tol: float = 1e-3,
) -> tuple[DenseCovariance, list[float]]:
    r"""Covariance by EM, with an inverse Wishart prior around the start.

    Maximises, and never decreases,

    .. math::

        \sum_i \log N(e_{iO};\, 0, S_{OO})
        - \tfrac{\nu}{2} \left( \log |S| + \mathrm{tr}(S^{-1} S_0) \right),
        \qquad \nu = \mathrm{prior} \cdot n .

    One round is :math:`S \leftarrow (R'R + \sum_i V_i + \nu S_0) / (n + \nu)` with the completed
    residuals R and the covariances V of missing entries; both are in the gradient.
    """
    n, history = max(len(mask), 1), []
    nu, enough = prior * n, tol * int(mask.sum())
    plan, current = list(batches(mask)), start
    for k in range(rounds + 1):
        gradient, value = current.expected(E, mask, plan)
        S = current.S
        held = float(np.linalg.slogdet(S)[1]) + float(np.sum(current.precision() * start.S))
        history.append(value - 0.5 * nu * held)
        if k == rounds or (k and history[-1] - history[-2] < enough):
            break
        S = (n * S + S @ gradient @ S + nu * start.S) / (n + nu)
        current = DenseCovariance(0.5 * (S + S.T))
    return current, history


def em_factor(
    E: Floats,
    mask: Mask,
    rank: int,
    *,
    ridge: float = RIDGE,
    rounds: int = 10,
    tol: float = 1e-3,
) -> tuple[FactorCovariance, list[float]]:
    r"""Factors by EM; missing entries drop out of every sum.

    Maximises, and never decreases, the log-likelihood of the known residuals less
    :math:`\tfrac12 \sum_j \left( \kappa \|l_j\|^2 / \psi_j + \log \psi_j + d_j / \psi_j \right)`,
    with the ridge :math:`\kappa` and the residuals' variances d.
    """
    n, c = E.shape
    known, d = mask.astype(np.float64), _variances(E, mask)
    seen, squares = np.sum(known, axis=0), np.sum(E * E, axis=0)
    enough = tol * int(mask.sum())
    current, history = _first_factors(E, mask, d, rank), []
    for k in range(rounds + 1):
        C, B, value = np.zeros((c, rank * rank)), np.zeros_like(current.L), 0.0
        for rows in row_blocks(n, 8.0 * (6 * rank * rank + 4 * c)):
            mean, P = current.posterior(E[rows], known[rows])
            pairs = (mean[:, :, None] * mean[:, None, :]).reshape(-1, rank * rank)
            C += known[rows].T @ (P + pairs)
            B += E[rows].T @ mean
            # log |S_OO| = log |I + L'L / psi| + sum log psi, and e'Ae by Woodbury.
            value += 0.5 * float(np.sum(np.linalg.slogdet(P.reshape(-1, rank, rank))[1]))
            value += 0.5 * float(np.sum((E[rows] @ (current.L / current.psi[:, None])) * mean))
        value -= 0.5 * float(np.sum(seen * np.log(current.psi) + squares / current.psi))
        held = ridge * np.sum(current.L**2, axis=1) / current.psi
        value -= 0.5 * float(np.sum(held + np.log(current.psi) + d / current.psi))
        history.append(value)
        if k == rounds or (k and history[-1] - history[-2] < enough):
            break
        curvature = C.reshape(c, rank, rank) + ridge * np.eye(rank)
        L: Any = np.linalg.solve(curvature, B[:, :, None])[:, :, 0]
        psi: Any = (squares - np.sum(L * B, axis=1) + d) / (seen + 1.0)
        current = FactorCovariance(L, psi)
    return current, history


def _first_factors(E: Floats, mask: Mask, d: Floats, rank: int) -> FactorCovariance:
    """Singular vectors of the residuals, rescaled by the observed rates."""
    scale, n = np.sqrt(d), max(len(mask), 1)
    rate = np.maximum(mask.mean(axis=0), 1.0 / n)
    _, values, vectors = randomized_svd(E / scale, rank, n_iter=4, random_state=0)
    L = vectors.T * (values / np.sqrt(n)) / rate[:, None]
    # No factor explains more than nine tenths of a label to begin with.
    size = np.sum(L**2, axis=1)
    L *= np.sqrt(np.minimum(1.0, 0.9 / np.maximum(size, 1e-12)))[:, None]
    psi: Any = (1.0 - np.sum(L**2, axis=1)) * scale**2
    loadings: Any = L * scale[:, None]
    return FactorCovariance(loadings, psi)
