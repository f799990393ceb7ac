"""The rivals of the automatic estimator in benchmarks/study.py.

Every method is a list of hyperparameters; `study.py` chooses among them by the same folds and rule.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from dm2l._solvers.features import ridge_value
from dm2l.baselines import MaskedOneVsRestClassifier, MaskedRidgeClassifier

SECONDS = 60  # limit of AutoGluon, for one label
FOREST = 500  # trees of the forest that is the unit of cost


def _each(estimator: Any, **grid: tuple[Any, ...]) -> list[Any]:
    """One model a label with each value of one parameter."""
    (name, values), *rest = grid.items()
    found = [clone(estimator).set_params(**{name: value}) for value in values]
    for name, values in rest:
        found = [clone(e).set_params(**{name: value}) for e in found for value in values]
    return [MaskedOneVsRestClassifier(each) for each in found]


def _ridges(X: Any) -> list[float]:
    return [ridge_value("scale", X) * share for share in (1 / 30, 0.1, 1 / 3, 1.0, 3.0)]


def _scale(X: Any) -> float:
    square = X.multiply(X).mean() if hasattr(X, "multiply") else np.mean(X * X)
    return float(1 / (X.shape[1] * max(square - X.mean() ** 2, 1e-12)))


# Hyperparameters to try, from the features and the number of trees.
Method = Callable[[Any, int], list[Any]]
METHODS: dict[str, Method] = {
    "masked ridge": lambda X, n: [
        MaskedRidgeClassifier(alpha=a, coupling=None) for a in _ridges(X)
    ],
    "SVM": lambda X, n: _each(SVC(), C=(0.5, 5.0), gamma=(0.3 * _scale(X), _scale(X))),
    "logistic regression": lambda X, n: _each(
        LogisticRegression(max_iter=300), C=(0.01, 0.1, 1.0, 10)
    ),
    "extra trees": lambda X, n: _each(
        ExtraTreesClassifier(n, random_state=0), min_samples_leaf=(1, 3)
    ),
    "random forest": lambda X, n: _each(
        RandomForestClassifier(n, random_state=0), min_samples_leaf=(1, 3)
    ),
}
if find_spec("lightgbm"):
    from lightgbm import LGBMClassifier

    # By default a leaf has 20 rows, and few rows are then hardly split.
    _light = LGBMClassifier(min_child_samples=5, verbose=-1, n_jobs=1, random_state=0)
    METHODS["LightGBM"] = lambda X, n: _each(
        _light, num_leaves=(7,), learning_rate=(0.03, 0.1), min_child_samples=(5, 20)
    )


def autogluon(X: Any, Y: Any, X_test: Any) -> Any:
    """Probabilities by AutoGluon, one predictor per label, with its preset "medium_quality".

    Labels have both classes. Each predictor may take SECONDS.
    """
    import tempfile

    import pandas as pd
    from autogluon.tabular import TabularPredictor

    X, X_test = (pd.DataFrame(Z).add_prefix("x") for Z in (X, X_test))
    P = np.empty((len(X_test), Y.shape[1]))
    for k, y in enumerate(Y.T):
        known = ~np.isnan(y)
        with tempfile.TemporaryDirectory() as folder:
            predictor = TabularPredictor("y", problem_type="binary", path=folder, verbosity=0)
            table = X[known].assign(y=y[known].astype(int))
            options = {"presets": "medium_quality", "time_limit": SECONDS, "num_cpus": 1}
            found = predictor.fit(table, **options).predict_proba(X_test)
            P[:, k] = found[1]
    return P
