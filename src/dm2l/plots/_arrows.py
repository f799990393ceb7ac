"""Labels from left to right, and arrows between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dm2l.plots._canvas import Numbers, axes_or_new, shorten
from dm2l.plots.panels import SMALL_FONT, series_styles

Pairs = Sequence[tuple[int, int]]

_ROW_HEIGHT = 0.26  # inches of a label


def draw_arrows(
    ax: Any, pairs: Pairs, names: Sequence[str], base: Numbers
) -> tuple[Any, list[Any]]:
    """Draw an arrow for every pair, those to one label alike; return the axes and the arrows."""
    places = _layers(pairs, base)
    columns = max(x for x, _ in places.values())
    lowest = max(y for _, y in places.values())
    ax = axes_or_new(ax, 3.2 + 2.2 * columns, 1.2 + _ROW_HEIGHT * (lowest + 1))
    ax.set_axis_off()
    implied = sorted({k for _, k in pairs}, key=lambda k: places[k])
    styles = series_styles([names[k] for k in implied])
    arrows = []
    for j, k in pairs:
        look = {name: styles[names[k]][name] for name in ("color", "linestyle")}
        look |= {"arrowstyle": "-|>", "shrinkA": 3, "shrinkB": 5, "linewidth": 1.1}
        if places[k][0] - places[j][0] > 1:  # around what stands between
            look["connectionstyle"] = "arc3,rad=-0.15"
        arrows.append(ax.annotate("", xy=places[k], xytext=places[j], arrowprops=look))
    for label, (x, y) in places.items():
        style = styles.get(names[label], {"color": "black", "marker": "."})
        ax.plot(x, y, color=style["color"], marker=style["marker"], markersize=5)
        ax.annotate(
            shorten(names[label]),
            (x, y),
            xytext=(6 if x else -6, 0),
            textcoords="offset points",
            ha="left" if x else "right",
            va="center",
            fontsize=SMALL_FONT,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.8},
        )
    ax.set_xlim(-0.55, columns + 0.75)
    ax.set_ylim(lowest + 0.7, -0.7)
    return ax, arrows


def _layers(pairs: Sequence[tuple[int, int]], base: Numbers) -> dict[int, tuple[int, float]]:
    """Column and height of each label that has an arrow: arrows lead to the right.

    What is implied one way is the more frequent of two labels, but for holes: so labels are placed
    in the order of their frequency, each to the right of all that lead to it.
    """
    column: dict[int, int] = {}
    for label in sorted({label for pair in pairs for label in pair}, key=lambda k: base[k]):
        before = [column[j] for j, k in pairs if k == label and j in column]
        column[label] = max(before, default=-1) + 1
    layers = [
        [k for k in sorted(column) if column[k] == x] for x in range(len(set(column.values())))
    ]
    tallest = max(map(len, layers), default=1)
    places: dict[int, tuple[int, float]] = {}
    for x, layer in enumerate(layers):
        heights = {
            label: np.mean([places[j][1] for j, k in pairs if k == label and j in places])
            for label in layer
            if x
        }
        step = tallest / len(layer)
        for i, label in enumerate(sorted(layer, key=lambda k: heights.get(k, 0.0))):
            places[label] = (x, (i + 0.5) * step - 0.5)
    return places
