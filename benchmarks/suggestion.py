"""Answers that `suggest` chooses against random ones and the most uncertain ones.

    python benchmarks/suggestion.py --out suggestion.jsonl --seeds 10 --jobs 16
    python benchmarks/suggestion.py --summary suggestion.jsonl

Half of the labels are hidden. 200 holes are answered, 20 at a time, each way by its own model,
which is fitted again in between; then the holes that are left are filled. "uncertainty" asks for
what is nearest one half by the probabilities that `complete` gives, with the known labels of the
row; "features" by those of the features alone. A run that is stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import wilcoxon
from sklearn.preprocessing import StandardScaler

from dm2l import DM2LClassifier
from dm2l.datasets import load_dataset
from dm2l.simulate import simulate_uniform
from dm2l.tables._suggestion import answer_values, suggested
from experiments.resumable import one_thread, stored

SETS = ("emotions", "yeast", "Enron")
WAYS = ("suggest", "uncertainty", "random", "features")
ANSWERS, BATCH, RATE = 200, 20, 0.5


def read(name: str, seed: int, rows: int) -> tuple[Any, Any]:
    found = load_dataset(name)
    sparse = sp.issparse(found.data)
    X = found.data.toarray() if sparse else StandardScaler().fit_transform(found.data)
    order = np.random.default_rng(seed).permutation(X.shape[0])[:rows]
    return X[order], np.asarray(found.target, dtype=np.float64)[order]


def wanted(way: str, model: Any, X: Any, Y: Any, rng: Any) -> Any:
    """How much an answer to each entry is wanted."""
    if way == "random":
        return rng.random(Y.shape)
    if way == "suggest":
        return suggested(answer_values(model, X, Y), np.isnan(Y))
    if way == "features":
        return -np.abs(model.predict_proba(X) - 0.5)
    return -np.abs(model.complete(X, Y, method="predict_proba") - 0.5)


def compute(name: str, seed: int, way: str, rows: int, out: Path) -> str:
    warnings.simplefilter("ignore")  # rare labels
    start = time.perf_counter()
    X, truth = read(name, seed, rows)
    Y = simulate_uniform(truth, RATE, random_state=seed)
    rng = np.random.default_rng(seed)
    model = DM2LClassifier(calibration="sigmoid").fit(X, Y)
    for _ in range(ANSWERS // BATCH):
        value = np.where(np.isnan(Y), wanted(way, model, X, Y, rng), -np.inf)
        chosen = np.argsort(-value, axis=None, kind="stable")[:BATCH]
        Y.flat[chosen] = truth.flat[chosen]
        model = DM2LClassifier(calibration="sigmoid").fit(X, Y)
    left = np.isnan(Y)
    p = model.complete(X, Y, method="predict_proba")[left]
    line = {
        "data": name,
        "seed": seed,
        "way": way,
        "error": float(np.mean(model.complete(X, Y)[left] != truth[left])),
        "brier": float(np.mean((p - truth[left]) ** 2)),
        "left": int(left.sum()),
        "seconds": time.perf_counter() - start,
    }
    with out.open("a") as file:
        file.write(json.dumps(line) + "\n")
    return f"{name} {seed} {way}: error {line['error']:.4f}, {line['seconds']:.0f} s"


def summarize(lines: list[dict[str, Any]]) -> None:
    for name in SETS:
        by = {(line["seed"], line["way"]): line for line in lines if line["data"] == name}
        seeds = sorted({seed for seed, _ in by if all((seed, way) in by for way in WAYS)})
        if not seeds:
            continue
        print(f"{name}, {len(seeds)} seeds: error and squared error of the holes that are left")
        ours = np.array([by[seed, "suggest"]["error"] for seed in seeds])
        for way in WAYS:
            error = np.array([by[seed, way]["error"] for seed in seeds])
            brier = np.mean([by[seed, way]["brier"] for seed in seeds])
            line = f"  {way:12s} {error.mean():.4f}  {brier:.4f}"
            if way != "suggest" and (error != ours).any():
                better, test = int((ours < error).sum()), wilcoxon(ours, error)
                line += f"  suggest better on {better} of {len(seeds)}, p = {test.pvalue:.3f}"
            print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--summary", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.summary:
        summarize(stored(arguments.summary))
        return
    if arguments.out is None:
        parser.error("--out or --summary")
    done = {(line["data"], line["seed"], line["way"]) for line in stored(arguments.out)}
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    cells = [cell for cell in product(arguments.sets, seeds, WAYS) if cell not in done]
    cells.sort(key=lambda cell: (cell[1], SETS.index(cell[0])))
    one_thread()
    context = multiprocessing.get_context("spawn")  # threads of BLAS do not survive a fork
    with ProcessPoolExecutor(arguments.jobs, mp_context=context) as pool:
        running = [pool.submit(compute, *cell, arguments.rows, arguments.out) for cell in cells]
        for future in running:
            print(future.result(), flush=True)


if __name__ == "__main__":
    main()
