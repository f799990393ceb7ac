"""All metrics at once, and a table per label."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from dm2l._utils.arrays import to_numpy
from dm2l.metrics import _at_k, _decisions, _ranking
from dm2l.metrics._complete import complete_rows
from dm2l.metrics._rates import Holes
from dm2l.metrics._units import (
    Convention,
    MetricValue,
    Missing,
    Undefined,
    ratio,
    signs_and_scores,
    weighted_rows,
)


def evaluate(
    Y: Any,
    scores: Any,
    *,
    predictions: Any = None,
    convention: Convention | None = None,
    k: Sequence[int] = (1, 3, 5),
    only: Sequence[str] | None = None,
    undefined: Undefined = None,
    holes: Holes = "estimate",
    rates: Any = None,
    sample_weight: Any = None,
    missing: Missing = "ignore",
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: Any = None,
) -> dict[str, MetricValue]:
    """Evaluate scores with every metric; each value comes with the counts behind it.

    Parameters
    ----------
    Y : array-like of shape (n, c)
        Labels of the contract; NaN = not observed.
    scores : array-like of shape (n, c)
        Higher means more likely.
    predictions : array-like of shape (n, c), default=None
        Decisions; by default ``scores > 0``.
    convention : {None, "paper", "published", "sklearn"}, default=None
        For the ranking metrics; None is the default of each.
    k : sequence of int, default=(1, 3, 5)
        For ``precision_at_k``; values above the number of labels are left out.
    only : sequence of str, default=None
        Names of the measures that are wanted; None for all.
    undefined : {None, "skip", "raise"} or float, default=None
        What to do with undefined rows and labels, in every metric.
    holes, rates, sample_weight, missing, label_mask, missing_label, missing_as
        As in :func:`ranking_loss`.

    Returns
    -------
    dict of str to MetricValue
        A metric that is undefined on all rows or labels is nan here, without a warning: its
        ``n_units`` is 0.

    Examples
    --------
    >>> from dm2l.metrics import evaluate
    >>> result = evaluate([[1, 0], [float("nan"), 1]], [[0.9, -0.1], [0.8, 0.3]])
    >>> result["hamming_loss"].kind, result["hamming_loss"].n_entries
    ('estimate', 3)
    """
    T, S = signs_and_scores(Y, scores, missing, label_mask, missing_label, missing_as)
    T, S, w = weighted_rows(T, S, sample_weight)
    P = S > 0 if predictions is None else predictions
    if predictions is not None and w is not None:
        P = to_numpy(P)[to_numpy(sample_weight) > 0]
    rows = complete_rows(T, S, holes, rates, w)
    common: dict[str, Any] = {
        "missing_label": 0,
        "undefined": undefined,
        "return_counts": True,
        "holes": holes,
        "rates": rates if rows is None else rows,
        "sample_weight": w,
    }
    chosen = {} if convention is None else {"convention": convention}
    ranked = ("ranking_loss", "average_precision", "coverage", "instance_auc", "label_auc")
    result: dict[str, Any] = {}

    def wanted(name: str) -> bool:
        return only is None or name in only

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        for name in filter(wanted, ranked):
            result[name] = getattr(_ranking, name)(T, S, **chosen, **common)
        if wanted("one_error"):
            result["one_error"] = _ranking.one_error(T, S, **common)
        for at in k:
            if at <= T.shape[1] and wanted(f"precision_at_{at}"):
                result[f"precision_at_{at}"] = _at_k.precision_at_k(T, S, at, **common)
        for name in filter(wanted, ("hamming_loss", "f1_micro", "f1_macro")):
            result[name] = getattr(_decisions, name)(T, P, **common)
    return result


def label_table(
    Y: Any,
    scores: Any,
    *,
    predictions: Any = None,
    missing: Missing = "ignore",
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: Any = None,
) -> dict[str, NDArray[Any]]:
    """Counts, AUC and F1 of each label, nan where a label cannot be judged.

    Parameters
    ----------
    Y, scores, predictions, missing, label_mask, missing_label, missing_as
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
    T, S = signs_and_scores(Y, scores, missing, label_mask, missing_label, missing_as)
    P = S > 0 if predictions is None else signs_and_scores(T, predictions, missing_label=0)[1] > 0
    o = _ranking._order(T.T, S.T)
    both = (o.n_positive > 0) & (o.n_negative > 0)
    return {
        "n_observed": o.n_observed,
        "n_positive": o.n_positive,
        "auc": np.where(both, _ranking._auc(o, 0.5), np.nan),
        "f1": ratio(*_decisions._f1(T, P), undefined=np.nan),
    }
