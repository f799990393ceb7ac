"""Reliability diagram of predicted probabilities."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from dm2l._utils.arrays import to_numpy
from dm2l.metrics._reading import check_scores, read_labels
from dm2l.plots._canvas import (
    COLOURS,
    Display,
    Numbers,
    axes_above,
    legend,
    marks_of,
    series_styles,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HISTOGRAM_BINS = 20
_PERFECT, _CURVE = "as predicted", "reliability"


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(Display):
    """Share of positives among the observed entries, over their predicted probability.

    Calibrated probabilities lie on the diagonal; below it they are too high. Bars are Wilson's
    confidence intervals, which take entries for independent: labels of one row are not quite. The
    histogram shows the distribution of the probabilities. Missing entries are ignored.

    Parameters
    ----------
    probability : ndarray of shape (n_bins,)
        Mean probability of the entries of each bin.
    share : ndarray of shape (n_bins,)
        Share of positives among them.
    low, high : ndarray of shape (n_bins,)
        Confidence interval of the share.
    count : ndarray of shape (n_bins,)
        Entries of each bin.
    histogram : ndarray of shape (20,)
        Entries whose probability lies in each twentieth from 0 to 1.
    brier : float
        Mean squared difference of probability and answer, for the legend.
    confidence : float, default=0.95
        Level of the intervals.
    name : str, default=None
        Of the model, for the legend.

    Attributes
    ----------
    line_ : matplotlib.container.ErrorbarContainer
        Shares and their intervals.
    perfect_line_ : matplotlib.lines.Line2D or None
        The diagonal; None where the axes had one.
    histogram_ax_, bars_ : matplotlib Axes and BarContainer, or None
        The histogram.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.plots import ReliabilityDisplay
    >>> Y = np.array([[1, 0], [np.nan, 1], [0, 0], [1, np.nan]])
    >>> P = np.array([[0.9, 0.1], [0.5, 0.9], [0.1, 0.1], [0.9, 0.5]])
    >>> display = ReliabilityDisplay.from_predictions(Y, P, n_bins=2)
    >>> display.share, display.count
    (array([0., 1.]), array([3, 3]))
    >>> display.low.round(2), display.high.round(2)
    (array([0.  , 0.44]), array([0.56, 1.  ]))
    """

    probability: Numbers
    _: KW_ONLY
    share: Numbers
    low: Numbers
    high: Numbers
    count: NDArray[np.int64]
    histogram: NDArray[np.int64]
    brier: float
    confidence: float = 0.95
    name: str | None = None

    @classmethod
    def from_predictions(
        cls,
        Y: Any,
        probabilities: Any,
        *,
        n_bins: int = 10,
        strategy: Literal["uniform", "quantile"] = "uniform",
        confidence: float = 0.95,
        name: str | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Compare probabilities with labels that the model was not trained on.

        Parameters
        ----------
        Y : array-like, data frame or LabelMatrix of shape (n_rows, n_labels)
            Labels.
        probabilities : array-like of shape (n_rows, n_labels)
            From ``predict_proba``.
        n_bins : int, default=10
            Bins, of which empty ones are left out.
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width, or with about as many entries in each: better where nearly all
            probabilities are small.
        confidence : float, default=0.95
            Level of the intervals.
        name : str, default=None
            Of the model, for the legend.
        **options
            As in :meth:`plot`.
        """
        labels = read_labels(Y)
        T, P = labels.signs, check_scores(labels, probabilities, "probabilities")
        if P.size and not (P.min() >= 0 and P.max() <= 1):
            row, column = np.argwhere((P < 0) | (P > 1))[0]
            raise ValueError(
                f"probabilities has {P[row, column]:g} in row {row}, column {column}: they must "
                "lie between 0 and 1. Scores become probabilities by predict_proba."
            )
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}.")
        seen = T != 0
        if not seen.any():
            raise ValueError("Y has nothing observed, so there is nothing to compare with.")
        p, yes = P[seen], T[seen] > 0
        which = np.searchsorted(_inner_edges(p, n_bins, strategy), p)
        bins = np.unique(which, return_inverse=True)[1]
        count, hits = np.bincount(bins), np.bincount(bins, weights=yes)
        intervals = [
            binomtest(round(k), int(n)).proportion_ci(confidence, method="wilson")
            for k, n in zip(hits, count, strict=True)
        ]
        display = cls(
            np.bincount(bins, weights=p) / count,
            share=hits / count,
            low=np.array([interval.low for interval in intervals]),
            high=np.array([interval.high for interval in intervals]),
            count=count,
            histogram=np.histogram(p, bins=_HISTOGRAM_BINS, range=(0, 1))[0],
            brier=float(np.mean((p - yes) ** 2)),
            confidence=confidence,
            name=name,
        )
        return display.plot(ax, **options)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        Y: Any,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Compare the probabilities of a fitted estimator with labels of rows that were kept back.

        ``Y`` is coded like its training labels; ``name`` is for the legend, by default the class;
        ``options`` are those of :meth:`from_predictions` and :meth:`plot`.
        """
        probabilities = estimator.predict_proba(X)
        if isinstance(probabilities, list):  # one array per label, as of sklearn.multioutput
            probabilities = np.column_stack(
                [_of_yes(*part) for part in zip(probabilities, estimator.classes_, strict=True)]
            )
        elif np.ndim(Y) == 1 and np.shape(probabilities)[1] == 2:  # both classes of one label
            probabilities = probabilities[:, 1:]
        return cls.from_predictions(
            read_labels(Y, **marks_of(estimator)),
            to_numpy(probabilities),
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **options,
        )

    def plot(self, ax: Axes | None = None, *, histogram: bool = True) -> Self:
        """Draw shares with their intervals, the diagonal, and the histogram on top.

        On axes that already show a model, the next one gets the next colour and marker, and no
        histogram.
        """
        panel: Any = self._axes(ax, 4.2, 4.6 if histogram else 3.8)
        before = sum(line.get_gid() == _CURVE for line in panel.get_lines())
        self.perfect_line_ = None
        if not before:
            plain = {"color": "#666666", "linewidth": 1.0, "linestyle": ":"}
            self.perfect_line_ = panel.plot([0, 100], [0, 100], label=_PERFECT, **plain)[0]
        x, y = 100 * np.asarray(self.probability), 100 * np.asarray(self.share)
        # Rounding may put a share of 0 or 1 outside its own interval.
        reach = np.maximum([y - 100 * np.asarray(self.low), 100 * np.asarray(self.high) - y], 0.0)
        style = list(series_styles([str(i) for i in range(before + 1)]).values())[-1]
        named = f"{self.name}, " if self.name else ""
        label = f"{named}Brier score {self.brier:.3f}"
        look = style | {"elinewidth": 1.0, "capsize": 2.5}
        self.line_ = panel.errorbar(x, y, yerr=reach, label=label, **look)
        self.line_[0].set_gid(_CURVE)
        tidy(panel, "predicted probability of yes, %", "observed share of yes, %")
        panel.set(xlim=(-2, 102), ylim=(-2, 102))
        legend(panel, loc="best", title=f"bars: {100 * self.confidence:g} % intervals")
        self.histogram_ax_ = self.bars_ = None
        if histogram and not before:
            self._draw_histogram(panel)
        return self

    def _draw_histogram(self, ax: Any) -> None:
        """On top of the curve, over the same axis of probabilities."""
        from matplotlib.ticker import LogLocator, NullFormatter

        self.histogram_ax_ = margin = axes_above(ax, 0.8, gap=0.1, sharex=ax)
        width = 100 / len(self.histogram)
        look = {"align": "edge", "color": COLOURS[4], "edgecolor": "#444444", "linewidth": 0.4}
        left = width * np.arange(len(self.histogram))
        self.bars_ = margin.bar(left, self.histogram, width=width, **look)
        tidy(margin, "", "entries")
        margin.set_yscale("log")
        margin.yaxis.set_major_locator(LogLocator(numticks=4))
        margin.yaxis.set_minor_formatter(NullFormatter())
        margin.tick_params(labelbottom=False)


def _of_yes(probabilities: Any, classes: Any) -> Numbers:
    """The column of class 1; a label that was never 1 in training has none, and gets 0."""
    yes = np.flatnonzero(np.asarray(classes) == 1)
    table = np.asarray(probabilities, dtype=np.float64)
    return table[:, yes[0]] if len(yes) else np.zeros(len(table))


def _inner_edges(p: Numbers, n_bins: int, strategy: str) -> Numbers:
    if n_bins < 1:
        raise ValueError(f"n_bins must be an integer >= 1, got {n_bins!r}.")
    parts = np.linspace(0, 1, n_bins + 1)
    if strategy == "quantile":
        return np.quantile(p, parts)[1:-1]
    if strategy != "uniform":
        raise ValueError(f"strategy must be 'uniform' or 'quantile', got {strategy!r}.")
    return parts[1:-1]
