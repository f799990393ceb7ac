"""A table of assays with SMILES from file to model to predictions, by the command line alone.

    python benchmarks/chemistry.py tox21.csv.gz 'NR-*,SR-*' [--splits random scaffold] [--forest]
    python benchmarks/chemistry.py tox21.csv.gz 'NR-*,SR-*' --prepare bits.npz
    python benchmarks/chemistry.py bits.npz [--splits ...]         # where there is no RDKit

`dm2l fit` on 80 % of the rows, `dm2l predict` on the others, AUC and average precision of each
label over the observed entries of the latter; `all` fits to the whole table. A random split is that
of one permutation, a scaffold split has the commonest scaffolds in training and the rarest in test,
as is the custom. With `--forest` 500 trees a label on the same fingerprints stand beside it.

`--prepare` writes fingerprints, labels and splits; from these the estimator of `dm2l fit` learns
without the command line around it, on a machine that has no RDKit, or with `--kernel tanimoto` DM2L
alone at its defaults. Splits that the results have are not run again.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from record import write
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score, roc_auc_score

from dm2l import AutoClassifier, DM2LClassifier
from dm2l.baselines import MaskedOneVsRestClassifier
from dm2l.chemistry import MorganFingerprints, is_valid_smiles, scaffold_groups
from dm2l.model_selection import MultilabelKFold
from dm2l.tables import load_bundle, read_table

RESULTS = Path(__file__).parent / "results" / "chemistry.json"
SPLITS = ("random", "scaffold", "all")
Run = dict[str, Any]


def held_out(split: str, smiles: Any, seed: int) -> Any:
    """A fifth of the rows, or none."""
    n = len(smiles)
    if split == "all":
        return np.arange(0)
    if split == "random":
        return np.sort(np.random.default_rng(seed).permutation(n)[: n // 5])
    groups = scaffold_groups(smiles)
    size = np.bincount(groups)[groups]
    order = np.lexsort([groups, -size])  # whole scaffolds, commonest first
    return np.sort(order[n - n // 5 :])


def timed(work: Callable[[], Any], who: int) -> tuple[Any, Run]:
    """What work returns, and its seconds on the clock and of processors."""
    before, start = resource.getrusage(who), time.perf_counter()
    found = work()
    after, wall = resource.getrusage(who), time.perf_counter() - start
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return found, {"wall_seconds": round(wall, 1), "cpu_seconds": round(cpu, 1)}


def command(*arguments: Any) -> Run:
    """Run the command line."""
    line = [sys.executable, "-m", "dm2l", *map(str, arguments)]
    return timed(lambda: subprocess.run(line, check=True), resource.RUSAGE_CHILDREN)[1]


def quality(Y: Any, p: Any) -> Run:
    """Over the entries that are observed and predicted."""
    found: dict[str, list[float]] = {"auc": [], "average_precision": []}
    for y, scores in zip(Y.T, p.T, strict=True):
        known = ~np.isnan(y) & ~np.isnan(scores)
        found["auc"].append(roc_auc_score(y[known], scores[known]))
        found["average_precision"].append(average_precision_score(y[known], scores[known]))
    means = {name: round(float(np.mean(values)), 4) for name, values in found.items()}
    return means | {"auc_by_label": [round(float(value), 3) for value in found["auc"]]}


def parts(model: AutoClassifier) -> Run:
    """What was tried, and what the model says of itself."""
    board = model.leaderboard_
    tried = zip(board["model"], board["label_auc"], strict=True)
    return {
        "estimate": [round(float(value), 4) for value in model.estimate_["label_auc"]],
        "parts": {name: round(value, 4) for name, value in tried},
    }


def by_command_line(split: str, options: argparse.Namespace) -> Run:
    """From the file to predictions, and nothing in Python but to measure."""
    table, frame = read_table(options.table, options.labels), pd.read_csv(options.table)
    test = held_out(split, frame[options.smiles], options.seed)
    train = frame.drop(index=frame.index[test])
    groups = ["--groups", options.groups] if options.groups else []
    with tempfile.TemporaryDirectory() as here:
        folder = Path(here)
        model, new, scores = (folder / name for name in ("a.dm2l", "new.csv", "scores.csv"))
        train.to_csv(folder / "train.csv.gz", index=False)
        run: Run = {"by": "dm2l fit", "rows": len(train)}
        run |= command(
            *("fit", folder / "train.csv.gz", "--labels", options.labels, "-o", model),
            *("--effort", options.effort, "--seed", options.seed, *groups),
        )
        run |= parts(load_bundle(model).classifier)
        run["megabytes"] = round(model.stat().st_size / 2**20, 1)
        if not len(test):
            return run
        frame.iloc[test].to_csv(new, index=False)
        run["predict"] = command("predict", model, new, "-o", scores)
        p = pd.read_csv(scores)[[f"{label}__probability" for label in table.label_names]]
    run["test"] = quality(table.Y[test], p.to_numpy())
    if options.forest:
        known = is_valid_smiles(frame[options.smiles])
        X = MorganFingerprints().fit_transform(frame[options.smiles].where(known, ""))
        rows = np.setdiff1d(np.flatnonzero(known), test)
        trees = RandomForestClassifier(500, random_state=options.seed, n_jobs=-1)
        forest = MaskedOneVsRestClassifier(trees).fit(X[rows], table.Y[rows])
        test = test[known[test]]
        run["forest"] = quality(table.Y[test], forest.predict_proba(X[test]))
    return run


def prepare(options: argparse.Namespace) -> None:
    """Write fingerprints, labels and splits."""
    table = read_table(options.table, options.labels)
    smiles = table.frame[options.smiles]
    known = is_valid_smiles(smiles)
    X = MorganFingerprints().fit_transform(smiles[known])
    where = np.cumsum(known) - 1
    tests = {split: held_out(split, smiles, options.seed) for split in SPLITS}
    rows = {f"test_{split}": where[test[known[test]]] for split, test in tests.items()}
    rows["scaffold"] = scaffold_groups(smiles[known])
    content = {"indices": X.indices, "indptr": X.indptr, "n_bits": X.shape[1], **rows}
    np.savez_compressed(options.prepare, Y=table.Y[known], name=options.table.name, **content)


def by_estimator(split: str, options: argparse.Namespace) -> Run:
    """The estimator of `dm2l fit`, or one of its parts, on fingerprints."""
    content = np.load(options.table)
    shape = (len(content["Y"]), int(content["n_bits"]))
    data = np.ones(len(content["indices"]))
    X, Y = sp.csr_array((data, content["indices"], content["indptr"]), shape=shape), content["Y"]
    test = content[f"test_{split}"]
    train = np.setdiff1d(np.arange(len(Y)), test)
    cv = None
    if options.groups:
        cv = MultilabelKFold(5, groups=content[options.groups][train], random_state=0)
    model: Any = AutoClassifier(options.effort, cv=cv, n_jobs=-1, random_state=options.seed)
    if options.kernel:
        model = DM2LClassifier(kernel=options.kernel, coupling="joint")
    _, seconds = timed(lambda: model.fit(X[train], Y[train]), resource.RUSAGE_SELF)
    run = {"by": type(model).__name__, "rows": len(train)} | seconds
    run |= {} if options.kernel else parts(model)
    return run | ({"test": quality(Y[test], model.decision_function(X[test]))} if len(test) else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("labels", nargs="?")
    parser.add_argument("--smiles", default="smiles", help="the column")
    parser.add_argument("--splits", nargs="+", default=SPLITS)
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--kernel", help="of DM2L alone, on fingerprints")
    parser.add_argument("--groups", help="of the estimate, as dm2l fit takes them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--forest", action="store_true")
    parser.add_argument("--prepare", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.prepare is not None:
        prepare(options)
        return
    bits = options.table.suffix == ".npz"
    for split in options.splits:
        table = str(np.load(options.table)["name"]) if bits else options.table.name
        name = {"table": table, "split": split, "effort": options.effort}
        name |= {"seed": options.seed, "groups": options.groups, "kernel": options.kernel}
        stored = json.loads(options.out.read_text())["runs"] if options.out.exists() else []
        if any(name.items() <= run.items() for run in stored):
            continue
        run = name | (by_estimator if bits else by_command_line)(split, options)
        write(options.out, {"runs": [*stored, run]})
        print(json.dumps(run), flush=True)


if __name__ == "__main__":
    main()
