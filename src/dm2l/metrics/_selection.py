"""Scores to select hyperparameters by, beside the public metrics."""

from __future__ import annotations

from typing import Any

import numpy as np

from dm2l.labels._entries import Signs
from dm2l.metrics._by_label import weighted_label_auc
from dm2l.metrics._ranking import label_ranking_average_precision
from dm2l.metrics._rates import Array
from dm2l.metrics._reading import read
from dm2l.metrics._units import MetricValue, average, finish

# Examples of the rarer class from which on a label has full weight.
FULL_WEIGHT = 20


def label_discrimination(
    y_true: Any,
    y_score: Any,
    *,
    return_counts: bool = False,
    estimate: bool = True,
    sample_weight: Any = None,
) -> float | MetricValue:
    r"""How well scores separate the rows of a label: weighted mean of correlation and AUC.

    .. math:: \frac{\sum_j u_j \, (r_j + 2 A_j - 1) / 2}{\sum_j u_j}, \qquad
              u_j = \min(|Z_j^+|, |Z_j^-|, 20)

    with the correlation :math:`r_j` of the observed entries of a label with their scores, and
    their AUC :math:`A_j`; 0 for chance, nan if no label shows both classes. Neither is squared:
    that would give next to no weight to rare and difficult labels.
    """
    T, S, w, _ = read(y_true, y_score, sample_weight, estimate=False)
    value, weight = _by_label(T, S, w)
    seen = np.count_nonzero(T, axis=0)
    found = average(value, seen, weight > 0, unit="labels", weights=weight)
    return finish(found, return_counts, T)


def ranking_and_discrimination(
    y_true: Any,
    y_score: Any,
    *,
    return_counts: bool = False,
    estimate: bool = True,
    rates: Any = None,
    sample_weight: Any = None,
) -> float | MetricValue:
    """Mean of :func:`label_ranking_average_precision` and :func:`label_discrimination`.

    Each is noisy if labels are missing, and the two err in different places: together they select
    better hyperparameters (``benchmarks/selection.py``). Nan where average precision is; labels
    count 0 if none shows both classes.
    """
    given = read(y_true, y_score, sample_weight, estimate, rates)
    rows: Any = label_ranking_average_precision(given, None, return_counts=True)
    by_label, weight = _by_label(*given[:3])
    labels = float(np.average(by_label, weights=weight)) if weight.any() else 0.0
    value = (rows.value + labels) / 2
    return finish(rows._replace(value=value, standard_error=float("nan")), return_counts)


def _by_label(T: Signs, S: Array, w: Array | None) -> tuple[Array, Array]:
    """Discrimination of each label, and its weight: 0 if one class alone is observed."""
    weights = np.ones((len(T), 1)) if w is None else w[:, None]
    yes, no = ((weights * side).sum(axis=0) for side in (T > 0, T < 0))
    order = 2 * weighted_label_auc(T, S, weights, 0.5) - 1
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
