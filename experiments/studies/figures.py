"""Figures of studies: ranks of labels, courses of solvers, sensitivity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dm2l.plots._canvas import COLOURS, series_styles
from experiments.figures import repetitions, spread
from experiments.panels import PARAMETERS, Frame, log_axis, measure_name
from experiments.studies.convergence import Convergence
from experiments.studies.label_ranks import LabelRanks
from experiments.studies.sensitivity import METRICS, Sensitivity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_QUANTITIES: dict[str, Any] = {
    "rank": lambda spectrum: spectrum.rank,
    "nuclear norm": lambda spectrum: spectrum.singular_values.sum(),
}


def label_rank_figure(ranks: LabelRanks) -> Figure:
    """Draw ranks, nuclear norms and singular values of a label matrix and of its groups.

    A dot is the group of a label. Bars are random rows, as many as the group has, from the least
    to the greatest of the draws: below them a label brings low rank of its own. The line across
    is the whole label matrix. Lines of singular values end at the rank.
    """
    frame = Frame(None, 3, columns=3, height=2.6)
    sizes = np.array([group.shape[0] for group in ranks.groups.values()])
    for ax, (quantity, value_of) in zip(frame.panels, _QUANTITIES.items(), strict=False):
        label = f"all {ranks.whole.shape[0]:,} rows"
        ax.axhline(value_of(ranks.whole), color="black", linewidth=1.8, label=label)
        draws = [list(map(value_of, ranks.random[name])) for name in ranks.groups]
        if any(draws):
            middle, low, high = (np.array([f(d) for d in draws]) for f in (np.mean, min, max))
            look: dict[str, Any] = {"fmt": "_", "markersize": 7, "color": COLOURS[1]}
            reach = np.maximum([middle - low, high - middle], 0.0)  # rounding of the mean
            ax.errorbar(sizes, middle, yerr=reach, label="random rows, as many", **look)
        values = list(map(value_of, ranks.groups.values()))
        look = {"marker": "o", "markersize": 4, "linestyle": "none", "color": COLOURS[0]}
        ax.plot(sizes, values, label="rows of one label", **look)
        log_axis(ax, "x")
        frame.name(ax, "rows of the group", quantity)
    frame.panels[0].set_ylim(bottom=0)
    frame.panels[0].yaxis.get_major_locator().set_params(integer=True)
    log_axis(frame.panels[1], "y")
    ax = frame.panels[2]
    for group in ranks.groups.values():
        _draw_spectrum(ax, group, color=COLOURS[0], linewidth=0.6, alpha=0.6)
    _draw_spectrum(ax, ranks.whole, color="black", linewidth=2.2)
    log_axis(ax, "y")
    frame.name(ax, "number in falling order", "singular value / largest")
    return frame.finish()


def _draw_spectrum(ax: Axes, spectrum: Any, **look: Any) -> None:
    values = spectrum.singular_values[: spectrum.rank]
    if len(values) == 1:
        look |= {"marker": "o", "markersize": 2.5}
    ax.plot(np.arange(1, len(values) + 1), values / values[:1], **look)


def convergence_figure(study: Convergence) -> Figure:
    """Draw how far solvers are from the lowest objective known, over iterations and seconds.

    Iterations of "cccp" and "published" are rounds. A point at the lowest objective itself has no
    place on the log axis.
    """
    frame = Frame(None, 2, columns=2, height=2.8)
    styles = series_styles(list(study.courses))
    for ax, seconds in zip(frame.panels, (False, True), strict=True):
        for name, course in study.courses.items():
            distance = study.distance(name)
            x = course.seconds if seconds else np.arange(len(distance))
            shown = (distance > 0) & np.isfinite(x)
            # About ten markers a line, whatever its length.
            some = {"markersize": 4.5, "markevery": max(1, int(shown.sum()) // 10)}
            ax.plot(x[shown], distance[shown], label=name, **(styles[name] | some))
        x_name = "time since fit began, seconds" if seconds else "iterations"
        frame.name(ax, x_name, "objective / lowest − 1", common="y")
    log_axis(frame.panels[0], "y")
    log_axis(frame.panels[1], "y")
    log_axis(frame.panels[1], "x")
    frame.panels[1].set_ylim(frame.panels[0].get_ylim())
    return frame.finish()


def sensitivity_figure(
    studies: Mapping[str, Sensitivity],
    *,
    parameter: str = "lambda_d",
) -> Figure:
    """Draw metrics over the values of a parameter, on a log axis.

    Lines are means over repetitions, bands one standard deviation either way. A value of 0 has no
    place on the axis: its mean is a thin dotted line across.
    """
    frame = Frame(None, len(METRICS), columns=2, height=2.2)
    styles = series_styles(list(studies))
    counts = {len(table) for study in studies.values() for table in study.scores.values()}
    for ax, metric in zip(frame.panels, METRICS, strict=True):
        for name, study in studies.items():
            values, table = study.along(parameter, metric)
            mean, deviation = spread(column[np.isfinite(column)] for column in table.T)
            on, colour = values > 0, styles[name]["color"]
            ax.plot(values[on], mean[on], label=name, **styles[name])
            edges = (mean - deviation)[on], (mean + deviation)[on]
            ax.fill_between(values[on], *edges, color=colour, alpha=0.2, linewidth=0)
            for level in mean[~on]:
                ax.axhline(level, color=colour, linewidth=1.0, linestyle=":")
        log_axis(ax, "x")
        frame.name(ax, PARAMETERS[parameter], measure_name(metric))
    zero = any((study.lambda_ds == 0).any() for study in studies.values())
    dotted = rf"; dotted: {PARAMETERS['lambda_d']} = 0" if zero and parameter == "lambda_d" else ""
    return frame.finish(repetitions(counts) + dotted)
