"""Displays of convergence, searches over ``lambda_d``, calibration and label correlation."""

import fnmatch
import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform
from scipy.stats import binomtest
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dm2l._utils.arrays import to_numpy
from dm2l._utils.inputs import check_choice, check_counts
from dm2l.metrics._reading import check_scores, read_labels
from dm2l.plots import _canvas as canvas
from dm2l.plots._canvas import Ax, Display, Names, Numbers

_SYMBOLS = {"alpha": r"$\alpha$", "gamma": r"$\gamma$"}
_MOST_NUMBERS = 8  # values of lambda_d that are written at the axis
# Horizontal shift between lines and its maximum, relative to the distance of neighbouring lambda_d.
_DODGE, _MOST = 0.07, 0.35
_HISTOGRAM_BINS = 20
_CONFIDENCE = 0.95  # level of the intervals for shares
_PERFECT, _CURVE = "as predicted", "reliability"


@dataclass(eq=False, repr=False)
class ConvergenceDisplay(Display):
    """Difference between the objective after each iteration and its lowest known value.

    The vertical axis is logarithmic, so a straight line means linear convergence. The lowest value
    itself has a difference of 0 and is not drawn.

    Parameters
    ----------
    histories : mapping of str to ndarray of shape (n_iter + 1,)
        For each model, the objective at the start and after each iteration.
    lowest : float
        The lowest known objective of all models.
    evaluations : mapping of str to int, default=None
        Number of evaluations of the objective, for the legend.

    Attributes
    ----------
    lines_ : dict of str to matplotlib.lines.Line2D
        The line of each model.

    Examples
    --------
    >>> from dm2l.plots import ConvergenceDisplay
    >>> ConvergenceDisplay({"lbfgs": [3.0, 2.5, 2.0]}, lowest=2.0).distance("lbfgs")
    array([0.5 , 0.25, 0.  ])
    """

    histories: Mapping[str, Numbers]
    _: KW_ONLY
    lowest: float
    evaluations: Mapping[str, int] | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Ax = None) -> Self:
        """Draw the convergence of a fitted estimator, or of the last step of a pipeline."""
        return cls.from_estimators({type(_last_step(estimator)).__name__: estimator}, ax=ax)

    @classmethod
    def from_estimators(cls, estimators: Mapping[str, Any], *, ax: Ax = None) -> Self:
        """Draw the convergence of several fitted estimators that have ``objective_history_``.

        The estimators must minimize the same objective, whose lowest value is subtracted.
        """
        if not hasattr(estimators, "items") or not estimators:
            what = f"a dict of names to fitted estimators, got {estimators!r}"
            raise ValueError(f"estimators must be {what}.")
        histories: dict[str, Numbers] = {}
        evaluations: dict[str, int] = {}
        for name, estimator in estimators.items():
            step = _last_step(estimator)
            check_is_fitted(step)
            if not hasattr(step, "objective_history_"):
                raise ValueError(
                    f"{type(step).__name__} has no objective_history_. Pass a DM2LClassifier, a "
                    "DM2LClassifierCV or an iterative model of dm2l.baselines."
                )
            histories[name] = np.asarray(step.objective_history_, dtype=np.float64)
            if hasattr(step, "n_evaluations_"):
                evaluations[name] = int(step.n_evaluations_)
        lowest = min(float(history.min()) for history in histories.values())
        return cls(histories, lowest=lowest, evaluations=evaluations).plot(ax)

    def distance(self, name: str) -> Numbers:
        """Return ``(J - lowest) / |lowest|`` for a model's objective J, or J if ``lowest`` is 0."""
        history = np.asarray(self.histories[name], dtype=np.float64)
        return (history - self.lowest) / (abs(self.lowest) or 1.0)

    def plot(self, ax: Ax = None) -> Self:
        """Draw one line per model."""
        panel, self.lines_ = self._axes(ax), {}
        for name, style in canvas.series_styles(list(self.histories)).items():
            distance = self.distance(name)
            shown = distance > 0
            # Draw about ten markers on each line.
            some = {"markersize": 4.5, "markevery": max(1, int(shown.sum()) // 10)}
            count = (self.evaluations or {}).get(name)
            label = name if count is None else f"{name}: {count:,} evaluations"
            x = np.flatnonzero(shown)
            self.lines_[name] = panel.plot(x, distance[shown], label=label, **(style | some))[0]
        panel.set_yscale("log")
        panel.xaxis.get_major_locator().set_params(integer=True)
        canvas.tidy(panel, "iterations", "objective / lowest − 1")
        canvas.legend(panel, loc="upper right")
        return self


def _last_step(estimator: Any) -> Any:
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


@dataclass(eq=False, repr=False)
class PathDisplay(Display):
    """Cross-validated metric against ``lambda_d``, with one line per ``alpha`` and ``gamma``.

    Error bars show one standard error of the mean over folds. A ring marks the selected
    hyperparameters. The horizontal axis is logarithmic; ``lambda_d = 0`` (masked ridge) is drawn
    separately at its left end.

    Parameters
    ----------
    lambda_ds : ndarray of shape (n_lambdas,)
        Values of ``lambda_d`` in ascending order.
    means, errors : ndarray of shape (n_curves, n_lambdas)
        Mean and standard error of the metric; NaN where they are unknown.
    settings : sequence of dict
        The hyperparameters of each curve except ``lambda_d``.
    chosen : tuple of int, default=None
        Number of the curve with the selected hyperparameters, and the position on that curve.
    metric, n_splits : str and int
        Name of the metric, and number of folds.

    Attributes
    ----------
    lines_, chosen_ : list of matplotlib ErrorbarContainer, and Line2D or None
        The curves, and the ring at the selected point.

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
    def from_estimator(cls, search: Any, *, ax: Ax = None) -> Self:
        """Draw a fitted DM2LClassifierCV, or another grid search over ``lambda_d``."""
        check_is_fitted(search, "cv_results_")
        cv_results, best = search.cv_results_, getattr(search, "best_index_", None)
        scoring = getattr(search, "scoring", None)
        metric = scoring if isinstance(scoring, str) else "score"
        params = fnmatch.filter(cv_results, "param_*")
        by_step = {key.removeprefix("param_").split("__")[-1]: key for key in params}
        if "lambda_d" not in by_step:
            what = "cv_results_ has no param_lambda_d."
            raise ValueError(f"{what} Pass a search over lambda_d, such as DM2LClassifierCV.")
        splits = fnmatch.filter(cv_results, "split*_test_score")
        if not splits:
            raise ValueError("cv_results_ has no split0_test_score. Pass a search with one metric.")
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
            if len(seen):
                means[at] = seen.mean()
            if len(seen) > 1:
                errors[at] = seen.std(ddof=1) / np.sqrt(len(seen))
        return cls(
            values,
            means=means,
            errors=errors,
            settings=settings,
            chosen=None if best is None else rows[best],
            metric=metric.removeprefix("neg_"),
            n_splits=len(splits),
        ).plot(ax)

    def plot(self, ax: Ax = None) -> Self:
        """Draw the lines, the error bars and the ring."""
        panel: Any = self._axes(ax, width=canvas.WIDTH)
        lambdas = np.asarray(self.lambda_ds, dtype=np.float64)
        # Positions on a logarithmic axis, also of 0, and the median factor between them.
        positive = lambdas[lambdas > 0]
        step = float(np.median(positive[1:] / positive[:-1])) if len(positive) > 1 else 10.0
        least = positive[0] if len(positive) else 1.0
        x = np.where(lambdas > 0, lambdas, least / step**1.5)
        names = [
            ", ".join(
                f"{_SYMBOLS.get(name, name)} = {f'{v:.3g}' if isinstance(v, float) else v}"
                for name, v in setting.items()
            )
            for setting in self.settings
        ]
        dodge = min(_DODGE, _MOST / max(len(names) - 1, 1))
        self.lines_ = []
        styles = canvas.series_styles([str(i) for i in range(len(names))]).values()
        for i, style in enumerate(styles):
            aside = step ** (dodge * (i - (len(names) - 1) / 2))  # error bars do not overlap
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
        panel.set_xscale("log")
        every = math.ceil(len(x) / _MOST_NUMBERS)
        panel.set_xticks(x[::every], [f"{value:.3g}" for value in lambdas[::every]])
        panel.set_xticks([], minor=True)
        if lambdas[0] == 0 and len(x) > 1:  # mark a break in the axis after 0
            cut = {"ha": "center", "va": "center", "fontsize": canvas.FONT}
            at = panel.get_xaxis_transform()
            panel.text(float(np.sqrt(x[0] * x[1])), 0, "//", transform=at, **cut)
        ridge = r"$\lambda_d$ (0 is masked ridge)" if 0 in lambdas else r"$\lambda_d$"
        metric = canvas.METRIC_NAMES.get(self.metric, self.metric.replace("_", " "))
        canvas.tidy(panel, ridge, metric)
        canvas.legend(panel, loc="upper left", bbox_to_anchor=(1.0, 1.0), title=title)
        return self


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(Display):
    """Reliability diagram: observed share of positives against the predicted probability.

    Calibrated probabilities lie on the diagonal. Points below the diagonal show that probabilities
    are too high. Bars are Wilson's 95 % confidence intervals, which assume independent entries.
    Missing entries are ignored.

    Parameters
    ----------
    probability, share, low, high, count : ndarray of shape (n_bins,)
        For each bin, the mean probability, the share of positives with its confidence interval,
        and the number of entries.
    histogram : ndarray of shape (20,)
        Numbers of entries in 20 bins of equal widths.
    brier, name : float and str
        Brier score and name of the model, for the legend.

    Attributes
    ----------
    line_, perfect_line_, histogram_ax_, bars_ : objects of matplotlib
        The shares with their intervals, the diagonal, and the histogram (None if it is not drawn).

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
    name: str | None = None

    @classmethod
    def from_predictions(
        cls,
        Y: Any,
        probabilities: Any,
        *,
        n_bins: int = 10,
        strategy: Literal["uniform", "quantile"] = "uniform",
        name: str | None = None,
        ax: Ax = None,
    ) -> Self:
        """Compare probabilities of class 1 with labels that the model was not trained on.

        With ``strategy="uniform"``, bins have equal widths; with ``"quantile"``, they have equal
        numbers of entries, which is better if most probabilities are small. ``name`` is the name
        of the model in the legend.
        """
        labels = read_labels(Y)
        T, P = labels.signs, check_scores(labels, probabilities, "probabilities")
        if P.size and not (P.min() >= 0 and P.max() <= 1):
            row, column = np.argwhere((P < 0) | (P > 1))[0]
            raise ValueError(
                f"probabilities has {P[row, column]:g} in row {row}, column {column}; values must "
                "lie between 0 and 1. Use the result of predict_proba."
            )
        seen = T != 0
        if not seen.any():
            raise ValueError("All labels in Y are missing. Pass labels with observed entries.")
        check_counts(n_bins=n_bins)
        check_choice("strategy", strategy, "uniform", "quantile")
        p, yes = P[seen], T[seen] > 0
        edges = np.linspace(0, 1, n_bins + 1)
        edges = np.quantile(p, edges) if strategy == "quantile" else edges
        bins = np.unique(np.searchsorted(edges[1:-1], p), return_inverse=True)[1]
        count, hits = np.bincount(bins), np.bincount(bins, weights=yes)
        intervals = [
            binomtest(round(k), int(n)).proportion_ci(_CONFIDENCE, method="wilson")
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
            name=name,
        ).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        Y: Any,
        *,
        name: str | None = None,
        ax: Ax = None,
        **options: Any,
    ) -> Self:
        """Compare the probabilities of a fitted estimator with the labels of held-out rows.

        ``Y`` is coded like the training labels. The legend shows ``name``, by default the class of
        the estimator. ``options`` are passed to :meth:`from_predictions`.
        """
        probabilities = estimator.predict_proba(X)
        if isinstance(probabilities, list):  # one array per label, as in sklearn.multioutput
            parts = zip(map(np.asarray, probabilities), estimator.classes_, strict=True)
            # If no training label was 1, the probabilities have no column for class 1.
            positive = [part[:, np.asarray(classes) == 1].sum(axis=1) for part, classes in parts]
            probabilities = np.column_stack(positive)
        elif np.ndim(Y) == 1 and np.shape(probabilities)[1] == 2:  # both classes of one label
            probabilities = probabilities[:, 1:]
        return cls.from_predictions(
            read_labels(Y, **canvas.marks_of(estimator)),
            to_numpy(probabilities),
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **options,
        )

    def plot(self, ax: Ax = None) -> Self:
        """Draw the shares with intervals, the diagonal, and a histogram of probabilities.

        If the axes already show a model, the histogram is kept and the new model gets another
        colour and marker.
        """
        panel: Any = self._axes(ax, 4.2, 4.6)
        before = sum(line.get_gid() == _CURVE for line in panel.get_lines())
        self.perfect_line_ = None
        if not before:
            plain = {"color": "#666666", "linewidth": 1.0, "linestyle": ":"}
            self.perfect_line_ = panel.plot([0, 100], [0, 100], label=_PERFECT, **plain)[0]
        x, y = 100 * np.asarray(self.probability), 100 * np.asarray(self.share)
        # Because of rounding errors, a share of 0 or 1 may lie outside its interval.
        reach = np.maximum([y - 100 * np.asarray(self.low), 100 * np.asarray(self.high) - y], 0.0)
        style = list(canvas.series_styles([str(i) for i in range(before + 1)]).values())[-1]
        named = f"{self.name}, " if self.name else ""
        label = f"{named}Brier score {self.brier:.3f}"
        look = style | {"elinewidth": 1.0, "capsize": 2.5}
        self.line_ = panel.errorbar(x, y, yerr=reach, label=label, **look)
        self.line_[0].set_gid(_CURVE)
        canvas.tidy(panel, "predicted probability of yes, %", "observed share of yes, %")
        panel.set(xlim=(-2, 102), ylim=(-2, 102))
        canvas.legend(panel, loc="best", title=f"bars: {100 * _CONFIDENCE:g} % intervals")
        self.histogram_ax_ = self.bars_ = None
        if not before:
            from matplotlib.ticker import LogLocator, NullFormatter

            self.histogram_ax_ = margin = canvas.axes_above(panel, 0.8, gap=0.1, sharex=panel)
            width = 100 / len(self.histogram)
            look = {"align": "edge", "edgecolor": "#444444", "linewidth": 0.4, "width": width}
            left = width * np.arange(len(self.histogram))
            self.bars_ = margin.bar(left, self.histogram, color=canvas.COLOURS[4], **look)
            canvas.tidy(margin, "", "entries")
            margin.set_yscale("log")
            margin.yaxis.set_major_locator(LogLocator(numticks=4))
            margin.yaxis.set_minor_formatter(NullFormatter())
            margin.tick_params(labelbottom=False)
        return self


@dataclass(eq=False, repr=False)
class CouplingDisplay(Display):
    r"""Heat map of the label correlation, which is the correlation between label residuals.

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
        The heat map, and the column numbers of the labels in the order in which they are drawn.

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
        cls, estimator: Any, *, label_names: Names = None, max_labels: int = 200, ax: Ax = None
    ) -> Self:
        """Draw the label correlation of an estimator that was fitted with ``coupling``.

        By default, ``label_names`` are the names of the training labels. Only the ``max_labels``
        labels with the strongest correlations are drawn.
        """
        S = to_numpy(estimator.label_covariance_.matrix())
        if (c := len(S)) < 2 or max_labels < 2:
            raise ValueError(f"The plot needs at least two labels, got {c} and {max_labels=}.")
        spread = np.sqrt(np.diag(S))
        correlation = np.clip(S / (spread[:, None] * spread), -1.0, 1.0)
        strength = np.abs(correlation - np.diag(np.diag(correlation))).max(axis=1)
        kept = np.sort(np.argsort(-strength, kind="stable")[:max_labels])
        names = estimator.label_names_ if label_names is None else label_names
        names = canvas.check_names(names, len(S))
        chosen = [names[k] for k in kept]
        return cls(correlation[np.ix_(kept, kept)], label_names=chosen).plot(ax)

    def strongest(self, top: int = 10) -> list[tuple[str, str, float]]:
        """Return the ``top`` pairs of labels with the strongest correlations."""
        rows, columns = np.triu_indices(len(self.correlation), 1)
        values = self.correlation[rows, columns]
        order = np.argsort(-np.abs(values), kind="stable")[:top]
        names = self.label_names
        return [(names[rows[i]], names[columns[i]], float(values[i])) for i in order]

    def plot(self, ax: Ax = None) -> Self:
        """Draw the heat map."""
        names = canvas.check_names(self.label_names, len(self.correlation))
        self.order_ = _together(np.asarray(self.correlation))
        side = float(np.clip(1.5 * canvas.LINE * len(names), 2.2, 9.0))
        panel: Any = self._axes(ax, side + 2.6, side + 1.6)
        picture = np.array(self.correlation, dtype=np.float64)[np.ix_(self.order_, self.order_)]
        np.fill_diagonal(picture, np.nan)  # ones would dominate the colour scale
        # The colour scale is symmetric, so that white means uncorrelated.
        top = max(float(np.nanmax(np.abs(picture))), 0.05)
        panel.patch.set_facecolor("#bbbbbb")
        picture = np.ma.masked_invalid(picture)
        self.image_, self.colorbar_ = canvas.heat_map(
            panel, picture, "correlation of residuals", cmap="RdBu_r", vmin=-top, vmax=top
        )
        canvas.tidy(panel, "", "", grid=False)
        canvas.write_names(panel, [names[k] for k in self.order_], "xy")
        return self


def _together(correlation: Numbers) -> Any:
    """Return an order of labels in which correlated labels are neighbours."""
    if len(correlation) < 3:
        return np.arange(len(correlation))
    far = 1 - (correlation + correlation.T) / 2
    np.fill_diagonal(far, 0.0)
    distances = squareform(np.maximum(far, 0.0), checks=False)
    return leaves_list(optimal_leaf_ordering(linkage(distances, "average"), distances))
