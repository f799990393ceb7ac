"""Metrics for predicted labels and for probabilities."""

from dataclasses import replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from dm2l.labels._entries import Signs
from dm2l.metrics import _reading
from dm2l.metrics._complete import cross_fitted_probabilities, observation_rates
from dm2l.metrics._reading import Given, Kind, MetricOptions, MetricValue


@_reading.shows_options
def hamming_loss(y_true: Any, y_pred: Any, **options: Unpack[MetricOptions]) -> float | MetricValue:
    r"""Share of labels whose prediction is wrong.

    .. math:: \frac{1}{|\Omega|} \sum_{(i,j) \in \Omega} [\hat y_{ij} \ne y_{ij}]

    Parameters
    ----------
    y_true : array-like or LabelMatrix of shape (n, c)
        Labels 0/1 or -1/+1, NaN where missing. For other codings and masks, pass a
        :class:`~dm2l.labels.LabelMatrix`.
    y_pred : array-like of shape (n, c)
        Predicted labels 0/1 or -1/+1.
    **options : dict
        As in :func:`ranking_loss`. The metric is defined on every entry. Lower is better.

    Examples
    --------
    >>> from dm2l.metrics import hamming_loss
    >>> Y, y_pred = [[1, 0], [float("nan"), 1]], [[1, 1], [0, 1]]
    >>> hamming_loss(Y, y_pred, estimate=False)  # 1 of 3
    0.3333333333333333
    """
    given = _reading.read_decisions(y_true, y_pred, **options)
    rows, T = given.complete, given.T
    if rows is not None:
        wrong = np.where(given.S[:, rows.seen], 1 - rows.labels, rows.labels).mean(axis=1)
        counted = replace(given, undefined=None, return_counts=True)
        result: Any = counted.estimate(wrong, np.ones(len(wrong)))
        return given.finish(*result._replace(n_units=rows.n_entries))
    wrong = ((T > 0) != given.S)[T != 0].astype(np.float64)
    one_each = np.ones(len(wrong), dtype=np.int64)
    w = None if given.weights is None else np.broadcast_to(given.weights[:, None], T.shape)[T != 0]
    return given.average(wrong, one_each, one_each > 0, unit="entries", weights=w)


@_reading.shows_options
def f1_micro(y_true: Any, y_pred: Any, **options: Unpack[MetricOptions]) -> float | MetricValue:
    r"""F1 score of all entries together (micro average).

    .. math:: \frac{2 TP}{2 TP + FP + FN}

    If no entry is positive or predicted positive, the result is NaN, with a warning. Higher is
    better. See :func:`hamming_loss` for parameters and return value.

    Examples
    --------
    >>> from dm2l.metrics import f1_micro
    >>> f1_micro([[1, 0], [0, 1]], [[1, 1], [0, 1]])
    0.8
    """
    return _f1(_reading.read_decisions(y_true, y_pred, **options), macro=False)


@_reading.shows_options
def f1_macro(y_true: Any, y_pred: Any, **options: Unpack[MetricOptions]) -> float | MetricValue:
    r"""F1 score of each label, averaged over labels (macro average).

    .. math:: \frac1c \sum_j \frac{2 TP_j}{2 TP_j + FP_j + FN_j}

    Labels with neither observed nor predicted positives are dropped; ``undefined=0.0`` counts them
    as 0, as in scikit-learn. Higher is better. See :func:`hamming_loss` for parameters and return
    value.

    Examples
    --------
    >>> from dm2l.metrics import f1_macro
    >>> f1_macro([[1, 0], [0, 1]], [[1, 0], [0, 0]], undefined=0.0)
    0.5
    """
    return _f1(_reading.read_decisions(y_true, y_pred, **options), macro=True)


@_reading.shows_options
def calibrated_log_loss(
    y_true: Any, y_score: Any, **options: Unpack[MetricOptions]
) -> float | MetricValue:
    r"""Log loss of scores after cross-fitted calibration with a logistic curve per label.

    .. math:: -\frac{1}{n c} \sum_{i, j} \log p(y_{ij} \mid f_{ij})

    The curve of a label is fitted without the evaluated rows, and shrunk towards the common curve
    of all labels. With ``estimate=False``, all observed entries have the same weight. Lower is
    better. See :func:`ranking_loss` for parameters and return value.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.metrics import calibrated_log_loss
    >>> scores = np.linspace(-1, 1, 40)[:, None]
    >>> Y = np.where(np.arange(40) % 2 == 0, scores.T > 0, np.nan).T
    >>> calibrated_log_loss(Y, scores) < calibrated_log_loss(Y, np.zeros((40, 1)))
    True
    """
    estimate, rates = options.get("estimate", True), options.get("rates")
    options["estimate"] = False
    given = _reading.read(y_true, y_score, **options)
    T, S, w = given.T, given.S, given.weights
    weights = np.ones(T.shape) if w is None else np.tile(w[:, None], (1, T.shape[1]))
    estimated = estimate and not T.all()
    if estimated and T.any():
        weights = weights / observation_rates(T, rates)[0]
    P = cross_fitted_probabilities(T, S, weights)
    loss = -np.log(np.where(T > 0, P, 1 - P))
    weights = np.where(T != 0, weights, 0.0)
    value, error, total, n = float("nan"), float("nan"), weights.sum(), int(np.count_nonzero(T))
    if total > 0:
        value = float((weights * loss).sum() / total)
        error = _reading.standard_error((weights * (loss - value)).sum(axis=1) / total)
    kind: Kind = "complete" if T.all() else "estimate" if estimated else "observed"
    return given.finish(value, n, n, 0, kind, error)


def f1_parts(
    T: Signs, positive: NDArray[Any], weights: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the numerator and the denominator of the F1 score of each label."""
    w = np.ones((len(T), 1), dtype=np.int64) if weights is None else weights[:, None]
    hit = (w * ((T > 0) & positive)).sum(axis=0)
    wrong = (w * (((T > 0) & ~positive) | ((T < 0) & positive))).sum(axis=0)
    return 2.0 * hit, 2.0 * hit + wrong


def _f1(given: Given, *, macro: bool) -> float | MetricValue:
    """Return the F1 score of observed labels, or an estimate for the complete labels."""
    rows = given.complete
    if rows is None:
        counts: Any = np.count_nonzero(given.T, axis=0)
        parts = (*f1_parts(given.T, given.S, given.weights), counts)
        twice, total, entries = parts if macro else (part.sum(keepdims=True) for part in parts)
        unit = "labels" if macro else "label matrices"
        return given.average(_reading.ratio(twice, total), entries, total > 0, unit=unit)
    predicted = given.S[:, rows.seen].astype(np.float64)
    w = rows.weights[:, None]
    twice = 2 * w * rows.labels * predicted
    total = w * (rows.labels + predicted)
    if not macro:
        twice, total = twice.sum(axis=1, keepdims=True), total.sum(axis=1, keepdims=True)
    shown = np.atleast_1d((rows.T > 0).sum(axis=0 if macro else None))
    said = np.atleast_1d((w * predicted).sum(axis=0 if macro else None))
    right = np.clip(twice.sum(axis=0), 0, 2 * said)
    count = np.maximum(total.sum(axis=0), np.maximum(shown + said, right))
    counts = ((shown > 0) | (said > 0)).astype(np.float64)
    if macro:  # without observed and predicted positives, missing positives make the F1 score 0
        hidden = np.where(rows.T == 0, rows.plain, 0.0)
        counts = np.maximum(counts, 1 - np.prod(1 - hidden, axis=0))
    values = np.divide(right, count, out=np.zeros(len(count)), where=count > 0)
    shares = (twice - values * total) / np.maximum(count, 1e-300)
    return given.estimate_by_label(values, counts, shares)
