"""Metrics at ``k``, which evaluate the ``k`` labels with the highest scores in each row."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Unpack

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.arrays import to_numpy
from dm2l._utils.inputs import check_counts
from dm2l.labels._matrix import parse_sparse_labels
from dm2l.labels._parsing import SparseLabelMatrix
from dm2l.metrics._complete import Array, check_propensities
from dm2l.metrics._reading import (
    Given,
    MetricOptions,
    MetricValue,
    given_rows,
    ratio,
    read,
    shows_options,
)


@shows_options
def precision_at_k(
    y_true: Any, y_score: Any, k: int = 1, **options: Unpack[MetricOptions]
) -> float | MetricValue:
    r"""Share of positives among the ``k`` observed labels with the highest scores in each row.

    .. math:: \frac1p \sum_i \frac{|top_k(i) \cap C_i^+|}{\min(k, |C_i^+| + |C_i^-|)}

    Ties are broken by label order. Rows without observed labels are dropped. Higher is better.

    Parameters
    ----------
    y_true : array-like, sparse matrix, LabelMatrix or SparseLabelMatrix of shape (n, c)
        Labels 0/1 or -1/+1, NaN where missing. Sparse labels require a tuple as ``y_score``.
    y_score : array-like of shape (n, c), or tuple (indices, scores) of arrays of shape (n, K)
        Scores of all labels, or the ``K >= k`` best labels of each row with their scores, best
        first, as from ``predict_top_k``. Listed labels that are missing in ``y_true`` are skipped.
    k : int, default=1
        Number of labels to consider in each row.
    **options : dict
        As in :func:`ranking_loss`. If ``y_score`` is a tuple, only observed labels are evaluated.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.metrics import precision_at_k
    >>> precision_at_k([[1, 0, 0], [0, 1, 0]], [[0.9, 0.1, 0.2], [0.8, 0.3, 0.1]], k=2)
    0.5
    >>> best = np.array([[0, 2], [0, 1]]), np.array([[0.9, 0.2], [0.8, 0.3]])
    >>> precision_at_k([[1, 0, 0], [0, 1, 0]], best, k=2)
    0.5
    """
    given = _read(y_true, y_score, k, options)
    if given.complete is not None:
        gained = given.complete.q[:, :k].mean(axis=1)
        return given.estimate(gained, np.ones(len(gained)))
    places = _find_places(given, k)
    values = ratio(places.hits.sum(axis=1), places.count)
    return given.average(values, places.n_observed, places.count > 0)


@shows_options
def ndcg_at_k(
    y_true: Any, y_score: Any, k: int = 1, **options: Unpack[MetricOptions]
) -> float | MetricValue:
    r"""Normalized discounted cumulative gain (nDCG) at ``k``, computed on the observed labels.

    .. math:: \frac1p \sum_i \frac{\sum_{l=1}^{k} [y_{i, r_l} = 1] / \log_2(l + 1)}
              {\sum_{l=1}^{\min(k, |C_i^+|)} 1 / \log_2(l + 1)}

    where ``r_l`` is the observed label with the ``l``-th highest score. Rows without an observed
    positive are dropped; ``undefined=0.0`` counts them as 0, as scikit-learn does. Higher is
    better. See :func:`precision_at_k` for parameters and return value.

    Examples
    --------
    >>> from dm2l.metrics import ndcg_at_k
    >>> round(ndcg_at_k([[1, 0, 0], [0, 1, 0]], [[0.9, 0.1, 0.2], [0.8, 0.3, 0.1]], k=3), 6)
    0.815465
    """
    given = _read(y_true, y_score, k, options)
    if given.complete is not None:
        gains = given.complete.gains(_discounts(min(k, given.complete.q.shape[1])))
        return given.estimate(gains, given.complete.some_positive)
    places = _find_places(given, k)
    discounts = _discounts(places.labels.shape[1])
    best = places.best(np.ones(places.truth.signed.shape[1]), discounts)
    values = ratio(places.hits @ discounts, best)
    return given.average(values, places.n_observed, (best > 0) & (places.count > 0))


@shows_options
def propensity_scored_precision_at_k(
    y_true: Any,
    y_score: Any,
    propensities: Any,
    k: int = 1,
    *,
    normalize: bool = True,
    **options: Unpack[MetricOptions],
) -> float | MetricValue:
    r"""Precision at ``k`` with positives weighted by their inverse propensities.

    .. math:: \mathrm{PSP@}k = \frac1p \sum_i \frac1{k_i}
              \sum_{l=1}^{k} \frac{[y_{i, r_l} = 1]}{p_{r_l}}

    where ``k_i`` is the smaller of ``k`` and the number of observed labels of row ``i``. Rows
    without observed labels are dropped. Higher is better.

    Parameters
    ----------
    y_true, y_score, k, **options
        As in :func:`precision_at_k`, but only observed labels are evaluated. Without observed
        positives, the result is ``undefined`` if this is a number.
    propensities : array-like of shape (c,)
        For each label, the probability that a positive is observed, for example from
        :func:`propensities` of the *training* labels.
    normalize : bool, default=True
        Whether to divide the value by the highest possible value, as in published tables.
        Without normalization, the value may exceed 1.

    Examples
    --------
    >>> from dm2l.metrics import propensity_scored_precision_at_k
    >>> Y = [[1, 0, 1], [0, 1, 0]]
    >>> scores = [[0.9, 0.1, 0.2], [0.1, 0.3, 0.8]]
    >>> propensity_scored_precision_at_k(Y, scores, [0.5, 0.25, 0.1])
    0.14285714285714285
    """
    given = _read(y_true, y_score, k, {**options, "estimate": False})
    return _propensity_scored(given, k, propensities, normalize, np.ones)


@shows_options
def propensity_scored_ndcg_at_k(
    y_true: Any,
    y_score: Any,
    propensities: Any,
    k: int = 1,
    *,
    normalize: bool = True,
    **options: Unpack[MetricOptions],
) -> float | MetricValue:
    r"""Normalized discounted cumulative gain with positives weighted by inverse propensities.

    .. math:: \mathrm{PSnDCG@}k = \frac1p \sum_i \frac{\sum_{l=1}^{k} [y_{i, r_l} = 1] /
              (p_{r_l} \log_2(l + 1))}{\sum_{l=1}^{k} 1 / \log_2(l + 1)}

    Higher is better. See :func:`propensity_scored_precision_at_k` for parameters and return value.

    Examples
    --------
    >>> from dm2l.metrics import propensity_scored_ndcg_at_k
    >>> scores = [[0.9, 0.1, 0.2], [0.1, 0.3, 0.8]]
    >>> propensity_scored_ndcg_at_k([[1, 0, 1], [0, 1, 0]], scores, [0.5, 0.25, 0.1])
    0.14285714285714285
    """
    given = _read(y_true, y_score, k, {**options, "estimate": False})
    return _propensity_scored(given, k, propensities, normalize, _discounts)


def _discounts(k: int) -> Array:
    return np.asarray(1.0 / np.log2(np.arange(2, k + 2)))


def _propensity_scored(
    given: Given, k: int, propensities: Any, normalize: bool, discount: Callable[[int], Array]
) -> float | MetricValue:
    """Return the mean gain of ``k`` labels, relative to its maximum if ``normalize`` is true."""
    places = _find_places(given, k)
    gains = 1.0 / check_propensities(propensities, places.truth.signed.shape[1])
    discounts = discount(places.labels.shape[1])
    total = np.maximum(places.count, 1) if discount is np.ones else discounts.sum()
    gained = np.where(places.hits, gains[places.labels], 0.0) @ discounts / total
    best = places.best(gains, discounts) / total
    defined = places.count > 0
    of_rows = given.undefined if isinstance(given.undefined, str) else None
    counted = replace(given, known=False, undefined=of_rows, return_counts=True)
    result: Any = counted.average(gained, places.n_observed, defined)
    if normalize and result.n_units:
        weights = None if given.weights is None else given.weights[defined]
        most = np.average(best[defined], weights=weights, keepdims=True)
        share, entries = ratio(np.full(1, result.value), most), np.full(1, result.n_entries)
        whole: Any = replace(given, return_counts=True).average(
            share, entries, most > 0, unit="label matrices"
        )
        result = result._replace(value=whole.value)
    return given.finish(*result)


class _Places(NamedTuple):
    """For each row, the ``k`` observed labels with the highest scores, best first."""

    labels: NDArray[np.intp]
    hits: NDArray[np.bool_]
    count: Any  # number of observed labels among the first k
    truth: SparseLabelMatrix
    n_observed: NDArray[np.int64]

    def best(self, gains: Array, discounts: Array) -> Array:
        """Return for each row the highest possible sum of ``k`` discounted gains."""
        stored = self.truth.signed
        positive = stored.data > 0
        rows = np.repeat(np.arange(stored.shape[0]), np.diff(stored.indptr))[positive]
        values = gains[stored.indices[positive]]
        order = np.lexsort((-values, rows))
        rows, values = rows[order], values[order]
        counts = np.bincount(rows, minlength=stored.shape[0])
        place = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        inside = place < len(discounts)
        weights = values[inside] * discounts[place[inside]]
        found = np.bincount(rows[inside], weights=weights, minlength=stored.shape[0])
        return found.astype(np.float64)  # the counts are integers if there is no positive


def _read(y_true: Any, y_score: Any, k: int, options: Any) -> Given:
    """Read labels and scores; a tuple ``y_score`` lists the best labels of each row."""
    check_counts(k=k)
    if not isinstance(y_score, tuple):
        return read(y_true, y_score, **options)
    truth = parse_sparse_labels(y_true, allow_empty=True)
    if truth.missing_as == "unlabelled":
        raise ValueError(
            "y_true has missing_as='unlabelled', but this metric needs observed negatives. Use "
            "missing_as='missing' or missing_as='negative' for entries that are not stored."
        )
    n, c = truth.signed.shape
    listed = _check_list(y_score, n, c)
    k = min(k, c)
    if listed.shape[1] < k:
        width = listed.shape[1]
        raise ValueError(f"y_score must list at least {k} labels per row, got {width}.")
    known = bool((truth.n_observed() == c).all())
    return given_rows(truth, listed, known, **{**options, "estimate": False})


def _find_places(given: Given, k: int) -> _Places:
    """Find in each row the ``k`` observed labels with the highest scores."""
    truth, labels = given.T, given.S
    if isinstance(truth, SparseLabelMatrix):
        signs = truth.at(labels)
    else:
        labels = np.argsort(-given.S, axis=1, kind="stable")
        signs = np.take_along_axis(given.T, labels, axis=1)
        truth = SparseLabelMatrix(sp.csr_array(given.T.astype(np.float64)), "missing", dense=True)
    # A stable sort by "is missing" moves observed labels to the front and keeps their order.
    order = np.argsort(signs == 0, axis=1, kind="stable")[:, :k]
    labels, signs = (np.take_along_axis(part, order, axis=1) for part in (labels, signs))
    return _Places(labels, signs > 0, (signs != 0).sum(axis=1), truth, truth.n_observed())


def _check_list(scores: tuple[Any, ...], n: int, c: int) -> NDArray[np.intp]:
    if len(scores) != 2:
        raise ValueError(
            f"If y_score is a tuple, it must be a pair (indices, scores), got {len(scores)} "
            "elements."
        )
    labels, values = (np.asarray(to_numpy(part)) for part in scores)
    if labels.ndim != 2 or len(labels) != n or labels.shape != values.shape:
        raise ValueError(
            f"The indices and the scores in y_score must have {n} rows and the same shape, got "
            f"shapes {labels.shape} and {values.shape}."
        )
    wanted = f"indices must be column numbers of y_true: integers from 0 to {c - 1}"
    if labels.dtype.kind not in "iu":
        raise ValueError(f"y_score has indices of type {labels.dtype}, but {wanted}.")
    outside = np.argwhere((labels < 0) | (labels >= c))
    if len(outside):
        row, column = outside[0]
        raise ValueError(f"y_score has the index {labels[row, column]} in row {row}, but {wanted}.")
    unsorted = np.isnan(values).any(axis=1) | (np.diff(values, axis=1) > 0).any(axis=1)
    if unsorted.any():
        what = f"The scores in row {unsorted.argmax()} of y_score contain NaN or are not sorted."
        raise ValueError(f"{what} Remove NaN, and sort the scores of each row in descending order.")
    ordered = np.sort(labels, axis=1)
    twice = np.argwhere(ordered[:, 1:] == ordered[:, :-1])
    if len(twice):
        row, column = twice[0]
        label = ordered[row, column]
        raise ValueError(f"y_score lists label {label} twice in row {row}; list each label once.")
    return labels.astype(np.intp)
