"""Class priors: given, or estimated from positive-unlabelled labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dm2l.labels._entries import Signs
from dm2l.pu._rates import shrink, two_sided, where_certain

Floats = NDArray[np.float64]

# Fewest positives from which a label's own rate is estimated.
ENOUGH = 10


class ClassPrior(NamedTuple):
    """Share of positives of every label, and its standard error.

    Attributes
    ----------
    value : ndarray of shape (c,)
        Class priors.
    standard_error : ndarray of shape (c,)
        From the number of positives; zero where the prior was given.
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
    :math:`c_j`. So it is taken among the :math:`k` best scores, with the :math:`k` whose lower
    confidence limit is highest, and :math:`\pi_j = n_j / (n c_j)` with :math:`n_j` labelled
    positives. Frequencies are shrunk towards their mean over all positives by their standard errors
    (empirical Bayes on the logarithm), and raised to it from below, because no row may be certainly
    positive. If no row has two positives all labels have one frequency, because they compete for
    the row. If negatives were observed as well, two moments determine the rates :math:`1/u` of
    positives and :math:`1/v` of negatives: :math:`E[(u s + v z - 1) g] = 0` for :math:`g = 1` and
    for the scores.

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
    if known.any():
        one_each = bool((labelled.sum(axis=1) <= 1).all())
        count = np.where(known, labelled.sum(axis=0), 0.0)
        log_rate, error = shrink(log_rate, error, count, bound, alike=one_each)
    else:
        log_rate, error = np.zeros(c), np.ones(c)
    rate = np.clip(np.exp(log_rate), np.maximum(share, 1e-6), 1.0)
    value = np.where(share > 0, share / rate, 0.0)
    counted = np.sqrt((1 - share) / np.maximum(n * share, 1.0))
    return ClassPrior(value, value * np.hypot(error, counted), rate)
