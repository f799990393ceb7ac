"""The automatic estimator against what a user would pick instead, each tuned by the same rule.

    python benchmarks/study.py --out FILE.jsonl [--minutes 60] [--seeds 1] [--methods auto SVM]
                               [--sets emotions Tox21] [--regimes small] [--chemistry FOLDER]

Three regimes: at most 500 training rows with 30 % or 70 % of their labels, and 200 training rows
with 70 % of their labels ("small"). At most 1,000 other rows are the test, with all of their labels
(Tox21: with those that are known). Entries are hidden uniformly, and rows are drawn anew with each
seed. All labels are scored: a label with one observed class gets the rate
(positives + 1/2) / (observed + 1) from every rival.

Hyperparameters of a rival are chosen by log-loss of held-out scores in three folds, after one
calibration that is the same for all (`dm2l._auto.Stack`), which also makes its probabilities. The
average of extra trees and logistic regression is the mean of their probabilities. The automatic
estimator does its own choosing.

So that one core needs less than two hours, forests have 200 trees (100 on sets with more than 60
labels) and 30 of them in folds, there is one repetition, and delicious is left out, because one
model for each of its 983 labels takes too long. `seconds` is the processor time of everything but
reading, and `forest_seconds` that of a random forest of 500 trees per label, scaled from the fit of
the chosen one.

Results are lines of JSON; those that are there already are not computed again. After --minutes no
cell is started any more, and a minute later those that still run are given up.
`benchmarks/study_summary.py` adds up.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import average_precision_score
from study_methods import FOREST, METHODS, autogluon

from dm2l import AutoClassifier
from dm2l._auto._columns import FeatureEncoder
from dm2l._auto._stack import Stack
from dm2l.datasets import load_dataset
from dm2l.metrics import coverage_error, label_auc, label_ranking_average_precision, ranking_loss
from dm2l.model_selection import MultilabelKFold
from dm2l.simulate import simulate_uniform
from experiments.resumable import one_thread, side_by_side, stored

# By cost.
SETS = (
    *("emotions", "Image", "scene", "yeast", "Tox21", "SIDER", "Tmc2007-500", "Recreation", "Arts"),
    *("Business", "Social", "Enron", "rcv1subset1", "Corel16k001", "bibtex"),
)
CHEMISTRY = ("Tox21", "SIDER")
# Observed rate of the training labels, and number of training rows.
REGIMES = {"small": (0.7, 200), "30 %": (0.3, 500), "70 %": (0.7, 500)}
MOST_TESTED, MANY_LABELS = 1000, 60
# Trees of a forest, with few and with many labels, and in a fold.
TREES, FEWER_TREES, FOLD_TREES = 200, 100, 30
OURS = {"auto": "normal", "auto quick": "quick"}
# Both methods and their average are computed together.
TREES_AND_LOGISTIC = ("extra trees", "logistic regression")
AVERAGE = "trees and logistic"
KEY = ("data", "regime", "seed", "method")
Cell = tuple[str, str, int, str]


def read(data: str, seed: int, rows: int, chemistry: Path | None) -> tuple[Any, Any, int]:
    """Features as they are, labels with the set's own holes, and how many rows to learn from."""
    if data in CHEMISTRY:
        assert chemistry is not None
        with np.load(chemistry / f"{data}.npz") as stored:
            X, T = stored["X"].astype(np.float64), stored["T"]
        Y = np.where(T == 0, np.nan, T > 0)
    else:
        found = load_dataset(data)
        X, Y = found.data, np.asarray(found.target, dtype=np.float64)
        X = X.toarray() if sp.issparse(X) and X.shape[1] <= 5000 else X
    order = np.random.default_rng(seed).permutation(len(Y))
    n = min(int(0.7 * len(Y)), rows)
    order = order[: n + MOST_TESTED]
    return X[order], Y[order], n


def measures(truth: Any, P: Any) -> dict[str, float]:
    """Of the known labels of test rows; rankings of rows that show both answers."""
    known = ~np.isnan(truth)
    labels = [k for k in range(truth.shape[1]) if len(np.unique(truth[known[:, k], k])) == 2]
    columns = [(truth[known[:, k], k], P[known[:, k], k]) for k in labels]
    rows = (truth == 1).any(axis=1) & (truth == 0).any(axis=1)
    y, p = truth[known], np.clip(P[known], 0.001, 0.999)
    return {
        "auc": float(label_auc(truth, P)),
        "map": float(np.mean([average_precision_score(*column) for column in columns])),
        "rkl": float(ranking_loss(truth[rows], P[rows])),
        "ap": float(label_ranking_average_precision(truth[rows], P[rows])),
        "cvg": float(coverage_error(truth[rows], P[rows])),
        "hamming": float(np.mean((p > 0.5) != (y == 1))),
        "logloss": float(-np.mean(np.log(np.where(y == 1, p, 1 - p)))),
    }


def in_folds(setting: Any) -> Any:
    """The same with fewer trees."""
    forest = "forest" in repr(setting).lower() or "trees" in repr(setting).lower()
    return clone(setting).set_params(**{"estimator__n_estimators": FOLD_TREES} if forest else {})


def tuned(name: str, X: Any, Y: Any, X_test: Any) -> tuple[Any, dict[str, Any]]:
    """Probabilities of the test rows by the best setting of a method, and what to note of it."""
    begin = time.process_time()
    features = FeatureEncoder.of(X, np.zeros(X.shape[1], dtype=np.intp))
    X, X_test = features.transform(X), features.transform(X_test)
    T = np.where(np.isnan(Y), 0, np.where(Y == 1, 1, -1))
    share = np.array(["forest" in name or "trees" in name])
    folds = list(MultilabelKFold(3, random_state=0).split(X, Y))
    trees = TREES if Y.shape[1] <= MANY_LABELS else FEWER_TREES
    best: Any = (np.inf,)
    for setting in METHODS[name](X, trees):
        held = np.full(Y.shape, np.nan)
        for train, test in folds:
            held[test] = in_folds(setting).fit(X[train], Y[train]).decision_function(X[test])
        stack = Stack.fit(held[None], T, share)
        eta = stack.log_odds(held[None])
        known = (T != 0) & np.isfinite(eta)
        loss = float(np.logaddexp(0.0, -T * np.where(known, eta, 0))[known].mean())
        if loss < best[0]:
            best = loss, setting, stack
    _, setting, stack = best
    start = time.process_time()
    model = clone(setting).fit(X, Y)
    note: dict[str, Any] = {"setting": repr(setting)}
    if name == "random forest":
        note["forest_seconds"] = round((time.process_time() - start) * FOREST / trees, 2)
    P = expit(stack.log_odds(model.decision_function(X_test)[None]))
    return P, note | {"seconds": round(time.process_time() - begin, 2)}


def ours(name: str, X: Any, Y: Any, X_test: Any, seed: int) -> tuple[Any, dict[str, Any]]:
    """Probabilities of the test rows by the automatic estimator, and what to note of it."""
    begin = time.process_time()
    model = AutoClassifier(OURS[name], random_state=seed).fit(X, Y)
    P, board = model.predict_proba(X_test), model.leaderboard_
    note: dict[str, Any] = {"seconds": round(time.process_time() - begin, 2)}
    parts = zip(board["model"], board["label_auc"], board["weight"], strict=True)
    note["setting"] = {m: [round(float(a), 4), round(float(w), 3)] for m, a, w in parts if a == a}
    note["estimate"] = [float(v) for v in model.estimate_["label_auc"]]
    return P, note


def compute(cell: Cell, chemistry: Path | None, out: Path) -> str:
    """A line of JSON for one method on one set; two or three for methods that share fits."""
    data, regime, seed, name = cell
    rate, rows = REGIMES[regime]
    X, Y, n = read(data, seed, rows, chemistry)
    shown = simulate_uniform(Y[:n], rate, random_state=seed)
    # A row of which nothing is known is nothing to learn from. Labels with one observed class are
    # scored like all others; every rival gets the rates of the training rows for them.
    seen = ~np.isnan(shown).all(axis=1)
    X_train, shown, truth = X[:n][seen], shown[seen], Y[n:]
    both = (shown == 1).any(axis=0) & (shown == 0).any(axis=0)
    rates = ((shown == 1).sum(axis=0) + 0.5) / ((~np.isnan(shown)).sum(axis=0) + 1)
    shape = {"rows": len(shown), "labels": len(both), "one_class": int((~both).sum())}
    lines: list[dict[str, Any]] = []

    def add(method: str, P: Any, note: dict[str, Any]) -> None:
        whole = P
        if P.shape[1] < len(both):
            whole = np.tile(rates, (len(P), 1))
            whole[:, both] = P
        cell = dict(zip(KEY, (data, regime, seed, method), strict=True))
        lines.append(cell | shape | note | measures(truth, whole))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in OURS:
            add(name, *ours(name, X_train, shown, X[n:], seed))
        elif name == "AutoGluon":
            begin = time.process_time()
            P = autogluon(X_train, shown[:, both], X[n:])
            add(name, P, {"seconds": round(time.process_time() - begin, 2)})
        else:
            names = TREES_AND_LOGISTIC if name == AVERAGE else (name,)
            found = [tuned(each, X_train, shown[:, both], X[n:]) for each in names]
            for each, (P, note) in zip(names, found, strict=True):
                add(each, P, note)
            if name == AVERAGE:
                seconds = {"seconds": round(sum(note["seconds"] for _, note in found), 2)}
                add(name, np.mean([P for P, _ in found], axis=0), seconds)
    with out.open("a") as file:  # one write: lines of several processes do not mix
        file.write("".join(json.dumps(line) + "\n" for line in lines))
    return f"{data} {regime} {seed} {name}: {lines[-1]['auc']}, {lines[-1]['seconds']} s"


def main() -> None:
    names = [*(name for name in METHODS if name not in TREES_AND_LOGISTIC), AVERAGE, *OURS]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="lines of JSON")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--regimes", nargs="+", choices=REGIMES, default=list(REGIMES))
    choices = [*names, "AutoGluon"]
    parser.add_argument("--methods", nargs="+", choices=choices, default=names[:-1])
    parser.add_argument("--chemistry", type=Path, help="has what benchmarks/fingerprints.py wrote")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    arguments = parser.parse_args()
    done = {tuple(row[name] for name in KEY) for row in stored(arguments.out)}
    todo = [
        cell
        for seed in range(arguments.seeds)
        for regime in arguments.regimes
        for data in arguments.sets
        if data not in CHEMISTRY or arguments.chemistry
        for name in arguments.methods
        if (cell := (data, regime, seed, name)) not in done
    ]
    print(f"{len(todo)} cells to compute", flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    one_thread()
    tasks = [(cell, arguments.chemistry, arguments.out) for cell in todo]
    failed = side_by_side(compute, tasks, arguments.jobs, arguments.minutes, a_process=8)
    if failed:
        raise SystemExit(f"{failed} cells broke")


if __name__ == "__main__":
    main()
