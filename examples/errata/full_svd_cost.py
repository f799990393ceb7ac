"""The algorithm does not need the n x n factor of the singular value decomposition.

python examples/errata/full_svd_cost.py [--check] [--seeds 1] [--rows N]

The script times the subgradient of an n x 26 matrix, computed with a full U, with thin factors, and
from the 26 x 26 Gram matrix as in dm2l. Then the script times a few steps of DM2L-l on Arts with
full and with thin factors.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from demonstration import Figures, main, splits
from released_code import Surrogate, algorithm_2, steepest_descent

from dm2l._solvers.nuclear import SmoothNorm

QUICK = {"heights": (500, 1500), "rows": 1500, "steps": 2}
WAYS: dict[str, Callable[[Any], Any]] = {
    "full": partial(algorithm_2, full=True),
    "thin": algorithm_2,
    "Gram": SmoothNorm(1e-6),
}
N_LABELS = 26
# Claims about time may fail on a busy machine.
TIMED = {
    "a full factor takes many times as long as a thin factor",
    "the ratio of these times grows with the number of rows",
    "a fit with full factors takes many times as long",
}


def fastest(action: Callable[[], Any], repeats: int) -> float:
    spent = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        spent.append(time.perf_counter() - start)
    return min(spent)


def measure(
    seeds: tuple[int, ...] = (1,),
    rows: int | None = None,
    heights: tuple[int, ...] = (500, 1000, 2000, 3000),
    steps: int = 3,
) -> Figures:
    seconds: Figures = {}
    for n in heights:
        Z = np.random.default_rng(0).standard_normal((n, N_LABELS))
        seconds[str(n)] = {
            name: fastest(partial(way, Z), 3 if name == "full" else 20)
            for name, way in WAYS.items()
        }
    split = next(splits("Arts", tuple(seeds), rows))
    T = 2.0 * split.Y - 1
    weights, spent = {}, {}
    for name in ("full", "thin"):
        start = time.perf_counter()
        *_, weights[name] = steepest_descent(Surrogate(split.X, T, T > 0, 1.0, WAYS[name]), steps)
        spent[name] = time.perf_counter() - start
    difference = np.abs(weights["full"] - weights["thin"]).max() / np.abs(weights["thin"]).max()
    return {
        "seeds": list(seeds),
        "steps": steps,
        "training rows": len(T),
        "seconds": seconds,
        "fit": spent,
        "difference": float(difference),
    }


def lines(found: Figures) -> list[str]:
    fit = found["fit"]
    return [
        f"n x {N_LABELS}      full U      thin     Gram   full / Gram",
        *(
            f"n = {n:>5} {of['full'] * 1e3:8.1f} ms {of['thin'] * 1e3:6.2f} ms "
            f"{of['Gram'] * 1e3:6.2f} ms {of['full'] / of['Gram']:8.0f}"
            for n, of in found["seconds"].items()
        ),
        "",
        f"{found['steps']} steps of DM2L-l on Arts, {found['training rows']} rows: full "
        f"{fit['full']:.1f} s, thin {fit['thin']:.1f} s ({fit['full'] / fit['thin']:.0f} times)",
        f"largest relative difference between the weights: {found['difference']:.0e}",
    ]


def claims(found: Figures) -> dict[str, bool]:
    first, *_, last = found["seconds"].values()
    return {
        "a full factor takes many times as long as a thin factor": last["full"] > 5 * last["thin"],
        "the ratio of these times grows with the number of rows": last["full"] / last["thin"]
        > 1.5 * first["full"] / first["thin"],
        "a fit with full factors takes many times as long": found["fit"]["full"]
        > 2 * found["fit"]["thin"],
        "full and thin factors give the same weights": found["difference"] < 1e-8,
    }


if __name__ == "__main__":
    main(sys.modules[__name__])
