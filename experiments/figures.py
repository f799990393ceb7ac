"""Figures of results: metrics against observation rates, methods side by side, fit times.

Series differ in colour, for all kinds of colour vision, and in marker and line, for grey.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dm2l.plots._canvas import COLOURS, FONT, SMALL_FONT, series_styles
from experiments.comparisons import BlockStatistics, block_statistics
from experiments.diagrams import critical_difference_diagram
from experiments.panels import RATE, Frame, log_axis, measure_name, rounded
from experiments.published import PAPER_MEASURES, Measure
from experiments.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = NDArray[np.float64]
# What the paper sets side by side, and on which data.
_PAIRS = (("LEML", "DM2L-Lo"), ("DM2L-l", "DM2L-Lo"))
_PAIR_SETS = ("Arts", "Business")


def figures(results: Results) -> Iterator[tuple[str, str, Figure]]:
    """Names, captions and figures of the results of one mask."""
    measures = [measure for measure in PAPER_MEASURES if measure in results.measures]
    for measure in measures:
        caption = f"{measure.title} against the share of labels that stay observed."
        yield f"rates-{measure.name.lower()}", caption, rate_figure(results, measure)
    for methods, dataset in product(_PAIRS, _PAIR_SETS):
        here = results.rows.loc[results.rows["dataset"] == dataset, "method"]
        if measures and set(methods) <= set(here):
            name = f"{methods[0]}-and-{methods[1]}-on-{dataset}".lower()
            caption = f"{methods[0]} and {methods[1]} on {dataset}."
            yield name, caption, comparison_figure(results, methods, dataset, measures)
    timed = results.rows[results.rows["seconds_fit"].notna()]
    for dataset in timed["dataset"].unique():
        caption = f"{dataset}: seconds to fit, selection included; median, shortest and longest."
        yield f"times-{dataset}".lower(), caption, time_figure(timed, dataset)
    for measure in measures:
        block = block_statistics(results, measure)
        if block is not None:
            caption = (
                f"{measure.title}, average ranks: methods under one bar do not differ by Nemenyi's "
                "test at 5 %."
            )
            yield f"ranks-{measure.name.lower()}", caption, rank_figure(block)


def spread(samples: Iterable[Any]) -> tuple[Numbers, Numbers]:
    """Means and standard deviations; the latter are nan, and not drawn, for single values."""
    pairs = [
        (np.mean(s) if len(s) else np.nan, np.std(s, ddof=1) if len(s) > 1 else np.nan)
        for s in samples
    ]
    mean, deviation = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    return mean, deviation


def repetitions(counts: set[int], *, spread: bool = True) -> str:
    """What points and bars are, for the legend."""
    low, high = min(counts), max(counts)
    if high == 1:
        return "one repetition"
    what = "mean ± standard deviation" if spread else "mean"
    return f"{what} of {high if low == high else f'{low} to {high}'} repetitions"


def _by_rate(results: Results, dataset: str, method: str, measure: Measure) -> dict[float, Any]:
    """Values over repetitions, by rising rate; rates without any are left out."""
    lines = {
        rate: results.line(dataset, rate, measure.name)[method].dropna().to_numpy()
        for rate in sorted(results.rates)
    }
    return {rate: values for rate, values in lines.items() if len(values)}


def _counts(samples: Iterable[dict[float, Any]]) -> set[int]:
    return {len(values) for sample in samples for values in sample.values()} or {1}


def comparison_figure(
    results: Results,
    methods: Sequence[str],
    dataset: str,
    measures: Sequence[Measure] = PAPER_MEASURES,
) -> Figure:
    """Metrics of a few methods side by side, at each observation rate.

    Points are means over repetitions, bars one standard deviation either way. With LEML and
    DM2L-Lo, or DM2L-l and DM2L-Lo, these are the paper's figures on its local and global terms.
    """
    frame = Frame(None, len(measures), columns=2, height=2.2)
    styles = series_styles(list(methods))
    rates = sorted(results.rates)
    step = min(0.22, 0.8 / len(styles))
    drawn = []
    for ax, measure in zip(frame.panels, measures, strict=True):
        for i, name in enumerate(styles):
            samples = _by_rate(results, dataset, name, measure)
            if not samples:
                continue  # the metric is undefined for it
            drawn.append(samples)
            places = np.array([rates.index(rate) for rate in samples])
            x = places + step * (i - (len(styles) - 1) / 2)
            mean, deviation = spread(samples.values())
            look = styles[name] | {"linestyle": "none", "capsize": 3, "elinewidth": 1.2}
            ax.errorbar(x, mean, yerr=deviation, label=name, **look)
        ax.set_xticks(range(len(rates)), [f"{100 * rate:g}" for rate in rates])
        ax.set_xlim(-0.5, len(rates) - 0.5)
        ax.grid(visible=False, axis="x")
        frame.name(ax, RATE, measure_name(measure.metric))
    return frame.finish(repetitions(_counts(drawn)))


def rate_figure(results: Results, measure: Measure) -> Figure:
    """A metric of all methods against the observation rate, a panel for each data set."""
    frame = Frame(None, len(results.datasets), columns=3, height=2.0)
    styles = series_styles(list(results.methods))
    rates = sorted(results.rates)
    drawn = []
    for ax, dataset in zip(frame.panels, results.datasets, strict=True):
        for name in results.methods:
            samples = _by_rate(results, dataset, name, measure)
            if not samples:
                continue  # not run on this data set
            drawn.append(samples)
            x = 100 * np.array(list(samples))
            ax.plot(x, spread(samples.values())[0], label=name, **styles[name])
        ax.set_xticks([100 * rate for rate in rates], [f"{100 * rate:g}" for rate in rates])
        ax.set_title(dataset, fontsize=FONT, loc="left")
        frame.name(ax, RATE, measure_name(measure.metric), common="xy")
    return frame.finish(repetitions(_counts(drawn), spread=False))


def time_figure(rows: pd.DataFrame, dataset: str) -> Figure:
    """How long methods take to fit: a dot at the median, a line from shortest to longest.

    All rates and repetitions count. The fastest is on top. Methods of DM2L have filled dots; a
    device that is not the CPU is named behind the method.
    """
    here = rows[(rows["dataset"] == dataset) & rows["seconds_fit"].notna()]
    on = np.where(here["device"] == "cpu", "", ", " + here["device"])
    groups = here.groupby(here["method"] + on)["seconds_fit"]
    found = groups.agg(["median", "min", "max"]).sort_values("median")
    frame = Frame(None, 1, columns=1, height=0.7 + 0.26 * len(found))
    (ax,) = frame.panels
    look: dict[str, Any] = {"color": COLOURS[0], "linewidth": 2.0}
    for i, (name, (median, low, high)) in enumerate(found.iterrows()):
        ax.plot([low, high], [i, i], **look)
        filled = COLOURS[0] if str(name).startswith("DM2L") else "white"
        ax.plot([median], [i], marker="o", markersize=6, markerfacecolor=filled, **look)
        place = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": SMALL_FONT}
        ax.text(1.02, i, f"{rounded(median)} s", **place)
    log_axis(ax, "x")
    ax.set_yticks(range(len(found)), list(found.index))
    ax.set_ylim(len(found) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")
    frame.name(ax, "time to fit, seconds", None)
    return frame.figure


def rank_figure(block: BlockStatistics) -> Figure:
    """The critical-difference diagram of one measure."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        drawn = critical_difference_diagram(
            block.ranks, block.critical_difference, names=block.methods
        )
    return drawn.figure
