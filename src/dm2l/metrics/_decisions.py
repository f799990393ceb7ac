"""Metrics of yes/no decisions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l.labels._entries import Signs
from dm2l.metrics._complete import complete_rows
from dm2l.metrics._labels import estimated_f1, estimated_hamming_loss
from dm2l.metrics._rates import Holes
from dm2l.metrics._units import (
    MetricValue,
    Missing,
    Undefined,
    average,
    finish,
    ratio,
    signs_and_scores,
    weighted_rows,
)


def _decisions(Y: Any, predictions: Any, *reading: Any) -> tuple[Signs, NDArray[Any]]:
    T, P = signs_and_scores(Y, predictions, *reading, what="predictions")
    bad = (P != 0) & (P != 1) & (P != -1)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"predictions has {P[row, column]} in row {row}, column {column}; decisions are 0/1 "
            "or -1/+1. Pass predict(X), or scores > threshold."
        )
    return T, P > 0


def hamming_loss(
    Y: Any,
    predictions: Any,
    *,
    undefined: Undefined = None,
    return_counts: bool = False,
    holes: Holes = "estimate",
    rates: Any = None,
    sample_weight: Any = None,
    missing: Missing = "ignore",
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: Any = None,
) -> float | MetricValue:
    r"""Share of entries that are predicted wrongly.

    .. math:: \frac{1}{|\Omega|} \sum_{(i,j) \in \Omega} [\hat y_{ij} \ne y_{ij}]

    Parameters
    ----------
    Y : array-like of shape (n, c)
        Labels of the contract; NaN = not observed.
    predictions : array-like of shape (n, c)
        0/1 or -1/+1 decisions.
    undefined : {None, "skip", "raise"} or float, default=None
        There for uniformity: an entry is always defined.
    return_counts : bool, default=False
        Return a :class:`MetricValue`; its units are entries.
    holes, rates, sample_weight, missing, label_mask, missing_label, missing_as
        As in :func:`ranking_loss`.

    Returns
    -------
    float or MetricValue
        Lower is better.

    Examples
    --------
    >>> from dm2l.metrics import hamming_loss
    >>> Y, predictions = [[1, 0], [float("nan"), 1]], [[1, 1], [0, 1]]
    >>> hamming_loss(Y, predictions, holes="observed")  # 1 of 3
    0.3333333333333333
    """
    T, positive = _decisions(Y, predictions, missing, label_mask, missing_label, missing_as)
    T, positive, w = weighted_rows(T, positive, sample_weight)
    if rows := complete_rows(T, positive.astype(np.float64), holes, rates, w):
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
    Y: Any,
    predictions: Any,
    *,
    undefined: Undefined = None,
    return_counts: bool = False,
    holes: Holes = "estimate",
    rates: Any = None,
    sample_weight: Any = None,
    missing: Missing = "ignore",
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: Any = None,
) -> float | MetricValue:
    r"""F1 over all entries together.

    .. math:: \frac{2 TP}{2 TP + FP + FN}

    Undefined (nan with a warning) when nothing is positive and nothing is predicted.

    Parameters
    ----------
    Y, predictions, return_counts
    holes, rates, sample_weight, missing, label_mask, missing_label, missing_as
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
    T, positive = _decisions(Y, predictions, missing, label_mask, missing_label, missing_as)
    T, positive, w = weighted_rows(T, positive, sample_weight)
    if rows := complete_rows(T, positive.astype(np.float64), holes, rates, w):
        return finish(estimated_f1(rows, positive, undefined, macro=False), return_counts)
    twice, total = (v.sum(keepdims=True) for v in _f1(T, positive, w))
    entries = np.array([np.count_nonzero(T)])
    result = average(ratio(twice, total), entries, total > 0, undefined, unit="label matrices")
    return finish(result, return_counts, T)


def f1_macro(
    Y: Any,
    predictions: Any,
    *,
    undefined: Undefined = None,
    return_counts: bool = False,
    holes: Holes = "estimate",
    rates: Any = None,
    sample_weight: Any = None,
    missing: Missing = "ignore",
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: Any = None,
) -> float | MetricValue:
    r"""F1 of each label, averaged over labels.

    .. math:: \frac1c \sum_j \frac{2 TP_j}{2 TP_j + FP_j + FN_j}

    Labels with no observed positive and none predicted are dropped; ``undefined=0.0`` counts them
    as scikit-learn does.

    Parameters
    ----------
    Y, predictions, return_counts
    holes, rates, sample_weight, missing, label_mask, missing_label, missing_as
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
    T, positive = _decisions(Y, predictions, missing, label_mask, missing_label, missing_as)
    T, positive, w = weighted_rows(T, positive, sample_weight)
    if rows := complete_rows(T, positive.astype(np.float64), holes, rates, w):
        return finish(estimated_f1(rows, positive, undefined, macro=True), return_counts)
    twice, total = _f1(T, positive, w)
    entries = np.count_nonzero(T, axis=0)
    result = average(ratio(twice, total), entries, total > 0, undefined, unit="labels")
    return finish(result, return_counts, T)
