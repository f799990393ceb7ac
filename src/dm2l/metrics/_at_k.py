"""Metrics of the first ``k`` places, from all scores or from a list of the best labels."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from dm2l.arrays import to_numpy
from dm2l.labels import StoredLabels, stored_labels
from dm2l.metrics._units import MetricValue, Undefined, average, finish, read

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Places:
    """The first ``k`` judged labels of each row, best first, and the truth about them.

    Unjudged labels take no place. A row with fewer than ``k`` judged labels in reach has signs of
    0 at the end.
    """

    labels: NDArray[np.intp]
    signs: NDArray[np.int8]
    truth: StoredLabels

    @property
    def hits(self) -> NDArray[np.bool_]:
        return self.signs > 0

    @property
    def count(self) -> NDArray[np.int64]:
        return np.count_nonzero(self.signs, axis=1)

    @property
    def n_positive(self) -> NDArray[np.int64]:
        stored = self.truth.signed
        positive = (stored.data > 0).astype(np.int64)
        rows = np.repeat(np.arange(stored.shape[0]), np.diff(stored.indptr))
        return np.bincount(rows, weights=positive, minlength=stored.shape[0]).astype(np.int64)

    def best(self, gains: Array, discounts: Array) -> Array:
        """Most that ``k`` places can hold, each place worth its discount, in each row."""
        stored = self.truth.signed
        positive = stored.data > 0
        rows = np.repeat(np.arange(stored.shape[0]), np.diff(stored.indptr))[positive]
        values = gains[stored.indices[positive]]
        order = np.lexsort((-values, rows))
        rows, values = rows[order], values[order]
        counts = np.bincount(rows, minlength=stored.shape[0])
        place = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        inside = place < len(discounts)
        weights = values[inside] * discounts[place[inside]]
        found = np.bincount(rows[inside], weights=weights, minlength=stored.shape[0])
        return found.astype(np.float64)  # without a positive the counts are integers


def _places(Y: Any, scores: Any, k: int, reading: dict[str, Any]) -> _Places:
    if not isinstance(k, Integral) or k < 1:
        raise ValueError(f"k must be an integer of at least 1, got {k!r}.")
    if not isinstance(scores, tuple):
        T, S = read(Y, scores, **reading)
        order = np.argsort(np.where(T != 0, -S, np.inf), axis=1, kind="stable")[:, :k]
        truth = StoredLabels(sp.csr_array(T.astype(np.float64)), "missing", dense=True)
        return _Places(order, np.take_along_axis(T, order, axis=1), truth)
    truth = _truth(Y, reading)
    labels = _check_list(scores, truth.signed.shape, k)
    signs = truth.at(labels)
    # A stable sort by "not judged" moves the judged ones up and keeps their order.
    order = np.argsort(signs == 0, axis=1, kind="stable")[:, :k]
    return _Places(
        np.take_along_axis(labels, order, axis=1), np.take_along_axis(signs, order, axis=1), truth
    )


def _truth(Y: Any, reading: dict[str, Any]) -> StoredLabels:
    reading = dict(reading)
    missing = reading.pop("missing", "ignore")
    if reading.pop("label_mask", None) is not None:
        raise ValueError("label_mask does not go with a list of labels: mark holes in Y instead.")
    if missing not in ("ignore", "error"):
        raise ValueError(f"missing must be 'ignore' or 'error', got {missing!r}.")
    if reading.get("absent_label") == "unlabelled":
        raise ValueError(
            "absent_label='unlabelled' is a way to learn; a metric has to count absence as "
            "'missing' or as 'negative'."
        )
    truth = stored_labels(Y, allow_empty=True, **reading)
    if missing == "error" and truth.absent == "missing":
        n, c = truth.signed.shape
        raise ValueError(
            f"Y has {n * c - truth.signed.nnz} missing entries, and missing='error' allows none."
        )
    return truth


def _check_list(scores: tuple[Any, ...], shape: tuple[int, int], k: int) -> NDArray[np.intp]:
    if len(scores) != 2:
        raise ValueError(
            f"A list of the best labels is a pair (indices, scores), got {len(scores)} parts."
        )
    labels, values = (np.asarray(to_numpy(part)) for part in scores)
    n, c = shape
    if labels.ndim != 2 or len(labels) != n or labels.shape != values.shape:
        raise ValueError(
            f"indices and scores of a list must both have shape ({n}, at least {k}), got "
            f"{labels.shape} and {values.shape}."
        )
    if labels.shape[1] < min(k, c):
        raise ValueError(f"k={k}, but the list has {labels.shape[1]} labels a row.")
    if labels.dtype.kind not in "iu" or (labels.size and not 0 <= labels.min() <= labels.max() < c):
        raise ValueError(f"indices must be integers from 0 to {c - 1}, the columns of Y.")
    if np.isnan(values).any() or (np.diff(values, axis=1) > 0).any():
        raise ValueError("scores of a list must fall, or stay, from place to place in every row.")
    ordered = np.sort(labels, axis=1)
    twice = np.argwhere(ordered[:, 1:] == ordered[:, :-1])
    if len(twice):
        row, column = twice[0]
        raise ValueError(f"The list names label {ordered[row, column]} twice in row {row}.")
    return labels.astype(np.intp)


def precision_at_k(
    Y: Any,
    scores: Any,
    k: int = 1,
    *,
    undefined: Undefined = None,
    return_counts: bool = False,
    **reading: Any,
) -> float | MetricValue:
    r"""Share of positives among the ``k`` best observed labels of a row.

    .. math:: \frac1p \sum_i \frac{|top_k(i) \cap C_i^+|}{\min(k, |C_i^+| + |C_i^-|)}

    Ties are broken by label order. Rows with nothing observed are dropped.

    Parameters
    ----------
    Y : array-like or sparse matrix of shape (n, c)
        Labels of the contract; NaN = not observed. With a list of labels a sparse ``Y`` stays
        sparse.
    scores : array-like of shape (n, c), or tuple (indices, scores) of arrays of shape (n, K)
        Higher means more likely; or the ``K >= k`` best labels of each row, best first, as
        ``predict_top_k`` gives them. An unjudged label of a list takes no place. Where a list
        holds fewer judged labels than the formula asks for, it is divided by as many as there are;
        a row of whose list nothing is judged is dropped.
    k : int, default=1
        How many labels to look at.
    undefined : {None, "skip", "raise"} or float, default=None
        What to do with rows on which the formula divides by zero.
    return_counts : bool, default=False
        Return a :class:`MetricValue` that says how many entries and rows were used.
    **reading
        ``missing`` ("ignore" or "error"), ``label_mask``, ``missing_label``, ``absent_label``.

    Returns
    -------
    float or MetricValue
        Higher is better.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from dm2l.metrics import precision_at_k
    >>> precision_at_k([[1, 0, 0], [0, 1, 0]], [[0.9, 0.1, 0.2], [0.8, 0.3, 0.1]], k=2)
    0.5
    >>> best = np.array([[0, 2], [0, 1]]), np.array([[0.9, 0.2], [0.8, 0.3]])
    >>> Y = sp.csr_array([[1, 0, 0], [0, 1, 0]])
    >>> precision_at_k(Y, best, k=2, absent_label="negative")
    0.5
    """
    places = _places(Y, scores, k, reading)
    values = _ratio(places.hits.sum(axis=1), places.count)
    result = average(values, places.truth.n_observed(), places.count > 0, undefined=undefined)
    return finish(result, return_counts)


def ndcg_at_k(
    Y: Any,
    scores: Any,
    k: int = 1,
    *,
    undefined: Undefined = None,
    return_counts: bool = False,
    **reading: Any,
) -> float | MetricValue:
    r"""Discounted gain of the ``k`` best observed labels, over the most there could be.

    .. math:: \frac1p \sum_i \frac{\sum_{l=1}^{k} [y_{i, r_l} = 1] / \log_2(l + 1)}
              {\sum_{l=1}^{\min(k, |C_i^+|)} 1 / \log_2(l + 1)}

    with ``r_l`` the label at place ``l`` among the judged ones. Ties are broken by label order.
    Rows without an observed positive are dropped; ``undefined=0.0`` counts them as scikit-learn
    does.

    Parameters
    ----------
    Y, scores, k, undefined, return_counts, **reading
        As in :func:`precision_at_k`.

    Returns
    -------
    float or MetricValue
        Higher is better; 1 where positives fill the first places.

    Examples
    --------
    >>> from dm2l.metrics import ndcg_at_k
    >>> round(ndcg_at_k([[1, 0, 0], [0, 1, 0]], [[0.9, 0.1, 0.2], [0.8, 0.3, 0.1]], k=3), 6)
    0.815465
    """
    places = _places(Y, scores, k, reading)
    discounts = _discounts(places.labels.shape[1])
    gained = places.hits @ discounts
    best = places.best(np.ones(places.truth.signed.shape[1]), discounts)
    defined = (best > 0) & (places.count > 0)
    result = average(_ratio(gained, best), places.truth.n_observed(), defined, undefined=undefined)
    return finish(result, return_counts)


def propensities(Y: Any, a: float = 0.55, b: float = 1.5, **reading: Any) -> Array:
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
    **reading
        ``missing_label``, ``absent_label``; a sparse ``Y`` of positives needs none of them here.

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
    if sp.issparse(Y):  # what absence means makes no difference to the positives
        reading = {"absent_label": "missing"} | reading
    labels = stored_labels(Y, **reading)
    return _propensities(labels, a, b)


def _propensities(labels: StoredLabels, a: float = 0.55, b: float = 1.5) -> Array:
    n = labels.signed.shape[0]
    if n < 3:
        raise ValueError(f"Propensities need at least 3 rows, got {n}: log(n) - 1 is negative.")
    scale = (np.log(n) - 1.0) * (b + 1.0) ** a
    return np.asarray(1.0 / (1.0 + scale * (labels.positives() + b) ** -a))


def propensity_scored_precision_at_k(
    Y: Any,
    scores: Any,
    propensities: Any,
    k: int = 1,
    *,
    normalise: bool = True,
    undefined: Undefined = None,
    return_counts: bool = False,
    **reading: Any,
) -> float | MetricValue:
    r"""Precision in which a positive counts for all those of its label that were not marked.

    .. math:: \mathrm{PSP@}k = \frac1p \sum_i \frac1{k_i}
              \sum_{l=1}^{k} \frac{[y_{i, r_l} = 1]}{p_{r_l}}

    with ``k_i = min(k, observed labels)``, over the same sum for the best possible order unless
    ``normalise=False``. Rows of which nothing is judged are dropped.

    Parameters
    ----------
    Y, scores, k, return_counts, **reading
        As in :func:`precision_at_k`.
    propensities : array-like of shape (c,)
        Chance that a positive was marked: from :func:`propensities` of the *training* labels.
    normalise : bool, default=True
        Whether to divide by what the best possible order reaches on the same rows (sum over sum),
        as published tables do. Without, the value may exceed 1.
    undefined : {None, "skip", "raise"} or float, default=None
        A number takes the place of an undefined result, that of labels without a positive.

    Returns
    -------
    float or MetricValue
        Higher is better.

    Examples
    --------
    >>> from dm2l.metrics import propensity_scored_precision_at_k
    >>> Y = [[1, 0, 1], [0, 1, 0]]
    >>> scores = [[0.9, 0.1, 0.2], [0.1, 0.3, 0.8]]
    >>> propensity_scored_precision_at_k(Y, scores, [0.5, 0.25, 0.1])
    0.14285714285714285
    """
    places = _places(Y, scores, k, reading)
    gains = _gains(propensities, places)
    share = 1.0 / np.maximum(places.count, 1)
    gained = np.where(places.hits, gains[places.labels], 0.0).sum(axis=1) * share
    best = places.best(gains, np.ones(places.labels.shape[1])) * share
    result = _over_best(places, gained, best, normalise, undefined)
    return finish(result, return_counts)


def propensity_scored_ndcg_at_k(
    Y: Any,
    scores: Any,
    propensities: Any,
    k: int = 1,
    *,
    normalise: bool = True,
    undefined: Undefined = None,
    return_counts: bool = False,
    **reading: Any,
) -> float | MetricValue:
    r"""Discounted gain in which a positive counts for all of its label that were not marked.

    .. math:: \mathrm{PSnDCG@}k = \frac1p \sum_i \frac{\sum_{l=1}^{k} [y_{i, r_l} = 1] /
              (p_{r_l} \log_2(l + 1))}{\sum_{l=1}^{k} 1 / \log_2(l + 1)}

    over the same sum for the best possible order unless ``normalise=False``.

    Parameters
    ----------
    Y, scores, propensities, k, normalise, undefined, return_counts, **reading
        As in :func:`propensity_scored_precision_at_k`.

    Returns
    -------
    float or MetricValue
        Higher is better.

    Examples
    --------
    >>> from dm2l.metrics import propensity_scored_ndcg_at_k
    >>> Y = [[1, 0, 1], [0, 1, 0]]
    >>> scores = [[0.9, 0.1, 0.2], [0.1, 0.3, 0.8]]
    >>> round(propensity_scored_ndcg_at_k(Y, scores, [0.5, 0.25, 0.1], k=2), 6)
    0.70981
    """
    places = _places(Y, scores, k, reading)
    gains = _gains(propensities, places)
    discounts = _discounts(places.labels.shape[1])
    gained = np.where(places.hits, gains[places.labels], 0.0) @ discounts / discounts.sum()
    best = places.best(gains, discounts) / discounts.sum()
    result = _over_best(places, gained, best, normalise, undefined)
    return finish(result, return_counts)


def _discounts(k: int) -> Array:
    return np.asarray(1.0 / np.log2(np.arange(2, k + 2)))


def _ratio(a: NDArray[Any], b: NDArray[Any]) -> Array:
    return np.divide(a, b, out=np.zeros(len(a)), where=b != 0)


def _gains(propensities: Any, places: _Places) -> Array:
    """``1 / p`` of each label."""
    p = np.asarray(to_numpy(propensities), dtype=np.float64)
    c = places.truth.signed.shape[1]
    if p.shape != (c,):
        raise ValueError(f"propensities has shape {p.shape}, but Y has {c} labels: ({c},) is due.")
    bad = np.flatnonzero(~((p > 0) & (p <= 1)))
    if len(bad):
        raise ValueError(
            f"propensities has {p[bad[0]]} for label {bad[0]}; a chance lies above 0 and is at "
            "most 1."
        )
    return np.asarray(1.0 / p)


def _over_best(
    places: _Places, gained: Array, best: Array, normalise: bool, undefined: Undefined
) -> MetricValue:
    """Mean gain, or its ratio to the mean of the best one."""
    rows = undefined if isinstance(undefined, str) else None
    observed, defined = places.truth.n_observed(), places.count > 0
    result = average(gained, observed, defined, undefined=rows)
    if not normalise or not result.n_units:
        return result
    most = float(best[defined & (observed > 0)].mean())
    if most > 0:
        return result._replace(value=result.value / most)
    if undefined == "raise":
        raise ValueError("The metric is undefined: no row has an observed positive.")
    if undefined is not None and not isinstance(undefined, str):
        return result._replace(value=float(undefined))
    warnings.warn(
        "The metric is undefined: no row has an observed positive; the result is nan.",
        UndefinedMetricWarning,
        stacklevel=3,
    )
    return result._replace(value=float("nan"))
