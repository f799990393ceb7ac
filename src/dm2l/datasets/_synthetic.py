"""Synthetic data with one-way implications between labels, and missing labels."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from dm2l._utils.inputs import check_choice, check_number
from dm2l.simulate import (
    simulate_missing_positives,
    simulate_per_label,
    simulate_per_row,
    simulate_uniform,
)

_MASKS = {
    "uniform": simulate_uniform,
    "per_row": simulate_per_row,
    "per_label": simulate_per_label,
    "positives": simulate_missing_positives,
}


def make_missing_multilabel(
    n_samples: int = 200,
    n_features: int = 20,
    n_labels: int = 8,
    *,
    n_implications: int = 4,
    rho: float = 0.7,
    mask: Literal["uniform", "per_row", "per_label", "positives"] = "uniform",
    noise: float = 0.1,
    random_state: Any = None,
    return_truth: bool = False,
) -> tuple[NDArray[np.float64], ...]:
    r"""Make multi-label data with one-way implications and missing labels.

    Rows have :math:`r = \min(n\_features, n\_labels)` hidden factors :math:`Z`, standard normal.
    Features are :math:`X = ZA + \sigma E` with Gaussian :math:`A, E` and :math:`\sigma` the
    ``noise``. A label is positive for the rows with the largest :math:`(ZB)_j`: a share between
    5 and 20 % for the first half of the labels (the specific ones), between 10 and 30 % for the
    second half (the general ones). Then implications ``specific => general`` are enforced: where a
    specific label is positive, its general one becomes positive too. With 8 labels the first four
    are ``0 => 4, 1 => 5, 2 => 6, 3 => 7``.

    Parameters
    ----------
    n_samples, n_features, n_labels, n_implications : int
        Sizes; at least two labels.
    rho : float in [0, 1], default=0.7
        Share of labels that stays observed.
    mask : {"uniform", "per_row", "per_label", "positives"}, default="uniform"
        Which function of :mod:`dm2l.simulate` hides labels.
    noise : float, default=0.1
        Standard deviation of what is added to the features.
    random_state : int, RandomState instance or None, default=None
        Seed.
    return_truth : bool, default=False
        Return the complete labels too.

    Returns
    -------
    X, Y, truth : ndarray of float64
        Features; labels with 1, 0 and NaN (missing); and, if asked for, complete labels.

    Examples
    --------
    >>> from dm2l.datasets import make_missing_multilabel
    >>> X, Y, truth = make_missing_multilabel(random_state=0, return_truth=True)
    >>> bool((truth[:, 4] >= truth[:, 0]).all())  # label 0 implies label 4
    True
    """
    sizes = {"n_samples": n_samples, "n_features": n_features, "n_labels": n_labels}
    for name, value in (sizes | {"n_implications": n_implications}).items():
        least = {"n_labels": 2, "n_implications": 0}.get(name, 1)
        if not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")
    most = (n_labels // 2) * (n_labels - n_labels // 2)
    if n_implications > most:
        raise ValueError(
            f"{n_labels} labels allow at most {most} implications between the first and the "
            f"second half, got n_implications={n_implications}."
        )
    check_number("noise", noise)
    check_choice("mask", mask, *_MASKS)
    rng = check_random_state(random_state)
    rank = min(n_features, n_labels)
    Z = rng.standard_normal((n_samples, rank))
    X = Z @ rng.standard_normal((rank, n_features)) / np.sqrt(rank)
    X += noise * rng.standard_normal(X.shape)

    scores = Z @ rng.standard_normal((rank, n_labels))
    specific = n_labels // 2
    share = np.concatenate(
        [rng.uniform(0.05, 0.2, specific), rng.uniform(0.1, 0.3, n_labels - specific)]
    )
    # At least one positive each, so that a label exists however few rows were asked for.
    n_positive = np.maximum(1, np.round(share * n_samples)).astype(np.intp)
    place = np.argsort(np.argsort(-scores, axis=0), axis=0)
    truth = (place < n_positive).astype(np.float64)
    for source, target in implications(n_labels, n_implications):
        truth[:, target] = np.maximum(truth[:, target], truth[:, source])

    Y = _MASKS[mask](truth, rho, random_state=rng)
    return (X, Y, truth) if return_truth else (X, Y)


def implications(n_labels: int, n_implications: int) -> list[tuple[int, int]]:
    """Pairs ``(a, b)`` with ``a => b``, in the order of :func:`make_missing_multilabel`."""
    specific, general = n_labels // 2, n_labels - n_labels // 2
    return [
        (e % specific, specific + (e % specific + e // specific) % general)
        for e in range(n_implications)
    ]
