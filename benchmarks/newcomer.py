"""What a newcomer gets from ``dm2l fit`` on fingerprints, against the best single estimator.

python benchmarks/newcomer.py Tox21.npz --out newcomer.jsonl [--seeds 10] [--jobs 4]
                              [--effort normal] [--minutes 60]
python benchmarks/newcomer.py Tox21.npz --out newcomer.jsonl --summary

Tox21.npz is what benchmarks/fingerprints.py has written. A split keeps one row in five back, writes
the others as a CSV file, and takes the way of the command line: read, fit, save, load, predict.
Beside it are single estimators of the library in Python. A split is covered if the interval that
``fit`` prints holds the AUC of the rows that were kept back.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from record import write
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from dm2l import DM2LClassifier
from dm2l.baselines import MaskedOneVsRestClassifier, MaskedRidgeClassifier
from dm2l.metrics import label_auc
from dm2l.tables import FitOptions, fit_table, load_bundle, read_table, save_bundle
from dm2l.tables._model import read_for
from experiments import resumable

RESULTS = Path(__file__).parent / "results" / "newcomer.json"
SINGLE = {
    "rbf": lambda d: DM2LClassifier(kernel="rbf", gamma=10.0 / d, alpha=1.0),
    "tanimoto": lambda d: DM2LClassifier(kernel="tanimoto", alpha=0.3),
    "linear": lambda d: DM2LClassifier(),
    "ridge": lambda d: MaskedRidgeClassifier(),
    "logistic": lambda d: MaskedOneVsRestClassifier(LogisticRegression(C=0.1, max_iter=2000)),
    "forest": lambda d: MaskedOneVsRestClassifier(
        RandomForestClassifier(200, min_samples_leaf=2, random_state=0)
    ),
}


def split(path: str, seed: int) -> tuple[Any, ...]:
    """Bits and labels of training and of test rows."""
    with np.load(path, allow_pickle=False) as file:
        X, T = file["X"].astype(np.float64), file["T"]
    Y = np.where(T == 0, np.nan, T > 0)
    order = np.random.default_rng(seed).permutation(len(X))
    test, train = order[: len(X) // 5], order[len(X) // 5 :]
    return X[train], Y[train], X[test], Y[test]


def write_table(path: Path, X: Any, Y: Any) -> None:
    """A table with columns ``fp_*`` and ``tox_*``, blank where nobody looked."""
    bits = pd.DataFrame(X.astype(np.int8), columns=[f"fp_{j}" for j in range(X.shape[1])])
    labels = pd.DataFrame(Y, columns=[f"tox_{k}" for k in range(Y.shape[1])]).astype("Int8")
    pd.concat([bits, labels], axis=1).to_csv(path, index=False)


def cell(path: str, seed: int, method: str) -> dict[str, Any]:
    """AUC of the rows that were kept back; of the command line the estimate as well."""
    X, Y, X_new, Y_new = split(path, seed)
    if method in SINGLE:
        model = SINGLE[method](X.shape[1]).fit(X, Y)
        return {"auc": float(label_auc(Y_new, model.decision_function(X_new), estimate=False))}
    with tempfile.TemporaryDirectory() as folder:
        table, new, output = (Path(folder, name) for name in ("t.csv", "new.csv", "m.dm2l"))
        write_table(table, X, Y)
        write_table(new, X_new, Y_new)
        start = time.perf_counter()
        model = fit_table(read_table(table, "tox_*"), FitOptions(effort=method))
        save_bundle(model, output)
        seconds = time.perf_counter() - start
        loaded = load_bundle(output)
        inputs, _ = loaded.inputs(read_for(loaded, new, labels=False))
        scores = loaded.answer(inputs).scores
    mean, low, high = model.estimate.values["label_auc"]
    auc = float(label_auc(Y_new, scores, estimate=False))
    found = {"auc": auc, "estimate": mean, "low": low, "high": high}
    return found | {"covered": bool(low <= auc <= high), "fit_seconds": round(seconds, 1)}


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over splits, differences to the best single estimator, and coverage."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    mean = {m: float(np.mean([row["auc"] for row in rows if row["method"] == m])) for m in methods}
    single = [m for m in methods if m in SINGLE]
    best = max(single, key=lambda m: mean[m]) if single else None
    lines = []
    for method in methods:
        mine = [row for row in rows if row["method"] == method]
        line: dict[str, Any] = {"method": method, "splits": len(mine), "auc": mean[method]}
        if method not in SINGLE:
            line["covered"] = sum(row["covered"] for row in mine)
            line["less_estimate"] = float(np.mean([row["auc"] - row["estimate"] for row in mine]))
            line["slowest_fit"] = max(row["fit_seconds"] for row in mine)
            if best is not None:
                line["best"], line["less_best"] = best, mean[method] - mean[best]
        lines.append(line)
        print(json.dumps(line))
    return lines


def main() -> None:
    parser = resumable.options(__doc__, RESULTS.name, seeds=10)
    parser.add_argument("table", help="Tox21.npz")
    parser.add_argument("--effort", nargs="+", default=["normal"])
    parser.add_argument("--methods", nargs="+", default=list(SINGLE))
    options = parser.parse_args()
    if options.summary:
        rows = resumable.stored(options.out)
        write(RESULTS, {"methods": summary(rows), "splits": rows}, options.ran_on)
        return
    cells = [
        {"path": options.table, "seed": seed, "method": method}
        for seed in range(options.seeds)
        for method in (*options.effort, *options.methods)
    ]
    resumable.run(cell, cells, options)
    summary(resumable.stored(options.out))


if __name__ == "__main__":
    main()
