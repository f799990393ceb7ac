"""Displays of models: convergence, the path over ``lambda_d``, reliability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dm2l._utils.arrays import to_numpy
from dm2l._utils.inputs import check_choice, check_count
from dm2l.metrics._reading import check_scores, read_labels
from dm2l.plots._canvas import (
    COLOURS,
    FONT,
    METRIC_NAMES,
    WIDTH,
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

_SYMBOLS = {"alpha": r"$\alpha$", "gamma": r"$\gamma$"}
_MOST_NUMBERS = 8  # on the axis
_ZOOM = 6  # times the median distance from the chosen setting are in the picture
_DODGE, _MOST = 0.07, 0.35  # from line to line and in all, of the distance between two lambda_d
_HISTOGRAM_BINS = 20
_PERFECT, _CURVE = "as predicted", "reliability"


@dataclass(eq=False, repr=False)
class ConvergenceDisplay(Display):
    """Distance of the objective from the lowest value known, after each iteration.

    The axis is logarithmic: a straight line gains a digit at a steady rate, and a line ends before
    the lowest value itself.

    Parameters
    ----------
    histories : mapping of str to ndarray of shape (n_iter + 1,)
        By name of the model: the objective at the start and after each iteration.
    lowest : float or mapping of str to float
        The lowest objective known, of all models or of each.
    evaluations : mapping of str to int, default=None
        How often the objective was evaluated, for the legend.

    Attributes
    ----------
    lines_ : dict of str to matplotlib.lines.Line2D
        By name of the model.

    Examples
    --------
    >>> from dm2l.plots import ConvergenceDisplay
    >>> ConvergenceDisplay({"lbfgs": [3.0, 2.5, 2.0]}, lowest=2.0).distance("lbfgs")
    array([0.5 , 0.25, 0.  ])
    """

    histories: Mapping[str, Numbers]
    _: KW_ONLY
    lowest: float | Mapping[str, float]
    evaluations: Mapping[str, int] | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the course of one fitted estimator, or of the last step of a pipeline."""
        return cls.from_estimators({type(_last_step(estimator)).__name__: estimator}, ax=ax)

    @classmethod
    def from_estimators(
        cls,
        estimators: Mapping[str, Any],
        *,
        lowest: float | str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the courses of several fitted estimators, which have ``objective_history_``.

        Distances are from the lowest value of all; from the lowest of each for ``lowest="each"``,
        if objectives differ; or from a number, what a longer run has reached.
        """
        if not hasattr(estimators, "items") or not estimators:
            raise ValueError(
                f"estimators must be a dict of names to fitted estimators, got {estimators!r}."
            )
        steps = {name: _last_step(estimator) for name, estimator in estimators.items()}
        histories = {name: _history(step) for name, step in steps.items()}
        reached = {name: float(history.min()) for name, history in histories.items()}
        if isinstance(lowest, str) and lowest != "each":
            raise ValueError(f"lowest must be a number, 'each' or None, got {lowest!r}.")
        known: Any = reached if lowest == "each" else lowest
        if known is None:
            known = min(reached.values())
        evaluations = {
            name: int(step.n_evaluations_)
            for name, step in steps.items()
            if hasattr(step, "n_evaluations_")
        }
        return cls(histories, lowest=known, evaluations=evaluations).plot(ax)

    def distance(self, name: str) -> Numbers:
        """Relative distance ``(J - lowest) / |lowest|`` of a model's objective, absolute if 0."""
        lowest = self.lowest[name] if isinstance(self.lowest, Mapping) else self.lowest
        return (np.asarray(self.histories[name], dtype=np.float64) - lowest) / (abs(lowest) or 1.0)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw a line per model."""
        panel, self.lines_ = self._axes(ax), {}
        for name, style in series_styles(list(self.histories)).items():
            distance = self.distance(name)
            shown = distance > 0
            # About ten markers a line, whatever its length.
            some = {"markersize": 4.5, "markevery": max(1, int(shown.sum()) // 10)}
            count = (self.evaluations or {}).get(name)
            label = name if count is None else f"{name}: {count:,} evaluations"
            x = np.flatnonzero(shown)
            self.lines_[name] = panel.plot(x, distance[shown], label=label, **(style | some))[0]
        panel.set_yscale("log")
        panel.xaxis.get_major_locator().set_params(integer=True)
        tidy(panel, "iterations", "objective / lowest − 1")
        legend(panel, loc="upper right")
        return self


def _last_step(estimator: Any) -> Any:
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def _history(estimator: Any) -> Numbers:
    check_is_fitted(estimator)
    if not hasattr(estimator, "objective_history_"):
        raise ValueError(
            f"{type(estimator).__name__} has no objective_history_: convergence is known of "
            "DM2LClassifier, DM2LClassifierCV and the iterative models of dm2l.baselines."
        )
    return np.asarray(estimator.objective_history_, dtype=np.float64)


@dataclass(eq=False, repr=False)
class PathDisplay(Display):
    """Cross-validated metric over ``lambda_d``, one line per ``alpha`` and ``gamma``.

    Error bars are one standard error of the mean over folds; the ring marks the chosen setting.
    The axis is logarithmic; ``lambda_d = 0``, masked ridge, stands apart at its left end. Lines may
    leave the picture at settings that fail, so that those near the chosen one can be told apart.

    Parameters
    ----------
    lambda_ds : ndarray of shape (n_lambdas,)
        In rising order.
    means, errors : ndarray of shape (n_curves, n_lambdas)
        Mean and standard error of the metric; nan where there is none.
    settings : sequence of dict
        The other parameters of each curve.
    chosen : tuple of int, default=None
        Curve and place on it of the setting that was chosen.
    metric, n_splits : str and int
        Name of the metric, and number of folds.

    Attributes
    ----------
    lines_, chosen_ : list of matplotlib ErrorbarContainer, and Line2D or None
        One per curve, and the ring.

    Examples
    --------
    >>> from dm2l import DM2LClassifierCV
    >>> from dm2l.datasets import make_missing_multilabel
    >>> from dm2l.plots import PathDisplay
    >>> X, Y = make_missing_multilabel(n_samples=200, random_state=0)
    >>> search = DM2LClassifierCV(lambda_ds=[0, 0.1], alphas=[1.0, 10.0], cv=3).fit(X, Y)
    >>> PathDisplay.from_estimator(search).settings
    [{'alpha': 1.0}, {'alpha': 10.0}]
    """

    lambda_ds: Numbers
    _: KW_ONLY
    means: Numbers
    errors: Numbers
    settings: Sequence[Mapping[str, Any]]
    chosen: tuple[int, int] | None = None
    metric: str = "score"
    n_splits: int | None = None

    @classmethod
    def from_estimator(cls, search: Any, *, ax: Axes | None = None) -> Self:
        """Draw a fitted DM2LClassifierCV, or another grid search over ``lambda_d``."""
        check_is_fitted(search, "cv_results_")
        cv_results, best = search.cv_results_, getattr(search, "best_index_", None)
        scoring = getattr(search, "scoring", None)
        metric = scoring if isinstance(scoring, str) else "score"
        by_step = {
            key.removeprefix("param_").split("__")[-1]: key
            for key in cv_results
            if key.startswith("param_")
        }
        if "lambda_d" not in by_step:
            raise ValueError(
                "cv_results_ has no param_lambda_d: the path needs a search over lambda_d, such as "
                "DM2LClassifierCV."
            )
        splits = [
            key for key in cv_results if key.startswith("split") and key.endswith("_test_score")
        ]
        if not splits:
            raise ValueError(
                "cv_results_ has no split0_test_score: the path needs a search with one metric."
            )
        lambdas = np.asarray(cv_results[by_step.pop("lambda_d")], dtype=np.float64)
        values, places = np.unique(lambdas, return_inverse=True)
        settings: list[dict[str, Any]] = []
        rows: list[tuple[int, int]] = []
        for i, place in enumerate(places):
            cells = {name: cv_results[key][i] for name, key in by_step.items()}
            other = {n: v.item() if isinstance(v, np.generic) else v for n, v in cells.items()}
            if other not in settings:
                settings.append(other)
            rows.append((settings.index(other), int(place)))
        sign = -1.0 if metric.startswith("neg_") else 1.0
        scores = sign * np.array([cv_results[key] for key in splits], dtype=np.float64)
        means = np.full((len(settings), len(values)), np.nan)
        errors = means.copy()
        for at, column in zip(rows, scores.T, strict=True):
            seen = column[np.isfinite(column)]
            means[at] = seen.mean() if len(seen) else np.nan
            errors[at] = seen.std(ddof=1) / np.sqrt(len(seen)) if len(seen) > 1 else np.nan
        return cls(
            values,
            means=means,
            errors=errors,
            settings=settings,
            chosen=None if best is None else rows[best],
            metric=metric.removeprefix("neg_"),
            n_splits=len(splits),
        ).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the lines, their errors and the ring."""
        panel: Any = self._axes(ax, width=WIDTH)
        lambdas = np.asarray(self.lambda_ds, dtype=np.float64)
        x, step = _positions(lambdas)
        names = [
            ", ".join(
                f"{_SYMBOLS.get(name, name)} = {f'{v:.3g}' if isinstance(v, float) else v}"
                for name, v in setting.items()
            )
            for setting in self.settings
        ]
        dodge = min(_DODGE, _MOST / max(len(names) - 1, 1))
        self.lines_ = []
        for i, style in enumerate(series_styles([str(i) for i in range(len(names))]).values()):
            aside = step ** (dodge * (i - (len(names) - 1) / 2))  # bars side by side
            look = style | {"elinewidth": 0.8, "capsize": 2.0, "markersize": 4.5}
            errors = np.nan_to_num(self.errors[i])
            drawn = panel.errorbar(x * aside, self.means[i], yerr=errors, label=names[i], **look)
            self.lines_.append(drawn)
        self.chosen_ = None
        folds = "" if self.n_splits is None else f" of {self.n_splits} folds"
        title = f"mean ± standard error{folds}"
        if self.chosen is not None:
            curve, place = self.chosen
            words = ", ".join(filter(None, [rf"$\lambda_d$ = {lambdas[place]:.3g}", names[curve]]))
            ring = {"marker": "o", "markersize": 13, "markerfacecolor": "none", "zorder": 5}
            ring |= {"markeredgewidth": 1.8, "color": "black", "linestyle": "none"}
            at = self.lines_[curve][0].get_xydata()[place]
            self.chosen_ = panel.plot(*at, label=f"chosen: {words}", **ring)[0]
            if n_outside := self._zoom(panel):
                title += f"\nsettings outside the picture: {n_outside}"
        panel.set_xscale("log")
        _write_lambdas(panel, x, lambdas)
        ridge = r"$\lambda_d$ (0 is masked ridge)" if 0 in lambdas else r"$\lambda_d$"
        tidy(panel, ridge, METRIC_NAMES.get(self.metric, self.metric.replace("_", " ")))
        legend(panel, loc="upper left", bbox_to_anchor=(1.0, 1.0), title=title)
        return self

    def _zoom(self, ax: Any) -> int:
        """Narrow the axis to the vicinity of the chosen setting; return how many lie outside."""
        means, errors = np.asarray(self.means), np.nan_to_num(self.errors)
        behind = np.abs(means - means[self.chosen])
        reach = _ZOOM * float(np.nanmedian(behind))
        near = behind <= reach
        if not reach or np.nanmax(behind) <= 2 * reach:
            return 0
        low, high = (means - errors)[near].min(), (means + errors)[near].max()
        low, high = low - 0.08 * (high - low), high + 0.08 * (high - low)
        ax.set_ylim(low, high)
        return int(((means < low) | (means > high)).sum())


def _positions(lambdas: Numbers) -> tuple[Numbers, float]:
    """Places on a logarithmic axis, with one for 0, and the usual factor between them."""
    positive = lambdas[lambdas > 0]
    ratios = positive[1:] / positive[:-1]
    step = float(np.median(ratios)) if len(ratios) else 10.0
    least = positive[0] if len(positive) else 1.0
    return np.where(lambdas > 0, lambdas, least / step**1.5), step


def _write_lambdas(ax: Any, x: Numbers, lambdas: Numbers) -> None:
    """Numbers at the values that were tried, as many as fit, and a cut in the axis after 0."""
    places = np.log10(x)
    kept = [0]
    for i in range(1, len(x)):
        if places[i] - places[kept[-1]] >= (places[-1] - places[0]) / _MOST_NUMBERS:
            kept.append(i)
    ax.set_xticks(x[kept], [f"{lambdas[i]:.3g}" for i in kept])
    ax.set_xticks([], minor=True)
    if lambdas[0] == 0 and len(x) > 1:
        cut = {"ha": "center", "va": "center", "fontsize": FONT}
        ax.text(float(np.sqrt(x[0] * x[1])), 0, "//", transform=ax.get_xaxis_transform(), **cut)


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(Display):
    """Share of positives among the observed entries, over their predicted probability.

    Calibrated probabilities lie on the diagonal; below it they are too high. Bars are Wilson's
    confidence intervals for independent entries. Missing entries are ignored.

    Parameters
    ----------
    probability, share, low, high, count : ndarray of shape (n_bins,)
        Mean probability of the entries of each bin, share of positives with its confidence
        interval, and number of entries.
    histogram : ndarray of shape (20,)
        Entries by probability, in twentieths.
    brier, confidence, name : float, float and str
        Brier score, level of the intervals and name of the model, for the legend.

    Attributes
    ----------
    line_, perfect_line_, histogram_ax_, bars_ : objects of matplotlib
        Shares and their intervals, the diagonal, and the histogram; None where not drawn.

    Examples
    --------
    >>> from dm2l.plots import ReliabilityDisplay
    >>> Y, P = [[1, 0], [0, 1], [0, 0]], [[0.9, 0.1], [0.1, 0.9], [0.1, 0.1]]
    >>> ReliabilityDisplay.from_predictions(Y, P, n_bins=2).share
    array([0., 1.])
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
        """Compare probabilities of class 1 with labels that the model was not trained on.

        ``strategy`` makes bins of equal width, or (``"quantile"``) with about as many entries in
        each, better where nearly all probabilities are small; ``confidence`` is the level of the
        intervals, ``name`` that of the model; ``options`` are those of :meth:`plot`.
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
        check_count("n_bins", n_bins)
        check_choice("strategy", strategy, "uniform", "quantile")
        p, yes = P[seen], T[seen] > 0
        edges = np.linspace(0, 1, n_bins + 1)
        edges = np.quantile(p, edges) if strategy == "quantile" else edges
        bins = np.unique(np.searchsorted(edges[1:-1], p), return_inverse=True)[1]
        count, hits = np.bincount(bins), np.bincount(bins, weights=yes)
        intervals = [
            binomtest(round(k), int(n)).proportion_ci(confidence, method="wilson")
            for k, n in zip(hits, count, strict=True)
        ]
        low, high = np.array(intervals).T
        return cls(
            np.bincount(bins, weights=p) / count,
            share=hits / count,
            low=low,
            high=high,
            count=count,
            histogram=np.histogram(p, bins=_HISTOGRAM_BINS, range=(0, 1))[0],
            brier=float(np.mean((p - yes) ** 2)),
            confidence=confidence,
            name=name,
        ).plot(ax, **options)

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
