"""Sheets that say which differences are more than chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from dm2l.plots._ranks import nemenyi_critical_difference
from dm2l_lab._published import PAPER_MEASURES
from dm2l_lab._tables import ResultTable
from dm2l_lab.report._blocks import PAPER_BLOCKS, PAPER_CONSTANT, PAPER_METHODS, BlockStatistics
from dm2l_lab.report._duels import LEVEL, Duel, duels
from dm2l_lab.report._sheets import Item, Sheet, Tone, mean_item, number, rate_item, signed

# -- pairs --------------------------------------------------------------------------------------


def duel_headline(found: Sequence[Duel]) -> str:
    """How often DM2L is shown to be better than ridge, in a sentence."""
    # Of the paper's measures, where there are any: they are what DM2L is about.
    chosen = [duel for duel in found if duel.measure in PAPER_MEASURES] or found
    measures = ", ".join(dict.fromkeys(duel.measure.name for duel in chosen))
    counts = Counter(duel.verdict for duel in chosen)
    return (
        f"Of {len(chosen)} comparisons with ridge, DM2L without its terms ({measures}), "
        f"{counts['better']} show DM2L better, {counts['worse']} worse, and "
        f"{counts['no difference shown']} no difference."
    )


def duel_sheets(table: ResultTable, pairs: Sequence[tuple[str, str]]) -> Iterator[Sheet]:
    """DM2L beside ridge, on the same splits."""
    found = duels(table, pairs)
    if not found:
        return
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for duel in found:
        key = (duel.first.place.method, duel.second.place.method, duel.measure.name)
        counts.setdefault(key, Counter())[duel.verdict] += 1
    verdicts = ("better", "no difference shown", "worse")
    level = f"{100 * LEVEL:g} %"
    notes = [
        duel_headline(found),
        f"In how many cells (data set and rate) the {level} interval of the mean difference over "
        "repetitions, corrected for splits that share rows (Nadeau and Bengio, 2003), lies on one "
        "side of 0. Each interval stands for itself: of twenty between equals about one leaves "
        "out 0.",
    ]
    yield Sheet(
        "ridge",
        "DM2L and ridge",
        [
            "DM2L",
            "Ridge",
            "Measure",
            *(f"DM2L {verdict}".replace("DM2L no", "no") for verdict in verdicts),
        ],
        "tttnnn",
        [
            [*map(Item, key), *(Item(str(count[verdict])) for verdict in verdicts)]
            for key, count in counts.items()
        ],
        notes,
    )
    yield Sheet(
        "ridge-cells",
        "DM2L and ridge, cell by cell",
        [
            *("Data set", "ρ", "Measure", "DM2L", "Mean", "Ridge", "Mean", "Difference"),
            *(f"{level} interval", "n", "DM2L is"),
        ],
        "tnttntnnnnt",
        [_duel(duel) for duel in found],
        folded=True,
    )  # fmt: skip


def _duel(duel: Duel) -> list[Item]:
    place, interval = duel.first.place, duel.interval
    tones: dict[str, Tone] = {"better": "good", "worse": "bad"}
    bounds = (
        f"{signed(interval.low)} to {signed(interval.high)}" if duel.first.n > 1 else "unbounded"
    )
    return [
        Item(place.dataset),
        rate_item(place.rate),
        Item(duel.measure.name),
        Item(place.method),
        mean_item(duel.first),
        Item(duel.second.place.method),
        mean_item(duel.second),
        Item(signed(interval.mean)),
        Item(bounds),
        Item(str(duel.first.n)),
        Item(duel.verdict, tone=tones.get(duel.verdict, "")),
    ]


# -- blocks -------------------------------------------------------------------------------------


def block_sheets(found: Sequence[BlockStatistics]) -> Iterator[Sheet]:
    """Average ranks, tests over blocks, tests of pairs."""
    if not found:
        return
    methods = list(dict.fromkeys(method for each in found for method in each.methods))
    yield Sheet(
        "ranks",
        "Average ranks",
        ["Method", *(each.measure.name for each in found)],
        "t" + "n" * len(found),
        [[Item(method), *(_rank(each, method) for each in found)] for method in methods],
        [
            rank_headline(found),
            "1 is best. A block, over which ranks are averaged, is a data set at a rate.",
        ],
    )
    right, printed = (
        nemenyi_critical_difference(PAPER_METHODS, PAPER_BLOCKS, q=q)
        for q in (None, PAPER_CONSTANT)
    )
    left_out: dict[str, list[str]] = {}
    for each in found:
        blocks = [f"{dataset} at {rate:g}" for dataset, rate in each.left_out_blocks]
        if names := ", ".join([*each.left_out_methods, *blocks]):
            left_out.setdefault(names, []).append(each.measure.name)
    yield Sheet(
        "friedman",
        "Do the methods differ at all?",
        ["Measure", "Methods", "Blocks", "χ²", "p", "F", "p (F)", "Critical difference"],
        "tnnnnnnn",
        [_friedman(each) for each in found],
        [
            "Friedman's test with the correction for ties, Iman and Davenport's F, and Nemenyi's "
            "critical difference at 5 %. Rates of one data set are counted as blocks, as the "
            "paper does, though they share its rows.",
            f"The paper prints a critical difference of {number(printed)} for its {PAPER_METHODS} "
            f"methods and {PAPER_BLOCKS} blocks, from the constant {PAPER_CONSTANT}, which belongs "
            f"to nine methods. The right one gives {number(right)}.",
            *(
                f"Left out for want of results in {', '.join(measures)}: {names}."
                for names, measures in left_out.items()
            ),
        ],
    )
    yield Sheet(
        "wilcoxon",
        "Pairs of methods over all blocks",
        ["Measure", "First", "Second", "Won", "Tied", "Lost", "Median gain", "p", "p (Holm)"],
        "tttnnnnnn",
        [items for each in found for items in _pairs(each)],
        [
            "Wilcoxon's signed-rank test, two-sided; Holm's correction over the pairs of a "
            "measure. The gain is what the first method is better by."
        ],
        folded=True,
    )


def rank_headline(found: Sequence[BlockStatistics]) -> str:
    """Which method has the best average rank in each measure, in a sentence."""
    best: dict[str, list[str]] = {}
    for each in found:
        text = f"{each.measure.name} {number(each.ranks.min(), 2)}"
        best.setdefault(each.methods[int(each.ranks.argmin())], []).append(text)
    whose = "; ".join(f"{method} ({', '.join(texts)})" for method, texts in best.items())
    return f"Best average rank over all data sets and rates: {whose}."


def _rank(each: BlockStatistics, method: str) -> Item:
    if method not in each.methods:
        return Item("–", tone="missing")
    rank = each.ranks[each.methods.index(method)]
    return Item(number(rank, 2), bold=bool(rank == each.ranks.min()))


def _friedman(each: BlockStatistics) -> list[Item]:
    test = each.friedman
    sizes = [Item(str(test.n_methods)), Item(str(test.n_blocks))]
    chi = [Item(number(test.chi_square, 2)), p_item(test.p_value)]
    f = [Item(number(test.f_statistic, 2)), p_item(test.f_p_value)]
    return [Item(each.measure.name), *sizes, *chi, *f, Item(number(each.cd))]


def _pairs(each: BlockStatistics) -> Iterator[list[Item]]:
    for pair in each.pairs:
        names = [Item(each.methods[column]) for column in (pair.first, pair.second)]
        counts = [Item(str(count)) for count in (pair.wins, pair.ties, pair.losses)]
        tests = [p_item(pair.p_value), p_item(pair.p_holm)]
        yield [
            Item(each.measure.name),
            *names,
            *counts,
            Item(signed(pair.median_difference)),
            *tests,
        ]


def p_item(p: float) -> Item:
    """A p-value."""
    return Item("< 0.0001" if p < 0.0001 else number(p, 4), sort=p)
