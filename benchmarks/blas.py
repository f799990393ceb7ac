"""What threads and memory order do to the small operations of a fit.

    python benchmarks/blas.py

Run it on the machine in question, idle and busy; the ratios differ a lot.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dm2l._utils.arrays import one_blas_thread


def milliseconds(task: Callable[[], Any], repeats: int = 15) -> float:
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        best = min(best, time.perf_counter() - start)
    return 1e3 * best


def main() -> None:
    rng = np.random.default_rng(0)
    for size in (26, 53, 153):
        half = rng.standard_normal((26, size, 2 * size))
        S = half @ half.transpose(0, 2, 1)
        many = milliseconds(lambda S=S: np.linalg.eigh(S))
        with one_blas_thread():
            one = milliseconds(lambda S=S: np.linalg.eigh(S))
        print(f"26 eigh of {size:3} x {size:3}: default {many:7.2f} ms, one thread {one:7.2f} ms")
    Phi, G = rng.standard_normal((3000, 462)), rng.standard_normal((3000, 26))
    for name, task in {"Phi'G": lambda: Phi.T @ G, "(G'Phi)'": lambda: (G.T @ Phi).T}.items():
        many = milliseconds(task)
        with one_blas_thread():
            one = milliseconds(task)
        print(f"{name:9} 3000 x 462 by 26: default {many:6.2f} ms, one thread {one:6.2f} ms")


if __name__ == "__main__":
    main()
