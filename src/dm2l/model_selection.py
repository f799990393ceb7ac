"""Cross-validation with missing labels: splitters, out-of-fold scores, scorers, intervals.

scikit-learn's own tools do not support NaN in ``Y``: ``cv=5`` raises an error, and
``cross_val_predict`` treats NaN as a class. The splitters and scorers of this module can be passed
as ``cv=`` and ``scoring=`` to ``GridSearchCV`` and ``cross_validate``.
"""

import warnings
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import KW_ONLY, dataclass
from functools import partial
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
from sklearn.utils import check_consistent_length, check_random_state, get_tags
from sklearn.utils.parallel import Parallel, delayed

from dm2l import metrics
from dm2l._utils.arrays import take_rows
from dm2l._utils.inputs import check_choice, check_counts
from dm2l.labels._entries import Signs
from dm2l.labels._matrix import parse_labels
from dm2l.metrics._ranking import label_discrimination, ranking_and_discrimination
from dm2l.metrics._reading import read_labels

__all__ = [
    "Interval",
    "MultilabelKFold",
    "MultilabelShuffleSplit",
    "corrected_t_interval",
    "cross_val_decision",
    "get_scorer",
    "get_scorer_names",
]

Rows = NDArray[np.intp]
Split = tuple[Rows, Rows]


def _strata(T: Signs) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Return the rows and sizes of strata (positives or negatives of a label), smallest first."""
    member = np.concatenate([T > 0, T < 0], axis=1)
    size = member.sum(axis=0)
    order = np.argsort(size, kind="stable")
    order = order[size[order] > 0]
    return np.ascontiguousarray(member[:, order]), size[order]


def _deal(T: Signs, k: int, rng: np.random.RandomState, shuffle: bool) -> Rows:
    """Assign rows to k folds with equal shares of the positives and negatives of every label."""
    # As in iterative stratification, rows are sorted by their rarest stratum. But k rows are placed
    # at a time, one in each fold, by solving an assignment problem, whose costs are half the
    # derivatives of the sum that MultilabelKFold reduces.
    n, (member, size) = len(T), _strata(T)
    rarest = np.where(member.any(axis=1), member.argmax(axis=1), len(size))
    # The order within a stratum is random. Sorting by the second rarest stratum would not improve
    # the folds and would leave little randomness.
    rows = np.lexsort([rng.uniform(size=n) if shuffle else np.arange(n), rarest])
    # A batch has one row per fold, because larger batches give less even folds. The limit keeps the
    # assignment problem small if k is close to n.
    batch = min(k, 64)
    excess = np.zeros((len(size), k))
    fold = np.empty(n, dtype=np.intp)
    for start in range(0, n, batch):
        chosen = rows[start : start + batch]
        # The last batch may have fewer rows than folds. Its rows can go to any fold.
        places = np.arange(start, start + (k if batch == k else len(chosen))) % k
        groups = member[chosen].astype(np.float64)
        cost = groups @ (excess / size[:, None])
        # Random noise breaks ties. It is larger than rounding errors, so that results only depend
        # on the seed, and smaller than real differences.
        cost += 1e-9 * rng.uniform(size=cost.shape)
        row, place = linear_sum_assignment(cost[:, places])
        taken = np.zeros(cost.shape)
        taken[row, places[place]] = 1
        fold[chosen[row]] = places[place]
        excess += groups.T @ (taken - 1 / k)
    return fold


def _deal_groups(T: Signs, groups: Any, k: int, rng: np.random.RandomState, shuffle: bool) -> Rows:
    """Assign groups of rows to k folds, as :func:`_deal` assigns rows; large groups come first."""
    # The cost is defined as in _deal, where all rows form an additional stratum.
    member, size = _strata(T)
    number = np.unique(np.asarray(groups), return_inverse=True)[1]
    n_groups = int(number.max()) + 1
    if n_groups < k:
        raise ValueError(f"{k} folds need at least {k} groups of rows, but groups has {n_groups}.")
    member = np.column_stack([member, np.ones(len(number))])
    size = np.append(size, len(number))
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


class _LabelSplitter:
    """Base class of the splitters; it reads the labels and checks ``n_splits``."""

    # Metadata routing must also pass the mask to the splitter. Otherwise, labels hidden by the mask
    # would affect the folds.
    __metadata_request__split: ClassVar[dict[str, bool]] = {"label_mask": True}

    n_splits: int
    missing_label: Any
    missing_as: Any
    _split: Callable[[Any, Signs], Iterator[Split]]  # generates the splits for a matrix of signs

    def split(self, X: Any, y: Any, groups: Any = None, label_mask: Any = None) -> Iterator[Split]:
        """Generate the row numbers of the training and test set of each split.

        Rows of a fold are in ascending order, and rows of a random split are in random order.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features. Only the number of rows is used, unless ``groups="duplicates"``.
        y : array-like, data frame, sparse matrix or LabelMatrix of shape (n, c) or (n,)
            Labels with NaN where missing, or classes.
        groups : None
            Not used. Pass groups to the constructor of :class:`MultilabelKFold`.
        label_mask : array-like of bool of the shape of y, default=None
            True for entries that may be used.
        """
        if groups is not None:
            raise ValueError("split does not accept groups. Pass MultilabelKFold(groups=...).")
        if y is None:
            raise ValueError(f"{type(self).__name__} needs labels. Pass the labels as y.")
        marks = {"missing_label": self.missing_label, "missing_as": self.missing_as}
        T = parse_labels(y, label_mask=label_mask, **marks).signs
        check_consistent_length(X, T)
        return self._split(X, T)

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None, label_mask: Any = None
    ) -> int:
        """Return the number of splits; arguments are ignored and only exist for compatibility."""
        return self.n_splits


@dataclass(eq=False, repr=False)
class MultilabelKFold(_LabelSplitter, BaseCrossValidator):
    r"""K folds with equal shares of every label's observed positives and negatives.

    Every row is in exactly one test fold, there are exactly ``n_splits`` folds, and their sizes
    differ by at most one. The values of missing labels cannot change the folds. With ``groups``,
    all rows of a group are in one fold, and the folds are as even as the groups allow.

    Iterative stratification (Sechidis et al., ECML PKDD 2011) places rows one by one, rarest label
    first. This splitter places ``n_splits`` rows at a time, one in each fold. Solutions of
    assignment problems reduce :math:`\sum_{gf} (n_{gf} - n_g / k)^2 / n_g`, where :math:`n_{gf}` of
    the :math:`n_g` observed positives, or negatives, of a label are in fold f.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=True
        Whether ties between rows are broken at random. If False, they are broken by row order.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling. If None, each call gives different folds.
    groups : None, "duplicates" or array-like of shape (n,), default=None
        Groups whose rows stay in the same fold, so that near-duplicates do not leak into the
        evaluation: "duplicates" groups equal rows; an array contains the group of each row.
    missing_label : scalar, default=nan
        Value that marks a missing label.
    missing_as : {None, "missing", "negative"}, default=None
        Meaning of an entry that a sparse ``y`` of positives does not store.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.model_selection import MultilabelKFold
    >>> Y = np.array([[1, 0], [1, 0], [0, 1], [0, np.nan], [0, 1], [0, np.nan]])
    >>> folds = MultilabelKFold(n_splits=2, random_state=0)
    >>> [np.nansum(Y[test], axis=0).tolist() for _, test in folds.split(np.zeros((6, 1)), Y)]
    [[1.0, 1.0], [1.0, 1.0]]
    """

    n_splits: int = 5
    _: KW_ONLY
    shuffle: bool = True
    random_state: Any = None
    groups: Any = None
    missing_label: Any = np.nan
    missing_as: Any = None

    def _split(self, X: Any, T: Signs) -> Iterator[Split]:
        check_counts(least=2, n_splits=self.n_splits)
        if not self.shuffle and self.random_state is not None:
            raise ValueError("random_state requires shuffle=True. Pass both of them, or neither.")
        n, k = len(T), int(self.n_splits)
        if k > n:
            raise ValueError(
                f"Cannot have number of splits n_splits={k} greater than the number of rows: {n}."
            )
        rng = check_random_state(self.random_state if self.shuffle else 0)
        groups = self.groups
        if isinstance(groups, str):
            from dm2l.datasets import duplicate_groups

            if groups != "duplicates":
                raise ValueError(
                    f"groups must be None, 'duplicates' or an array with one value per row, got "
                    f"{groups!r}."
                )
            groups = duplicate_groups(X)
        if groups is None:
            fold = _deal(T, k, rng, self.shuffle)
        else:
            check_consistent_length(T, groups)
            fold = _deal_groups(T, groups, k, rng, self.shuffle)
        for f in range(k):
            yield np.flatnonzero(fold != f), np.flatnonzero(fold == f)


@dataclass(eq=False, repr=False)
class MultilabelShuffleSplit(_LabelSplitter, BaseShuffleSplit):
    """Random splits with equal shares of every label's observed positives and negatives.

    Each split distributes rows over folds like :class:`MultilabelKFold`, and then selects folds for
    the test set and other folds for the training set. The number of folds follows from the
    requested sizes, for example 5 for a test share of 0.4. Every row is in the test set with the
    same probability. The values of missing labels cannot change the splits.

    Parameters
    ----------
    n_splits : int, default=10
        Number of splits.
    test_size : float, int or None, default=None
        Share or number of test rows. None means the complement of ``train_size``, or 0.1.
    train_size : float, int or None, default=None
        Share or number of training rows. None means the complement of ``test_size``.
    random_state : int, RandomState instance or None, default=None
        Seed of the random splits.
    missing_label, missing_as
        As in :class:`MultilabelKFold`.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.model_selection import MultilabelShuffleSplit
    >>> Y = np.zeros((50, 2))
    >>> Y[:5, 0], Y[3:13, 1] = 1, 1
    >>> split = MultilabelShuffleSplit(n_splits=2, test_size=0.4, random_state=0)
    >>> [Y[test].sum(axis=0).tolist() for _, test in split.split(np.zeros((50, 1)), Y)]
    [[2.0, 4.0], [2.0, 4.0]]
    """

    n_splits: int = 10
    _: KW_ONLY
    test_size: float | None = None
    train_size: float | None = None
    random_state: Any = None
    missing_label: Any = np.nan
    missing_as: Any = None

    def _split(self, X: Any, T: Signs) -> Iterator[Split]:
        check_counts(n_splits=self.n_splits)
        # scikit-learn checks and converts the sizes.
        plain = ShuffleSplit(1, test_size=self.test_size, train_size=self.train_size)
        n_train, n_test = (len(part) for part in next(plain.split(T)))
        n, rng = len(T), check_random_state(self.random_state)
        # Choose the number of folds for which whole folds are closest to the requested sizes.
        ends = np.array([n_test, n_test + n_train]) / n
        counts = range(2, min(n, max(20, min(64, n // n_test))) + 1)
        k = min(counts, key=lambda q: (round(np.abs(np.round(ends * q) / q - ends).sum(), 3), q))
        for _ in range(self.n_splits):
            # Folds are exchangeable, because the first rows are placed at random. If the
            # test set contains only a part of a fold, the part is drawn at random.
            rows = np.lexsort([rng.uniform(size=n), _deal(T, k, rng, shuffle=True)])
            test, train = rows[:n_test], rows[n_test : n_test + n_train]
            yield rng.permutation(train), rng.permutation(test)


def label_folds(cv: Any, X: Any, T: Signs) -> list[Split]:
    """Return the training and test rows of each fold; a splitter receives only labelled rows."""
    if isinstance(cv, Integral):
        cv = MultilabelKFold(int(cv), random_state=0)
    if hasattr(cv, "split"):
        splitter = copy(cv)
        # Rows without any observed label must not change the folds of other rows.
        seen = np.flatnonzero((T != 0).any(axis=1))
        if not isinstance(getattr(splitter, "groups", ""), str | None):
            splitter.groups = np.asarray(splitter.groups)[seen]
        X, T = X if len(seen) == len(T) else take_rows(X, seen), T[seen]
        if type(splitter) in (MultilabelKFold, MultilabelShuffleSplit):  # subclasses may differ
            folds = splitter._split(X, T)
        else:
            folds = splitter.split(X, np.where(T == 0, np.nan, T > 0))
        return [(seen[train], seen[test]) for train, test in folds]
    given = list(cv)
    if not given:
        raise ValueError("cv has no folds. If it is a generator, pass a list, which can be reused.")
    return given


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
    """Compute out-of-fold scores: every row is scored by a model that was not trained on it.

    Use this function instead of ``cross_val_predict``, which treats NaN in ``Y`` as a class.

    Parameters
    ----------
    estimator : estimator
        Estimator. In each fold, a clone of the estimator is fitted.
    X, Y : array-like, data frame or sparse matrix of shape (n, d) and (n, c)
        Features, and labels with NaN where missing. ``Y`` may be a LabelMatrix.
    cv : int, splitter or iterable of (train, test), default=5
        An integer means ``MultilabelKFold(cv, shuffle=False)``. Every row must be in exactly one
        test set.
    label_mask : array-like of bool of the shape of Y, default=None
        True for entries to use. In each fold, ``fit`` receives the mask of the training rows.
    n_jobs : int or None, default=None
        Number of folds that are fitted in parallel; -1 means one per core.
    method : str, default="decision_function"
        Method of the fitted estimator that is called with the test rows.

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
    X, Y, label_mask = (part.tocsr() if sp.issparse(part) else part for part in (X, Y, label_mask))
    splits: Any = _default_cv(cv, estimator)
    if hasattr(splits, "split"):
        mask = {"label_mask": label_mask} if isinstance(splits, _LabelSplitter) else {}
        splits = splits.split(X, Y, **mask)
    splits = [(np.asarray(train), np.asarray(test)) for train, test in splits]
    order = np.concatenate([test for _, test in splits])
    if not np.array_equal(np.sort(order), np.arange(n)):
        what = f"The test sets of cv have {len(order)} rows ({len(np.unique(order))} distinct), but"
        raise ValueError(
            f"{what} must contain each of the {n} rows exactly once. For repeated random splits, "
            "use sklearn.model_selection.cross_validate."
        )
    parts = Parallel(n_jobs=n_jobs)(
        delayed(_fit_and_score)(clone(estimator), X, Y, label_mask, train, test, method)
        for train, test in splits
    )
    shapes = sorted({part.shape[1:] for part in parts})
    if len(shapes) > 1:
        raise ValueError(
            f"{method} returned rows of different shapes {shapes} in different folds, because the "
            "training rows of some folds lack a class. Use fewer folds or MultilabelKFold."
        )
    stacked = np.concatenate(parts)
    scores = np.empty_like(stacked)
    scores[order] = stacked
    return scores


def _default_cv(cv: Any, estimator: Any) -> Any:
    """Return a splitter with the label options of an estimator or its inner estimators."""
    if not isinstance(cv, Integral):
        return cv
    marks: dict[str, Any] = {"missing_label": np.nan, "missing_as": None}
    settings = estimator.get_params()
    # Parameters of outer estimators come last, so that they take precedence.
    for name in sorted(settings, key=lambda name: -name.count("__")):
        if (mark := name.rpartition("__")[2]) in marks:
            marks[mark] = settings[name]
    return MultilabelKFold(int(cv), shuffle=False, **marks)


def _fit_and_score(
    estimator: Any, X: Any, Y: Any, label_mask: Any, train: Rows, test: Rows, method: str
) -> NDArray[Any]:
    known = {} if label_mask is None else {"label_mask": take_rows(label_mask, train)}
    X_train, X_test = take_rows(X, train), take_rows(X, test)
    if get_tags(estimator).input_tags.pairwise:
        X_train, X_test = np.asarray(X_train)[:, train], np.asarray(X_test)[:, train]
    estimator.fit(X_train, take_rows(Y, train), **known)
    scores = np.asarray(getattr(estimator, method)(X_test))
    if scores.ndim == 0 or len(scores) != len(test):
        raise ValueError(
            f"{method} must return one array with a row for each of the {len(test)} test rows, "
            f"got shape {scores.shape}."
        )
    return scores


class Interval(NamedTuple):
    """Mean of repeated measurements, with the limits of its confidence interval."""

    mean: float
    low: float
    high: float


def corrected_t_interval(values: ArrayLike, test_share: float, level: float = 0.95) -> Interval:
    r"""Compute the confidence interval of a mean over folds or random splits of one data set.

    Splits share rows, so their values are correlated and the ordinary t interval is much too
    narrow. Nadeau and Bengio (2003) replace the variance :math:`s^2 / J` of the mean by

    .. math:: \Bigl(\frac1J + \frac{\pi}{1 - \pi}\Bigr) s^2

    for J splits with the share :math:`\pi` of test rows. There are J - 1 degrees of freedom.

    Parameters
    ----------
    values : array-like of shape (n,)
        One value per split: a metric, or the difference between two methods in a metric. The
        interval of a single value is unbounded.
    test_share : float
        Share of rows in the test set, for example 0.4 for splits of 60/40.
    level : float, default=0.95
        Confidence level.

    Examples
    --------
    >>> from dm2l.model_selection import corrected_t_interval
    >>> interval = corrected_t_interval([0.02, 0.01, 0.04, 0.03, 0.02], test_share=0.4)
    >>> round(interval.low, 4), round(interval.high, 4)
    (-0.0055, 0.0535)
    """
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or not len(found):
        raise ValueError(
            f"values must be a list with at least one number, got an array of shape {found.shape}."
        )
    if not np.isfinite(found).all():
        position = int(np.flatnonzero(~np.isfinite(found))[0])
        raise ValueError(
            f"values has {found[position]} at position {position}, but all values must be finite. "
            "Remove this value, or repeat the run that failed."
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


_GAINS = ("f1_macro", "f1_micro", "instance_auc", "label_auc", "label_ranking_average_precision")
_LOSSES = ("calibrated_log_loss", "coverage_error", "hamming_loss", "one_error", "ranking_loss")
# The prefix "neg_" marks a loss; its scorer returns the negative loss.
_METRICS: dict[str, Any] = {
    **{name: getattr(metrics, name) for name in _GAINS},
    **{f"neg_{name}": getattr(metrics, name) for name in _LOSSES},
    "label_discrimination": label_discrimination,
    **{f"ndcg_at_{k}": partial(metrics.ndcg_at_k, k=k) for k in (1, 3, 5)},
    **{f"precision_at_{k}": partial(metrics.precision_at_k, k=k) for k in (1, 3, 5)},
    "ranking_and_discrimination": ranking_and_discrimination,
}
_OF_DECISIONS = ("f1_macro", "f1_micro", "neg_hamming_loss")


def get_scorer_names() -> list[str]:
    """Return the sorted names of all scorers; the prefix ``neg_`` marks negative losses.

    Examples
    --------
    >>> from dm2l.model_selection import get_scorer_names
    >>> get_scorer_names()[:3]
    ['f1_macro', 'f1_micro', 'instance_auc']
    """
    return sorted(_METRICS)


def get_scorer(name: str, **options: Any) -> Any:
    """Make a scorer from a metric of :mod:`dm2l.metrics`, for ``scoring=`` of ``GridSearchCV``.

    A scorer is called as ``scorer(estimator, X, Y)``, and larger values are better. If labels are
    missing, the scorer estimates the metric on the complete labels; with ``estimate=False``, it
    evaluates only the observed labels. If metadata routing passes a ``label_mask`` to ``fit``, it
    must also be passed to the scorer: ``get_scorer(name).set_score_request(label_mask=True)``. The
    same is true for a ``sample_weight``.

    Parameters
    ----------
    name : str
        One of :func:`get_scorer_names`.
    **options : object
        Options of the metric, for example ``convention="published"``. ``missing_label`` and
        ``missing_as`` are those of :meth:`dm2l.labels.LabelMatrix.from_array`.

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
    check_choice("name", name, *get_scorer_names())
    method = "predict" if name in _OF_DECISIONS else "decision_function"
    signs: Any = {"greater_is_better": not name.startswith("neg_"), "response_method": method}
    return make_scorer(_metric, name=name, **signs, **options)


def _metric(y_true: Any, y_score: Any, *, name: str, **options: Any) -> float:
    """Compute a metric from the labels and predictions that scikit-learn passes to a scorer."""
    names = ("label_mask", "missing_label", "missing_as")
    marks = {mark: options.pop(mark) for mark in names if mark in options}
    return float(_METRICS[name](read_labels(y_true, **marks), y_score, **options))


def check_pu_scoring(name: str) -> None:
    """Raise an error if a metric cannot be estimated from positive-unlabelled labels."""
    kinds = ("precision_at", "ndcg", "instance_auc", "label_auc", "neg_ranking_loss")
    usable = [known for known in get_scorer_names() if known.startswith(kinds)]
    if name not in usable:
        raise ValueError(
            f"{name!r} cannot be estimated from positive-unlabelled labels, because it needs "
            f"observed negatives. Use one of: {', '.join(usable)}."
        )


def selection_score(name: str, y_true: Any, y_score: Any, sample_weight: Any = None) -> float:
    """Compute a metric for model selection; larger values are better."""
    if name in _OF_DECISIONS:
        y_score = (np.asarray(y_score) > 0).astype(np.float64)
    with warnings.catch_warnings(action="ignore", category=UndefinedMetricWarning):
        value = float(_METRICS[name](y_true, y_score, sample_weight=sample_weight))
        # If the metric cannot be estimated, observed labels are evaluated. This depends only on the
        # labels, so all candidates are compared in the same way.
        if np.isnan(value):
            marks: Any = {"estimate": False, "sample_weight": sample_weight}
            value = float(_METRICS[name](y_true, y_score, **marks))
    return -value if name.startswith("neg_") else value
