"""Methods beside the published figures, beside each other, and over all data sets and rates."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dm2l.model_selection import Interval, corrected_t_interval
from experiments.published import BY_NAME, PAPER_MEASURES, Measure, best_published
from experiments.published import published_figures as published
from experiments.ranks import FriedmanResult, average_ranks, friedman, nemenyi_critical_difference
from experiments.results import Results, paired_means
from experiments.statistics import PairedComparison, pairwise_wilcoxon

LEVEL = 0.95  # of each interval by itself: of twenty between equals about one leaves out 0
ROUNDING = 12  # decimals up to which a mean is trusted

# -- the published figures ----------------------------------------------------------------------


def reproduced(results: Results) -> pd.DataFrame:
    """Our means beside the published figures of methods of the same name."""
    rows = []
    for measure in PAPER_MEASURES:
        for dataset in results.datasets:
            name = results.published_name(dataset)
            for rate in results.rates:
                line = results.line(dataset, rate, measure.name)
                for method in results.methods:
                    figure = published().get((name or "", rate, measure.name, method))
                    values = line[method].dropna()
                    if figure is not None and len(values):
                        mean = float(values.mean())
                        within = measure.reproduced(mean, figure)
                        rows.append(
                            (dataset, rate, measure.name, method, figure, mean, len(values), within)
                        )
    columns = ["dataset", "rate", "measure", "method", "published", "mean", "n", "within"]
    return pd.DataFrame(rows, columns=columns)


def against_best(results: Results, methods: Iterable[str], fewest: int = 1) -> pd.DataFrame:
    """The best of some methods beside the best published figure, in each of the paper's 96 cells.

    A method counts in a cell from ``fewest`` repetitions on. The outcome is that of the means as
    they would be printed: better, equal, worse or, where no method counts, missing.
    """
    chosen = [name for name in results.methods if name in set(methods)]
    shown = {results.published_name(name): name for name in results.datasets}
    rows = []
    for (dataset, rate, name), (figure, by) in best_published().items():
        measure = BY_NAME[name]
        method, mean, n, outcome = "", np.nan, 0, "missing"
        if dataset in shown:
            line = results.line(shown[dataset], rate, name)[chosen]
            means = line.mean()[line.count() >= fewest].dropna()
            if len(means):
                method = means.idxmax() if measure.higher_is_better else means.idxmin()
                mean, n = float(means[method]), int(line[method].count())
                outcome = measure.compare(mean, figure)
        rows.append((dataset, rate, name, figure, ", ".join(by), mean, method, n, outcome))
    columns = ["dataset", "rate", "measure", "published", "by", "mean", "method", "n", "outcome"]
    return pd.DataFrame(rows, columns=columns)


def won(cells: pd.DataFrame) -> int:
    """In how many cells ours is at least as good."""
    return int(cells["outcome"].isin(["better", "equal"]).sum())


# -- two methods on the same splits -------------------------------------------------------------


@dataclass(frozen=True)
class Duel:
    """One measure of two methods on one data set at one rate, over their common repetitions."""

    dataset: str
    rate: float
    measure: Measure
    first: str
    second: str
    n: int
    means: tuple[float, float]
    interval: Interval  # of the mean of ``first`` minus ``second``

    @property
    def verdict(self) -> str:
        """Of ``first``: whether the interval leaves out 0, and on which side."""
        if self.interval.low <= 0 <= self.interval.high:
            return "no difference shown"
        return "better" if (self.interval.low > 0) == self.measure.higher_is_better else "worse"


def dm2l_variants(methods: Iterable[str]) -> list[str]:
    """Methods that are DM2L by their names, without the ablation DM2L-Lo."""
    return [name for name in methods if name.startswith("DM2L") and "-Lo" not in name]


def ridge_pairs(methods: Sequence[str]) -> list[tuple[str, str]]:
    """Each DM2L with each ridge of its kind: same kernel, same purpose (what follows a comma)."""
    ridges = [name for name in methods if "ridge" in name.lower()]
    return [
        (variant, ridge)
        for variant in dm2l_variants(methods)
        for ridge in ridges
        if _kind(variant) == _kind(ridge)
    ]


def _kind(name: str) -> tuple[bool, str]:
    return "kernel" in name.lower() or name.endswith("-nl"), name.partition(", ")[2]


def duels(
    results: Results, pairs: Iterable[tuple[str, str]], measures: Iterable[Measure] | None = None
) -> list[Duel]:
    """Compare pairs of methods cell by cell, over the repetitions that both have."""
    found = []
    for first, second in pairs:
        for measure in results.measures if measures is None else measures:
            for dataset in results.datasets:
                for rate in results.rates:
                    both = results.line(dataset, rate, measure.name)[[first, second]].dropna()
                    if len(both):
                        gains = both[first] - both[second]
                        share = _test_share(results, dataset)
                        interval = corrected_t_interval(gains.to_numpy(), share, LEVEL)
                        means = float(both[first].mean()), float(both[second].mean())
                        where = dataset, rate, measure
                        found.append(Duel(*where, first, second, len(both), means, interval))
    return found


def _test_share(results: Results, dataset: str) -> float:
    """Share of rows tested on."""
    rows = results.rows[results.rows["dataset"].isin(results.datasets[dataset])]
    return float(rows["n_test"].sum() / (rows["n_train"] + rows["n_test"]).sum())


# -- all methods over all data sets and rates ---------------------------------------------------


@dataclass(frozen=True, eq=False)
class BlockStatistics:
    """How methods compare in one measure over blocks: data sets at a rate."""

    measure: Measure
    methods: list[str]
    blocks: list[tuple[str, float]]
    ranks: np.ndarray
    friedman: FriedmanResult
    critical_difference: float  # Nemenyi's, at 5 %
    pairs: tuple[PairedComparison, ...]


def block_statistics(results: Results, measure: Measure) -> BlockStatistics | None:
    """Compare all methods over blocks, each a mean over the repetitions that all of them have.

    Where results are missing, a block or a method is left out, whichever lacks the larger share.
    None where fewer than two methods have results on two common blocks.
    """
    lines = {
        (dataset, rate): results.line(dataset, rate, measure.name)
        for dataset in results.datasets
        for rate in results.rates
    }
    there = pd.DataFrame({block: line.notna().any() for block, line in lines.items()}).T
    while there.size and not there.to_numpy().all():
        rows, columns = 1 - there.mean(axis=1), 1 - there.mean(axis=0)
        if rows.max() >= columns.max():
            there = there.drop(index=[max(rows.index[rows == rows.max()])])
        else:
            there = there.drop(columns=[max(columns.index[columns == columns.max()])])
    methods = list(there.columns)
    means = {block: paired_means(lines[block], methods) for block in there.index}
    means = {block: mean.round(ROUNDING) for block, mean in means.items() if mean.notna().all()}
    if len(methods) < 2 or len(means) < 2:
        return None
    table, up = np.array(list(means.values())), measure.higher_is_better
    return BlockStatistics(
        measure,
        methods,
        list(means),
        average_ranks(table, up),
        friedman(table, up),
        nemenyi_critical_difference(len(methods), len(means)),
        pairwise_wilcoxon(table, up),
    )
