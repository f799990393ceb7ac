"""Imputed labels of small sets with many labels, with and without the known labels of a row.

    python benchmarks/imputation.py --name after [--trees] [--out FILE.json]

Of 500 rows, 30 % of the labels are known, and the others are imputed: by the features alone, by
`complete`, and with ``--trees`` by extra trees on [features, known labels], one forest a label.
``top`` counts missing entries with a probability of at least 0.9, ``claimed`` is their mean
probability and ``true`` their share of positives. Results are added to the file under ``name``, so
that two checkouts can be compared. Seconds are processor time.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from record import machine, write
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import average_precision_score, roc_auc_score

from dm2l import AutoClassifier, DM2LClassifier
from dm2l.datasets import load_dataset
from dm2l.simulate import simulate_uniform

SETS = ("Corel16k001", "bibtex", "rcv1subset1", "delicious", "Enron", "Arts", "yeast")
ROWS, RATE, MOST_LABELS, TOP, SEED = 500, 0.3, 200, 0.9, 0


def read(name: str) -> tuple[Any, Any, Any]:
    """Features, all labels (the 200 most frequent), and the known ones."""
    found = load_dataset(name)
    X = np.asarray(found.data.toarray() if hasattr(found.data, "toarray") else found.data)
    Y = np.asarray(found.target, dtype=np.float64)
    rows = np.random.default_rng(SEED).permutation(len(Y))[:ROWS]
    X, Y = X[rows], Y[rows]
    X, Y = X[:, X.std(axis=0) > 0], Y[:, np.sort(np.argsort(-Y.sum(axis=0))[:MOST_LABELS])]
    return X, Y, simulate_uniform(Y, RATE, random_state=SEED)


def measured(Y: Any, missing: Any, P: Any) -> dict[str, float]:
    columns = [(Y[rows, k], P[rows, k]) for k, rows in enumerate(missing.T)]
    both = [(y, p) for y, p in columns if y.any() and not y.all()]
    y, p = Y[missing], np.clip(P[missing], 1e-4, 1 - 1e-4)
    top = p >= TOP
    found = {
        "label_auc": np.mean([roc_auc_score(*column) for column in both]),
        "average_precision": np.mean([average_precision_score(*column) for column in both]),
        "log_loss": -np.mean(np.log(np.where(y == 1, p, 1 - p))),
        "top": top.sum(),
        "claimed": p[top].mean() if top.any() else np.nan,
        "true": y[top].mean() if top.any() else np.nan,
    }
    return {name: round(float(value), 4) for name, value in found.items()}


def trees(X: Any, S: Any) -> Any:
    """Extra trees on the features and on the known labels, -1, 0 (missing) or 1."""
    T = np.where(np.isnan(S), 0, 2 * S - 1)
    rates = ((T > 0).sum(axis=0) + 0.5) / ((T != 0).sum(axis=0) + 1)
    P = np.tile(rates, (len(S), 1))
    for k in np.flatnonzero((T > 0).any(axis=0) & (T < 0).any(axis=0)):
        known, Z = T[:, k] != 0, np.hstack([X, np.delete(T, k, axis=1)])
        forest = ExtraTreesClassifier(100, min_samples_leaf=2, random_state=SEED)
        P[:, k] = forest.fit(Z[known], T[known, k]).predict_proba(Z)[:, 1]
    return P


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--trees", action="store_true")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/imputation.json"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    for data in options.sets:
        X, Y, S = read(data)

        def add(method: str, P: Any, seconds: float) -> None:
            row = {"data": data, "method": method} | measured(Y, np.isnan(S), P)  # noqa: B023
            rows.append(row | {"seconds": round(seconds, 2)})
            print(rows[-1], flush=True)

        models = {"DM2L": DM2LClassifier(), "auto quick": AutoClassifier("quick", random_state=0)}
        for name, model in models.items():
            start = time.process_time()
            model.fit(X, S)
            fitted = time.process_time()
            add(f"{name}, features", model.predict_proba(X), fitted - start)
            start += time.process_time() - fitted  # without these predictions
            P = model.complete(X, S, method="predict_proba")
            add(name, P, time.process_time() - start)
        if options.trees:
            start = time.process_time()
            add("extra trees", trees(X, S), time.process_time() - start)
    stored = json.loads(options.out.read_text()) if options.out.exists() else {}
    stored.pop("machine", None)
    record = {"rows": ROWS, "rate": RATE, "seed": SEED, "versions": machine()} | stored
    write(options.out, record | {options.name: rows})


if __name__ == "__main__":
    main()
