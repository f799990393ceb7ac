"""Figures of the rows of a store.

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
    RATE,
    SMALL_FONT,
    Frame,
    Panels,
    log_axis,
    measure_name,
    rounded,
    series_styles,
)
from dm2l_lab._published import PAPER_METRICS as METRICS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "comparison_figure",
    "rate_figure",
    "time_figure",
]

Numbers = NDArray[np.float64]
Row = Mapping[str, Any]


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
            mean, deviation = spread(samples.values())
            look = styles[name] | {"linestyle": "none", "capsize": 3, "elinewidth": 1.2}
            ax.errorbar(x, mean, yerr=deviation, label=name, **look)
        ax.set_xticks(range(len(found.rates)), [f"{100 * rate:g}" for rate in found.rates])
        ax.set_xlim(-0.5, len(found.rates) - 0.5)
        ax.grid(visible=False, axis="x")
        frame.name(ax, RATE, measure_name(metric))
    return frame.finish(repetitions(found.counts()))


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
            ax.plot(x, spread(samples.values())[0], label=name, **styles[name])
        ax.set_xticks([100 * rate for rate in found.rates], [f"{100 * r:g}" for r in found.rates])
        ax.set_title(dataset, fontsize=FONT, loc="left")
        frame.name(ax, RATE, measure_name(metric), common="xy")
    return frame.finish(repetitions(found.counts(), spread=False))


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
