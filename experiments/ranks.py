"""Several methods on several blocks: average ranks, Friedman's test, Nemenyi's difference."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats


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
    """Mean rank of each method (column) over the blocks (rows); 1 is best, ties share their mean.

    Values tie only when they are the same number: tables that were rounded for print tie where the
    runs behind them did not.
    """
    return _block_ranks(read_blocks(values), higher_is_better).mean(axis=0)


@dataclass(frozen=True, slots=True)
class FriedmanResult:
    """Friedman's chi-square, corrected for ties, and Iman and Davenport's F, the one to report."""

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

    When every block is one large tie both statistics are 0 and both p-values 1; when all blocks
    agree on one order F is infinite. The direction of the measure does not change the result.
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
    of freedom, divided by :math:`\sqrt 2`; or the ``q`` given, to show what a published one gives.
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
    """Largest groups of two or more methods whose average ranks lie within ``cd`` of each other.

    Positions in ``ranks``, best first; groups are ordered by their best member. A method may be in
    several groups, or in none when it differs from all others.
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
