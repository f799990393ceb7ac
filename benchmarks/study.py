"""The automatic estimator against what a user would pick instead, each tuned by the same rule.

    python benchmarks/study.py --out FILE.jsonl [--jobs 16] [--minutes 9] [--seeds 5] [--rows 1000]
                               [--sets emotions Tox21] [--rates 1 0.7 0.3] [--methods auto kNN]
                               [--chemistry FOLDER]
    python benchmarks/study.py --summary FILE.jsonl [--out FILE.json]

70 % of the rows, at most --rows, are learnt from, after entries were hidden uniformly; the rest, at
most 2,000, is the test, with all of its labels (Tox21: with those that are known); rows are drawn
anew with each seed. Settings of a method are chosen by log-loss of held-out scores in three folds,
after one calibration that is the same for all (`dm2l.auto.Stack`), which also makes its
probabilities. The automatic estimator does its own choosing, within 150 seconds; beside it stands
the best of its parts alone. Seconds hold everything but reading, and fit_seconds the last fit.

Results are lines of JSON; those that are there already are not computed again. After --minutes no
cell is started any more, and a minute later those that still run are given up.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from record import write
from resumable import one_thread, side_by_side, stored
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import average_precision_score
from study_methods import METHODS, left_out

from dm2l import AutoClassifier
from dm2l.auto import Features, Stack
from dm2l.auto._parts import Part
from dm2l.datasets import load_dataset
from dm2l.masks import hide_uniform
from dm2l.metrics import average_precision, coverage, label_auc, ranking_loss
from dm2l.model_selection import MultilabelKFold
from dm2l.plots import ranks

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
# Whether higher is better.
LOWER = ("rkl", "cvg", "hamming", "logloss")
MEASURES = {name: name not in LOWER for name in ("auc", "map", "ap", *LOWER)}
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
        "ap": float(average_precision(truth[rows], P[rows])),
        "cvg": float(coverage(truth[rows], P[rows])),
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
    features = Features.of(X, np.zeros(X.shape[1], dtype=np.intp))
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
    place = int(np.argmin([loss[name] for name, _ in model._parts]))
    stack, rows = model.stack_, model._check_X(X)
    name, inputs = model._parts[place]
    part = Part(name, "", model.models_[name], inputs)
    S = part.model._all_scores(part.rows(rows, model._features.transform(rows)))
    one = {
        field: getattr(stack, field)[[place]] for field in ("centre", "scale", "slope", "offset")
    }
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
    shown = Y[:n] if rate == 1 else hide_uniform(Y[:n], rate, random_state=seed)
    # A row of which nothing is known, or a label of which one answer is, is nothing to learn from.
    seen = ~np.isnan(shown).all(axis=1)
    X_train, shown = X[:n][seen], shown[seen]
    both = (shown == 1).any(axis=0) & (shown == 0).any(axis=0)
    shown, truth = shown[:, both], Y[n:, both]
    row: dict[str, Any] = dict(zip(KEY, cell, strict=True))
    lines = [row]
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reason = "" if name in OURS else left_out(name, X.shape, shown.shape[1])
        if reason:
            row["reason"] = reason
        elif name in OURS:
            model = AutoClassifier(OURS[name], time_limit=MOST_SECONDS, random_state=seed)
            P, board = model.fit(X_train, shown).predict_proba(X[n:]), model.leaderboard_
            parts = zip(board["model"], board["label_auc"], board["weight"], strict=True)
            row["setting"] = {m: [round(float(a), 4), round(float(w), 3)] for m, a, w in parts}
            row["estimate"] = [float(v) for v in model.estimate_["label_auc"]]
            if name == "auto":
                alone = {"method": PART, "seconds": 0.0}
                lines.append(row | alone | measures(truth, best_part(model, X[n:])))
        else:
            P, row["setting"], row["fit_seconds"] = tuned(name, X_train, shown, X[n:])
    row["seconds"] = round(time.perf_counter() - start, 2)
    if not reason:
        row |= measures(truth, P)
    with out.open("a") as file:  # one write: lines of several processes do not mix
        file.write("".join(json.dumps(line) + "\n" for line in reversed(lines)))
    return f"{data} {rate} {seed} {name}: {row.get('auc', reason)}, {row['seconds']} s"


def summarise(rows: list[dict[str, Any]], out: Path | None) -> None:
    """Mean ranks over sets and rates by measure, Friedman, Nemenyi, and the largest losses."""
    last = {tuple(row[name] for name in KEY): row for row in rows}
    groups: dict[Any, list[Any]] = defaultdict(list)
    for row in last.values():
        if "reason" not in row:
            values = [row[name] for name in (*MEASURES, "seconds")]
            groups[row["data"], row["rate"], row["method"]].append(values)
    table = {key: np.mean(values, axis=0) for key, values in groups.items()}
    blocks = list(dict.fromkeys(key[:2] for key in table))
    names = list(dict.fromkeys(key[2] for key in table))
    common = [n for n in names if sum((*b, n) in table for b in blocks) >= 0.8 * len(blocks)]
    full = [b for b in blocks if all((*b, n) in table for n in common)]
    print(f"{len(full)} sets x rates of {len(blocks)} have all of {len(common)} methods")
    found: dict[str, Any] = {"blocks": len(full), "sets": len({b[0] for b in full})}
    every = []
    for j, (measure, higher) in enumerate(MEASURES.items()):
        values = np.array([[table[(*b, n)][j] for n in common] for b in full])
        every.append(values if higher else -values)
        found[measure] = _compare(measure, values, higher, common, full)
    together = np.concatenate(every)
    # Blocks of one set are not independent: the test is over means of a set's ranks.
    found["all"] = _compare("all measures", together, True, common, full * len(MEASURES))
    seconds = {n: float(np.mean([table[(*b, n)][-1] for b in full])) for n in common}
    found["seconds"] = {n: round(s, 1) for n, s in sorted(seconds.items(), key=lambda i: i[1])}
    print("seconds:", found["seconds"])
    found["behind"] = _behind(table, blocks)
    if out is not None:
        write(out, found)


def _compare(name: str, values: Any, higher: bool, names: list[str], blocks: Any) -> dict[str, Any]:
    mean_ranks = ranks.average_ranks(values, higher)
    sets = list(dict.fromkeys(b[0] for b in blocks))
    place = np.array([sets.index(b[0]) for b in blocks])
    own = np.array([ranks.average_ranks(values[place == s], higher) for s in range(len(sets))])
    p = ranks.friedman(own, False).f_p_value if len(sets) > 1 else float("nan")
    cd = ranks.nemenyi_critical_difference(len(names), len(sets)) if len(sets) > 1 else float("nan")
    print(f"\n{name}: Friedman over {len(sets)} sets p {p:.2g}, critical difference {cd:.2f}")
    for k in np.argsort(mean_ranks):
        print(f"  {mean_ranks[k]:5.2f}  {values[:, k].mean():9.4f}  {names[k]}")
    return {
        "mean_ranks": {names[k]: round(float(mean_ranks[k]), 3) for k in np.argsort(mean_ranks)},
        "means": {n: round(float(v), 4) for n, v in zip(names, values.mean(axis=0), strict=True)},
        "friedman_p": p,
        "critical_difference": cd,
    }


def _behind(table: dict[Any, Any], blocks: list[Any]) -> list[dict[str, Any]]:
    """Where a competitor has a better label AUC than the automatic estimator, the worst first."""
    found = []
    for block in blocks:
        others = {k[2]: v[0] for k, v in table.items() if k[:2] == block and k[2] not in OURS}
        if (*block, "auto") not in table or not others:
            continue
        best = max(others, key=lambda name: others[name])
        gap = float(others[best] - table[(*block, "auto")][0])
        if gap > 0:
            row = {"data": block[0], "rate": block[1], "best": best, "gap": round(gap, 4)}
            found.append(row)
    found.sort(key=lambda row: -row["gap"])
    print("\nbehind the best competitor, label AUC:", *found, sep="\n  ")
    return found


def main() -> None:
    names = [*METHODS, *OURS]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--summary", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--rates", nargs="+", type=float, default=RATES)
    parser.add_argument("--methods", nargs="+", choices=names, default=names[: -len(OURS) + 2])
    parser.add_argument("--chemistry", type=Path, help="has what benchmarks/fingerprints.py wrote")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    arguments = parser.parse_args()
    if arguments.summary:
        summarise(stored(arguments.summary), arguments.out)
        return
    if arguments.out is None:
        parser.error("--out or --summary")
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
    one_thread()
    others = arguments.rows, arguments.chemistry, arguments.out
    tasks = [(cell, *others) for cell in todo]
    failed = side_by_side(compute, tasks, arguments.jobs, arguments.minutes, a_process=8)
    if failed:
        raise SystemExit(f"{failed} cells broke")


if __name__ == "__main__":
    main()
