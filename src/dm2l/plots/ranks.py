"""Several methods on several blocks: average ranks, Friedman's test, Nemenyi's difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

__all__ = [
    "FriedmanResult",
    "average_ranks",
    "friedman",
    "indistinguishable_groups",
    "nemenyi_critical_difference",
]


def read_blocks(values: ArrayLike, min_blocks: int = 1) -> NDArray[np.float64]:
    """A complete table, one row per block (data set, rate, ...) and one column per method."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] < 2 or table.shape[0] < min_blocks:
        raise ValueError(
            f"values has shape {table.shape}: a comparison needs a table with at least "
            f"{min_blocks} row(s), the blocks, and at least 2 columns, the methods."
        )
    if np.isnan(table).any():
        block, method = np.argwhere(np.isnan(table))[0]
        raise ValueError(
            f"values has no number for block {block}, method {method}: ranks compare methods on "
            "the same blocks, so run what is missing, or leave out that block or that method."
        )
    return table


def _block_ranks(table: NDArray[np.float64], higher_is_better: bool) -> NDArray[np.float64]:
    return stats.rankdata(-table if higher_is_better else table, axis=1)


def average_ranks(values: ArrayLike, higher_is_better: bool) -> NDArray[np.float64]:
    """Mean rank of each method over the blocks; 1 is best, equal values share their mean rank.

    Values count as equal only when they are the same number: tables that were rounded for print
    tie where the runs behind them did not.

    Parameters
    ----------
    values : array-like of shape (n_blocks, n_methods)
        A measure of each method on each block.
    higher_is_better : bool
        True for average precision, False for ranking loss.

    Returns
    -------
    ndarray of shape (n_methods,)
        They add up to ``n_methods * (n_methods + 1) / 2``.

    Examples
    --------
    >>> from dm2l.plots.ranks import average_ranks
    >>> average_ranks([[0.9, 0.8, 0.7], [0.6, 0.6, 0.5]], higher_is_better=True)
    array([1.25, 1.75, 3.  ])
    """
    return _block_ranks(read_blocks(values), higher_is_better).mean(axis=0)


@dataclass(frozen=True, slots=True)
class FriedmanResult:
    """What Friedman's test says on whether the methods differ at all.

    Attributes
    ----------
    chi_square, df, p_value : float, int, float
        Friedman's statistic, corrected for ties, against the chi-square distribution.
    f_statistic, f_df, f_p_value : float, (int, int), float
        Iman and Davenport's F, which is less conservative and the one to report.
    n_blocks, n_methods : int
        Size of the table.
    """

    chi_square: float
    df: int
    p_value: float
    f_statistic: float
    f_df: tuple[int, int]
    f_p_value: float
    n_blocks: int
    n_methods: int


def friedman(values: ArrayLike, higher_is_better: bool) -> FriedmanResult:
    r"""Friedman's test with the correction for ties, and Iman and Davenport's F.

    With :math:`r_{ij}` the rank of method j of k in block i of N, and :math:`R_j` its sum over i,

    .. math:: A = \sum_j \Bigl(R_j - \tfrac{N(k+1)}{2}\Bigr)^2,\quad
        B = \sum_{ij} r_{ij}^2 - \tfrac{N k (k+1)^2}{4},\quad
        \chi^2_F = \frac{(k-1)A}{B},\quad F = \frac{(N-1)A}{N B - A}.

    When every block is one large tie nothing speaks for a difference: both statistics are 0 and
    both p-values 1. When all blocks agree on one order F is infinite.

    Parameters
    ----------
    values : array-like of shape (n_blocks, n_methods)
        A measure of each method on each block; at least two blocks and two methods.
    higher_is_better : bool
        Direction of the measure. It does not change the result, and is asked for so that all
        functions of a comparison are called alike.

    Returns
    -------
    FriedmanResult
        Statistics, degrees of freedom and p-values.

    Examples
    --------
    >>> from dm2l.plots.ranks import friedman
    >>> result = friedman([[3, 2, 1], [3, 1, 2], [3, 2, 1], [2, 3, 1]], higher_is_better=True)
    >>> round(result.chi_square, 3), result.df, round(result.p_value, 4)
    (4.5, 2, 0.1054)
    >>> round(result.f_statistic, 3), result.f_df, round(result.f_p_value, 4)
    (3.857, (2, 6), 0.0837)
    """
    ranks = _block_ranks(read_blocks(values, min_blocks=2), higher_is_better)
    n, k = ranks.shape
    # Ranks are halves of integers: these sums are exact, and so are the comparisons with 0.
    between = float(np.square(ranks.sum(axis=0) - n * (k + 1) / 2).sum())
    total = float(np.square(ranks).sum() - n * k * (k + 1) ** 2 / 4)
    residual = n * total - between
    chi_square = (k - 1) * between / total if total else 0.0
    if residual:
        f_statistic = (n - 1) * between / residual
    else:
        f_statistic = np.inf if between else 0.0
    f_df = (k - 1, (k - 1) * (n - 1))
    return FriedmanResult(
        chi_square=chi_square,
        df=k - 1,
        p_value=float(stats.chi2.sf(chi_square, k - 1)),
        f_statistic=f_statistic,
        f_df=f_df,
        f_p_value=float(stats.f.sf(f_statistic, *f_df)),
        n_blocks=n,
        n_methods=k,
    )


def nemenyi_critical_difference(
    n_methods: int, n_blocks: int, alpha: float = 0.05, *, q: float | None = None
) -> float:
    r"""Difference of average ranks from which on two methods differ, by Nemenyi's test.

    .. math:: \mathrm{CD} = q_\alpha \sqrt{\frac{k (k+1)}{6 N}}

    with :math:`q_\alpha` the quantile of the studentized range of k values with infinite degrees
    of freedom, divided by :math:`\sqrt 2`.

    Parameters
    ----------
    n_methods, n_blocks : int
        k and N.
    alpha : float, default=0.05
        Probability of any false difference among all pairs, when no method differs.
    q : float, optional
        Use this constant in place of :math:`q_\alpha`; ``alpha`` is then ignored. It is there to
        show what a published constant gives.

    Returns
    -------
    float
        The critical difference.

    Examples
    --------
    >>> from dm2l.plots.ranks import nemenyi_critical_difference
    >>> round(nemenyi_critical_difference(6, 24), 3)
    1.539

    The DM2L paper prints 1.675, because it took the constant of nine methods for six:

    >>> round(nemenyi_critical_difference(6, 24, q=3.102), 3)
    1.675
    """
    if n_methods < 2 or n_blocks < 1:
        raise ValueError(
            f"Got n_methods={n_methods} and n_blocks={n_blocks}: Nemenyi's test needs at least "
            "2 methods and 1 block."
        )
    if q is None:
        if not 0 < alpha < 1:
            raise ValueError(f"alpha must lie between 0 and 1, got {alpha!r}.")
        q = float(stats.studentized_range.ppf(1 - alpha, n_methods, np.inf)) / np.sqrt(2)
    elif not 0 < q < np.inf:
        raise ValueError(f"q must be a positive number, got {q!r}.")
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks)))


def indistinguishable_groups(ranks: Sequence[float] | NDArray[Any], cd: float) -> list[list[int]]:
    """Largest groups of methods whose average ranks lie within ``cd`` of each other.

    Parameters
    ----------
    ranks : array-like of shape (n_methods,)
        Average ranks.
    cd : float
        Critical difference. Two methods belong together when their ranks differ by no more.

    Returns
    -------
    list of list of int
        Positions in ``ranks``, best first, of every group of two or more that no other group
        contains; the groups are ordered by their best member. A method may be in several, or in
        none when it differs from all others.

    Examples
    --------
    >>> from dm2l.plots.ranks import indistinguishable_groups
    >>> indistinguishable_groups([3.9, 1.2, 2.0, 2.9], cd=1.0)
    [[1, 2], [2, 3], [3, 0]]
    """
    sorted_ranks, order = check_ranks(ranks, cd)
    groups, reach = [], 0
    for first in range(len(order)):
        last = int(np.flatnonzero(sorted_ranks - sorted_ranks[first] <= cd)[-1])
        if last > max(first, reach):
            groups.append([int(method) for method in order[first : last + 1]])
            reach = last
    return groups


def check_ranks(
    ranks: Sequence[float] | NDArray[Any], cd: float
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """The ranks, best first, and the methods in that order."""
    array = np.asarray(ranks, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError(f"ranks must be a list of finite numbers, one per method, got {ranks!r}.")
    if not 0 <= cd < np.inf:
        raise ValueError(f"cd must be a finite number, 0 or more, got {cd!r}.")
    order = np.argsort(array, kind="stable")
    return array[order], order
