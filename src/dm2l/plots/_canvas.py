"""Base class of the displays, and helpers for axes, legends and label names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dm2l._utils import require
from dm2l.labels._entries import Signs
from dm2l.labels._matrix import parse_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Ax: TypeAlias = "Axes | None"  # axes to draw into; None creates new axes
Names = Sequence[str] | None
Numbers = NDArray[np.float64]

WIDTH = 7.0  # inches: the column of a web page
FONT, SMALL_FONT = 9.0, 8.0  # points

# Any two colours have a CIELAB distance of at least 20, also with colour blindness. In greyscale,
# the first four colours are dark, light, medium and black.
COLOURS = ("#00518A", "#DB9400", "#C8442A", "#000000", "#56B4E9", "#0B8A63", "#B86FA0")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "<", ">", "h")
LINES = ("-", "--", (0, (5, 1, 1, 1)), (0, (1, 1)), (0, (7, 1.5, 2, 1.5)))

# Names of metrics; an arrow shows whether higher or lower values are better.
METRIC_NAMES = {
    "ranking_loss": "ranking loss ↓",
    "instance_auc": "AUC per instance ↑",
    "label_auc": "AUC per label ↑",
    "coverage_error": "coverage error, labels ↓",
    "label_ranking_average_precision": "label ranking average precision ↑",
    "one_error": "one-error ↓",
    "hamming_loss": "Hamming loss ↓",
}

LINE = 1.3 * SMALL_FONT / 72  # height of a line of small text in inches
_LONGEST_NAME = 28  # characters


class Display:
    """Base class of all displays; drawing sets the attributes ``ax_`` and ``figure_``."""

    ax_: Axes
    figure_: Any

    def _axes(self, ax: Ax, width: float = 0.7 * WIDTH, height: float = 3.4) -> Any:
        """Return ``ax``, or the axes of a new pyplot figure whose size is given in inches."""
        if ax is None:
            plt = require("matplotlib.pyplot", "plot")
            size = {"figsize": (width, height), "layout": "constrained"}
            ax = plt.subplots(facecolor="white", **size)[1]
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def tidy(ax: Any, x: str, y: str, *, grid: bool = True) -> None:
    """Set the names of both axes, and replace the frame by a grid of thin lines."""
    ax.set_xlabel(x, fontsize=FONT)
    ax.set_ylabel(y, fontsize=FONT)
    ax.tick_params(labelsize=SMALL_FONT)
    if grid:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#dddddd", linewidth=0.6)
        ax.set_axisbelow(True)


def write_names(ax: Any, names: Sequence[str], axes: str = "x") -> int:
    """Label the positions 0, 1, ... with every n-th name so that the names fit; return n."""
    step = 1
    for _ in range(2):  # twice, because long names shrink the axes, where fewer names then fit
        extent = ax.get_window_extent()
        sides = {"x": extent.width, "y": extent.height}
        inches = min(sides[axis] for axis in axes) / ax.get_figure(root=True).dpi
        step = max(1, math.ceil(len(names) * LINE / inches))
        for axis in axes:
            ticks = getattr(ax, f"{axis}axis")
            ticks.set_ticks(range(0, len(names), step), [shorten(name) for name in names[::step]])
            ticks.set_tick_params(length=0 if step == 1 else 3, labelsize=SMALL_FONT)
        ax.tick_params(axis="x", labelrotation=90)
        if ax.get_figure(root=True).get_layout_engine() is None:
            break
        ax.get_figure(root=True).draw_without_rendering()
    return step


def shorten(name: str) -> str:
    """Return a name, truncated if it is too long for a figure."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def legend(ax: Any, *args: Any, **options: Any) -> Any:
    """Draw a legend in the style of all displays."""
    look = {"frameon": False, "fontsize": SMALL_FONT, "title_fontsize": SMALL_FONT}
    return ax.legend(*args, **(look | {"alignment": "left"} | options))


def axes_above(ax: Any, height: float, *, gap: float = 0.0, **options: Any) -> Any:
    """Return new axes of the same width, ``gap`` inches above ``ax`` and ``height`` inches high."""
    # The new axes are children of ``ax``, so that a title of ``ax`` is drawn above them.
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    inches = ax.get_figure(root=True).dpi_scale_trans
    upward = inches + ScaledTranslation(0, 1, ax.transAxes)
    place = blended_transform_factory(ax.transAxes, upward)
    return ax.inset_axes((0.0, gap, 1.0, height), transform=place, **options)


def legend_above(ax: Any, handles: Any, names: Any, *, columns: int, gap: float = 0.0) -> Any:
    """Draw a legend ``gap`` inches above the axes, so that it does not cover any data."""
    height = 1.15 * LINE * math.ceil(len(names) / columns) + 0.06
    holder = axes_above(ax, height, gap=gap)
    holder.set_axis_off()
    tight = {"loc": "lower left", "borderaxespad": 0.0, "borderpad": 0.2, "columnspacing": 1.2}
    return legend(holder, handles, names, ncols=columns, **tight)


def heat_map(ax: Any, picture: Any, unit: str, **look: Any) -> tuple[Any, Any]:
    """Draw a matrix with a colour bar and return both."""
    image = ax.imshow(picture, interpolation="nearest", **look)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.7)
    bar.set_label(unit, fontsize=FONT)
    bar.ax.tick_params(labelsize=SMALL_FONT)
    return image, bar


def marks_of(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator that say which labels are missing."""
    usual = {"missing_label": np.nan, "missing_as": None}
    return {name: getattr(estimator, name, mark) for name, mark in usual.items()}


def read_labels(Y: Any, label_names: Names) -> tuple[Signs, list[str]]:
    """Return labels as 1, -1 and 0 (missing), and the names of their columns."""
    labels = parse_labels(Y)
    names: Any = labels.names if label_names is None else label_names
    if label_names is None and labels.classes is not None:
        names = labels.classes if labels.n_labels > 1 else labels.classes[-1:]
    if names is None:
        names = [f"y{k}" for k in range(labels.n_labels)]
    return labels.signs, check_names(names, labels.n_labels)


def check_names(names: Any, n: int) -> list[str]:
    """Return the names of ``n`` labels as text, after checking that they are distinct."""
    texts = [names] if isinstance(names, str) else [str(name) for name in names]
    if len(texts) != n:
        raise ValueError(f"label_names has {len(texts)} names, but there are {n} labels.")
    twice = next((name for i, name in enumerate(texts) if name in texts[:i]), None)
    if twice is not None:
        raise ValueError(f"label_names has {twice!r} more than once; label names must be distinct.")
    return texts


def series_styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return ``Axes.plot`` options for each series; markers are open if a colour is repeated."""
    styles = {}
    for i, name in enumerate(names):
        turn, place = divmod(i, len(COLOURS))
        styles[name] = {
            "color": COLOURS[place],
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": LINES[i % len(LINES)],
            "markerfacecolor": "white" if turn % 2 else COLOURS[place],
            "markersize": 5.5,
            "linewidth": 1.4,
        }
    return styles
