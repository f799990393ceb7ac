"""Two methods on the same splits, such as DM2L and ridge, which lacks its terms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from dm2l.model_selection import Interval, corrected_t_interval
from dm2l_lab._published import Measure
from dm2l_lab._tables import ResultTable, TableEntry

LEVEL = 0.95  # of each interval by itself: of twenty between equals about one leaves out 0
TEST_SHARE = 0.4  # of rows that do not say how many were tested on

Verdict = Literal["better", "worse", "no difference shown"]


@dataclass(frozen=True)
class Duel:
    """One measure of two methods on one data set at one rate.

    Attributes
    ----------
    first, second : TableEntry
        The two, reduced to the repetitions that both have.
    interval : Interval
        Of the mean of ``first`` minus ``second`` over repetitions.
    verdict : {"better", "worse", "no difference shown"}
        Of ``first``: whether the interval leaves out 0, and on which side.
    """

    first: TableEntry
    second: TableEntry
    interval: Interval
    verdict: Verdict

    @property
    def measure(self) -> Measure:
        """What was measured."""
        return self.first.measure


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


def duels(table: ResultTable, pairs: Iterable[tuple[str, str]]) -> list[Duel]:
    """Compare pairs of methods cell by cell, over the repetitions that both have.

    Parameters
    ----------
    table : ResultTable
        Results.
    pairs : iterable of (str, str)
        Names of methods.

    Returns
    -------
    list of Duel
        By pair, measure, data set and rate; only where both have a repetition in common.
    """
    results = table.results
    found = []
    for pair in pairs:
        if unknown := [name for name in pair if name not in results.methods]:
            raise ValueError(
                f"There are no results of {unknown[0]!r}; the methods are "
                f"{', '.join(results.methods)}."
            )
        for measure in table.measures:
            for dataset in results.datasets:
                for rate in results.rates:
                    line = table.line(dataset, rate, measure.name)
                    first, second = (line[name] for name in pair)
                    if common := first.values.keys() & second.values.keys():
                        share = _test_share(table, first)
                        both = first.restricted(common), second.restricted(common)
                        found.append(_duel(*both, share))
    return found


def _duel(first: TableEntry, second: TableEntry, test_share: float) -> Duel:
    differences = [value - second.values[r] for r, value in first.values.items()]
    interval = corrected_t_interval(differences, test_share, LEVEL)
    higher = first.measure.higher_is_better
    verdict: Verdict = "no difference shown"
    if interval.low > 0:
        verdict = "better" if higher else "worse"
    elif interval.high < 0:
        verdict = "worse" if higher else "better"
    return Duel(first, second, interval, verdict)


def _test_share(table: ResultTable, entry: TableEntry) -> float:
    """Share of rows tested on, as the rows behind an entry tell it."""
    sets = table.results.datasets[entry.place.dataset]
    places = [entry.place._replace(dataset=name) for name in sets]
    rows = [row for place in places for row in table.results.done.get(place, ())]
    sizes = [(row["n_train"], row["n_test"]) for row in rows if row["n_train"] and row["n_test"]]
    if not sizes:
        return TEST_SHARE
    return sum(test for _, test in sizes) / sum(train + test for train, test in sizes)
