"""Convergence of the objective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dm2l.plots._canvas import Display, Numbers, legend, series_styles, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class ConvergenceDisplay(Display):
    """Distance of the objective from the lowest value known, after each iteration.

    The axis is logarithmic, so a straight line gains a digit at a steady rate. A point at
    the lowest value itself has no place on it: a line ends one step before.

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
    >>> from dm2l import DM2LClassifier
    >>> from dm2l.datasets import make_missing_multilabel
    >>> from dm2l.plots import ConvergenceDisplay
    >>> X, Y = make_missing_multilabel(n_samples=200, random_state=0)[:2]
    >>> models = {solver: DM2LClassifier(solver=solver).fit(X, Y) for solver in ("lbfgs", "cccp")}
    >>> display = ConvergenceDisplay.from_estimators(models)
    >>> list(display.lines_)
    ['lbfgs', 'cccp']
    >>> bool((display.distance("cccp") >= 0).all())
    True
    """

    histories: Mapping[str, Numbers]
    _: KW_ONLY
    lowest: float | Mapping[str, float]
    evaluations: Mapping[str, int] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        name: str | None = None,
        lowest: float | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the course of one fitted estimator, or of the last step of a pipeline.

        ``name`` is for the legend, by default the class; ``lowest`` as in :meth:`from_estimators`.
        """
        named = {name or type(_last_step(estimator)).__name__: estimator}
        return cls.from_estimators(named, lowest=lowest, ax=ax)

    @classmethod
    def from_estimators(
        cls,
        estimators: Mapping[str, Any],
        *,
        lowest: float | str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the courses of several fitted estimators.

        Parameters
        ----------
        estimators : mapping of str to estimator
            By name; each has ``objective_history_``.
        lowest : float, "each" or None, default=None
            What distances are measured from. None: the lowest value that any of them has reached,
            right for solvers of one objective. "each": the lowest of each, for models whose
            objectives differ. A number: what a longer run has reached.
        """
        if not hasattr(estimators, "items") or not estimators:
            raise ValueError(
                f"estimators must be a dict of names to fitted estimators, got {estimators!r}."
            )
        steps = {name: _last_step(estimator) for name, estimator in estimators.items()}
        histories = {name: _history(step) for name, step in steps.items()}
        reached = {name: float(history.min()) for name, history in histories.items()}
        known: float | dict[str, float]
        if lowest is None:
            known = min(reached.values())
        elif isinstance(lowest, str):
            if lowest != "each":
                raise ValueError(f"lowest must be a number, 'each' or None, got {lowest!r}.")
            known = reached
        else:
            known = float(lowest)
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
        panel: Any = self._axes(ax)
        self.lines_ = {}
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
    history = np.asarray(estimator.objective_history_, dtype=np.float64)
    if not len(history) or not np.isfinite(history).all():
        raise ValueError(
            f"objective_history_ of {estimator!r} has values that are not finite: {history!r}."
        )
    return history
