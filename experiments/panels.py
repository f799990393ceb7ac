"""Panels of figures: axes with one common legend, names and logarithmic scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import ticker
from matplotlib.figure import Figure

from dm2l.plots._canvas import FONT, METRIC_NAMES, SMALL_FONT, WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Panels = Sequence["Axes"]

PARAMETERS = {"lambda_d": r"$\lambda_d$", "sigma": r"kernel width $\sigma$, unit of the features"}
RATE = "observation rate, %"
# Stored results keep the short names of the paper's measures.
_STORED_NAMES = {"coverage": "coverage, labels ↓", "average_precision": "average precision ↑"}


class Frame:
    """The panels of a figure: the caller's, or those of a new figure with one legend on top."""

    def __init__(self, axes: Panels | None, n: int, *, columns: int, height: float) -> None:
        if not n:
            raise ValueError("There is nothing to draw: metrics must name at least one.")
        self._own = axes is None
        self.panels: list[Any]
        if axes is None:
            # Where there could be several panels, one alone needs but a part of the page.
            width = 0.65 * WIDTH if n == 1 < columns else WIDTH
            columns = min(columns, n)
            n_rows = -(-n // columns)
            self.figure = new_figure(width, height * n_rows)
            grid = self.figure.subplots(n_rows, columns, squeeze=False).ravel()
            for ax in grid[n:]:
                ax.remove()
            self.panels = list(grid[:n])
            # The name of a common x axis is wanted under the lowest panel of each column only.
            self.lowest = self.panels[-columns:]
            self.first = self.panels[::columns]
        else:
            self.panels = self.lowest = self.first = list(axes)
            if len(self.panels) != n:
                raise ValueError(f"axes must be {n} panels, got {len(self.panels)}.")
            self.figure = self.panels[0].figure
        for ax in self.panels:
            ax.spines[["top", "right"]].set_visible(False)
            ax.tick_params(labelsize=SMALL_FONT)
            ax.grid(color="#dddddd", linewidth=0.6)
            ax.set_axisbelow(True)

    def name(self, ax: Axes, x: str | None, y: str | None, *, common: str = "x") -> None:
        """Name the axes, common ones at the edge only."""
        if x and ("x" not in common or ax in self.lowest):
            ax.set_xlabel(x, fontsize=FONT)
        if y and ("y" not in common or ax in self.first):
            ax.set_ylabel(y, fontsize=FONT)

    def finish(self, title: str | None = None) -> Figure:
        """Add a legend: above the panels of our own figure, else in the first panel."""
        series: dict[str, Any] = {}
        for ax in self.panels:
            for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
                series.setdefault(label, handle)
        where, options = self.panels[0], {}
        if self._own:
            # Inches of the longest name, its line and the gap after it.
            longest = 0.65 + SMALL_FONT / 72 * 0.58 * max(map(len, series))
            columns = max(1, int(self.figure.get_figwidth() / longest))
            lines = -(-len(series) // columns) + (title is not None)
            self.figure.set_figheight(self.figure.get_figheight() + 0.18 * lines)
            where, options = self.figure, {"loc": "outside upper left", "ncols": columns}
        where.legend(
            series.values(),
            series.keys(),
            title=title,
            alignment="left",
            frameon=False,
            fontsize=SMALL_FONT,
            title_fontsize=SMALL_FONT,
            **options,
        )
        return self.figure


def new_figure(width: float, height: float) -> Any:
    """A figure without pyplot, of a size in inches."""
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def log_axis(ax: Axes, name: str) -> None:
    """Make an axis logarithmic; on less than a decade, with fewer ticks than matplotlib's."""
    ax.set(**{f"{name}scale": "log"})
    axis = getattr(ax, f"{name}axis")
    low, high = axis.get_view_interval()
    decades = np.log10(high / low)
    if decades < 2:
        few = ticker.LogLocator(subs=(1, 2, 5) if decades < 1.2 else (1, 3), numticks=20)
        axis.set_major_locator(few if decades > 0.8 else ticker.MaxNLocator(4))
        axis.set_minor_locator(ticker.NullLocator())
    if low >= 1e-4 and high < 1e6:
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: rounded(value)))


def measure_name(metric: str) -> str:
    """Name of a metric on an axis."""
    return (METRIC_NAMES | _STORED_NAMES).get(metric, metric.replace("_", " "))


def rounded(value: float) -> str:
    """Two digits, or all of those before the point."""
    return (
        f"{value:,.0f}"
        if value >= 10
        else np.format_float_positional(float(f"{value:.2g}"), trim="-")
    )
