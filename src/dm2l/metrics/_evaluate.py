"""All metrics at once, and a table per label."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from dm2l._utils.arrays import to_numpy
from dm2l.labels._matrix import LabelMatrix
from dm2l.metrics import _at_k, _decisions, _ranking
from dm2l.metrics._reading import read, read_decisions
from dm2l.metrics._units import Convention, MetricValue, Undefined, ratio

_RANKING = (
    "ranking_loss",
    "label_ranking_average_precision",
    "coverage_error",
    "instance_auc",
    "label_auc",
)


def evaluate(
    y_true: Any,
    y_score: Any,
    *,
    y_pred: Any = None,
    convention: Convention | None = None,
    k: Sequence[int] = (1, 3, 5),
    only: Sequence[str] | None = None,
    undefined: Undefined = None,
    estimate: bool = True,
    rates: Any = None,
    sample_weight: Any = None,
) -> dict[str, MetricValue]:
    """Evaluate scores with every metric; each value comes with the counts behind it.

    Parameters
    ----------
    y_true : array-like or LabelMatrix of shape (n, c)
        Labels 0/1 or -1/+1, NaN where missing.
    y_score : array-like of shape (n, c)
        Scores; higher means more likely.
    y_pred : array-like of shape (n, c), default=None
        Decisions; by default ``y_score > 0``.
    convention : {None, "paper", "published", "sklearn"}, default=None
        For the ranking metrics; None is the default of each.
    k : sequence of int, default=(1, 3, 5)
        For ``precision_at_k``; values above the number of labels are left out.
    only : sequence of str, default=None
        Names of the metrics to compute; None for all.
    undefined : {None, "skip", "raise"} or float, default=None
        What to do with undefined rows and labels, in every metric.
    estimate, rates, sample_weight
        As in :func:`ranking_loss`.

    Returns
    -------
    dict of str to MetricValue
        A metric that is undefined on all rows or labels is nan, without a warning: its ``n_units``
        is 0.

    Examples
    --------
    >>> from dm2l.metrics import evaluate
    >>> result = evaluate([[1, 0], [float("nan"), 1]], [[0.9, -0.1], [0.8, 0.3]])
    >>> result["hamming_loss"].kind, result["hamming_loss"].n_entries
    ('estimate', 3)
    """
    given = read(y_true, y_score, sample_weight, estimate, rates)
    if y_pred is None:
        P = given.S > 0
    else:
        P = (
            to_numpy(y_pred)
            if sample_weight is None
            else to_numpy(y_pred)[to_numpy(sample_weight) > 0]
        )
        P = read_decisions(LabelMatrix.of_signs(given.T), P, estimate=False).S
    common: dict[str, Any] = {"undefined": undefined, "return_counts": True}
    chosen = {} if convention is None else {"convention": convention}
    result: dict[str, Any] = {}

    def wanted(name: str) -> bool:
        return only is None or name in only

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        for name in filter(wanted, _RANKING):
            result[name] = getattr(_ranking, name)(given, None, **chosen, **common)
        if wanted("one_error"):
            result["one_error"] = _ranking.one_error(given, None, **common)
        for at in k:
            if at <= given.T.shape[1] and wanted(f"precision_at_{at}"):
                result[f"precision_at_{at}"] = _at_k.precision_at_k(given, None, at, **common)
        for name in filter(wanted, ("hamming_loss", "f1_micro", "f1_macro")):
            result[name] = getattr(_decisions, name)(given, P, **common)
    return result


def label_table(y_true: Any, y_score: Any, *, y_pred: Any = None) -> dict[str, NDArray[Any]]:
    """Counts, AUC and F1 of each label, nan where a label cannot be evaluated.

    Parameters
    ----------
    y_true, y_score, y_pred
        As in :func:`evaluate`.

    Returns
    -------
    dict of str to ndarray of shape (c,)
        ``n_observed``, ``n_positive``, ``auc``, ``f1``; ready for ``pandas.DataFrame``.

    Examples
    --------
    >>> from dm2l.metrics import label_table
    >>> table = label_table(
    ...     [[1, 0], [0, 0], [float("nan"), 0]], [[0.9, 0.1], [-0.8, 0.3], [0.1, -0.2]]
    ... )
    >>> table["n_observed"], table["auc"]
    (array([2, 3]), array([ 1., nan]))
    """
    T, S, *_ = read(y_true, y_score, estimate=False)
    P = S > 0
    if y_pred is not None:
        P = read(LabelMatrix.of_signs(T), y_pred, estimate=False).S > 0
    o = _ranking._order(T.T, S.T)
    both = (o.n_positive > 0) & (o.n_negative > 0)
    return {
        "n_observed": o.n_observed,
        "n_positive": o.n_positive,
        "auc": np.where(both, _ranking._auc(o, 0.5), np.nan),
        "f1": ratio(*_decisions._f1(T, P), undefined=np.nan),
    }
