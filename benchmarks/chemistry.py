"""A table of assays with SMILES from file to model to predictions, by the command line alone.

    python benchmarks/chemistry.py tox21.csv.gz 'NR-*,SR-*' [--splits random scaffold all]
                                   [--effort normal] [--out benchmarks/results/chemistry.json]

`dm2l fit` on 80 % of the rows, `dm2l predict` on the others, AUC and average precision of each
label over the observed entries of the latter; `all` fits to the whole table. A random split is that
of one permutation, a scaffold split has the commonest scaffolds in training and the rarest in test,
as is the custom. With `--forest` 500 trees a label on the same fingerprints stand beside it. Splits
that the results have are not run again.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from record import write
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score, roc_auc_score

from dm2l.baselines import OneVsRestMasked
from dm2l.chemistry import MorganFingerprints, readable, scaffold_groups
from dm2l.tables import Table, load_bundle, read_table

RESULTS = Path(__file__).parent / "results" / "chemistry.json"


def test_rows(split: str, smiles: Any, seed: int) -> Any:
    """A fifth of the rows."""
    n = len(smiles)
    if split == "random":
        return np.sort(np.random.default_rng(seed).permutation(n)[: n // 5])
    groups = scaffold_groups(smiles)
    size = np.bincount(groups)[groups]
    order = np.lexsort([groups, -size])  # whole scaffolds, commonest first
    return np.sort(order[n - n // 5 :])


def command(*arguments: Any) -> dict[str, float]:
    """Run the command line; seconds on the clock and of processors."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "dm2l", *map(str, arguments)], check=True)
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1)}


def quality(Y: Any, p: Any) -> dict[str, Any]:
    """Over the entries that are observed and predicted."""
    found: dict[str, list[float]] = {"auc": [], "average_precision": []}
    for y, scores in zip(Y.T, p.T, strict=True):
        known = ~np.isnan(y) & ~np.isnan(scores)
        found["auc"].append(roc_auc_score(y[known], scores[known]))
        found["average_precision"].append(average_precision_score(y[known], scores[known]))
    means = {name: round(float(np.mean(values)), 4) for name, values in found.items()}
    return means | {"auc_by_label": [round(float(value), 3) for value in found["auc"]]}


def forest(table: Table, smiles: str, test: Any, seed: int) -> dict[str, Any]:
    """The same rows by 500 trees a label."""
    known = readable(table.frame[smiles])
    train = np.setdiff1d(np.flatnonzero(known), test)
    test = test[known[test]]
    bits = MorganFingerprints().fit(None)
    X, new = (bits.transform(table.frame[smiles].iloc[rows]) for rows in (train, test))
    model = OneVsRestMasked(RandomForestClassifier(500, random_state=seed, n_jobs=-1))
    return quality(table.Y[test], model.fit(X, table.Y[train]).predict_proba(new))


def fit(frame: Any, labels: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The model of a part of the table, and what it says of itself."""
    frame.to_csv(folder / "train.csv.gz", index=False)
    found = command(
        *("fit", folder / "train.csv.gz", "--labels", labels, "--effort", options.effort),
        *("--seed", options.seed, "--groups", options.groups)[: 4 if options.groups else 2],
        *("-o", folder / "model.dm2l"),
    )
    model = load_bundle(folder / "model.dm2l")
    board = model.classifier.leaderboard_
    return found | {
        "estimate": list(map(float, model.estimate.values["label_auc"])),
        "parts": {
            name: [round(value, 4) for value in values]
            for name, *values in zip(board["model"], board["label_auc"], strict=True)
        },
        "megabytes": round((folder / "model.dm2l").stat().st_size / 2**20, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("labels")
    parser.add_argument("--smiles", default="smiles", help="the column")
    parser.add_argument("--splits", nargs="+", default=["random", "scaffold", "all"])
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--groups", help="of the estimate, as dm2l fit takes them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--forest", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = read_table(options.table, options.labels)
    frame = pd.read_csv(options.table)
    stored = json.loads(options.out.read_text())["runs"] if options.out.exists() else []
    for split in options.splits:
        name = {"table": options.table.name, "split": split, "effort": options.effort}
        name |= {"seed": options.seed, "groups": options.groups}
        if any(name.items() <= run.items() for run in stored):
            continue
        test = [] if split == "all" else test_rows(split, frame[options.smiles], options.seed)
        with tempfile.TemporaryDirectory() as here:
            folder = Path(here)
            train = frame.drop(index=frame.index[test])
            run = name | {"rows": len(train)} | fit(train, options.labels, folder, options)
            if len(test):
                frame.iloc[test].to_csv(folder / "new.csv", index=False)
                run["predict"] = command(
                    *("predict", folder / "model.dm2l", folder / "new.csv"),
                    *("-o", folder / "scores.csv"),
                )
                scores = pd.read_csv(folder / "scores.csv")
                p = scores[[f"{label}__probability" for label in table.label_names]]
                run["test"] = quality(table.Y[test], p.to_numpy())
            if len(test) and options.forest:
                run["forest"] = forest(table, options.smiles, test, options.seed)
        stored.append(run)
        write(options.out, {"runs": stored})
        print(json.dumps(run), flush=True)


if __name__ == "__main__":
    main()
