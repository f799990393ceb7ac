"""All methods on all blocks (data set and rate): ranks, Friedman, Nemenyi, Wilcoxon."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np

from dm2l.plots._ranks import FriedmanResult, average_ranks, friedman, nemenyi_critical_difference
from dm2l_lab._published import Measure
from dm2l_lab._statistics import PairedComparison, pairwise_wilcoxon
from dm2l_lab._tables import ROUNDING, ResultTable

# Of nine methods; the paper uses it for its six.
PAPER_CONSTANT = 3.102
PAPER_METHODS, PAPER_BLOCKS = 6, 24

Block = tuple[str, float]


@dataclass(frozen=True, eq=False)
class BlockStatistics:
    """How methods compare over all blocks, in one measure.

    Attributes
    ----------
    measure : Measure
        What was measured.
    methods : list of str
        Those compared.
    blocks : list of (str, float)
        Data sets and rates on which all of them have results.
    left_out_methods, left_out_blocks : list
        Where results are missing. A method or a block goes, whichever lacks the larger share.
    ranks : ndarray of shape (n_methods,)
        Average ranks.
    friedman : FriedmanResult
        Whether the methods differ at all.
    cd : float
        Nemenyi's critical difference for so many methods and blocks.
    pairs : tuple of PairedComparison
        Wilcoxon's tests with Holm's correction; columns count in ``methods``.
    """

    measure: Measure
    methods: list[str]
    blocks: list[Block]
    left_out_methods: list[str]
    left_out_blocks: list[Block]
    ranks: np.ndarray
    friedman: FriedmanResult
    cd: float
    pairs: tuple[PairedComparison, ...]


def block_statistics(table: ResultTable, measure: Measure) -> BlockStatistics | None:
    """Compare all methods over the blocks of a table.

    The value of a block is the mean over the repetitions that all compared methods have there.

    Parameters
    ----------
    table : ResultTable
        Results.
    measure : Measure
        What to compare.

    Returns
    -------
    BlockStatistics or None
        None where fewer than two methods have results on two common blocks.
    """
    results = table.results
    values = {
        (dataset, rate): {
            method: entry.values
            for method, entry in table.line(dataset, rate, measure.name).items()
            if entry.values
        }
        for dataset in results.datasets
        for rate in results.rates
    }
    methods, blocks = list(results.methods), list(values)
    while gaps := [(b, m) for b in blocks for m in methods if m not in values[b]]:
        # The line of the table with the largest share of gaps; of equals, a block.
        share_b, block = max((sum(b == g for g, _ in gaps) / len(methods), b) for b in blocks)
        share_m, method = max((sum(m == g for _, g in gaps) / len(blocks), m) for m in methods)
        if share_b >= share_m:
            blocks.remove(block)
        else:
            methods.remove(method)
    numbers: dict[Block, list[float]] = {}
    for block in blocks:
        found = [values[block][method] for method in methods]
        if common := set.intersection(*(set(by_repetition) for by_repetition in found)):
            means = (statistics.fmean(v[r] for r in common) for v in found)
            numbers[block] = [round(mean, ROUNDING) for mean in means]
    if len(methods) < 2 or len(numbers) < 2:
        return None
    array = np.array(list(numbers.values()))
    up = measure.higher_is_better
    return BlockStatistics(
        measure,
        methods,
        list(numbers),
        [method for method in results.methods if method not in methods],
        [block for block in values if block not in numbers],
        average_ranks(array, up),
        friedman(array, up),
        nemenyi_critical_difference(len(methods), len(numbers)),
        pairwise_wilcoxon(array, up),
    )
