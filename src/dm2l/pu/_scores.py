"""From scores of ticks to probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._utils.arrays import asarray_like, namespace

Floats = NDArray[np.float64]


def unticked(p: Floats, rate: Floats) -> Floats:
    r"""Probability of a positive that was not ticked: :math:`p (1 - c) / (1 - c p)`.

    Parameters
    ----------
    p : ndarray of shape (n, c)
        Probabilities of positives.
    rate : ndarray of shape (c,)
        Share of the positives that is ticked.

    Returns
    -------
    ndarray of shape (n, c)

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.pu._scores import unticked
    >>> unticked(np.array([[0.5, 0.5]]), np.array([0.0, 0.5])).round(3)
    array([[0.5  , 0.333]])
    """
    return p * (1 - rate) / np.maximum(1 - rate * p, 1e-12)


def above_zero(scores: Any, prior: Any) -> Any:
    r"""Correct scores of which the probability would be next to nothing, or less than that.

    A score of :math:`2 p - 1` with :math:`p < \pi`, the class prior, goes to that of
    :math:`\pi e^{p / \pi - 1}`, which is above zero and keeps the order of rows. In a row it sets
    a rare label that features speak against a little back, and a frequent one a lot.

    Parameters
    ----------
    scores : array of shape (n, c)
        Estimates of ``2 p - 1``, of any library.
    prior : ndarray of shape (c,)
        Class priors; zero: leave it.

    Returns
    -------
    array of shape (n, c)

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.pu._scores import above_zero
    >>> above_zero(np.array([[-1.5, 0.5]]), np.array([0.2, 0.2])).round(3)
    array([[-0.958,  0.5  ]])
    """
    xp = namespace(scores)
    known = np.asarray(prior) > 0
    pi = asarray_like(np.where(known, prior, 1.0), scores)
    ratio = (1 + scores) / (2 * pi)
    small = 2 * pi * xp.exp(xp.where(ratio < 1, ratio, 1.0 + 0 * ratio) - 1) - 1
    return xp.where((ratio < 1) & asarray_like(known, scores), small, scores)
