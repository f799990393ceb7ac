"""Displays of missing labels, label co-occurrence and singular values."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dm2l._utils.arrays import to_numpy
from dm2l._utils.inputs import check_choice, check_counts
from dm2l.labels import LabelMatrix
from dm2l.labels._entries import Signs
from dm2l.labels._matrix import parse_labels
from dm2l.labels._structure import Cooccurrence, Implication, Spectrum
from dm2l.metrics._reading import check_scores
from dm2l.plots import _canvas as canvas
from dm2l.plots._canvas import Ax, Display, Names, Numbers

# These colours stay distinct in greyscale: dark, medium and white.
YES, NO, MISSING = canvas.COLOURS[0], canvas.COLOURS[4], "#FFFFFF"
_MAP, _MARGIN, _GAP = 3.6, 0.8, 0.06  # heights in inches
_HATCH = {"facecolor": "white", "edgecolor": "#999999", "hatch": "////"}


@dataclass(eq=False, repr=False)
class MissingnessDisplay(Display):
    """Map of positive, negative and missing entries, below a bar chart of their shares per label.

    Rows with similar missing entries are drawn next to each other, with the most complete rows on
    top. Labels that were observed together therefore appear as blocks.

    Parameters
    ----------
    signs, rows : ndarray of shape (n_lines, n_labels) and (n_lines,)
        Lines of the map (1 for positive, -1 for negative and 0 for missing entries), and the number
        of the row that each line shows.
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
        label_names: Names = None,
        sort: Literal["pattern"] | None = "pattern",
        max_rows: int = 500,
        ax: Ax = None,
    ) -> Self:
        """Draw the map of labels.

        By default, ``label_names`` are the columns of the data frame, or y0, y1, ... ``sort=None``
        keeps the order of the rows. With more than ``max_rows`` rows, evenly spaced rows are drawn.
        """
        check_choice("sort", sort, None, "pattern")
        check_counts(max_rows=max_rows)
        T, names = canvas.read_labels(Y, label_names)
        order = np.arange(len(T)) if sort is None else _order_by_pattern(T)
        if len(T) > max_rows:
            # Split the rows into max_rows equal parts, and draw the middle row of each part.
            order = order[((np.arange(max_rows) + 0.5) * len(T) / max_rows).astype(np.intp)]
        return cls(
            T[order],
            share_positive=(T > 0).mean(axis=0),
            share_negative=(T < 0).mean(axis=0),
            n_rows=len(T),
            label_names=names,
            rows=order,
        ).plot(ax)

    def plot(self, ax: Ax = None) -> Self:
        """Draw the map and the bars."""
        c = self.signs.shape[1]
        names = canvas.check_names(self.label_names, c)
        width = float(np.clip(1.2 + 1.6 * canvas.LINE * c, 3.6, 8.0))
        panel: Any = self._axes(ax, width, _MAP + _MARGIN + 1.5)
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        colours = ListedColormap([NO, MISSING, YES])
        look: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest"}
        self.image_ = panel.imshow(self.signs, cmap=colours, vmin=-1, vmax=1, **look)
        drawn = "" if len(self.signs) == self.n_rows else f"{len(self.signs):,} of "
        canvas.tidy(panel, "", f"{drawn}{self.n_rows:,} rows", grid=False)
        panel.set_yticks([])
        self.margin_ax_ = margin = canvas.axes_above(panel, _MARGIN, gap=_GAP, sharex=panel)
        few = c <= 60  # with more labels, gaps and edges would hide the bars
        thin = {"width": 0.9 if few else 1.0, "edgecolor": "#444444", "linewidth": 0.4 * few}
        yes, no = 100 * np.asarray(self.share_positive), 100 * np.asarray(self.share_negative)
        self.bars_ = (
            margin.bar(range(c), yes, color=YES, **thin),
            margin.bar(range(c), no, bottom=yes, color=NO, **thin),
        )
        canvas.tidy(margin, "", "% of\nrows")
        margin.grid(visible=False, axis="x")
        margin.set_ylim(0, 100)
        margin.set_yticks([0, 50, 100])
        margin.tick_params(labelbottom=False, bottom=False)
        edge: dict[str, Any] = {"edgecolor": "#444444", "linewidth": 0.6}
        patches = [Patch(facecolor=colour, **edge) for colour in (YES, NO, MISSING)]
        gap = 2 * _GAP + _MARGIN
        canvas.legend_above(panel, patches, ["yes", "no", "missing"], columns=3, gap=gap)
        panel.set_xlim(-0.5, c - 0.5)
        step = canvas.write_names(panel, names)
        if step > 1:
            panel.set_xlabel(f"{c} labels, one in {step} is named", fontsize=canvas.FONT)
        return self


def _order_by_pattern(T: Signs) -> NDArray[np.intp]:
    """Return an order that sorts the rows by their missing entries, then by their labels."""
    seen = T != 0
    _, first, pattern = np.unique(seen, axis=0, return_index=True, return_inverse=True)
    # Rounding may differ between rows of equal patterns, so all get the component of the first one.
    difference = _first_component(seen)[first][pattern]
    return np.lexsort([_first_component(T), pattern, difference])


def _first_component(matrix: NDArray[Any]) -> Numbers:
    """Return the first principal component of the rows; more ones give a smaller value."""
    centred: Numbers = matrix - matrix.mean(axis=0)
    direction = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    component = centred @ direction
    return -component if component @ centred.sum(axis=1) > 0 else component


@dataclass(eq=False, repr=False)
class CooccurrenceDisplay(Display):
    r"""Heat map of label co-occurrence, with arrows for implications in only one direction.

    .. math:: P(k \mid j) = \frac{\text{rows with both}}
        {\text{rows with } j \text{ in which } k \text{ was observed}}

    An arrow shows an implication that only holds in one direction, such as "a 4 is even": P(k | j)
    is at least 0.9 and exceeds the share of positives of k by at least 0.2, while P(j | k) is below
    0.9 or unknown. :func:`dm2l.tables.inspect_table` lists all implications.

    Parameters
    ----------
    probability, count : ndarray of shape (n_labels, n_labels)
        Row j and column k hold P(k | j), and the number of rows with j in which k was observed.
    base : ndarray of shape (n_labels,)
        Share of positives among the observed entries of each label.
    label_names : sequence of str
        A name for each label.
    min_rows : int, default=10
        Pairs with fewer rows are not shown.

    Attributes
    ----------
    image_, colorbar_ : matplotlib AxesImage and Colorbar
        The heat map.
    arrows_ : list of matplotlib Text
        The arrows in the order of :meth:`one_way`.

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

    @classmethod
    def from_labels(
        cls,
        Y: Any,
        *,
        label_names: Names = None,
        min_rows: int = 10,
        max_labels: int = 40,
        ax: Ax = None,
    ) -> Self:
        """Draw the co-occurrence of the observed entries of two or more labels.

        By default, ``label_names`` are the columns of the data frame, or y0, y1, ... Only the
        ``max_labels`` labels with the most positives are drawn. See the constructor for the
        other parameters.
        """
        T, names = canvas.read_labels(Y, label_names)
        if T.shape[1] < 2 or max_labels < 2:
            what = "Co-occurrence needs at least two labels,"
            raise ValueError(f"{what} got {T.shape[1]} and max_labels={max_labels}.")
        frequent = np.sort(np.argsort(-(T > 0).sum(axis=0), kind="stable")[:max_labels])
        found = Cooccurrence.of(T[:, frequent])
        return cls(
            found.probability,
            count=found.count,
            base=found.base,
            label_names=[names[k] for k in frequent],
            min_rows=min_rows,
        ).plot(ax)

    def one_way(self) -> list[Implication]:
        """Return the implications that hold in one direction only, in the order of the labels."""
        return [self._found.implication(self.label_names, j, k) for j, k in self._pairs()]

    def __post_init__(self) -> None:
        self._found = Cooccurrence(self.probability, self.count, self.base)

    def _pairs(self) -> list[tuple[int, int]]:
        reverse = self._found.told(self.min_rows).T >= 0.9  # False for NaN
        pairs = np.argwhere(self._found.implied(self.min_rows) & ~reverse)
        return [(int(j), int(k)) for j, k in pairs]

    def plot(self, ax: Ax = None) -> Self:
        """Draw the heat map, with an arrow for each implication in :meth:`one_way`."""
        canvas.check_names(self.label_names, len(self.probability))
        c = len(self.probability)
        side = float(np.clip(1.5 * canvas.LINE * c, 2.2, 6.5))
        panel: Any = self._axes(ax, side + 2.6, side + 1.9)
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        panel.patch.set(**_HATCH)  # pairs that are not shown are hatched
        shown = 100 * self._found.told(self.min_rows)
        self.image_, self.colorbar_ = canvas.heat_map(
            panel, shown, r"$P(k \mid j)$, %", cmap="Blues", vmin=0, vmax=100
        )
        question = "… how many also have label $k$?"
        canvas.tidy(panel, question, "of the rows with label $j$ …", grid=False)
        mark = {"marker": r"$\rightarrow$", "markersize": 9, "color": "black"}
        arrow = Line2D([], [], linestyle="none", **mark)
        few = f"fewer than {self.min_rows} rows, or the same label"
        words = ["$j$ implies $k$, $k$ does not imply $j$", few]
        canvas.legend_above(panel, [arrow, Patch(**_HATCH)], words, columns=1)
        canvas.write_names(panel, self.label_names, "xy")
        cell = 72 * panel.get_window_extent().height / panel.get_figure(root=True).dpi / c  # points
        look = {"color": "white", "fontsize": min(canvas.FONT, 0.7 * cell), "ha": "center"}
        self.arrows_ = [panel.text(k, j, "→", va="center", **look) for j, k in self._pairs()]
        return self


@dataclass(eq=False, repr=False)
class SingularValuesDisplay(Display):
    """Singular values of scores or labels, for all rows and for the rows with each label.

    DM2L makes the nuclear norm, which is the sum of the singular values, large for the scores of
    all rows. DM2L makes the norm small for the scores ``F_k`` of each group: the rows in which
    label k is an observed positive. The singular values of the groups (thin lines) should therefore
    decrease faster than the singular values of all rows (thick line).

    Parameters
    ----------
    whole, groups : ndarray, and mapping of str to ndarray
        Singular values of all rows, and of the rows with each label, in descending order.
    n_rows, group_rows, n_labels : int, mapping of str to int, and int
        Number of all rows, number of rows of each group, and number of labels.

    Attributes
    ----------
    whole_line_, group_lines_ : matplotlib Line2D, and dict of str to Line2D
        The line of all rows, and the lines of the groups by label.

    Examples
    --------
    >>> from dm2l.plots import SingularValuesDisplay
    >>> display = SingularValuesDisplay.from_labels([[1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 0, 0]])
    >>> {name: round(rank, 1) for name, rank in display.effective_ranks().items()}
    {'y0': 1.9, 'y1': 2.8, 'y2': 1.9}
    """

    whole: Numbers
    _: KW_ONLY
    groups: Mapping[str, Numbers]
    n_rows: int
    group_rows: Mapping[str, int]
    n_labels: int

    @classmethod
    def _of(cls, matrix: Numbers, T: Signs, names: Sequence[str]) -> Self:
        parts = {name: matrix[T[:, k] > 0] for k, name in enumerate(names) if (T[:, k] > 0).any()}
        return cls(
            Spectrum.of(matrix).singular_values,
            groups={name: Spectrum.of(part).singular_values for name, part in parts.items()},
            n_rows=len(matrix),
            group_rows={name: len(part) for name, part in parts.items()},
            n_labels=matrix.shape[1],
        )

    @classmethod
    def from_labels(
        cls, Y: Any, *, label_names: Names = None, ax: Ax = None, **options: Any
    ) -> Self:
        """Draw the singular values of the label matrix with entries +1, -1 and 0 (missing).

        By default, ``label_names`` are the columns of the data frame, or y0, y1, ... ``options``
        are passed to :meth:`plot`.
        """
        T, names = canvas.read_labels(Y, label_names)
        return cls._of(T.astype(np.float64), T, names).plot(ax, **options)

    @classmethod
    def from_predictions(
        cls, Y: Any, scores: Any, *, label_names: Names = None, ax: Ax = None, **options: Any
    ) -> Self:
        """Draw the singular values of scores, grouped by the observed positives in ``Y``.

        ``scores`` are the result of ``decision_function``. See :meth:`from_labels` for other
        parameters.
        """
        T, names = canvas.read_labels(Y, label_names)
        scores = check_scores(LabelMatrix.of_signs(T), scores, "scores")
        return cls._of(scores, T, names).plot(ax, **options)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, Y: Any, *, ax: Ax = None, **options: Any
    ) -> Self:
        """Draw the singular values of the scores of a fitted estimator.

        ``Y`` is coded like the training labels. ``options`` are passed to :meth:`from_predictions`.
        """
        labels = parse_labels(Y, **canvas.marks_of(estimator))
        scores = to_numpy(estimator.decision_function(X))
        return cls.from_predictions(labels, scores, ax=ax, **options)

    def effective_ranks(self) -> dict[str, float]:
        """Return ``(||F_k||_* / ||F_k||_F)^2`` of each group; 0 if all its scores are 0."""
        return {name: self._spectrum(name).effective_rank for name in self.groups}

    def _spectrum(self, name: str | None) -> Spectrum:
        if name is None:
            return Spectrum((self.n_rows, self.n_labels), np.asarray(self.whole))
        return Spectrum((self.group_rows[name], self.n_labels), np.asarray(self.groups[name]))

    def plot(self, ax: Ax = None, *, highlight: Sequence[str] = ()) -> Self:
        """Draw a thin line for each group, and a thick line for all rows; lines end at the rank.

        Each line is divided by its largest singular value. Labels in ``highlight`` get their own
        colour and marker.
        """
        chosen = [highlight] if isinstance(highlight, str) else list(highlight)
        for name in chosen:
            if name not in self.groups:
                known = ", ".join(map(str, self.groups))
                raise ValueError(f"highlight contains {name!r}, but the groups are {known}.")
        panel: Any = self._axes(ax, height=3.9)
        ranks = self.effective_ranks()
        plain = [name for name in self.groups if name not in chosen]
        look: dict[str, Any] = {"color": canvas.COLOURS[4], "linewidth": 0.9, "alpha": 0.8}
        self.group_lines_ = {}
        for i, name in enumerate(plain):
            label = None if i else f"{canvas.shorten(name)}, effective rank {ranks[name]:.1f}"
            if not i and len(plain) > 1:
                mean = np.mean([ranks[other] for other in plain])
                what = f"rows of one label: {len(plain)} groups"
                label = f"{what}, effective rank {mean:.1f} on average"
            self.group_lines_[name] = self._draw(panel, name, label, **look)
        for name, style in canvas.series_styles(chosen).items():
            rows = f"{self.group_rows[name]:,} rows"
            label = f"{canvas.shorten(name)}: {rows}, effective rank {ranks[name]:.1f}"
            some = {"markersize": 4.0, "markevery": max(1, len(self.groups[name]) // 8)}
            self.group_lines_[name] = self._draw(panel, name, label, **(style | some))
        rank = self._spectrum(None).effective_rank
        label = f"all {self.n_rows:,} rows, effective rank {rank:.1f}"
        self.whole_line_ = self._draw(panel, None, label, color="black", linewidth=2.4)
        panel.set_yscale("log")
        panel.xaxis.get_major_locator().set_params(integer=True)
        number = "index of the singular value, largest first"
        canvas.tidy(panel, number, "singular value / largest")
        canvas.legend_above(panel, *panel.get_legend_handles_labels(), columns=1)
        return self

    def _draw(self, ax: Any, name: str | None, label: Any, **look: Any) -> Any:
        spectrum = self._spectrum(name)
        values = spectrum.singular_values[: spectrum.rank]
        if len(values) == 1:
            look = {"marker": "o", "markersize": 3} | look
        return ax.plot(np.arange(1, len(values) + 1), values / values[:1], label=label, **look)[0]
