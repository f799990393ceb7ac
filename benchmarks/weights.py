"""What room for weights costs fits that have none, and what weights cost.

    python benchmarks/weights.py --before OTHER/src [--repeats 15] [--quick] [--out FILE.json]

Fits without weights by this source and by another one, that of a commit before there were weights
(git worktree add OTHER COMMIT), each in a process of its own, in turn, so that a busy machine is
busy for both; the ratio is that of the medians of processor time. Beside it stand fits of this
source with weights of rows and of entries, over those without. Made-up data.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from record import write

HERE = Path(__file__).resolve().parents[1] / "src"
CASES = ("linear", "rbf", "ridge", "no norms")
SIZES = {"linear": (3000, 300, 25), "rbf": (1500, 100, 25)}

WORKER = """
import sys, time
import numpy as np
from dm2l import DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier

def data(n, d, c):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    S = X @ rng.standard_normal((d, c)) / d**0.5 + rng.standard_normal((n, c))
    Y = (S > rng.uniform(0, 2, size=c)).astype(float)
    return X, np.where(rng.random((n, c)) < 0.5, Y, np.nan)

models = {
    "linear": lambda: DM2LClassifier(),
    "rbf": lambda: DM2LClassifier(kernel="rbf"),
    "ridge": lambda: MaskedRidgeClassifier(),
    "no norms": lambda: DM2LClassifier(0.0),
}
for line in sys.stdin:
    case, weights, n, d, c = line.strip().split("|")
    X, Y = data(int(n), int(d), int(c))
    rng = np.random.default_rng(1)
    options = {
        "none": {},
        "rows": {"sample_weight": rng.uniform(0.5, 2, len(X))},
        "entries": {"label_weight": rng.uniform(0.5, 2, Y.shape)},
    }[weights]
    start = time.process_time()
    models[case]().fit(X, Y, **options)
    print(time.process_time() - start, flush=True)
"""


class Worker:
    """A process that fits with one source."""

    def __init__(self, source: Path) -> None:
        one = {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | one,
            text=True,
        )

    def seconds(self, case: str, weights: str, size: tuple[int, int, int]) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("|".join([case, weights, *map(str, size)]) + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    before, now = Worker(arguments.before), Worker(HERE)
    record: dict[str, Any] = {"quick": arguments.quick, "repeats": arguments.repeats}
    for case in CASES:
        size = (400, 40, 8) if arguments.quick else SIZES.get(case, SIZES["linear"])
        spent: dict[str, list[float]] = {}
        for _ in range(arguments.repeats + 1):  # the first does not count
            spent.setdefault("before", []).append(before.seconds(case, "none", size))
            for weights in ("none", "rows", "entries"):
                spent.setdefault(weights, []).append(now.seconds(case, weights, size))
        found: dict[str, Any] = {
            name: statistics.median(values[1:]) for name, values in spent.items()
        }
        found["least"] = {name: min(values[1:]) for name, values in spent.items()}
        found["ratio"] = found["none"] / found["before"]
        print(
            f"{case}: without weights {found['none']:.3f} s, {found['ratio']:.3f} of before "
            f"(least {found['least']['none'] / found['least']['before']:.3f}); of rows "
            f"{found['rows'] / found['none']:.2f}, of entries "
            f"{found['entries'] / found['none']:.2f} times that",
            flush=True,
        )
        record[case] = found
        if arguments.out:
            write(arguments.out, record)


if __name__ == "__main__":
    main()
