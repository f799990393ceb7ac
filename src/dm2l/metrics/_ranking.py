"""Metrics of the order of scores: per row, or per label for ``label_auc``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l.labels._entries import Signs
from dm2l.metrics._by_label import estimated_label_auc, weighted_label_auc
from dm2l.metrics._reading import read
from dm2l.metrics._units import (
    Convention,
    MetricValue,
    Undefined,
    average,
    check_convention,
    finish,
    ratio,
    tie_runs,
)

# A tie counts half unless the paper's text is wanted to the letter: there scores that are all the
# same have an AUC of one.
_TIES = {None: 0.5, "paper": 1.0, "published": 0.5, "sklearn": 0.5}


@dataclass(frozen=True)
class _Order:
    """Rows sorted by descending score, with counts that respect ties.

    ``positives_from[i, p]`` counts the observed positives of row ``i`` whose score is at least
    that of position ``p``; ``negatives_above`` counts the strictly higher ones only.
    """

    positive: NDArray[np.bool_]
    positives_from: NDArray[np.int64]
    negatives_from: NDArray[np.int64]
    negatives_above: NDArray[np.int64]
    n_positive: NDArray[np.int64]
    n_negative: NDArray[np.int64]

    @property
    def n_observed(self) -> NDArray[np.int64]:
        return self.n_positive + self.n_negative

    def sum_over_positives(self, values: NDArray[Any]) -> NDArray[np.float64]:
        return np.where(self.positive, values, 0.0).sum(axis=1)


def _order(T: Signs, S: NDArray[np.float64], *, break_ties: bool = False) -> _Order:
    """Sort rows; ``break_ties`` ranks the later of two tied labels first, so that none remain."""
    if break_ties:
        T, S = T[:, ::-1], S[:, ::-1]
    # Missing entries go last; they are neither positive nor negative, so no count sees them.
    key = np.where(T != 0, -S, np.inf)
    order = np.argsort(key, axis=1, kind="stable")
    key = np.take_along_axis(key, order, axis=1)
    sorted_signs = np.take_along_axis(T, order, axis=1)
    positive, negative = sorted_signs > 0, sorted_signs < 0
    up_to_positive = np.cumsum(positive, axis=1, dtype=np.int64)
    up_to_negative = np.cumsum(negative, axis=1, dtype=np.int64)

    # Counts "at least as high" are read at the end of a run of equal keys.
    start, end = tie_runs(key, break_ties)
    above = np.take_along_axis(up_to_negative - negative, start, axis=1)
    return _Order(
        positive=positive,
        positives_from=np.take_along_axis(up_to_positive, end, axis=1),
        negatives_from=np.take_along_axis(up_to_negative, end, axis=1),
        negatives_above=above,
        n_positive=up_to_positive[:, -1],
        n_negative=up_to_negative[:, -1],
    )


def ranking_loss(
    y_true: Any,
    y_score: Any,
    *,
    convention: Convention = "paper",
    undefined: Undefined = None,
    return_counts: bool = False,
    estimate: bool = True,
    rates: Any = None,
    sample_weight: Any = None,
) -> float | MetricValue:
    r"""Share of (positive, negative) pairs of a row in the wrong order (the paper's Rkl).

    .. math:: \frac1p \sum_i \frac{|\{(j', j'') \in C_i^+ \times C_i^- : f_{j'} \le f_{j''}\}|}
              {|C_i^+| |C_i^-|}

    A tie is an error in all three conventions. Rows without an observed positive or without an
    observed negative are dropped ("paper", "published") or count 0 ("sklearn").

    Parameters
    ----------
    y_true : array-like or LabelMatrix of shape (n, c)
        Labels 0/1 or -1/+1, NaN where missing. Other codings and masks:
        :class:`~dm2l.labels.LabelMatrix`.
    y_score : array-like of shape (n, c)
        Scores; higher means more likely.
    convention : {"paper", "published", "sklearn"}, default="paper"
        See above.
    undefined : {None, "skip", "raise"} or float, default=None
        What to do with rows on which the formula divides by zero; None follows the convention.
    return_counts : bool, default=False
        Return a :class:`MetricValue` with the numbers of entries and rows behind the value.
    estimate : bool, default=True
        If labels are missing, estimate the value that the complete labels would give; False: the
        value of the observed labels alone.
    rates : None, array-like or tuple of two, default=None
        Observation rates for the estimate: one number, one per label, one per row (a column) or
        one per entry; a tuple holds those of positives and of negatives. None: estimated from the
        mask, one rate per label, times a factor per row if rows differ by more than chance.
    sample_weight : array-like of shape (n,), default=None
        Weights of rows, >= 0. Rates estimated from the mask ignore them.

    Returns
    -------
    float or MetricValue
        Lower is better.

    Examples
    --------
    >>> from dm2l.metrics import ranking_loss
    >>> ranking_loss([[1, 0, 0], [0, 1, float("nan")]], [[0.9, 0.1, 0.2], [0.8, 0.3, 0.5]])
    0.5
    """
    check_convention(convention)
    T, S, w, rows = read(y_true, y_score, sample_weight, estimate, rates)
    fill = 0.0 if convention == "sklearn" else None
    if rows is not None:
        return finish(rows.settle(*rows.pairs(0.0), undefined, fill=fill), return_counts)
    o = _order(T, S)
    pairs = o.n_positive * o.n_negative
    values = ratio(o.sum_over_positives(o.negatives_from), pairs)
    return finish(
        average(values, o.n_observed, pairs > 0, undefined, fill=fill, weights=w), return_counts, T
    )


def label_ranking_average_precision(
    y_true: Any,
    y_score: Any,
    *,
    convention: Convention = "paper",
    undefined: Undefined = None,
    return_counts: bool = False,
    estimate: bool = True,
    rates: Any = None,
    sample_weight: Any = None,
) -> float | MetricValue:
    r"""Average precision of each row's ranking of labels (the paper's Ap).

    .. math:: \frac1p \sum_i \frac1{|C_i^+|} \sum_{j \in C_i^+}
              \frac{|\{l \in C_i^+ : rank(l) \le rank(j)\}|}{rank(j)}

    ``rank`` counts the labels that score at least as high; "published" breaks ties by label
    order, the later label first. Rows without an observed positive are dropped ("paper",
    "published") or count 1 ("sklearn"); rows without an observed negative count 1 by the formula,
    and "published" drops them.

    Parameters
    ----------
    y_true, y_score, convention, undefined, return_counts
    estimate, rates, sample_weight
        As in :func:`ranking_loss`.

    Returns
    -------
    float or MetricValue
        Higher is better.

    Examples
    --------
    >>> from dm2l.metrics import label_ranking_average_precision
    >>> label_ranking_average_precision([[1, 0, 0], [0, 1, 0]], [[0.9, 0.1, 0.2], [0.8, 0.3, 0.1]])
    0.75
    """
    check_convention(convention)
    T, S, w, rows = read(y_true, y_score, sample_weight, estimate, rates)
    fill = 1.0 if convention == "sklearn" else None
    published = convention == "published"
    if rows is not None:
        rows = rows.reordered(break_ties=published)
        gained, counted = rows.precision(), rows.some_positive
        if published:  # without those that have no negative, and a precision of 1
            both = rows.pairs(0.0)[1]
            gained, counted = gained - (counted - both), both
        return finish(rows.settle(gained, counted, undefined, fill=fill), return_counts)
    o = _order(T, S, break_ties=published)
    rank = np.maximum(o.positives_from + o.negatives_from, 1)
    values = ratio(o.sum_over_positives(o.positives_from / rank), o.n_positive)
    defined = o.n_positive > 0
    if published:
        defined &= o.n_negative > 0
    return finish(
        average(values, o.n_observed, defined, undefined, fill=fill, weights=w), return_counts, T
    )


def coverage_error(
    y_true: Any,
    y_score: Any,
    *,
    convention: Convention = "paper",
    undefined: Undefined = None,
    return_counts: bool = False,
    estimate: bool = True,
    rates: Any = None,
    sample_weight: Any = None,
) -> float | MetricValue:
    r"""How far down a row's ranking one must go to meet all its positives (the paper's Cvg).

    .. math:: \frac1p \sum_i \max_{j \in C_i^+} rank(j) - 1

    "sklearn" leaves out the ``- 1``; ties as in :func:`label_ranking_average_precision`. Rows
    without an observed positive are dropped ("paper"), count -1 ("published") or 0 ("sklearn").

    Parameters
    ----------
    y_true, y_score, convention, undefined, return_counts
    estimate, rates, sample_weight
        As in :func:`ranking_loss`.

    Returns
    -------
    float or MetricValue
        Lower is better.

    Examples
    --------
    >>> from dm2l.metrics import coverage_error
    >>> coverage_error([[1, 0, 0], [0, 1, 0]], [[0.9, 0.1, 0.2], [0.8, 0.3, 0.1]])
    0.5
    >>> coverage_error(
    ...     [[1, 0, 0], [0, 1, 0]], [[0.9, 0.1, 0.2], [0.8, 0.3, 0.1]], convention="sklearn"
    ... )
    1.5
    """
    check_convention(convention)
    T, S, w, rows = read(y_true, y_score, sample_weight, estimate, rates)
    published = convention == "published"
    offset = 0.0 if convention == "sklearn" else 1.0
    fill = {"paper": None, "published": -1.0, "sklearn": 0.0}[convention]
    if rows is not None:
        rows = rows.reordered(break_ties=published)
        depth, counted = rows.depth(), rows.some_positive
        most = T.shape[1] - offset
        result = rows.settle(depth - offset * counted, counted, undefined, fill=fill, most=most)
        return finish(result, return_counts)
    o = _order(T, S, break_ties=published)
    rank = np.where(o.positive, o.positives_from + o.negatives_from, 0).max(axis=1)
    result = average(rank - offset, o.n_observed, o.n_positive > 0, undefined, fill=fill, weights=w)
    return finish(result, return_counts, T)


def _auc(o: _Order, ties: float) -> NDArray[np.float64]:
    wrong = ties * o.negatives_above + (1 - ties) * o.negatives_from
    pairs = o.n_positive * o.n_negative
    return ratio(pairs - o.sum_over_positives(wrong), pairs)


def instance_auc(
    y_true: Any,
    y_score: Any,
    *,
    convention: Convention | None = None,
    undefined: Undefined = None,
    return_counts: bool = False,
    estimate: bool = True,
    rates: Any = None,
    sample_weight: Any = None,
) -> float | MetricValue:
    r"""Area under the ROC curve of each row, averaged over rows.

    .. math:: \frac1p \sum_i \frac{|\{(j', j'') \in C_i^+ \times C_i^- : f_{j'} > f_{j''}\}|
              + t\,|\{f_{j'} = f_{j''}\}|}{|C_i^+| |C_i^-|}

    This is what the paper's tables print as "Auc"; its text defines :func:`label_auc`. A tie
    counts ``t = 1/2``, but 1 in the convention "paper", whose text has a non-strict comparison.
    Rows with one class are dropped (by default and "paper"), count 0 without a positive and 1
    without a negative ("published"), or make the result nan ("sklearn").

    Parameters
    ----------
    y_true, y_score, convention, undefined, return_counts
    estimate, rates, sample_weight
        As in :func:`ranking_loss`.

    Returns
    -------
    float or MetricValue
        Higher is better.

    Examples
    --------
    >>> from dm2l.metrics import instance_auc
    >>> instance_auc([[1, 0, 0], [0, 1, 0]], [[0.9, 0.1, 0.2], [0.8, 0.3, 0.1]])
    0.75
    """
    check_convention(convention)
    T, S, w, rows = read(y_true, y_score, sample_weight, estimate, rates)
    nan = float("nan") if convention == "sklearn" else None
    if rows is not None:
        wrong, both = rows.pairs(_TIES[convention])
        gained, counted = both - wrong, both
        if convention == "published" and undefined is None:
            no_negative = rows.some_positive - both
            gained, counted = gained + no_negative, np.ones(len(T))
        return finish(rows.settle(gained, counted, undefined, fill=nan), return_counts)
    o = _order(T, S)
    fill = np.where(o.n_positive > 0, 1.0, 0.0) if convention == "published" else nan
    defined = o.n_positive * o.n_negative > 0
    values = _auc(o, _TIES[convention])
    return finish(
        average(values, o.n_observed, defined, undefined, fill=fill, weights=w), return_counts, T
    )


def label_auc(
    y_true: Any,
    y_score: Any,
    *,
    convention: Convention | None = None,
    undefined: Undefined = None,
    return_counts: bool = False,
    estimate: bool = True,
    rates: Any = None,
    sample_weight: Any = None,
) -> float | MetricValue:
    r"""Area under the ROC curve of each label, averaged over labels (macro).

    .. math:: \frac1c \sum_j \frac{|\{(i', i'') \in Z_j^+ \times Z_j^- : f_j(x_{i'}) >
              f_j(x_{i''})\}| + t\,|\{f_j(x_{i'}) = f_j(x_{i''})\}|}{|Z_j^+| |Z_j^-|}

    A tie counts ``t = 1/2``, but 1 in the convention "paper". Labels with one observed class are
    dropped, but make the result nan in the convention "sklearn".

    Parameters
    ----------
    y_true, y_score, convention, undefined, return_counts
    estimate, rates, sample_weight
        As in :func:`ranking_loss`; the units are labels.

    Returns
    -------
    float or MetricValue
        Higher is better.

    Examples
    --------
    >>> from dm2l.metrics import label_auc
    >>> label_auc([[1, 0], [0, 1], [0, 0]], [[0.9, 0.1], [0.8, 0.3], [0.1, 0.2]])
    1.0
    """
    check_convention(convention)
    T, S, w, rows = read(y_true, y_score, sample_weight, estimate, rates)
    fill = float("nan") if convention == "sklearn" else None
    if rows is not None:
        result = estimated_label_auc(rows, _TIES[convention], undefined, fill)
        return finish(result, return_counts)
    o = _order(T.T, S.T)
    ties, defined = _TIES[convention], o.n_positive * o.n_negative > 0
    values = _auc(o, ties) if w is None else weighted_label_auc(T, S, w[:, None], ties)
    result = average(values, o.n_observed, defined, undefined, fill=fill, unit="labels")
    return finish(result, return_counts, T)


def one_error(
    y_true: Any,
    y_score: Any,
    *,
    undefined: Undefined = None,
    return_counts: bool = False,
    estimate: bool = True,
    rates: Any = None,
    sample_weight: Any = None,
) -> float | MetricValue:
    r"""Share of rows in which a negative label reaches the highest score.

    .. math:: \frac1p \sum_i [\exists j \in C_i^- : f_j = \max_l f_l]

    Ties for the first place are errors; rows without an observed positive are dropped.

    Parameters
    ----------
    y_true, y_score, undefined, return_counts
    estimate, rates, sample_weight
        As in :func:`ranking_loss`.

    Returns
    -------
    float or MetricValue
        Lower is better.

    Examples
    --------
    >>> from dm2l.metrics import one_error
    >>> one_error([[1, 0, 0], [0, 1, 0]], [[0.9, 0.1, 0.2], [0.8, 0.3, 0.1]])
    0.5
    """
    T, S, w, rows = read(y_true, y_score, sample_weight, estimate, rates)
    if rows is not None:
        right = np.where(rows.ties[0] == 0, rows.q, 1.0).prod(axis=1)
        counted = rows.some_positive
        return finish(rows.settle(counted - right, counted, undefined), return_counts)
    o = _order(T, S)
    values = (o.negatives_from[:, 0] > 0).astype(np.float64)
    return finish(
        average(values, o.n_observed, o.n_positive > 0, undefined, weights=w), return_counts, T
    )
