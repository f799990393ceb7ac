"""Whether ScoreClassifier recognises in-sample scores, and accepts out-of-fold scores.

    python benchmarks/in_sample.py --out benchmarks/results/in_sample.jsonl [--seeds 20]
    python benchmarks/in_sample.py --out benchmarks/results/in_sample.jsonl --summary

A trial is a seed, which selects a data set, 30 or 70 % observed labels, and labels that are missing
at random or depending on features. A random forest, boosted trees (on dense data) and a logistic
regression with little regularisation (on data with more columns than known rows) are fitted to all
rows, which gives in-sample scores, and in five folds. Two models hardly overfit, so that their
in-sample scores are as uncertain for known entries as for others: "few columns" is a logistic
regression on data with fewer columns than known rows, and "rare words" are boosted trees on the 60
most frequent words.
"""

from __future__ import annotations

import argparse
import itertools
import json
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from foreign_scores import read
from record import write
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from dm2l import ScoreClassifier
from dm2l._auto._score_classifier import uncertainty_ratio
from dm2l.baselines import MaskedOneVsRestClassifier
from dm2l.model_selection import MultilabelKFold
from dm2l.simulate import simulate_uniform
from experiments import resumable

MODELS = ("random forest", "boosted trees", "logistic regression", "few columns", "rare words")
WIDE, OTHERS = ("Enron", "Arts", "Business", "bibtex"), ("emotions", "yeast", "scene", "Image")
COLUMNS = {"boosted trees": 60, "few columns": 40, "rare words": 60}


def estimator(model: str, seed: int) -> Any:
    if model == "random forest":
        return RandomForestClassifier(60, random_state=seed)
    if model in ("boosted trees", "rare words"):
        return HistGradientBoostingClassifier(max_iter=60, random_state=seed)
    return LogisticRegression(C=1000.0, max_iter=300)


def hide(X: Any, Y: Any, rate: float, seed: int) -> Any:
    """Labels that are missing at random, or for every other pair of seeds depending on features."""
    if seed // 2 % 2 == 0:
        return simulate_uniform(Y, rate, random_state=seed)
    rng = np.random.default_rng(seed)
    along = X @ rng.normal(size=(X.shape[1], Y.shape[1]))
    place = np.argsort(np.argsort(along, axis=0), axis=0) / len(X)
    share = rate + 1.6 * min(rate, 1 - rate) * (place - 0.5)
    return np.where(rng.random(Y.shape) < share, Y, np.nan)


def compute(model: str, seed: int) -> dict[str, Any]:
    sets = {"random forest": (*OTHERS, *WIDE), "boosted trees": OTHERS, "few columns": OTHERS}
    data = sets.get(model, WIDE)[seed % len(sets.get(model, WIDE))]
    rate = (0.3, 0.7)[seed // 4 % 2]
    X, truth = read(data, seed, None)
    X, truth = X[:450, : COLUMNS.get(model, 500)], truth[:450, :5]
    Y, found = hide(X, truth, rate, seed), {}
    one_each = MaskedOneVsRestClassifier(estimator(model, seed))
    for kind in ("in-sample", "out-of-fold"):
        S = np.full(Y.shape, np.nan)
        if kind == "in-sample":
            S = one_each.fit(X, Y).decision_function(X)
        else:
            for train, test in MultilabelKFold(5, random_state=seed).split(Y, Y):
                S[test] = one_each.fit(X[train], Y[train]).decision_function(X[test])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted = ScoreClassifier(coupling=None).fit(S, Y)
        P, T = fitted.predict_proba(S)[:, fitted._learnable], np.nan_to_num(2 * Y - 1).astype(int)
        ratio, error = uncertainty_ratio(T[:, fitted._learnable], P)
        found[kind] = {
            "reported": any("in-sample" in str(each.message) for each in caught),
            "ratio": round(ratio, 3),
            "error": round(error, 3),
        }
    return {"data": data, "rate": rate, **found}


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Trials in which scores were reported, and the range of the ratio."""
    found: dict[str, Any] = defaultdict(dict)
    for model, kind in itertools.product(MODELS, ("in-sample", "out-of-fold")):
        trials = [row[kind] for row in rows if row["model"] == model]
        if trials:
            ratios = [trial["ratio"] for trial in trials]
            found[model][kind] = {
                "trials": len(trials),
                "reported": sum(trial["reported"] for trial in trials),
                "ratios": [min(ratios), float(np.median(ratios)), max(ratios)],
            }
    return dict(found)


def main() -> None:
    results = "benchmarks/results/in_sample.json"
    options: argparse.Namespace = resumable.options(__doc__, results, 20).parse_args()
    if options.summary:
        found = summarise(resumable.stored(options.out))
        print(json.dumps(found, indent=1))
        write(Path(results), found, options.ran_on)
        return
    cells = itertools.product(MODELS, range(options.seeds))
    todo = [dict(zip(("model", "seed"), cell, strict=True)) for cell in cells]
    resumable.run(compute, todo, options)


if __name__ == "__main__":
    main()
