"""Propensities of positives, and weights from observation rates."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.arrays import to_numpy
from dm2l._utils.parameters import check_number
from dm2l.labels._matrix import parse_labels, parse_sparse_labels
from dm2l.metrics._rates import LOWEST, observation_rates

Array = NDArray[np.float64]


def propensities(y_true: Any, a: float = 0.55, b: float = 1.5) -> Array:
    r"""Propensities: the probability that a positive of each label was marked, by its frequency.

    .. math:: p_j = \frac{1}{1 + C (N_j + b)^{-a}}, \qquad C = (\log N - 1) (b + 1)^a

    with ``N`` rows and ``N_j`` observed positives of label ``j``. Rare labels are missed
    more often. The defaults were fitted to encyclopaedia articles and are in general use; for shop
    items ``a=0.6, b=2.6`` was found.

    Parameters
    ----------
    y_true : array-like, sparse matrix, LabelMatrix or SparseLabelMatrix of shape (n, c)
        Training labels; only observed positives count.
    a, b : float, default=0.55, 1.5
        Constants of the curve.

    Returns
    -------
    ndarray of shape (c,)
        Between 0 and 1.

    References
    ----------
    H. Jain, Y. Prabhu and M. Varma, "Extreme Multi-label Loss Functions for Recommendation,
    Tagging, Ranking & Other Missing Label Applications", KDD 2016.

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
    y_true: Any,
    rates: Any,
    X: Any = None,
    *,
    lowest: float = LOWEST,
    return_effective: bool = False,
) -> Any:
    r"""Inverse observation rates, the ``label_weight`` of a fit.

    An entry observed with probability :math:`e` stands for :math:`1 / e` of its kind. If the rates
    are right, scores and probabilities fitted with these weights are those of complete labels,
    whether missingness depends on the label, on the features or on the answer itself.

    Parameters
    ----------
    y_true : array-like, sparse matrix or LabelMatrix of shape (n, c)
        Labels 0/1 or -1/+1, NaN where missing.
    rates : array-like, tuple of two, or callable
        Observation rates, above 0 and at most 1: one number, one per label, one per row (a column)
        or one per entry; a tuple holds those of positives and of negatives. A callable is given
        ``X`` and returns one of these, for example ``predict_proba`` of a model of the mask.
    X : object, default=None
        Features, for a callable.
    lowest : float, default=0.02
        Lower rates are raised to this one, so that no entry stands for more than fifty.
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
    >>> weights, effective = observation_weights(Y, (0.5, 1.0), return_effective=True)
    >>> weights
    array([[2., 1.],
           [0., 2.],
           [1., 1.]])
    >>> effective.round(2)
    array([1.8 , 2.67])
    """
    check_number("lowest", lowest, positive=True)
    T = parse_labels(y_true).signs
    if callable(rates):
        rates = rates(X)
    weights = np.where(T != 0, 1 / observation_rates(T, rates, lowest).entries, 0.0)
    if not return_effective:
        return weights
    squares = (weights**2).sum(axis=0)
    return weights, weights.sum(axis=0) ** 2 / np.where(squares > 0, squares, 1.0)


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
