"""Label frequencies: the share of the positives of a label that is labelled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dm2l.labels._entries import Signs

Floats = NDArray[np.float64]

# Fewest rows of the best scores that a frequency is estimated from, and their least number as a
# share of the label's positives.
FEWEST, SHARE = 10, 0.2


def where_certain(labelled: NDArray[np.bool_], scores: Floats) -> tuple[float, float]:
    """Share of labelled rows among the best scores, and the standard error of its logarithm."""
    ok = np.isfinite(scores)
    labelled, scores = labelled[ok], scores[ok]
    if not labelled.any():
        return 1.0, np.inf
    k = np.arange(1, len(labelled) + 1)
    share = np.cumsum(labelled[np.argsort(-scores, kind="stable")]) / k
    least = min(max(FEWEST, int(SHARE * labelled.sum())), len(labelled)) - 1
    limit = share - np.sqrt(np.maximum(share * (1 - share), 1 / k) / k)
    best = least + int(np.argmax(limit[least:]))
    rate = max(float(share[best]), 0.5 / (best + 1))
    return rate, float(np.sqrt((1 - rate + 1 / (best + 1)) / (rate * (best + 1))))


def two_sided(signs: Signs, scores: Floats) -> tuple[float, float] | None:
    """Log-frequency and its standard error from two moments; None if they have no solution."""
    ok = np.isfinite(scores)
    s, z, g = (signs[ok] > 0) * 1.0, (signs[ok] < 0) * 1.0, scores[ok] - scores[ok].mean()
    moments = np.array([[s.mean(), z.mean()], [(s * g).mean(), (z * g).mean()]])
    if abs(np.linalg.det(moments)) < 1e-10:
        return None
    inverse = np.linalg.inv(moments)
    u, v = inverse @ np.array([1.0, 0.0])
    if min(u, v) < 1 - 1e-9:  # both are 1, up to rounding, where every entry is labelled
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
    """Shrink frequencies to their mean, by DerSimonian and Laird; lower bounds are raised to it.

    Where no row is certainly positive a label's own frequency is too low, which cannot be told from
    a low frequency. Labels with many positives are more likely to have such rows, so the mean is
    over positives, and of frequencies rather than their logarithms.
    """
    error = np.clip(error, 1e-6, 1e6)  # zero if all are labelled, infinite if unknown
    known, share = count > 0, count / count.sum()
    rate = np.where(known, np.exp(value), 0.0)
    mean = float(np.log(share @ rate))
    if known.sum() == 1:
        return np.where(known, value, mean), np.where(known, error, error[known].max())
    weight = np.where(known, 1 / error**2, 0.0)
    q = float(weight @ (value - mean) ** 2)
    total = weight.sum() - (weight @ weight) / weight.sum()
    between = max((q - known.sum() + 1) / total, 0.0) if total > 0 else 0.0
    spread = float(np.sqrt(share**2 @ (rate / np.exp(mean) - 1) ** 2))
    common = alike | ~known | (bound & (value < mean))
    own = np.where(common, 0.0, between / (between + error**2))
    left = np.where(common, between, own * error**2)
    return own * value + (1 - own) * mean, np.sqrt(left + ((1 - own) * spread) ** 2)
