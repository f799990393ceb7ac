"""Estimation of the residual covariance: pairwise moments, and EM from there.

Dense for a moderate number of labels, low rank plus diagonal for more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from dm2l._utils.arrays import add_diagonal, asarray_like, namespace, to_numpy
from dm2l.completion._condition import condition, residuals
from dm2l.completion._covariance import MEMORY, DenseCovariance, FactorCovariance, LabelCovariance
from dm2l.completion._patterns import Mask, batches, row_blocks

# Smallest eigenvalue of a correlation matrix that is conditioned on.
FLOOR = 0.01
# Weight of the start, in rows, for every row of the data (benchmarks/completion.py).
PRIOR = 0.3
# Shrinkage of a factor's loading, in rows (benchmarks/completion.py).
RIDGE = 30.0
# Up to so many labels the covariance is dense: a row costs at most (c / 2)^3.
MAX_DENSE = 200
# Rows times labels cubed for which a round of EM takes about a tenth of a second.
WORK = 1e9
# Folds of rows, for means by a covariance that was fitted to other rows.
FOLDS = 3


def fit_covariance(
    E: Any, known: Mask, *, max_dense: int = MAX_DENSE, rank: int = 24, rounds: int = 10
) -> LabelCovariance:
    """Covariance of residuals ``E``, zero at missing entries: dense, or factors of many labels."""
    c = known.shape[1]
    if c > max_dense:
        return em_factor(E, known, min(rank, c - 1), rounds=rounds)[0]
    start = DenseCovariance(pairwise_covariance(E, known))
    return em_dense(E, known, start, rounds=rounds)[0] if rounds else start


def quick_covariance(E: Any, known: Mask) -> LabelCovariance:
    """:func:`fit_covariance` in a time that does not make fits much longer.

    Rounds of EM are fewer if each costs more than :data:`WORK`, and none if ten times as much;
    factors are fitted to a sample of rows.
    """
    n, c = known.shape
    if c <= MAX_DENSE:
        work = float(n) * c**3 / WORK
        rounds = 10 if work <= 1 else 5 if work <= 10 else 0
        return fit_covariance(E, known, rounds=rounds)
    some = slice(0, max(int(WORK / (100.0 * c)), 2000))
    return fit_covariance(E[some, :], known[some], rounds=5)


def out_of_fold_means(T: Any, F: Any, folds: NDArray[np.intp]) -> tuple[Any, Any]:
    """Means and variances of all entries by a covariance that was fitted to the other folds."""
    mean, variance = np.empty(F.shape), np.empty(F.shape)
    for k in range(FOLDS):
        here, others = folds == k, folds != k
        covariance = quick_covariance(*residuals(T[others], F[others]))
        mean[here], variance[here] = condition(covariance, T[here], F[here])
    return mean, variance


def variances(E: Any, known: Any) -> Any:
    """Second moment of each label's residuals, with one more residual of size 1.

    Without it a label with one class observed would have next to no variance, and one entry of the
    other class in a new row would outweigh everything else.
    """
    xp = namespace(E)
    return (xp.sum(E * E, axis=0) + 1.0) / (xp.sum(known, axis=0) + 1.0)


def pairwise_covariance(E: Any, mask: Mask, shrinkage: float = 1.0) -> Any:
    r"""Covariance from pairwise moments, positive definite.

    The mean :math:`s_{jk}` of :math:`e_{ij} e_{ik}` over the rows where both labels are known has
    the sampling variance :math:`v_{jk}`, estimated from the same rows; it is multiplied by

    .. math:: \max(0,\; 1 - \mathrm{shrinkage} \cdot v_{jk} / s_{jk}^2)

    so that pairs that are seldom observed together, and pairs of rare labels, become uncorrelated.
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


def em_dense(
    E: Any,
    mask: Mask,
    start: DenseCovariance,
    *,
    prior: float = PRIOR,
    rounds: int = 10,
    tol: float = 1e-3,
    memory: float = MEMORY,
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
    xp, n = namespace(E), max(len(mask), 1)
    nu = prior * n
    enough = tol * int(mask.sum())
    plan = list(batches(mask, memory))
    current, history = start, []
    for k in range(rounds + 1):
        gradient, value = current.expected(E, mask, memory, plan)
        S = current.S
        logdet = float(xp.linalg.slogdet(S)[1])
        history.append(value - 0.5 * nu * (logdet + float(xp.sum(current.precision * start.S))))
        if k == rounds or (k and history[-1] - history[-2] < enough):
            break
        S = (n * S + S @ gradient @ S + nu * start.S) / (n + nu)
        current = DenseCovariance(0.5 * (S + S.T))
    return current, history


def em_factor(
    E: Any,
    mask: Mask,
    rank: int,
    *,
    ridge: float = RIDGE,
    rounds: int = 10,
    tol: float = 1e-3,
    memory: float = MEMORY,
) -> tuple[FactorCovariance, list[float]]:
    r"""Factors by EM; missing entries drop out of every sum.

    Maximises, and never decreases, the log-likelihood of the known residuals less
    :math:`\tfrac12 \sum_j \left( \kappa \|l_j\|^2 / \psi_j + \log \psi_j + d_j / \psi_j \right)`,
    with the ridge :math:`\kappa` and the residuals' variances d.
    """
    xp, (n, c) = namespace(E), E.shape
    known = asarray_like(mask.astype(np.float64), E)
    d, seen = variances(E, known), xp.sum(known, axis=0)
    squares = xp.sum(E * E, axis=0)
    enough = tol * int(mask.sum())
    current, history = _first_factors(E, mask, d, rank), []
    eye = asarray_like(np.eye(rank), E)
    for k in range(rounds + 1):
        C, B, value = asarray_like(np.zeros((c, rank * rank)), E), xp.zeros_like(current.L), 0.0
        for rows in row_blocks(n, 8.0 * (6 * rank * rank + 4 * c), memory):
            mean, P = current.posterior(E[rows, :], known[rows, :])
            pairs = xp.reshape(mean[:, :, None] * mean[:, None, :], (-1, rank * rank))
            C = C + known[rows, :].T @ (P + pairs)
            B = B + E[rows, :].T @ mean
            # log |S_OO| = log |I + L'L / psi| + sum log psi, and e'Ae by Woodbury.
            blocks = xp.reshape(P, (-1, rank, rank))
            value += 0.5 * float(xp.sum(xp.linalg.slogdet(blocks)[1]))
            value += 0.5 * float(xp.sum((E[rows, :] @ (current.L / current.psi[:, None])) * mean))
        value -= 0.5 * float(xp.sum(seen * xp.log(current.psi) + squares / current.psi))
        held = ridge * xp.sum(current.L**2, axis=1) / current.psi
        value -= 0.5 * float(xp.sum(held + xp.log(current.psi) + d / current.psi))
        history.append(value)
        if k == rounds or (k and history[-1] - history[-2] < enough):
            break
        C = xp.reshape(C, (c, rank, rank)) + ridge * eye[None, ...]
        L = xp.linalg.solve(C, B[:, :, None])[:, :, 0]
        psi = (squares - xp.sum(L * B, axis=1) + d) / (seen + 1.0)
        current = FactorCovariance(L, psi)
    return current, history


def _first_factors(E: Any, mask: Mask, d: Any, rank: int) -> FactorCovariance:
    """Singular vectors of the residuals, rescaled by the observed rates."""
    xp = namespace(E)
    scale = to_numpy(xp.sqrt(d))
    rate = np.maximum(mask.mean(axis=0), 1.0 / max(len(mask), 1))
    _, values, vectors = randomized_svd(to_numpy(E) / scale, rank, n_iter=4, random_state=0)
    L = vectors.T * (values / np.sqrt(max(len(mask), 1))) / rate[:, None]
    # No factor explains more than nine tenths of a label to begin with.
    size = np.sum(L**2, axis=1)
    L *= np.sqrt(np.minimum(1.0, 0.9 / np.maximum(size, 1e-12)))[:, None]
    psi = (1.0 - np.sum(L**2, axis=1)) * scale**2
    return FactorCovariance(asarray_like(L * scale[:, None], E), asarray_like(psi, E))
