"""Class priors: given, or estimated from positive-unlabelled labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dm2l._utils.arrays import asarray_like, namespace
from dm2l.labels._entries import Signs

Floats = NDArray[np.float64]

# Fewest positives from which a label's own rate is estimated.
ENOUGH = 10
# Fewest rows of the best scores that a frequency is estimated from, and their least number as a
# share of the label's positives.
FEWEST, SHARE = 10, 0.2


class ClassPrior(NamedTuple):
    """Share of positives of every label, and its standard error.

    Attributes
    ----------
    value, standard_error : ndarray of shape (c,)
        Class priors, and their errors from the number of positives; zero for given priors.
    rate : ndarray of shape (c,)
        Label frequency: share of the positives that is labelled.
    """

    value: Floats
    standard_error: Floats
    rate: Floats

    def spread(self, learnable: NDArray[np.bool_], constant: Floats) -> ClassPrior:
        """Priors of all labels: 1 or 0 for those that cannot be learnt."""
        whole = np.zeros((3, len(learnable)))
        whole[0], whole[2] = constant > 0, 1.0
        whole[:, learnable] = self
        return ClassPrior(*whole)


def estimate_class_prior(scores: Any, Y: Any) -> ClassPrior:
    r"""Estimate the share of positives of every label from positive-unlabelled labels.

    Among rows that are certainly positive, the share of labelled ones is the label frequency
    :math:`c_j`. It is taken among the :math:`k` best scores, with the :math:`k` whose lower
    confidence limit is highest, and :math:`\pi_j = n_j / (n c_j)` with :math:`n_j` labelled
    positives. Frequencies are shrunk towards their mean over all positives, and raised to it from
    below, because no row may be certainly positive. If no row has two positives all labels have one
    frequency. With observed negatives, two moments determine the rates :math:`1/u` of positives and
    :math:`1/v` of negatives: :math:`E[(u s + v z - 1) g] = 0` for :math:`g = 1` and the scores.

    Parameters
    ----------
    scores : array-like of shape (n, c)
        Held-out scores, larger where a positive is more likely.
    Y : array-like of shape (n, c)
        1 for a positive, 0 for an observed negative, NaN for an unlabelled entry.

    Returns
    -------
    ClassPrior
        Values, standard errors and rates.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.pu import estimate_class_prior
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=(4000, 1))
    >>> Y = np.where((scores > 0) & (rng.random((4000, 1)) < 0.4), 1.0, np.nan)
    >>> estimate_class_prior(scores, Y).value.round(1)
    array([0.5])
    """
    Y = np.asarray(Y, dtype=np.float64)
    signs = np.where(np.isnan(Y), 0, np.where(Y > 0, 1, -1)).astype(np.int8)
    return prior_from_signs(np.asarray(scores, dtype=np.float64), signs)


def check_class_prior(given: Any, signs: Signs) -> ClassPrior:
    """A class prior that was given: one number, or one for every label."""
    share = (signs > 0).mean(axis=0)
    value = np.asarray(given, dtype=np.float64)
    if value.ndim > 1 or (value.ndim == 1 and value.shape != share.shape):
        raise ValueError(
            f"class_prior must be a number or one for each of {len(share)} labels, got shape "
            f"{value.shape}."
        )
    value = np.broadcast_to(value, share.shape).astype(np.float64)
    seen = np.maximum(share, 1e-12)
    if not np.all((value > 0) & (value <= 1) | (share == 0)):
        raise ValueError(f"class_prior must lie above 0 and at most at 1, got {given!r}.")
    if (value < share - 1e-9).any():
        j = int(np.argmax(share - value))
        raise ValueError(
            f"class_prior[{j}] is {value[j]:.3g}, but {share[j]:.3g} of the rows are labelled as "
            "positives."
        )
    value = np.maximum(value, seen)
    return ClassPrior(value, np.zeros_like(value), np.minimum(seen / value, 1.0))


def prior_from_signs(scores: Floats, signs: Signs) -> ClassPrior:
    """As :func:`estimate_class_prior`, of signs."""
    n, c = signs.shape
    labelled, share = signs > 0, (signs > 0).mean(axis=0)
    found = np.array([where_certain(labelled[:, j], scores[:, j]) for j in range(c)]).reshape(c, 2)
    log_rate, error = np.log(found[:, 0]), found[:, 1]
    bound = np.ones(c, dtype=bool)
    for j in np.flatnonzero((signs < 0).sum(axis=0) >= ENOUGH):
        moments = two_sided(signs[:, j], scores[:, j])
        if moments is not None:
            (log_rate[j], error[j]), bound[j] = moments, False
    known = np.isfinite(error) & (labelled.sum(axis=0) >= ENOUGH)
    if not known.any():
        known = np.isfinite(error)
    one_each = bool((labelled.sum(axis=1) <= 1).all())
    count = np.where(known, labelled.sum(axis=0), 0.0)
    if known.any():
        log_rate, error = shrink(log_rate, error, count, bound, alike=one_each)
    else:
        log_rate, error = np.zeros(c), np.ones(c)
    rate = np.clip(np.exp(log_rate), np.maximum(share, 1e-6), 1.0)
    value = np.where(share > 0, share / rate, 0.0)
    counted = np.sqrt((1 - share) / np.maximum(n * share, 1.0))
    return ClassPrior(value, value * np.hypot(error, counted), rate)


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
    value: Floats, error: Floats, count: Floats, bound: NDArray[np.bool_], *, alike: bool
) -> tuple[Floats, Floats]:
    """Shrink frequencies to their mean, by DerSimonian and Laird; lower bounds are raised to it.

    Labels with many positives are more likely to have rows that are certainly positive, so the mean
    is over positives, and of frequencies rather than their logarithms.
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


def unlabelled_probability(p: Floats, rate: Floats) -> Floats:
    r"""Probability that an unlabelled entry is positive, :math:`p (1 - c) / (1 - c p)`."""
    return p * (1 - rate) / np.maximum(1 - rate * p, 1e-12)


def correct_scores(scores: Any, prior: Any) -> Any:
    r"""Scores ``2 p - 1`` with positive probabilities: :math:`\pi e^{p / \pi - 1}` below the prior.

    The order of rows stays. A prior of zero leaves scores as they are.
    """
    xp = namespace(scores)
    known = np.asarray(prior) > 0
    pi = asarray_like(np.where(known, prior, 1.0), scores)
    ratio = (1 + scores) / (2 * pi)
    small = 2 * pi * xp.exp(xp.where(ratio < 1, ratio, 1.0 + 0 * ratio) - 1) - 1
    return xp.where((ratio < 1) & asarray_like(known, scores), small, scores)
