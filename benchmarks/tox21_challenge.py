"""The Tox21 challenge as it was posed: 12 assays, five folds of its training compounds, a test set.

    python benchmarks/tox21_challenge.py FOLDER --out benchmarks/results/tox21_challenge.jsonl
        [--jobs 1] [--minutes 60] [--models "dm2l normal" LightGBM] [--folds 0 1]
    python benchmarks/tox21_challenge.py --out benchmarks/results/tox21_challenge.jsonl --summary
    python benchmarks/tox21_challenge.py FOLDER --test benchmarks/results/tox21_challenge_test.csv
        [--effort best]

FOLDER holds tox21_challenge_train.csv.gz with the columns smiles, ID, CVfold and the assays, and
tox21_challenge_test.csv.gz with smiles and ID. A fold is held out of the fit with all rows of its
compounds, whatever their salt; rows without a fold are always training rows. The measure is the AUC
of each assay. `dm2l ...` is what `dm2l fit` does with that effort, and its rows have the AUC of its
base models too. `--test` fits an effort to all rows and writes probabilities, and into a .json of
the same name what the fit measured by its own folds, which keep compounds together as well. Rows
whose SMILES cannot be read are left out.

Needs rdkit, and lightgbm for one of the models. Results are lines of JSON, and cells that the file
holds are not computed again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import defaultdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from record import machine, write
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from dm2l import DM2LClassifier
from dm2l._auto._base_models import rows_for
from dm2l.baselines import MaskedOneVsRestClassifier
from dm2l.chemistry import (
    MoleculeDescriptors,
    MorganFingerprints,
    compound_groups,
    is_valid_smiles,
)
from dm2l.tables import FitOptions, fit_table, make_table_pipeline, table_from_frame
from experiments import resumable

RESULTS = "benchmarks/results/tox21_challenge.json"
EFFORTS = {"dm2l normal": "normal", "dm2l best": "best"}
MODELS = (
    *("dm2l normal", "Tanimoto, bits", "random forest, bits", "random forest, descriptors"),
    *("LightGBM, counts and descriptors", "dm2l best"),
)
TREES = 200
FOLDS = (0, 1, 2, 3, 4)
Row = dict[str, Any]


def read(folder: Path, name: str) -> pd.DataFrame:
    frame = pd.read_csv(folder / f"tox21_challenge_{name}.csv.gz")
    known = is_valid_smiles(frame["smiles"])
    return frame[known].reset_index(drop=True) if name == "train" else frame


def assays(frame: pd.DataFrame) -> list[str]:
    return [name for name in frame.columns if name.startswith(("NR-", "SR-"))]


def classifier(model: str, smiles: pd.DataFrame, seed: int) -> Any:
    """A pipeline from SMILES that dm2l fit does not make."""
    if model == "Tanimoto, bits":
        return make_pipeline(MorganFingerprints(), DM2LClassifier(kernel="tanimoto"))
    if model.startswith("LightGBM"):
        from lightgbm import LGBMClassifier

        base: Any = LGBMClassifier(n_jobs=1, random_state=seed, verbose=-1)
        return make_table_pipeline(smiles, MaskedOneVsRestClassifier(base))
    base = RandomForestClassifier(TREES, min_samples_leaf=2, random_state=seed)
    forest = MaskedOneVsRestClassifier(base)
    if model == "random forest, bits":
        return make_pipeline(MorganFingerprints(), forest)
    return make_pipeline(MoleculeDescriptors(), SimpleImputer(keep_empty_features=True), forest)


def auc(Y: Any, scores: Any) -> list[float]:
    """AUC of each assay over its observed entries."""
    found = []
    for y, s in zip(Y.T, scores.T, strict=True):
        known = ~np.isnan(y)
        found.append(round(float(roc_auc_score(y[known], s[known])), 4))
    return found


def compute(model: str, fold: int, seed: int, folder: Path) -> Row:
    frame = read(folder, "train")
    names, compounds = assays(frame), compound_groups(frame["smiles"])
    test = (frame["CVfold"] == fold).to_numpy()
    train = ~np.isin(compounds, compounds[test])
    Y = frame[names].to_numpy(dtype=np.float64)
    row: Row = {"train": int(train.sum()), "test": int(test.sum())}
    if model in EFFORTS:
        table = table_from_frame(frame.loc[train, ["smiles", *names]], names)
        options = FitOptions(effort=EFFORTS[model], random_state=seed)
        fitted = fit_table(table, options, estimate_folds=0)
        new = table_from_frame(frame.loc[test, ["smiles", *names]], names)
        inputs = fitted.inputs(new)[0]
        row["auc"] = auc(Y[test], fitted.answer(inputs).probabilities)
        row["base_models"] = base_models(fitted, inputs, Y[test])
        row["board"] = leaderboard(fitted.classifier)
    else:
        smiles = frame[["smiles"]]
        pipeline = classifier(model, smiles[train], seed)
        column = smiles if model.startswith("LightGBM") else smiles["smiles"]
        pipeline.fit(column[train], Y[train])
        row["auc"] = auc(Y[test], pipeline.predict_proba(column[test]))
    row["versions"] = machine() | {name: version(name) for name in ("rdkit", "lightgbm")}
    return row


def leaderboard(auto: Any) -> list[Row]:
    """Models with their out-of-fold AUC and weight in the ensemble; None is not known."""
    board = auto.leaderboard_
    names = ("model", "settings", "label_auc", "weight", "note")
    lines = zip(*(board[name] for name in names), strict=True)
    return [
        {
            name: value if isinstance(value, str) else None if value != value else round(value, 4)
            for name, value in zip(names, line, strict=True)
        }
        for line in lines
    ]


def base_models(fitted: Any, inputs: Any, Y: Any) -> dict[str, list[float]]:
    """AUC of each model that the ensemble kept."""
    auto = fitted.classifier
    X = auto._check_X(fitted.pipeline[:-1].transform(inputs))
    features, found = auto._features, {}
    for name, kind in auto._inputs.items():
        rows = rows_for(kind, X, features.transform(X), features.numbers)
        found[name] = auc(Y, np.asarray(auto.models_[name]._all_scores(rows)))
    return found


def predict_test(folder: Path, out: Path, effort: str, seed: int) -> None:
    """Fit to all training rows, and write probabilities of the test compounds."""
    frame, new = read(folder, "train"), read(folder, "test")
    names, start = assays(frame), time.perf_counter()
    options = FitOptions(effort=effort, random_state=seed)
    table = table_from_frame(frame[["smiles", *names]], names)
    fitted = fit_table(table, options, tell=partial(print, flush=True))
    seconds, auto = time.perf_counter() - start, fitted.classifier
    quality = dict(zip(names, np.round(auto.label_quality_["auc"], 4).tolist(), strict=True))
    found: Row = {"effort": effort, "seed": seed, "rows": len(frame), "seconds": round(seconds)}
    found |= {"rdkit": version("rdkit"), "auc": quality, "models": leaderboard(auto)}
    write(out.with_suffix(".json"), found)
    inputs = fitted.inputs(table_from_frame(new[["smiles"]]))[0]
    p = pd.DataFrame(fitted.answer(inputs).probabilities.round(5), columns=names)
    p = p.fillna(frame[names].mean().round(5))  # for molecules that cannot be read
    out.parent.mkdir(parents=True, exist_ok=True)
    pd.concat([new[["ID"]], p], axis=1).to_csv(out, index=False)


def summarise(rows: list[Row]) -> Row:
    """Mean AUC of the assays by model, over the folds that are there."""
    by_model = defaultdict(dict)
    for row in rows:
        by_model[row["model"]][row["fold"]] = row["auc"]
        for name, found in row.get("base_models", {}).items():
            by_model[f"{row['model']}: {name}"][row["fold"]] = found
    found: Row = {}
    for model, folds in by_model.items():
        values = np.array([folds[fold] for fold in sorted(folds)])
        found[model] = {
            "folds": sorted(folds),
            "mean": round(float(values.mean()), 4),
            "by_fold": values.mean(axis=1).round(4).tolist(),
            "by_assay": values.mean(axis=0).round(3).tolist(),
        }
    return {"models": found, "versions": rows[-1]["versions"]}


def main() -> None:
    parser = resumable.options(__doc__, RESULTS, 1)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--folds", nargs="+", type=int, default=FOLDS)
    parser.add_argument("--test", type=Path, help="file of probabilities to write")
    parser.add_argument("--effort", default="best", help="with --test")
    for action in parser._actions:
        if action.dest == "out":
            action.required = False
    options: argparse.Namespace = parser.parse_args()
    if options.test is not None:
        predict_test(options.folder, options.test, options.effort, 0)
        return
    if options.summary:
        found = summarise(resumable.stored(options.out))
        print(json.dumps(found["models"], indent=1))
        write(Path(RESULTS), found, options.ran_on)
        return
    cells = itertools.product(options.models, options.folds, range(options.seeds))
    todo = [{"model": model, "fold": fold, "seed": seed} for model, fold, seed in cells]
    resumable.run(partial(compute, folder=options.folder), todo, options)


if __name__ == "__main__":
    main()
