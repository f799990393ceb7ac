"""Cross-validation when labels are missing: splitters, out-of-fold scores, scorers, intervals.

scikit-learn's own tools stop at a NaN in ``Y``: ``cv=5`` raises, ``cross_val_predict`` takes NaN
for a class. What is here plugs into ``GridSearchCV`` and ``cross_validate`` through ``cv=`` and
``scoring=``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from inspect import signature
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import make_scorer
from sklearn.model_selection import BaseCrossValidator, BaseShuffleSplit, ShuffleSplit
from sklearn.model_selection._split import _pprint
from sklearn.utils import check_consistent_length, check_random_state, get_tags
from sklearn.utils.parallel import Parallel, delayed

from dm2l import metrics
from dm2l.labels._entries import Signs
from dm2l.labels._matrix import signs

__all__ = [
    "Interval",
    "MultilabelKFold",
    "MultilabelShuffleSplit",
    "check_tick_scoring",
    "corrected_t_interval",
    "cross_val_decision",
    "get_judge",
    "get_metric",
    "get_scorer",
    "get_scorer_names",
]

Rows = NDArray[np.intp]
Split = tuple[Rows, Rows]

# ------------------------------------------------------------------------------- stratification


class _Strata(NamedTuple):
    """The groups of rows to be spread, rarest first, and the rarest one of each row."""

    member: NDArray[np.bool_]
    size: NDArray[np.intp]
    rarest: NDArray[np.intp]


def _strata(T: Signs) -> _Strata:
    """Make a group of each label's observed positives and one of its observed negatives."""
    member = np.concatenate([T > 0, T < 0], axis=1)
    size = member.sum(axis=0)
    order = np.argsort(size, kind="stable")
    order = order[size[order] > 0]
    member, size = np.ascontiguousarray(member[:, order]), size[order]
    rarest = np.where(member.any(axis=1), member.argmax(axis=1), len(size))
    return _Strata(member, size, rarest)


def _deal(strata: _Strata, k: int, rng: np.random.RandomState, shuffle: bool) -> Rows:
    r"""Deal the rows to k folds, one each in turn, so that every group is spread evenly.

    Rows are taken in the order of the rarest group they belong to, as iterative stratification
    does, but k at a time: an assignment problem gives each fold one of them. With :math:`e_{gf}`
    the number of rows of group g in fold f less the fair share of those dealt so far, a row costs
    :math:`\sum_g e_{gf} / n_g` in fold f: half the derivative of
    :math:`\sum_{gf} e_{gf}^2 / n_g`, a chi-squared statistic in which rare groups weigh most.
    """
    n = len(strata.member)
    # Within the rarest group the order is random. Sorting by the second rarest too was no better
    # (Arts, 5 folds: mean deviation of a label 0.38 instead of 0.35) and nearly fixes the folds.
    rows = np.lexsort([rng.uniform(size=n) if shuffle else np.arange(n), strata.rarest])
    # Batches of one row a fold: on Arts twice and four times as many rows at once leave 1.7 and
    # 2.6 times the deviation. The bound keeps the assignment cheap when k is near n.
    batch = min(k, 64)
    excess = np.zeros((len(strata.size), k))
    fold = np.empty(n, dtype=np.intp)
    for start in range(0, n, batch):
        chosen = rows[start : start + batch]
        # The last rows, fewer than folds, may choose among all folds.
        places = np.arange(start, start + (k if batch == k else len(chosen))) % k
        groups = strata.member[chosen].astype(np.float64)
        cost = groups @ (excess / strata.size[:, None])
        # Far above rounding and far below a real difference: equal costs are decided by the seed,
        # not by the order in which this machine's BLAS adds.
        cost += 1e-9 * rng.uniform(size=cost.shape)
        row, place = linear_sum_assignment(cost[:, places])
        taken = np.zeros(cost.shape)
        taken[row, places[place]] = 1
        fold[chosen[row]] = places[place]
        excess += groups.T @ (taken - 1 / k)
    return fold


def _deal_groups(
    strata: _Strata, groups: Any, k: int, rng: np.random.RandomState, shuffle: bool
) -> Rows:
    """Deal whole groups of rows, the largest first, each to the fold that then is the fairest.

    The cost is that of :func:`_deal`, with the rows themselves for one more stratum.
    """
    number = np.unique(np.asarray(groups), return_inverse=True)[1]
    n_groups = int(number.max()) + 1
    if n_groups < k:
        raise ValueError(f"{k} folds need as many groups of rows; there are {n_groups}.")
    member = np.column_stack([strata.member, np.ones(len(number))])
    size = np.append(strata.size, len(number))
    counts = np.zeros((n_groups, len(size)))
    np.add.at(counts, number, member)
    ties = rng.uniform(size=n_groups) if shuffle else np.arange(n_groups)
    excess = np.zeros((len(size), k))
    fold = np.empty(n_groups, dtype=np.intp)
    for group in np.lexsort([ties, -counts[:, -1]]):
        cost = (counts[group] / size) @ excess + 1e-9 * rng.uniform(size=k)
        fold[group] = chosen = int(np.argmin(cost))
        excess[:, chosen] += counts[group]
        excess -= counts[group][:, None] / k
    return fold[number]


def _n_folds(n: int, n_test: int, n_train: int) -> int:
    """Choose a number of folds that can be parted nearly as the rows are to be."""
    ends = np.array([n_test, n_test + n_train]) / n
    candidates = range(2, min(n, max(20, min(64, n // n_test))) + 1)
    return min(candidates, key=lambda q: (round(np.abs(np.round(ends * q) / q - ends).sum(), 3), q))


class _ReadsLabels:
    """What splitters share: labels with marks and masks, and a number of splits."""

    # Where a mask travels by metadata routing it must reach the splitter: without it the labels
    # under the mask would decide the folds.
    __metadata_request__split: ClassVar[dict[str, bool]] = {"label_mask": True}

    n_splits: int
    missing_label: Any
    missing_as: Any

    def _signs(self, X: Any, y: Any, label_mask: Any, least: int) -> Signs:
        if not isinstance(self.n_splits, Integral) or self.n_splits < least:
            raise ValueError(
                f"n_splits must be an integer of at least {least}, got {self.n_splits!r}."
            )
        if y is None:
            raise ValueError(f"{type(self).__name__} spreads labels over folds and needs y.")
        marks = {"missing_label": self.missing_label, "missing_as": self.missing_as}
        T = signs(y, label_mask=label_mask, **marks)
        check_consistent_length(X, T)
        return T

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None, label_mask: Any = None
    ) -> int:
        """Return the number of splits.

        Parameters
        ----------
        X, y, groups, label_mask : object
            Ignored, for compatibility; scikit-learn passes here what it passes to ``split``.

        Returns
        -------
        int
            ``n_splits``.
        """
        return self.n_splits


@dataclass(eq=False, repr=False)
class MultilabelKFold(_ReadsLabels, BaseCrossValidator):
    r"""K folds over which every label's observed positives and negatives are spread evenly.

    Every row is in exactly one test fold, there are exactly ``n_splits`` folds, and their sizes
    differ by at most one. Only observed labels matter: what is hidden cannot change the folds.
    Rows of one group stay in one fold, as even as they then can be.

    Iterative stratification [1]_ places one row after the other, rarest label first. Here
    ``n_splits`` rows at a time, one for each fold, are placed by an assignment problem that
    lowers :math:`\sum_{gf} (n_{gf} - n_g / k)^2 / n_g`, where a group g is the observed positives
    or the observed negatives of a label. On Arts (5000 x 26) and 5 folds a label's positives
    deviate from a fifth by 0.35 on average, 1 at most (shuffled ``KFold``: about 4 and 25).

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=True
        Break ties between rows at random. If False they are broken by the order of the rows, and
        the folds are the same at every call.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling. None deals other folds at every call, unlike ``KFold()``, which
        does not shuffle: give a number for the same figures in every run.
    groups : None, "duplicates" or array-like of shape (n,), default=None
        Rows that belong together: those with the same features, or with the same value here, so
        that no model is judged by rows that it has copies of.
    missing_label : scalar, default=nan
        Mark of an entry that was not observed.
    missing_as : {None, "missing", "negative"}, default=None
        What "nothing stored" means in a sparse ``y`` that holds positives only.

    See Also
    --------
    MultilabelShuffleSplit : Repeated random splits.

    References
    ----------
    .. [1] K. Sechidis, G. Tsoumakas, I. Vlahavas, "On the stratification of multi-label data",
       ECML PKDD 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.model_selection import MultilabelKFold
    >>> Y = np.array([[1, 0], [1, 0], [0, 1], [0, np.nan], [0, 1], [0, np.nan]])
    >>> folds = MultilabelKFold(n_splits=2, random_state=0)
    >>> for train, test in folds.split(np.zeros((6, 1)), Y):
    ...     print(len(test), np.nansum(Y[test], axis=0))
    3 [1. 1.]
    3 [1. 1.]
    >>> folds = MultilabelKFold(n_splits=2, groups="duplicates", random_state=0)
    >>> for train, test in folds.split([[1], [1], [1], [2], [2], [3]], Y):
    ...     print(test)
    [3 4]
    [0 1 2 5]
    """

    n_splits: int = 5
    _: KW_ONLY
    shuffle: bool = True
    random_state: Any = None
    groups: Any = None
    missing_label: Any = np.nan
    missing_as: Any = None

    def __repr__(self) -> str:
        # Groups that nobody gave are left out: the text is part of the keys of stored results.
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        if self.groups is None:
            del given["groups"]
        return f"MultilabelKFold({_pprint(given, offset=len('MultilabelKFold'))})"

    def split(self, X: Any, y: Any, groups: Any = None, label_mask: Any = None) -> Iterator[Split]:
        """Generate the row numbers of training and test set of each fold.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features; only their number of rows matters, unless groups are "duplicates".
        y : array-like, data frame or sparse matrix of shape (n, c) or (n,)
            Labels with missing entries, or classes; see :func:`dm2l.labels.parse_labels`.
        groups : None, "duplicates" or array-like of shape (n,), default=None
            In place of those of the splitter.
        label_mask : array-like of bool of the shape of y, default=None
            True where the entry may be used.

        Yields
        ------
        train, test : ndarray of int
            Row numbers, ascending.
        """
        T = self._signs(X, y, label_mask, least=2)
        if not self.shuffle and self.random_state is not None:
            raise ValueError("random_state has no effect with shuffle=False; leave it None.")
        n, k = len(T), int(self.n_splits)
        if k > n:
            raise ValueError(
                f"Cannot have number of splits n_splits={k} greater than the number of rows: {n}."
            )
        rng = check_random_state(self.random_state if self.shuffle else 0)
        groups = self.groups if groups is None else groups
        if isinstance(groups, str):
            from dm2l.datasets import duplicate_groups

            if groups != "duplicates":
                raise ValueError(f"groups must be 'duplicates' or one value a row, got {groups!r}.")
            groups = duplicate_groups(X)
        if groups is None:
            fold = _deal(_strata(T), k, rng, self.shuffle)
        else:
            check_consistent_length(T, groups)
            fold = _deal_groups(_strata(T), groups, k, rng, self.shuffle)
        for f in range(k):
            yield np.flatnonzero(fold != f), np.flatnonzero(fold == f)


@dataclass(eq=False, repr=False)
class MultilabelShuffleSplit(_ReadsLabels, BaseShuffleSplit):
    """Random splits over which every label's observed positives and negatives are spread evenly.

    Each split deals the rows anew to folds as :class:`MultilabelKFold` does, as many as suit the
    sizes asked for (5 for a test share of 0.4), and takes some for testing, others for training.
    Every row has the same chance to be tested. Only observed labels matter.

    Parameters
    ----------
    n_splits : int, default=10
        Number of splits.
    test_size : float, int or None, default=None
        Share or number of test rows. None: what ``train_size`` leaves, or 0.1.
    train_size : float, int or None, default=None
        Share or number of training rows. None: what ``test_size`` leaves.
    random_state : int, RandomState instance or None, default=None
        Seed.
    missing_label, missing_as
        As in :class:`MultilabelKFold`.

    See Also
    --------
    MultilabelKFold : Folds in which every row is tested once.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.model_selection import MultilabelShuffleSplit
    >>> Y = np.zeros((50, 2))
    >>> Y[:5, 0], Y[3:13, 1] = 1, 1
    >>> split = MultilabelShuffleSplit(n_splits=2, test_size=0.4, random_state=0)
    >>> for train, test in split.split(np.zeros((50, 1)), Y):
    ...     print(len(train), len(test), Y[test].sum(axis=0))
    30 20 [2. 4.]
    30 20 [2. 4.]
    """

    n_splits: int = 10
    _: KW_ONLY
    test_size: float | None = None
    train_size: float | None = None
    random_state: Any = None
    missing_label: Any = np.nan
    missing_as: Any = None

    def split(self, X: Any, y: Any, groups: Any = None, label_mask: Any = None) -> Iterator[Split]:
        """Generate the row numbers of training and test set of each split.

        Parameters
        ----------
        X, y, groups, label_mask
            As in :meth:`MultilabelKFold.split`.

        Yields
        ------
        train, test : ndarray of int
            Row numbers, in random order.
        """
        T = self._signs(X, y, label_mask, least=1)
        # scikit-learn knows what its sizes mean and which ones to refuse.
        plain = ShuffleSplit(1, test_size=self.test_size, train_size=self.train_size)
        n_train, n_test = (len(part) for part in next(plain.split(T)))
        k = _n_folds(len(T), n_test, n_train)
        strata, rng = _strata(T), check_random_state(self.random_state)
        for _ in range(self.n_splits):
            # Nothing tells one fold from another before the first rows are dealt at random, so
            # every row has the same chance to be in the first ones and be tested. Where the sizes
            # cut a fold in two, its rows are divided at random.
            rows = np.lexsort([rng.uniform(size=len(T)), _deal(strata, k, rng, shuffle=True)])
            test, train = rows[:n_test], rows[n_test : n_test + n_train]
            yield rng.permutation(train), rng.permutation(test)


# --------------------------------------------------------------------------- out-of-fold scores


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
    """Score every row by a model that has not seen it.

    What scikit-learn's ``cross_val_predict`` does, for labels with holes: that function re-encodes
    ``Y`` and makes a class of NaN.

    Parameters
    ----------
    estimator : estimator
        Cloned for each fold, never fitted itself.
    X : array-like, data frame or sparse matrix of shape (n, d)
        Features.
    Y : array-like, data frame or sparse matrix of shape (n, c) or (n,)
        Labels with missing entries. A fold's estimator sees those of its training rows only.
    cv : int, splitter or iterable of (train, test), default=5
        An integer stands for ``MultilabelKFold(cv, shuffle=False)``. Test sets must hold every row
        once.
    label_mask : array-like of bool of the shape of Y, default=None
        True where the entry may be used; its training rows go to ``fit`` as ``label_mask=``, all
        of it to a splitter of this module.
    n_jobs : int or None, default=None
        Number of folds to fit at a time; None means 1, -1 one per core.
    method : str, default="decision_function"
        Method of the fitted estimator that is called on the test rows.

    Returns
    -------
    ndarray of shape (n, c) or (n,)
        What ``method`` returned, in the order of the rows.

    Examples
    --------
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from dm2l.datasets import load_digit_attributes
    >>> from dm2l.metrics import label_auc
    >>> from dm2l.model_selection import cross_val_decision
    >>> X, Y = load_digit_attributes(return_X_y=True)
    >>> scores = cross_val_decision(RidgeClassifier(), X, Y, cv=3)
    >>> scores.shape
    (1797, 19)
    >>> round(label_auc(Y, scores), 2)
    0.99
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
    """Folds that read labels as the estimator does, or the one inside a pipeline or a search."""
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
    if not hasattr(cv, "split"):
        return [(np.asarray(train), np.asarray(test)) for train, test in cv]
    if label_mask is not None and isinstance(cv, (MultilabelKFold, MultilabelShuffleSplit)):
        return list(cv.split(X, Y, label_mask=label_mask))
    return list(cv.split(X, Y))


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


# -------------------------------------------------------------------------------------- scorers


class _Recipe(NamedTuple):
    metric: Any
    greater_is_better: bool = True
    response_method: str = "decision_function"
    k: int | None = None


_RECIPES = {
    "average_precision": _Recipe(metrics.average_precision),
    "f1_macro": _Recipe(metrics.f1_macro, response_method="predict"),
    "f1_micro": _Recipe(metrics.f1_micro, response_method="predict"),
    "instance_auc": _Recipe(metrics.instance_auc),
    "label_auc": _Recipe(metrics.label_auc),
    "label_skill": _Recipe(metrics.label_skill),
    "neg_calibrated_log_loss": _Recipe(metrics.calibrated_log_loss, greater_is_better=False),
    "neg_coverage": _Recipe(metrics.coverage, greater_is_better=False),
    "neg_hamming_loss": _Recipe(metrics.hamming_loss, False, "predict"),
    "neg_one_error": _Recipe(metrics.one_error, greater_is_better=False),
    "neg_ranking_loss": _Recipe(metrics.ranking_loss, greater_is_better=False),
    **{f"ndcg_at_{k}": _Recipe(metrics.ndcg_at_k, k=k) for k in (1, 3, 5)},
    **{f"precision_at_{k}": _Recipe(metrics.precision_at_k, k=k) for k in (1, 3, 5)},
    "two_way_ranking": _Recipe(metrics.two_way_ranking),
}


def get_scorer_names() -> list[str]:
    """Return the names that :func:`get_scorer` knows.

    Returns
    -------
    list of str
        Sorted names; ``neg_`` marks a loss with its sign turned, as scikit-learn does.

    Examples
    --------
    >>> from dm2l.model_selection import get_scorer_names
    >>> get_scorer_names()[:4]
    ['average_precision', 'f1_macro', 'f1_micro', 'instance_auc']
    """
    return sorted(_RECIPES)


def get_scorer(name: str, **options: Any) -> Any:
    """Make a scorer of a metric of :mod:`dm2l.metrics`, for ``scoring=`` of ``GridSearchCV``.

    A scorer is called as ``scorer(estimator, X, Y)`` and is larger for a better estimator. Where
    ``Y`` has holes it estimates what complete labels would give; ``holes="observed"`` makes it
    judge observed labels alone. Where scikit-learn's metadata routing passes a ``label_mask``,
    ``get_scorer(name).set_score_request(label_mask=True)`` takes it: what a fit may not read must
    not be scored either. So it takes a ``sample_weight``.

    Parameters
    ----------
    name : str
        One of :func:`get_scorer_names`.
    **options : object
        Options of the metric, for example ``missing_label=-1`` or ``convention="published"``.

    Returns
    -------
    callable
        A new scorer, made by :func:`sklearn.metrics.make_scorer`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from dm2l.model_selection import get_scorer
    >>> X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[0, 1], [0, 1], [1, 0]])
    >>> model = RidgeClassifier().fit(X, Y)
    >>> get_scorer("neg_ranking_loss")(model, X, [[0, 1], [np.nan, 1], [1, np.nan]])
    -0.0
    """
    recipe = _recipe(name)
    if recipe.k is not None:
        options = {"k": recipe.k} | options
    return make_scorer(
        recipe.metric,
        greater_is_better=recipe.greater_is_better,
        response_method=recipe.response_method,
        **options,
    )


def check_tick_scoring(name: str) -> None:
    """Refuse a scorer that ticks cannot stand in for.

    Parameters
    ----------
    name : str
        One of :func:`get_scorer_names`.

    Examples
    --------
    >>> from dm2l.model_selection import check_tick_scoring
    >>> check_tick_scoring("label_auc")
    """
    usable = [
        known
        for known in get_scorer_names()
        if known.startswith(("precision_at", "ndcg"))
        or known in ("instance_auc", "label_auc", "neg_ranking_loss")
    ]
    if name not in usable:
        raise ValueError(
            f"{name!r} cannot be estimated from ticks: it needs to know who is negative. Usable "
            f"with missing_as='unlabelled': {', '.join(usable)}."
        )


def get_metric(name: str, **options: Any) -> Callable[..., float]:
    """Make a function of labels and scores, larger for better scores, of a scorer's name.

    Parameters
    ----------
    name : str
        One of :func:`get_scorer_names`. Metrics of decisions take a score above 0 as a yes.
    **options : object
        Options of the metric, for example ``holes="observed"``.

    Returns
    -------
    callable
        ``metric(Y, scores)``; it can be pickled.

    Examples
    --------
    >>> from dm2l.model_selection import get_metric
    >>> get_metric("neg_hamming_loss")([[0, 1], [1, 1]], [[-0.5, 0.2], [0.3, -0.1]])
    -0.25
    """
    return partial(_measure, _recipe(name), **options)


def get_judge(name: str) -> Callable[..., float]:
    """As :func:`get_metric`; where no estimate is possible, the measure of observed labels.

    Which of the two it is depends on the labels alone: settings are judged alike by it.

    Parameters
    ----------
    name : str
        One of :func:`get_scorer_names`.

    Returns
    -------
    callable
        ``metric(Y, scores, sample_weight=None)``; it can be pickled.

    Examples
    --------
    >>> from dm2l.model_selection import get_judge
    >>> get_judge("label_auc")([[0, 1], [1, 0]], [[0.1, 0.9], [0.8, 0.3]])
    1.0
    """
    return partial(_judge, _recipe(name))


def _judge(recipe: _Recipe, Y: Any, scores: Any, sample_weight: Any = None) -> float:
    weights = {"sample_weight": sample_weight}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        value = _measure(recipe, Y, scores, **weights)
        if np.isnan(value) and "holes" in signature(recipe.metric).parameters:
            value = _measure(recipe, Y, scores, holes="observed", **weights)
    return value


def _recipe(name: str) -> _Recipe:
    if name not in _RECIPES:
        raise ValueError(f"{name!r} is not a scorer. Known scorers: {', '.join(sorted(_RECIPES))}.")
    return _RECIPES[name]


def _measure(recipe: _Recipe, Y: Any, scores: Any, **options: Any) -> float:
    response = scores
    if recipe.response_method == "predict":
        response = (np.asarray(scores) > 0).astype(np.float64)
    if recipe.k is not None:
        options = {"k": recipe.k} | options
    value = float(recipe.metric(Y, response, **options))
    return value if recipe.greater_is_better else -value


# ------------------------------------------------------------------------------------ intervals


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
        One per split: a measure, or the difference of two methods in it.
    test_share : float
        Share of rows in the test part: 0.4 for splits of 60/40.
    level : float, default=0.95
        Confidence.

    Returns
    -------
    Interval
        Unbounded for a single value, which says nothing about the spread.

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
