"""Metrics of decisions, and of probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l.labels._entries import Signs
from dm2l.metrics._by_label import estimated_f1, estimated_hamming_loss
from dm2l.metrics._calibrated import cross_fitted_probabilities, standard_error
from dm2l.metrics._rates import Array, observation_rates
from dm2l.metrics._reading import read, read_decisions
from dm2l.metrics._units import (
    Kind,
    MetricValue,
    Undefined,
    average,
    finish,
    ratio,
)


def hamming_loss(
    y_true: Any,
    y_pred: Any,
    *,
    undefined: Undefined = None,
    return_counts: bool = False,
    estimate: bool = True,
    rates: Any = None,
    sample_weight: Any = None,
) -> float | MetricValue:
    r"""Share of entries that are predicted wrongly.

    .. math:: \frac{1}{|\Omega|} \sum_{(i,j) \in \Omega} [\hat y_{ij} \ne y_{ij}]

    Parameters
    ----------
    y_true : array-like or LabelMatrix of shape (n, c)
        Labels 0/1 or -1/+1, NaN where missing. Other codings and masks:
        :class:`~dm2l.labels.LabelMatrix`.
    y_pred : array-like of shape (n, c)
        0/1 or -1/+1 decisions.
    undefined : {None, "skip", "raise"} or float, default=None
        For a uniform signature: an entry is always defined.
    return_counts : bool, default=False
        Return a :class:`MetricValue`; its units are entries.
    estimate, rates, sample_weight
        As in :func:`ranking_loss`.

    Returns
    -------
    float or MetricValue
        Lower is better.

    Examples
    --------
    >>> from dm2l.metrics import hamming_loss
    >>> Y, y_pred = [[1, 0], [float("nan"), 1]], [[1, 1], [0, 1]]
    >>> hamming_loss(Y, y_pred, estimate=False)  # 1 of 3
    0.3333333333333333
    """
    T, positive, w, rows = read_decisions(y_true, y_pred, sample_weight, estimate, rates)
    if rows is not None:
        return finish(estimated_hamming_loss(rows, positive), return_counts)
    wrong = ((T > 0) != positive)[T != 0]
    one_each = np.ones(len(wrong), dtype=np.int64)
    weights = None if w is None else np.broadcast_to(w[:, None], T.shape)[T != 0]
    result = average(
        wrong.astype(np.float64), one_each, one_each > 0, undefined, unit="entries", weights=weights
    )
    return finish(result, return_counts, T)


def _f1(
    T: Signs, positive: NDArray[Any], weights: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Numerator and denominator of F1 per label."""
    w = np.ones((len(T), 1), dtype=np.int64) if weights is None else weights[:, None]
    hit = (w * ((T > 0) & positive)).sum(axis=0)
    wrong = (w * (((T > 0) & ~positive) | ((T < 0) & positive))).sum(axis=0)
    return 2.0 * hit, 2.0 * hit + wrong


def f1_micro(
    y_true: Any,
    y_pred: Any,
    *,
    undefined: Undefined = None,
    return_counts: bool = False,
    estimate: bool = True,
    rates: Any = None,
    sample_weight: Any = None,
) -> float | MetricValue:
    r"""F1 over all entries together.

    .. math:: \frac{2 TP}{2 TP + FP + FN}

    Undefined (nan with a warning) when nothing is positive and nothing is predicted.

    Parameters
    ----------
    y_true, y_pred, return_counts
    estimate, rates, sample_weight
        As in :func:`hamming_loss`.
    undefined : {None, "skip", "raise"} or float, default=None
        A number takes the place of an undefined result.

    Returns
    -------
    float or MetricValue
        Higher is better.

    Examples
    --------
    >>> from dm2l.metrics import f1_micro
    >>> f1_micro([[1, 0], [0, 1]], [[1, 1], [0, 1]])
    0.8
    """
    T, positive, w, rows = read_decisions(y_true, y_pred, sample_weight, estimate, rates)
    if rows is not None:
        return finish(estimated_f1(rows, positive, undefined, macro=False), return_counts)
    twice, total = (v.sum(keepdims=True) for v in _f1(T, positive, w))
    entries = np.array([np.count_nonzero(T)])
    result = average(ratio(twice, total), entries, total > 0, undefined, unit="label matrices")
    return finish(result, return_counts, T)


def f1_macro(
    y_true: Any,
    y_pred: Any,
    *,
    undefined: Undefined = None,
    return_counts: bool = False,
    estimate: bool = True,
    rates: Any = None,
    sample_weight: Any = None,
) -> float | MetricValue:
    r"""F1 of each label, averaged over labels.

    .. math:: \frac1c \sum_j \frac{2 TP_j}{2 TP_j + FP_j + FN_j}

    Labels with no observed positive and none predicted are dropped; ``undefined=0.0`` counts them
    as scikit-learn does.

    Parameters
    ----------
    y_true, y_pred, return_counts
    estimate, rates, sample_weight
        As in :func:`hamming_loss`.
    undefined : {None, "skip", "raise"} or float, default=None
        A number takes the place of the undefined labels.

    Returns
    -------
    float or MetricValue
        Higher is better.

    Examples
    --------
    >>> from dm2l.metrics import f1_macro
    >>> f1_macro([[1, 0], [0, 1]], [[1, 0], [0, 0]], undefined=0.0)
    0.5
    """
    T, positive, w, rows = read_decisions(y_true, y_pred, sample_weight, estimate, rates)
    if rows is not None:
        return finish(estimated_f1(rows, positive, undefined, macro=True), return_counts)
    twice, total = _f1(T, positive, w)
    entries = np.count_nonzero(T, axis=0)
    result = average(ratio(twice, total), entries, total > 0, undefined, unit="labels")
    return finish(result, return_counts, T)


def calibrated_log_loss(
    y_true: Any,
    y_score: Any,
    *,
    estimate: bool = True,
    rates: Any = None,
    return_counts: bool = False,
    sample_weight: Any = None,
) -> float | MetricValue:
    r"""Log-loss of the probabilities that scores can be calibrated to.

    .. math:: -\frac{1}{n c} \sum_{i, j} \log p(y_{ij} \mid f_{ij})

    A logistic curve per label turns scores into probabilities. It is shrunk to the curve of all
    labels, and fitted without the row that is evaluated.

    Parameters
    ----------
    y_true, y_score, estimate, rates, sample_weight
        As in :func:`ranking_loss`; without an estimate, each observed entry counts once.
    return_counts : bool, default=False
        Return a :class:`MetricValue`; its units are entries.

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
    T, S, w, _ = read(y_true, y_score, sample_weight, estimate=False)
    kind: Kind = "complete" if T.all() else "estimate" if estimate else "observed"
    weights = np.ones(T.shape) if w is None else np.tile(w[:, None], (1, T.shape[1]))
    if kind == "estimate" and T.any():
        weights = weights / observation_rates(T, rates).entries
    P = cross_fitted_probabilities(T, S, weights)
    loss = -np.log(np.where(T > 0, P, 1 - P))
    value, error = _weighted_mean(loss, np.where(T != 0, weights, 0.0))
    n = int(np.count_nonzero(T))
    return finish(MetricValue(value, n, n, 0, kind, error), return_counts)


def _weighted_mean(values: Array, weights: Array) -> tuple[float, float]:
    """Mean of entries and its standard error by rows."""
    total = weights.sum()
    if total <= 0:
        return float("nan"), float("nan")
    value = float((weights * values).sum() / total)
    return value, standard_error((weights * (values - value)).sum(axis=1) / total)
