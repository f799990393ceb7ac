"""Splitters that spread the observed positives and negatives of every label evenly."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.model_selection import BaseCrossValidator, BaseShuffleSplit, ShuffleSplit
from sklearn.utils import check_consistent_length, check_random_state

from dm2l.labels._entries import Signs
from dm2l.labels._matrix import parse_labels

Rows = NDArray[np.intp]
Split = tuple[Rows, Rows]


def _strata(T: Signs) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Members and sizes of each label's observed positives and observed negatives, rarest first."""
    member = np.concatenate([T > 0, T < 0], axis=1)
    size = member.sum(axis=0)
    order = np.argsort(size, kind="stable")
    order = order[size[order] > 0]
    return np.ascontiguousarray(member[:, order]), size[order]


def _deal(T: Signs, k: int, rng: np.random.RandomState, shuffle: bool) -> Rows:
    """Deal the rows to k folds, one each in turn, so that every group is spread evenly."""
    # Rows are taken in the order of the rarest group they belong to, as iterative stratification
    # does, but k at a time: an assignment problem gives each fold one of them. With e_gf the number
    # of rows of group g in fold f less the fair share of those dealt so far, a row costs
    # sum_g e_gf / n_g in fold f: half the derivative of sum_gf e_gf^2 / n_g, a chi-squared
    # statistic in which rare groups weigh most.
    n, (member, size) = len(T), _strata(T)
    rarest = np.where(member.any(axis=1), member.argmax(axis=1), len(size))
    # Within the rarest group the order is random: sorting by the second rarest too is no better
    # and nearly fixes the folds.
    rows = np.lexsort([rng.uniform(size=n) if shuffle else np.arange(n), rarest])
    # Batches of one row per fold: larger ones are less even. The bound keeps the assignment cheap
    # when k is near n.
    batch = min(k, 64)
    excess = np.zeros((len(size), k))
    fold = np.empty(n, dtype=np.intp)
    for start in range(0, n, batch):
        chosen = rows[start : start + batch]
        # The last rows, fewer than folds, may choose among all folds.
        places = np.arange(start, start + (k if batch == k else len(chosen))) % k
        groups = member[chosen].astype(np.float64)
        cost = groups @ (excess / size[:, None])
        # Above rounding and below real differences: the seed decides between equal costs, not the
        # order in which BLAS adds.
        cost += 1e-9 * rng.uniform(size=cost.shape)
        row, place = linear_sum_assignment(cost[:, places])
        taken = np.zeros(cost.shape)
        taken[row, places[place]] = 1
        fold[chosen[row]] = places[place]
        excess += groups.T @ (taken - 1 / k)
    return fold


def _deal_groups(T: Signs, groups: Any, k: int, rng: np.random.RandomState, shuffle: bool) -> Rows:
    """Deal whole groups of rows, largest first, each to the fold of least cost."""
    # The cost is that of _deal, with the rows themselves as one more stratum.
    member, size = _strata(T)
    number = np.unique(np.asarray(groups), return_inverse=True)[1]
    n_groups = int(number.max()) + 1
    if n_groups < k:
        raise ValueError(f"{k} folds need as many groups of rows; there are {n_groups}.")
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
    """Base of the splitters: reads labels, and counts splits."""

    # A mask that metadata routing passes on must reach the splitter too: otherwise the labels
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
        T = parse_labels(y, label_mask=label_mask, **marks).signs
        check_consistent_length(X, T)
        return T

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None, label_mask: Any = None
    ) -> int:
        """Return the number of splits; arguments are ignored, for compatibility."""
        return self.n_splits


@dataclass(eq=False, repr=False)
class MultilabelKFold(_LabelSplitter, BaseCrossValidator):
    r"""K folds over which every label's observed positives and negatives are spread evenly.

    Every row is in exactly one test fold, there are exactly ``n_splits`` folds, and their sizes
    differ by at most one. Missing labels cannot change the folds. Rows of one group stay in one
    fold; then folds are as even as the groups allow.

    Iterative stratification (Sechidis et al., ECML PKDD 2011) places one row after the other,
    rarest label first. Here ``n_splits`` rows at a time, one for each fold, are placed by an
    assignment problem that lowers :math:`\sum_{gf} (n_{gf} - n_g / k)^2 / n_g`, where a group g is
    the observed positives or the observed negatives of a label.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=True
        Break ties between rows at random; if False, by the order of the rows.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling. None gives other folds at every call.
    groups : None, "duplicates" or array-like of shape (n,), default=None
        Rows to keep in one fold: those with the same features, or those with the same value of
        the array, so that near-duplicates do not leak into the evaluation.
    missing_label : scalar, default=nan
        Value that marks a missing label.
    missing_as : {None, "missing", "negative"}, default=None
        Meaning of an entry that is not stored in a sparse ``y`` of positives only.

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

    def split(self, X: Any, y: Any, groups: Any = None, label_mask: Any = None) -> Iterator[Split]:
        """Generate the row numbers of training and test set of each fold, ascending.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features; only their number of rows matters, unless groups are "duplicates".
        y : array-like, data frame, sparse matrix or LabelMatrix of shape (n, c) or (n,)
            Labels, NaN where missing, or classes.
        groups : None
            For compatibility: groups are a parameter of the splitter.
        label_mask : array-like of bool of the shape of y, default=None
            True where the entry may be used.
        """
        T = self._signs(X, y, label_mask, least=2)
        if groups is not None:
            raise ValueError("Pass groups to the splitter: MultilabelKFold(groups=...).")
        if not self.shuffle and self.random_state is not None:
            raise ValueError("random_state has no effect with shuffle=False; leave it None.")
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
                raise ValueError(f"groups must be 'duplicates' or one value a row, got {groups!r}.")
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
    """Random splits over which every label's observed positives and negatives are spread evenly.

    Each split deals the rows to folds as :class:`MultilabelKFold` does, as many as suit the sizes
    asked for (5 for a test share of 0.4), and takes some for testing, others for training. Every
    row is tested with the same probability. Missing labels cannot change the splits.

    Parameters
    ----------
    n_splits : int, default=10
        Number of splits.
    test_size : float, int or None, default=None
        Share or number of test rows. None: the complement of ``train_size``, or 0.1.
    train_size : float, int or None, default=None
        Share or number of training rows. None: the complement of ``test_size``.
    random_state : int, RandomState instance or None, default=None
        Seed.
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

    def split(self, X: Any, y: Any, groups: Any = None, label_mask: Any = None) -> Iterator[Split]:
        """Generate the row numbers of training and test set of each split, in random order.

        Arguments are those of :meth:`MultilabelKFold.split`.
        """
        T = self._signs(X, y, label_mask, least=1)
        # scikit-learn checks and converts the sizes.
        plain = ShuffleSplit(1, test_size=self.test_size, train_size=self.train_size)
        n_train, n_test = (len(part) for part in next(plain.split(T)))
        n, rng = len(T), check_random_state(self.random_state)
        # As many folds as can be divided nearly in the proportions asked for.
        ends = np.array([n_test, n_test + n_train]) / n
        counts = range(2, min(n, max(20, min(64, n // n_test))) + 1)
        k = min(counts, key=lambda q: (round(np.abs(np.round(ends * q) / q - ends).sum(), 3), q))
        for _ in range(self.n_splits):
            # The first rows are dealt at random, so folds are exchangeable and every row is
            # tested with the same probability. A fold that the sizes cut is divided at random.
            rows = np.lexsort([rng.uniform(size=n), _deal(T, k, rng, shuffle=True)])
            test, train = rows[:n_test], rows[n_test : n_test + n_train]
            yield rng.permutation(train), rng.permutation(test)
