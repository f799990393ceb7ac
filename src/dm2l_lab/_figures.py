"""The figures of the experiments.

Every function takes the axes of its panels, or makes a figure seven inches wide that pyplot does
not hold on to. Series differ in colour, for all kinds of colour vision, and in marker and line,
for grey.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dm2l.plots._panels import (
    COLOURS,
    FONT,
    PARAMETERS,
    RATE,
    SMALL_FONT,
    Frame,
    Panels,
    log_axis,
    measure_name,
    rounded,
    series_styles,
)
from dm2l_lab.paper._studies import METRICS, Convergence, LabelRanks, Sensitivity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "comparison_figure",
    "convergence_figure",
    "label_rank_figure",
    "rate_figure",
    "sensitivity_figure",
    "time_figure",
]

Numbers = NDArray[np.float64]
Row = Mapping[str, Any]


# -- rows of a store --------------------------------------------------------------------------


def _spread(samples: Iterable[Any]) -> tuple[Numbers, Numbers]:
    """Means and standard deviations; the latter are nan, and not drawn, for single values."""
    pairs = [
        (np.mean(s) if len(s) else np.nan, np.std(s, ddof=1) if len(s) > 1 else np.nan)
        for s in samples
    ]
    mean, deviation = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    return mean, deviation


def _repetitions(counts: set[int], *, spread: bool = True) -> str:
    """What points and bars are, for the legend."""
    low, high = min(counts), max(counts)
    if high == 1:
        return "one repetition"
    what = "mean ± standard deviation" if spread else "mean"
    return f"{what} of {high if low == high else f'{low} to {high}'} repetitions"


class _Results:
    """Rows of a store that are done, of one kind of mask; each cell once."""

    def __init__(
        self,
        rows: Iterable[Row],
        datasets: Sequence[str] | None,
        methods: Sequence[str] | None,
        mask: str | None,
    ) -> None:
        self.rows = [
            row
            for row in rows
            if row["status"] == "done"
            and (mask is None or row["mask"] in (mask, "none"))  # none: at rate 1
            and (datasets is None or row["dataset"] in datasets)
            and (methods is None or row["method"] in methods)
        ]
        if not self.rows:
            raise ValueError(
                f"No row is done for datasets={datasets!r}, methods={methods!r}, mask={mask!r}: "
                "there is nothing to draw."
            )
        self._check()
        self.datasets = self._names("dataset", datasets)
        self.methods = self._names("method", methods)
        self.rates = sorted({row["rate"] for row in self.rows})

    def _check(self) -> None:
        first: dict[Any, Row] = {}
        for row in self.rows:
            key = tuple(row[name] for name in ("dataset", "mask", "rate", "repetition", "method"))
            other = first.setdefault(key, row)
            if other is not row:
                what = "protocol" if row["protocol"] != other["protocol"] else "settings"
                raise ValueError(
                    f"Two rows of {row['method']} on {row['dataset']}, rate {row['rate']}, "
                    f"repetition {row['repetition']} differ in {what}. Give rows of one protocol: "
                    "store.rows(protocol) takes those with the present settings."
                )

    def _names(self, column: str, wanted: Sequence[str] | None) -> list[str]:
        met = list(dict.fromkeys(row[column] for row in self.rows))
        return met if wanted is None else [name for name in wanted if name in met]

    def dataset(self) -> str:
        """The only data set."""
        if len(self.datasets) > 1:
            raise ValueError(f"Give dataset=, one of {', '.join(self.datasets)}.")
        return self.datasets[0]

    def counts(self) -> set[int]:
        """How many repetitions there are, where a run is not complete in several ways."""
        columns = ("dataset", "mask", "rate", "method")
        return set(Counter(tuple(row[c] for c in columns) for row in self.rows).values())

    def by_rate(
        self, dataset: str, method: str, metric: str, convention: str
    ) -> dict[float, list[float]]:
        """Values of a metric over repetitions, by rising rate."""
        found: dict[float, list[float]] = {}
        for row in self.rows:
            if (row["dataset"], row["method"]) == (dataset, method):
                known = row["metrics"][convention]
                if metric not in known:
                    raise ValueError(f"Rows have no metric {metric!r}, only {', '.join(known)}.")
                if known[metric] is not None:
                    found.setdefault(row["rate"], []).append(known[metric])
        return dict(sorted(found.items()))


def comparison_figure(
    rows: Iterable[Row],
    axes: Panels | None = None,
    *,
    methods: Sequence[str] | None = None,
    dataset: str | None = None,
    metrics: Sequence[str] = METRICS,
    mask: str = "per_row",
    convention: str = "published",
) -> Figure:
    """Draw metrics of a few methods side by side, at each observation rate.

    Points are means over repetitions, bars one standard deviation either way. With LEML and
    DM2L-Lo, or DM2L-l and DM2L-Lo, these are the paper's figures on its local and global terms.

    Parameters
    ----------
    rows : iterable of mapping
        As :meth:`Store.rows` gives them; failures are left out.
    axes : sequence of matplotlib.axes.Axes, default=None
        One for each metric; None for a new figure.
    methods : sequence of str, default=None
        Which ones, from left to right; None for all.
    dataset : str, default=None
        Which one, if the rows have several.
    metrics : sequence of str
        By default the paper's four.
    mask : str, default="per_row"
        Kind of mask; rows of rate 1, which have none, always count.
    convention : {"published", "default"}, default="published"
        Of the metrics.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each metric.

    Examples
    --------
    >>> from dm2l_lab._figures import comparison_figure
    >>> cell = {"protocol": "p", "dataset": "Arts", "mask": "none", "rate": 1.0, "status": "done"}
    >>> rows = [
    ...     cell | {"method": m, "repetition": r, "metrics": {"published": {"coverage": 5.0 + r}}}
    ...     for m in ("LEML", "DM2L-Lo")
    ...     for r in range(3)
    ... ]
    >>> comparison_figure(rows, metrics=["coverage"]).axes[0].get_ylabel()
    'coverage, labels ↓'
    """
    found = _Results(rows, None if dataset is None else [dataset], methods, mask)
    frame = Frame(axes, len(metrics), columns=2, height=2.2)
    styles = series_styles(found.methods)
    step = min(0.22, 0.8 / len(styles))
    for ax, metric in zip(frame.panels, metrics, strict=True):
        for i, name in enumerate(styles):
            samples = found.by_rate(found.dataset(), name, metric, convention)
            if not samples:
                continue  # the metric is undefined for it
            places = np.array([found.rates.index(rate) for rate in samples])
            x = places + step * (i - (len(styles) - 1) / 2)
            mean, deviation = _spread(samples.values())
            look = styles[name] | {"linestyle": "none", "capsize": 3, "elinewidth": 1.2}
            ax.errorbar(x, mean, yerr=deviation, label=name, **look)
        ax.set_xticks(range(len(found.rates)), [f"{100 * rate:g}" for rate in found.rates])
        ax.set_xlim(-0.5, len(found.rates) - 0.5)
        ax.grid(visible=False, axis="x")
        frame.name(ax, RATE, measure_name(metric))
    return frame.finish(_repetitions(found.counts()))


def rate_figure(
    rows: Iterable[Row],
    metric: str,
    axes: Panels | None = None,
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    mask: str = "per_row",
    convention: str = "published",
) -> Figure:
    """Draw a metric of all methods against the observation rate, a panel for each data set.

    Lines join means over repetitions.

    Parameters
    ----------
    rows, methods, mask, convention
        As in :func:`comparison_figure`.
    metric : str
        One of :data:`dm2l_lab.METRICS`.
    axes : sequence of matplotlib.axes.Axes, default=None
        One for each data set; None for a new figure.
    datasets : sequence of str, default=None
        Which ones; None for all.

    Returns
    -------
    matplotlib.figure.Figure
        Panels under the names of their data sets.

    Examples
    --------
    >>> from dm2l_lab._figures import rate_figure
    >>> cell = {"protocol": "p", "dataset": "Arts", "repetition": 0, "status": "done"}
    >>> metrics = {"published": {"coverage": 5.0}}
    >>> rows = [
    ...     cell | {"method": "LEML", "rate": rate, "mask": "per_row", "metrics": metrics}
    ...     for rate in (0.3, 0.7)
    ... ]
    >>> rate_figure(rows, "coverage").axes[0].get_lines()[0].get_xdata()
    array([30., 70.])
    """
    found = _Results(rows, datasets, methods, mask)
    frame = Frame(axes, len(found.datasets), columns=3, height=2.0)
    styles = series_styles(found.methods)
    for ax, dataset in zip(frame.panels, found.datasets, strict=True):
        for name in found.methods:
            samples = found.by_rate(dataset, name, metric, convention)
            if not samples:
                continue  # not run on this data set
            x = 100 * np.array(list(samples))
            ax.plot(x, _spread(samples.values())[0], label=name, **styles[name])
        ax.set_xticks([100 * rate for rate in found.rates], [f"{100 * r:g}" for r in found.rates])
        ax.set_title(dataset, fontsize=FONT, loc="left")
        frame.name(ax, RATE, measure_name(metric), common="xy")
    return frame.finish(_repetitions(found.counts(), spread=False))


def time_figure(
    rows: Iterable[Row],
    axes: Panels | None = None,
    *,
    methods: Sequence[str] | None = None,
    dataset: str | None = None,
) -> Figure:
    """Draw how long methods take to fit: a dot at the median, a line from shortest to longest.

    All rates, masks and repetitions count, and the time of a search is that of the whole search.
    The fastest is on top. Methods of DM2L have filled dots; a device that is not the CPU stands
    behind the name of the method.

    Parameters
    ----------
    rows : iterable of mapping
        As :meth:`Store.rows` gives them; failures are left out.
    axes : sequence of one matplotlib.axes.Axes, default=None
        Where to draw; None for a new figure.
    methods : sequence of str, default=None
        Which ones; None for all.
    dataset : str, default=None
        Which one, if the rows have several.

    Returns
    -------
    matplotlib.figure.Figure
        One panel, the medians written beside it.

    Examples
    --------
    >>> from dm2l_lab._figures import time_figure
    >>> cell = {"protocol": "p", "dataset": "Arts", "mask": "none", "rate": 1.0, "status": "done"}
    >>> rows = [
    ...     cell | {"method": "LEML", "repetition": r, "seconds_fit": 2.0 + r, "device": "cpu"}
    ...     for r in range(3)
    ... ]
    >>> [text.get_text() for text in time_figure(rows).axes[0].texts]
    ['3 s']
    """
    found = _Results(rows, None if dataset is None else [dataset], methods, mask=None)
    found.dataset()
    seconds: dict[str, list[float]] = defaultdict(list)
    for row in found.rows:
        if row["seconds_fit"] is not None:
            on = "" if row["device"] in (None, "cpu") else f", {row['device']}"
            seconds[row["method"] + on].append(row["seconds_fit"])
    order = sorted(seconds, key=lambda name: float(np.median(seconds[name])))
    frame = Frame(axes, 1, columns=1, height=0.7 + 0.26 * len(order))
    (ax,) = frame.panels
    look: dict[str, Any] = {"color": COLOURS[0], "linewidth": 2.0}
    for i, name in enumerate(order):
        median = float(np.median(seconds[name]))
        ax.plot([min(seconds[name]), max(seconds[name])], [i, i], **look)
        filled = COLOURS[0] if name.startswith("DM2L") else "white"
        ax.plot([median], [i], marker="o", markersize=6, markerfacecolor=filled, **look)
        place = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": SMALL_FONT}
        ax.text(1.02, i, f"{rounded(median)} s", **place)
    log_axis(ax, "x")
    ax.set_yticks(range(len(order)), order)
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")
    frame.name(ax, "time to fit, seconds", None)
    return frame.figure


# -- studies ------------------------------------------------------------------------------------


def label_rank_figure(ranks: LabelRanks, axes: Panels | None = None) -> Figure:
    """Draw ranks, nuclear norms and singular values of a label matrix and of its groups.

    A dot is the group of a label. Bars are random rows, as many as the group has, from the least
    to the greatest of the draws: below them a label brings low rank of its own. The line across
    is the whole label matrix. Lines of singular values end at the rank.

    Parameters
    ----------
    ranks : LabelRanks
        From :func:`dm2l_lab.paper._studies.label_ranks`.
    axes : sequence of three matplotlib.axes.Axes, default=None
        Where to draw; None for a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        Three panels.

    Examples
    --------
    >>> from dm2l_lab._figures import label_rank_figure
    >>> from dm2l_lab.paper._studies import label_ranks
    >>> figure = label_rank_figure(label_ranks([[1, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 1]]))
    >>> [ax.get_ylabel() for ax in figure.axes]
    ['rank', 'nuclear norm', 'singular value / largest']
    """
    frame = Frame(axes, 3, columns=3, height=2.6)
    sizes = np.array([group.shape[0] for group in ranks.groups.values()])
    for ax, quantity in zip(frame.panels, ("rank", "nuclear_norm"), strict=False):
        whole = getattr(ranks.whole, quantity)
        label = f"all {ranks.whole.shape[0]:,} rows"
        ax.axhline(whole, color="black", linewidth=1.8, label=label)
        draws = [[getattr(s, quantity) for s in ranks.random[name]] for name in ranks.groups]
        if any(draws):
            middle, low, high = (np.array([f(d) for d in draws]) for f in (np.mean, min, max))
            look: dict[str, Any] = {"fmt": "_", "markersize": 7, "color": COLOURS[1]}
            reach = np.maximum([middle - low, high - middle], 0.0)  # rounding of the mean
            ax.errorbar(sizes, middle, yerr=reach, label="random rows, as many", **look)
        values = [getattr(group, quantity) for group in ranks.groups.values()]
        look = {"marker": "o", "markersize": 4, "linestyle": "none", "color": COLOURS[0]}
        ax.plot(sizes, values, label="rows of one label", **look)
        log_axis(ax, "x")
        frame.name(ax, "rows of the group", quantity.replace("_", " "))
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


def convergence_figure(study: Convergence, axes: Panels | None = None) -> Figure:
    """Draw how far solvers are from the lowest objective known, over iterations and seconds.

    Iterations of "cccp" and "published" are rounds. A point at the lowest objective itself has no
    place on the log axis.

    Parameters
    ----------
    study : Convergence
        From :func:`dm2l_lab.paper._studies.convergence`.
    axes : sequence of two matplotlib.axes.Axes, default=None
        Where to draw; None for a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        Two panels.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l_lab._figures import convergence_figure
    >>> from dm2l_lab.paper._studies import Convergence, Course
    >>> course = Course(np.array([4.0, 2.2, 2.02]), np.array([np.nan, 0.1, 0.2]))
    >>> figure = convergence_figure(Convergence({"lbfgs": course}, lowest=2.0))
    >>> figure.axes[0].get_lines()[0].get_ydata().round(3)
    array([1.  , 0.1 , 0.01])
    """
    frame = Frame(axes, 2, columns=2, height=2.8)
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
    axes: Panels | None = None,
    *,
    parameter: str = "lambda_d",
    at: Mapping[str, float] | None = None,
    metrics: Sequence[str] = METRICS,
) -> Figure:
    """Draw metrics over the values of a parameter, on a log axis.

    Lines are means over repetitions, bands one standard deviation either way. A value of 0 has no
    place on the axis: its mean is a thin dotted line across.

    Parameters
    ----------
    studies : mapping of str to Sensitivity
        By name of the model.
    axes : sequence of matplotlib.axes.Axes, default=None
        One for each metric; None for a new figure.
    parameter : {"lambda_d", "sigma"}, default="lambda_d"
        What varies; "sigma" in kernel models only.
    at : mapping of str to float, default=None
        By name of the model: value of the other parameter, where it has several.
    metrics : sequence of str
        By default the paper's four.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each metric.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l_lab._figures import sensitivity_figure
    >>> from dm2l_lab.paper._studies import Sensitivity
    >>> losses = np.array([[[0.20, 0.15, 0.18]], [[0.22, 0.17, 0.16]]])
    >>> study = Sensitivity(np.array([0.01, 0.1, 1.0]), None, {"ranking_loss": losses})
    >>> figure = sensitivity_figure({"linear": study}, metrics=["ranking_loss"])
    >>> figure.axes[0].get_lines()[0].get_ydata()
    array([0.21, 0.16, 0.17])
    """
    fixed = dict(at or {})
    frame = Frame(axes, len(metrics), columns=2, height=2.2)
    styles = series_styles(list(studies))
    counts = {len(table) for study in studies.values() for table in study.scores.values()}
    for ax, metric in zip(frame.panels, metrics, strict=True):
        for name, study in studies.items():
            values, table = study.along(parameter, metric, at=fixed.get(name))
            mean, deviation = _spread(column[np.isfinite(column)] for column in table.T)
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
    return frame.finish(_repetitions(counts) + dotted)
