"""Time against accuracy of every solver, the published algorithm among them.

    python benchmarks/solvers.py [--data Arts Corel16k001] [--limit 300] [--out FILE.json] [--quick]

For each solver the exact J after every iteration and the seconds since fit was called, as the gap
(J - lowest) / lowest to the lowest J known. Fits go through the estimator, with a small tol so that
the curves go on where a default fit would stop; the published algorithm (published.py, thin SVDs)
ends at a gap of 1e-6, at the limit, or where it is stuck. Ridge, holes filled with 0, is the
yardstick. Of the repeats the one of median length is kept; the slow solvers run once.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from fit import seconds
from published import PaperObjective, masked, run_published
from record import write
from sklearn.linear_model import Ridge

from dm2l import ConstantLabelWarning, DM2LClassifier
from dm2l._utils.arrays import blas_threads

Points = list[tuple[float, float]]

SETTINGS: dict[str, dict[str, float]] = {
    "Arts": {"alpha": 10.0, "lambda_d": 0.3},
    "Corel16k001": {"alpha": 1.0, "lambda_d": 1.0},
}
GAPS = (1e-3, 1e-4, 1e-5, 1e-6)
FAST = ("lbfgs",)


class Stamps(io.StringIO):
    """Standard error of a verbose fit: when each iteration was reported, and the report."""

    def __init__(self) -> None:
        super().__init__()
        self.begin = time.perf_counter()
        self.found: dict[int, tuple[float, float]] = {}

    def write(self, text: str) -> int:
        line = re.search(r"iteration\s+(\d+)\s+objective\s+(\S+)", text)
        if line:
            self.found[int(line[1])] = time.perf_counter() - self.begin, float(line[2])
        return len(text)


def course(model: DM2LClassifier, X: Any, Y: Any) -> Points:
    """Seconds and exact J of each iteration, ending with what fit returns."""
    stamps = Stamps()
    with contextlib.redirect_stderr(stamps):
        model.set_params(verbose=10).fit(X, Y)
    end = time.perf_counter() - stamps.begin
    history = model.objective_history_
    # The history has the digits that the report leaves out.
    points = [
        (when, float(history[i]) if i < len(history) else value)
        for i, (when, value) in sorted(stamps.found.items())
    ]
    return [*points, (end, model.objective_)]


def falling(points: Points, lowest: float) -> list[list[float]]:
    """Seconds and gap, where the gap has fallen by a tenth since the point before."""
    kept: list[list[float]] = []
    for when, value in points:
        gap = (value - lowest) / lowest
        if not kept or gap <= 0.9 * kept[-1][1]:
            kept.append([when, gap])
    return kept


def race(X: Any, Y: Any, settings: dict[str, float], arguments: Any) -> dict[str, Any]:
    filled = np.nan_to_num(2.0 * Y - 1.0)
    models = {
        name: DM2LClassifier(**settings, solver=name, tol=arguments.tol)
        for name in arguments.solvers
    }
    Ridge().fit(X, filled)
    DM2LClassifier(**settings).fit(X, Y)
    ridge: list[float] = []
    runs: dict[str, list[Points]] = {name: [] for name in models}
    for repeat in range(arguments.repeats):
        ridge.append(seconds(lambda: Ridge().fit(X, filled)))
        for name, model in models.items():
            if name in FAST or not repeat:
                runs[name].append(course(model, X, Y))
                sys.stderr.write(f"  {name}: {runs[name][-1][-1][0]:.2f} s\n")
    curves = {
        name: sorted(found, key=lambda points: points[-1][0])[len(found) // 2]
        for name, found in runs.items()
    }
    tight = DM2LClassifier(**settings, tol=1e-12, max_iter=5000).fit(X, Y).objective_
    lowest = min(tight, *(value for points in curves.values() for _, value in points))
    paper = PaperObjective(X, Y, **settings, kernel=False)
    with blas_threads(X.size * Y.shape[1]):
        curves["published"] = run_published(paper, lowest * (1 + 1e-6), arguments.limit).points
    lowest = min(lowest, min(value for _, value in curves["published"]))
    gaps = {name: falling(points, lowest) for name, points in curves.items()}
    return {"ridge": statistics.median(ridge), "lowest": lowest, "curves": gaps}


def first(points: Any, gap: float) -> float | None:
    """When a curve first lies below a gap."""
    return next((when for when, value in points if value <= gap), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--solvers", nargs="+", default=["lbfgs", "cccp"])
    parser.add_argument("--rho", type=float, default=0.3)
    parser.add_argument("--tol", type=float, default=1e-8)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds, published algorithm")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="300 rows of Arts, 2 seconds")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConstantLabelWarning)  # rare labels of a split
    if arguments.quick:
        arguments.data, arguments.limit, arguments.repeats = ["Arts"], 2.0, 2
    results = []
    for name in arguments.data:
        X, Y = masked(name, arguments.rho, arguments.seed, 300 if arguments.quick else None)
        shape = f"{X.shape[0]} x {X.shape[1]}, {Y.shape[1]} labels"
        found = race(X, Y, SETTINGS[name], arguments)
        print(f"{name} ({shape}), rho {arguments.rho}, {SETTINGS[name]}")
        print(f"ridge {found['ridge']:.4f} s; times ridge until the gap is below")
        print(f"{'':10}" + "".join(f"{gap:>10.0e}" for gap in GAPS))
        for solver, points in found["curves"].items():
            times = [first(points, gap) for gap in GAPS]
            cells = ["-" if when is None else f"{when / found['ridge']:.1f}" for when in times]
            print(f"{solver:10}" + "".join(f"{cell:>10}" for cell in cells), flush=True)
        case = {"data": name, "rho": arguments.rho, "settings": SETTINGS[name]}
        results.append(case | {"shape": [*X.shape, Y.shape[1]]} | found)
    if arguments.out:
        names = ("seed", "repeats", "limit", "tol")
        record = {name: getattr(arguments, name) for name in names}
        write(arguments.out, record | {"quick": arguments.quick, "rows": results})


if __name__ == "__main__":
    main()
