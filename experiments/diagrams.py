"""The critical-difference diagram: average ranks on an axis, bars over what does not differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dm2l._utils import require
from experiments.ranks import check_ranks, indistinguishable_groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Heights in lines of text; the rank axis is at 0.
_RULER = 2.3
_TICK = 0.25
_FIRST_BAR = -0.6
_BAR_STEP = 0.5
_LABEL_STEP = 1.15
_LINE_SPACING = 1.5  # line height over font size
# Widths in inches.
_AXIS = 3.5  # at least, in a figure of our own
_STUB = 0.18  # from the ends of the axis to the names
_BAR_OVERHANG = 0.05
_BAR_GAP = 0.2  # between bars of one row: closer ones would read as one group
_SMALLEST_FONT = 5.0  # points


def critical_difference_diagram(
    ranks: Sequence[float] | NDArray[Any],
    cd: float,
    ax: Axes | None = None,
    *,
    names: Sequence[str],
    title: str | None = None,
    font_size: float = 9.0,
) -> Axes:
    """Draw average ranks, and bars over the methods that do not differ (Demšar, 2006).

    Without ``ax`` the figure is a new one, as large as the names need, which pyplot does not hold
    on to. In axes of the caller's, letters are smaller where the names would fill them.
    """
    sorted_ranks, order = check_ranks(ranks, cd)
    k = len(order)
    if k < 2 or sorted_ranks[0] < 1 or sorted_ranks[-1] > k:
        raise ValueError(
            f"ranks must be average ranks of two or more methods, all from 1 to {k}, got {ranks!r}."
        )
    if isinstance(names, str) or len(names) != k:
        raise ValueError(f"There are {k} ranks, but names is {names!r}: give one name per method.")

    # The better half is named at the left and the others at the right, the outermost on top, so
    # that no line crosses another. Ranks stand next to the lines, one below the other.
    n_left = (k + 1) // 2
    labels = [
        f"{names[m]}  {r:.2f}" if i < n_left else f"{r:.2f}  {names[m]}"
        for i, (m, r) in enumerate(zip(order, sorted_ranks, strict=True))
    ]
    left, right = (
        max(_text_inches(t, font_size) for t in half) for half in (labels[:n_left], labels[n_left:])
    )
    # The ruler starts at 1 and may be longer than the axis.
    right_end = max(float(k), 1 + cd)
    if ax is None:
        width = left + right + 2 * _STUB + max(_AXIS, 0.4 * (right_end - 1))
    else:
        width = _prepare(ax, title)
        # At least three tenths of the width belong to the axis.
        shrinking = 0.7 * (width - 2 * _STUB) / (left + right)
        shrinking = min(1.0, max(shrinking, _SMALLEST_FONT / font_size))
        font_size, left, right = font_size * shrinking, left * shrinking, right * shrinking
    inch = (right_end - 1) / max(width - 2 * _STUB - left - right, 0.1 * width)

    bars = _bars(sorted_ranks, cd, inch)
    n_rows = max((row + 1 for *_, row in bars), default=0)
    first_label = _FIRST_BAR - _BAR_STEP * n_rows - 0.6
    top, bottom = _RULER + 1.2, first_label - _LABEL_STEP * (n_left - 1) - 0.7
    if ax is None:
        ax = _new_axes(width, top - bottom, line=_LINE_SPACING * font_size / 72, title=title)
    if title:
        ax.title.set_fontsize(1.15 * font_size)
    edges = 1 - _STUB * inch, right_end + _STUB * inch
    ax.set_xlim(edges[0] - left * inch, edges[1] + right * inch)
    ax.set_ylim(bottom, top)
    _draw_axis(ax, k, font_size, inch)
    _draw_ruler(ax, cd, font_size)
    for i, (rank, label) in enumerate(zip(sorted_ranks, labels, strict=True)):
        at_left = i < n_left
        edge = edges[0] if at_left else edges[1]
        y = first_label - _LABEL_STEP * (i if at_left else k - 1 - i)
        ax.plot([rank, rank, edge], [0, y, y], color="black", linewidth=0.8, gid="method")
        ax.annotate(
            label,
            (edge, y),
            xytext=(-4 if at_left else 4, 0),
            textcoords="offset points",
            ha="right" if at_left else "left",
            va="center_baseline",
            fontsize=font_size,
        )
    for start, end, row in bars:
        y = _FIRST_BAR - _BAR_STEP * row
        (bar,) = ax.plot([start, end], [y, y], color="black", linewidth=3.5, gid="group")
        bar.set_solid_capstyle("butt")
    return ax


def _bars(ranks: NDArray[np.float64], cd: float, inch: float) -> list[tuple[float, float, int]]:
    """Start, end and row of each group's bar, for sorted ranks and the width of an inch in them."""
    bars: list[tuple[float, float, int]] = []
    # A bar reaches a little over its outermost methods, to be seen when their ranks are equal, but
    # never near the next method, which is not of the group.
    before, after = np.diff(ranks, prepend=-np.inf), np.diff(ranks, append=np.inf)
    for group in indistinguishable_groups(ranks, cd):
        first, last = group[0], group[-1]
        start = float(ranks[first] - min(_BAR_OVERHANG * inch, 0.3 * before[first]))
        end = float(ranks[last] + min(_BAR_OVERHANG * inch, 0.3 * after[last]))
        taken = {row for _, other, row in bars if other + _BAR_GAP * inch > start}
        bars.append((start, end, min(set(range(len(bars) + 1)) - taken)))
    return bars


def _text_inches(text: str, font_size: float) -> float:
    """Width of a text, whatever it will be drawn with, and the gap beside it."""
    path = require("matplotlib.textpath", "plot").TextPath((0, 0), text, size=font_size)
    # On a screen letters are set on whole pixels, up to a twentieth wider than their outlines.
    return float(1.07 * path.get_extents().width + 8) / 72


def _prepare(ax: Axes, title: str | None) -> float:
    """Clear the frame of the caller's axes and tell their width."""
    ax.set_axis_off()
    if title:
        ax.set_title(title)
    figure = ax.figure.figure  # of a subfigure, the whole
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()  # only then do the axes have their size
    return float(ax.bbox.width / figure.dpi)


def _new_axes(width: float, n_lines: float, line: float, title: str | None) -> Axes:
    from matplotlib.figure import Figure

    share = n_lines / (n_lines + 2) if title else 1.0
    figure = Figure(figsize=(width, n_lines * line / share), facecolor="white")
    ax = figure.add_axes((0.0, 0.0, 1.0, share))
    _prepare(ax, title)
    return ax


def _draw_axis(ax: Axes, k: int, font_size: float, inch: float) -> None:
    ax.plot([1, k], [0, 0], color="black", linewidth=1.2, gid="axis")
    # Numbers need about two letters each; where ranks lie closer, not every one is written.
    step = int(np.ceil(2 * font_size / 72 * inch))
    for rank in range(1, k + 1):
        ax.plot([rank, rank], [0, _TICK], color="black", linewidth=1.0)
        if (rank - 1) % step == 0:
            ax.text(rank, _TICK + 0.1, str(rank), ha="center", va="bottom", fontsize=font_size)


def _draw_ruler(ax: Axes, cd: float, font_size: float) -> None:
    ax.plot([1, 1 + cd], [_RULER, _RULER], color="black", linewidth=1.2, gid="ruler")
    for x in (1, 1 + cd):
        ax.plot([x, x], [_RULER - 0.2, _RULER + 0.2], color="black", linewidth=1.2)
    ax.text(1, _RULER + 0.3, f"CD = {cd:.3f}", ha="left", va="bottom", fontsize=font_size)
