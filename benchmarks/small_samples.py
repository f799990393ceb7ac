"""Few rows and rare labels: how strongly the stack shrinks common weights to equal ones.

    python benchmarks/small_samples.py [--ran-on "a machine in words"]

Some percent of the rows of each set are the training rows, without 30 % of their label entries; up
to 1,500 others are the test rows, with all entries. Labels need two observed entries of both
classes. The models of AutoClassifier (60 trees a label, one kernel, none dropped) are fitted once;
the stack is then fitted with several penalties of differences between common weights and equal
ones. Rivals: masked ridge with `alpha` from three folds, and the average of standardized scores of
extra trees and of logistic regression (C=0.1). Numbers are label AUC and log-loss of test entries.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from record import write
from sklearn.linear_model import LogisticRegression

from dm2l import AutoClassifier, DM2LClassifierCV
from dm2l._auto import _base_models, _classifier, _leaderboard, _stack
from dm2l.baselines import MaskedOneVsRestClassifier
from dm2l.datasets import load_dataset
from dm2l.metrics import label_auc

PERCENT = {
    "emotions": (10, 20, 70),
    "yeast": (5, 20),
    "scene": (5, 20),
    "Enron": (5, 20),
    "Corel16k001": (2,),
    "bibtex": (3,),
}
PENALTIES = (1.0, 10.0, 30.0, 100.0, 1000.0)
HIDDEN, TESTED, SEED = 0.3, 1500, 0


def standard(S: Any) -> Any:
    return (S - S.mean(axis=0)) / np.maximum(S.std(axis=0), 1e-9)


def compute(name: str, percent: int) -> dict[str, Any]:
    """Label AUC and log-loss of the stacks and of their rivals."""
    data = load_dataset(name)
    X = data.data.toarray() if sp.issparse(data.data) else np.asarray(data.data)
    Y = np.asarray(data.target, dtype=float)
    order, n = np.random.default_rng(SEED).permutation(len(Y)), len(Y) * percent // 100
    train, test = order[:n], order[n : n + TESTED]
    shown = np.where(
        np.random.default_rng(SEED + 1).random((n, Y.shape[1])) < HIDDEN, np.nan, Y[train]
    )
    counts = [(shown == value).sum(axis=0) for value in (0, 1)]
    both = (np.minimum(*counts) >= 2) & (np.ptp(Y[test], axis=0) > 0)
    rows = ~np.isnan(shown[:, both]).all(axis=1)
    X_train, shown, truth = X[train][rows], shown[np.ix_(rows, both)], Y[np.ix_(test, both)]
    kept: dict[str, Any] = {}

    def spy(context: Any) -> Any:
        kept["found"] = _leaderboard.try_all(context)
        kept["T"] = context.T
        return kept["found"]

    _classifier.try_all = spy
    model = AutoClassifier(random_state=SEED, coupling=None).fit(X_train, shown)
    tried, scores, _ = kept["found"]
    F, F_train = model._features.transform(X[test]), model._features.transform(X_train)
    new = np.stack(
        [
            np.asarray(
                model.models_[one.name]._all_scores(_base_models.rows_for(one.inputs, X[test], F))
            )
            - one.level
            for one in tried
        ]
    )
    shares = np.array([one.shares for one in tried])
    row: dict[str, Any] = {
        "data": name,
        "percent": percent,
        "rows": len(shown),
        "labels": len(truth.T),
    }
    for penalty in PENALTIES:
        _stack.HELD_COMMON = penalty
        stack = _stack.Stack.fit(scores, kept["T"], shares)
        eta = stack.log_odds(new)
        row[f"stack {penalty:g}"] = {
            "auc": float(label_auc(truth, eta)),
            "log_loss": float(np.logaddexp(0, (1 - 2 * truth) * eta).mean()),
            "weights": dict(zip([one.name for one in tried], stack.common.tolist(), strict=True)),
        }
    search = DM2LClassifierCV([0.0], None, kernel="linear", cv=3, coupling=None)
    ridge = search.fit(F_train, shown).best_estimator_.decision_function(F)
    logistic = MaskedOneVsRestClassifier(LogisticRegression(C=0.1, max_iter=300))
    trees = new[[one.name for one in tried].index("extra trees")]
    both_scores = standard(trees) + standard(logistic.fit(F_train, shown).decision_function(F))
    row["masked ridge"] = {"auc": float(label_auc(truth, ridge))}
    row["extra trees and logistic regression"] = {"auc": float(label_auc(truth, both_scores))}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ran-on", help="the machine, in words")
    given = parser.parse_args()
    few = {"trees": 60, "fold_trees": 60, "rounds": 0, "kernels": 1, "sample": 1000}
    _base_models.EFFORTS["normal"] = replace(_base_models.EFFORTS["normal"], **few)
    _leaderboard._helps = lambda *_: True
    _classifier.NEGLIGIBLE = -1.0
    rows = []
    for name, percents in PERCENT.items():
        for percent in percents:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows.append(compute(name, percent))
            print(rows[-1], flush=True)
    path = Path(__file__).parent / "results" / "small_samples.json"
    write(path, {"seed": SEED, "hidden": HIDDEN, "cells": rows}, given.ran_on)


if __name__ == "__main__":
    main()
