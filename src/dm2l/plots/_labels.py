"""Displays of missing labels, of the co-occurrence of labels and of their correlation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform

from dm2l._utils.arrays import to_numpy
from dm2l._utils.inputs import check_choice, check_count
from dm2l.labels._entries import Signs
from dm2l.labels._structure import Cooccurrence, Implication
from dm2l.plots._canvas import (
    COLOURS,
    FONT,
    LINE,
    SMALL_FONT,
    Display,
    Numbers,
    axes_above,
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

# Dark, medium and white, also when printed in grey.
YES, NO, MISSING = COLOURS[0], COLOURS[4], "#FFFFFF"
_MAP, _MARGIN, _GAP = 3.6, 0.8, 0.06  # heights in inches
_HATCH = {"facecolor": "white", "edgecolor": "#999999", "hatch": "////"}
_ROW_HEIGHT = 0.26  # inches per label where only arrows are drawn


@dataclass(eq=False, repr=False)
class MissingnessDisplay(Display):
    """Map of positive, negative and missing entries, with their shares per label above it.

    Rows with similar missing entries are drawn next to each other, the most complete rows on top.
    Labels that were observed together therefore show as blocks.

    Parameters
    ----------
    signs, rows : ndarray of shape (n_lines, n_labels) and (n_lines,)
        Lines of the map, with 1 for positive, -1 for negative and 0 for missing entries, and the
        row number of each line.
    share_positive, share_negative : ndarray of shape (n_labels,)
        Shares of positive and negative entries among all rows.
    n_rows, label_names : int, and sequence of str
        Number of rows of the data, and a name for each label.

    Attributes
    ----------
    image_, margin_ax_, bars_ : matplotlib AxesImage, Axes, and tuple of two BarContainer
        The map, the axes above it, and the bars for positive and negative shares.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.plots import MissingnessDisplay
    >>> Y = [[1, 0, np.nan], [0, np.nan, np.nan], [1, 1, 0], [0, 0, np.nan]]
    >>> MissingnessDisplay.from_labels(Y).rows
    array([2, 0, 3, 1])
    """

    signs: Signs
    _: KW_ONLY
    share_positive: Numbers
    share_negative: Numbers
    n_rows: int
    label_names: Sequence[str]
    rows: NDArray[np.intp] | None = None

    @classmethod
    def from_labels(
        cls,
        Y: Any,
        *,
        label_names: Sequence[str] | None = None,
        sort: Literal["pattern"] | None = "pattern",
        max_rows: int = 500,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the map of labels.

        By default, ``label_names`` are those of the data frame, or y0, y1, ... ``sort=None`` keeps
        the order of the rows. At most ``max_rows`` evenly spaced rows are drawn.
        """
        if sort not in ("pattern", None):
            raise ValueError(f"sort must be 'pattern' or None, got {sort!r}.")
        check_count("max_rows", max_rows)
        T, names = read_labels(Y, label_names)
        order = np.arange(len(T)) if sort is None else _order_by_pattern(T)
        if len(T) > max_rows:
            # The middle rows of max_rows equal parts.
            order = order[((np.arange(max_rows) + 0.5) * len(T) / max_rows).astype(np.intp)]
        return cls(
            T[order],
            share_positive=(T > 0).mean(axis=0),
            share_negative=(T < 0).mean(axis=0),
            n_rows=len(T),
            label_names=names,
            rows=order,
        ).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the map and the bars."""
        c = self.signs.shape[1]
        names = check_names(self.label_names, c)
        width = float(np.clip(1.2 + 1.6 * LINE * c, 3.6, 8.0))
        panel: Any = self._axes(ax, width, _MAP + _MARGIN + 1.5)
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        colours = ListedColormap([NO, MISSING, YES])
        look: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest"}
        self.image_ = panel.imshow(self.signs, cmap=colours, vmin=-1, vmax=1, **look)
        drawn = "" if len(self.signs) == self.n_rows else f"{len(self.signs):,} of "
        tidy(panel, "", f"{drawn}{self.n_rows:,} rows", grid=False)
        panel.set_yticks([])
        self.margin_ax_ = margin = axes_above(panel, _MARGIN, gap=_GAP, sharex=panel)
        few = c <= 60  # with more labels, gaps and edges would hide the bars
        thin = {"width": 0.9 if few else 1.0, "edgecolor": "#444444", "linewidth": 0.4 * few}
        yes, no = 100 * np.asarray(self.share_positive), 100 * np.asarray(self.share_negative)
        self.bars_ = (
            margin.bar(range(c), yes, color=YES, **thin),
            margin.bar(range(c), no, bottom=yes, color=NO, **thin),
        )
        tidy(margin, "", "% of\nrows")
        margin.grid(visible=False, axis="x")
        margin.set_ylim(0, 100)
        margin.set_yticks([0, 50, 100])
        margin.tick_params(labelbottom=False, bottom=False)
        patches = [
            Patch(facecolor=colour, edgecolor="#444444", linewidth=0.6)
            for colour in (YES, NO, MISSING)
        ]
        gap = 2 * _GAP + _MARGIN
        legend_above(panel, patches, ["yes", "no", "missing"], columns=3, gap=gap)
        panel.set_xlim(-0.5, c - 0.5)
        step = write_names(panel, names)
        if step > 1:
            panel.set_xlabel(f"{c} labels, one in {step} is named", fontsize=FONT)
        return self


def _order_by_pattern(T: Signs) -> NDArray[np.intp]:
    """Return an order of the rows by their missing entries, then by their labels."""
    seen = T != 0
    _, first, pattern = np.unique(seen, axis=0, return_index=True, return_inverse=True)
    # Equal patterns get the component of one row, as rounding may differ between equal rows.
    difference = _first_component(seen)[first][pattern]
    return np.lexsort([_first_component(T), pattern, difference])


def _first_component(matrix: NDArray[Any]) -> Numbers:
    """Return the first principal component of the rows, smallest where most entries are 1."""
    centred: Numbers = matrix - matrix.mean(axis=0)
    direction = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    component = centred @ direction
    return -component if component @ centred.sum(axis=1) > 0 else component


@dataclass(eq=False, repr=False)
class CooccurrenceDisplay(Display):
    r"""Co-occurrence of pairs of labels, and implications that hold in one direction only.

    .. math:: P(k \mid j) = \frac{\text{rows with both}}
        {\text{rows with } j \text{ in which } k \text{ was observed}}

    An arrow shows an implication that does not hold in the other direction, such as "a 4 is even".
    :func:`dm2l.tables.inspect_table` lists all implications.

    Parameters
    ----------
    probability, count : ndarray of shape (n_labels, n_labels)
        In row j and column k: P(k | j), and the number of rows with j in which k was observed.
    base : ndarray of shape (n_labels,)
        Share of positives among the observed entries of each label.
    label_names : sequence of str
        A name for each label.
    min_rows : int, default=10
        Pairs with fewer rows are not shown.
    min_probability, min_gain : float, default=0.9 and 0.2
        An arrow needs P(k | j) of at least ``min_probability`` and at least the base of k plus
        ``min_gain``, and P(j | k) below ``min_probability`` or unknown.

    Attributes
    ----------
    image_, colorbar_ : matplotlib AxesImage and Colorbar, or None
        The heat map; None if only arrows were drawn.
    arrows_ : list
        The arrows in the order of :meth:`one_way`: texts in the heat map, or annotations.

    Examples
    --------
    >>> from dm2l.datasets import load_digit_attributes
    >>> from dm2l.plots import CooccurrenceDisplay
    >>> Y = load_digit_attributes().target[:, [4, 10]]
    >>> display = CooccurrenceDisplay.from_labels(Y, label_names=["is 4", "even"])
    >>> [(arrow.label, arrow.implied) for arrow in display.one_way()]
    [('is 4', 'even')]
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
        """Draw the co-occurrence of the observed entries of two or more labels.

        By default, ``label_names`` are those of the data frame, or y0, y1, ... At most
        ``max_labels`` labels are drawn, those with the most positives. The other parameters are
        described in the constructor and in :meth:`plot`.
        """
        T, names = read_labels(Y, label_names)
        if T.shape[1] < 2 or max_labels < 2:
            raise ValueError(
                f"Co-occurrence needs two labels or more, got {T.shape[1]} and "
                f"max_labels={max_labels}."
            )
        frequent = np.sort(np.argsort(-(T > 0).sum(axis=0), kind="stable")[:max_labels])
        found = Cooccurrence.of(T[:, frequent])
        return cls(
            found.probability,
            count=found.count,
            base=found.base,
            label_names=[names[k] for k in frequent],
            min_rows=min_rows,
            min_probability=min_probability,
            min_gain=min_gain,
        ).plot(ax, kind=kind)

    def one_way(self) -> list[Implication]:
        """Return the implications that hold in one direction only, in the order of the labels."""
        return [self._found.implication(self.label_names, j, k) for j, k in self._pairs()]

    def __post_init__(self) -> None:
        self._found = Cooccurrence(self.probability, self.count, self.base)

    def _pairs(self) -> list[tuple[int, int]]:
        implied = self._found.implied(self.min_rows, self.min_probability, self.min_gain)
        with np.errstate(invalid="ignore"):  # a comparison with NaN is False
            reverse = self.min_probability <= self._found.told(self.min_rows).T
        return [(int(j), int(k)) for j, k in np.argwhere(implied & ~reverse)]

    def plot(
        self, ax: Axes | None = None, *, kind: Literal["heatmap", "arrows"] = "heatmap"
    ) -> Self:
        """Draw a heat map with arrows, or arrows between labels, where rare labels are left."""
        check_names(self.label_names, len(self.probability))
        check_choice("kind", kind, "heatmap", "arrows")
        (self._draw_map if kind == "heatmap" else self._draw_graph)(ax)
        return self

    def _draw_map(self, ax: Any) -> None:
        c = len(self.probability)
        side = float(np.clip(1.5 * LINE * c, 2.2, 6.5))
        ax = self._axes(ax, side + 2.6, side + 1.9)
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        ax.patch.set(**_HATCH)  # pairs that are not shown are hatched
        shown = 100 * self._found.told(self.min_rows)
        self.image_, self.colorbar_ = _heat_map(
            ax, shown, r"$P(k \mid j)$, %", cmap="Blues", vmin=0, vmax=100
        )
        tidy(ax, "… how many also have label $k$?", "of the rows with label $j$ …", grid=False)
        mark = {"marker": r"$\rightarrow$", "markersize": 9, "color": "black"}
        arrow = Line2D([], [], linestyle="none", **mark)
        few = f"fewer than {self.min_rows} rows, or the same label"
        words = ["$j$ implies $k$, $k$ does not imply $j$", few]
        legend_above(ax, [arrow, Patch(**_HATCH)], words, columns=1)
        write_names(ax, self.label_names, "xy")
        cell = 72 * ax.get_window_extent().height / ax.get_figure(root=True).dpi / c  # points
        look = {"color": "white", "fontsize": min(FONT, 0.7 * cell), "ha": "center"}
        self.arrows_ = [ax.text(k, j, "→", va="center", **look) for j, k in self._pairs()]

    def _draw_graph(self, ax: Any) -> None:
        self.image_ = self.colorbar_ = None
        pairs, names, self.arrows_ = self._pairs(), self.label_names, []
        if not pairs:
            ax = self._axes(ax, height=1.2)
            share = f"{100 * self.min_probability:g} % or more of {self.min_rows} rows or more"
            words = f"No label implies another one in one direction ({share})."
            centred = {"ha": "center", "va": "center", "fontsize": FONT}
            ax.text(0.5, 0.5, words, transform=ax.transAxes, **centred)
            ax.set_axis_off()
            return
        places = _layers(pairs, np.asarray(self.base))
        columns, lowest = (max(place[i] for place in places.values()) for i in (0, 1))
        ax = self._axes(ax, 3.2 + 2.2 * columns, 1.2 + _ROW_HEIGHT * (lowest + 1))
        # Arrows to the same label look alike.
        implied = sorted({k for _, k in pairs}, key=lambda k: places[k])
        styles = series_styles([names[k] for k in implied])
        for j, k in pairs:
            look = {name: styles[names[k]][name] for name in ("color", "linestyle")}
            look |= {"arrowstyle": "-|>", "shrinkA": 3, "shrinkB": 5, "linewidth": 1.1}
            if places[k][0] - places[j][0] > 1:  # the arrow must bend around the labels in between
                look["connectionstyle"] = "arc3,rad=-0.15"
            self.arrows_.append(ax.annotate("", places[k], places[j], arrowprops=look))
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
        ax.set_axis_off()
        ax.set_xlim(-0.55, columns + 0.75)
        ax.set_ylim(lowest + 0.7, -0.7)
        words = f"{100 * self.min_probability:g} % or more of the rows with A"
        ax.set_title(f"A → B: {words} have B,\nbut not the other way round", fontsize=FONT)


def _heat_map(ax: Any, picture: Any, unit: str, **look: Any) -> tuple[Any, Any]:
    """Draw a matrix with a colour bar and return both."""
    image = ax.imshow(picture, interpolation="nearest", **look)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.7)
    bar.set_label(unit, fontsize=FONT)
    bar.ax.tick_params(labelsize=SMALL_FONT)
    return image, bar


def _layers(pairs: Sequence[tuple[int, int]], base: Numbers) -> dict[int, tuple[int, float]]:
    """Return the column and the height of each label with an arrow; arrows lead to the right."""
    # An implied label is usually the more frequent one. In the order of frequency, each label is
    # placed to the right of all labels that imply it, near their mean height.
    column: dict[int, int] = {}
    for label in sorted({label for pair in pairs for label in pair}, key=lambda k: base[k]):
        before = [column[j] for j, k in pairs if k == label and j in column]
        column[label] = max(before, default=-1) + 1
    tallest = max(Counter(column.values()).values())
    places: dict[int, tuple[int, float]] = {}

    def height(label: int) -> float:
        known = [places[j][1] for j, k in pairs if k == label and j in places]
        return float(np.mean(known)) if known else 0.0

    for x in sorted(set(column.values())):
        layer = sorted(sorted(label for label in column if column[label] == x), key=height)
        for i, label in enumerate(layer):
            places[label] = (x, (i + 0.5) * tallest / len(layer) - 0.5)
    return places


@dataclass(eq=False, repr=False)
class CouplingDisplay(Display):
    r"""Heat map of the label correlation, which is the correlation of the residuals of labels.

    .. math:: r_{jk} = S_{jk} / \sqrt{S_{jj} S_{kk}}

    Here, :math:`S` is the covariance of the residuals (``label_covariance_``). Correlated labels
    are drawn next to each other.

    Parameters
    ----------
    correlation, label_names : ndarray of shape (n_labels, n_labels), and sequence of str
        The correlations, and a name for each label.

    Attributes
    ----------
    image_, colorbar_, order_ : matplotlib AxesImage and Colorbar, and ndarray of int
        The heat map, and the positions of the labels in the order in which they were drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.plots import CouplingDisplay
    >>> correlation = np.array([[1, 0, -0.6], [0, 1, 0.1], [-0.6, 0.1, 1]])
    >>> CouplingDisplay(correlation, label_names=["a", "b", "c"]).strongest(1)
    [('a', 'c', -0.6)]
    """

    correlation: Numbers
    _: KW_ONLY
    label_names: Sequence[str]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        label_names: Sequence[str] | None = None,
        max_labels: int = 200,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the label correlation of an estimator that was fitted with ``coupling``.

        By default, ``label_names`` are those of the training labels. At most ``max_labels`` labels
        are drawn, those with the strongest correlations.
        """
        S = to_numpy(estimator.label_covariance_.matrix())
        if len(S) < 2 or max_labels < 2:
            raise ValueError(
                f"Coupling needs two labels or more, got {len(S)} and max_labels={max_labels}."
            )
        spread = np.sqrt(np.diag(S))
        correlation = np.clip(S / (spread[:, None] * spread), -1.0, 1.0)
        strength = np.abs(correlation - np.diag(np.diag(correlation))).max(axis=1)
        kept = np.sort(np.argsort(-strength, kind="stable")[:max_labels])
        names = check_names(estimator.label_names_ if label_names is None else label_names, len(S))
        chosen = [names[k] for k in kept]
        return cls(correlation[np.ix_(kept, kept)], label_names=chosen).plot(ax)

    def strongest(self, top: int = 10) -> list[tuple[str, str, float]]:
        """Return the ``top`` pairs of labels with the strongest correlations."""
        rows, columns = np.triu_indices(len(self.correlation), 1)
        values = self.correlation[rows, columns]
        order = np.argsort(-np.abs(values), kind="stable")[:top]
        names = self.label_names
        return [(names[rows[i]], names[columns[i]], float(values[i])) for i in order]

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the heat map."""
        names = check_names(self.label_names, len(self.correlation))
        self.order_ = _together(np.asarray(self.correlation))
        side = float(np.clip(1.5 * LINE * len(names), 2.2, 9.0))
        panel: Any = self._axes(ax, side + 2.6, side + 1.6)
        picture = np.array(self.correlation, dtype=np.float64)[np.ix_(self.order_, self.order_)]
        np.fill_diagonal(picture, np.nan)  # its ones would dominate the colours
        # The scale is symmetric, so that white means uncorrelated.
        top = max(float(np.nanmax(np.abs(picture))), 0.05)
        panel.patch.set_facecolor("#bbbbbb")
        picture = np.ma.masked_invalid(picture)
        self.image_, self.colorbar_ = _heat_map(
            panel, picture, "correlation of residuals", cmap="RdBu_r", vmin=-top, vmax=top
        )
        tidy(panel, "", "", grid=False)
        write_names(panel, [names[k] for k in self.order_], "xy")
        return self


def _together(correlation: Numbers) -> Any:
    """Return an order of labels in which correlated labels are neighbours."""
    if len(correlation) < 3:
        return np.arange(len(correlation))
    far = 1 - (correlation + correlation.T) / 2
    np.fill_diagonal(far, 0.0)
    distances = squareform(np.maximum(far, 0.0), checks=False)
    return leaves_list(optimal_leaf_ordering(linkage(distances, "average"), distances))
