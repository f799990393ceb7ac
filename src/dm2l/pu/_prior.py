"""Class priors: given, or estimated from ticks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dm2l.labels._entries import Signs
from dm2l.pu._rates import shrink, two_sided, where_certain

Floats = NDArray[np.float64]

# Fewest ticks that a label's own rate is read off.
ENOUGH = 10


class ClassPrior(NamedTuple):
    """Share of positives of every label, and how well it is known.

    Attributes
    ----------
    value : ndarray of shape (c,)
        Class priors.
    standard_error : ndarray of shape (c,)
        Of the value, as far as counts go; zero where it was given.
    rate : ndarray of shape (c,)
        Share of the positives that is ticked.
    """

    value: Floats
    standard_error: Floats
    rate: Floats

    def attributes(self, learnable: NDArray[np.bool_], constant: Floats) -> dict[str, Floats]:
        """What a fitted estimator keeps, for all labels: no prior where nothing was ticked."""
        whole = np.zeros((3, len(learnable)))
        whole[0], whole[2] = constant > 0, 1.0
        whole[:, learnable] = self
        return dict(zip(("class_prior_", "class_prior_error_", "_tick_rate"), whole, strict=True))


def estimate_class_prior(scores: Any, Y: Any) -> ClassPrior:
    r"""Estimate the share of positives of every label from ticks and honest scores.

    Where a label is certain the share of ticks is its rate :math:`c_j`. So among the :math:`k` best
    scores the share of ticks is taken, with the :math:`k` whose lower confidence limit is highest,
    and :math:`\pi_j = n_j / (n c_j)`. Rates of labels are shrunk towards their mean over all ticks
    by how well each is known (empirical Bayes on the logarithm), and lifted to it from below,
    because scores may never be certain of a label; rows with one tick at most have one rate for
    all, because their labels compete for it. Where negatives were seen as well, two moments tell
    the rates :math:`1/u` of ticks and :math:`1/v` of negatives without any row being certain:
    :math:`E[(u s + v z - 1) g] = 0` for :math:`g = 1` and for the scores.

    Parameters
    ----------
    scores : array-like of shape (n, c)
        Scores of rows that the model did not see, larger where a tick is more likely. A fit has
        them from features and from the other ticks of a row.
    Y : array-like of shape (n, c)
        1 for a tick, 0 for a negative that somebody saw, NaN for what is unlabelled.

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
    >>> ticks = np.where((scores > 0) & (rng.random((4000, 1)) < 0.4), 1.0, np.nan)
    >>> bool(abs(estimate_class_prior(scores, ticks).value[0] - 0.5) < 0.05)
    True
    """
    Y = np.asarray(Y, dtype=np.float64)
    signs = np.where(np.isnan(Y), 0, np.where(Y > 0, 1, -1)).astype(np.int8)
    return prior_of_ticks(np.asarray(scores, dtype=np.float64), signs)


def class_prior_of(given: Any, signs: Signs) -> ClassPrior:
    """A class prior that is known: one number, or one for every label."""
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
            f"class_prior[{j}] is {value[j]:.3g}, but {share[j]:.3g} of the rows have that label "
            "ticked already."
        )
    value = np.maximum(value, seen)
    return ClassPrior(value, np.zeros_like(value), np.minimum(seen / value, 1.0))


def prior_of_ticks(honest: Floats, signs: Signs) -> ClassPrior:
    """As :func:`estimate_class_prior`, of signs."""
    n, c = signs.shape
    ticks, share = signs > 0, (signs > 0).mean(axis=0)
    found = np.array([where_certain(ticks[:, j], honest[:, j]) for j in range(c)]).reshape(c, 2)
    log_rate, error = np.log(found[:, 0]), found[:, 1]
    bound = np.ones(c, dtype=bool)
    for j in np.flatnonzero((signs < 0).sum(axis=0) >= ENOUGH):
        moments = two_sided(signs[:, j], honest[:, j])
        if moments is not None:
            (log_rate[j], error[j]), bound[j] = moments, False
    known = np.isfinite(error) & (ticks.sum(axis=0) >= ENOUGH)
    if not known.any():
        known = np.isfinite(error)
    if known.any():
        one_each = bool((ticks.sum(axis=1) <= 1).all())
        count = np.where(known, ticks.sum(axis=0), 0.0)
        log_rate, error = shrink(log_rate, error, count, bound, alike=one_each)
    else:
        log_rate, error = np.zeros(c), np.ones(c)
    rate = np.clip(np.exp(log_rate), np.maximum(share, 1e-6), 1.0)
    value = np.where(share > 0, share / rate, 0.0)
    counted = np.sqrt((1 - share) / np.maximum(n * share, 1.0))
    return ClassPrior(value, value * np.hypot(error, counted), rate)
