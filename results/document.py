"""Write what the stored results say into README.md and docs/results.md, or check it.

python results/document.py [--check]              the tables
python results/document.py --report REPORT.html   the whole report

The results are those of ``cells.parquet``: every row is a fit, with its seeds, versions, machine,
chosen settings and all measures.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dm2l.experiments import Store
from dm2l.experiments._published import PAPER_MEASURES, Measure
from dm2l.experiments._results import read_results
from dm2l.experiments._statistics import PairedComparison, pairwise_wilcoxon
from dm2l.experiments._tables import Contest, Entry, Table, contests
from dm2l.report import report, store_figures
from dm2l.report._duels import Duel, dm2l_variants, duels, ridge_pairs

HERE = Path(__file__).parent
PAGES = ("README.md", "docs/results.md")
HONEST = "honest+honest_old_tmc"
OLD_TMC = "Tmc2007-500-old"
FEWEST = 4  # repetitions of a method that count
_EQUAL = "no difference shown"
TERMS = ("Rkl", "Cvg", "Ap")  # Auc is 1 - Rkl
NAMES = {"Corel16k": "Corel16k (001 of its ten)", "Tmc2007-500": "Tmc2007-500 (old edition)"}


def table(store: Store, protocol: str, mask: str = "per_row") -> Table:
    (results,) = read_results(store, protocol)
    return Table(results, mask)


# -- against the paper --------------------------------------------------------------------------


def best_of(found: Table, methods: Iterable[str]) -> list[Contest]:
    """Ours against the best in print; a method counts in a cell from ``FEWEST`` repetitions on."""
    chosen = list(methods)
    joint = contests(found, chosen)
    for place, contest in enumerate(joint):
        if contest.entry is not None and contest.entry.n < FEWEST:
            rest = [name for name in chosen if name != contest.entry.place.method]
            joint[place] = contests(found, rest)[place]
    return joint


def headline(store: Store) -> str:
    found = table(store, HONEST)
    methods = found.results.methods
    outcomes = [contest.outcome for contest in best_of(found, dm2l_variants(methods))]
    ridges = [name for name in methods if "ridge" in name]
    ridge = sum(contest.won for contest in best_of(found, ridges))
    won = outcomes.count("better") + outcomes.count("equal")
    variants = len(dm2l_variants(methods))
    return (
        f"The best of our {variants} DM2L models is at least as good as the best published figure "
        f"of any method in **{won} of {len(outcomes)}** cells, worse in {outcomes.count('lost')}"
        + (f", not run in {missing}" if (missing := outcomes.count("missing")) else "")
        + f". The best of as many ridge models, which lack DM2L's terms, gets {ridge}."
    )


def by_data_set(store: Store) -> str:
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
    found = table(store, "as_published")
    entries = [entry for entry in _entries(found) if entry.place.method in ("DM2L-l", "DM2L-nl")]
    lines = ["| method | data sets | repetitions | as published | not |", "|---|---|---|---|---|"]
    for method in ("DM2L-l", "DM2L-nl"):
        mine = [entry for entry in entries if entry.place.method == method]
        sets = len({entry.place.dataset for entry in mine})
        good = sum(bool(entry.reproduced) for entry in mine)
        counts = sorted({entry.n for entry in mine})
        spans = "–".join(str(n) for n in dict.fromkeys((counts[0], counts[-1])))
        lines.append(
            f"| {method} | {sets} | {spans} | {good} of {len(mine)} | {len(mine) - good} |"
        )
    lines += ["", "Outside the tolerances:", ""]
    lines.append("| method | data set | ρ | measure | published | ours | reason |")
    lines.append("|---|---|---|---|---|---|---|")
    lines += [
        f"| {e.place.method} | {e.place.dataset} | {e.place.rate:g} | {e.measure.name} "
        f"| {e.published:.3f} | {e.mean:.3f} | {_reason(e)} |"
        for e in entries
        if not e.reproduced
    ]
    return "\n".join(lines)


def _reason(entry: Entry) -> str:
    """Why a figure is not the published one, as far as anybody knows."""
    better = entry.measure.compare(entry.mean, entry.published) == "better"
    return "unexplained; ours is the better one" if better else "unexplained"


def _entries(found: Table) -> Iterator[Entry]:
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
    return [duel for duel in everything if duel.measure.name in TERMS and duel.interval.n >= FEWEST]


def terms(store: Store) -> str:
    found = _duels(store)
    verdicts = [duel.verdict for duel in found]
    return (
        f"Of {len(found)} comparisons with ridge on the observed labels, which is DM2L without its "
        f"terms, cell by cell in Rkl, Cvg and Ap, {verdicts.count('better')} show DM2L better, "
        f"{verdicts.count('worse')} show it worse, and {verdicts.count(_EQUAL)} "
        "show no difference (95 % intervals of the mean difference over repetitions, corrected for "
        f"splits that share rows; of so many between equals about {0.05 * len(found):.0f} would "
        "show one)."
    )


def shown(store: Store) -> str:
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
    found = [d for d in _duels(store) if d.measure.name == "Rkl" and d.verdict != _EQUAL]
    found.sort(key=lambda duel: duel.interval.mean / duel.second.mean)
    parts = []
    for duel in found[:5]:
        place, base = duel.first.place, duel.second.mean
        low, mean, high = (
            value / base for value in (duel.interval.low, duel.interval.mean, duel.interval.high)
        )
        parts.append(
            f"{place.dataset} at ρ {place.rate:g} with {place.method} ({base:.3f} to "
            f"{duel.first.mean:.3f}, {mean:+.1%}, interval {low:+.1%} to {high:+.1%})"
        )
    worse = sum(duel.verdict == "worse" for duel in found)
    return (
        f"Of the {len(found)} differences in ranking loss, {worse} are for the worse. The "
        "largest: " + "; ".join(parts) + "."
    )


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
                (dataset, rate): [line[name].restricted(common).mean for name in pair]
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
    lines = ["| | measure | cells better / worse | mean change | data sets better / worse | p |"]
    lines.append("|---|---|---|---|---|---|")
    lines += [
        f"| {' and '.join(o.pair)} | {o.measure.name} | {o.better} / {o.worse} | {o.change:+.1%} "
        f"| {o.sets.wins} / {o.sets.losses} | {o.sets.p_value:.3f} |"
        for o in _overall(store)
    ]
    return "\n".join(lines)


def consistent(store: Store) -> str:
    texts = []
    for model in ("kernel", "kernel, for ranking", "linear"):
        mine = [o for o in _overall(store) if o.pair[0] == f"DM2L {model}"]
        parts = (
            f"{o.measure.title.lower()} {o.change:+.1%} on average, better on {o.sets.wins} and "
            f"worse on {o.sets.losses} data sets (p {o.sets.p_value:.3f})"
            for o in mine
        )
        kind, _, purpose = model.partition(", ")
        texts.append(f"{kind} model{f' {purpose}' if purpose else ''}: " + "; ".join(parts))
    return (
        "Over all data sets the terms change little. "
        + ". ".join(text[0].upper() + text[1:] for text in texts)
        + "."
    )


def means(store: Store, mask: str = "per_row") -> str:
    found = table(store, HONEST, mask)
    methods = [name for name in found.results.methods if "tuned" not in name]
    lines = ["| Rkl / Ap | ρ | n | " + " | ".join(methods) + " |"]
    lines.append("|---" * (len(methods) + 3) + "|")
    for dataset in found.results.datasets:
        for rate in found.results.rates:
            loss, precision = (found.line(dataset, rate, name) for name in ("Rkl", "Ap"))
            run = [name for name in methods if name in loss and loss[name].n >= FEWEST]
            if not run or (mask == "uniform" and rate == 1):
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
    return means(store, "uniform")


# -- pages --------------------------------------------------------------------------------------

BLOCKS = {
    "headline": headline,
    "by data set": by_data_set,
    "reproduced": reproduced,
    "terms": terms,
    "shown": shown,
    "largest": largest,
    "overall": overall,
    "consistent": consistent,
    "means": means,
    "uniform": uniform,
}


def write_pages(store: Store, *, check: bool) -> None:
    texts = {name: make(store) for name, make in BLOCKS.items()}
    for page in PAGES:
        path = HERE.parent / page
        old = new = path.read_text(encoding="utf-8")
        for name, text in texts.items():
            marks = rf"(<!-- results: {name} -->\n).*?(<!-- end -->)"
            new = re.sub(marks, lambda m, t=text: f"{m[1]}{t}\n{m[2]}", new, flags=re.DOTALL)
        if not check:
            path.write_text(new, encoding="utf-8")
        elif new != old:
            sys.exit(f"{page} does not match results/cells.parquet: run results/document.py")


def main() -> None:
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
            report(store, arguments.report.with_stem(name), protocol=protocol, figures=figures)


if __name__ == "__main__":
    main()
