"""The whole search of the paper against one fit: lambda_d x alpha x folds.

    python benchmarks/path.py [--data Arts] [--jobs 2] [--out FILE.json] [--quick]

The search has the paper's 11 values of lambda_d, 5 of alpha and 5 folds, and a final fit on all
rows: 276 fits if each were made alone. A single fit has the default tolerance. Each round times
both; the ratio is that of the medians.
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
from published import masked
from record import write

from dm2l import ConstantLabelWarning, DM2LClassifier, DM2LClassifierCV

LAMBDA_DS = [10.0**power for power in range(-5, 6)]
ALPHAS = [1.0, 3.0, 10.0, 30.0, 100.0]
ONE = {"alpha": 10.0, "lambda_d": 0.3}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="Arts")
    parser.add_argument("--rates", nargs="+", type=float, default=[1.0, 0.3])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="500 rows, 3 x 2 values, 2 folds")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConstantLabelWarning)  # rare labels of a fold
    lambda_ds, alphas, folds = LAMBDA_DS, ALPHAS, arguments.folds
    if arguments.quick:
        lambda_ds, alphas, folds = [0.01, 0.1, 1.0], [3.0, 30.0], 2

    print(f"{arguments.data}, {len(lambda_ds)} lambda_d x {len(alphas)} alpha x {folds} folds")
    print(f"{'rho':>5} {'fit s':>8} {'search s':>9} {'ratio':>7}  chosen")
    rows = []
    for rho in arguments.rates:
        X, Y = masked(arguments.data, rho, arguments.seed, 500 if arguments.quick else None)
        one = DM2LClassifier(**ONE)
        search = DM2LClassifierCV(
            lambda_ds=lambda_ds, alphas=alphas, cv=folds, n_jobs=arguments.jobs
        )
        one.fit(X, Y)  # warm up
        times: dict[str, list[float]] = {"fit": [], "search": []}
        for repeat in range(arguments.repeats):
            # A single fit is short: timed before and after the search.
            before = seconds(lambda one=one, X=X, Y=Y: one.fit(X, Y))
            whole = seconds(lambda search=search, X=X, Y=Y: search.fit(X, Y))
            after = seconds(lambda one=one, X=X, Y=Y: one.fit(X, Y))
            times["fit"] += [before, after]
            times["search"].append(whole)
            sys.stderr.write(f"  round {repeat + 1}: {whole:.1f} s against {before:.3f} s\n")
        middle = {name: statistics.median(values) for name, values in times.items()}
        chosen = {
            name: float(value)
            for name in ("lambda_d_", "alpha_", "best_score_")
            if isinstance(value := getattr(search, name, None), (int, float, np.number))
        }
        found: dict[str, Any] = {"rho": rho, "seconds": middle, "chosen": chosen}
        found["ratio"] = middle["search"] / middle["fit"]
        rows.append(found)
        print(
            f"{rho:5.1f} {middle['fit']:8.3f} {middle['search']:9.2f} {found['ratio']:7.1f}  "
            + ", ".join(f"{name} {value:g}" for name, value in chosen.items()),
            flush=True,
        )
    if arguments.out:
        record = {"data": arguments.data, "seed": arguments.seed, "jobs": arguments.jobs}
        grid = {"lambda_ds": lambda_ds, "alphas": alphas, "folds": folds, "single": ONE}
        write(arguments.out, record | grid | {"quick": arguments.quick, "rows": rows})


if __name__ == "__main__":
    main()
