"""Confidence intervals of means over splits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


class Interval(NamedTuple):
    """A mean over repetitions and a confidence interval around it."""

    mean: float
    low: float
    high: float


def corrected_t_interval(values: ArrayLike, test_share: float, level: float = 0.95) -> Interval:
    r"""Confidence interval of a mean over folds or repeated random splits of one data set.

    The splits share rows, so their values are correlated and the plain t interval is far too
    narrow. Nadeau and Bengio (2003) replace :math:`s^2 / J` by

    .. math:: \Bigl(\frac1J + \frac{\pi}{1 - \pi}\Bigr) s^2

    with J splits and :math:`\pi` the share of rows tested on; J - 1 degrees of freedom.

    Parameters
    ----------
    values : array-like of shape (n,)
        One per split: a measure, or the difference of two methods in it. The interval of a single
        value is unbounded.
    test_share : float
        Share of rows in the test part: 0.4 for splits of 60/40.
    level : float, default=0.95
        Confidence.

    Examples
    --------
    >>> from dm2l.model_selection import corrected_t_interval
    >>> interval = corrected_t_interval([0.02, 0.01, 0.04, 0.03, 0.02], test_share=0.4)
    >>> round(interval.low, 4), round(interval.high, 4)
    (-0.0055, 0.0535)
    """
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or not len(found):
        raise ValueError(f"values has shape {found.shape}: give a list with at least one number.")
    if not np.isfinite(found).all():
        position = int(np.flatnonzero(~np.isfinite(found))[0])
        raise ValueError(
            f"values has {found[position]} at position {position}: leave it out, or run what is "
            "missing."
        )
    for name, share in (("test_share", test_share), ("level", level)):
        if not 0 < share < 1:
            raise ValueError(f"{name} must lie between 0 and 1, got {share!r}.")
    mean, n = float(found.mean()), len(found)
    if n == 1:
        return Interval(mean, -np.inf, np.inf)
    error = float(found.std(ddof=1)) * float(np.sqrt(1 / n + test_share / (1 - test_share)))
    half = float(stats.t.ppf((1 + level) / 2, n - 1)) * error
    return Interval(mean, mean - half, mean + half)
