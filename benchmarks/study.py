"""The automatic estimator against what a user would pick instead, each tuned by the same rule.

    python benchmarks/study.py --out FILE.jsonl [--jobs 16] [--minutes 9] [--seeds 5] [--rows 1000]
                               [--sets emotions Tox21] [--rates 1 0.7 0.3] [--methods auto kNN]
                               [--chemistry FOLDER]

70 % of the rows, at most --rows, are learnt from, after entries were hidden uniformly; the rest, at
most 2,000, is the test, with all of its labels (Tox21: with those that are known); rows are drawn
anew with each seed. Settings of a method are chosen by log-loss of held-out scores in three folds,
after one calibration that is the same for all (`dm2l._auto.Stack`), which also makes its
probabilities. The automatic estimator does its own choosing, within 150 seconds; beside it stands
the best of its parts alone. Seconds hold everything but reading, and fit_seconds the last fit.

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
from study_methods import METHODS, left_out

from dm2l import AutoClassifier
from dm2l._auto._base_models import rows_for
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
    *("Business", "Social", "Enron", "rcv1subset1", "Corel16k001", "bibtex", "delicious"),
)
CHEMISTRY = ("Tox21", "SIDER")
MOST_SECONDS, MOST_TESTED = 150.0, 2000
FOLD_TREES = 100
RATES = (1.0, 0.7, 0.3)
PART = "auto, best part"
OURS = {"auto": "normal", "auto quick": "quick", "auto best": "best"}
KEY = ("data", "rate", "seed", "method")
Cell = tuple[str, float, int, str]


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
    trees = {"estimator__n_estimators": FOLD_TREES}
    return clone(setting).set_params(
        **(trees if trees.keys() <= setting.get_params().keys() else {})
    )


def tuned(name: str, X: Any, Y: Any, X_test: Any) -> tuple[Any, str, float]:
    """Probabilities of the test rows by the best setting of a method, which, and its seconds."""
    features = FeatureEncoder.of(X, np.zeros(X.shape[1], dtype=np.intp))
    X, X_test = features.transform(X), features.transform(X_test)
    T = np.where(np.isnan(Y), 0, np.where(Y == 1, 1, -1))
    share = np.array(["forest" in name or "trees" in name or name == "kNN"])
    folds = list(MultilabelKFold(3, random_state=0).split(X, Y))
    best: Any = (np.inf,)
    for setting in METHODS[name](X):
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
    start = time.perf_counter()
    model = clone(setting).fit(X, Y)
    seconds = round(time.perf_counter() - start, 2)
    return expit(stack.log_odds(model.decision_function(X_test)[None])), repr(setting), seconds


def best_part(model: AutoClassifier, X: Any) -> Any:
    """Probabilities by the part that has the least log-loss alone, or None if it is not kept."""
    board = model.leaderboard_
    loss = dict(zip(board["model"], board["log_loss"], strict=True))
    place = int(np.argmin([loss[name] for name in model._inputs]))
    stack, rows = model.stack_, model._check_X(X)
    name, inputs = list(model._inputs.items())[place]
    F = model._features.transform(rows)
    S = model.models_[name]._all_scores(rows_for(inputs, rows, F))
    fields = "centre", "scale", "slope", "offset", "variance"
    one = {field: getattr(stack, field)[[place]] for field in fields}
    c = S.shape[1]
    alone = Stack(
        stack.shares[[place]],
        **one,
        weights=np.ones((1, c)),
        common=np.ones(1),
        intercept=np.zeros(c),
    )
    return expit(alone.log_odds(np.asarray(S)[None]))


def compute(cell: Cell, rows: int, chemistry: Path | None, out: Path) -> str:
    """One method on one set; a line of JSON, of the automatic estimator a second for a part."""
    data, rate, seed, name = cell
    X, Y, n = read(data, seed, rows, chemistry)
    shown = Y[:n] if rate == 1 else simulate_uniform(Y[:n], rate, random_state=seed)
    # A row of which nothing is known is nothing to learn from. Labels with one observed class are
    # scored like all others; every rival gets the rates of the training rows for them.
    seen = ~np.isnan(shown).all(axis=1)
    X_train, shown, truth = X[:n][seen], shown[seen], Y[n:]
    both = (shown == 1).any(axis=0) & (shown == 0).any(axis=0)
    rates = ((shown == 1).sum(axis=0) + 0.5) / ((~np.isnan(shown)).sum(axis=0) + 1)

    def whole(P: Any) -> Any:
        found = np.tile(rates, (len(P), 1))
        found[:, both] = P
        return found

    row: dict[str, Any] = dict(zip(KEY, cell, strict=True))
    lines = [row]
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reason = "" if name in OURS else left_out(name, X.shape, int(both.sum()))
        if reason:
            row["reason"] = reason
        elif name in OURS:
            model = AutoClassifier(OURS[name], time_limit=MOST_SECONDS, random_state=seed)
            P, board = model.fit(X_train, shown).predict_proba(X[n:]), model.leaderboard_
            parts = zip(board["model"], board["label_auc"], board["weight"], strict=True)
            row["setting"] = {
                m: [round(float(a), 4), round(float(w), 3)] for m, a, w in parts if a == a
            }
            row["estimate"] = [float(v) for v in model.estimate_["label_auc"]]
            if name == "auto":
                alone = {"method": PART, "seconds": 0.0}
                lines.append(row | alone | measures(truth, whole(best_part(model, X[n:]))))
        else:
            found = tuned(name, X_train, shown[:, both], X[n:])
            P, row["setting"], row["fit_seconds"] = whole(found[0]), *found[1:]
    row["seconds"] = round(time.perf_counter() - start, 2)
    if not reason:
        row |= measures(truth, P)
    with out.open("a") as file:  # one write: lines of several processes do not mix
        file.write("".join(json.dumps(line) + "\n" for line in reversed(lines)))
    return f"{data} {rate} {seed} {name}: {row.get('auc', reason)}, {row['seconds']} s"


def main() -> None:
    names = [*METHODS, *OURS]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="lines of JSON")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--rates", nargs="+", type=float, default=RATES)
    parser.add_argument("--methods", nargs="+", choices=names, default=names[: -len(OURS) + 2])
    parser.add_argument("--chemistry", type=Path, help="has what benchmarks/fingerprints.py wrote")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    arguments = parser.parse_args()
    done = {tuple(row[name] for name in KEY) for row in stored(arguments.out)}
    todo = [
        (data, rate, seed, name)
        for seed in range(arguments.seeds)
        for data in arguments.sets
        if data not in CHEMISTRY or arguments.chemistry
        for rate in arguments.rates
        for name in arguments.methods
        if (data, rate, seed, name) not in done
    ]
    print(f"{len(todo)} cells to compute", flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    one_thread()
    others = arguments.rows, arguments.chemistry, arguments.out
    tasks = [(cell, *others) for cell in todo]
    failed = side_by_side(compute, tasks, arguments.jobs, arguments.minutes, a_process=8)
    if failed:
        raise SystemExit(f"{failed} cells broke")


if __name__ == "__main__":
    main()
