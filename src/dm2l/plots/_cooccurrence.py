"""Co-occurrence of labels, and one-way implications."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dm2l.labels._structure import Cooccurrence, Implication
from dm2l.plots._canvas import (
    FONT,
    LINE,
    SMALL_FONT,
    Display,
    Numbers,
    check_names,
    legend_above,
    read_labels,
    series_styles,
    shorten,
    tidy,
    write_names,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HATCH = "#999999"
_ROW_HEIGHT = 0.26  # inches of a label in the drawing of arrows


@dataclass(eq=False, repr=False)
class CooccurrenceDisplay(Display):
    r"""How often label k comes with label j, and where that holds one way only.

    .. math:: P(k \mid j) = \frac{\text{rows with both}}
        {\text{rows with } j \text{ in which } k \text{ was observed}}

    Only rows in which both labels were observed count. An arrow is an implication, as
    :func:`dm2l.tables.inspect_table` lists them, that does not hold the other way round, such as
    digit 4 => even. The local terms of DM2L exploit such structure.

    Parameters
    ----------
    probability : ndarray of shape (n_labels, n_labels)
        Row j, column k: P(k | j); nan without such rows.
    count : ndarray of shape (n_labels, n_labels)
        Rows with j in which k was observed.
    base : ndarray of shape (n_labels,)
        Share of positives among the observed entries of each label; nan where there are none.
    label_names : sequence of str
        One per label.
    min_rows : int, default=10
        Pairs with fewer rows are not shown.
    min_probability, min_gain : float, default=0.9 and 0.2
        An arrow needs P(k | j) of at least ``min_probability`` and of the base plus ``min_gain``,
        and P(j | k) below ``min_probability`` or unknown.

    Attributes
    ----------
    image_, colorbar_ : matplotlib AxesImage and Colorbar, or None
        The heat map; None where arrows alone were drawn.
    arrows_ : list
        An arrow for each of :meth:`one_way`: texts in the heat map, or annotations.

    Examples
    --------
    >>> from dm2l.datasets import load_digit_attributes
    >>> from dm2l.plots import CooccurrenceDisplay
    >>> digits = load_digit_attributes()
    >>> display = CooccurrenceDisplay.from_labels(
    ...     digits.target[:, [4, 7, 10, 11]], label_names=["is 4", "is 7", "even", "prime"]
    ... )
    >>> [(arrow.label, arrow.implied) for arrow in display.one_way()]
    [('is 4', 'even'), ('is 7', 'prime')]
    """

    probability: Numbers
    _: KW_ONLY
    count: NDArray[np.int64]
    base: Numbers
    label_names: Sequence[str]
    min_rows: int = 10
    min_probability: float = 0.9
    min_gain: float = 0.2

    @classmethod
    def from_labels(
        cls,
        Y: Any,
        *,
        label_names: Sequence[str] | None = None,
        min_rows: int = 10,
        min_probability: float = 0.9,
        min_gain: float = 0.2,
        max_labels: int = 40,
        kind: Literal["heatmap", "arrows"] = "heatmap",
        ax: Axes | None = None,
    ) -> Self:
        """Draw the co-occurrence of the observed entries of labels.

        Parameters
        ----------
        Y : array-like, data frame or LabelMatrix of shape (n_rows, n_labels)
            Two labels or more.
        label_names : sequence of str, default=None
            None: those of the data frame, or y0, y1, ...
        min_rows, min_probability, min_gain
            As in the constructor.
        max_labels : int, default=40
            Of more labels those with the most observed positives are drawn, in their order.
        kind
            As in :meth:`plot`.
        """
        T, names = read_labels(Y, label_names)
        if T.shape[1] < 2 or max_labels < 2:
            raise ValueError(
                f"Co-occurrence needs two labels or more, got {T.shape[1]} and "
                f"max_labels={max_labels}."
            )
        frequent = np.sort(np.argsort(-(T > 0).sum(axis=0), kind="stable")[:max_labels])
        found = Cooccurrence.of(T[:, frequent])
        display = cls(
            found.probability,
            count=found.count,
            base=found.base,
            label_names=[names[k] for k in frequent],
            min_rows=min_rows,
            min_probability=min_probability,
            min_gain=min_gain,
        )
        return display.plot(ax, kind=kind)

    def one_way(self) -> list[Implication]:
        """Implications that do not hold the other way round, in the order of the labels."""
        found = self._found()
        return [found.implication(self.label_names, j, k) for j, k in self._pairs()]

    def _found(self) -> Cooccurrence:
        return Cooccurrence(self.probability, self.count, self.base)

    def _pairs(self) -> list[tuple[int, int]]:
        found = self._found()
        implied = found.implied(self.min_rows, self.min_probability, self.min_gain)
        with np.errstate(invalid="ignore"):  # nan is neither
            sure_back = self.min_probability <= found.told(self.min_rows).T
        return [(int(j), int(k)) for j, k in np.argwhere(implied & ~sure_back)]

    def plot(
        self, ax: Axes | None = None, *, kind: Literal["heatmap", "arrows"] = "heatmap"
    ) -> Self:
        """Draw a heat map with arrows in it, or labels with arrows between them.

        Parameters
        ----------
        kind : {"heatmap", "arrows"}, default="heatmap"
            A cell for every pair, with an arrow in those that hold one way; or, from left to
            right, the labels that have arrows, rare ones first.
        """
        check_names(self.label_names, len(self.probability))
        if kind not in ("heatmap", "arrows"):
            raise ValueError(f"kind must be 'heatmap' or 'arrows', got {kind!r}.")
        if kind == "heatmap":
            self._draw_map(ax)
        else:
            self._draw_graph(ax)
        return self

    def _draw_map(self, ax: Any) -> None:
        c = len(self.probability)
        side = float(np.clip(1.5 * LINE * c, 2.2, 6.5))
        ax = self._axes(ax, side + 2.6, side + 1.9)
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        # Pairs that are not shown are hatched, to be told apart in grey too.
        ax.patch.set(facecolor="white", edgecolor=_HATCH, hatch="////")
        look: dict[str, Any] = {"cmap": "Blues", "interpolation": "nearest"}
        self.image_ = ax.imshow(100 * self._found().told(self.min_rows), vmin=0, vmax=100, **look)
        tidy(ax, "… how many also have label $k$?", "of the rows with label $j$ …", grid=False)
        self.colorbar_ = ax.figure.colorbar(self.image_, ax=ax, shrink=0.7)
        self.colorbar_.set_label(r"$P(k \mid j)$, %", size=FONT)
        self.colorbar_.ax.tick_params(labelsize=SMALL_FONT)
        arrow = Line2D(
            [], [], marker=r"$\rightarrow$", markersize=9, linestyle="none", color="black"
        )
        untold = Patch(facecolor="white", edgecolor=_HATCH, hatch="////")
        few = f"fewer than {self.min_rows} rows, or the same label"
        legend_above(
            ax, [arrow, untold], ["$j$ implies $k$, $k$ does not imply $j$", few], columns=1
        )
        write_names(ax, self.label_names, "xy")
        cell = 72 * ax.get_window_extent().height / ax.get_figure(root=True).dpi / c  # points
        look = {"color": "white", "fontsize": min(FONT, 0.7 * cell), "ha": "center"}
        self.arrows_ = [ax.text(k, j, "→", va="center", **look) for j, k in self._pairs()]

    def _draw_graph(self, ax: Any) -> None:
        self.image_ = self.colorbar_ = None
        arrows = self._pairs()
        if arrows:
            places = _layers(arrows, np.asarray(self.base))
            columns, lowest = (max(place[i] for place in places.values()) for i in (0, 1))
            ax = self._axes(ax, 3.2 + 2.2 * columns, 1.2 + _ROW_HEIGHT * (lowest + 1))
            self.arrows_ = _draw_arrows(ax, arrows, self.label_names, places)
            ax.set_xlim(-0.55, columns + 0.75)
            ax.set_ylim(lowest + 0.7, -0.7)
            words = f"{100 * self.min_probability:g} % or more of the rows with A"
            ax.set_title(f"A → B: {words} have B,\nbut not the other way round", fontsize=FONT)
            return
        ax, self.arrows_ = self._axes(ax, height=1.2), []
        ax.set_axis_off()
        words = f"No label implies another one way ({100 * self.min_probability:g} % or more"
        words = f"{words} of {self.min_rows} rows or more)."
        ax.text(0.5, 0.5, words, ha="center", va="center", fontsize=FONT, transform=ax.transAxes)


def _draw_arrows(
    ax: Any,
    pairs: Sequence[tuple[int, int]],
    names: Sequence[str],
    places: dict[int, tuple[int, float]],
) -> list[Any]:
    """Draw the labels and an arrow for every pair; arrows to one label look alike."""
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
    return arrows


def _layers(pairs: Sequence[tuple[int, int]], base: Numbers) -> dict[int, tuple[int, float]]:
    """Column and height of each label that has an arrow: arrows lead to the right.

    But for missing labels, the implied label is the more frequent one. So labels are placed in the
    order of their frequency, each to the right of all that lead to it.
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
