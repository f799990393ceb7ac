"""Estimates of metrics of labels and of entries for the complete labels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dm2l.labels._entries import Signs
from dm2l.metrics._calibrated import standard_error
from dm2l.metrics._complete import CompleteRows
from dm2l.metrics._rates import Array
from dm2l.metrics._units import MetricValue, Undefined


class _Label(NamedTuple):
    """Observed entries of a label with both classes, by rising scores, and their weights."""

    column: int
    rows: NDArray[np.intp]
    scores: Array
    yes: NDArray[np.bool_]
    w_yes: Array
    w_no: Array


def _labels(T: Signs, S: Array, weights: Array) -> Iterator[_Label]:
    weights = np.broadcast_to(weights, T.shape)
    for k in range(T.shape[1]):
        at = np.flatnonzero(T[:, k])
        at = at[np.argsort(S[at, k], kind="stable")]
        weight, yes = weights[at, k], T[at, k] > 0
        if yes.any() and not yes.all():
            w_yes, w_no = np.where(yes, weight, 0.0), np.where(yes, 0.0, weight)
            yield _Label(k, at, S[at, k], yes, w_yes, w_no)


def weighted_label_auc(T: Signs, S: Array, weights: Array, ties: float) -> Array:
    """AUC of every label, of weighted observed entries; 0 if one class alone is observed."""
    values = np.zeros(T.shape[1])
    for k, _, scores, _, w_yes, w_no in _labels(T, S, weights):
        below = _below(scores, w_no, ties) / w_no.sum()
        values[k] = (w_yes * below).sum() / w_yes.sum()
    return values


def estimated_label_auc(
    rows: CompleteRows, ties: float, undefined: Undefined, fill: float | None
) -> MetricValue:
    """Mean AUC of labels, each entry weighted by the inverse of its observation rate.

    A label with both classes observed also represents labels without.
    """
    n, c = rows.T.shape
    values, counts, shares = np.zeros(c), np.zeros(c), np.zeros((n, c))
    lone, spreads = [], []
    for label in _labels(rows.T, rows.S, rows.sample[:, None] / rows.rates):
        k, at, scores, yes, w_yes, w_no = label
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
    return _over_labels(rows, values, counts, shares, undefined, fill)


@lru_cache(maxsize=10_000)
def _represented(seen: int, rate: float, n_labels: int) -> float:
    """Number of labels that a label with so many observed positives represents.

    A label with ``P`` positives shows one with probability ``1 - (1 - rate) ** P``. The weights of
    1, 2, ... observed positives correct for that at every ``P``, as far as the number of labels
    allows.
    """
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


def estimated_f1(
    rows: CompleteRows, positive: NDArray[np.bool_], undefined: Undefined, *, macro: bool
) -> MetricValue:
    """F1 of the complete labels, with an estimated number of correct predictions."""
    predicted = positive[:, rows.seen].astype(np.float64)
    w = rows.weights[:, None]
    twice = 2 * w * rows.labels * predicted
    total = w * (rows.labels + predicted)
    if not macro:
        twice, total = twice.sum(axis=1, keepdims=True), total.sum(axis=1, keepdims=True)
    shown = np.atleast_1d((rows.T > 0).sum(axis=0 if macro else None))
    said = np.atleast_1d((w * predicted).sum(axis=0 if macro else None))
    right = np.clip(twice.sum(axis=0), 0, 2 * said)
    count = np.maximum(total.sum(axis=0), np.maximum(shown + said, right))
    counts = ((shown > 0) | (said > 0)).astype(np.float64)
    if macro:  # a label without either may have missing positives, and then an F1 of 0
        hidden = np.where(rows.T == 0, rows.plain, 0.0)
        counts = np.maximum(counts, 1 - np.prod(1 - hidden, axis=0))
    values = np.divide(right, count, out=np.zeros(len(count)), where=count > 0)
    shares = (twice - values * total) / np.maximum(count, 1e-300)
    return _over_labels(rows, values, counts, shares, undefined, None)


def _over_labels(
    rows: CompleteRows,
    values: Array,
    counts: Array,
    shares: Array,
    undefined: Undefined,
    fill: float | None,
) -> MetricValue:
    """Mean over labels; ``shares`` are the contributions of rows to the error of each."""
    total = float(counts.sum())
    n_labels = len(values)
    lacking = int((counts == 0).sum())
    if undefined == "raise" and lacking:
        raise ValueError(
            f"The metric is undefined on {lacking} of {n_labels} labels: they lack the observed "
            "positives or negatives it needs. undefined='skip' leaves them out."
        )
    fill = fill if undefined is None else None if isinstance(undefined, str) else float(undefined)
    if fill is not None and lacking:
        values, counts = np.where(counts == 0, fill, values), np.where(counts == 0, 1.0, counts)
        total = float(counts.sum())
    if rows.impossible or total <= 0:
        return rows.nothing()
    value = float((counts * values).sum() / total)
    error = standard_error(shares @ counts / total)
    return MetricValue(value, rows.n_entries, n_labels - lacking, lacking, "estimate", error)


def estimated_hamming_loss(rows: CompleteRows, positive: NDArray[np.bool_]) -> MetricValue:
    """Share of all entries that are predicted wrongly."""
    wrong = np.where(positive[:, rows.seen], 1 - rows.labels, rows.labels).mean(axis=1)
    return rows.settle(wrong, np.ones(len(wrong)))._replace(n_units=rows.n_entries)
