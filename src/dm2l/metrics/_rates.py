"""Observation rates: the probability that an entry is observed, given or estimated."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dm2l._utils.arrays import to_numpy
from dm2l.labels._entries import Signs

Array = NDArray[np.float64]

# An entry that is observed less often would count for more than fifty others.
LOWEST = 0.02


class Rates(NamedTuple):
    """Observation rate of each entry, and weight of each row."""

    entries: Array
    rows: Array


def observation_rates(T: Signs, rates: Any = None, lowest: float = LOWEST) -> Rates:
    """Given rates, for both classes or for each; or an estimate from the mask."""
    if rates is None:
        return _from_mask(T != 0)
    if isinstance(rates, tuple):
        if len(rates) != 2:
            raise ValueError(
                "rates must be numbers, or a pair of them for positives and negatives; got "
                f"{len(rates)} parts."
            )
        positive, negative = (_given(part, T, lowest) for part in rates)
        return Rates(np.where(T > 0, positive, negative), np.ones(len(T)))
    return Rates(_given(rates, T, lowest), np.ones(len(T)))


def _given(rates: Any, T: Signs, lowest: float) -> Array:
    R = np.asarray(to_numpy(rates), dtype=np.float64)
    if R.ndim not in (0, 1, 2) or any(
        have not in (1, want) for have, want in zip(R.shape[::-1], T.shape[::-1], strict=False)
    ):
        raise ValueError(
            f"rates must be one number, one a label, or of shape {(len(T), 1)} (one a row) or "
            f"{T.shape}; got shape {R.shape}."
        )
    if not ((R > 0) & (R <= 1)).all():
        raise ValueError("rates must be above 0 and at most 1.")
    return np.maximum(np.broadcast_to(R, T.shape), lowest)


def _from_mask(seen: NDArray[np.bool_]) -> Rates:
    r"""A rate for each label, times a factor for each row if rows differ by more than chance.

    Entries of a row are taken in the order of labels. The rate of each is its expectation after
    the entries before it, :math:`\rho_j (\kappa + s) / (\kappa + e)` with ``s`` observed where
    ``e`` were expected: rates that depend on the past alone keep the expectation of products over
    a row. Rows without any observed entry count only as far as the rates explain their number.
    """
    counts, per_label = seen.sum(axis=1), seen.sum(axis=0)
    empty = counts == 0
    n_empty = int(empty.sum())
    n_some, some = len(seen) - n_empty, counts[~empty]
    weight = 0.0
    for _ in range(20 if n_empty else 1):
        label = per_label / (n_some + weight * n_empty)
        strength = _strength(some, weight * n_empty, label)
        before = np.concatenate([[0.0], np.cumsum(label)[:-1]])
        never = np.prod(1 - np.minimum(label / (1 + before * strength), 1))
        expected = n_some * never / max(1 - never, 1e-12)
        weight = min(1.0, expected / max(n_empty, 1))
    past: NDArray[np.int64] = np.cumsum(seen, axis=1) - seen
    factor = (1 + past * strength) / (1 + before * strength)
    entries = np.clip(label * factor, LOWEST, 1.0)
    return Rates(entries, np.where(empty, weight, 1.0))


def _strength(counts: NDArray[np.int64], n_empty: float, label: Array) -> float:
    """1 / kappa: how much rows differ; 0 if chance explains it."""
    total, mean = len(counts) + n_empty, label.sum()
    spread = (((counts - mean) ** 2).sum() + n_empty * mean**2) / total
    chance, pairs = (label * (1 - label)).sum(), mean**2 - (label**2).sum()
    error = chance * np.sqrt(2 / total)
    if pairs <= 0 or spread <= chance + 2 * error:
        return 0.0
    variance = (spread - chance) / pairs
    rate = mean / len(label)
    return float(1 / max((1 - rate) / variance - rate, 1e-2))
