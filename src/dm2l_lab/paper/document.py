"""Write what the stored results say into README.md and docs/results.md, or check it.

python -m dm2l_lab.paper.document [--check]              the tables
python -m dm2l_lab.paper.document --report REPORT.html   the whole report

The results are those of ``cells.parquet``: every row is a fit, with its seeds, versions, machine,
chosen settings and all measures.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dm2l_lab import Store
from dm2l_lab._results import read_results
from dm2l_lab._statistics import PairedComparison, holm, pairwise_wilcoxon
from dm2l_lab._tables import Contest, ResultTable, TableEntry, contests
from dm2l_lab.paper import studies
from dm2l_lab.paper._methods import LINEAR_WEIGHTS, SMALL, WIDTHS_AND_WEIGHTS
from dm2l_lab.paper._published import PAPER_MEASURES, Measure
from dm2l_lab.report import report, store_figures, study_figures
from dm2l_lab.report._duels import Duel, Verdict, dm2l_variants, duels, ridge_pairs

HERE = Path(__file__).parents[3] / "results"
PAGES = ("README.md", "docs/results.md")
HONEST = "honest+honest_old_tmc"
OLD_TMC = "Tmc2007-500-old"
FEWEST = 4  # repetitions of a method that count
_EQUAL: Verdict = "no difference shown"
TERMS = ("Rkl", "Cvg", "Ap")  # Auc is 1 - Rkl
NAMES = {"Corel16k": "Corel16k (001 of its ten)", "Tmc2007-500": "Tmc2007-500 (old edition)"}


def table(store: Store, protocol: str, mask: str = "per_row") -> ResultTable:
    """Results of a protocol, under one mask."""
    (results,) = read_results(store, protocol)
    return ResultTable(results, mask)


# -- against the paper --------------------------------------------------------------------------


def best_of(found: ResultTable, methods: Iterable[str]) -> list[Contest]:
    """Ours against the best in print; a method counts in a cell from ``FEWEST`` repetitions on."""
    chosen = list(methods)
    joint = contests(found, chosen)
    for place, contest in enumerate(joint):
        if contest.entry is not None and contest.entry.n < FEWEST:
            rest = [name for name in chosen if name != contest.entry.place.method]
            joint[place] = contests(found, rest)[place]
    return joint


def headline(store: Store) -> str:
    """How our best models do against the best figures in print."""
    found = table(store, HONEST)
    methods = found.results.methods
    pairs = ridge_pairs(methods)
    ours, ridges = ([pair[side] for pair in pairs] for side in (0, 1))
    outcomes = [contest.outcome for contest in best_of(found, ours)]
    won = outcomes.count("better") + outcomes.count("equal")
    alone = [_listed(_won(found, [name]) for name in names) for names in (ours, ridges)]
    return (
        f"The best of our {_words(len(ours))} DM2L models is at least as good as the best "
        f"published figure of any method in **{won} of {len(outcomes)}** cells "
        f"({outcomes.count('equal')} of them equal to three decimals), worse in "
        f"{outcomes.count('lost')}"
        + (f", not run in {missing}" if (missing := outcomes.count("missing")) else "")
        + ". Both bests are taken cell by cell, by the mean over test rows. One model alone "
        f"({'; '.join(ours)}) has {alone[0]}; the ridge models that lack DM2L's terms have "
        f"{alone[1]}, and {_won(found, ridges)} together. AUC is 1 - Rkl here and in print, so a "
        "quarter of the cells repeats another. What beats the published figures is thus mostly "
        "ridge, an intercept and a kernel of the right width."
    )


def _won(found: ResultTable, methods: list[str]) -> int:
    return sum(contest.won for contest in best_of(found, methods))


def _listed(values: Iterable[object]) -> str:
    *first, last = map(str, values)
    return f"{', '.join(first)} and {last}" if first else last


def _words(count: int) -> str:
    names = ("no", "one", "two", "three", "four", "five")
    return names[count] if count < len(names) else str(count)


def by_data_set(store: Store) -> str:
    """The same, data set by data set."""
    results = table(store, HONEST)
    found = best_of(results, dm2l_variants(results.results.methods))
    lines = ["| data set | repetitions | at least as good | worse (published, ours) |"]
    lines.append("|---|---|---|---|")
    for name, group in groupby(sorted(found, key=_set), key=_set):
        mine = list(group)
        counts = sorted({c.entry.n for c in mine if c.entry is not None})
        spans = "–".join(str(n) for n in dict.fromkeys((counts[0], counts[-1]))) if counts else "0"
        lost = "; ".join(_lost(mine)) or "none"
        won = sum(contest.won for contest in mine)
        lines.append(f"| {NAMES.get(name, name)} | {spans} | {won} of {len(mine)} | {lost} |")
    return "\n".join(lines)


def _set(contest: Contest) -> str:
    return contest.dataset


def _lost(found: list[Contest]) -> Iterator[str]:
    lost = [c for c in found if c.outcome == "lost" and c.entry is not None]
    for rate, group in groupby(lost, key=lambda contest: contest.rate):
        figures = (
            f"{c.measure.name} {c.published:.3f}, {c.entry.mean:.3f}"
            for c in group
            if c.entry is not None
        )
        yield f"ρ {rate:g}: " + "; ".join(figures)


def reproduced(store: Store) -> str:
    """How many figures of each method are as published, and which of DM2L are not."""
    found = table(store, "as_published")
    entries = list(_entries(found))
    lines = ["| method | data sets | repetitions | as published | not |", "|---|---|---|---|---|"]
    for method in found.results.methods:
        mine = [entry for entry in entries if entry.place.method == method]
        if not mine:  # the paper shows DM2L-Lo in figures alone
            continue
        sets = len({entry.place.dataset for entry in mine})
        good = sum(bool(entry.reproduced) for entry in mine)
        counts = sorted({entry.n for entry in mine})
        spans = "–".join(str(n) for n in dict.fromkeys((counts[0], counts[-1])))
        lines.append(
            f"| {method} | {sets} | {spans} | {good} of {len(mine)} | {len(mine) - good} |"
        )
    lines += ["", "Outside the tolerances, of DM2L:", ""]
    lines.append("| method | data set | ρ | measure | published | ours | reason |")
    lines.append("|---|---|---|---|---|---|---|")
    lines += [
        f"| {e.place.method} | {e.place.dataset} | {e.place.rate:g} | {e.measure.name} "
        f"| {e.published:.3f} | {e.mean:.3f} | {_reason(e)} |"
        for e in entries
        if e.place.method in ("DM2L-l", "DM2L-nl") and not e.reproduced
    ]
    return "\n".join(lines)


def settings(store: Store) -> str:
    """What the paper's DM2L was run with, and how the figures hold beyond the first repetition."""
    lines = ["| data sets | lambda_d of DM2L-l | sigma of DM2L-nl | its lambda_d |"]
    lines.append("|---|---|---|---|")
    groups: dict[tuple[float, float, float], list[str]] = {}
    for name, (sigma, weight) in WIDTHS_AND_WEIGHTS.items():
        groups.setdefault((LINEAR_WEIGHTS[name], sigma, weight), []).append(name)
    for (linear, sigma, weight), names in groups.items():
        shown = names if len(names) < 10 else [f"{names[0]} to {names[-1][-3:]}"]
        lines.append(f"| {', '.join(shown)} | {linear:g} | {sigma:g} | {weight:g} |")
    found, later = table(store, "as_published"), []
    for entry in _entries(found):
        if entry.place.method == "DM2L-nl" and entry.place.dataset in SMALL:
            rest = entry.restricted(set(entry.values) - {0})
            if rest.n:
                later.append(bool(rest.reproduced))
    lines += [
        "",
        f"On the repetitions beyond the first alone, which the six smaller sets have, "
        f"{sum(later)} of {len(later)} figures of DM2L-nl are as published.",
    ]
    return "\n".join(lines)


def _reason(entry: TableEntry) -> str:
    """Why a figure is not the published one, as far as anybody knows."""
    better = entry.measure.compare(_mean(entry), entry.published or np.nan) == "better"
    return "unexplained; ours is the better one" if better else "unexplained"


def _mean(entry: TableEntry) -> float:
    """The mean of an entry that has values."""
    assert entry.mean is not None
    return entry.mean


def _entries(found: ResultTable) -> Iterator[TableEntry]:
    for measure in PAPER_MEASURES:
        for dataset in found.results.datasets:
            for rate in found.results.rates:
                for entry in found.line(dataset, rate, measure.name).values():
                    if entry.reproduced is not None:
                        yield entry


# -- against ridge ------------------------------------------------------------------------------


def _duels(store: Store) -> list[Duel]:
    found = table(store, HONEST)
    everything = duels(found, ridge_pairs(found.results.methods))
    return [duel for duel in everything if duel.measure.name in TERMS and duel.first.n >= FEWEST]


def terms(store: Store) -> str:
    """How often the terms of DM2L make a difference."""
    found = _duels(store)
    verdicts = [duel.verdict for duel in found]
    rest = [duel.verdict for duel in found if not duel.first.place.dataset.startswith("Corel")]
    return (
        f"Of {len(found)} comparisons with ridge on the observed labels, which is DM2L without its "
        f"terms, cell by cell in Rkl, Cvg and Ap, {verdicts.count('better')} show DM2L better, "
        f"{verdicts.count('worse')} show it worse, and {verdicts.count(_EQUAL)} "
        "show no difference (95 % intervals of the mean difference over repetitions, corrected for "
        f"splits that share rows). On Corel16k001 the terms have an effect. Elsewhere "
        f"{rest.count('better')} of {len(rest)} are better and {rest.count('worse')} worse, where "
        f"about {0.025 * len(rest):.0f} of each would be by chance."
    )


def shown(store: Store) -> str:
    """Every difference to ridge that is shown."""
    lines = ["| data set | ρ | model | measure | ridge | DM2L | difference | 95 % interval |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for duel in _duels(store):
        if duel.verdict != _EQUAL:
            place, interval = duel.first.place, duel.interval
            lines.append(
                f"| {place.dataset} | {place.rate:g} | {place.method} | {duel.measure.name} "
                f"| {duel.second.mean:.4f} | {duel.first.mean:.4f} | {interval.mean:+.4f} "
                f"| {interval.low:+.4f} to {interval.high:+.4f} |"
            )
    return "\n".join(lines)


def largest(store: Store) -> str:
    """Where the ranking loss changes most, either way, among the differences that are shown."""
    every = {(duel.first.place, duel.measure.name): duel for duel in _duels(store)}
    found = [duel for (_, name), duel in every.items() if name == "Rkl" and duel.verdict != _EQUAL]
    found.sort(key=lambda duel: -abs(duel.interval.mean / _mean(duel.second)))
    lines = [
        "| largest changes | ρ | model | Rkl of ridge | of DM2L | change, 95 % interval | Ap |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    for duel in found[:6]:
        place, base = duel.first.place, _mean(duel.second)
        low, mean, high = (
            value / base for value in (duel.interval.low, duel.interval.mean, duel.interval.high)
        )
        precision = every[place, "Ap"]
        lines.append(
            f"| {place.dataset} | {place.rate:g} | {place.method} | {base:.3f} "
            f"| {duel.first.mean:.3f} | {mean:+.1%}, {low:+.1%} to {high:+.1%} "
            f"| {precision.second.mean:.3f} to {precision.first.mean:.3f} |"
        )
    return "\n".join(lines)


class Overall(NamedTuple):
    """A pair of methods in one measure, over cells and over data sets."""

    pair: tuple[str, str]
    measure: Measure
    better: int
    worse: int
    change: float
    sets: PairedComparison


def _overall(store: Store) -> Iterator[Overall]:
    """Over data sets, each the mean of its rates, which share rows; Tmc as corrected."""
    found = table(store, HONEST)
    for pair in ridge_pairs(found.results.methods):
        for measure in PAPER_MEASURES:
            if measure.name not in TERMS:
                continue
            cells = {
                (dataset, rate): [_mean(line[name].restricted(common)) for name in pair]
                for dataset in found.results.datasets
                if dataset != OLD_TMC
                for rate in found.results.rates
                if (line := found.line(dataset, rate, measure.name))
                and len(common := line[pair[0]].values.keys() & line[pair[1]].values.keys())
                >= FEWEST
            }
            rates = Counter(dataset for dataset, _ in cells)
            cells = {c: v for c, v in cells.items() if rates[c[0]] == len(found.results.rates)}
            names = dict.fromkeys(dataset for dataset, _ in cells)
            sets = [np.mean([cells[c] for c in cells if c[0] == name], axis=0) for name in names]
            figures = np.array(list(cells.values()))
            gain = figures @ ([1, -1] if measure.higher_is_better else [-1, 1])
            change = float(np.mean(figures[:, 0] / figures[:, 1]) - 1)
            (test,) = pairwise_wilcoxon(sets, measure.higher_is_better)
            yield Overall(pair, measure, int((gain > 0).sum()), int((gain < 0).sum()), change, test)


def overall(store: Store) -> str:
    """DM2L and ridge over cells and over data sets."""
    found = list(_overall(store))
    corrected = holm([o.sets.p_value for o in found])
    lines = ["| | measure | cells better / worse | change | sets better / worse | p | p, Holm |"]
    lines.append("|---|---|---|---|---|---|---|")
    lines += [
        f"| {' and '.join(o.pair)} | {o.measure.name} | {o.better} / {o.worse} | {o.change:+.1%} "
        f"| {o.sets.wins} / {o.sets.losses} | {o.sets.p_value:.3f} | {p:.3f} |"
        for o, p in zip(found, corrected, strict=True)
    ]
    return "\n".join(lines)


def means(store: Store, mask: str = "per_row") -> str:
    """Means of our methods."""
    found = table(store, HONEST, mask)
    return _means(found, [name for name in found.results.methods if "tuned" not in name])


def compared(store: Store) -> str:
    """The compared methods, tuned, beside ours."""
    found = table(store, HONEST)
    tuned = [name for name in found.results.methods if "tuned" in name]
    return _means(found, [*tuned, "masked ridge", "DM2L linear", "DM2L kernel"], needs=tuned)


def _means(found: ResultTable, methods: Sequence[str], needs: Sequence[str] = ()) -> str:
    """Means over the repetitions that all methods of a line have; lines have the needed ones."""
    lines = ["| Rkl / Ap | ρ | n | " + " | ".join(methods) + " |"]
    lines.append("|---" * (len(methods) + 3) + "|")
    for dataset in found.results.datasets:
        for rate in found.results.rates:
            loss, precision = (found.line(dataset, rate, name) for name in ("Rkl", "Ap"))
            run = [name for name in methods if name in loss and loss[name].n >= FEWEST]
            if not run or not set(needs) <= set(run) or (found.mask == "uniform" and rate == 1):
                continue
            common = set.intersection(*(set(loss[name].values) for name in run))
            figures = {
                name: f"{loss[name].restricted(common).mean:.3f} / "
                f"{precision[name].restricted(common).mean:.3f}"
                for name in run
            }
            cells = [figures.get(name, "–") for name in methods]
            lines.append(f"| {dataset} | {rate:g} | {len(common)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def uniform(store: Store) -> str:
    """Means of our methods with labels hidden uniformly."""
    return means(store, "uniform")


# -- pages --------------------------------------------------------------------------------------

BLOCKS = {
    "headline": headline,
    "by data set": by_data_set,
    "reproduced": reproduced,
    "settings": settings,
    "terms": terms,
    "shown": shown,
    "largest": largest,
    "overall": overall,
    "means": means,
    "compared": compared,
    "uniform": uniform,
}


def write_pages(store: Store, *, check: bool) -> None:
    """Write the blocks into the pages, or end with a message where one differs."""
    texts = {name: make(store) for name, make in BLOCKS.items()}
    for page in PAGES:
        path = HERE.parent / page
        old = new = path.read_text(encoding="utf-8")
        for name, text in texts.items():
            marks = rf"(<!-- results: {name} -->\n).*?(<!-- end -->)"
            new = re.sub(marks, partial(_filled, text), new, flags=re.DOTALL)
        if not check:
            path.write_text(new, encoding="utf-8")
        elif new != old:
            sys.exit(
                f"{page} does not match results/cells.parquet: "
                "run python -m dm2l_lab.paper.document"
            )


def _filled(text: str, block: re.Match[str]) -> str:
    return f"{block[1]}{text}\n{block[2]}"


def main() -> None:
    """Write pages, check them, or write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where a page differs")
    parser.add_argument("--report", type=Path, help="write the report here instead")
    arguments = parser.parse_args()
    with Store(":memory:") as store:
        store.merge(HERE / "cells.parquet")
        if arguments.report is None:
            write_pages(store, check=arguments.check)
            return
        for protocol in (HONEST, "as_published"):
            name = arguments.report.stem + ("" if protocol == HONEST else "-as-published")
            figures = store_figures(store, protocol=protocol)
            if protocol == "as_published":
                figures += itertools.chain.from_iterable(map(study_figures, studies.read()))
            report(store, arguments.report.with_stem(name), protocol=protocol, figures=figures)


if __name__ == "__main__":
    main()
