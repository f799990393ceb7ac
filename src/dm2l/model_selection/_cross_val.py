"""Out-of-fold scores."""

from collections.abc import Sequence
from copy import copy
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from sklearn.base import clone
from sklearn.utils import check_consistent_length, get_tags
from sklearn.utils.parallel import Parallel, delayed

from dm2l._utils.arrays import take_rows
from dm2l.labels._entries import Signs
from dm2l.model_selection._splitters import MultilabelKFold, MultilabelShuffleSplit, Rows, Split


def cross_val_decision(
    estimator: Any,
    X: Any,
    Y: Any,
    *,
    cv: Any = 5,
    label_mask: Any = None,
    n_jobs: int | None = None,
    method: str = "decision_function",
) -> NDArray[Any]:
    """Out-of-fold scores: every row is scored by a model that was not fitted to it.

    scikit-learn's ``cross_val_predict`` re-encodes ``Y`` and makes NaN a class.

    Parameters
    ----------
    estimator : estimator
        Cloned for each fold, never fitted itself.
    X, Y : array-like, data frame or sparse matrix of shape (n, d) and (n, c)
        Features, and labels with NaN where missing, also as a LabelMatrix.
    cv : int, splitter or iterable of (train, test), default=5
        An integer stands for ``MultilabelKFold(cv, shuffle=False)``. Test sets must hold every row
        once.
    label_mask : array-like of bool of the shape of Y, default=None
        True where the entry may be used. Its training rows go to ``fit`` as ``label_mask=``.
    n_jobs : int or None, default=None
        Number of folds to fit at a time; -1: one per core.
    method : str, default="decision_function"
        Method of the fitted estimator to call on the test rows.

    Returns
    -------
    ndarray of shape (n, c) or (n,)
        Results of ``method``, in the order of the rows.

    Examples
    --------
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from dm2l.datasets import load_digit_attributes
    >>> from dm2l.model_selection import cross_val_decision
    >>> X, Y = load_digit_attributes(return_X_y=True)
    >>> cross_val_decision(RidgeClassifier(), X, Y, cv=3).shape
    (1797, 19)
    """
    check_consistent_length(X, Y, label_mask)
    n = int(Y.shape[0]) if hasattr(Y, "shape") else len(Y)
    splits = _splits(_default_cv(cv, estimator), X, Y, label_mask)
    order = np.concatenate([test for _, test in splits])
    if not np.array_equal(np.sort(order), np.arange(n)):
        raise ValueError(
            "cross_val_decision needs test sets that hold every row exactly once; for repeated "
            "random splits use sklearn.model_selection.cross_validate."
        )
    parts = Parallel(n_jobs=n_jobs)(
        delayed(_fit_and_score)(clone(estimator), X, Y, label_mask, train, test, method)
        for train, test in splits
    )
    shapes = sorted({part.shape[1:] for part in parts})
    if len(shapes) > 1:
        raise ValueError(
            f"{method} returned rows of different shapes {shapes} in different folds: a class is "
            "missing from the training rows of one. Use fewer folds or MultilabelKFold."
        )
    stacked = np.concatenate(parts)
    scores = np.empty_like(stacked)
    scores[order] = stacked
    return scores


def _default_cv(cv: Any, estimator: Any) -> Any:
    """Folds that read labels as the estimator does, also if it is in a pipeline or a search."""
    if not isinstance(cv, Integral):
        return cv
    marks: dict[str, Any] = {"missing_label": np.nan, "missing_as": None}
    settings = estimator.get_params()
    # From the innermost on, so that the outermost has the last word.
    for name in sorted(settings, key=lambda name: -name.count("__")):
        if (mark := name.rpartition("__")[2]) in marks:
            marks[mark] = settings[name]
    return MultilabelKFold(int(cv), shuffle=False, **marks)


def _splits(cv: Any, X: Any, Y: Any, label_mask: Any) -> list[Split]:
    if hasattr(cv, "split"):
        own = isinstance(cv, (MultilabelKFold, MultilabelShuffleSplit))
        cv = cv.split(X, Y, label_mask=label_mask) if own else cv.split(X, Y)
    return [(np.asarray(train), np.asarray(test)) for train, test in cv]


def _fit_and_score(
    estimator: Any, X: Any, Y: Any, label_mask: Any, train: Rows, test: Rows, method: str
) -> NDArray[Any]:
    known = {} if label_mask is None else {"label_mask": _take(label_mask, train)}
    seen, unseen = _take(X, train), _take(X, test)
    if get_tags(estimator).input_tags.pairwise:
        seen, unseen = np.asarray(seen)[:, train], np.asarray(unseen)[:, train]
    estimator.fit(seen, _take(Y, train), **known)
    scores = np.asarray(getattr(estimator, method)(unseen))
    if scores.ndim == 0 or len(scores) != len(test):
        raise ValueError(
            f"{method} must return one array with a row for each of the {len(test)} test rows, "
            f"got shape {scores.shape}."
        )
    return scores


def _take(table: Any, rows: Rows) -> Any:
    """Rows of an array, data frame, sparse matrix or list."""
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    if sp.issparse(table):
        return table.tocsr()[rows]
    if hasattr(table, "shape"):  # numpy, masked arrays, polars
        return table[rows]
    return [table[i] for i in rows] if isinstance(table, Sequence) else np.asarray(table)[rows]


class Interval(NamedTuple):
    """A mean over repetitions and a confidence interval around it."""

    mean: float
    low: float
    high: float


def corrected_t_interval(values: ArrayLike, test_share: float, level: float = 0.95) -> Interval:
    r"""Confidence interval of a mean over folds or repeated random splits of one data set.

    The splits share rows, so their values are correlated and the plain t interval is far too
    narrow. Nadeau and Bengio (2003) replace :math:`s^2 / J` by

    .. math:: \Bigl(\frac1J + \frac{\pi}{1 - \pi}\Bigr) s^2

    with J splits and :math:`\pi` the share of rows tested on; J - 1 degrees of freedom.

    Parameters
    ----------
    values : array-like of shape (n,)
        One per split: a measure, or the difference of two methods in it. The interval of a single
        value is unbounded.
    test_share : float
        Share of rows in the test part: 0.4 for splits of 60/40.
    level : float, default=0.95
        Confidence.

    Examples
    --------
    >>> from dm2l.model_selection import corrected_t_interval
    >>> interval = corrected_t_interval([0.02, 0.01, 0.04, 0.03, 0.02], test_share=0.4)
    >>> round(interval.low, 4), round(interval.high, 4)
    (-0.0055, 0.0535)
    """
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or not len(found):
        raise ValueError(f"values has shape {found.shape}: give a list with at least one number.")
    if not np.isfinite(found).all():
        position = int(np.flatnonzero(~np.isfinite(found))[0])
        raise ValueError(
            f"values has {found[position]} at position {position}: leave it out, or run what is "
            "missing."
        )
    for name, share in (("test_share", test_share), ("level", level)):
        if not 0 < share < 1:
            raise ValueError(f"{name} must lie between 0 and 1, got {share!r}.")
    mean, n = float(found.mean()), len(found)
    if n == 1:
        return Interval(mean, -np.inf, np.inf)
    error = float(found.std(ddof=1)) * float(np.sqrt(1 / n + test_share / (1 - test_share)))
    half = float(stats.t.ppf((1 + level) / 2, n - 1)) * error
    return Interval(mean, mean - half, mean + half)


def label_folds(cv: Any, X: Any, T: Signs) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Training and test rows of each fold of ``cv``, which sees observed labels only."""
    visible = np.where(T == 0, np.nan, T > 0)
    if isinstance(cv, Integral):
        cv = MultilabelKFold(int(cv), random_state=0)
    if hasattr(cv, "split"):
        splitter = copy(cv)
        if hasattr(splitter, "missing_label"):  # labels are NaN-coded by now
            splitter.missing_label, splitter.missing_as = np.nan, None
        # Rows with nothing observed do not matter, so they must not move the folds either.
        seen = np.flatnonzero((T != 0).any(axis=1))
        all_seen = len(seen) == len(T)
        if not isinstance(getattr(splitter, "groups", ""), str | None):
            splitter.groups = np.asarray(splitter.groups)[seen]
        folds = splitter.split(X if all_seen else take_rows(X, seen), visible[seen])
        return [(seen[train], seen[test]) for train, test in folds]
    given = list(cv)
    if not given:
        raise ValueError("cv has no folds. A generator has them once: give list(...) of it.")
    return given
