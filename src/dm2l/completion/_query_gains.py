"""Active learning: errors in the row of a missing entry that its answer is expected to avoid."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dm2l.completion._correlation import SCORES, Combiner, LabelCorrelation
from dm2l.completion._covariance import (
    FactorCovariance,
    Floats,
    LabelCovariance,
    conditional_moments,
    row_blocks,
)

# Of rows with more missing entries, the most uncertain ones: the others have nothing to gain.
MOST_MISSING = 100
# Rows on which expected gains are checked, and known entries queried in each.
MOST_ROWS, DRAWS = 2000, 8


def row_gains(correlation: LabelCorrelation, T: NDArray[Any], F: Floats, p: Floats) -> Floats:
    r"""Errors at the *other* missing entries of its row that each answer is expected to avoid.

    An entry j that is filled by its probability is wrong with probability
    :math:`e(p_j) = \min(p_j, 1 - p_j)`. An answer :math:`a = \pm 1` to entry k moves its mean to
    :math:`m_j + V_{jk} (a - m_k) / V_{kk}` and its variance to
    :math:`V_{jj} - V_{jk}^2 / V_{kk}`, from which :math:`p_j^\pm` follow. With
    :math:`\bar p_j = p_k p_j^+ + (1 - p_k) p_j^-`

    .. math:: \sum_j e(\bar p_j) - p_k e(p_j^+) - (1 - p_k) e(p_j^-)

    errors are avoided, which is never negative. Probabilities of different conditions need not be
    consistent: where :math:`\bar p_j` is nearer one half than :math:`p_j`, the term is scaled by
    the ratio of their errors. The result is 0 where a label is known.
    """
    gains = np.zeros(T.shape)
    mean = conditional_moments(correlation.covariance, T, F)[0]
    others = correlation.combiner.weights_[:, SCORES:].T  # of the signs, if these are inputs
    signs = T @ others if others.size else np.zeros(T.shape)
    error = np.where(T == 0, np.minimum(p, 1 - p), -1.0)
    count = np.minimum((T == 0).sum(axis=1), MOST_MISSING)
    order = np.argsort(count, kind="stable")
    order = order[count[order] > 1]
    for block in row_blocks(len(order), 8.0 * 24 * MOST_MISSING**2):
        rows = order[block]
        width = count[rows[-1]]
        # Missing entries of a row, the most uncertain first, then known ones.
        at = np.argsort(-error[rows], axis=1, kind="stable")[:, :width]
        here = np.arange(width) < count[rows][:, None]
        V = _joint(correlation.covariance, T[rows] != 0, at)
        f, m, known, q = (np.take_along_axis(a[rows], at, axis=1) for a in (F, mean, signs, p))
        yes, no = (_moved(correlation.combiner, at, V, f, m, known, sign) for sign in (1.0, -1.0))
        spared = _spared(q[:, :, None], q[:, None, :], yes, no)
        spared *= here[:, :, None] & here[:, None, :] & ~np.eye(width, dtype=bool)
        gains[rows[:, None], at] += spared.sum(axis=1)
    return gains


def _joint(covariance: LabelCovariance, known: NDArray[np.bool_], at: NDArray[np.intp]) -> Floats:
    """Covariance of some labels of each row given its known ones, (b, w, w)."""
    if isinstance(covariance, FactorCovariance):
        L, psi = covariance.L, covariance.psi
        r = L.shape[1]
        _, P = covariance.posterior(np.zeros(known.shape), known.astype(np.float64))
        V = L[at] @ P.reshape(-1, r, r) @ L[at].transpose(0, 2, 1)
        V[:, np.arange(at.shape[1]), np.arange(at.shape[1])] += psi[at]
        return np.asarray(V)
    # Given the known labels, missing ones have the inverse of their block of the precision; known
    # labels are replaced by uncorrelated ones.
    both = ~known[:, :, None] & ~known[:, None, :]
    V = np.linalg.inv(np.where(both, covariance.precision(), np.eye(known.shape[1])))
    b = np.arange(len(at))[:, None, None]
    return np.asarray(V[b, at[:, :, None], at[:, None, :]])


def _moved(
    combiner: Combiner,
    at: NDArray[np.intp],
    V: Floats,
    f: Floats,
    mean: Floats,
    signs: Floats,
    answer: float,
) -> Floats:
    """Probability of label j of each row once label k is answered, (b, j, k)."""
    own = np.einsum("bkk->bk", V)[:, None, :]
    left = np.einsum("bjj->bj", V)[:, :, None] - V**2 / own
    # An answer leaves no variance of its own entry, which is not used.
    inverse = 1.0 / np.sqrt(np.maximum(left, 1e-3 * own))
    means = mean[:, :, None] + V / own * (answer - mean[:, None, :])
    eta = combiner.weights_[at, 0][:, :, None] + signs[:, :, None]
    middle = combiner.middle_[at][:, :, None]
    scores = ((f[:, :, None] - middle) * inverse, (means - middle) * inverse, inverse)
    for a, z in enumerate(scores):
        slope = combiner.weights_[at, a + 1] * combiner.scale_[a][at]
        eta = eta + slope[:, :, None] * (z - combiner.centre_[a][at][:, :, None])
    if combiner.with_labels_:
        eta = eta + answer * combiner.weights_[at[:, :, None], SCORES + at[:, None, :]]
    return np.asarray(expit(eta))


def _spared(p: Floats, chance: Floats, yes: Floats, no: Floats) -> Floats:
    """Errors at entries of probability ``p`` that an answer avoids."""
    between = _error(chance * yes + (1 - chance) * no)
    spared = between - chance * _error(yes) - (1 - chance) * _error(no)
    return np.asarray(spared * np.minimum(1.0, _error(p) / np.maximum(between, 1e-12)))


def _error(p: Floats) -> Floats:
    return np.minimum(p, 1 - p)


def trust(T: NDArray[Any], F: Floats) -> float:
    """Share of the expected gains of answers that comes true, from 0 to 1.

    The largest are overestimated the most. So label correlation is learnt from half of the rows,
    known entries of the other half are treated as missing and answered, and errors avoided are
    compared with the expected ones, for the twentieth of the answers that would be queried first.
    """
    rng = np.random.default_rng(0)
    rows = rng.permutation(np.flatnonzero((T != 0).sum(axis=1) > 1))[:MOST_ROWS]
    found = []
    for here, there in ((rows[::2], rows[1::2]), (rows[1::2], rows[::2])):
        if len(here) and len(there):
            half = LabelCorrelation.fit(T[here], F[here])
            found += [_asked_again(half, T[there], F[there], rng) for _ in range(DRAWS)]
    if not found:
        return 0.0
    error, expected, spared = np.concatenate(found, axis=1)
    first = np.argsort(-(error + expected), kind="stable")[: -(-len(error) // 20)]
    # Less a standard error.
    sure = spared[first].mean() - spared[first].std() / np.sqrt(len(first))
    return float(np.clip(sure / max(expected[first].mean(), 1e-12), 0.0, 1.0))


def _asked_again(
    correlation: LabelCorrelation, T: NDArray[Any], F: Floats, rng: np.random.Generator
) -> Floats:
    """Error of one known entry a row, and errors at others that it should and does avoid."""
    others = T != 0
    one = np.arange(len(T)), np.argmax(np.where(others, rng.random(T.shape), -1.0), axis=1)
    others[one] = False
    beliefs = []
    for sign in (0, 1, -1):
        supposed = T.copy()
        supposed[one] = sign
        beliefs.append(correlation.predict(supposed, F)[1])
    without, yes, no = beliefs
    given = np.where((T[one] > 0)[:, None], yes, no)
    wrong = [((p > 0.5) != (T > 0)).astype(np.float64) for p in (without, given)]
    both = _spared(without, without[one][:, None], yes, no), wrong[0] - wrong[1]
    expected, spared = (np.sum(values, axis=1, where=others) for values in both)
    return np.stack([_error(without[one]), expected, spared])
