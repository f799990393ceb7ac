"""Which settings suit a table, by cross-validation on what is observed, and the fit with them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from dm2l._auto._classifier import AutoClassifier
from dm2l._classifier import DM2LClassifier
from dm2l._search._search import DM2LClassifierCV, usual_scoring
from dm2l._utils.extras import require
from dm2l.labels import ConstantLabelWarning
from dm2l.model_selection import MultilabelKFold
from dm2l.tables._kinds import ColumnUse
from dm2l.tables._preparation import codes_of, preparation

# A kernel is exact up to this many rows; beyond, this many of its columns stand for it. Settings
# are chosen with fewer: a search fits dozens of times.
EXACT_ROWS, COMPONENTS = 10_000, 2000
SEARCH_ROWS, SEARCH_COMPONENTS = 1000, 500
LAMBDAS = (0.0, 0.02, 0.1, 0.3, 1.0, 3.0)

Tell = Callable[[str], None]


@dataclass(frozen=True)
class FitOptions:
    """What the caller has fixed, and how the rest is chosen.

    Attributes
    ----------
    kernel : {"auto", "linear", "rbf", "tanimoto"}
        "auto" leaves everything to :class:`dm2l.AutoClassifier`, unless a setting of DM2L is given
        (``lambda_d``, ``alpha``, ``scoring``): then linear and rbf are tried.
    lambda_d, alpha : float or None
        Settings; None searches.
    effort : {"quick", "normal", "best"}
        Of the automatic estimator.
    calibration : {"sigmoid", "isotonic"}
        Curve from scores to probabilities.
    scoring : str or None
        What the search maximises, see :func:`dm2l.model_selection.get_scorer_names`. None:
        "ranking_and_discrimination", or "label_discrimination" if rows have less than one positive
        on average.
    folds : int
        Folds of the search and of the calibration.
    seed : int
        Seed of all folds and masks.
    coupling : {"residual", "joint"} or None
        How the known labels of a row have a say in its holes, see :class:`dm2l.DM2LClassifier`.
    blank : {"missing", "unlabelled"}
        What a label that says nothing means: nobody looked; or it was not ticked, and may be
        positive all the same (:doc:`/ticks`). The latter is DM2L alone, without a search for
        ``lambda_d`` and ``alpha``.
    """

    kernel: str = "auto"
    lambda_d: float | None = None
    alpha: float | None = None
    calibration: str = "sigmoid"
    scoring: str | None = None
    folds: int = 5
    seed: int = 0
    coupling: str | None = "residual"
    effort: str = "normal"
    blank: str = "missing"

    @property
    def ticks(self) -> bool:
        """Whether what is not ticked may be positive."""
        return self.blank == "unlabelled"

    @property
    def automatic(self) -> bool:
        """Whether nothing of DM2L's own settings is fixed."""
        fixed = (self.lambda_d, self.alpha, self.scoring) != (None,) * 3
        return self.kernel == "auto" and not fixed and not self.ticks

    @property
    def kernels(self) -> Sequence[str]:
        """Kernels to try where some of DM2L's settings are fixed."""
        return ("linear", "rbf") if self.kernel == "auto" else (self.kernel,)

    def metric(self, Y: NDArray[np.float64]) -> str:
        """The name of what is maximised."""
        if self.scoring is not None:
            return self.scoring
        if self.ticks:
            return "neg_ranking_loss" if Y.shape[1] > 1 else "label_auc"
        return usual_scoring(Y == 1, Y == 0)

    def splitter(
        self, Y: NDArray[np.float64], groups: NDArray[np.intp] | None = None
    ) -> MultilabelKFold:
        """Folds, no more of them than rows, or groups of rows, with something observed."""
        seen = (~np.isnan(Y)).any(axis=1)
        most = int(seen.sum()) if groups is None else len(np.unique(groups[seen]))
        folds = max(2, min(self.folds, most))
        return MultilabelKFold(folds, random_state=self.seed, groups=groups)


@dataclass(frozen=True)
class Hyperparameters:
    """The settings of a model and their mean score in the search, None if there was none."""

    kernel: str
    lambda_d: float
    alpha: float
    score: float | None

    def model(
        self, wishes: FitOptions, Y: NDArray[np.float64], groups: Any = None
    ) -> DM2LClassifier:
        """The estimator, to be fitted."""
        return DM2LClassifier(
            self.lambda_d,
            self.alpha,
            kernel=self.kernel,
            calibration=wishes.calibration,
            coupling=wishes.coupling,
            cv=wishes.splitter(Y, groups),
            missing_as="unlabelled" if wishes.ticks else None,
            random_state=wishes.seed,
            **_approximation(self.kernel, len(Y)),
        )


def _approximation(kernel: str, n_rows: int, *, search: bool = False) -> dict[str, Any]:
    """Arguments that keep a kernel of many rows affordable."""
    if kernel == "linear" or n_rows <= (SEARCH_ROWS if search else EXACT_ROWS):
        return {}
    return {
        "approximation": "nystroem",
        "n_components": SEARCH_COMPONENTS if search else COMPONENTS,
    }


def check_learnable(Y: NDArray[np.float64], where: str, *, ticks: bool = False) -> None:
    """Raise if no label shows both answers; or, with ``ticks``, none shows a positive."""
    both = (Y == 1).any(axis=0) & ((Y == 0).any(axis=0) | ticks)
    if both.any():
        return
    if not np.isfinite(Y).any():
        raise ValueError(f"{where}: nothing is observed in any label; there is nothing to learn.")
    what = "no" if (Y == 1).any() else "yes"
    raise ValueError(
        f"{where}: no label has both a yes and a no among its observed entries, so there is "
        f"nothing to tell apart. Some entries must say {what}: if a blank in rows that somebody "
        f"looked at means {what}, write it there. Where only positives are ever written down, "
        "--blank unlabelled learns from them."
    )


def choose_settings(
    X: Any, Y: NDArray[np.float64], wishes: FitOptions, tell: Tell | None = None, groups: Any = None
) -> Hyperparameters:
    """Search what is not fixed, on prepared features.

    The kernel is the one whose masked ridge (``lambda_d = 0``) does better, which is much cheaper
    to find out than with a path over ``lambda_d`` for each. Then comes the grid of ``lambda_d`` and
    ``alpha`` for that kernel.
    """
    alphas = None if wishes.alpha is None else [wishes.alpha]
    lambdas = LAMBDAS if wishes.lambda_d is None else (wishes.lambda_d,)
    if wishes.ticks:
        # The fit finds its own ridge, and the norms gave little (ranking loss of Image, linear:
        # 0.1758 with 0.3, 0.1765 without).
        alphas, lambdas = alphas or [1.0], (0.0,) if wishes.lambda_d is None else lambdas
    kernels = wishes.kernels

    def search(kernel: str, lambda_ds: Sequence[float]) -> Hyperparameters:
        if tell is not None:
            tell(f"searching settings of the {kernel} model")
        result = DM2LClassifierCV(
            lambda_ds,
            alphas,
            kernel=kernel,
            scoring=wishes.metric(Y),
            **_approximation(kernel, len(Y), search=True),
            cv=wishes.splitter(Y, groups),
            missing_as="unlabelled" if wishes.ticks else None,
            refit=False,
            random_state=wishes.seed,
        ).fit(X, Y)
        return Hyperparameters(kernel, result.lambda_d_, result.alpha_, result.best_score_)

    if len(kernels) == 1:
        if alphas is not None and len(lambdas) == 1:
            return Hyperparameters(kernels[0], lambdas[0], alphas[0], None)
        return search(kernels[0], lambdas)
    ridges = [search(kernel, [0.0]) for kernel in kernels]
    best = max(ridges, key=lambda found: -np.inf if found.score is None else found.score)
    return best if tuple(lambdas) == (0.0,) else search(best.kernel, lambdas)


def fit_pipeline(
    inputs: Any,
    uses: Sequence[ColumnUse] | None,
    Y: NDArray[np.float64],
    wishes: FitOptions,
    *,
    label_names: Sequence[str] | None = None,
    groups: NDArray[np.intp] | None = None,
    tell: Tell | None = None,
) -> tuple[Pipeline, Hyperparameters | None]:
    """A fitted pipeline of ``columns`` and ``labels``, and the settings that were chosen.

    The settings are None where the automatic estimator has chosen: they are many, and its own.
    Folds keep ``groups`` of rows together; the model that is left knows nothing of them.
    """
    columns = preparation(uses, inputs, raw=wishes.automatic)
    X = columns.fit_transform(inputs)
    settings, model = None, _automatic(wishes, Y, codes_of(columns), groups)
    if not wishes.automatic:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConstantLabelWarning)  # the final fit says it once
            settings = choose_settings(X, Y, wishes, tell, groups)
        model = settings.model(wishes, Y, groups)
        if tell is not None:
            tell("fitting and calibrating")
    labels: Any = Y
    if label_names is not None:
        labels = require("pandas", "io").DataFrame(Y, columns=list(label_names))
    if wishes.automatic:
        model._fit_reporting(X, labels, tell)
    else:
        model.fit(X, labels)
    if groups is not None:
        model.cv = wishes.splitter(Y)
    return Pipeline([("columns", columns), ("labels", model)]), settings


def _automatic(wishes: FitOptions, Y: NDArray[np.float64], codes: list[int], groups: Any) -> Any:
    usual = groups is None and wishes.folds == FitOptions.folds
    return AutoClassifier(
        wishes.effort,
        categorical_features=codes or None,
        coupling=wishes.coupling,
        # The usual number is that of the effort.
        cv=None if usual else wishes.splitter(Y, groups),
        n_jobs=-1,
        random_state=wishes.seed,
    )


def take(inputs: Any, rows: NDArray[np.intp]) -> Any:
    """Rows of a data frame or of a matrix."""
    return inputs.iloc[rows] if hasattr(inputs, "iloc") else inputs[rows]
