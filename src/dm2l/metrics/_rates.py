"""Observation rates: the probability that an entry is observed; and propensities of positives."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.arrays import to_numpy
from dm2l.labels._entries import Signs
from dm2l.labels._matrix import parse_labels, parse_sparse_labels

Array = NDArray[np.float64]

# An entry that is observed less often would count for more than fifty others.
LOWEST = 0.02


def propensities(y_true: Any, a: float = 0.55, b: float = 1.5) -> Array:
    r"""Propensities: the probability that a positive of each label was marked, by its frequency.

    .. math:: p_j = \frac{1}{1 + C (N_j + b)^{-a}}, \qquad C = (\log N - 1) (b + 1)^a

    with ``N`` rows and ``N_j`` observed positives of label ``j``. The defaults were fitted to
    encyclopaedia articles and are in general use; for shop items ``a=0.6, b=2.6`` was found (Jain,
    Prabhu and Varma, "Extreme Multi-label Loss Functions", KDD 2016).

    Parameters
    ----------
    y_true : array-like, sparse matrix, LabelMatrix or SparseLabelMatrix of shape (n, c)
        Training labels; only observed positives count.
    a, b : float, default=0.55, 1.5
        Constants of the curve.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.metrics import propensities
    >>> Y = np.zeros((100, 2))
    >>> Y[:50, 0], Y[:2, 1] = 1, 1
    >>> propensities(Y).round(3)
    array([0.594, 0.25 ])
    """
    for name, value in (("a", a), ("b", b)):
        if not 0 <= value < np.inf:
            raise ValueError(f"{name} must be a finite number >= 0, got {value!r}.")
    # The meaning of an entry that is not stored makes no difference to the positives.
    labels = parse_sparse_labels(y_true, missing_as="missing" if sp.issparse(y_true) else None)
    n = labels.signed.shape[0]
    if n < 3:
        raise ValueError(f"Propensities need at least 3 rows, got {n}: log(n) - 1 is negative.")
    scale = (np.log(n) - 1.0) * (b + 1.0) ** a
    return np.asarray(1.0 / (1.0 + scale * (labels.positives() + b) ** -a))


def observation_weights(
    y_true: Any, rates: Any, X: Any = None, *, return_effective: bool = False
) -> Any:
    r"""Inverse observation rates, the ``label_weight`` of a fit.

    An entry observed with probability :math:`e` stands for :math:`1 / e` of its kind. If the rates
    are right, scores and probabilities fitted with these weights are those of complete labels,
    whether missingness depends on the label, on the features or on the answer itself.

    Parameters
    ----------
    y_true : array-like, sparse matrix or LabelMatrix of shape (n, c)
        Labels, NaN where missing.
    rates : array-like, tuple of two, or callable
        Observation rates, above 0 and at most 1: one number, one per label, one per row (a column)
        or one per entry; a tuple holds those of positives and of negatives. A callable is given
        ``X`` and returns one of these, for example ``predict_proba`` of a model of the mask. Rates
        below 0.02 are raised to it, so that no entry stands for more than fifty.
    X : object, default=None
        Features, for a callable.
    return_effective : bool, default=False
        Return the effective sample sizes as well.

    Returns
    -------
    weights : ndarray of shape (n, c)
        ``1 / e``, 0 where missing.
    effective : ndarray of shape (c,)
        Only with ``return_effective``: :math:`(\sum w)^2 / \sum w^2` of every label, the
        number of entries of equal weight with the same information.

    Examples
    --------
    >>> from dm2l.metrics import observation_weights
    >>> Y = [[1, 0], [float("nan"), 1], [0, 0]]
    >>> observation_weights(Y, (0.5, 1.0))
    array([[2., 1.],
           [0., 2.],
           [1., 1.]])
    """
    T = parse_labels(y_true).signs
    if callable(rates):
        rates = rates(X)
    weights = np.where(T != 0, 1 / observation_rates(T, rates).entries, 0.0)
    if not return_effective:
        return weights
    squares = (weights**2).sum(axis=0)
    return weights, weights.sum(axis=0) ** 2 / np.where(squares > 0, squares, 1.0)


class Rates(NamedTuple):
    """Observation rate of each entry, and weight of each row."""

    entries: Array
    rows: Array


def observation_rates(T: Signs, rates: Any = None) -> Rates:
    """Given rates, for both classes or for each; or an estimate from the mask."""
    if rates is None:
        return _from_mask(T != 0)
    if isinstance(rates, tuple):
        if len(rates) != 2:
            raise ValueError(
                "rates must be numbers, or a pair of them for positives and negatives; got "
                f"{len(rates)} parts."
            )
        positive, negative = (_given(part, T) for part in rates)
        return Rates(np.where(T > 0, positive, negative), np.ones(len(T)))
    return Rates(_given(rates, T), np.ones(len(T)))


def _given(rates: Any, T: Signs) -> Array:
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
    return np.maximum(np.broadcast_to(R, T.shape), LOWEST)


def _from_mask(seen: NDArray[np.bool_]) -> Rates:
    """A rate for each label, times a factor for each row if rows differ by more than chance."""
    # Entries of a row are taken in the order of labels. The rate of each is its expectation after
    # the entries before it, rho_j (kappa + s) / (kappa + e) with s observed where e were expected:
    # rates that depend on the past alone keep the expectation of products over a row. Rows without
    # any observed entry count only as far as the rates explain their number.
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


def check_propensities(propensities: Any, n_labels: int) -> Array:
    """Propensities as float64, one per label, above 0 and at most 1."""
    p = np.asarray(to_numpy(propensities), dtype=np.float64)
    if p.shape != (n_labels,):
        raise ValueError(
            f"propensities must have shape ({n_labels},), one per label; got {p.shape}."
        )
    bad = np.flatnonzero(~((p > 0) & (p <= 1)))
    if len(bad):
        raise ValueError(
            f"propensities has {p[bad[0]]} for label {bad[0]}; propensities must be above 0 "
            "and at most 1."
        )
    return p
