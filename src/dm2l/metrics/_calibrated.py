"""Probabilities of a row's labels that its own labels had no part in, and their log-loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from dm2l.labels._entries import Signs
from dm2l.metrics._rates import Array, Holes, check_holes, observation_rates
from dm2l.metrics._units import (
    Kind,
    MetricValue,
    Missing,
    finish,
    signs_and_scores,
    weighted_rows,
)

FOLDS = 5
# Standard deviations of a label's intercept and slope around those of all labels.
SPREAD = np.array([2.0, 1.0])


def cross_fitted_probabilities(T: Signs, S: Array, weights: Array) -> Array:
    """A logistic curve for each label, drawn to that of all labels where little is observed.

    Every fifth row is judged by the curves of the other rows, so that a row's own labels, seen or
    not, have no part in its probabilities.
    """
    largest = np.abs(S).max(initial=0.0)
    S = S / largest if largest > 0 else S  # squares of large numbers are none
    spread = S.std()
    Z = (S - S.mean(axis=0)) / (spread if spread > 0 else 1.0)
    W = np.where(T != 0, weights, 0.0)
    W *= np.count_nonzero(T) / max(W.sum(), 1e-300)
    yes = (T > 0).astype(np.float64)
    overall = (W * yes).sum() / max(W.sum(), 1e-300)
    share = ((W * yes).sum(axis=0) + overall + 1e-3) / (W.sum(axis=0) + 1.0 + 2e-3)
    # Holes weigh nothing: of each label the entries that do, filled up with some that do not.
    seen = W > 0
    most = int(seen.sum(axis=0).max(initial=0))
    rows = np.argsort(~seen, axis=0, kind="stable")[:most]
    near, W, yes = (np.take_along_axis(part, rows, axis=0).T.copy() for part in (Z, W, yes))
    curves = np.stack([logit(share), np.ones(T.shape[1])])
    curves = _newton(curves, near, W, yes, steps=10)
    result = np.empty_like(Z)
    for fold in range(FOLDS):
        others = W * (fold != rows.T % FOLDS)
        own = _newton(curves, near, others, yes, steps=3)
        result[fold::FOLDS] = _expit(own[0] + own[1] * Z[fold::FOLDS])
    return np.clip(result, 1e-4, 1 - 1e-4)


def _expit(x: Array) -> Array:
    """The logistic curve, in a third of the time that scipy's takes; absolute digits matter."""
    return 0.5 + 0.5 * np.tanh(0.5 * x)


def _newton(curves: Array, Z: Array, W: Array, yes: Array, steps: int) -> Array:
    """Steps of Newton for all labels side by side; each has its entries in a row."""
    total = W.sum(axis=1) + 1e-9
    prior = (1 / SPREAD**2)[:, None]
    powers = np.stack([np.ones_like(Z), Z, Z * Z], axis=2)
    for _ in range(steps):
        middle = (curves @ total)[:, None] / total.sum()
        P = _expit(curves[0][:, None] + curves[1][:, None] * Z)
        off = W * (yes - P)
        P *= 1 - P
        P *= W
        # The sums over entries, and over these times scores and their squares.
        slope = (off[:, None, :] @ powers)[:, 0, :2].T - prior * (curves - middle)
        a, b, d = (P[:, None, :] @ powers)[:, 0, :].T
        a, d = a + prior[0], d + prior[1]
        step = np.stack([d * slope[0] - b * slope[1], a * slope[1] - b * slope[0]])
        # Half a step too far is no harm; ten are, where scores separate the answers.
        curves = curves + np.clip(step / (a * d - b * b), -1.0, 1.0)
    return curves


def calibrated_log_loss(
    Y: Any,
    scores: Any,
    *,
    holes: Holes = "estimate",
    rates: Any = None,
    return_counts: bool = False,
    sample_weight: Any = None,
    missing: Missing = "ignore",
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: Any = None,
) -> float | MetricValue:
    r"""Log-loss of the probabilities that scores can be turned into: what scores know.

    .. math:: -\frac{1}{n c} \sum_{i, j} \log p(y_{ij} \mid f_{ij})

    Scores are made probabilities by a logistic curve for each label, drawn to that of all labels
    where little is observed and fitted without the row that is judged. What is left is how much
    scores tell about labels, entry by entry: a proper score, which holes make noisier but, unlike
    a ranking of the labels that happen to be seen, not too good.

    Parameters
    ----------
    Y : array-like of shape (n, c)
        Labels of the contract; NaN = not observed.
    scores : array-like of shape (n, c)
        Higher means more likely.
    holes : {"estimate", "observed"}, default="estimate"
        Whether an observed entry stands for others that were as likely to be seen, or for itself.
    rates : default=None
        As in :func:`ranking_loss`.
    return_counts : bool, default=False
        Return a :class:`MetricValue`; its units are entries.
    sample_weight, missing, label_mask, missing_label, missing_as
        As in :func:`ranking_loss`.

    Returns
    -------
    float or MetricValue
        Lower is better.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.metrics import calibrated_log_loss
    >>> scores = np.linspace(-1, 1, 40)[:, None]
    >>> Y = np.where(np.arange(40) % 2 == 0, scores.T > 0, np.nan).T
    >>> calibrated_log_loss(Y, scores) < calibrated_log_loss(Y, np.zeros((40, 1)))
    True
    """
    check_holes(holes)
    T, S = signs_and_scores(Y, scores, missing, label_mask, missing_label, missing_as)
    T, S, w = weighted_rows(T, S, sample_weight)
    kind: Kind = "complete" if T.all() else holes
    weights = np.ones(T.shape) if w is None else np.tile(w[:, None], (1, T.shape[1]))
    if kind == "estimate" and T.any():
        weights = weights / observation_rates(T, rates).entries
    P = cross_fitted_probabilities(T, S, weights)
    loss = -np.log(np.where(T > 0, P, 1 - P))
    value, error = weighted_mean(loss, np.where(T != 0, weights, 0.0))
    n = int(np.count_nonzero(T))
    return finish(MetricValue(value, n, n, 0, kind, error), return_counts)


def weighted_mean(values: Array, weights: Array) -> tuple[float, float]:
    """Mean of entries and its standard error by rows."""
    total = weights.sum()
    if total <= 0:
        return float("nan"), float("nan")
    value = float((weights * values).sum() / total)
    return value, standard_error((weights * (values - value)).sum(axis=1) / total)


def standard_error(shares: NDArray[np.float64]) -> float:
    """Of a sum of what rows, drawn one by one, add to an error (the linear jackknife)."""
    n = len(shares)
    return float(np.sqrt((shares**2).sum() * n / (n - 1))) if n > 1 else float("nan")
