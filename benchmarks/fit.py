"""Fit time of DM2L over scikit-learn's Ridge and over the cccp solver, as ratios in one run.

    python benchmarks/fit.py [--data Arts] [--repeats 5] [--out FILE.json]
    python benchmarks/fit.py --data Corel16k001 --lambda-d 1 --alpha 1 --rates 0.3 --no-cccp

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
from dm2l.simulate import simulate_per_row


def seconds(task: Any, clock: Any = time.perf_counter) -> float:
    start = clock()
    task()
    return float(clock() - start)


def race(X: Any, Y: Any, settings: dict[str, float], repeats: int, cccp: bool) -> dict[str, Any]:
    model = DM2LClassifier(**settings)
    slow = DM2LClassifier(**settings, solver="cccp")
    filled = np.nan_to_num(2.0 * Y - 1.0)
    contenders = {
        "ridge": lambda: Ridge(alpha=settings["alpha"]).fit(X, filled),
        "dm2l": lambda: model.fit(X, Y),
    }
    for task in contenders.values():
        task()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, task in contenders.items():
            times[name].append(seconds(task))
    lowest = DM2LClassifier(**settings, tol=1e-10, max_iter=1000).fit(X, Y).objective_
    lowest = min(lowest, model.objective_)
    if cccp:
        times["cccp"] = [seconds(lambda: slow.fit(X, Y))]
        lowest = min(lowest, slow.objective_)
    middle = {name: statistics.median(values) for name, values in times.items()}
    found = {
        "seconds": middle,
        "over_ridge": middle["dm2l"] / middle["ridge"],
        "gap": (model.objective_ - lowest) / lowest,
        "iterations": model.n_iter_,
        "evaluations": model.n_evaluations_,
        "objective": model.objective_,
    }
    if cccp:
        found["cccp_over_dm2l"] = middle["cccp"] / middle["dm2l"]
        found["gap_cccp"] = (slow.objective_ - lowest) / lowest
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="Arts")
    parser.add_argument("--lambda-d", type=float, default=0.3)
    parser.add_argument("--alpha", type=float, default=10.0)
    parser.add_argument("--rates", nargs="+", type=float, default=[1.0, 0.7, 0.3])
    parser.add_argument("--no-cccp", dest="cccp", action="store_false")
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
    settings = {"alpha": arguments.alpha, "lambda_d": arguments.lambda_d}
    print(f"{arguments.data}: {X.shape[0]} rows, {X.shape[1]} features, {settings}")
    print(
        f"{'rho':>5} {'ridge s':>9} {'dm2l s':>9} {'/ ridge':>8} {'evaluations':>12} "
        f"{'cccp/dm2l':>10} {'gap':>9}"
    )
    results = {}
    for rho in arguments.rates:
        Y = simulate_per_row(data.target[rows], rho, random_state=arguments.seed)
        found = race(X, Y, settings, arguments.repeats, arguments.cccp)
        results[str(rho)] = found
        print(
            f"{rho:5.1f} {found['seconds']['ridge']:9.4f} {found['seconds']['dm2l']:9.4f} "
            f"{found['over_ridge']:8.2f} {found['evaluations']:12d} "
            f"{found.get('cccp_over_dm2l', float('nan')):10.1f} {found['gap']:9.1e}"
        )
    if arguments.out:
        record = {
            "data": arguments.data,
            "seed": arguments.seed,
            "settings": settings,
            "results": results,
        }
        write(arguments.out, record)


if __name__ == "__main__":
    main()
