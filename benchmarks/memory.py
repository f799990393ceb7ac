"""Peak memory of a linear fit, against three times the size of X and of the n x c scores.

    python benchmarks/memory.py [--cases synthetic Arts] [--out FILE.json] [--quick]

Each figure comes from a process of its own that reads X and Y, fits a few rows to have everything
loaded, and then fits all of them. "arrays" is the peak of what Python and numpy allocated meanwhile
(tracemalloc), "resident" that of the process (its peak before the fit taken off), which also has
what BLAS takes. Both are beyond what was there before; X itself is added, as one of the three.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from published import masked
from record import write
from scaling import make_data

from dm2l import ConstantLabelWarning, DM2LClassifier

SYNTHETIC = {"n": 100_000, "d": 500, "c": 25}
QUICK_SYNTHETIC = {"n": 4_000, "d": 100, "c": 10}
CASES = ("synthetic", "Arts", "Corel16k001", "Tmc2007-500")
TOOLS = ("arrays", "resident")
RHO = 0.3
UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


def prepare(case: str, folder: Path, seed: int, quick: bool) -> None:
    """Write X and Y; in a process of its own, so that making them leaves no trace."""
    if case == "synthetic":
        X, Y = make_data(**(QUICK_SYNTHETIC if quick else SYNTHETIC), seed=seed)
    else:
        X, Y = masked(case, RHO, seed)
    np.save(folder / "X.npy", X)
    np.save(folder / "Y.npy", Y)


def resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT


def measure(folder: Path, tool: str) -> dict[str, Any]:
    """Fit what was prepared; bytes by which memory rose above what was there before."""
    X, Y = np.load(folder / "X.npy"), np.load(folder / "Y.npy")
    DM2LClassifier().fit(X[:500], Y[:500])
    before = resident()
    if tool == "arrays":
        tracemalloc.start()
    DM2LClassifier().fit(X, Y)
    rise = tracemalloc.get_traced_memory()[1] if tool == "arrays" else resident() - before
    return {"shape": [*X.shape, Y.shape[1]], "X": X.nbytes, "scores": Y.nbytes, "rise": rise}


def child(stage: str, case: str, folder: Path, arguments: argparse.Namespace) -> str:
    command = [sys.executable, __file__, "--stage", stage, "--folder", str(folder)]
    command += ["--cases", case, "--seed", str(arguments.seed)]
    command += ["--quick"] if arguments.quick else []
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def compare(case: str, arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        child("prepare", case, folder, arguments)
        found = {tool: json.loads(child(tool, case, folder, arguments)) for tool in TOOLS}
    sizes = found["arrays"]
    allowed = 3 * (sizes["X"] + sizes["scores"])
    peak = {tool: sizes["X"] + found[tool]["rise"] for tool in TOOLS}
    return {
        "case": case,
        "shape": sizes["shape"],
        "X": sizes["X"],
        "scores": sizes["scores"],
        "allowed": allowed,
        "peak": peak,
        "over_allowed": {tool: value / allowed for tool, value in peak.items()},
        "over_X": {tool: (value - sizes["scores"]) / sizes["X"] for tool, value in peak.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small synthetic case, and Arts")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--stage", choices=("prepare", *TOOLS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConstantLabelWarning)  # rare labels of a split
    if arguments.stage == "prepare":
        prepare(arguments.cases[0], arguments.folder, arguments.seed, arguments.quick)
        return
    if arguments.stage:
        print(json.dumps(measure(arguments.folder, arguments.stage)))
        return

    print(f"{'case':12} {'X':>9} {'allowed':>9} {'arrays':>9} {'resident':>9}  over allowed")
    rows = []
    for case in CASES[:2] if arguments.quick else arguments.cases:
        row = compare(case, arguments)
        rows.append(row)
        sizes = (row["X"], row["allowed"], *row["peak"].values())
        print(
            f"{case:12} "
            + " ".join(f"{size / 1e6:6.0f} MB" for size in sizes)
            + "  "
            + " ".join(f"{ratio:.2f}" for ratio in row["over_allowed"].values()),
            flush=True,
        )
    if arguments.out:
        record = {"seed": arguments.seed, "rho": RHO, "quick": arguments.quick, "rows": rows}
        write(arguments.out, record)


if __name__ == "__main__":
    main()
