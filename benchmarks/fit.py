"""Fit time of DM2L over scikit-learn's Ridge and over the cccp solver, as ratios in one run.

    python benchmarks/fit.py [--data Arts] [--repeats 5] [--out FILE.json]

All contenders see the same X; Ridge gets holes filled with 0 because it takes none. Every round
times each of them once, and the ratio is that of the medians: on a noisy machine only ratios of
one run mean anything. "gap" is how far J at the stop lies above the lowest J known, relative.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from record import write
from sklearn.linear_model import Ridge

from dm2l import ConstantLabelWarning, DM2LClassifier
from dm2l.datasets import load_dataset
from dm2l.masks import hide_per_row

SETTINGS = {"alpha": 10.0, "lambda_d": 0.3}
RATES = (1.0, 0.7, 0.3)


def seconds(task: Any) -> float:
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def race(X: Any, Y: Any, repeats: int) -> dict[str, Any]:
    model = DM2LClassifier(**SETTINGS)
    slow = DM2LClassifier(**SETTINGS, solver="cccp")
    filled = np.nan_to_num(2.0 * Y - 1.0)
    contenders = {
        "ridge": lambda: Ridge(alpha=SETTINGS["alpha"]).fit(X, filled),
        "dm2l": lambda: model.fit(X, Y),
    }
    for task in contenders.values():
        task()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, task in contenders.items():
            times[name].append(seconds(task))
    times["cccp"] = [seconds(lambda: slow.fit(X, Y))]
    best = DM2LClassifier(**SETTINGS, tol=1e-12, max_iter=5000).fit(X, Y).objective_
    lowest = min(best, slow.objective_, model.objective_)
    middle = {name: statistics.median(values) for name, values in times.items()}
    return {
        "seconds": middle,
        "over_ridge": middle["dm2l"] / middle["ridge"],
        "cccp_over_dm2l": middle["cccp"] / middle["dm2l"],
        "gap": (model.objective_ - lowest) / lowest,
        "gap_cccp": (slow.objective_ - lowest) / lowest,
        "iterations": model.n_iter_,
        "objective": model.objective_,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="Arts")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConstantLabelWarning)  # rare labels of a split

    data = load_dataset(arguments.data)
    rows = np.random.RandomState(arguments.seed).permutation(len(data.target))
    rows = rows[: int(0.6 * len(rows))]
    X = data.data[rows]
    X = X.toarray() if sp.issparse(X) else X
    print(f"{arguments.data}: {X.shape[0]} rows, {X.shape[1]} features, {SETTINGS}")
    print(f"{'rho':>5} {'ridge s':>9} {'dm2l s':>9} {'/ ridge':>8} {'cccp/dm2l':>10} {'gap':>9}")
    results = {}
    for rho in RATES:
        Y = hide_per_row(data.target[rows], rho, random_state=arguments.seed)
        found = race(X, Y, arguments.repeats)
        results[str(rho)] = found
        print(
            f"{rho:5.1f} {found['seconds']['ridge']:9.4f} {found['seconds']['dm2l']:9.4f} "
            f"{found['over_ridge']:8.2f} {found['cccp_over_dm2l']:10.1f} {found['gap']:9.1e}"
        )
    if arguments.out:
        record = {
            "data": arguments.data,
            "seed": arguments.seed,
            "settings": SETTINGS,
            "results": results,
        }
        write(arguments.out, record)


if __name__ == "__main__":
    main()
