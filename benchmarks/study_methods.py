"""What a user would pick instead of the automatic estimator, for benchmarks/study.py.

Every method is a list of settings; `study.py` chooses among them by the same folds and rule.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from dm2l import DM2LClassifier
from dm2l._solvers.features import ridge_value
from dm2l.baselines import (
    LEMLClassifier,
    LSMLClassifier,
    MaskedOneVsRestClassifier,
    MaskedRidgeClassifier,
)

DENSE = 5000  # columns beyond which a method that has to write zeros out is left out
PER_LABEL = 60  # labels beyond which one model a label is left out
JOINT = 100  # labels beyond which their covariance is not learnt with the weights


class Chain(ClassifierMixin, BaseEstimator):
    """A classifier chain of forests on labels whose holes were filled with no."""

    def __init__(self, min_samples_leaf: int = 1) -> None:
        self.min_samples_leaf = min_samples_leaf

    def fit(self, X: Any, Y: Any) -> Chain:
        Y = np.nan_to_num(Y).astype(int)
        self.both_ = Y.any(axis=0)
        forest = RandomForestClassifier(100, min_samples_leaf=self.min_samples_leaf, random_state=0)
        self.chain_ = ClassifierChain(forest, order="random", random_state=0)
        if self.both_.any():
            self.chain_.fit(X, Y[:, self.both_])
        return self

    def decision_function(self, X: Any) -> Any:
        scores = np.full((X.shape[0], len(self.both_)), -1.0)
        if self.both_.any():
            scores[:, self.both_] = 2 * self.chain_.predict_proba(X) - 1
        return scores


class MaskedMLP(ClassifierMixin, BaseEstimator):
    """A network with one hidden layer and an output a label; holes are left out of the loss."""

    def __init__(self, hidden: int = 256, decay: float = 1e-4, epochs: int = 40) -> None:
        self.hidden = hidden
        self.decay = decay
        self.epochs = epochs

    def fit(self, X: Any, Y: Any) -> MaskedMLP:
        import torch

        torch.manual_seed(0)
        torch.set_num_threads(1)
        X, T = torch.tensor(X, dtype=torch.float32), torch.tensor(Y, dtype=torch.float32)
        known = ~torch.isnan(T)
        T = torch.nan_to_num(T)
        self.net_ = torch.nn.Sequential(
            torch.nn.Linear(X.shape[1], self.hidden),
            torch.nn.ReLU(),
            torch.nn.Dropout(0.3),
            torch.nn.Linear(self.hidden, T.shape[1]),
        )
        steps = torch.optim.AdamW(self.net_.parameters(), lr=1e-3, weight_decay=self.decay)
        loss = torch.nn.BCEWithLogitsLoss(reduction="none")
        self.net_.train()
        for _ in range(self.epochs):
            for rows in torch.randperm(len(X)).split(64):
                steps.zero_grad()
                part = loss(self.net_(X[rows]), T[rows])[known[rows]]
                if len(part):
                    part.mean().backward()
                    steps.step()
        self.net_.eval()
        return self

    def decision_function(self, X: Any) -> Any:
        import torch

        with torch.no_grad():
            return self.net_(torch.tensor(X, dtype=torch.float32)).numpy().astype(np.float64)


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


def _kernel(X: Any, weights: tuple[float, ...], coupling: str | None = None) -> list[Any]:
    return [
        DM2LClassifier(d, a, kernel="rbf", gamma=g * _scale(X), coupling=coupling)
        for g in (0.3, 1.0)
        for a in (0.1, 1.0)
        for d in weights
    ]


Method = Callable[[Any], list[Any]]
METHODS: dict[str, Method] = {
    "masked ridge": lambda X: [MaskedRidgeClassifier(alpha=a, coupling=None) for a in _ridges(X)],
    "logistic regression": lambda X: _each(
        LogisticRegression(max_iter=300), C=(0.01, 0.1, 1.0, 10)
    ),
    "kNN": lambda X: _each(KNeighborsClassifier(weights="distance"), n_neighbors=(5, 15, 40)),
    "SVM rbf": lambda X: _each(SVC(), C=(0.5, 5.0), gamma=(0.3 * _scale(X), _scale(X))),
    "random forest": lambda X: _each(
        RandomForestClassifier(500, random_state=0), min_samples_leaf=(1, 3)
    ),
    "extra trees": lambda X: _each(
        ExtraTreesClassifier(500, random_state=0), min_samples_leaf=(1, 3)
    ),
    "hist boosting": lambda X: [
        MaskedOneVsRestClassifier(
            HistGradientBoostingClassifier(
                learning_rate=rate, max_leaf_nodes=leaves, early_stopping=False, random_state=0
            )
        )
        for rate, leaves in ((0.1, 7), (0.03, 31))
    ],
    "chain of forests": lambda X: [Chain(1), Chain(3)],
    "LEML": lambda X: [LEMLClassifier(r, a) for r in (10, 40) for a in (3.0, 30.0)],
    "LSML": lambda X: [LSMLClassifier()],
    "masked MLP": lambda X: [MaskedMLP(decay=decay) for decay in (1e-4, 1e-2, 1e-1)],
    "DM2L linear": lambda X: [
        DM2LClassifier(d, a, coupling=None) for a in _ridges(X)[1:] for d in (0.0, 0.3, 1.5)
    ],
    "kernel ridge": lambda X: _kernel(X, (0.0,)),
    "DM2L rbf": lambda X: _kernel(X, (0.0, 0.3, 1.5)),
    "DM2L rbf, joint": lambda X: _kernel(X, (0.0, 0.3, 1.5), "joint"),
}


def _boosters() -> None:
    """Those that are installed."""
    if find_spec("lightgbm"):
        from lightgbm import LGBMClassifier

        light = LGBMClassifier(n_estimators=100, verbose=-1, n_jobs=1, random_state=0)
        METHODS["LightGBM"] = lambda X: _each(light, num_leaves=(7, 31), learning_rate=(0.03, 0.1))
    if find_spec("xgboost"):
        from xgboost import XGBClassifier

        extreme = XGBClassifier(n_estimators=100, n_jobs=1, random_state=0)
        METHODS["XGBoost"] = lambda X: _each(extreme, max_depth=(3, 6), learning_rate=(0.03, 0.1))


_boosters()


def left_out(name: str, shape: tuple[int, int], n_labels: int) -> str:
    """Why a method is not run on a set; blank if it is."""
    if name == "masked MLP" and not find_spec("torch"):
        return "torch is not installed"
    if name in ("hist boosting", "masked MLP", "LSML") and shape[1] > DENSE:
        return f"{shape[1]} columns, sparse"
    if name == "DM2L rbf, joint" and n_labels > JOINT:
        return f"{n_labels} labels, their covariance"
    single = name in ("logistic regression", "kNN", "SVM rbf", "random forest", "extra trees")
    boosted = name in ("hist boosting", "LightGBM", "XGBoost", "chain of forests")
    if n_labels > PER_LABEL and (single or boosted):
        return f"{n_labels} labels, one model each"
    return ""
