"""How likely a positive was marked, and what it counts for then."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.arrays import to_numpy
from dm2l._utils.parameters import check_number
from dm2l.labels._matrix import signs, stored_labels
from dm2l.metrics._rates import LOWEST, observation_rates

Array = NDArray[np.float64]


def propensities(
    Y: Any,
    a: float = 0.55,
    b: float = 1.5,
    *,
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: Any = None,
) -> Array:
    r"""Chance that a positive of each label was marked, by how often the label was.

    .. math:: p_j = \frac{1}{1 + C (N_j + b)^{-a}}, \qquad C = (\log N - 1) (b + 1)^a

    with ``N`` rows and ``N_j`` observed positives of label ``j``. Rare labels are forgotten more
    often. The constants were fitted to encyclopaedia articles and the defaults are in general use;
    for shop items ``a=0.6, b=2.6`` was found.

    Parameters
    ----------
    Y : array-like or sparse matrix of shape (n, c)
        Training labels of the contract; only observed positives count.
    a, b : float, default=0.55, 1.5
        Constants of the curve.
    label_mask, missing_label, missing_as
        As in :func:`dm2l.labels.parse_labels`; a sparse ``Y`` of positives needs none of them here.

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
    if sp.issparse(Y) and missing_as is None:
        missing_as = "missing"  # what absence means makes no difference to the positives
    labels = stored_labels(
        Y, label_mask=label_mask, missing_label=missing_label, missing_as=missing_as
    )
    n = labels.signed.shape[0]
    if n < 3:
        raise ValueError(f"Propensities need at least 3 rows, got {n}: log(n) - 1 is negative.")
    scale = (np.log(n) - 1.0) * (b + 1.0) ** a
    return np.asarray(1.0 / (1.0 + scale * (labels.positives() + b) ** -a))


def observation_weights(
    Y: Any,
    rates: Any,
    X: Any = None,
    *,
    lowest: float = LOWEST,
    return_effective: bool = False,
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: Any = None,
) -> Any:
    r"""Weights that make observed entries stand for all: ``label_weight`` of a fit.

    An entry that is observed with chance :math:`e` stands for :math:`1 / e` of its kind. Fitted
    with these weights, scores and probabilities are those of complete labels, as far as the rates
    are right, whether holes depend on the label, on the features or on the answer itself.

    Parameters
    ----------
    Y : array-like or sparse matrix of shape (n, c)
        Labels of the contract.
    rates : array-like, tuple of two, or callable
        How likely entries are observed, above 0 and at most 1: one number, one a label, one a row
        (as a column) or one an entry; a tuple has those of positives and of negatives. A callable
        is given ``X`` and returns one of these: ``predict_proba`` of a model of the mask, say.
    X : object, default=None
        For a callable.
    lowest : float, default=0.02
        Lower rates count as this one: no entry stands for more than fifty.
    return_effective : bool, default=False
        Whether to return the effective sizes as well.
    label_mask, missing_label, missing_as
        As in :func:`dm2l.labels.parse_labels`.

    Returns
    -------
    weights : ndarray of shape (n, c)
        ``1 / e``, 0 at holes.
    effective : ndarray of shape (c,)
        Only with ``return_effective``: :math:`(\sum w)^2 / \sum w^2` of every label, as many
        entries of equal weight as would say as much.

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
    marks = {"missing_label": missing_label, "missing_as": missing_as}
    T = signs(Y, label_mask=label_mask, **marks)
    if callable(rates):
        rates = rates(X)
    weights = np.where(T != 0, 1 / observation_rates(T, rates, lowest).entries, 0.0)
    if not return_effective:
        return weights
    squares = (weights**2).sum(axis=0)
    return weights, weights.sum(axis=0) ** 2 / np.where(squares > 0, squares, 1.0)


def check_propensities(propensities: Any, n_labels: int) -> Array:
    """Refuse propensities that are not one chance for each label.

    Parameters
    ----------
    propensities : array-like of shape (n_labels,)
        Above 0 and at most 1.
    n_labels : int
        How many labels there are.

    Returns
    -------
    ndarray of shape (n_labels,)
        The same as float64.

    Examples
    --------
    >>> from dm2l.metrics._propensities import check_propensities
    >>> check_propensities([0.5, 1], 2)
    array([0.5, 1. ])
    """
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
