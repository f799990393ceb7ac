"""Which labels were observed in which rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dm2l.labels._entries import Signs
from dm2l.plots._canvas import (
    COLOURS,
    FONT,
    LINE,
    Display,
    Numbers,
    axes_above,
    check_names,
    legend_above,
    read_labels,
    tidy,
    write_names,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Dark, medium and white, in colour and in grey.
YES, NO, MISSING = COLOURS[0], COLOURS[4], "#FFFFFF"
_MAP, _MARGIN, _GAP = 3.6, 0.8, 0.06  # inches of height


@dataclass(eq=False, repr=False)
class MissingnessDisplay(Display):
    """Map of positive, negative and missing entries, with their shares per label on top.

    Rows with similar missing entries are drawn together, the most complete ones on top, so that
    labels that were observed together show as blocks. Of many rows every n-th is drawn; the shares
    are those of all rows.

    Parameters
    ----------
    signs : ndarray of shape (n_lines, n_labels)
        The lines of the map: 1 is positive, -1 is negative, 0 is missing.
    share_positive, share_negative : ndarray of shape (n_labels,)
        Share of all rows in which the label is positive, and negative; the rest is missing.
    n_rows : int
        Rows of the data.
    label_names : sequence of str
        One per label.
    rows : ndarray of shape (n_lines,), default=None
        Row of the data that each line shows.

    Attributes
    ----------
    image_ : matplotlib.image.AxesImage
        The map.
    margin_ax_ : matplotlib.axes.Axes
        Where the bars are.
    bars_ : tuple of two matplotlib.container.BarContainer
        Shares of yes, and of no on top of them, in percent.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.plots import MissingnessDisplay
    >>> Y = [[1, 0, np.nan], [0, np.nan, np.nan], [1, 1, 0], [0, 0, np.nan]]
    >>> display = MissingnessDisplay.from_labels(Y, label_names=["toxic", "soluble", "stable"])
    >>> display.share_positive + display.share_negative
    array([1.  , 0.75, 0.25])
    >>> display.rows
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

        Parameters
        ----------
        Y : array-like, data frame or LabelMatrix of shape (n_rows, n_labels)
            Labels.
        label_names : sequence of str, default=None
            None: those of the data frame, or y0, y1, ...
        sort : {"pattern", None}, default="pattern"
            Rows with similar missing entries together, by the first principal component of what
            was observed; or the order of the data, which shows what depends on it, as on time.
        max_rows : int, default=500
            With more rows than this, only this many are drawn, evenly spaced.
        """
        if sort not in ("pattern", None):
            raise ValueError(f"sort must be 'pattern' or None, got {sort!r}.")
        if max_rows < 1:
            raise ValueError(f"max_rows must be an integer >= 1, got {max_rows!r}.")
        T, names = read_labels(Y, label_names)
        order = np.arange(len(T)) if sort is None else _order_by_pattern(T)
        if len(T) > max_rows:
            # The middles of max_rows equal parts.
            order = order[((np.arange(max_rows) + 0.5) * len(T) / max_rows).astype(np.intp)]
        display = cls(
            T[order],
            share_positive=(T > 0).mean(axis=0),
            share_negative=(T < 0).mean(axis=0),
            n_rows=len(T),
            label_names=names,
            rows=order,
        )
        return display.plot(ax)

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
        places = np.arange(c)
        few = c <= 60  # of more, gaps and edges would hide the bars
        thin = {"width": 0.9 if few else 1.0, "edgecolor": "#444444", "linewidth": 0.4 * few}
        yes, no = 100 * np.asarray(self.share_positive), 100 * np.asarray(self.share_negative)
        self.bars_ = (
            margin.bar(places, yes, color=YES, **thin),
            margin.bar(places, no, bottom=yes, color=NO, **thin),
        )
        tidy(margin, "", "% of\nrows")
        margin.grid(visible=False, axis="x")
        margin.set_ylim(0, 100)
        margin.set_yticks([0, 50, 100])
        margin.tick_params(labelbottom=False, bottom=False)
        edge: dict[str, Any] = {"edgecolor": "#444444", "linewidth": 0.6}
        patches = [Patch(facecolor=colour, **edge) for colour in (YES, NO, MISSING)]
        kinds = ["yes", "no", "missing"]
        legend_above(panel, patches, kinds, columns=3, gap=2 * _GAP + _MARGIN)
        panel.set_xlim(-0.5, c - 0.5)
        step = write_names(panel, names)
        if step > 1:
            panel.set_xlabel(f"{c} labels, one in {step} is named", fontsize=FONT)
        return self


def _order_by_pattern(T: Signs) -> NDArray[np.intp]:
    """Order of rows by their missing entries, then by their labels."""
    seen = np.ascontiguousarray(T != 0)
    as_one = seen.view(np.dtype((np.void, seen.shape[1]))).ravel()  # a row is one value
    _, first, pattern = np.unique(as_one, return_index=True, return_inverse=True)
    # Equal patterns get one number: products may differ in the last digits of equal rows.
    difference = _first_component(seen)[first][pattern]
    return np.lexsort([_first_component(T), pattern, difference])


def _first_component(matrix: NDArray[Any]) -> Numbers:
    """First principal component of the rows, smallest where most entries are 1."""
    centred: Numbers = matrix - matrix.mean(axis=0)
    direction = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    component = centred @ direction
    return -component if component @ centred.sum(axis=1) > 0 else component
