"""Learning from ticks alone against what else could be made of them.

    python benchmarks/ticks.py --out FILE.jsonl [--jobs 16] [--minutes 9] [--seeds 5]
                               [--sets scene yeast] [--masks single] [--methods ticks negative]
    python benchmarks/ticks.py --out FILE.jsonl --summary

80 % of the rows are learnt from, after labels were hidden; 10 % are left aside, as in published
studies, but looked at by nobody; the last 10 % are the test, with all of their labels. Masks: one
positive a row; the first three of a row, by popularity; 30 % of the positives, of all labels alike
or more of popular ones; 30 % of the positives and 10 % of the negatives. Features are brought to
mean 0 and deviation 1 where they are dense. Settings of every method are chosen in three folds of
what was left visible. Results are lines of JSON; those that are there are not computed again.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from record import write
from resumable import options, run, stored
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict

from dm2l import DM2LClassifierCV
from dm2l.baselines import LSMLClassifier, MLLRCClassifier
from dm2l.datasets import load_dataset
from dm2l.masks import hide_positives, keep_single_positive, stop_after
from dm2l.metrics import average_precision, label_auc, ranking_loss
from dm2l.plots import ranks

SETS = (
    *("emotions", "Image", "scene", "yeast", "Enron", "Arts", "Business", "Recreation", "Social"),
    *("Tmc2007-500", "rcv1subset1", "Corel16k001", "bibtex"),
)
MASKS = ("single", "stop after 3", "30 %", "30 % by popularity", "30 % and negatives")
METHODS = ("ticks", "negative", "missing", "LSML", "ML-LRC", "Elkan-Noto")
# Whether higher is better.
MEASURES = {"auc": True, "map": True, "rkl": False, "ap": True, "logloss": False}
PUBLISHED = {"scene": 0.075, "Image": 0.150, "yeast": 0.164, "delicious": 0.122}
EXACT = 2500  # rows up to which a kernel is exact


def hide(Y: Any, mask: str, seed: int) -> Any:
    """What is left of complete labels: 1, perhaps 0, and NaN."""
    if mask == "single":
        return keep_single_positive(Y, random_state=seed)
    if mask == "stop after 3":
        return stop_after(Y, 3, order="popularity", random_state=seed)
    rates: Any = 0.3
    if mask == "30 % by popularity":
        count = Y.sum(axis=0)
        rates = np.clip(0.3 * np.sqrt(count / np.median(count[count > 0])), 0.1, 0.9)
    ticks = hide_positives(Y, rates, become="unlabelled", random_state=seed)
    if mask == "30 % and negatives":
        known = np.random.default_rng(seed).random(Y.shape) < 0.1
        ticks = np.where(known & (Y == 0), 0.0, ticks)
    return ticks


class ElkanNoto:
    """Per label, logistic regression of ticks against the rest, divided by its mean over ticks."""

    def fit(self, X: Any, Y: Any) -> ElkanNoto:
        S = Y == 1
        self.models, self.rates = [], []
        for ticks in S.T:
            model, rate = None, 1.0
            if ticks.sum() >= 3:
                model = LogisticRegression(max_iter=300, C=0.1)
                told = cross_val_predict(model, X, ticks, cv=3, method="predict_proba")[:, 1]
                rate = max(float(told[ticks].mean()), float(ticks.mean()))
                model.fit(X, ticks)
            self.models.append(model)
            self.rates.append(rate)
        return self

    def predict_proba(self, X: Any) -> Any:
        columns = [
            np.zeros(X.shape[0]) if model is None else model.predict_proba(X)[:, 1] / rate
            for model, rate in zip(self.models, self.rates, strict=True)
        ]
        return np.column_stack(columns)

    decision_function = predict_proba


def searched(X: Any, Y: Any, **settings: Any) -> Any:
    """The better of the linear and the rbf model, by the ranking of what is visible."""
    best = None
    many = {"approximation": "nystroem", "n_components": 1000} if X.shape[0] > EXACT else {}
    square = X.multiply(X).mean() if sp.issparse(X) else np.mean(X * X)
    scale = 1 / (X.shape[1] * max(float(square - X.mean() ** 2), 1e-12))
    for kernel in ("linear", "rbf"):
        grid = {} if kernel == "linear" else {"gammas": [scale / 2, scale, 2 * scale], **many}
        search = DM2LClassifierCV(
            kernel=kernel,
            scoring="neg_ranking_loss",
            cv=3,
            refit=False,
            random_state=0,
            **(grid | settings),
        ).fit(X, Y)
        if best is None or search.best_score_ > best.best_score_:
            best = search
    assert best is not None
    return best.set_params(refit=True).fit(X, Y)


def fitted(method: str, X: Any, Y: Any) -> Any:
    """A method, fitted to what is visible."""
    if method == "ticks":
        fixed = {"lambda_ds": [0.0], "alphas": [1.0]}
        return searched(X, Y, absent_label="unlabelled", calibration="sigmoid", **fixed)
    if method == "Elkan-Noto":
        return ElkanNoto().fit(X, Y)
    if method in ("LSML", "ML-LRC"):
        model = (LSMLClassifier if method == "LSML" else MLLRCClassifier)(holes="negative")
        return model.set_params(calibration="sigmoid").fit(X, np.nan_to_num(Y))
    labels = np.nan_to_num(Y) if method == "negative" else Y
    return searched(X, labels, lambda_ds=[0.0, 0.1, 1.0], calibration="sigmoid", coupling=None)


def compute(data: str, mask: str, seed: int, method: str) -> dict[str, Any]:
    """One method on one set."""
    found = load_dataset(data)
    X, Y = found.data, np.asarray(found.target, dtype=np.float64)
    X = X.toarray() if sp.issparse(X) and X.shape[1] <= 5000 else X
    order = np.random.RandomState(seed).permutation(len(Y))
    train, test = order[: int(0.8 * len(Y))], order[int(0.9 * len(Y)) :]
    if not sp.issparse(X) and np.mean(X == 0) < 0.5:
        deviation = X[train].std(axis=0)
        X = (X - X[train].mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    shown, truth = hide(Y[train], mask, seed), Y[test]
    ticked = (shown == 1).any(axis=0)
    shown, truth = shown[:, ticked], truth[:, ticked]
    if method == "missing" and not (shown == 0).any():
        return {"reason": "no negatives: nothing can be fitted"}
    if method == "ML-LRC" and (X.shape[1] > 2000 or shown.shape[1] > 200):
        return {"reason": "too large"}
    if method in ("LSML", "Elkan-Noto") and X.shape[1] > 5000:
        return {"reason": "too large"}
    model = fitted(method, X[train], shown)
    scores, p = model.decision_function(X[test]), model.predict_proba(X[test])
    p = np.clip(p, 0.001, 0.999)
    rows = (truth == 1).any(axis=1) & (truth == 0).any(axis=1)
    both = [k for k in range(truth.shape[1]) if 0 < truth[:, k].sum() < len(truth)]
    share = Y[train][:, ticked].mean(axis=0)
    enough = Y[train][:, ticked].sum(axis=0) >= 50
    row: dict[str, Any] = {
        "auc": float(label_auc(truth, scores)),
        "map": float(np.mean([average_precision_score(truth[:, k], scores[:, k]) for k in both])),
        "rkl": float(ranking_loss(truth[rows], scores[rows])),
        "ap": float(average_precision(truth[rows], scores[rows])),
        "logloss": float(-np.mean(np.log(np.where(truth == 1, p, 1 - p)))),
        "share": float(np.median(np.abs(p.mean(axis=0) - share)[enough] / share[enough])),
    }
    if method == "ticks":
        off = np.abs(model.class_prior_ - share)[enough]
        row["prior"], row["setting"] = float(np.median(off)), str(model.best_params_)
    return row


def summary(args: argparse.Namespace) -> None:
    """Means, mean ranks and the class priors of all lines."""
    lines = [row for row in stored(args.out) if "reason" not in row]
    means: dict[Any, list[Any]] = defaultdict(list)
    for row in lines:
        means[row["data"], row["mask"], row["method"]].append(row)
    result: dict[str, Any] = {"published": {}, "ranks": {}, "means": []}
    for (data, mask, method), rows in sorted(means.items()):
        kept = [n for n in (*MEASURES, "share", "prior") if n in rows[0]]
        values = {name: round(float(np.mean([row[name] for row in rows])), 4) for name in kept}
        result["means"].append({"data": data, "mask": mask, "method": method} | values)
        if mask == "single" and data in PUBLISHED:
            shown = {"ranking loss": values["rkl"], "at most": PUBLISHED[data]}
            result["published"].setdefault(data, {})[method] = shown
    for name, higher in MEASURES.items():
        cells: dict[Any, dict[str, float]] = defaultdict(dict)
        for row in result["means"]:
            cells[row["data"], row["mask"]][row["method"]] = row[name]
        everyone = [m for m in METHODS if all(m in cell for cell in cells.values())]
        table = np.array([[cell[m] for m in everyone] for cell in cells.values()])
        if len(table) > 1 and len(everyone) > 2:
            # Masks of one set are not independent: the test is over means of a set's ranks.
            sets = sorted({data for data, _ in cells})
            own = np.array(
                [ranks.average_ranks(table[[d == data for d, _ in cells]], higher) for data in sets]
            )
            result["ranks"][name] = dict(zip(everyone, own.mean(axis=0).round(3), strict=True))
            if len(sets) > 1:
                result["ranks"][name] |= {
                    "p": ranks.friedman(own, False).f_p_value,
                    "critical difference": ranks.nemenyi_critical_difference(
                        len(everyone), len(sets)
                    ),
                }
    prior = [row["prior"] for row in lines if "prior" in row]
    result["class prior"] = {"median of medians": float(np.median(prior)) if prior else None}
    print(json.dumps({key: result[key] for key in ("published", "ranks", "class prior")}, indent=1))
    write(Path(__file__).parent / "results" / "ticks.json", result)


def main() -> None:
    """Run or sum up."""
    parser = options(__doc__, "results/ticks.json", 5)
    parser.add_argument("--masks", nargs="+", default=list(MASKS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    args = parser.parse_args()
    if args.summary:
        summary(args)
        return
    cells = [
        {"data": data, "mask": mask, "seed": seed, "method": method}
        for seed in range(args.seeds)
        for mask in args.masks
        for data in (args.sets or SETS)
        for method in args.methods
    ]
    run(compute, cells, args)


if __name__ == "__main__":
    main()
