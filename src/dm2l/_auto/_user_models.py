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

_NAMES = {"linear", "kernel", "logistic", "logistic regression", "stack"}
_NAMES |= {"extra trees", "random forest", "boosted trees"}


def user_candidates(models: Any, learnable: Bools, n_jobs: int | None) -> list[Candidate]:
    """Candidates of the ensemble for the ``learnable`` labels, from names and estimators."""
    found: dict[str, Candidate] = {}
    for pair in models or ():
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str)):
            raise TypeError(f"models must be a list of pairs (name, estimator), got {pair!r}.")
        name, estimator = pair
        if name in _NAMES or name.endswith(" kernel") or name in found:
            raise ValueError(f"models has the name {name!r} of another model. Pass another name.")
        make = partial(_base_models, name, estimator, learnable, n_jobs)
        found[name] = Candidate(name, 0.0, 0.0, make)
    return list(found.values())


def _base_models(name: str, model: Any, learnable: Bools, n_jobs: int | None) -> list[BaseModel]:
    settings, shares = type(model).__name__, isinstance(model, ScoreClassifier)
    if isinstance(model, MissingLabelClassifier):
        model = clone(model)
        if shares:  # the ensemble has learnable labels only
            columns = np.arange(len(learnable)) if model.columns is None else model.columns
            model.set_params(columns=np.asarray(columns)[learnable].tolist())
        if model.coupling == "residual":  # the ensemble has its own
            model.set_params(coupling=None)
    else:  # without a decision function, scores are 2 p - 1
        shares = hasattr(model, "predict_proba") and not hasattr(model, "decision_function")
        model = MaskedOneVsRestClassifier(model, n_jobs=n_jobs)
    return [BaseModel(name, settings, model, "columns", shares)]
