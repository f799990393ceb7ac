"""Base models of AutoClassifier that the user passes."""

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from dm2l._auto._base_models import BaseModel, Candidate
from dm2l._auto._score_classifier import ScoreClassifier
from dm2l._auto._stack import Bools
from dm2l._base import MissingLabelClassifier
from dm2l.baselines import MaskedOneVsRestClassifier

_NAMES = ("linear", "logistic regression", "extra trees", "random forest", "boosted trees", "stack")


def check_models(models: Any) -> None:
    """Raise an error unless ``models`` is None or a list of names and estimators."""
    if models is None:
        return
    for pair in models:
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str)):
            raise TypeError(
                f"models must be a list of pairs (name, estimator), got an entry {pair!r}."
            )
    names = [name for name, _ in models]
    for name in names:
        if name in _NAMES or name.endswith(" kernel") or names.count(name) > 1:
            raise ValueError(
                f"The name {name!r} in models is taken. Use distinct names other than "
                f"{', '.join(_NAMES)} and those of kernels."
            )


def user_candidates(models: Any, learnable: Bools, n_jobs: int | None) -> list[Candidate]:
    """Candidates of the ensemble for the ``learnable`` labels."""

    def make(name: str, estimator: Any) -> list[BaseModel]:
        return [_base_model(name, estimator, learnable, n_jobs)]

    return [Candidate(pair[0], 0.0, 0.0, partial(make, *pair)) for pair in models or ()]


def _base_model(name: str, estimator: Any, learnable: Bools, n_jobs: int | None) -> BaseModel:
    settings, model = type(estimator).__name__, estimator
    shares = isinstance(estimator, ScoreClassifier)
    if isinstance(estimator, MissingLabelClassifier):
        model = clone(estimator)
        if shares:  # the others have no column in the labels of the ensemble
            columns = np.arange(len(learnable)) if model.columns is None else model.columns
            model.set_params(columns=np.asarray(columns)[learnable].tolist())
        if model.coupling == "residual":  # the ensemble has its own
            model.set_params(coupling=None)
    else:
        # Without a decision function, scores are 2 p - 1.
        shares = hasattr(estimator, "predict_proba") and not hasattr(estimator, "decision_function")
        model = MaskedOneVsRestClassifier(estimator, n_jobs=n_jobs)
    return BaseModel(name, settings, model, "columns", shares)
