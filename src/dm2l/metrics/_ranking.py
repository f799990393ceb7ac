"""Metrics of the order of scores: per row, or per label for ``label_auc``."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dm2l.labels._entries import Signs
from dm2l.metrics._complete import Array, tie_runs
from dm2l.metrics._reading import (
    Convention,
    Given,
    MetricOptions,
    MetricValue,
    ratio,
    read,
    shows_options,
)

# A tie counts half unless the paper's text is wanted to the letter: there scores that are all the
# same have an AUC of one.
_TIES = {None: 0.5, "paper": 1.0, "published": 0.5, "sklearn": 0.5}
# Examples of the rarer class from which on a label has full weight.
FULL_WEIGHT = 20


@shows_options
def ranking_loss(
    y_true: Any, y_score: Any, *, convention: Convention = "paper", **options: Unpack[MetricOptions]
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
    given = read(y_true, y_score, convention, **options)
    fill = 0.0 if convention == "sklearn" else None
    if given.complete is not None:
        return given.estimate(*given.complete.pairs(0.0), fill)
    o = _Order(given.T, given.S)
    values = ratio(o.sum_over_positives(o.negatives_from), o.n_pairs)
    return given.average(values, o.n_observed, o.n_pairs > 0, fill=fill)


@shows_options
def label_ranking_average_precision(
    y_true: Any, y_score: Any, *, convention: Convention = "paper", **options: Unpack[MetricOptions]
) -> float | MetricValue:
    r"""Average precision of each row's ranking of labels (the paper's Ap).

    .. math:: \frac1p \sum_i \frac1{|C_i^+|} \sum_{j \in C_i^+}
              \frac{|\{l \in C_i^+ : rank(l) \le rank(j)\}|}{rank(j)}

    ``rank`` counts the labels that score at least as high; "published" breaks ties by label
    order, the later label first. Rows without an observed positive are dropped ("paper",
    "published") or count 1 ("sklearn"); rows without an observed negative count 1 by the formula,
    and "published" drops them.

    Higher is better. Arguments and result are those of :func:`ranking_loss`.

    Examples
    --------
    >>> from dm2l.metrics import label_ranking_average_precision
    >>> label_ranking_average_precision([[1, 0, 0], [0, 1, 0]], [[0.9, 0.1, 0.2], [0.8, 0.3, 0.1]])
    0.75
    """
    given = read(y_true, y_score, convention, **options)
    fill = 1.0 if convention == "sklearn" else None
    published = convention == "published"
    if given.complete is not None:
        rows = given.complete.reordered(break_ties=published)
        gained, counted = rows.precision(), rows.some_positive
        if published:  # without those that have no negative, and a precision of 1
            both = rows.pairs(0.0)[1]
            gained, counted = gained - (counted - both), both
        return given.estimate(gained, counted, fill)
    o = _Order(given.T, given.S, break_ties=published)
    rank = np.maximum(o.positives_from + o.negatives_from, 1)
    values = ratio(o.sum_over_positives(o.positives_from / rank), o.n_positive)
    defined = o.n_pairs > 0 if published else o.n_positive > 0
    return given.average(values, o.n_observed, defined, fill=fill)


@shows_options
def coverage_error(
    y_true: Any, y_score: Any, *, convention: Convention = "paper", **options: Unpack[MetricOptions]
) -> float | MetricValue:
    r"""How far down a row's ranking one must go to meet all its positives (the paper's Cvg).

    .. math:: \frac1p \sum_i \max_{j \in C_i^+} rank(j) - 1

    "sklearn" leaves out the ``- 1``; ties as in :func:`label_ranking_average_precision`. Rows
    without an observed positive are dropped ("paper"), count -1 ("published") or 0 ("sklearn").

    Lower is better. Arguments and result are those of :func:`ranking_loss`.

    Examples
    --------
    >>> from dm2l.metrics import coverage_error
    >>> coverage_error([[1, 0, 0], [0, 1, 0]], [[0.9, 0.1, 0.2], [0.8, 0.3, 0.1]])
    0.5
    """
    given = read(y_true, y_score, convention, **options)
    published = convention == "published"
    offset = 0.0 if convention == "sklearn" else 1.0
    fill = {"paper": None, "published": -1.0, "sklearn": 0.0}[convention]
    if given.complete is not None:
        rows = given.complete.reordered(break_ties=published)
        depth, counted = rows.depth(), rows.some_positive
        return given.estimate(depth - offset * counted, counted, fill, given.T.shape[1] - offset)
    o = _Order(given.T, given.S, break_ties=published)
    rank = np.where(o.positive, o.positives_from + o.negatives_from, 0).max(axis=1)
    return given.average(rank - offset, o.n_observed, o.n_positive > 0, fill=fill)


@shows_options
def instance_auc(
    y_true: Any,
    y_score: Any,
    *,
    convention: Convention | None = None,
    **options: Unpack[MetricOptions],
) -> float | MetricValue:
    r"""Area under the ROC curve of each row, averaged over rows.

    .. math:: \frac1p \sum_i \frac{|\{(j', j'') \in C_i^+ \times C_i^- : f_{j'} > f_{j''}\}|
              + t\,|\{f_{j'} = f_{j''}\}|}{|C_i^+| |C_i^-|}

    This is what the paper's tables print as "Auc"; its text defines :func:`label_auc`. A tie
    counts ``t = 1/2``, but 1 in the convention "paper", whose text has a non-strict comparison.
    Rows with one class are dropped (by default and "paper"), count 0 without a positive and 1
    without a negative ("published"), or make the result nan ("sklearn").

    Higher is better. Arguments and result are those of :func:`ranking_loss`.

    Examples
    --------
    >>> from dm2l.metrics import instance_auc
    >>> instance_auc([[1, 0, 0], [0, 1, 0]], [[0.9, 0.1, 0.2], [0.8, 0.3, 0.1]])
    0.75
    """
    given = read(y_true, y_score, convention, **options)
    nan = float("nan") if convention == "sklearn" else None
    published = convention == "published"
    if given.complete is not None:
        wrong, both = given.complete.pairs(_TIES[convention])
        gained, counted = both - wrong, both
        if published and given.undefined is None:
            no_negative = given.complete.some_positive - both
            gained, counted = gained + no_negative, np.ones(len(gained))
        return given.estimate(gained, counted, nan)
    o = _Order(given.T, given.S)
    fill = np.where(o.n_positive > 0, 1.0, 0.0) if published else nan
    return given.average(o.auc(_TIES[convention]), o.n_observed, o.n_pairs > 0, fill=fill)


@shows_options
def label_auc(
    y_true: Any,
    y_score: Any,
    *,
    convention: Convention | None = None,
    **options: Unpack[MetricOptions],
) -> float | MetricValue:
    r"""Area under the ROC curve of each label, averaged over labels (macro).

    .. math:: \frac1c \sum_j \frac{|\{(i', i'') \in Z_j^+ \times Z_j^- : f_j(x_{i'}) >
              f_j(x_{i''})\}| + t\,|\{f_j(x_{i'}) = f_j(x_{i''})\}|}{|Z_j^+| |Z_j^-|}

    A tie counts ``t = 1/2``, but 1 in the convention "paper". Labels with one observed class are
    dropped, but make the result nan in the convention "sklearn".

    Higher is better. Arguments and result are those of :func:`ranking_loss`; the units are labels.

    Examples
    --------
    >>> from dm2l.metrics import label_auc
    >>> label_auc([[1, 0], [0, 1], [0, 0]], [[0.9, 0.1], [0.8, 0.3], [0.1, 0.2]])
    1.0
    """
    given = read(y_true, y_score, convention, **options)
    fill, ties = float("nan") if convention == "sklearn" else None, _TIES[convention]
    if given.complete is not None:
        return _estimated_label_auc(given, ties, fill)
    T, S, w = given.T, given.S, given.weights
    o = _Order(T.T, S.T)
    values = o.auc(ties) if w is None else _weighted_label_auc(T, S, w[:, None], ties)
    return given.average(values, o.n_observed, o.n_pairs > 0, fill=fill, unit="labels")


@shows_options
def one_error(y_true: Any, y_score: Any, **options: Unpack[MetricOptions]) -> float | MetricValue:
    r"""Share of rows in which a negative label reaches the highest score.

    .. math:: \frac1p \sum_i [\exists j \in C_i^- : f_j = \max_l f_l]

    Ties for the first place are errors; rows without an observed positive are dropped.

    Lower is better. Arguments and result are those of :func:`ranking_loss`.

    Examples
    --------
    >>> from dm2l.metrics import one_error
    >>> one_error([[1, 0, 0], [0, 1, 0]], [[0.9, 0.1, 0.2], [0.8, 0.3, 0.1]])
    0.5
    """
    given = read(y_true, y_score, **options)
    if given.complete is not None:
        rows = given.complete
        right = np.where(rows.ties[0] == 0, rows.q, 1.0).prod(axis=1)
        return given.estimate(rows.some_positive - right, rows.some_positive)
    o = _Order(given.T, given.S)
    values = (o.negatives_from[:, 0] > 0).astype(np.float64)
    return given.average(values, o.n_observed, o.n_positive > 0)


def label_discrimination(
    y_true: Any, y_score: Any, **options: Unpack[MetricOptions]
) -> float | MetricValue:
    """How well scores separate the rows of a label: weighted mean of correlation and 2 AUC - 1."""
    # 0 for chance. Neither is squared: rare and difficult labels would get next to no weight.
    options["estimate"] = False
    given = read(y_true, y_score, **options)
    value, weight = _by_label(given)
    seen = np.count_nonzero(given.T, axis=0)
    return given.average(value, seen, weight > 0, unit="labels", weights=weight)


def ranking_and_discrimination(
    y_true: Any, y_score: Any, **options: Unpack[MetricOptions]
) -> float | MetricValue:
    """Mean of :func:`label_ranking_average_precision` and :func:`label_discrimination`."""
    # Each is noisy if labels are missing, and the two err in different places: together they select
    # better hyperparameters (benchmarks/selection.py). Nan where average precision is.
    given = read(y_true, y_score, **options)
    rows: Any = label_ranking_average_precision(replace(given, return_counts=True), None)
    by_label, weight = _by_label(given)
    labels = float(np.average(by_label, weights=weight)) if weight.any() else 0.0
    value = (rows.value + labels) / 2
    return given.finish(*rows._replace(value=value, standard_error=float("nan")))


def _by_label(given: Given) -> tuple[Array, Array]:
    """Discrimination of each label, and its weight: 0 if one class alone is observed."""
    T, S, w = given.T, given.S, given.weights
    weights = np.ones((len(T), 1)) if w is None else w[:, None]
    yes, no = ((weights * side).sum(axis=0) for side in (T > 0, T < 0))
    order = 2 * _weighted_label_auc(T, S, weights, 0.5) - 1
    value = (_correlation(T, S, weights) + order) / 2
    return value, np.minimum(np.minimum(yes, no), FULL_WEIGHT)


def _correlation(T: Signs, S: Array, weights: Array) -> Array:
    """Correlation of each label with its scores, 0 where one of them is constant."""
    known = np.where(T != 0, weights, 0.0)
    total = np.maximum(known.sum(axis=0), 1e-300)
    y, s = (M - (known * M).sum(axis=0) / total for M in (T, S))
    across, own, apart = ((known * M).sum(axis=0) for M in (y * s, s * s, y * y))
    fine = (own > 1e-24) & (apart > 0)
    return np.where(fine, across, 0.0) / np.sqrt(np.where(fine, own * apart, 1.0))


class _Order:
    """Rows sorted by descending score, with counts that respect ties.

    ``positives_from[i, p]`` counts the observed positives of row ``i`` whose score is at least
    that of position ``p``; ``negatives_above`` counts the strictly higher ones only.
    """

    def __init__(self, T: Signs, S: Array, *, break_ties: bool = False) -> None:
        if break_ties:  # the later of two tied labels first, so that no ties remain
            T, S = T[:, ::-1], S[:, ::-1]
        # Missing entries go last; they are neither positive nor negative, so no count sees them.
        key = np.where(T != 0, -S, np.inf)
        order = np.argsort(key, axis=1, kind="stable")
        key, T = (np.take_along_axis(part, order, axis=1) for part in (key, T))
        self.positive, negative = T > 0, T < 0
        positives = np.cumsum(self.positive, axis=1, dtype=np.int64)
        negatives = np.cumsum(negative, axis=1, dtype=np.int64)
        # Counts "at least as high" are read at the end of a run of equal keys.
        start, end = tie_runs(key, break_ties)
        self.positives_from = np.take_along_axis(positives, end, axis=1)
        self.negatives_from = np.take_along_axis(negatives, end, axis=1)
        self.negatives_above = np.take_along_axis(negatives - negative, start, axis=1)
        self.n_positive, self.n_negative = positives[:, -1], negatives[:, -1]
        self.n_observed = self.n_positive + self.n_negative
        self.n_pairs = self.n_positive * self.n_negative

    def sum_over_positives(self, values: NDArray[Any]) -> Array:
        return np.sum(np.where(self.positive, values, 0.0), axis=1)

    def auc(self, ties: float) -> Array:
        """Share of pairs in the right order, and ``ties`` of those with the same score."""
        wrong = ties * self.negatives_above + (1 - ties) * self.negatives_from
        return ratio(self.n_pairs - self.sum_over_positives(wrong), self.n_pairs)


def _labels(T: Signs, S: Array, weights: Array) -> Iterator[tuple[Any, ...]]:
    """Labels with both classes: column, rows by rising scores, these, positives, two weights."""
    weights = np.broadcast_to(weights, T.shape)
    for k in range(T.shape[1]):
        at = np.flatnonzero(T[:, k])
        at = at[np.argsort(S[at, k], kind="stable")]
        weight, yes = weights[at, k], T[at, k] > 0
        if yes.any() and not yes.all():
            w_yes, w_no = np.where(yes, weight, 0.0), np.where(yes, 0.0, weight)
            yield k, at, S[at, k], yes, w_yes, w_no


def _weighted_label_auc(T: Signs, S: Array, weights: Array, ties: float) -> Array:
    """AUC of every label, of weighted observed entries; 0 if one class alone is observed."""
    values = np.zeros(T.shape[1])
    for k, _, scores, _, w_yes, w_no in _labels(T, S, weights):
        below = _below(scores, w_no, ties) / w_no.sum()
        values[k] = (w_yes * below).sum() / w_yes.sum()
    return values


def _estimated_label_auc(given: Given, ties: float, fill: float | None) -> float | MetricValue:
    """Mean AUC of labels, each entry weighted by the inverse of its observation rate."""
    # A label with both classes observed also represents labels without.
    rows: Any = given.complete
    n, c = rows.T.shape
    values, counts, shares = np.zeros(c), np.zeros(c), np.zeros((n, c))
    lone, spreads = [], []
    weights = rows.sample[:, None] / rows.rates
    for k, at, scores, yes, w_yes, w_no in _labels(rows.T, rows.S, weights):
        P, N, m = w_yes.sum(), w_no.sum(), int(yes.sum())
        below = _below(scores, w_no, ties) / N
        above = 1 - _below(scores, w_yes, 1 - ties) / P
        values[k] = (w_yes * below).sum() / P
        counts[k] = _represented(m, rows.sample[at][yes].sum() / P, c)
        shares[at, k] = w_no * (above - values[k]) / N
        if m == 1:
            lone.append((at[yes][0], k))
            continue
        off = (m / (m - 1)) ** 0.5 * (below - values[k])
        shares[at, k] += w_yes * off / P
        spreads.append(float((off[yes] ** 2).mean()))
    for place in lone:  # the spread of a single positive is unknown: use that of other labels
        shares[place] = np.mean(spreads) ** 0.5 if spreads else 0.5
    return given.estimate_by_label(values, counts, shares, fill)


@lru_cache(maxsize=10_000)
def _represented(seen: int, rate: float, n_labels: int) -> float:
    """Number of labels that a label with so many observed positives represents."""
    # A label with P positives shows one with probability 1 - (1 - rate) ** P. The weights of 1, 2,
    # ... observed positives correct for that at every P, as far as the number of labels allows.
    if rate >= 1 or seen > 20:
        return 1.0
    P, m = np.arange(1, 61)[:, None], np.arange(1, 31)
    chance = binom.pmf(m, P, rate)
    often = 1 / P  # rare labels are many
    bias = (often * chance).T @ chance
    noise = np.diag((often * chance).sum(axis=0)) * 3 / n_labels
    missed = ((1 - rate) ** P * often).T @ chance  # what weights of 1 lack
    return float(1 + np.linalg.solve(bias + noise, missed[0])[seen - 1])


def _below(scores: Array, weights: Array, ties: float) -> Array:
    """Weight of lower scores, and a share of that of tied ones; scores are sorted."""
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    low, high = (np.searchsorted(scores, scores, side) for side in ("left", "right"))
    return (1 - ties) * sums[low] + ties * sums[high]
