"""How the cost of a linear fit grows with the rows, the features and the labels.

    python benchmarks/scaling.py [--axes n d c] [--repeats 3] [--out FILE.json] [--quick]

Synthetic data of low rank with 30 % of the labels observed, default settings. One size is varied at
a time; with the number of labels the average number of positives per row stays fixed. The exponent
is the slope of a least-squares line through log seconds against log size. Ridge sees the same X,
holes filled with 0. Every round times each size and each contender once; figures are medians.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from fit import seconds
from record import write
from scipy.stats import norm
from sklearn.linear_model import Ridge

from dm2l import ConstantLabelWarning, DM2LClassifier
from dm2l.simulate import simulate_uniform

RHO = 0.3
RANK = 20
POSITIVES = 3.0  # per row, before labels are hidden
BLOCK = 10_000
BASE = {"n": 20_000, "d": 500, "c": 25}
SIZES = {
    "n": (5_000, 15_000, 50_000, 150_000, 500_000),
    "d": (125, 250, 500, 1000, 2000),
    "c": (12, 25, 50, 100, 200, 400),
}
QUICK_BASE = {"n": 2_000, "d": 50, "c": 10}
QUICK_SIZES = {"n": (500, 1000, 2000), "d": (25, 50, 100), "c": (10, 20, 40)}


def make_data(n: int, d: int, c: int, seed: int) -> tuple[Any, Any]:
    """Features ``ZA`` with noise and labels ``ZB > t``, ``Z`` of few columns, in blocks of rows.

    Label ``k`` is positive in a share of the rows that falls like ``1/sqrt(k)``.
    """
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((RANK, d)) / np.sqrt(RANK)
    B = rng.standard_normal((RANK, c))
    B *= np.sqrt(0.8 / (B**2).sum(axis=0))  # with the noise below: unit variance
    share = 1.0 / np.sqrt(np.arange(1.0, c + 1.0))
    border = norm.isf(np.minimum(POSITIVES * share / share.sum(), 0.6))
    X = np.empty((n, d))
    Y = np.empty((n, c), dtype=np.int8)
    for start in range(0, n, BLOCK):
        rows = slice(start, min(start + BLOCK, n))
        Z = rng.standard_normal((rows.stop - start, RANK))
        np.matmul(Z, A, out=X[rows])
        X[rows] += 0.5 * rng.standard_normal(X[rows].shape)
        Y[rows] = Z @ B + np.sqrt(0.2) * rng.standard_normal((len(Z), c)) > border
    return X, simulate_uniform(Y, RHO, random_state=seed)


def cases(axis: str, sizes: tuple[int, ...], base: dict[str, int], seed: int) -> dict[int, Any]:
    """The data of every size; smaller ones are the first rows or columns of the largest."""
    if axis == "c":  # other labels, for their shares change
        return {size: make_data(**(base | {"c": size}), seed=seed) for size in sizes}
    X, Y = make_data(**(base | {axis: max(sizes)}), seed=seed)
    if axis == "n":
        return {size: (X[:size], Y[:size]) for size in sizes}
    return {size: (np.ascontiguousarray(X[:, :size]), Y) for size in sizes}


def measure(data: dict[int, Any], repeats: int) -> list[dict[str, Any]]:
    """Median seconds and number of steps of every size."""
    filled = {size: np.nan_to_num(2.0 * Y - 1.0) for size, (_, Y) in data.items()}
    models = {size: DM2LClassifier() for size in data}
    times: dict[int, dict[str, list[float]]] = {size: {"dm2l": [], "ridge": []} for size in data}
    for repeat in range(repeats):
        for size, (X, Y) in data.items():
            ridge = seconds(lambda X=X, size=size: Ridge().fit(X, filled[size]))
            dm2l = seconds(lambda X=X, Y=Y, size=size: models[size].fit(X, Y))
            times[size]["ridge"].append(ridge)
            times[size]["dm2l"].append(dm2l)
            sys.stderr.write(f"  round {repeat + 1}, {size}: {dm2l:.2f} s, ridge {ridge:.2f} s\n")
    rows = []
    for size, (X, Y) in data.items():
        middle = {name: statistics.median(values) for name, values in times[size].items()}
        # Evaluations of the objective where the model counts them, else iterations.
        counted = "evaluations" if hasattr(models[size], "n_evaluations_") else "iterations"
        steps = getattr(models[size], "n_evaluations_", models[size].n_iter_)
        rows.append(
            {
                "size": size,
                "n": X.shape[0],
                "d": X.shape[1],
                "c": Y.shape[1],
                "seconds": middle["dm2l"],
                "ridge": middle["ridge"],
                "over_ridge": middle["dm2l"] / middle["ridge"],
                "iterations": models[size].n_iter_,
                "counted": counted,
                "steps": steps,
                "per_step": middle["dm2l"] / steps,
                "observed_positives_per_row": float((Y == 1).sum() / len(Y)),
            }
        )
    return rows


def exponent(rows: list[dict[str, Any]], name: str) -> tuple[float, float]:
    """Slope and intercept of log ``name`` against log size."""
    x, y = (np.log([row[key] for row in rows]) for key in ("size", name))
    slope, intercept = np.polyfit(x, y, 1)
    return float(slope), float(intercept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--axes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConstantLabelWarning)  # rare labels of a small size
    base, sizes = (QUICK_BASE, QUICK_SIZES) if arguments.quick else (BASE, SIZES)
    X, Y = make_data(500, 50, 10, arguments.seed)
    DM2LClassifier().fit(X, Y)  # warm up

    results = {}
    for axis in arguments.axes:
        fixed = {name: value for name, value in base.items() if name != axis}
        sys.stderr.write(f"against {axis}, {fixed}\n")
        rows = measure(cases(axis, sizes[axis], base, arguments.seed), arguments.repeats)
        slopes = {
            name: dict(zip(("exponent", "intercept"), exponent(rows, name), strict=True))
            for name in ("seconds", "per_step", "ridge")
        }
        results[axis] = {"fixed": fixed, "rows": rows, "fit": slopes}
        print(f"against {axis}, " + ", ".join(f"{name} {value}" for name, value in fixed.items()))
        print(f"{axis:>8} {'dm2l s':>9} {'/ ridge':>8} {rows[0]['counted']:>12} {'s each':>9}")
        for row in rows:
            print(
                f"{row['size']:8d} {row['seconds']:9.3f} {row['over_ridge']:8.2f} "
                f"{row['steps']:12d} {row['per_step']:9.4f}"
            )
        print(
            f"dm2l ~ {axis}^{slopes['seconds']['exponent']:.2f}, one of the {rows[0]['counted']} ~ "
            f"{axis}^{slopes['per_step']['exponent']:.2f}, ridge ~ "
            f"{axis}^{slopes['ridge']['exponent']:.2f}\n",
            flush=True,
        )
    if arguments.out:
        settings = {"rho": RHO, "rank": RANK, "positives": POSITIVES, "model": "defaults"}
        record = {"seed": arguments.seed, "repeats": arguments.repeats, "settings": settings}
        write(arguments.out, record | {"quick": arguments.quick, "axes": results})


if __name__ == "__main__":
    main()
