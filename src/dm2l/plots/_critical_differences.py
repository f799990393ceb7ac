"""Average ranks of methods, and which of them differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

from dm2l._utils.extras import require
from dm2l.plots._canvas import Numbers
from dm2l.plots._diagrams import critical_difference_diagram
from dm2l.plots._ranks import average_ranks, friedman, nemenyi_critical_difference

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class CriticalDifferenceDisplay:
    """Average ranks of methods over data sets, with bars over those that do not differ.

    The best is at the left. Methods that a bar joins are not told apart by Nemenyi's test; the
    ruler shows the least difference of ranks that it takes for real (Demšar, 2006).

    Parameters
    ----------
    ranks : ndarray of shape (n_methods,)
        Average ranks, 1 is best.
    critical_difference : float
        From Nemenyi's test.
    names : sequence of str
        One per method.
    n_blocks : int, default=None
        Data sets (or data sets and rates) behind the ranks.
    p_value : float, default=None
        Of Friedman's test, in Iman and Davenport's form: whether the methods differ at all. Where
        it is not small, no single difference should be read into the picture.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    method_lines_, group_bars_ : list of matplotlib.lines.Line2D
        A line for every method, best first; a thick bar for every group.
    ruler_ : matplotlib.lines.Line2D
        As long as the critical difference.

    Examples
    --------
    >>> from dm2l.plots import CriticalDifferenceDisplay
    >>> losses = [[0.12, 0.15, 0.19], [0.20, 0.22, 0.31], [0.08, 0.07, 0.11], [0.14, 0.15, 0.16]]
    >>> display = CriticalDifferenceDisplay.from_scores(
    ...     losses, higher_is_better=False, names=["DM2L", "ridge", "LEML"]
    ... )
    >>> display.ranks, round(display.critical_difference, 3)
    (array([1.25, 1.75, 3.  ]), 1.657)
    >>> len(display.group_bars_)
    2
    """

    ranks: Numbers
    critical_difference: float
    _: KW_ONLY
    names: Sequence[str]
    n_blocks: int | None = None
    p_value: float | None = None

    @classmethod
    def from_scores(
        cls,
        values: Any,
        *,
        higher_is_better: bool,
        names: Sequence[str] | None = None,
        alpha: float = 0.05,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Rank methods on every data set, test, and draw.

        Parameters
        ----------
        values : array-like or data frame of shape (n_blocks, n_methods)
            A measure of each method on each data set; two rows and two columns or more, no holes.
        higher_is_better : bool
            True for average precision, False for ranking loss.
        names : sequence of str, default=None
            None: the columns of the data frame.
        alpha : float, default=0.05
            Level of Nemenyi's test.
        ax, **options
            As in :meth:`plot`.

        Returns
        -------
        CriticalDifferenceDisplay
            Drawn.
        """
        if names is None and not hasattr(values, "columns"):
            raise ValueError("names is None and values has no columns: give one name per method.")
        chosen = [str(name) for name in (values.columns if names is None else names)]
        test = friedman(values, higher_is_better)
        display = cls(
            average_ranks(values, higher_is_better),
            nemenyi_critical_difference(test.n_methods, test.n_blocks, alpha),
            names=chosen,
            n_blocks=test.n_blocks,
            p_value=test.f_p_value,
        )
        return display.plot(ax, **options)

    def plot(
        self, ax: Axes | None = None, *, title: str | None = None, font_size: float = 9.0
    ) -> Self:
        """Draw the diagram, black on white.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None for a new figure, as large as the names need.
        title : str, default=None
            Above the diagram; None: what was counted and tested, as far as it is known.
        font_size : float, default=9.0
            In points; smaller where the names would fill the axes given.

        Returns
        -------
        self
            With the artists.
        """
        title = self._in_words() if title is None else title
        options: dict[str, Any] = {"names": self.names, "title": title, "font_size": font_size}
        if ax is None:
            # The figure that fits is one that pyplot does not know: make one like it that it does.
            fitting: Any = critical_difference_diagram(
                self.ranks, self.critical_difference, **options
            )
            size = fitting.figure.get_size_inches()
            ax = (
                require("matplotlib.pyplot", "plot")
                .figure(figsize=size, facecolor="white")
                .add_axes(fitting.get_position())
            )
        panel: Any = critical_difference_diagram(
            self.ranks, self.critical_difference, ax, **options
        )
        lines: dict[Any, list[Any]] = {"method": [], "group": [], "ruler": []}
        for line in panel.get_lines():
            lines.get(line.get_gid(), []).append(line)
        self.method_lines_, self.group_bars_ = lines["method"], lines["group"]
        (self.ruler_,) = lines["ruler"]
        self.ax_, self.figure_ = panel, panel.figure
        return self

    def _in_words(self) -> str | None:
        if self.n_blocks is None:
            return None
        words = f"Average rank over {self.n_blocks} blocks"
        if self.p_value is None:
            return words
        p = "< 0.001" if self.p_value < 0.001 else f"= {self.p_value:.3f}"
        return f"{words}; do methods differ? p {p} (Friedman)"
