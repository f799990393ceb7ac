"""The rate at which positives of a label are ticked: of one, and of all together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dm2l.labels._entries import Signs

Floats = NDArray[np.float64]

# Fewest rows that a rate is read off, which have the best scores, and are this share of the
# label's ticks or more.
FEWEST, SHARE = 10, 0.2


def where_certain(ticks: NDArray[np.bool_], scores: Floats) -> tuple[float, float]:
    """Share of ticks where the label is most certain, and the error of its logarithm."""
    ok = np.isfinite(scores)
    ticks, scores = ticks[ok], scores[ok]
    if not ticks.any():
        return 1.0, np.inf
    k = np.arange(1, len(ticks) + 1)
    share = np.cumsum(ticks[np.argsort(-scores, kind="stable")]) / k
    least = min(max(FEWEST, int(SHARE * ticks.sum())), len(ticks)) - 1
    limit = share - np.sqrt(np.maximum(share * (1 - share), 1 / k) / k)
    best = least + int(np.argmax(limit[least:]))
    rate = max(float(share[best]), 0.5 / (best + 1))
    return rate, float(np.sqrt((1 - rate + 1 / (best + 1)) / (rate * (best + 1))))


def two_sided(signs: Signs, scores: Floats) -> tuple[float, float] | None:
    """Logarithm of the rate of ticks, and its error, from two moments; None if they do not."""
    ok = np.isfinite(scores)
    s, z, g = (signs[ok] > 0) * 1.0, (signs[ok] < 0) * 1.0, scores[ok] - scores[ok].mean()
    moments = np.array([[s.mean(), z.mean()], [(s * g).mean(), (z * g).mean()]])
    if abs(np.linalg.det(moments)) < 1e-10:
        return None
    inverse = np.linalg.inv(moments)
    u, v = inverse @ np.array([1.0, 0.0])
    if min(u, v) < 1 - 1e-9:  # both are 1 where everything was seen, but for rounding
        return None
    off = u * s + v * z - 1
    scatter = np.cov(np.stack([off, off * g])) / len(s)
    error = float(np.sqrt((inverse @ scatter @ inverse.T)[0, 0])) / u
    return (-float(np.log(u)), error) if error < 0.5 else None


def shrink(
    value: Floats,
    error: Floats,
    count: Floats,
    bound: NDArray[np.bool_],
    *,
    alike: bool,
) -> tuple[Floats, Floats]:
    """Towards the mean over ticks, by DerSimonian and Laird's spread; bounds are lifted to it.

    Where no row is certain of a label its own rate comes out too low, and nothing tells that from
    a rate that is low. Labels with many ticks have more rows to be certain of, and the mean of
    rates, not of their logarithms, listens to those that found some.

    Parameters
    ----------
    value, error : ndarray of shape (c,)
        Logarithms of rates, and their errors.
    count : ndarray of shape (c,)
        Ticks of the labels whose rates are known, zero for the others.
    bound : ndarray of bool, shape (c,)
        Whether a value is a lower bound.
    alike : bool
        Whether labels have one rate.

    Returns
    -------
    value, error : ndarray of shape (c,)
    """
    error = np.clip(error, 1e-6, 1e6)  # exact, where everything was seen, or not known at all
    known, ticks = count > 0, count / count.sum()
    rate = np.where(known, np.exp(value), 0.0)
    mean = float(np.log(ticks @ rate))
    if known.sum() == 1:
        return np.where(known, value, mean), np.where(known, error, error[known].max())
    weight = np.where(known, 1 / error**2, 0.0)
    q = float(weight @ (value - mean) ** 2)
    total = weight.sum() - (weight @ weight) / weight.sum()
    between = max((q - known.sum() + 1) / total, 0.0) if total > 0 else 0.0
    spread = float(np.sqrt(ticks**2 @ (rate / np.exp(mean) - 1) ** 2))
    common = alike | ~known | (bound & (value < mean))
    own = np.where(common, 0.0, between / (between + error**2))
    left = np.where(common, between, own * error**2)
    return own * value + (1 - own) * mean, np.sqrt(left + ((1 - own) * spread) ** 2)
