"""Models whose files are stored under ``tests/dm2l/stored/models``, one of each kind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dm2l import DM2LClassifier, DM2LClassifierCV
from dm2l.baselines import (
    GLOCALClassifier,
    LEMLClassifier,
    LSMLClassifier,
    MaskedOneVsRestClassifier,
    MaskedRidgeClassifier,
    MLLRCClassifier,
)
from dm2l.datasets import make_missing_multilabel
from dm2l.extreme import ExtremeDM2LClassifier
from dm2l.model_selection import MultilabelKFold

FOLDER = Path(__file__).parent / "dm2l" / "stored" / "models"

# Rows whose answers are stored.
N_STORED = 6


def data() -> Any:
    return make_missing_multilabel(60, 5, 4, n_implications=2, random_state=0)


def _fitted(model: Any) -> Any:
    return model.fit(*data())


def _kernel(**others: Any) -> Any:
    return _fitted(DM2LClassifier(kernel="rbf", **others))


def _approximated(approximation: str) -> Any:
    return _kernel(approximation=approximation, n_components=20, random_state=0)


def _frames() -> Any:
    """Names of features and labels are in the model too."""
    X, Y = data()
    names = [f"feature {j}" for j in range(X.shape[1])]
    labels = [f"label {k}" for k in range(Y.shape[1])]
    model = DM2LClassifier(threshold="f1", cv=MultilabelKFold(3, random_state=0))
    return model.fit(pd.DataFrame(X, columns=names), pd.DataFrame(Y, columns=labels))


def _classes() -> Any:
    X, Y = data()
    return DM2LClassifier().fit(
        X, np.array(["none", "some", "many"])[(Y == 1).sum(axis=1).clip(0, 2)]
    )


def _in_blocks() -> Any:
    X, Y = data()
    return DM2LClassifier().partial_fit(X[:30], Y[:30]).partial_fit(X[30:], Y[30:])


def _extreme() -> Any:
    X, Y = data()
    model = ExtremeDM2LClassifier(rank=3, missing_as="negative")
    return model.fit(X, sp.csr_array(np.nan_to_num(Y)))


MODELS: dict[str, Callable[[], Any]] = {
    "linear": lambda: _fitted(DM2LClassifier()),
    "frames": _frames,
    "classes": _classes,
    "in_blocks": _in_blocks,
    "rbf": _kernel,
    "nystroem": lambda: _approximated("nystroem"),
    "fourier": lambda: _approximated("fourier"),
    "search": lambda: _fitted(DM2LClassifierCV([0.0, 0.3], [1.0, 10.0], cv=3)),
    "search_rbf": lambda: _fitted(DM2LClassifierCV([0.3], [1.0], kernel="rbf", cv=3)),
    "sigmoid": lambda: _fitted(DM2LClassifier(calibration="sigmoid", cv=3)),
    "isotonic": lambda: _fitted(DM2LClassifier(calibration="isotonic", cv=3)),
    "masked_ridge": lambda: _fitted(MaskedRidgeClassifier()),
    "leml": lambda: _fitted(LEMLClassifier(rank=3, random_state=0)),
    "lsml": lambda: _fitted(LSMLClassifier()),
    "mllrc": lambda: _fitted(MLLRCClassifier()),
    "glocal": lambda: _fitted(GLOCALClassifier(n_components=3, n_groups=2, random_state=0)),
    "one_vs_rest": lambda: _fitted(MaskedOneVsRestClassifier(LogisticRegression())),
    "extreme": _extreme,
    "pipeline": lambda: _fitted(make_pipeline(StandardScaler(), DM2LClassifier())),
}


def answers(model: Any, X: Any) -> dict[str, Any]:
    """What a model says about rows."""
    if hasattr(model, "feature_names_in_") and not hasattr(model, "steps"):
        X = pd.DataFrame(X, columns=model.feature_names_in_)
    methods = ("decision_function", "predict_proba", "predict")
    found = {name: getattr(model, name)(X) for name in methods if hasattr(model, name)}
    return {name: value.toarray() if sp.issparse(value) else value for name, value in found.items()}
