"""What makes the estimators of the protocols, from plain numbers and texts."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from dm2l import DM2LClassifier, DM2LClassifierCV, metrics
from dm2l._solvers.features import column_variances
from dm2l._utils.arrays import is_non_numpy
from dm2l.baselines import LEMLClassifier, LSMLClassifier, MLLRCClassifier, ZeroFillClassifier
from dm2l.model_selection import MultilabelKFold
from experiments.released_glocal import ReleasedGLOCALClassifier
from experiments.staged import StagedSearch

# -- as published -------------------------------------------------------------------------------


def published(kernel: str = "linear", **options: Any) -> DM2LClassifier:
    """DM2L with the released code's solver, step counts and lack of ridge and intercept."""
    return DM2LClassifier.published(kernel, **options)


def leml_as_published() -> LEMLClassifier:
    return LEMLClassifier(20, 1.0, missing="neutral", fit_intercept=False)


def mllrc_as_published() -> MLLRCClassifier:
    return MLLRCClassifier(1e-3, 1.0, 1e-3, missing="neutral", fit_intercept=False)


def glocal_as_published() -> ReleasedGLOCALClassifier:
    return ReleasedGLOCALClassifier(lambda5=0.125, fit_intercept=False)


def lsml_as_published() -> LSMLClassifier:
    return LSMLClassifier(rho=8.0, missing="neutral", fit_intercept=False)


# -- tuned --------------------------------------------------------------------------------------


def searched(lambda_ds: list[float], scoring: str = "quality", **options: Any) -> Pipeline:
    """A search over the observed training labels, by five folds unless the options say."""
    # Scores of the final fit change in the fourth digit below this tolerance.
    effort = {"tol": 1e-4, "search_tol": 1e-4, "search_iter": 10, "cv": 5}
    search = DM2LClassifierCV(lambda_ds, scoring=SCORINGS[scoring], **{**effort, **options})
    return Pipeline([("scale", UnitVarianceScaler()), ("search", StagedSearch(search))])


def missing_as_negative(**options: Any) -> ZeroFillClassifier:
    """A search on labels in which every missing one was read as negative."""
    return ZeroFillClassifier(searched(**options))


def leml_tuned(**grid: Any) -> Pipeline:
    return _grid_search(LEMLClassifier(), grid)


def mllrc_tuned(**grid: Any) -> Pipeline:
    return _grid_search(MLLRCClassifier(), grid)


def lsml_tuned(**grid: Any) -> Pipeline:
    return _grid_search(LSMLClassifier(), grid)


def _grid_search(estimator: Any, grid: dict[str, Any]) -> Pipeline:
    """A grid search over five folds of the observed training labels."""
    search = GridSearchCV(estimator, grid, scoring=score, cv=MultilabelKFold(5), refit=True)
    return Pipeline([("scale", UnitVarianceScaler()), ("search", search)])


# -- scorings -----------------------------------------------------------------------------------


def quality(Y: Any, scores: Any) -> float:
    """Average precision (the top of a ranking) minus ranking loss (all of it), to be maximized."""
    precision: Any = metrics.label_ranking_average_precision(Y, scores, estimate=False)
    return float(precision + neg_ranking_loss(Y, scores))


def neg_ranking_loss(Y: Any, scores: Any) -> float:
    """Ranking loss of the observed labels, its sign turned."""
    loss: Any = metrics.ranking_loss(Y, scores, estimate=False)
    return -float(loss)


def score(estimator: Any, X: Any, Y: Any) -> float:
    """Quality of an estimator's scores, for scikit-learn's searches."""
    return quality(Y, estimator.decision_function(X))


SCORINGS = {"quality": quality, "neg_ranking_loss": neg_ranking_loss}

# -- scale --------------------------------------------------------------------------------------


class UnitVarianceScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Divide all features by one number, so that their variances add up to 1.

    Distances between rows are then about 1 whatever the data set, so that one grid of ``gamma``
    and ``alpha`` serves all: ``gamma = 1`` is scikit-learn's "scale" for centred features.
    """

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        X = self._checked(X, reset=True)
        total = float(column_variances(X).sum())
        self.scale_ = float(np.sqrt(total)) if total > 0 else 1.0
        return self

    def transform(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._checked(X, reset=False) / self.scale_

    def _checked(self, X: Any, *, reset: bool) -> Any:
        if is_non_numpy(X):
            return X
        return validate_data(
            self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=reset
        )
