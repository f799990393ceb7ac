"""Hide known labels, to study methods for missing labels.

Every function takes labels and returns them with some hidden. Counts are exact, and masks of one
seed are nested: what a small ``rho`` keeps, a larger one keeps too. An entry that was missing
before stays missing.
"""

from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from dm2l.labels._entries import Signs
from dm2l.labels._matrix import parse_labels

__all__ = [
    "infer_skipped_negatives",
    "simulate_missing_positives",
    "simulate_per_label",
    "simulate_per_row",
    "simulate_truncated",
    "simulate_uniform",
]

Mask = NDArray[np.bool_]


def simulate_uniform(
    Y: Any, rho: float, *, return_mask: bool = False, random_state: Any = None
) -> Any:
    r"""Hide entries uniformly at random: the setting of the paper's text.

    Of the :math:`m` observed entries exactly :math:`\lceil \rho m \rceil` stay observed, every
    subset of that size with the same probability.

    Parameters
    ----------
    Y : array-like, data frame, signed sparse matrix or LabelMatrix of shape (n, c)
        Labels 0/1 or -1/+1, NaN where missing.
    rho : float in [0, 1]
        Share of the observed entries that stays observed.
    return_mask : bool, default=False
        Return the mask of kept entries too.
    random_state : int, RandomState instance or None, default=None
        Seed. The mask depends on the labels and on the seed, not on the container.

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
    r"""Hide entries within each row, positives and negatives apart.

    A row with :math:`p` observed positives and :math:`q` observed negatives keeps exactly
    :math:`\lceil \rho p \rceil` and :math:`\lceil \rho q \rceil` of them, so that every row with a
    positive keeps one. This is the rule of the code released with the paper.

    Arguments and results are those of :func:`simulate_uniform`.

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
    r"""Hide entries within each label, positives and negatives apart.

    A label with :math:`p` observed positives and :math:`q` observed negatives keeps exactly
    :math:`\lceil \rho p \rceil` and :math:`\lceil \rho q \rceil` of them, so that no label loses
    its last positive. This is the rule of the code of GLOCAL.

    Arguments and results are those of :func:`simulate_uniform`.

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
    r"""Hide positives only; observed negatives stay as they are, unless all become unlabelled.

    Of :math:`p` observed positives of a label exactly :math:`\lceil \rho p \rceil` are kept.
    Results are those of :func:`simulate_uniform`; the mask is False for a hidden positive even if
    it became a negative.

    Parameters
    ----------
    Y, return_mask, random_state
        As in :func:`simulate_uniform`.
    rho : float in [0, 1], or array-like of shape (c,)
        Share of the observed positives that is kept; or one for every label.
    become : {"missing", "negative", "unlabelled"}, default="missing"
        What a hidden positive turns into. ``"negative"`` makes label errors, as annotators do who
        stop early. With ``"unlabelled"`` negatives become missing too, which leaves
        positive-unlabelled data.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.simulate import simulate_missing_positives
    >>> Y = [[1, 0], [1, 0], [1, 0], [1, 1]]
    >>> np.nansum(simulate_missing_positives(Y, 0.5), axis=0)
    array([2., 1.])
    """
    if become not in ("missing", "negative", "unlabelled"):
        raise ValueError(f"become must be 'missing', 'negative' or 'unlabelled', got {become!r}.")
    T, keys = _signs_and_keys(Y, random_state)
    if np.ndim(rho) == 1:
        if len(rho) != T.shape[1]:
            raise ValueError(f"rho must be a number, or one for each of {T.shape[1]} labels.")
        rho = np.array([_share(share) for share in np.asarray(rho).tolist()])
    else:
        rho = _share(rho)
    kept = _keep((T > 0).T, keys.T, rho).T
    if become != "unlabelled":
        kept |= T < 0
    return _hide(Y, T, kept, return_mask, hidden=-1 if become == "negative" else 0)


def simulate_truncated(
    Y: Any, k: int, *, order: Any = "random", return_mask: bool = False, random_state: Any = None
) -> Any:
    """Keep the first ``k`` positives of every row, and no negatives: annotators who stop.

    With ``k=1`` these are single-positive labels. Results are those of :func:`simulate_uniform`.

    Parameters
    ----------
    Y, return_mask, random_state
        As in :func:`simulate_uniform`.
    k : int
        Number of positives of a row, at most.
    order : {"random", "popularity"} or array-like of shape (c,) or (n, c), default="random"
        Which positives are named first: any; those of frequent labels; or those with the highest
        numbers (salience). Ties are broken at random.

    Examples
    --------
    >>> from dm2l.simulate import simulate_truncated
    >>> simulate_truncated([[1, 1, 1], [0, 0, 1]], 2, order="popularity", random_state=0)[1]
    array([nan, nan,  1.])
    """
    if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
        raise ValueError(f"k must be an integer of at least 1, got {k!r}.")
    T, keys = _signs_and_keys(Y, random_state)
    if isinstance(order, str):
        if order not in ("random", "popularity"):
            raise ValueError(f"order must be 'random', 'popularity' or numbers, got {order!r}.")
        order = (T > 0).sum(axis=0) if order == "popularity" else np.zeros(T.shape[1])
    first = np.asarray(order, dtype=np.float64)
    if first.shape not in (T.shape, T.shape[1:]) or not np.isfinite(first).all():
        raise ValueError(f"order must hold a finite number for each entry or label of {T.shape}.")
    score = np.where(T > 0, np.broadcast_to(first, T.shape), -np.inf)
    best = np.lexsort((keys, -score), axis=1)[:, : int(k)]
    kept = np.zeros(T.shape, dtype=bool)
    np.put_along_axis(kept, best, values=True, axis=1)
    return _hide(Y, T, kept & (T > 0), return_mask)


def infer_skipped_negatives(Y: Any, order: Any) -> Any:
    """Negatives implied by an ordered list of labels: those above the last positive of a row.

    Other entries become missing; the result is that of :func:`simulate_uniform`.

    Parameters
    ----------
    Y : array-like, data frame, signed sparse matrix or LabelMatrix of shape (n, c)
        Observed positives.
    order : array-like of int of shape (c,) or (n, c)
        Labels from the top of the list to its end; or of every row's own list.

    Examples
    --------
    >>> from dm2l.simulate import infer_skipped_negatives
    >>> infer_skipped_negatives([[0, 1, 0]], [2, 1, 0])
    array([[nan,  1.,  0.]])
    """
    T, _ = _signs_and_keys(Y, 0)
    listed = np.broadcast_to(np.asarray(order), T.shape)
    if not np.array_equal(np.sort(listed, axis=1), np.tile(np.arange(T.shape[1]), (len(T), 1))):
        raise ValueError(f"order must name each of {T.shape[1]} labels once.")
    place = np.argsort(listed, axis=1)
    last = np.where(T > 0, place, -1).max(axis=1, keepdims=True)
    signs = np.where(T > 0, 1, np.where(place < last, -1, 0)).astype(np.int8)
    return _hide(Y, signs, signs != 0, return_mask=False)


def _signs_and_keys(Y: Any, random_state: Any) -> tuple[Signs, NDArray[np.intp]]:
    """Signs, and one number per entry, all different, in random order."""
    labels = parse_labels(Y)
    if labels.kind != "multilabel":
        raise ValueError(
            "Y must be a label matrix of shape (n, c) with 0/1, True/False or -1/+1; a 1-D y of "
            "classes has no entries that could be hidden one by one."
        )
    T = labels.signs
    return T, check_random_state(random_state).permutation(T.size).reshape(T.shape)


def _share(rho: float) -> float:
    if isinstance(rho, bool) or not isinstance(rho, Real) or not 0 <= rho <= 1:
        raise ValueError(
            "rho, the share of entries that stay observed, must be a number from 0 to 1; got "
            f"{rho!r}."
        )
    return float(rho)


def _keep(eligible: Mask, keys: NDArray[np.intp], rho: float | NDArray[np.float64]) -> Mask:
    """Choose the ``ceil(rho * m)`` smallest keys of the ``m`` eligible entries of each row."""
    last = keys.size
    keys = np.where(eligible, keys, last)
    # 0.1 * 30 is 3.0000000000000004 and must keep 3.
    quota = np.ceil(rho * eligible.sum(axis=1) * (1 - 1e-12)).astype(np.intp)
    limit = np.sort(keys, axis=1)[np.arange(len(keys)), quota - 1]
    return keys <= np.where(quota > 0, limit, -1)[:, None]


def _hide(Y: Any, T: Signs, kept: Mask, return_mask: bool, hidden: int = 0) -> Any:
    """Replace entries that are not kept by ``hidden``, in the container of ``Y``."""
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
