"""Brute-force definitions of the metrics, to test ``dm2l.metrics`` against.

Plain Python loops over lists, one function a metric, written from the definitions and not from the
library. Slow on purpose: nothing here is vectorized, sorted or cached.

``Y`` is n x c with 1 = positive, 0 or -1 = negative, NaN = not observed. A metric is a mean over
*units* (rows; labels for `label_auc` and `f1_macro`; entries for `hamming_loss`; the whole table
for `f1_micro`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

DROP = object()  # what a convention may do with an undefined unit, other than giving it a value


class Expected(NamedTuple):
    """What a metric should return with ``return_counts=True``."""

    value: float
    n_entries: int
    n_units: int
    n_undefined: int


class UndefinedUnitsError(Exception):
    """``undefined="raise"`` met undefined units; ``args[0]`` is their number."""


class Unit(NamedTuple):
    """One row or label: how many entries were seen, its value, and its value by convention."""

    n_observed: int
    value: float | None  # None: the formula divides by zero
    fill: Any = DROP  # what the convention puts in place of None


def mean_over_units(units: list[Unit], undefined: Any) -> Expected:
    """Average the units after applying the ``undefined`` argument."""
    total, n_entries, n_used, n_undefined = 0.0, 0, 0, 0
    for unit in units:
        value: Any = unit.value
        if unit.n_observed == 0:  # no setting and no convention gives such a unit a value
            n_undefined += 1
            continue
        if value is None:
            n_undefined += 1
            if undefined is None:
                value = unit.fill
            elif undefined in ("skip", "raise"):
                value = DROP
            else:
                value = float(undefined)
            if value is DROP:
                continue
        total += value
        n_entries += unit.n_observed
        n_used += 1
    if undefined == "raise" and n_undefined > 0:
        raise UndefinedUnitsError(n_undefined)
    return Expected(total / n_used if n_used else math.nan, n_entries, n_used, n_undefined)


def observed_pairs(Y: Any, other: Any) -> list[list[tuple[bool, float]]]:
    """Row by row, the (is positive, score or prediction) pairs of the observed entries."""
    table = []
    for y_row, other_row in zip(Y.tolist(), other.tolist(), strict=True):
        pairs = []
        for y, s in zip(y_row, other_row, strict=True):
            if y == y:  # not NaN
                pairs.append((y == 1, s))
        table.append(pairs)
    return table


def split(pairs: list[tuple[bool, float]]) -> tuple[list[float], list[float]]:
    """Scores of the positives and scores of the negatives."""
    positives = [s for is_positive, s in pairs if is_positive]
    negatives = [s for is_positive, s in pairs if not is_positive]
    return positives, negatives


def positive_ranks(pairs: list[tuple[bool, float]], convention: str) -> list[int]:
    """Rank of each positive among the observed labels of its row.

    A rank counts the labels that score at least as high, so ties are pessimistic; in the published
    code a tie is broken by label order, the later label coming first.
    """
    ranks = []
    for place, (is_positive, score) in enumerate(pairs):
        if not is_positive:
            continue
        count = 0
        for other_place, (_, other) in enumerate(pairs):
            if other > score or (
                other == score and (convention != "published" or other_place >= place)
            ):
                count += 1
        ranks.append(count)
    return ranks


def pair_share(positives: list[float], negatives: list[float], tie: float) -> float:
    """Share of (positive, negative) pairs in the right order, a tied pair counting ``tie``."""
    total = 0.0
    for p in positives:
        for q in negatives:
            if p > q:
                total += 1
            elif p == q:
                total += tie
    return total / (len(positives) * len(negatives))


def ranking_loss(Y: Any, scores: Any, convention: str = "paper", undefined: Any = None) -> Expected:
    units = []
    for pairs in observed_pairs(Y, scores):
        positives, negatives = split(pairs)
        if positives and negatives:
            wrong = 0
            for p in positives:
                for q in negatives:
                    if p <= q:
                        wrong += 1
            units.append(Unit(len(pairs), wrong / (len(positives) * len(negatives))))
        else:
            fill = {"paper": DROP, "published": DROP, "sklearn": 0.0}[convention]
            units.append(Unit(len(pairs), None, fill))
    return mean_over_units(units, undefined)


def label_ranking_average_precision(
    Y: Any, scores: Any, convention: str = "paper", undefined: Any = None
) -> Expected:
    units = []
    for pairs in observed_pairs(Y, scores):
        positives, negatives = split(pairs)
        if not positives:
            fill = {"paper": DROP, "published": DROP, "sklearn": 1.0}[convention]
            units.append(Unit(len(pairs), None, fill))
        elif not negatives and convention == "published":
            units.append(Unit(len(pairs), None, DROP))
        else:
            ranks = positive_ranks(pairs, convention)
            total = 0.0
            for rank_p in ranks:
                at_least_as_good = 0
                for rank_q in ranks:
                    if rank_q <= rank_p:
                        at_least_as_good += 1
                total += at_least_as_good / rank_p
            units.append(Unit(len(pairs), total / len(positives)))
    return mean_over_units(units, undefined)


def coverage_error(
    Y: Any, scores: Any, convention: str = "paper", undefined: Any = None
) -> Expected:
    units = []
    for pairs in observed_pairs(Y, scores):
        positives, _ = split(pairs)
        if positives:
            deepest = max(positive_ranks(pairs, convention))
            units.append(Unit(len(pairs), deepest if convention == "sklearn" else deepest - 1))
        else:
            fill = {"paper": DROP, "published": -1.0, "sklearn": 0.0}[convention]
            units.append(Unit(len(pairs), None, fill))
    return mean_over_units(units, undefined)


def instance_auc(Y: Any, scores: Any, convention: str = "paper", undefined: Any = None) -> Expected:
    units = []
    for pairs in observed_pairs(Y, scores):
        positives, negatives = split(pairs)
        if positives and negatives:
            tie = {"paper": 1.0, "published": 0.5, "sklearn": 0.5}[convention]
            units.append(Unit(len(pairs), pair_share(positives, negatives, tie)))
        else:
            published = 0.0 if not positives else 1.0
            fill = {"paper": DROP, "published": published, "sklearn": math.nan}[convention]
            units.append(Unit(len(pairs), None, fill))
    return mean_over_units(units, undefined)


def label_auc(Y: Any, scores: Any, convention: str = "paper", undefined: Any = None) -> Expected:
    units = []
    for pairs in observed_pairs(Y.T, scores.T):
        positives, negatives = split(pairs)
        if positives and negatives:
            tie = {"paper": 1.0, "published": 0.5, "sklearn": 0.5}[convention]
            units.append(Unit(len(pairs), pair_share(positives, negatives, tie)))
        else:
            fill = {"paper": DROP, "published": DROP, "sklearn": math.nan}[convention]
            units.append(Unit(len(pairs), None, fill))
    return mean_over_units(units, undefined)


def one_error(Y: Any, scores: Any, undefined: Any = None) -> Expected:
    units = []
    for pairs in observed_pairs(Y, scores):
        positives, negatives = split(pairs)
        if positives:
            best = max(s for _, s in pairs)
            units.append(Unit(len(pairs), 1.0 if best in negatives else 0.0))
        else:
            units.append(Unit(len(pairs), None))
    return mean_over_units(units, undefined)


def precision_at_k(Y: Any, scores: Any, k: int = 1, undefined: Any = None) -> Expected:
    units = []
    for pairs in observed_pairs(Y, scores):
        remaining = list(pairs)
        hits, taken = 0, 0
        while remaining and taken < k:
            best = 0
            for j in range(len(remaining)):
                if remaining[j][1] > remaining[best][1]:  # strict: the first of equals stays
                    best = j
            is_positive, _ = remaining.pop(best)
            hits += is_positive
            taken += 1
        units.append(Unit(len(pairs), hits / taken if taken else None))
    return mean_over_units(units, undefined)


def confusion(pairs: list[tuple[bool, float]]) -> tuple[int, int, int]:
    """True positives, false positives, false negatives."""
    tp = fp = fn = 0
    for is_positive, prediction in pairs:
        if is_positive and prediction == 1:
            tp += 1
        elif not is_positive and prediction == 1:
            fp += 1
        elif is_positive:
            fn += 1
    return tp, fp, fn


def f1_unit(pairs: list[tuple[bool, float]]) -> Unit:
    tp, fp, fn = confusion(pairs)
    denominator = 2 * tp + fp + fn
    return Unit(len(pairs), 2 * tp / denominator if denominator else None)


def f1_micro(Y: Any, predictions: Any, undefined: Any = None) -> Expected:
    everything = [pair for pairs in observed_pairs(Y, predictions) for pair in pairs]
    return mean_over_units([f1_unit(everything)], undefined)


def f1_macro(Y: Any, predictions: Any, undefined: Any = None) -> Expected:
    units = [f1_unit(pairs) for pairs in observed_pairs(Y.T, predictions.T)]
    return mean_over_units(units, undefined)


def hamming_loss(Y: Any, predictions: Any, undefined: Any = None) -> Expected:
    units = []
    for pairs in observed_pairs(Y, predictions):
        for is_positive, prediction in pairs:
            units.append(Unit(1, 1.0 if is_positive != (prediction == 1) else 0.0))
    if not units:
        units.append(Unit(0, None))  # 0 / 0: the loss itself is undefined
    return mean_over_units(units, undefined)
