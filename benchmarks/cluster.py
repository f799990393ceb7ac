"""A linear fit on dask workers of this machine: seconds a pass, and what travels.

    python benchmarks/cluster.py [--rows 400000] [--workers 1 2 4] [--out FILE.json] [--quick]

Synthetic rows (those of blocks.py) that the workers make and keep, in 16 blocks. "statistics" is
one pass and a solve; "passes" goes through the rows twice for every evaluation. Traffic is measured
for all rows and for a quarter of them in as many blocks. "gap" is the largest difference of a score
to the fit in one process. Workers share the cores of one machine, so more workers than cores gain
nothing here; on a cluster they would. Traffic is the size of the functions that workers get and of
the sums that they return.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from blocks import C, D, make_rows
from cloudpickle import dumps
from dask.delayed import delayed
from distributed import Client, LocalCluster
from record import write

from dm2l import DM2LClassifier
from dm2l._utils.arrays import one_blas_thread
from dm2l.outofcore.cluster import DaskBlocks

BLOCKS = 16


def rows_of(seed: int, rows: int, part: int) -> np.ndarray:
    return make_rows(rows, seed)[part].astype(np.float64)


def collection(rows: int, part: int) -> Any:
    """Rows (part 0) or labels (part 1), block by block from a seed."""
    size = rows // BLOCKS
    width = (D, C)[part]
    made = (delayed(rows_of)(seed, size, part) for seed in range(BLOCKS))
    return da.concatenate([da.from_delayed(one, (size, width), np.float64) for one in made])


class MeasuredBlocks(DaskBlocks):
    """Row blocks that add up the sizes of what each pass sends and returns."""

    sizes: list[int]

    def _sum(self, tasks: list[Any], function: Any) -> tuple[Any, ...]:
        total = super()._sum(tasks, function)
        workers = len(self.client.scheduler_info(n_workers=-1)["workers"])
        self.sizes.append(workers * len(dumps(function)) + BLOCKS * len(dumps(total)))
        return total


def fitted(rows: int, strategy: str) -> tuple[Any, MeasuredBlocks, float]:
    blocks = MeasuredBlocks(collection(rows, 0), collection(rows, 1))
    blocks.counts()  # reads and checks
    blocks.sizes = []
    start = time.perf_counter()
    model = DM2LClassifier(lambda_d=1.0, strategy=strategy).fit(blocks)
    return model, blocks, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--quick", action="store_true", help="8,000 rows, two workers")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    n, counts = (8_000, [2]) if arguments.quick else (arguments.rows, arguments.workers)
    made = [make_rows(n // BLOCKS, seed) for seed in range(BLOCKS)]
    X = np.concatenate([X for X, _ in made]).astype(np.float64)
    Y = np.concatenate([Y for _, Y in made]).astype(np.float64)
    with one_blas_thread():
        start = time.perf_counter()
        alone = DM2LClassifier(lambda_d=1.0, strategy="statistics").fit(X, Y)
        seconds = time.perf_counter() - start
    print(f"one process, one thread, statistics: {seconds:.1f} s", flush=True)
    scores, few = alone.decision_function(X[:1000]), X[:1000]
    found: list[dict[str, Any]] = []
    for count in counts:
        with (
            LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster),
        ):
            for strategy in ("statistics", "passes"):
                model, blocks, took = fitted(n, strategy)
                _, smaller, _ = fitted(n // 4, strategy)
                row = {
                    "workers": count,
                    "strategy": strategy,
                    "seconds": took,
                    "passes": len(blocks.sizes),
                    "megabytes_a_pass": float(np.mean(blocks.sizes)) / 1e6,
                    "megabytes_a_pass_quarter": float(np.mean(smaller.sizes)) / 1e6,
                    "gap": float(np.abs(model.decision_function(few) - scores).max()),
                }
                found.append(row)
                print(row, flush=True)
    if arguments.out:
        record = {"rows": n, "d": D, "c": C, "blocks": BLOCKS, "seconds_alone": seconds}
        write(arguments.out, record | {"quick": arguments.quick, "results": found})


if __name__ == "__main__":
    main()
