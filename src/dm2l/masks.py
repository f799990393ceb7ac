"""Hide known labels, to study what a method makes of those that are left.

Every function takes labels and ``rho``, the share that *stays observed*, and returns the labels
with the rest hidden. An entry that was missing before stays missing and counts for nothing. Counts
are exact, and with one seed the masks are nested: what a small ``rho`` keeps, a larger one keeps
too, so that a curve over ``rho`` compares like with like.

==================  ==========================================================================
hide_uniform        over all observed entries: the setting that the text of the paper describes
hide_per_row        within each row and class: what the code released with the paper does
hide_per_label      within each label and class: what the code of GLOCAL does
hide_positives      positives only: taggers who stop before they have named everything
==================  ==========================================================================
"""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from dm2l.labels import Signs, parse_labels

__all__ = ["hide_per_label", "hide_per_row", "hide_positives", "hide_uniform"]

Mask = NDArray[np.bool_]


def hide_uniform(
    Y: Any,
    rho: float,
    *,
    missing_label: Any = np.nan,
    return_mask: bool = False,
    random_state: Any = None,
) -> Any:
    r"""Hide entries uniformly at random.

    Of the :math:`m` observed entries exactly :math:`\lceil \rho m \rceil` stay observed, every
    subset of that size with the same probability.

    Parameters
    ----------
    Y : array-like, data frame or signed sparse matrix of shape (n, c)
        Labels, complete or not; see :func:`dm2l.labels.parse_labels`.
    rho : float in [0, 1]
        Share of the observed entries that stays observed.
    missing_label : scalar, default=nan
        Mark of an entry of ``Y`` that was not observed.
    return_mask : bool, default=False
        Return the mask of kept entries too.
    random_state : int, RandomState instance or None, default=None
        Seed. The choice depends on the labels and on the seed, not on the container.

    Returns
    -------
    Y_hidden : ndarray of float64 of shape (n, c)
        Labels with 1, 0 and NaN (missing). A pandas data frame comes back as one with the same
        index and columns, a sparse matrix as signed CSR.
    mask : ndarray of bool of shape (n, c)
        True where the entry is kept. Only with ``return_mask=True``.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.masks import hide_uniform
    >>> Y = np.array([[1, 0, 0, 1], [0, 1, 0, 0], [1, 1, 0, 1]])
    >>> hidden = hide_uniform(Y, 0.5, random_state=0)
    >>> int(np.isnan(hidden).sum())
    6
    >>> known = ~np.isnan(hidden)
    >>> bool((hidden[known] == Y[known]).all())
    True
    """
    rho, T = _share(rho), _matrix_signs(Y, missing_label)
    kept = _keep((T != 0).reshape(1, -1), _keys(T, random_state).reshape(1, -1), rho)
    return _hide(Y, T, kept.reshape(T.shape), return_mask)


def hide_per_row(
    Y: Any,
    rho: float,
    *,
    missing_label: Any = np.nan,
    return_mask: bool = False,
    random_state: Any = None,
) -> Any:
    r"""Hide entries within each row, positives and negatives apart.

    A row with :math:`p` observed positives and :math:`q` observed negatives keeps exactly
    :math:`\lceil \rho p \rceil` and :math:`\lceil \rho q \rceil` of them. This is the rule of the
    code released with the paper. It is milder than it looks: every row with a positive keeps one,
    so that on Arts (1.64 labels a row) ``rho=0.3`` keeps 64 % of the positives.

    Parameters
    ----------
    Y, rho, missing_label, return_mask, random_state
        As in :func:`hide_uniform`.

    Returns
    -------
    Y_hidden, mask : ndarray of shape (n, c)
        As in :func:`hide_uniform`.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.masks import hide_per_row
    >>> Y = np.array([[1, 0, 0, 0], [1, 1, 0, 0]])
    >>> hidden = hide_per_row(Y, 0.5, random_state=0)
    >>> np.nansum(hidden, axis=1)
    array([1., 1.])
    >>> np.isnan(hidden).sum(axis=1)
    array([1, 2])
    """
    rho, T = _share(rho), _matrix_signs(Y, missing_label)
    keys = _keys(T, random_state)
    return _hide(Y, T, _keep(T > 0, keys, rho) | _keep(T < 0, keys, rho), return_mask)


def hide_per_label(
    Y: Any,
    rho: float,
    *,
    missing_label: Any = np.nan,
    return_mask: bool = False,
    random_state: Any = None,
) -> Any:
    r"""Hide entries within each label, positives and negatives apart.

    A label with :math:`p` observed positives and :math:`q` observed negatives keeps exactly
    :math:`\lceil \rho p \rceil` and :math:`\lceil \rho q \rceil` of them, so that no label loses
    its last positive. This is the rule of the code of GLOCAL.

    Parameters
    ----------
    Y, rho, missing_label, return_mask, random_state
        As in :func:`hide_uniform`.

    Returns
    -------
    Y_hidden, mask : ndarray of shape (n, c)
        As in :func:`hide_uniform`.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.masks import hide_per_label
    >>> Y = np.array([[1, 0], [1, 0], [0, 0], [0, 1]])
    >>> hidden = hide_per_label(Y, 0.5, random_state=0)
    >>> np.nansum(hidden, axis=0)
    array([1., 1.])
    >>> np.isnan(hidden).sum(axis=0)
    array([2, 1])
    """
    rho, T = _share(rho), _matrix_signs(Y, missing_label)
    keys = _keys(T, random_state).T
    kept = _keep(T.T > 0, keys, rho) | _keep(T.T < 0, keys, rho)
    return _hide(Y, T, kept.T, return_mask)


def hide_positives(
    Y: Any,
    rho: float,
    *,
    per: Literal["label", "all"] = "label",
    become: Literal["missing", "negative"] = "missing",
    missing_label: Any = np.nan,
    return_mask: bool = False,
    random_state: Any = None,
) -> Any:
    r"""Hide positives only; observed negatives stay as they are.

    Of :math:`p` observed positives exactly :math:`\lceil \rho p \rceil` are kept.

    Parameters
    ----------
    Y, missing_label, return_mask, random_state
        As in :func:`hide_uniform`.
    rho : float in [0, 1]
        Share of the observed positives that is kept.
    per : {"label", "all"}, default="label"
        Count the positives of each label, or those of all labels together.
    become : {"missing", "negative"}, default="missing"
        What a hidden positive turns into. ``"negative"`` is the tagger who stopped early, where
        nobody can tell "not there" from "not named": the labels then contain errors, not holes.

    Returns
    -------
    Y_hidden : ndarray of float64 of shape (n, c)
        As in :func:`hide_uniform`.
    mask : ndarray of bool of shape (n, c)
        True where the entry is kept. A hidden positive is False here even if it became a
        negative, so that the mask always tells what was done. Only with ``return_mask=True``.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.masks import hide_positives
    >>> Y = np.array([[1, 0], [1, 0], [1, 0], [1, 1]])
    >>> hidden = hide_positives(Y, 0.5, random_state=0)
    >>> np.nansum(hidden, axis=0)
    array([2., 1.])
    >>> np.isnan(hidden).sum(axis=0)
    array([2, 0])
    >>> hide_positives(Y, 0.5, become="negative", random_state=0).sum(axis=0)
    array([2., 1.])
    """
    if per not in ("label", "all"):
        raise ValueError(f"per must be 'label' or 'all', got {per!r}.")
    if become not in ("missing", "negative"):
        raise ValueError(f"become must be 'missing' or 'negative', got {become!r}.")
    rho, T = _share(rho), _matrix_signs(Y, missing_label)
    shape = T.T.shape if per == "label" else (1, T.size)
    positive, keys = (T > 0).T.reshape(shape), _keys(T, random_state).T.reshape(shape)
    kept = (T < 0) | _keep(positive, keys, rho).reshape(T.T.shape).T
    return _hide(Y, T, kept, return_mask, hidden=-1 if become == "negative" else 0)


def _matrix_signs(Y: Any, missing_label: Any) -> Signs:
    labels = parse_labels(Y, missing_label=missing_label)
    if labels.kind != "multilabel":
        raise ValueError(
            "Y must be a label matrix of shape (n, c) with 0/1, True/False or -1/+1; a 1-D y of "
            "classes has no entries that could be hidden one by one."
        )
    return labels.signs


def _share(rho: float) -> float:
    if isinstance(rho, bool) or not isinstance(rho, Real) or not 0 <= rho <= 1:
        raise ValueError(
            "rho, the share of entries that stay observed, must be a number from 0 to 1; got "
            f"{rho!r}."
        )
    return float(rho)


def _keys(T: Signs, random_state: Any) -> NDArray[np.intp]:
    """One number per entry, all different, in random order."""
    return check_random_state(random_state).permutation(T.size).reshape(T.shape)


def _keep(eligible: Mask, keys: NDArray[np.intp], rho: float) -> Mask:
    """Choose the ``ceil(rho * m)`` smallest keys of the ``m`` eligible entries of each row."""
    last = keys.size
    keys = np.where(eligible, keys, last)
    # 0.1 * 30 is 3.0000000000000004 and must keep 3, so a product that exceeds a whole number by
    # rounding alone is taken for that number. 1e-12 is far above rounding (2e-16 relative) and
    # below anything a count could tell apart.
    quota = np.ceil(rho * eligible.sum(axis=1) * (1 - 1e-12)).astype(np.intp)
    limit = np.sort(keys, axis=1)[np.arange(len(keys)), quota - 1]
    return keys <= np.where(quota > 0, limit, -1)[:, None]


def _hide(Y: Any, T: Signs, kept: Mask, return_mask: bool, hidden: int = 0) -> Any:
    """Write ``hidden`` over what is not kept, in the container that the labels came in."""
    signs = np.where(kept | (T == 0), T, hidden)
    result: Any
    if sp.issparse(Y):
        csr = sp.csr_array if isinstance(Y, sp.sparray) else sp.csr_matrix
        result = csr(signs.astype(np.float64))
    else:
        result = np.where(signs == 0, np.nan, (signs > 0).astype(np.float64))
        if hasattr(Y, "iloc"):
            import pandas as pd  # the caller has it: Y is a pandas data frame

            result = pd.DataFrame(result, index=Y.index, columns=Y.columns)
    return (result, kept) if return_mask else result
