"""Exact kernel fits against scikit-learn's KernelRidge, and a kernel search against one fit.

    python benchmarks/kernels.py [--data FILE.npz] [--rows 6000] [--search] [--out FILE.json]

``FILE.npz`` holds ``X`` and ``T``, signs of the labels with 0 where missing:
without it bits and 12 labels are drawn, 29 % of which
are missing. KernelRidge has the same kernel and ridge and labels without holes. Times are processor
time, the least of some rounds in which both take turns; memory is the peak of what numpy allocated
during the fit, in kernel matrices.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from record import write
from sklearn.kernel_ridge import KernelRidge

from dm2l import ConstantLabelWarning, DM2LClassifier, DM2LClassifierCV

GAMMAS = (1 / 3, 1.0, 3.0)  # of "scale"
ALPHAS = (0.03, 0.1, 0.3, 1.0)
LAMBDA_DS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)


def load(path: Path | None, rows: int, seed: int) -> tuple[Any, Any]:
    if path is not None:
        with np.load(path) as data:
            X, T = data["X"][:rows], data["T"][:rows]
        return X.astype(float), np.where(T == 0, np.nan, T > 0)
    rng = np.random.default_rng(seed)
    X = (rng.random((rows, 1024)) < 0.05).astype(float)
    scores = X @ rng.standard_normal((1024, 12)) + rng.standard_normal((rows, 12))
    Y = (scores > np.quantile(scores, 0.9, axis=0)).astype(float)
    Y[rng.random(Y.shape) < 0.29] = np.nan
    return X, Y


def processor_time(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def peak(work: Callable[[], Any], unit: float) -> float:
    tracemalloc.start()
    work()
    top = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return top / unit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="400 rows")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConstantLabelWarning)
    X, Y = load(arguments.data, 400 if arguments.quick else arguments.rows, arguments.seed)
    n = len(X)
    gamma = 1.0 / (X.shape[1] * X.var())
    filled = np.nan_to_num(2 * Y - 1)
    model = DM2LClassifier(kernel="rbf", gamma=gamma)
    works: dict[str, Callable[[], Any]] = {
        "KernelRidge": lambda: KernelRidge(kernel="rbf", gamma=gamma, alpha=1.0).fit(X, filled),
        "fit": lambda: model.fit(X, Y),
    }
    model.fit(X[:200], Y[:200])  # warm up
    times = {name: [] for name in works}
    for _ in range(arguments.repeats):
        for name, work in works.items():
            times[name].append(processor_time(work))
    found: dict[str, Any] = {name: min(values) for name, values in times.items()}
    found["over KernelRidge"] = found["fit"] / found["KernelRidge"]
    found["kernel matrices"] = peak(works["fit"], 8.0 * n * n)
    if arguments.search:
        search = DM2LClassifierCV(
            LAMBDA_DS, ALPHAS, [share * gamma for share in GAMMAS], kernel="rbf"
        )
        found["search"] = processor_time(lambda: search.fit(X, Y))
        found["over a fit"] = found["search"] / found["fit"]
        found["best"] = {name: float(value) for name, value in search.best_params_.items()}
    print({name: round(v, 3) if isinstance(v, float) else v for name, v in found.items()})
    if arguments.out:
        settings = {"rows": n, "labels": Y.shape[1], "columns": X.shape[1], "seed": arguments.seed}
        write(arguments.out, {"settings": settings, "rows": [found]})


if __name__ == "__main__":
    main()
