"""A metric along the path over lambda_d."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dm2l.plots._canvas import (
    FONT,
    METRIC_NAMES,
    WIDTH,
    Display,
    Numbers,
    legend,
    series_styles,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SYMBOLS = {"alpha": r"$\alpha$", "gamma": r"$\gamma$"}
_MOST_NUMBERS = 8  # on the axis
_ZOOM = 6  # times the median distance from the chosen setting are in the picture
_DODGE, _MOST = 0.07, 0.35  # from line to line and in all, of the distance between two lambda_d


@dataclass(eq=False, repr=False)
class PathDisplay(Display):
    """Cross-validated metric over ``lambda_d``, one line per ``alpha`` and ``gamma``.

    Error bars are one standard error of the mean over folds: settings whose bars overlap widely
    are hard to tell apart on this data. The ring marks the setting that was chosen. The axis is
    logarithmic; ``lambda_d = 0``, masked ridge, stands apart at its left end.

    Parameters
    ----------
    lambda_ds : ndarray of shape (n_lambdas,)
        In rising order.
    means, errors : ndarray of shape (n_curves, n_lambdas)
        Mean and standard error of the metric; nan where a setting was not tried, or where one
        fold alone gives no error.
    settings : sequence of dict
        The other parameters of each curve.
    chosen : tuple of int, default=None
        Curve and place on it of the setting that was chosen.
    metric : str, default="score"
        What was measured, as a scorer is called; ``neg_`` has been turned back.
    n_splits : int, default=None
        Folds, for the legend.

    Attributes
    ----------
    lines_ : list of matplotlib.container.ErrorbarContainer
        One per curve.
    chosen_ : matplotlib.lines.Line2D or None
        The ring.

    Examples
    --------
    >>> from dm2l import DM2LClassifierCV
    >>> from dm2l.datasets import make_missing_multilabel
    >>> from dm2l.plots import PathDisplay
    >>> X, Y = make_missing_multilabel(n_samples=200, random_state=0)[:2]
    >>> search = DM2LClassifierCV(lambda_ds=[0, 0.1, 1], alphas=[1.0, 10.0], cv=3).fit(X, Y)
    >>> display = PathDisplay.from_estimator(search)
    >>> display.means.shape, display.settings
    ((2, 3), [{'alpha': 1.0}, {'alpha': 10.0}])
    >>> curve, place = display.chosen
    >>> bool(display.means[curve, place] == search.best_score_)
    True
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
        scoring = getattr(search, "scoring", None)
        metric = scoring if isinstance(scoring, str) else "score"
        best = getattr(search, "best_index_", None)
        return cls.from_results(search.cv_results_, best_index=best, metric=metric, ax=ax)

    @classmethod
    def from_results(
        cls,
        cv_results: Mapping[str, Any],
        *,
        best_index: int | None = None,
        metric: str = "score",
        ax: Axes | None = None,
    ) -> Self:
        """Draw the ``cv_results_`` of a search.

        Parameters
        ----------
        cv_results : mapping of str to array
            With ``param_lambda_d``, other ``param_*``, ``split*_test_score`` and ``params``.
        best_index : int, default=None
            The setting that was chosen.
        metric : str, default="score"
            Name of the scorer. The sign of a loss, ``neg_...``, is turned back.
        """
        by_step = {
            key.removeprefix("param_").split("__")[-1]: key
            for key in cv_results
            if key.startswith("param_")
        }
        if "lambda_d" not in by_step:
            raise ValueError(
                "cv_results has no param_lambda_d: the path needs a search over lambda_d, such as "
                "DM2LClassifierCV."
            )
        lambdas = np.asarray(cv_results[by_step.pop("lambda_d")], dtype=np.float64)
        sign = -1.0 if metric.startswith("neg_") else 1.0
        splits = [
            key for key in cv_results if key.startswith("split") and key.endswith("_test_score")
        ]
        if not splits:
            raise ValueError(
                "cv_results has no split0_test_score: of a search with several metrics make one "
                "dict for each, with the keys of a single one."
            )
        scores = sign * np.array([cv_results[key] for key in splits], dtype=np.float64)
        values, places = np.unique(lambdas, return_inverse=True)
        settings: list[dict[str, Any]] = []
        rows: list[tuple[int, int]] = []
        for i, place in enumerate(places):
            other = {name: _plain(cv_results[key][i]) for name, key in by_step.items()}
            if other not in settings:
                settings.append(other)
            rows.append((settings.index(other), int(place)))
        means = np.full((len(settings), len(values)), np.nan)
        errors = means.copy()
        for at, column in zip(rows, scores.T, strict=True):
            seen = column[np.isfinite(column)]
            means[at] = seen.mean() if len(seen) else np.nan
            errors[at] = seen.std(ddof=1) / np.sqrt(len(seen)) if len(seen) > 1 else np.nan
        display = cls(
            values,
            means=means,
            errors=errors,
            settings=settings,
            chosen=None if best_index is None else rows[best_index],
            metric=metric.removeprefix("neg_"),
            n_splits=len(splits),
        )
        return display.plot(ax)

    def plot(self, ax: Axes | None = None, *, zoom: bool = True) -> Self:
        """Draw the lines, their errors and the ring.

        Parameters
        ----------
        zoom : bool, default=True
            Whether lines may leave the picture at settings that fail, so that those near the one
            that was chosen can be told apart. The legend counts them.
        """
        panel: Any = self._axes(ax, width=WIDTH)
        lambdas = np.asarray(self.lambda_ds, dtype=np.float64)
        x, step = _positions(lambdas)
        names = [_in_words(setting) for setting in self.settings]
        dodge = min(_DODGE, _MOST / max(len(names) - 1, 1))
        self.lines_ = []
        for i, style in enumerate(series_styles([str(i) for i in range(len(names))]).values()):
            aside = step ** (dodge * (i - (len(names) - 1) / 2))  # bars side by side
            look = style | {"elinewidth": 0.8, "capsize": 2.0, "markersize": 4.5}
            errors = np.nan_to_num(self.errors[i])
            drawn = panel.errorbar(x * aside, self.means[i], yerr=errors, label=names[i], **look)
            self.lines_.append(drawn)
        self.chosen_ = None
        title = "mean ± standard error"
        if self.n_splits is not None:
            title += f" of {self.n_splits} folds"
        if self.chosen is not None:
            curve, place = self.chosen
            words = ", ".join(filter(None, [rf"$\lambda_d$ = {lambdas[place]:.3g}", names[curve]]))
            ring = {"marker": "o", "markersize": 13, "markerfacecolor": "none", "zorder": 5}
            ring |= {"markeredgewidth": 1.8, "color": "black", "linestyle": "none"}
            at = self.lines_[curve][0].get_xydata()[place]
            self.chosen_ = panel.plot(*at, label=f"chosen: {words}", **ring)[0]
            n_outside = self._zoom(panel) if zoom else 0
            if n_outside:
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


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _in_words(setting: Mapping[str, Any]) -> str:
    shown = {n: f"{v:.3g}" if isinstance(v, float) else str(v) for n, v in setting.items()}
    return ", ".join(f"{_SYMBOLS.get(name, name)} = {value}" for name, value in shown.items())


def _positions(lambdas: Numbers) -> tuple[Numbers, float]:
    """Places on a logarithmic axis, with one for 0, and the usual factor between them."""
    positive = lambdas[lambdas > 0]
    ratios = positive[1:] / positive[:-1]
    step = float(np.median(ratios)) if len(ratios) else 10.0
    least = positive[0] if len(positive) else 1.0
    return np.where(lambdas > 0, lambdas, least / step**1.5), step


def _write_lambdas(ax: Any, x: Numbers, lambdas: Numbers) -> None:
    """Numbers at the values that were tried, as many as fit, and a cut in the axis after 0."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    places = np.log10(x)
    kept = [0]
    for i in range(1, len(x)):
        if places[i] - places[kept[-1]] >= (places[-1] - places[0]) / _MOST_NUMBERS:
            kept.append(i)
    ax.xaxis.set_major_locator(FixedLocator(x[kept].tolist()))
    ax.xaxis.set_major_formatter(FixedFormatter([f"{lambdas[i]:.3g}" for i in kept]))
    ax.xaxis.set_minor_locator(NullLocator())
    if lambdas[0] == 0 and len(x) > 1:
        cut = {"ha": "center", "va": "center", "fontsize": FONT}
        ax.text(float(np.sqrt(x[0] * x[1])), 0, "//", transform=ax.get_xaxis_transform(), **cut)
