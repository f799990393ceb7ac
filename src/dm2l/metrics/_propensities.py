"""How likely a positive was marked, and what it counts for then."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l.arrays import to_numpy
from dm2l.labels import stored_labels

Array = NDArray[np.float64]


def propensities(
    Y: Any,
    a: float = 0.55,
    b: float = 1.5,
    *,
    label_mask: Any = None,
    missing_label: Any = np.nan,
    absent_label: Any = None,
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
    label_mask, missing_label, absent_label
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
    if sp.issparse(Y) and absent_label is None:
        absent_label = "missing"  # what absence means makes no difference to the positives
    labels = stored_labels(
        Y, label_mask=label_mask, missing_label=missing_label, absent_label=absent_label
    )
    n = labels.signed.shape[0]
    if n < 3:
        raise ValueError(f"Propensities need at least 3 rows, got {n}: log(n) - 1 is negative.")
    scale = (np.log(n) - 1.0) * (b + 1.0) ** a
    return np.asarray(1.0 / (1.0 + scale * (labels.positives() + b) ** -a))


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
    >>> from dm2l.metrics import check_propensities
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
