"""What the stored results say of DM2L beside ridge and other methods, as blocks of Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from dm2l_lab import Store
from dm2l_lab._published import PAPER_MEASURES, Measure
from dm2l_lab._statistics import PairedComparison, holm, pairwise_wilcoxon
from dm2l_lab._tables import ResultTable
from dm2l_lab.paper._against_print import FEWEST, HONEST, mean_of, table
from dm2l_lab.paper._methods import OLD_TMC
from dm2l_lab.report._duels import Duel, Verdict, duels, ridge_pairs

TERMS = ("Rkl", "Cvg", "Ap")  # Auc is 1 - Rkl
_EQUAL: Verdict = "no difference shown"


@cache
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
    found.sort(key=lambda duel: -abs(duel.interval.mean / mean_of(duel.second)))
    lines = [
        "| largest changes | ρ | model | Rkl of ridge | of DM2L | change, 95 % interval | Ap |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    for duel in found[:6]:
        place, base = duel.first.place, mean_of(duel.second)
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
                (dataset, rate): [mean_of(line[name].restricted(common)) for name in pair]
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
