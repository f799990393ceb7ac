"""Metrics for the ranking of labels in each row, or of rows for each label."""

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

# A tied pair counts one half. In the paper's text it counts one, so constant scores have AUC one.
_TIES = {None: 0.5, "paper": 1.0, "published": 0.5, "sklearn": 0.5}
FULL_WEIGHT = 20  # a label with so many observed entries of its rarer class has full weight


@shows_options
def ranking_loss(
    y_true: Any, y_score: Any, *, convention: Convention = "paper", **options: Unpack[MetricOptions]
) -> float | MetricValue:
    r"""Share of misranked (positive, negative) label pairs, averaged over rows (the paper's Rkl).

    .. math:: \frac1p \sum_i \frac{|\{(j', j'') \in C_i^+ \times C_i^- : f_{j'} \le f_{j''}\}|}
              {|C_i^+| |C_i^-|}

    All three conventions count a tie as misranked. Rows without observed positives or without
    observed negatives are dropped ("paper", "published") or count 0 ("sklearn").

    Parameters
    ----------
    y_true : array-like or LabelMatrix of shape (n, c)
        Labels 0/1 or -1/+1, NaN where missing. For other codings and masks, pass a
        :class:`~dm2l.labels.LabelMatrix`.
    y_score : array-like of shape (n, c)
        Scores; a higher score means that the label is more likely positive.
    convention : {"paper", "published", "sklearn"}, default="paper"
        Treatment of ties and of undefined rows, as described above.
    undefined : {None, "skip", "raise"} or float, default=None
        Treatment of rows for which the formula divides by zero: skip them, raise an error, or use
        the given number as their value. With None, ``convention`` determines the treatment.
    return_counts : bool, default=False
        Whether to return a :class:`MetricValue`, which contains the numbers of entries and rows.
    estimate : bool, default=True
        If labels are missing, estimate the value that the complete labels would give. False
        evaluates only the observed labels.
    rates : None, array-like or tuple of two, default=None
        Probabilities that entries are observed: one number, or one per label, per row (as a column)
        or per entry. A tuple contains the rates of positives and of negatives. If None, rates are
        estimated from the mask per label, and also per row if rows differ by more than chance.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights of rows. Rates are estimated from the mask without weights.

    Returns
    -------
    float or MetricValue
        The ranking loss; lower is better.

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
    r"""Average precision of the label ranking of a row, averaged over rows (the paper's Ap).

    .. math:: \frac1p \sum_i \frac1{|C_i^+|} \sum_{j \in C_i^+}
              \frac{|\{l \in C_i^+ : rank(l) \le rank(j)\}|}{rank(j)}

    ``rank`` is the number of labels with at least the same score; "published" breaks ties by label
    order, with the later label first. Rows without observed positives are dropped ("paper",
    "published") or count 1 ("sklearn"). Rows without observed negatives count 1, except that
    "published" drops them. Higher is better. See :func:`ranking_loss` for parameters and return
    value.

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
        if published:  # rows without negatives, whose precision is 1, are dropped
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
    r"""Rank of the lowest-ranked positive minus 1, averaged over rows (the paper's Cvg).

    .. math:: \frac1p \sum_i \max_{j \in C_i^+} rank(j) - 1

    "sklearn" does not subtract 1. Ties are treated as in :func:`label_ranking_average_precision`.
    Rows without observed positives are dropped ("paper"), count -1 ("published") or 0 ("sklearn").

    Lower is better. See :func:`ranking_loss` for parameters and return value.

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

    The paper's tables print this value as "Auc", but its text defines :func:`label_auc`. A tie
    counts ``t = 1/2``; in the convention "paper" it counts 1, as in the paper's text. Rows with one
    observed class are dropped (by default and "paper"), count 0 without positives and 1 without
    negatives ("published"), or make the result NaN ("sklearn").

    Higher is better. See :func:`ranking_loss` for parameters and return value.

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

    A tie counts ``t = 1/2``; in the convention "paper" it counts 1. Labels with one observed class
    are dropped; in the convention "sklearn" they make the result NaN. Higher is better. See
    :func:`ranking_loss` for parameters and return value. The mean is over labels, not over rows.

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
    r"""Share of rows in which a negative label has the highest score.

    .. math:: \frac1p \sum_i [\exists j \in C_i^- : f_j = \max_l f_l]

    A tie for the highest score counts as an error. Rows without observed positives are dropped.
    Lower is better. See :func:`ranking_loss` for parameters and return value.

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


def label_discrimination(y_true: Any, y_score: Any, **options: Any) -> float | MetricValue:
    """Weighted mean over labels of (correlation + 2 AUC - 1) / 2; 0 for random scores."""
    # Neither term is squared, because squares would give rare and difficult labels no influence.
    options["estimate"] = False
    given = read(y_true, y_score, **options)
    value, weight = _by_label(given)
    seen = np.count_nonzero(given.T, axis=0)
    return given.average(value, seen, weight > 0, unit="labels", weights=weight)


def ranking_and_discrimination(y_true: Any, y_score: Any, **options: Any) -> float | MetricValue:
    """Return the mean of label_ranking_average_precision and :func:`label_discrimination`."""
    # With missing labels, both metrics are noisy. As their errors differ, their mean selects better
    # hyperparameters than either of them (benchmarks/selection.py).
    given = read(y_true, y_score, **options)
    rows: Any = label_ranking_average_precision(replace(given, return_counts=True), None)
    by_label, weight = _by_label(given)
    labels = float(np.average(by_label, weights=weight)) if weight.any() else 0.0
    value = (rows.value + labels) / 2
    return given.finish(*rows._replace(value=value, standard_error=float("nan")))


def _by_label(given: Given) -> tuple[Array, Array]:
    """Return the discrimination and weight of each label; a label with one class has weight 0."""
    T, S, w = given.T, given.S, given.weights
    weights = np.ones((len(T), 1)) if w is None else w[:, None]
    yes, no = ((weights * side).sum(axis=0) for side in (T > 0, T < 0))
    order = 2 * _weighted_label_auc(T, S, weights, 0.5) - 1
    value = (_correlation(T, S, weights) + order) / 2
    return value, np.minimum(np.minimum(yes, no), FULL_WEIGHT)


def _correlation(T: Signs, S: Array, weights: Array) -> Array:
    """Return the correlation of each label with its scores; 0 if either is constant."""
    known = np.where(T != 0, weights, 0.0)
    total = np.maximum(known.sum(axis=0), 1e-300)
    y, s = (M - (known * M).sum(axis=0) / total for M in (T, S))
    across, own, apart = ((known * M).sum(axis=0) for M in (y * s, s * s, y * y))
    fine = (own > 1e-24) & (apart > 0)
    return np.where(fine, across, 0.0) / np.sqrt(np.where(fine, own * apart, 1.0))


class _Order:
    """Cumulative counts of the positives and negatives of each row, by descending score."""

    # positives_from[i, p] counts the observed positives of row i with at least the score of
    # position p; negatives_above[i, p] counts the negatives with strictly higher scores.

    def __init__(self, T: Signs, S: Array, *, break_ties: bool = False) -> None:
        if break_ties:  # the later of two tied labels comes first
            T, S = T[:, ::-1], S[:, ::-1]
        # Missing entries come last and are not counted.
        key = np.where(T != 0, -S, np.inf)
        order = np.argsort(key, axis=1, kind="stable")
        key, T = (np.take_along_axis(part, order, axis=1) for part in (key, T))
        self.positive, negative = T > 0, T < 0
        positives = np.cumsum(self.positive, axis=1, dtype=np.int64)
        negatives = np.cumsum(negative, axis=1, dtype=np.int64)
        # The counts of scores that are at least as high include all equal keys.
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
        """Return the share of pairs in the right order; a tied pair counts as ``ties``."""
        wrong = ties * self.negatives_above + (1 - ties) * self.negatives_from
        return ratio(self.n_pairs - self.sum_over_positives(wrong), self.n_pairs)


def _labels(T: Signs, S: Array, weights: Array) -> Iterator[tuple[Any, ...]]:
    """Yield column, sorted rows, scores, positives and weights of each label with both classes."""
    weights = np.broadcast_to(weights, T.shape)
    for k in range(T.shape[1]):
        at = np.flatnonzero(T[:, k])
        at = at[np.argsort(S[at, k], kind="stable")]
        weight, yes = weights[at, k], T[at, k] > 0
        if yes.any() and not yes.all():
            w_yes, w_no = np.where(yes, weight, 0.0), np.where(yes, 0.0, weight)
            yield k, at, S[at, k], yes, w_yes, w_no


def _weighted_label_auc(T: Signs, S: Array, weights: Array, ties: float) -> Array:
    """Return the AUC of every label with weighted entries; 0 if only one class is observed."""
    values = np.zeros(T.shape[1])
    for k, _, scores, _, w_yes, w_no in _labels(T, S, weights):
        below = _below(scores, w_no, ties) / w_no.sum()
        values[k] = (w_yes * below).sum() / w_yes.sum()
    return values


def _estimated_label_auc(given: Given, ties: float, fill: float | None) -> float | MetricValue:
    """Estimate the mean AUC of labels, weighting each entry by its inverse observed rate."""
    # Labels with both classes observed also represent labels with only one observed class.
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
    for place in lone:  # a single positive has no variance; use the mean of other labels
        shares[place] = np.mean(spreads) ** 0.5 if spreads else 0.5
    return given.estimate_by_label(values, counts, shares, fill)


@lru_cache(maxsize=10_000)
def _represented(seen: int, rate: float, n_labels: int) -> float:
    """Return the weight, in an estimated mean, of a label with ``seen`` observed positives."""
    # A label with P positives has an observed positive with probability 1 - (1 - rate) ** P.
    # Weights that depend on the number of observed positives correct this for every P. They are
    # shrunk if there are few labels.
    if rate >= 1 or seen > 20:
        return 1.0
    P, m = np.arange(1, 61)[:, None], np.arange(1, 31)
    chance = binom.pmf(m, P, rate)
    often = 1 / P  # most labels are rare
    bias = (often * chance).T @ chance
    noise = np.diag((often * chance).sum(axis=0)) * 3 / n_labels
    missed = ((1 - rate) ** P * often).T @ chance  # bias with all weights equal to 1
    return float(1 + np.linalg.solve(bias + noise, missed[0])[seen - 1])


def _below(scores: Array, weights: Array, ties: float) -> Array:
    """Return per score the weight of lower scores, plus ``ties`` times that of equal scores."""
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    low, high = (np.searchsorted(scores, scores, side) for side in ("left", "right"))
    return (1 - ties) * sums[low] + ties * sums[high]
