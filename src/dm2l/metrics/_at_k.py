"""Metrics of the first ``k`` places, from all scores or from a list of the best labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from dm2l.metrics._places import Places, check_k, find_places, read_ranking
from dm2l.metrics._propensities import check_propensities
from dm2l.metrics._reading import Given
from dm2l.metrics._units import MetricValue, Undefined, average, finish, ratio

Array = NDArray[np.float64]


def precision_at_k(
    y_true: Any,
    y_score: Any,
    k: int = 1,
    *,
    undefined: Undefined = None,
    return_counts: bool = False,
    estimate: bool = True,
    rates: Any = None,
    sample_weight: Any = None,
) -> float | MetricValue:
    r"""Share of positives among the ``k`` best observed labels of a row.

    .. math:: \frac1p \sum_i \frac{|top_k(i) \cap C_i^+|}{\min(k, |C_i^+| + |C_i^-|)}

    Ties are broken by label order. Rows with nothing observed are dropped.

    Parameters
    ----------
    y_true : array-like, sparse matrix, LabelMatrix or SparseLabelMatrix of shape (n, c)
        Labels 0/1 or -1/+1, NaN where missing. With a list of labels, sparse ones stay sparse.
    y_score : array-like of shape (n, c), or tuple (indices, scores) of arrays of shape (n, K)
        Scores; or a list of the ``K >= k`` best labels of each row, best first, as
        ``predict_top_k`` returns it. Missing labels of a list are skipped. If fewer than ``k``
        labels of a list are observed, the sum is divided by their number; rows without any are
        dropped.
    k : int, default=1
        Number of labels.
    undefined : {None, "skip", "raise"} or float, default=None
        What to do with rows on which the formula divides by zero.
    return_counts : bool, default=False
        Return a :class:`MetricValue` with the numbers of entries and rows behind the value.
    estimate, rates, sample_weight
        As in :func:`ranking_loss`. A list is always evaluated on observed labels alone.

    Returns
    -------
    float or MetricValue
        Higher is better.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from dm2l.labels import SparseLabelMatrix
    >>> from dm2l.metrics import precision_at_k
    >>> precision_at_k([[1, 0, 0], [0, 1, 0]], [[0.9, 0.1, 0.2], [0.8, 0.3, 0.1]], k=2)
    0.5
    >>> best = np.array([[0, 2], [0, 1]]), np.array([[0.9, 0.2], [0.8, 0.3]])
    >>> Y = sp.csr_array([[1, 0, 0], [0, 1, 0]])
    >>> precision_at_k(SparseLabelMatrix.from_array(Y, missing_as="negative"), best, k=2)
    0.5
    """
    check_k(k)
    given = read_ranking(y_true, y_score, sample_weight, estimate, rates)
    if isinstance(given, Given) and given.complete is not None:
        rows = given.complete
        gained = rows.q[:, :k].mean(axis=1)
        return finish(rows.settle(gained, np.ones(len(gained)), undefined), return_counts)
    places = find_places(given, k)
    values = ratio(places.hits.sum(axis=1), places.count)
    result = average(
        values, places.truth.n_observed(), places.count > 0, undefined, weights=places.weights
    )
    return finish(result, return_counts, places.complete)


def ndcg_at_k(
    y_true: Any,
    y_score: Any,
    k: int = 1,
    *,
    undefined: Undefined = None,
    return_counts: bool = False,
    estimate: bool = True,
    rates: Any = None,
    sample_weight: Any = None,
) -> float | MetricValue:
    r"""Discounted gain of the ``k`` best observed labels, over the most there could be.

    .. math:: \frac1p \sum_i \frac{\sum_{l=1}^{k} [y_{i, r_l} = 1] / \log_2(l + 1)}
              {\sum_{l=1}^{\min(k, |C_i^+|)} 1 / \log_2(l + 1)}

    with ``r_l`` the label at place ``l`` among the observed ones. Ties are broken by label order.
    Rows without an observed positive are dropped; ``undefined=0.0`` counts them as scikit-learn
    does.

    Parameters
    ----------
    y_true, y_score, k, undefined, return_counts
    estimate, rates, sample_weight
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
    given = read_ranking(y_true, y_score, sample_weight, estimate, rates)
    if isinstance(given, Given) and given.complete is not None:
        rows = given.complete
        gains = rows.gains(_discounts(min(k, rows.q.shape[1])))
        return finish(rows.settle(gains, rows.some_positive, undefined), return_counts)
    places = find_places(given, k)
    discounts = _discounts(places.labels.shape[1])
    gained = places.hits @ discounts
    best = places.best(np.ones(places.truth.signed.shape[1]), discounts)
    defined = (best > 0) & (places.count > 0)
    result = average(
        ratio(gained, best), places.truth.n_observed(), defined, undefined, weights=places.weights
    )
    return finish(result, return_counts, places.complete)


def propensity_scored_precision_at_k(
    y_true: Any,
    y_score: Any,
    propensities: Any,
    k: int = 1,
    *,
    normalize: bool = True,
    undefined: Undefined = None,
    return_counts: bool = False,
    sample_weight: Any = None,
) -> float | MetricValue:
    r"""Precision at ``k`` in which a positive has the inverse of its propensity as a weight.

    .. math:: \mathrm{PSP@}k = \frac1p \sum_i \frac1{k_i}
              \sum_{l=1}^{k} \frac{[y_{i, r_l} = 1]}{p_{r_l}}

    with ``k_i = min(k, observed labels)``, over the same sum for the best possible order unless
    ``normalize=False``. Rows without any observed label are dropped.

    Parameters
    ----------
    y_true, y_score, k, return_counts, sample_weight
        As in :func:`precision_at_k`.
    propensities : array-like of shape (c,)
        Probability that a positive was marked: :func:`propensities` of the *training* labels.
    normalize : bool, default=True
        Divide by the value of the best possible order on the same rows (sum over sum), as
        published tables do. False: the value may exceed 1.
    undefined : {None, "skip", "raise"} or float, default=None
        A number replaces an undefined result, if no row has an observed positive.

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
    check_k(k)
    places = find_places(read_ranking(y_true, y_score, sample_weight, estimate=False), k)
    gains = 1.0 / check_propensities(propensities, places.truth.signed.shape[1])
    share = 1.0 / np.maximum(places.count, 1)
    gained = np.where(places.hits, gains[places.labels], 0.0).sum(axis=1) * share
    best = places.best(gains, np.ones(places.labels.shape[1])) * share
    result = _over_best(places, gained, best, normalize, undefined)
    return finish(result, return_counts)


def propensity_scored_ndcg_at_k(
    y_true: Any,
    y_score: Any,
    propensities: Any,
    k: int = 1,
    *,
    normalize: bool = True,
    undefined: Undefined = None,
    return_counts: bool = False,
    sample_weight: Any = None,
) -> float | MetricValue:
    r"""Discounted gain in which a positive has the inverse of its propensity as a weight.

    .. math:: \mathrm{PSnDCG@}k = \frac1p \sum_i \frac{\sum_{l=1}^{k} [y_{i, r_l} = 1] /
              (p_{r_l} \log_2(l + 1))}{\sum_{l=1}^{k} 1 / \log_2(l + 1)}

    over the same sum for the best possible order unless ``normalize=False``.

    Parameters
    ----------
    y_true, y_score, propensities, k, normalize, undefined, return_counts, sample_weight
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
    check_k(k)
    places = find_places(read_ranking(y_true, y_score, sample_weight, estimate=False), k)
    gains = 1.0 / check_propensities(propensities, places.truth.signed.shape[1])
    discounts = _discounts(places.labels.shape[1])
    gained = np.where(places.hits, gains[places.labels], 0.0) @ discounts / discounts.sum()
    best = places.best(gains, discounts) / discounts.sum()
    result = _over_best(places, gained, best, normalize, undefined)
    return finish(result, return_counts)


def _discounts(k: int) -> Array:
    return np.asarray(1.0 / np.log2(np.arange(2, k + 2)))


def _over_best(
    places: Places,
    gained: Array,
    best: Array,
    normalize: bool,
    undefined: Undefined,
) -> MetricValue:
    """Mean gain, or its ratio to the mean of the best one."""
    weights = places.weights
    rows = undefined if isinstance(undefined, str) else None
    observed, defined = places.truth.n_observed(), places.count > 0
    result = average(gained, observed, defined, rows, weights=weights)
    if not normalize or not result.n_units:
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
