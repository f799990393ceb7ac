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
from collections.abc import Iterator
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


def table(store: Store, protocol: str) -> Table:
    (results,) = read_results(store, protocol)
    return Table(results, "per_row")


# -- against the paper --------------------------------------------------------------------------


def best_of_ours(found: Table) -> list[Contest]:
    return contests(found, dm2l_variants(found.results.methods))


def headline(store: Store) -> str:
    outcomes = [contest.outcome for contest in best_of_ours(table(store, HONEST))]
    won = outcomes.count("better") + outcomes.count("equal")
    return (
        "The better of our two DM2L models is at least as good as the best published figure of "
        f"any method in **{won} of {len(outcomes)}** cells, worse in {outcomes.count('lost')}"
        + (f", not run in {missing}" if (missing := outcomes.count("missing")) else "")
        + "."
    )


def by_data_set(store: Store) -> str:
    found = best_of_ours(table(store, HONEST))
    lines = ["| data set | repetitions | at least as good | worse (published, ours) |"]
    lines.append("|---|---|---|---|")
    for name, group in groupby(sorted(found, key=_set), key=_set):
        mine = list(group)
        counts = sorted({c.entry.n for c in mine if c.entry is not None})
        spans = "–".join(str(n) for n in dict.fromkeys((counts[0], counts[-1]))) if counts else "0"
        lost = "; ".join(_lost(mine)) or "none"
        lines.append(f"| {name} | {spans} | {sum(c.won for c in mine)} of {len(mine)} | {lost} |")
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
    lines = ["| method | data sets | as published | not |", "|---|---|---|---|"]
    for method in ("DM2L-l", "DM2L-nl"):
        mine = [entry for entry in entries if entry.place.method == method]
        sets = len({entry.place.dataset for entry in mine})
        good = sum(bool(entry.reproduced) for entry in mine)
        lines.append(f"| {method} | {sets} | {good} of {len(mine)} | {len(mine) - good} |")
    lines += ["", "Outside the tolerances:", ""]
    lines += ["| method | data set | ρ | measure | published | ours |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {e.place.method} | {e.place.dataset} | {e.place.rate:g} | {e.measure.name} "
        f"| {e.published:.3f} | {e.mean:.3f} |"
        for e in entries
        if not e.reproduced
    ]
    return "\n".join(lines)


def _entries(found: Table) -> Iterator[Entry]:
    for measure in PAPER_MEASURES:
        for dataset in found.results.datasets:
            for rate in found.results.rates:
                for entry in found.line(dataset, rate, measure.name).values():
                    if entry.reproduced is not None:
                        yield entry


# -- against ridge ------------------------------------------------------------------------------


def _duels(store: Store) -> list[Duel]:
    names = [measure.name for measure in PAPER_MEASURES]
    found = table(store, HONEST)
    everything = duels(found, ridge_pairs(found.results.methods))
    return [duel for duel in everything if duel.measure.name in names]


def terms(store: Store) -> str:
    found = _duels(store)
    verdicts = [duel.verdict for duel in found]
    return (
        f"Of {len(found)} comparisons with ridge on the observed labels, which is DM2L without its "
        f"terms, {verdicts.count('better')} show DM2L better, {verdicts.count('worse')} show it "
        f"worse, and {verdicts.count('no difference shown')} show no difference (95 % intervals of "
        "the mean difference over repetitions, corrected for splits that share rows)."
    )


def shown(store: Store) -> str:
    lines = ["| data set | ρ | model | measure | ridge | DM2L | difference | 95 % interval |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for duel in _duels(store):
        if duel.verdict != "no difference shown":
            place, interval = duel.first.place, duel.interval
            lines.append(
                f"| {place.dataset} | {place.rate:g} | {place.method} | {duel.measure.name} "
                f"| {duel.second.mean:.4f} | {duel.first.mean:.4f} | {interval.mean:+.4f} "
                f"| {interval.low:+.4f} to {interval.high:+.4f} |"
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
    """Over data sets each is the mean of its rates, which share rows."""
    found = table(store, HONEST)
    for pair in ridge_pairs(found.results.methods):
        for measure in PAPER_MEASURES:
            cells = {
                (dataset, rate): [line[name].restricted(common).mean for name in pair]
                for dataset in found.results.datasets
                for rate in found.results.rates
                if (line := found.line(dataset, rate, measure.name))
                and (common := line[pair[0]].values.keys() & line[pair[1]].values.keys())
            }
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
    kernel = {o.measure.name: o for o in _overall(store) if o.pair[0] == "DM2L kernel"}
    parts = [
        f"{kernel[name].measure.title.lower()} {kernel[name].change:+.1%} on average, better on "
        f"{kernel[name].sets.wins} of {kernel[name].sets.wins + kernel[name].sets.losses} data "
        f"sets (p {kernel[name].sets.p_value:.3f})"
        for name in ("Rkl", "Cvg", "Ap")
    ]
    return f"Over all data sets the terms change the kernel model a little: {'; '.join(parts)}."


def means(store: Store) -> str:
    found = table(store, HONEST)
    methods = [name for name in found.results.methods if "tuned" not in name]
    lines = ["| Rkl / Ap | ρ | " + " | ".join(methods) + " |", "|---" * (len(methods) + 2) + "|"]
    for dataset in found.results.datasets:
        for rate in found.results.rates:
            loss, precision = (found.line(dataset, rate, name) for name in ("Rkl", "Ap"))
            cells = [_pair(loss[name].mean, precision[name].mean) for name in methods]
            lines.append(f"| {dataset} | {rate:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _pair(loss: float | None, precision: float | None) -> str:
    return "–" if loss is None or precision is None else f"{loss:.3f} / {precision:.3f}"


# -- pages --------------------------------------------------------------------------------------

BLOCKS = {
    "headline": headline,
    "by data set": by_data_set,
    "reproduced": reproduced,
    "terms": terms,
    "shown": shown,
    "overall": overall,
    "consistent": consistent,
    "means": means,
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
