"""Fit time of every method, relative to masked ridge in the same run.

    python benchmarks/baselines.py [--repeats 3] [--out FILE.json]

Default settings, 60 % of the rows, masks per row. Every round times each method once; a ratio is
that of the medians.
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
from dm2l.baselines import (
    GLOCALClassifier,
    LEMLClassifier,
    LSMLClassifier,
    MaskedOneVsRestClassifier,
    MaskedRidgeClassifier,
    MLLRCClassifier,
)
from dm2l.datasets import load_dataset
from dm2l.simulate import simulate_per_row

DATA = ("Arts", "Enron", "Corel16k001")
RATES = (1.0, 0.7, 0.3)


def contenders() -> dict[str, Any]:
    return {
        "DM2L": DM2LClassifier(),
        "MaskedRidge": MaskedRidgeClassifier(),
        "LEML": LEMLClassifier(random_state=0),
        "ML-LRC": MLLRCClassifier(),
        "GLOCAL": GLOCALClassifier(random_state=0),
        "LSML": LSMLClassifier(),
        "MaskedOneVsRest": MaskedOneVsRestClassifier(Ridge()),
    }


def race(X: Any, Y: Any, repeats: int) -> dict[str, float]:
    """Median seconds of every method."""
    models = contenders()
    MaskedRidgeClassifier().fit(X, Y)  # warm up
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(repeats):
        for name, model in models.items():
            start = time.perf_counter()
            model.fit(X, Y)
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConstantLabelWarning)  # rare labels of a split
    results = []
    for name in DATA:
        data = load_dataset(name)
        rows = np.random.RandomState(arguments.seed).permutation(len(data.target))
        rows = rows[: int(0.6 * len(rows))]
        X = data.data[rows].toarray() if sp.issparse(data.data) else data.data[rows]
        for rho in RATES:
            Y = simulate_per_row(data.target[rows], rho, random_state=arguments.seed)
            seconds = race(X, Y, arguments.repeats)
            ratios = {key: value / seconds["MaskedRidge"] for key, value in seconds.items()}
            print(
                f"{name:12} {X.shape} c {Y.shape[1]:3} rho {rho}: "
                f"ridge {seconds['MaskedRidge']:.3f} s; "
                + ", ".join(f"{key} {ratio:.1f}" for key, ratio in ratios.items()),
                flush=True,
            )
            shape = {"rows": X.shape[0], "features": X.shape[1], "labels": Y.shape[1]}
            case = {"data": name, "rho": rho} | shape
            results.append(case | {"seconds": seconds, "over_ridge": ratios})
    if arguments.out:
        write(arguments.out, {"seed": arguments.seed, "rows": results})


if __name__ == "__main__":
    main()
