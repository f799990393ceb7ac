"""Approximate kernel features against the exact kernel: fit time and what the scores are worth.

    python benchmarks/nystroem.py [--components 250 500 1000 2000] [--out FILE.json] [--quick]

Tmc2007-500-old (the edition of the paper's figures), 60 % of the rows, rbf with gamma="scale", 30 %
of the labels observed; metrics on the other 40 %. The exact kernel takes minutes and holds a few
n x n matrices (about 10 GB), so it is fitted once and the approximations in rounds around it;
figures are medians.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from record import write

from dm2l import ConstantLabelWarning, DM2LClassifier
from dm2l.datasets import load_dataset
from dm2l.metrics import label_ranking_average_precision, ranking_loss
from dm2l.simulate import simulate_per_row

RHO = 0.3
SETTINGS = {"kernel": "rbf", "gamma": "scale", "lambda_d": 0.3, "alpha": "scale"}
APPROXIMATIONS = ("nystroem", "fourier")


def split(name: str, seed: int, rows: int | None) -> tuple[Any, Any, Any, Any]:
    """Training rows, their labels with holes, test rows, their labels."""
    data = load_dataset(name)
    X = data.data.toarray() if sp.issparse(data.data) else data.data
    order = np.random.RandomState(seed).permutation(len(data.target))
    cut = int(0.6 * len(order))
    train, test = order[:cut][:rows], order[cut:][:rows]
    Y = simulate_per_row(data.target[train], RHO, random_state=seed)
    return X[train], Y, X[test], data.target[test]


def run(model: DM2LClassifier, data: tuple[Any, Any, Any, Any]) -> dict[str, Any]:
    """Seconds to fit and to score the test rows, and the metrics there."""
    X, Y, X_test, Y_test = data
    start = time.perf_counter()
    model.fit(X, Y)
    fitted = time.perf_counter()
    scores = model.decision_function(X_test)
    done = time.perf_counter()
    error = getattr(model, "approximation_error_", None)
    found = {
        "seconds": fitted - start,
        "predict_seconds": done - fitted,
        "average_precision": float(label_ranking_average_precision(Y_test, scores)),
        "ranking_loss": float(ranking_loss(Y_test, scores)),
        "iterations": model.n_iter_,
        "error": None if error is None else float(error),
    }
    sys.stderr.write(f"  {found['seconds']:.1f} s, Ap {found['average_precision']:.4f}\n")
    return found


def median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        name: None if runs[0][name] is None else statistics.median(run[name] for run in runs)
        for name in runs[0]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="Tmc2007-500-old")
    parser.add_argument("--components", nargs="+", type=int, default=[250, 500, 1000, 2000])
    parser.add_argument("--approximations", nargs="+", default=list(APPROXIMATIONS))
    parser.add_argument("--repeats", type=int, default=3, help="of the approximations")
    parser.add_argument("--gamma", default="scale", help="of the kernel: a number or 'scale'")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--quick", action="store_true", help="1,000 rows, a tenth of the components"
    )
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConstantLabelWarning)  # rare labels of a split
    settings = SETTINGS | {"gamma": arguments.gamma}
    if arguments.gamma != "scale":
        settings["gamma"] = float(arguments.gamma)
    components = [size // 10 if arguments.quick else size for size in arguments.components]

    data = split(arguments.data, arguments.seed, 1000 if arguments.quick else None)
    DM2LClassifier(**settings).fit(data[0][:200], data[1][:200])  # warm up
    cases = [(kind, size) for size in components for kind in arguments.approximations]
    runs: dict[tuple[str, int], list[dict[str, Any]]] = {case: [] for case in cases}
    exact: dict[str, Any] = {}
    for repeat in range(arguments.repeats):
        for kind, size in cases:
            sys.stderr.write(f"round {repeat + 1}, {kind}, {size}:\n")
            # Another seed each round: the metrics should not hang on one draw.
            options = {"approximation": kind, "n_components": size, "random_state": repeat}
            runs[kind, size].append(run(DM2LClassifier(**settings, **options), data))
        if repeat == arguments.repeats // 2:
            sys.stderr.write("exact:\n")
            exact = run(DM2LClassifier(**settings), data)

    rows = []
    print(f"{arguments.data}: {data[0].shape[0]} rows, {data[0].shape[1]} features, rho {RHO}")
    print(
        f"{'':9} {'r':>6} {'fit s':>8} {'exact/':>7} {'Ap':>7} {'less':>8} {'Rkl':>7} {'error':>8}"
    )
    print(
        f"{'exact':9} {data[0].shape[0]:6d} {exact['seconds']:8.2f} {1:7.1f} "
        f"{exact['average_precision']:7.4f} {0:8.4f} {exact['ranking_loss']:7.4f}"
    )
    for (kind, size), found in ((case, median(runs[case])) for case in cases):
        found["faster"] = exact["seconds"] / found["seconds"]
        found["lost"] = exact["average_precision"] - found["average_precision"]
        rows.append({"approximation": kind, "components": size} | found)
        error = "-" if found["error"] is None else f"{found['error']:.1e}"
        print(
            f"{kind:9} {size:6d} {found['seconds']:8.2f} {found['faster']:7.1f} "
            f"{found['average_precision']:7.4f} {found['lost']:8.4f} "
            f"{found['ranking_loss']:7.4f} {error:>8}"
        )
    if arguments.out:
        record = {"data": arguments.data, "seed": arguments.seed, "rho": RHO, "settings": settings}
        record |= {"train_rows": len(data[0]), "repeats": arguments.repeats}
        write(arguments.out, record | {"quick": arguments.quick, "exact": exact, "rows": rows})


if __name__ == "__main__":
    main()
