"""What ScoreClassifier adds to the out-of-fold scores of other models.

    python benchmarks/foreign_scores.py --out benchmarks/results/foreign_scores.jsonl
        [--chemistry FOLDER] [--sets emotions] [--rates 0.3 0.7] [--seeds 1] [--minutes 10]
    python benchmarks/foreign_scores.py --out benchmarks/results/foreign_scores.jsonl --summary

A cell is a data set, a share of observed labels and a model: a random forest, LightGBM, logistic
regression, which for "docstrings" reads words and characters, or a network with one hidden layer
that is trained with dm2l.torch. Models are cross-fitted one label at a time, except that a network
has all labels; those whose package is not installed are skipped. Methods on the missing entries:

own              probabilities of the model
calibrated       ScoreClassifier.predict_proba, without known labels
ours             ScoreClassifier.complete
LightGBM on both a model for each label with all scores and the other labels, NaN where missing
QComp, profile regression, Macau
                 published ideas on the same scores, see benchmarks/completion_methods.py

"docstrings" are summaries of docstrings of installed packages; labels are the package and names of
parameters. FOLDER holds tox21.csv.gz, whose labels have missing entries of their own: the share of
its observed entries that stays is given. Sets have at most 600 rows and 8 labels. Results are lines
of JSON, and cells that the file holds are not computed again.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import itertools
import json
from collections import defaultdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import completion_methods as methods
import numpy as np
import scipy.sparse as sp
from record import write
from scipy.stats import rankdata
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import MaxAbsScaler

from dm2l import ScoreClassifier
from dm2l.baselines import MaskedOneVsRestClassifier
from dm2l.datasets import load_dataset
from dm2l.model_selection import MultilabelKFold
from dm2l.simulate import simulate_uniform
from experiments import resumable

SETS = (
    *("emotions", "yeast", "scene", "Image", "Enron", "Arts", "Business", "bibtex"),
    *("Tox21", "docstrings"),
)
MODELS = ("random forest", "LightGBM", "logistic regression", "network")
PACKAGES = {"LightGBM": "lightgbm", "network": "torch"}
METHODS = (
    *("own", "calibrated", "ours", "LightGBM on both", "QComp", "profile regression", "Macau"),
)
ROWS, LABELS, ASKED = 600, 8, (0.05, 0.1)
PARAMETERS = ("axis", "out", "dtype", "copy", "random_state", "X", "x", "a", "n_jobs")


def docstrings() -> tuple[Any, Any]:
    """Summaries of docstrings, and labels: the package, classes, and names of parameters."""
    texts, labels, packages = [], [], ("numpy", "scipy", "pandas", "sklearn")
    names = ("numpy", "numpy.linalg", "scipy.stats", "scipy.signal", "scipy.linalg", "pandas")
    for name in (*names, "scipy.ndimage", "sklearn.metrics", "sklearn.utils", "sklearn.ensemble"):
        module = importlib.import_module(name)
        for _, found in sorted(inspect.getmembers(module, callable)):
            text = (inspect.getdoc(found) or "").partition("Parameters\n")[0][:400]
            try:
                given = inspect.signature(found).parameters
            except (TypeError, ValueError):
                continue
            if len(text) > 20:
                package = name.partition(".")[0]
                known = [package == each for each in packages]
                texts.append(text)
                labels.append([*known, *(each in given for each in PARAMETERS)])
    return np.array(texts, dtype=object), np.array(labels, dtype=float)


def tox21(folder: Path) -> tuple[Any, Any]:
    import pandas as pd

    from dm2l.chemistry import MorganFingerprints

    frame = pd.read_csv(folder / "tox21.csv.gz").sample(2 * ROWS, random_state=0)
    X = MorganFingerprints(n_bits=512).fit_transform(frame["smiles"])
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)
    return X, frame.drop(columns=["smiles", "mol_id"]).to_numpy(dtype=float)


def read(data: str, seed: int, chemistry: str | None) -> tuple[Any, Any]:
    """Features and labels of a sample of the rows, with the labels of which most is known."""
    if data == "docstrings":
        X, Y = docstrings()
    elif data == "Tox21":
        X, Y = tox21(Path(str(chemistry)))
    else:
        found = load_dataset(data)
        X, Y = found.data, np.asarray(found.target, dtype=float)
        often = np.argsort(-np.ravel((X != 0).sum(axis=0)), kind="stable")[:500]
        X = X[:, np.sort(often)]
        X = MaxAbsScaler().fit_transform(X.toarray() if sp.issparse(X) else X)
    order = np.random.default_rng(seed).permutation(len(Y))[:ROWS]
    X, Y = X[order], Y[order]
    fewer = np.minimum((Y == 1).sum(axis=0), (Y == 0).sum(axis=0))
    return X, Y[:, np.sort(np.argsort(-fewer)[:LABELS])]


def model_of(name: str, texts: bool) -> Any:
    if name == "random forest":
        base: Any = RandomForestClassifier(100, min_samples_leaf=2, random_state=0)
    elif name == "LightGBM":
        base = light()
    else:
        base = LogisticRegression(max_iter=300)
    if name == "network":
        from networks import Network

        base = Network()
    if texts:
        words = TfidfVectorizer(sublinear_tf=True, min_df=2)
        characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), max_features=5000)
        both = make_union(words, characters) if name == "logistic regression" else words
        base = make_pipeline(both, base)
    return base if name == "network" else MaskedOneVsRestClassifier(base)


def light() -> Any:
    from lightgbm import LGBMClassifier

    shape = {"num_leaves": 15, "min_child_samples": 10, "n_jobs": 1, "verbose": -1}
    return LGBMClassifier(n_estimators=100, learning_rate=0.05, random_state=0, **shape)


def out_of_fold(model: Any, X: Any, Y: Any, seed: int) -> Any:
    """Probabilities of all entries by models that were not fitted to their rows."""
    P = np.full(Y.shape, np.nan)
    for train, test in MultilabelKFold(5, random_state=seed).split(Y, Y):
        P[test] = model.fit(X[train], Y[train]).predict_proba(X[test])
    return P


def on_both(P: Any, Y: Any) -> Any:
    """LightGBM for each label, with all scores and the other labels."""
    found = np.tile(np.nanmean(Y, axis=0), (len(Y), 1))
    for k, y in enumerate(Y.T):
        Z, known = np.hstack([P, np.delete(Y, k, axis=1)]), ~np.isnan(y)
        if len(np.unique(y[known])) == 2:
            found[:, k] = light().fit(Z[known], y[known]).predict_proba(Z)[:, 1]
    return found


def measures(truth: Any, P: Any) -> dict[str, float]:
    """Average precision (mean of labels) and log loss of the entries where truth is not NaN."""
    known, values = ~np.isnan(truth), []
    for t, p in zip(truth.T, P.T, strict=True):
        here = ~np.isnan(t)
        if len(np.unique(t[here])) == 2:
            values.append(average_precision_score(t[here], p[here]))
    p = np.clip(P, 0.001, 0.999)[known]
    loss = -np.log(np.where(truth[known] == 1, p, 1 - p)).mean()
    return {"ap": round(float(np.mean(values)), 4), "log_loss": round(float(loss), 4)}


def compute(
    data: str, rate: float, model: str, seed: int, *, chemistry: str | None = None
) -> dict[str, Any]:
    package = PACKAGES.get(model, "sklearn")
    if not find_spec(package):
        return {"reason": f"{package} is not installed"}
    X, truth = read(data, seed, chemistry)
    Y = simulate_uniform(truth, rate, random_state=seed)
    hidden = np.where(np.isnan(Y), truth, np.nan)
    P = out_of_fold(model_of(model, data == "docstrings"), X, Y, seed)
    ours = ScoreClassifier().fit(P, Y)
    answers = {
        "own": P,
        "calibrated": ours.predict_proba(P),
        "ours": ours.complete(P, Y, method="predict_proba"),
    }
    if find_spec("lightgbm"):
        answers["LightGBM on both"] = on_both(P, Y)
    case = methods.Holes(P, Y, seed)
    answers["QComp"] = methods.qcomp(case, 2 * P - 1)
    answers["profile regression"] = methods.profile_regression(case, 2 * P - 1)
    if find_spec("smurff"):
        answers["Macau"] = methods.macau(case, 2 * P - 1)
    realised = {}
    for bound in ASKED:
        filled = ours.complete(P, Y, max_error_rate=bound)
        here = ~np.isnan(hidden) & ~np.isnan(filled)
        n = int(here.sum())
        realised[str(bound)] = [n, int((filled != hidden)[here].sum())]
    found = {name: measures(hidden, p) for name, p in answers.items()}
    return {"methods": found, "filled_and_wrong": realised, "hidden": int((hidden == hidden).sum())}


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Means by set, ranks over all cells, and realised error rates."""
    full = [row for row in rows if "methods" in row and len(row["methods"]) == len(METHODS)]
    found: dict[str, Any] = {"cells": len(full)}
    for measure, sign in (("ap", -1), ("log_loss", 1)):
        values = np.array([[row["methods"][m][measure] for m in METHODS] for row in full])
        ranks = rankdata(sign * values, axis=1)
        by_set = defaultdict(list)
        for row, line in zip(full, values, strict=True):
            by_set[row["data"]].append(line)
        found[measure] = {
            "mean": dict(zip(METHODS, values.mean(axis=0).round(4).tolist(), strict=True)),
            "rank": dict(zip(METHODS, ranks.mean(axis=0).round(2).tolist(), strict=True)),
            "by_set": {
                data: dict(zip(METHODS, np.mean(lines, axis=0).round(4).tolist(), strict=True))
                for data, lines in by_set.items()
            },
            "cells_better_than_own": int((sign * (values[:, 2] - values[:, 0]) < 0).sum()),
        }
    for bound in map(str, ASKED):
        counts = np.array([row["filled_and_wrong"][bound] for row in rows if "methods" in row])
        shares = counts[:, 1] / np.maximum(counts[:, 0], 1)
        over = counts[:, 1] > float(bound) * counts[:, 0]
        found[f"realised error rate, bound {bound}"] = {
            "pooled": round(float(counts[:, 1].sum() / counts[:, 0].sum()), 4),
            "filled": int(counts[:, 0].sum()),
            "mean of cells": round(float(shares.mean()), 4),
            "cells above the bound": int(over.sum()),
        }
    return found


def main() -> None:
    results = "benchmarks/results/foreign_scores.json"
    parser = resumable.options(__doc__, results, 1)
    parser.add_argument("--chemistry", help="folder with tox21.csv.gz")
    options: argparse.Namespace = parser.parse_args()
    if options.summary:
        found = summarise(resumable.stored(options.out))
        print(json.dumps(found, indent=1))
        write(Path(results), found, options.ran_on)
        return
    sets = options.sets or [name for name in SETS if name != "Tox21" or options.chemistry]
    names = ("data", "rate", "model", "seed")
    cells = itertools.product(
        sets, options.rates or (0.3, 0.7), MODELS, range(1, options.seeds + 1)
    )
    todo = [dict(zip(names, cell, strict=True)) for cell in cells]
    resumable.run(partial(compute, chemistry=options.chemistry), todo, options)


if __name__ == "__main__":
    main()
