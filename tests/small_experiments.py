"""Experiments of a second: two data sets, two methods; and rows as protocols store them."""

import functools

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dm2l import DM2LClassifier, DM2LClassifierCV
from dm2l.baselines import MaskedOneVsRestClassifier, MaskedRidgeClassifier
from dm2l.datasets import make_missing_multilabel
from dm2l.metrics import ranking_loss
from dm2l.model_selection import MultilabelKFold
from experiments.protocols import Method, Protocol
from experiments.published import BY_NAME
from experiments.results import Results

# Without coupling, which takes longer than the rest on so few rows and changes no score.
RIDGE = Method("ridge", MaskedRidgeClassifier, {"alpha": 1.0, "coupling": None})
SEARCH = Method(
    "search",
    DM2LClassifierCV,
    {"lambda_ds": [0.0, 0.5], "alphas": [0.1, 10.0], "cv": 2, "coupling": None},
)
BROKEN = Method("broken", DM2LClassifier, {"lambda_d": -1.0})

# What differs between two runs of the same thing.
CIRCUMSTANCES = ("seconds", "seconds_fit", "seconds_score", "peak_memory", "started")


class Spy(BaseEstimator):
    """Keeps what it is given; scores are the first columns of X."""

    seen: list = []  # noqa: RUF012 - shared by all clones, on purpose

    def __init__(self, random_state=None, note=""):
        self.random_state = random_state
        self.note = note

    def fit(self, X, Y):
        self.n_labels_ = Y.shape[1]
        Spy.seen.append((X, Y, self.random_state))
        return self

    def decision_function(self, X):
        return X[:, : self.n_labels_]


def archive(folder, name, seed=0, n=60, X=None, Y=None):
    made = make_missing_multilabel(n, 8, 5, rho=1.0, random_state=seed)
    np.savez(folder / f"{name}.npz", X=made[0] if X is None else X, Y=made[1] if Y is None else Y)


def tiny(*methods, **settings):
    options = {"datasets": ("one", "two"), "rates": (1.0, 0.4), "repetitions": 2, **settings}
    return Protocol("tiny", methods=methods or (RIDGE, SEARCH), **options)


def lasting(rows, *but):
    """Rows without what differs between two runs."""
    left_out = (*CIRCUMSTANCES, *but)
    return [{k: v for k, v in row.items() if k not in left_out} for row in rows]


def grid(**changes):
    pipeline = make_pipeline(StandardScaler(), MaskedOneVsRestClassifier(RandomForestClassifier(5)))
    options = {
        "param_grid": {"maskedonevsrestclassifier__estimator__max_depth": np.array([2, 3])},
        "cv": MultilabelKFold(3, random_state=1),
        "scoring": functools.partial(ranking_loss, convention="published"),
        **changes,
    }
    return GridSearchCV(pipeline, **options)


# -- rows ---------------------------------------------------------------------------------------


class Rows:
    """Rows of results, one for each value of a measure or of several; None: there is no row."""

    def __init__(self):
        self.rows = []

    def add(self, dataset, method, values, *, rate=1.0, mask=None, measure="Rkl", **others):
        mask = mask or ("none" if rate == 1 else "per_row")
        for repetition, value in enumerate(values):
            if value is None:
                continue
            found = value if isinstance(value, dict) else {measure: value}
            self.rows.append(
                {
                    "protocol": "p",
                    "dataset": dataset,
                    "mask": mask,
                    "rate": float(rate),
                    "repetition": repetition,
                    "method": method,
                    "settings": "{}",
                    "split": "test_size=0.4",
                    "data": "0123",
                    "n_train": 60,
                    "n_test": 40,
                    "device": "cpu",
                    "seconds_fit": None,
                    **{BY_NAME[name].column: v for name, v in found.items()},
                    **others,
                }
            )

    def frame(self):
        return pd.DataFrame(self.rows)

    def results(self, protocols="p", mask=None):
        return Results(self.frame(), protocols, mask)
