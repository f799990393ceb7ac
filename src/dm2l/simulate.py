"""Simulate missing labels, to evaluate methods that learn from them.

Every function returns labels in which some observed entries are hidden. Shares of kept entries are
exact up to rounding. With the same seed, the entries kept for one ``rho`` are also kept for a
larger ``rho``. Missing entries stay missing.
"""

from numbers import Real
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from dm2l._utils.inputs import check_choice, check_counts
from dm2l.labels._entries import Mask, Signs
from dm2l.labels._matrix import frame_like, parse_labels

__all__ = [
    "infer_skipped_negatives",
    "simulate_missing_positives",
    "simulate_per_label",
    "simulate_per_row",
    "simulate_truncated",
    "simulate_uniform",
]


def simulate_uniform(
    Y: Any, rho: float, *, return_mask: bool = False, random_state: Any = None
) -> Any:
    r"""Hide entries uniformly at random, as the text of the paper describes.

    Exactly :math:`\lceil \rho m \rceil` of :math:`m` observed entries stay observed, and every
    subset of this size has the same probability.

    Parameters
    ----------
    Y : array-like, data frame, signed sparse matrix or LabelMatrix of shape (n, c)
        Labels 0/1 or -1/+1, with NaN where they are missing.
    rho : float in [0, 1]
        Share of the observed entries that stays observed.
    return_mask : bool, default=False
        Whether to also return the mask of kept entries.
    random_state : int, RandomState instance or None, default=None
        Seed. The mask depends on the labels and the seed, but not on the type of ``Y``.

    Returns
    -------
    Y_hidden : ndarray of float64 of shape (n, c)
        Labels with 1, 0 and NaN (missing): a data frame with the same index and columns if ``Y`` is
        a data frame, and signed CSR if ``Y`` is sparse.
    mask : ndarray of bool of shape (n, c)
        True where the entry is kept. Returned only if ``return_mask=True``.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.simulate import simulate_uniform
    >>> int(np.isnan(simulate_uniform(np.eye(4), 0.5, random_state=0)).sum())
    8
    """
    T, keys = _signs_and_keys(Y, random_state)
    kept = _keep((T != 0).reshape(1, -1), keys.reshape(1, -1), _share(rho))
    return _hide(Y, T, kept.reshape(T.shape), return_mask)


def simulate_per_row(
    Y: Any, rho: float, *, return_mask: bool = False, random_state: Any = None
) -> Any:
    r"""Hide the same share of positives and of negatives in each row.

    A row with :math:`p` observed positives and :math:`q` observed negatives keeps exactly
    :math:`\lceil \rho p \rceil` and :math:`\lceil \rho q \rceil` of them, so that every row with a
    positive keeps at least one. The code released with the paper uses this mechanism.

    See :func:`simulate_uniform` for parameters and return values.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.simulate import simulate_per_row
    >>> np.nansum(simulate_per_row([[1, 0, 0, 0], [1, 1, 0, 0]], 0.5, random_state=0), axis=1)
    array([1., 1.])
    """
    rho, (T, keys) = _share(rho), _signs_and_keys(Y, random_state)
    return _hide(Y, T, _keep(T > 0, keys, rho) | _keep(T < 0, keys, rho), return_mask)


def simulate_per_label(
    Y: Any, rho: float, *, return_mask: bool = False, random_state: Any = None
) -> Any:
    r"""Hide the same share of positives and of negatives in each label.

    A label with :math:`p` observed positives and :math:`q` observed negatives keeps exactly
    :math:`\lceil \rho p \rceil` and :math:`\lceil \rho q \rceil` of them, so that every label with
    a positive keeps at least one. The code of GLOCAL uses this mechanism.

    See :func:`simulate_uniform` for parameters and return values.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.simulate import simulate_per_label
    >>> np.nansum(simulate_per_label([[1, 0], [1, 0], [0, 0], [0, 1]], 0.5), axis=0)
    array([1., 1.])
    """
    rho, (T, keys) = _share(rho), _signs_and_keys(Y, random_state)
    kept = _keep(T.T > 0, keys.T, rho) | _keep(T.T < 0, keys.T, rho)
    return _hide(Y, T, kept.T, return_mask)


def simulate_missing_positives(
    Y: Any,
    rho: Any,
    *,
    become: Literal["missing", "negative", "unlabelled"] = "missing",
    return_mask: bool = False,
    random_state: Any = None,
) -> Any:
    r"""Hide positives, which become missing, negative or unlabelled.

    Exactly :math:`\lceil \rho p \rceil` of :math:`p` observed positives of a label are kept.
    See :func:`simulate_uniform` for return values. The mask is False for all hidden positives, even
    if they become negative.

    Parameters
    ----------
    Y, return_mask, random_state
        As in :func:`simulate_uniform`.
    rho : float in [0, 1], or array-like of shape (c,)
        Share of the observed positives that is kept: one number for all labels, or one per label.
    become : {"missing", "negative", "unlabelled"}, default="missing"
        Value of hidden positives. ``"negative"`` simulates annotators who overlook positives.
        With ``"unlabelled"``, hidden positives and all negatives become missing, as in
        positive-unlabelled data.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.simulate import simulate_missing_positives
    >>> Y = [[1, 0], [1, 0], [1, 0], [1, 1]]
    >>> np.nansum(simulate_missing_positives(Y, 0.5), axis=0)
    array([2., 1.])
    """
    check_choice("become", become, "missing", "negative", "unlabelled")
    T, keys = _signs_and_keys(Y, random_state)
    c = T.shape[1]
    shares = np.asarray(rho).tolist() if np.ndim(rho) == 1 else [rho] * c
    if len(shares) != c:
        what = f"one number or {c} numbers, one per label; got {len(shares)} numbers"
        raise ValueError(f"rho must be {what}.")
    kept = _keep((T > 0).T, keys.T, np.array([_share(share) for share in shares])).T
    if become != "unlabelled":
        kept |= T < 0
    return _hide(Y, T, kept, return_mask, hidden=-1 if become == "negative" else 0)


def simulate_truncated(
    Y: Any, k: int, *, order: Any = "random", return_mask: bool = False, random_state: Any = None
) -> Any:
    """Keep at most ``k`` positives of every row and no negatives, like annotators who stop early.

    ``k=1`` gives single-positive labels. See :func:`simulate_uniform` for return values.

    Parameters
    ----------
    Y, return_mask, random_state
        As in :func:`simulate_uniform`.
    k : int
        Maximum number of positives of a row.
    order : {"random", "popularity"} or array-like of shape (c,) or (n, c), default="random"
        Which positives of a row are kept: random positives, positives of the most frequent labels,
        or positives with the highest numbers in ``order``. Ties are broken at random.

    Examples
    --------
    >>> from dm2l.simulate import simulate_truncated
    >>> simulate_truncated([[1, 1, 1], [0, 0, 1]], 2, order="popularity", random_state=0)[1]
    array([nan, nan,  1.])
    """
    check_counts(k=k)
    T, keys = _signs_and_keys(Y, random_state)
    if isinstance(order, str):
        check_choice("order", order, "random", "popularity")
        order = (T > 0).sum(axis=0) if order == "popularity" else np.zeros(T.shape[1])
    first = np.asarray(order, dtype=np.float64)
    if first.shape not in (T.shape, T.shape[1:]) or not np.isfinite(first).all():
        what = f"order must have one finite number per label, or the shape {T.shape} of Y;"
        raise ValueError(f"{what} got shape {first.shape}.")
    score = np.where(T > 0, np.broadcast_to(first, T.shape), -np.inf)
    best = np.lexsort((keys, -score), axis=1)[:, : int(k)]
    kept = np.zeros(T.shape, dtype=bool)
    np.put_along_axis(kept, best, values=True, axis=1)
    return _hide(Y, T, kept & (T > 0), return_mask)


def infer_skipped_negatives(Y: Any, order: Any) -> Any:
    """Infer negatives from labels that annotators read in order and selected if positive.

    Unselected labels before the last positive of a row become negative; labels after the last
    positive become missing. See :func:`simulate_uniform` for return values.

    Parameters
    ----------
    Y : array-like, data frame, signed sparse matrix or LabelMatrix of shape (n, c)
        Observed positives.
    order : array-like of int of shape (c,) or (n, c)
        Column numbers of the labels in the order of reading: one order, or one per row.

    Examples
    --------
    >>> from dm2l.simulate import infer_skipped_negatives
    >>> infer_skipped_negatives([[0, 1, 0]], [2, 1, 0])
    array([[nan,  1.,  0.]])
    """
    T, _ = _signs_and_keys(Y, 0)
    listed = np.broadcast_to(np.asarray(order), T.shape)
    wrong = listed[(np.sort(listed, axis=1) != np.arange(T.shape[1])).any(axis=1)]
    if len(wrong):
        what = f"order must contain each column number from 0 to {T.shape[1] - 1} once"
        raise ValueError(f"{what}, got {wrong[0]}.")
    place = np.argsort(listed, axis=1)
    last = np.where(T > 0, place, -1).max(axis=1, keepdims=True)
    signs = np.where(T > 0, 1, np.where(place < last, -1, 0)).astype(np.int8)
    return _hide(Y, signs, signs != 0, return_mask=False)


def _signs_and_keys(Y: Any, random_state: Any) -> tuple[Signs, NDArray[np.intp]]:
    """Return the labels as 1, -1 and 0 (missing), and a random order of all entries."""
    labels = parse_labels(Y)
    if labels.kind != "multilabel":
        what = "Y must be a label matrix of shape (n, c) with 0/1, True/False or -1/+1,"
        raise ValueError(f"{what} got a 1-D y. Use y.reshape(-1, 1).")
    T = labels.signs
    return T, check_random_state(random_state).permutation(T.size).reshape(T.shape)


def _share(rho: float) -> float:
    if isinstance(rho, bool) or not isinstance(rho, Real) or not 0 <= rho <= 1:
        what = "rho, the share of entries that stay observed, must be a number from 0 to 1;"
        raise ValueError(f"{what} got {rho!r}.")
    return float(rho)


def _keep(eligible: Mask, keys: NDArray[np.intp], rho: float | NDArray[np.float64]) -> Mask:
    """Keep the ``ceil(rho * m)`` smallest keys among the ``m`` eligible entries of each row."""
    last = keys.size
    keys = np.where(eligible, keys, last)
    # The factor corrects rounding errors such as 0.1 * 30 = 3.0000000000000004.
    quota = np.ceil(rho * eligible.sum(axis=1) * (1 - 1e-12)).astype(np.intp)
    limit = np.sort(keys, axis=1)[np.arange(len(keys)), quota - 1]
    return keys <= np.where(quota > 0, limit, -1)[:, None]


def _hide(Y: Any, T: Signs, kept: Mask, return_mask: bool, hidden: int = 0) -> Any:
    """Replace entries that are not kept by ``hidden``; the result has the type of ``Y``."""
    signs = np.where(kept | (T == 0), T, hidden)
    if sp.issparse(Y):
        csr = sp.csr_array if isinstance(Y, sp.sparray) else sp.csr_matrix
        result: Any = csr(signs.astype(np.float64))
    else:
        result = frame_like(np.where(signs == 0, np.nan, (signs > 0).astype(np.float64)), Y)
    return (result, kept) if return_mask else result
