"""A table like ToxCast in shape: what inspect, fit and the estimators take on it.

python benchmarks/wide_table.py FOLDER [--rows 8600] [--labels 617] [--steps inspect fit estimators]
                                [--tol 1e-4]

8,600 rows, 1,024 bits of which one in twelve is set, 617 labels in groups that were run on the same
rows, 29 % observed, one in ten of them positive. The table is made once and kept in FOLDER; one
line of JSON for each step.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import beta

from dm2l import DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier

BITS, GROUP, OBSERVED, RANK = 1024, 20, 0.29, 12


def make(n_rows: int, n_labels: int, seed: int = 0) -> pd.DataFrame:
    """Bits in columns ``fp_*``, labels in columns ``assay_*``, blank where nobody looked."""
    rng = np.random.default_rng(seed)
    rate = rng.beta(0.5, 5.5, BITS)  # few bits are common
    X = (rng.random((n_rows, BITS)) < rate).astype(np.int8)
    hidden = X @ rng.normal(size=(BITS, RANK)) / np.sqrt(BITS / 12)
    hidden = (hidden - hidden.mean(axis=0)) / hidden.std(axis=0)
    score = hidden @ rng.normal(size=(RANK, n_labels)) / np.sqrt(RANK)
    positive = rng.random((n_rows, n_labels)) < expit(2.5 * score - rng.normal(4, 1, n_labels))
    Y = np.full((n_rows, n_labels), np.nan)
    starts = range(0, n_labels, GROUP)
    even = (np.arange(len(starts)) + 0.5) / len(starts)
    shares = beta.ppf(rng.permutation(even), 0.8, 0.8 * (1 - OBSERVED) / OBSERVED)
    for first, share in zip(starts, shares, strict=True):
        run = rng.random(n_rows) < max(share, 300 / n_rows)  # the same for assays of one source
        here = slice(first, first + GROUP)
        Y[:, here] = np.where(run[:, None], positive[:, here], np.nan)
    bits = pd.DataFrame(X, columns=[f"fp_{j}" for j in range(BITS)])
    labels = pd.DataFrame(Y, columns=[f"assay_{k}" for k in range(n_labels)]).astype("Int8")
    return pd.concat([bits, labels], axis=1)


def tell(**found: Any) -> None:
    print(json.dumps(found), flush=True)


def command(*arguments: str | Path) -> dict[str, float]:
    """Seconds of a command, and those of all cores that it used."""
    start, before = time.perf_counter(), os.times()
    called = [sys.executable, "-m", "dm2l", *map(str, arguments)]
    subprocess.run(called, check=True, stdout=subprocess.DEVNULL)
    cores = sum(os.times()[2:4]) - sum(before[2:4])
    return {"seconds": round(time.perf_counter() - start, 1), "of_cores": round(cores, 1)}


def estimators(table: pd.DataFrame, tol: float) -> None:
    X = table.filter(like="fp_").to_numpy(dtype=np.float64)
    Y = table.filter(like="assay_").to_numpy(dtype=np.float64, na_value=np.nan)
    for model in (MaskedRidgeClassifier(), DM2LClassifier(tol=tol)):
        start, cores = time.perf_counter(), time.process_time()
        model.fit(X, Y)
        seconds = round(time.perf_counter() - start, 1)
        cores = round(time.process_time() - cores, 1)
        evaluations = getattr(model, "n_evaluations_", None)
        tell(step=repr(model), seconds=seconds, of_cores=cores, evaluations=evaluations)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=8600)
    parser.add_argument("--labels", type=int, default=617)
    steps = ["inspect", "fit", "estimators"]
    parser.add_argument("--steps", nargs="+", choices=steps, default=steps)
    parser.add_argument("--tol", type=float, default=1e-5)
    options = parser.parse_args()
    path = options.folder / f"wide_{options.rows}_{options.labels}.csv"
    if not path.exists():
        make(options.rows, options.labels).to_csv(path, index=False)
    words = (path, "--labels", "assay_*")
    if "inspect" in options.steps:
        tell(step="inspect", **command("inspect", *words))
    if "fit" in options.steps:
        output = options.folder / "wide.dm2l"
        quick = ("--effort", "quick", "-o", output, "--force")
        tell(step="fit --effort quick", **command("fit", *words, *quick))
    if "estimators" in options.steps:
        estimators(pd.read_csv(path), options.tol)


if __name__ == "__main__":
    main()
