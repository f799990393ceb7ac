"""What to choose settings by: how well scores tell the rows of a label, and both ways at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from dm2l.labels._entries import Signs
from dm2l.metrics._labels import weighted_label_auc
from dm2l.metrics._ranking import average_precision
from dm2l.metrics._rates import Array, Holes, check_holes
from dm2l.metrics._units import (
    MetricValue,
    Missing,
    average,
    finish,
    signs_and_scores,
    weighted_rows,
)

# Examples of the rarer class beyond which a label has a full say.
FULL_SAY = 20


def label_skill(
    Y: Any,
    scores: Any,
    *,
    return_counts: bool = False,
    holes: Holes = "estimate",
    sample_weight: Any = None,
    missing: Missing = "ignore",
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: Any = None,
) -> float | MetricValue:
    r"""How well scores tell labels: half by their values, half by their ranks, over labels.

    .. math:: \frac{\sum_j u_j \, (r_j + 2 A_j - 1) / 2}{\sum_j u_j}, \qquad
              u_j = \min(|Z_j^+|, |Z_j^-|, 20)

    with the correlation :math:`r_j` of a label's observed entries with their scores, which a
    squared error after the best calibration by a line follows, and their AUC :math:`A_j`. Neither
    is squared: the squared correlation of ranks is at most ``3 p (1 - p)`` for a label with a share
    p of positives, and a square moves little where it is small, so rare and hard labels would have
    no say.

    Parameters
    ----------
    Y : array-like of shape (n, c)
        Labels of the contract; NaN = not observed.
    scores : array-like of shape (n, c)
        Higher means more likely.
    return_counts : bool, default=False
        Return a :class:`MetricValue`; its units are labels.
    holes : {"estimate", "observed"}, default="estimate"
        Makes no difference: what is compared lies within a label, whose observed entries stand for
        the others.
    sample_weight, missing, label_mask, missing_label, missing_as
        As in :func:`ranking_loss`.

    Returns
    -------
    float or MetricValue
        Higher is better, at most 1; 0 for chance. nan, with a warning, where no label shows both
        answers.

    Examples
    --------
    >>> from dm2l.metrics import label_skill
    >>> round(label_skill([[1, 0], [0, 1], [0, 0]], [[0.9, 0.1], [0.8, 0.3], [0.1, 0.2]]), 3)
    0.866
    """
    T, S = signs_and_scores(Y, scores, missing, label_mask, missing_label, missing_as)
    T, S, w = weighted_rows(T, S, sample_weight)
    check_holes(holes)
    told, say = _by_label(T, S, w)
    seen = np.count_nonzero(T, axis=0)
    return finish(average(told, seen, say > 0, unit="labels", weights=say), return_counts, T)


def two_way_ranking(
    Y: Any,
    scores: Any,
    *,
    return_counts: bool = False,
    holes: Holes = "estimate",
    rates: Any = None,
    sample_weight: Any = None,
    missing: Missing = "ignore",
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: Any = None,
) -> float | MetricValue:
    r"""How scores rank the labels of a row and the rows of a label: what searches go by.

    The mean of :func:`average_precision` and :func:`label_skill`. It is meant for choosing: each of
    the two is noisy where labels have holes, the largest of many noisy values is often noise, and
    the two err in different places. Over ten sets with 30 % of the labels it chooses better than
    average precision alone: for average precision, ranking loss and label AUC
    (``benchmarks/selection.py``).

    Parameters
    ----------
    Y, scores, return_counts
    holes, rates, sample_weight, missing, label_mask, missing_label, missing_as
        As in :func:`ranking_loss`.

    Returns
    -------
    float or MetricValue
        Higher is better, at most 1; nan where average precision is. Labels count 0 where none shows
        both answers.

    Examples
    --------
    >>> from dm2l.metrics import two_way_ranking
    >>> two_way_ranking([[1, 0], [0, 1], [0, 0]], [[0.9, 0.1], [0.1, 0.9], [0.1, 0.1]])
    1.0
    """
    T, S = signs_and_scores(Y, scores, missing, label_mask, missing_label, missing_as)
    T, S, w = weighted_rows(T, S, sample_weight)
    rows: Any = average_precision(
        T, S, return_counts=True, holes=holes, rates=rates, sample_weight=w, missing_label=0
    )
    told, say = _by_label(T, S, w)
    labels = float(np.average(told, weights=say)) if say.any() else 0.0
    value = (rows.value + labels) / 2
    return finish(rows._replace(value=value, standard_error=float("nan")), return_counts)


def _by_label(T: Signs, S: Array, w: Array | None) -> tuple[Array, Array]:
    """What scores tell of each label, and how much that counts: 0 where one class is seen."""
    weights = np.ones((len(T), 1)) if w is None else w[:, None]
    yes, no = ((weights * side).sum(axis=0) for side in (T > 0, T < 0))
    order = 2 * weighted_label_auc(T, S, weights, 0.5) - 1
    told = (_correlation(T, S, weights) + order) / 2
    return told, np.minimum(np.minimum(yes, no), FULL_SAY)


def _correlation(T: Signs, S: Array, weights: Array) -> Array:
    """Of each label with its scores, 0 where one of them is constant."""
    known = np.where(T != 0, weights, 0.0)
    total = np.maximum(known.sum(axis=0), 1e-300)
    y, s = (M - (known * M).sum(axis=0) / total for M in (T, S))
    across, own, apart = ((known * M).sum(axis=0) for M in (y * s, s * s, y * y))
    fine = (own > 1e-24) & (apart > 0)
    return np.where(fine, across, 0.0) / np.sqrt(np.where(fine, own * apart, 1.0))
