"""Metrics of the first ``k`` places, from all scores or from a list of the best labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from dm2l.metrics._complete import CompleteRows, complete_rows
from dm2l.metrics._places import Places, check_k, find_places
from dm2l.metrics._propensities import check_propensities
from dm2l.metrics._rates import Holes, check_holes
from dm2l.metrics._units import (
    MetricValue,
    Missing,
    Undefined,
    average,
    checked_rows,
    finish,
    ratio,
    signs_and_scores,
    weighted_rows,
)

Array = NDArray[np.float64]


def precision_at_k(
    Y: Any,
    scores: Any,
    k: int = 1,
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
    r"""Share of positives among the ``k`` best observed labels of a row.

    .. math:: \frac1p \sum_i \frac{|top_k(i) \cap C_i^+|}{\min(k, |C_i^+| + |C_i^-|)}

    Ties are broken by label order. Rows with nothing observed are dropped.

    Parameters
    ----------
    Y : array-like or sparse matrix of shape (n, c)
        Labels of the contract; NaN = not observed. With a list of labels a sparse ``Y`` stays
        sparse.
    scores : array-like of shape (n, c), or tuple (indices, scores) of arrays of shape (n, K)
        Higher means more likely; or the ``K >= k`` best labels of each row, best first, as
        ``predict_top_k`` gives them. An unjudged label of a list takes no place. Where a list
        holds fewer judged labels than the formula asks for, it is divided by as many as there are;
        a row of whose list nothing is judged is dropped.
    k : int, default=1
        How many labels to look at.
    undefined : {None, "skip", "raise"} or float, default=None
        What to do with rows on which the formula divides by zero.
    return_counts : bool, default=False
        Return a :class:`MetricValue` that says how many entries and rows were used.
    holes, rates, sample_weight, missing, label_mask, missing_label, missing_as
        As in :func:`ranking_loss`. Of a list, observed labels alone are judged.

    Returns
    -------
    float or MetricValue
        Higher is better.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from dm2l.metrics import precision_at_k
    >>> precision_at_k([[1, 0, 0], [0, 1, 0]], [[0.9, 0.1, 0.2], [0.8, 0.3, 0.1]], k=2)
    0.5
    >>> best = np.array([[0, 2], [0, 1]]), np.array([[0.9, 0.2], [0.8, 0.3]])
    >>> Y = sp.csr_array([[1, 0, 0], [0, 1, 0]])
    >>> precision_at_k(Y, best, k=2, missing_as="negative")
    0.5
    """
    check_k(k)
    reading = missing, label_mask, missing_label, missing_as
    if rows := _rows(Y, scores, holes, rates, sample_weight, *reading):
        gained = rows.q[:, :k].mean(axis=1)
        return finish(rows.settle(gained, np.ones(len(gained)), undefined), return_counts)
    places = find_places(Y, scores, k, *reading)
    values = ratio(places.hits.sum(axis=1), places.count)
    w = checked_rows(sample_weight, len(values))
    result = average(values, places.truth.n_observed(), places.count > 0, undefined, weights=w)
    return finish(result, return_counts, places.complete)


def ndcg_at_k(
    Y: Any,
    scores: Any,
    k: int = 1,
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
    r"""Discounted gain of the ``k`` best observed labels, over the most there could be.

    .. math:: \frac1p \sum_i \frac{\sum_{l=1}^{k} [y_{i, r_l} = 1] / \log_2(l + 1)}
              {\sum_{l=1}^{\min(k, |C_i^+|)} 1 / \log_2(l + 1)}

    with ``r_l`` the label at place ``l`` among the judged ones. Ties are broken by label order.
    Rows without an observed positive are dropped; ``undefined=0.0`` counts them as scikit-learn
    does.

    Parameters
    ----------
    Y, scores, k, undefined, return_counts
    holes, rates, sample_weight, missing, label_mask, missing_label, missing_as
        As in :func:`precision_at_k`.

    Returns
    -------
    float or MetricValue
        Higher is better; 1 where positives fill the first places.

    Examples
    --------
    >>> from dm2l.metrics import ndcg_at_k
    >>> round(ndcg_at_k([[1, 0, 0], [0, 1, 0]], [[0.9, 0.1, 0.2], [0.8, 0.3, 0.1]], k=3), 6)
    0.815465
    """
    check_k(k)
    reading = missing, label_mask, missing_label, missing_as
    if rows := _rows(Y, scores, holes, rates, sample_weight, *reading):
        gains = rows.gains(_discounts(min(k, rows.q.shape[1])))
        return finish(rows.settle(gains, rows.some_positive, undefined), return_counts)
    places = find_places(Y, scores, k, *reading)
    discounts = _discounts(places.labels.shape[1])
    gained = places.hits @ discounts
    best = places.best(np.ones(places.truth.signed.shape[1]), discounts)
    defined = (best > 0) & (places.count > 0)
    w = checked_rows(sample_weight, len(gained))
    result = average(ratio(gained, best), places.truth.n_observed(), defined, undefined, weights=w)
    return finish(result, return_counts, places.complete)


def propensity_scored_precision_at_k(
    Y: Any,
    scores: Any,
    propensities: Any,
    k: int = 1,
    *,
    normalise: bool = True,
    undefined: Undefined = None,
    return_counts: bool = False,
    sample_weight: Any = None,
    missing: Missing = "ignore",
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: Any = None,
) -> float | MetricValue:
    r"""Precision in which a positive counts for all those of its label that were not marked.

    .. math:: \mathrm{PSP@}k = \frac1p \sum_i \frac1{k_i}
              \sum_{l=1}^{k} \frac{[y_{i, r_l} = 1]}{p_{r_l}}

    with ``k_i = min(k, observed labels)``, over the same sum for the best possible order unless
    ``normalise=False``. Rows of which nothing is judged are dropped.

    Parameters
    ----------
    Y, scores, k, return_counts, sample_weight, missing, label_mask, missing_label, missing_as
        As in :func:`precision_at_k`.
    propensities : array-like of shape (c,)
        Chance that a positive was marked: from :func:`propensities` of the *training* labels.
    normalise : bool, default=True
        Whether to divide by what the best possible order reaches on the same rows (sum over sum),
        as published tables do. Without, the value may exceed 1.
    undefined : {None, "skip", "raise"} or float, default=None
        A number takes the place of an undefined result, that of labels without a positive.

    Returns
    -------
    float or MetricValue
        Higher is better.

    Examples
    --------
    >>> from dm2l.metrics import propensity_scored_precision_at_k
    >>> Y = [[1, 0, 1], [0, 1, 0]]
    >>> scores = [[0.9, 0.1, 0.2], [0.1, 0.3, 0.8]]
    >>> propensity_scored_precision_at_k(Y, scores, [0.5, 0.25, 0.1])
    0.14285714285714285
    """
    places = find_places(Y, scores, k, missing, label_mask, missing_label, missing_as)
    gains = 1.0 / check_propensities(propensities, places.truth.signed.shape[1])
    share = 1.0 / np.maximum(places.count, 1)
    gained = np.where(places.hits, gains[places.labels], 0.0).sum(axis=1) * share
    best = places.best(gains, np.ones(places.labels.shape[1])) * share
    w = checked_rows(sample_weight, len(gained))
    result = _over_best(places, gained, best, normalise, undefined, w)
    return finish(result, return_counts)


def propensity_scored_ndcg_at_k(
    Y: Any,
    scores: Any,
    propensities: Any,
    k: int = 1,
    *,
    normalise: bool = True,
    undefined: Undefined = None,
    return_counts: bool = False,
    sample_weight: Any = None,
    missing: Missing = "ignore",
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: Any = None,
) -> float | MetricValue:
    r"""Discounted gain in which a positive counts for all of its label that were not marked.

    .. math:: \mathrm{PSnDCG@}k = \frac1p \sum_i \frac{\sum_{l=1}^{k} [y_{i, r_l} = 1] /
              (p_{r_l} \log_2(l + 1))}{\sum_{l=1}^{k} 1 / \log_2(l + 1)}

    over the same sum for the best possible order unless ``normalise=False``.

    Parameters
    ----------
    Y, scores, propensities, k, normalise, undefined, return_counts
    sample_weight, missing, label_mask, missing_label, missing_as
        As in :func:`propensity_scored_precision_at_k`.

    Returns
    -------
    float or MetricValue
        Higher is better.

    Examples
    --------
    >>> from dm2l.metrics import propensity_scored_ndcg_at_k
    >>> Y = [[1, 0, 1], [0, 1, 0]]
    >>> scores = [[0.9, 0.1, 0.2], [0.1, 0.3, 0.8]]
    >>> round(propensity_scored_ndcg_at_k(Y, scores, [0.5, 0.25, 0.1], k=2), 6)
    0.70981
    """
    places = find_places(Y, scores, k, missing, label_mask, missing_label, missing_as)
    gains = 1.0 / check_propensities(propensities, places.truth.signed.shape[1])
    discounts = _discounts(places.labels.shape[1])
    gained = np.where(places.hits, gains[places.labels], 0.0) @ discounts / discounts.sum()
    best = places.best(gains, discounts) / discounts.sum()
    w = checked_rows(sample_weight, len(gained))
    result = _over_best(places, gained, best, normalise, undefined, w)
    return finish(result, return_counts)


def _rows(
    Y: Any, scores: Any, holes: Holes, rates: Any, sample_weight: Any, *reading: Any
) -> CompleteRows | None:
    check_holes(holes)
    if isinstance(scores, tuple):
        return None
    T, S, w = weighted_rows(*signs_and_scores(Y, scores, *reading), sample_weight)
    return complete_rows(T, S, holes, rates, w)


def _discounts(k: int) -> Array:
    return np.asarray(1.0 / np.log2(np.arange(2, k + 2)))


def _over_best(
    places: Places,
    gained: Array,
    best: Array,
    normalise: bool,
    undefined: Undefined,
    weights: Array | None,
) -> MetricValue:
    """Mean gain, or its ratio to the mean of the best one."""
    rows = undefined if isinstance(undefined, str) else None
    observed, defined = places.truth.n_observed(), places.count > 0
    result = average(gained, observed, defined, rows, weights=weights)
    if not normalise or not result.n_units:
        return result
    use = defined & (observed > 0)
    most = float(np.average(best[use], weights=None if weights is None else weights[use]))
    if most > 0:
        return result._replace(value=result.value / most)
    if undefined == "raise":
        raise ValueError("The metric is undefined: no row has an observed positive.")
    if undefined is not None and not isinstance(undefined, str):
        return result._replace(value=float(undefined))
    warnings.warn(
        "The metric is undefined: no row has an observed positive; the result is nan.",
        UndefinedMetricWarning,
        stacklevel=3,
    )
    return result._replace(value=float("nan"))
