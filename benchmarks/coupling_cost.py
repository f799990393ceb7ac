"""What coupling costs: seconds of fits and of completing, and memory with thousands of labels.

    python benchmarks/coupling_cost.py [--parts arts complete blocks labels] [--repeats 5] [--quick]
        [--out FILE.json]

arts      fits of Arts (30 % observed), with coupling="residual" and without, linear and rbf; and
          what the first question to a coupled model adds, which is when the rest is worked out
complete  10,000 rows of 150 labels filled, 30, 50 and 70 % observed
blocks    400,000 rows in blocks, by statistics, with the sample of rows and without
labels    4,000 labels: factors and conditioning with less and less memory, and peaks of it

Made-up data but for Arts, which is read from the folder DM2L_DATA. Run it on two cores,
`taskset -c 0,1` on a machine with more. Both fits of a pair are timed in turn; medians are given.
Those of Arts are seconds of CPU with one thread, which hang less on what else a machine does.
Peaks are those of arrays (tracemalloc), beyond what was there before.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fit import seconds
from published import masked
from record import write
from threadpoolctl import threadpool_limits

from dm2l import ConstantLabelWarning, DM2LClassifier
from dm2l.completion import _covariance
from dm2l.completion._covariance import conditional_moments, em_factor, residuals
from dm2l.outofcore import RowBlocks

PARTS = ("arts", "complete", "blocks", "labels")
RHO, RANK = 0.3, 24
MEMORIES = (2**28, 2**26, 2**24)


def made_up(n: int, d: int, c: int, observed: float, seed: int = 0) -> tuple[Any, Any]:
    """Labels that features explain a part of, and a few factors another."""
    rng = np.random.default_rng(seed)
    X, common = rng.standard_normal((n, d)), rng.standard_normal((n, 4))
    scores = X @ rng.standard_normal((d, c)) / d**0.5 + rng.standard_normal((n, c))
    scores += common @ rng.standard_normal((4, c)) / 2
    truth = (scores > rng.uniform(0, 2, size=c)).astype(np.float64)
    return X, np.where(rng.random((n, c)) < observed, truth, np.nan)


def in_turn(
    tasks: dict[str, Callable[[], Any]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Medians; every task once before it counts."""
    spent: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats + 1):
        for name, task in tasks.items():
            spent[name].append(seconds(task, clock))
    return {name: statistics.median(values[1:]) for name, values in spent.items()}


def arts(repeats: int, quick: bool) -> dict[str, Any]:
    X, Y = masked("Arts", RHO, 0)
    if quick:
        X, Y = X[:500], Y[:500]
    found: dict[str, Any] = {"shape": [*X.shape, Y.shape[1]]}
    for kernel in ("linear", "rbf"):
        tasks = {
            str(coupling): lambda k=kernel, c=coupling: DM2LClassifier(kernel=k, coupling=c).fit(
                X, Y
            )
            for coupling in (None, "residual")
        }
        tasks["asked"] = lambda k=kernel: copy.deepcopy(DM2LClassifier(kernel=k).fit(X, Y))
        with threadpool_limits(1):  # or threads that wait for each other count as work
            spent = in_turn(tasks, repeats, time.process_time)
        added = spent["residual"] / spent["None"] - 1
        spent["asked"] -= spent["residual"]  # a copy has everything worked out
        times = f"{spent['None']:.3f} s, coupled {spent['residual']:.3f} s, {added:+.0%}"
        print(f"Arts, {kernel}: {times}; first question {spent['asked']:.3f} s", flush=True)
        found[kernel] = spent | {"added": added}
    return found


def complete(repeats: int, quick: bool) -> dict[str, Any]:
    n, d, c = (500, 20, 15) if quick else (10_000, 100, 150)
    found: dict[str, Any] = {"shape": [n, d, c]}
    for observed in (0.3, 0.5, 0.7):
        X, Y = made_up(n, d, c, observed)
        model = DM2LClassifier(lambda_d=0.0).fit(X, Y)
        spent = in_turn({"seconds": lambda m=model, x=X, y=Y: m.complete(x, y)}, repeats)
        print(f"{n} x {c} filled, {observed:.0%} observed: {spent['seconds']:.2f} s", flush=True)
        found[str(observed)] = spent
    return found


def blocks(repeats: int, quick: bool) -> dict[str, Any]:
    n, d, c = (2_000, 20, 5) if quick else (400_000, 200, 20)
    X, Y = made_up(n, d, c, RHO)
    tasks = {
        str(coupling): lambda k=coupling: DM2LClassifier(coupling=k, strategy="statistics").fit(
            RowBlocks.from_arrays(X, Y, rows=25_000)
        )
        for coupling in (None, "residual")
    }
    spent = in_turn(tasks, repeats)
    print(
        f"{n} rows in blocks: {spent['None']:.2f} s, coupled {spent['residual']:.2f} s", flush=True
    )
    return {"shape": [n, d, c]} | spent


def peak(task: Callable[[], Any]) -> tuple[int, float]:
    tracemalloc.start()
    spent = seconds(task)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found, spent


def labels(quick: bool) -> dict[str, Any]:
    """Factors and conditioning of thousands of labels, with less and less memory."""
    n, c = (200, 400) if quick else (5_000, 4_000)
    rng = np.random.default_rng(0)
    F = 0.1 * rng.standard_normal((n, 4)) @ rng.standard_normal((4, c))
    signs = np.where(rng.random((n, c)) < 0.3, 1, -1)
    T = np.where(rng.random((n, c)) < 0.02, signs, 0).astype(np.int8)
    some = np.sort(rng.permutation(n)[: min(n, 1_000)])
    E, known = residuals(T[some], F[some])
    S = em_factor(E, known, RANK, rounds=2)[0]
    found: dict[str, Any] = {"shape": [n, c], "rank": RANK, "dense": 8 * n * c, "memory": {}}
    for memory in MEMORIES:
        _covariance.MEMORY = memory
        one = peak(lambda: em_factor(E, known, RANK, rounds=2))
        two = peak(lambda: conditional_moments(S, T, F))
        found["memory"][str(memory)] = {
            name: {"peak": size, "seconds": spent}
            for name, (size, spent) in (("covariance", one), ("condition", two))
        }
        print(
            f"{c} labels, {memory / 1e6:.0f} MB: covariance of {len(some)} rows "
            f"{one[0] / 1e6:.0f} MB, {one[1]:.1f} s; {n} rows conditioned "
            f"{two[0] / 1e6:.0f} MB, {two[1]:.1f} s",
            flush=True,
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConstantLabelWarning)
    record: dict[str, Any] = {"quick": arguments.quick, "repeats": arguments.repeats, "rho": RHO}
    tasks = {"arts": arts, "complete": complete, "blocks": blocks}
    for part in arguments.parts:
        quick = arguments.quick
        record[part] = tasks[part](arguments.repeats, quick) if part in tasks else labels(quick)
        if arguments.out:  # a run that is cut short keeps what it has
            write(arguments.out, record)


if __name__ == "__main__":
    main()
