"""Two methods on the same blocks: signed-rank tests with Holm's correction."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from experiments.ranks import read_blocks

# Up to here the signed-rank distribution is counted out (milliseconds); beyond, the normal
# approximation errs by about 0.001 in p.
_EXACT_UP_TO = 200
# Two differences closer than this, relative to the values they come from, are rounding apart.
_ROUNDING = 4 * np.finfo(np.float64).eps


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """One pair of methods, by their columns; wins and gains are those of the first."""

    first: int
    second: int
    wins: int
    ties: int
    losses: int
    median_difference: float
    statistic: float  # the smaller of the two sums of signed ranks
    p_value: float
    p_holm: float  # corrected over all pairs tested together
    exact: bool  # whether the p-value was counted out, not approximated


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """P-values corrected by Holm's step-down procedure, in the order given."""
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"p_values must be a list of numbers between 0 and 1, got {p_values!r}.")
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate(np.arange(len(p), 0, -1) * p[order])
    return np.minimum(corrected, 1.0)


def pairwise_wilcoxon(
    values: ArrayLike, higher_is_better: bool, control: int | None = None
) -> tuple[PairedComparison, ...]:
    """Wilcoxon's signed-rank test of pairs of methods over the same blocks, two-sided.

    Blocks on which both are equal are left out, as in Wilcoxon's original test, and counted in
    ``ties``. The p-value is exact for up to 200 other blocks, with ties too. Differences that only
    rounding tells apart, as 0.3 - 0.2 and 0.2 - 0.1, tie. With a control, a column, it is compared
    with all others and comes first; else all pairs are compared.
    """
    table = read_blocks(values)
    if not np.isfinite(table).all():
        block, method = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(
            f"values has {table[block, method]} for block {block}, method {method}: differences "
            "need finite numbers. Leave out that block or that method."
        )
    k = table.shape[1]
    if control is None:
        pairs = list(combinations(range(k), 2))
    elif 0 <= control < k:
        pairs = [(control, other) for other in range(k) if other != control]
    else:
        raise ValueError(f"control={control} is no column of values: it has {k}, from 0.")
    gains = table if higher_is_better else -table
    signed = [_signed_ranks(gains[:, a], gains[:, b]) for a, b in pairs]
    tests = [_signed_rank_test(ranks) for ranks in signed]
    corrected = holm([p for _, p, _ in tests])
    return tuple(
        PairedComparison(
            first=a,
            second=b,
            wins=int((ranks > 0).sum()),
            ties=int((ranks == 0).sum()),
            losses=int((ranks < 0).sum()),
            median_difference=float(np.median(gains[:, a] - gains[:, b])),
            statistic=statistic,
            p_value=p_value,
            p_holm=float(p_holm),
            exact=exact,
        )
        for (a, b), ranks, (statistic, p_value, exact), p_holm in zip(
            pairs, signed, tests, corrected, strict=True
        )
    )


def _signed_ranks(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rank of each absolute difference with its sign; 0 where there is no difference."""
    difference = first - second
    size = np.abs(difference)
    rounding = _ROUNDING * np.maximum(np.abs(first), np.abs(second))
    signed = np.zeros_like(size)
    used = np.flatnonzero(size > rounding)
    used = used[np.argsort(size[used], kind="stable")]
    # A table of three decimals ties often; its differences in binary almost never do.
    apart = np.diff(size[used]) > rounding[used][1:] + rounding[used][:-1]
    level = np.concatenate([[0], np.cumsum(apart)])[: len(used)]
    signed[used] = np.sign(difference[used]) * stats.rankdata(level)
    return signed


def _signed_rank_test(signed: NDArray[np.float64]) -> tuple[float, float, bool]:
    """Statistic, two-sided p-value, and whether that is exact."""
    used = signed[signed != 0]
    statistic = float(min(used[used > 0].sum(), -used[used < 0].sum()))
    if len(used) > _EXACT_UP_TO:
        return statistic, float(stats.wilcoxon(used, method="approx").pvalue), False
    # scipy counts out only samples without ties; its choice for the others varies by version.
    # Twice the ranks are integers: share[s] is the share of sign patterns whose sum is s/2.
    doubled = np.rint(2 * np.abs(used)).astype(np.intp)
    share = np.zeros(int(doubled.sum()) + 1)
    share[0] = 1.0
    for rank in doubled:
        half = share / 2
        share = half.copy()
        share[rank:] += half[:-rank]
    tail = float(share[: round(2 * statistic) + 1].sum())
    return statistic, min(1.0, 2 * tail), True
