"""A linear fit to more rows than memory should hold, from Parquet, against what it cannot avoid.

    python benchmarks/blocks.py [--rows 10000000] [--file DATA.parquet] [--out FILE.json] [--tune]

Three figures, each from a process of its own: reading the file once ("read", the same blocks, and
nothing done with them); the matrix products that the Gram matrices need, bare in numpy on arrays of
these shapes ("products": for every block and label the two smallest of positives, negatives and
missing rows, and the smaller side of the covered rows, besides the block itself); and the whole fit
("fit", with its peak of resident memory). The fit may take 1.3 times the sum of the other two, and
2 GB.

"prefix" fits the first rows twice, from the file and in memory, and compares scores. "curve" fits
the first so many rows, each in a process of its own: time and memory against rows. ``--tune``
prints what the sizes of blocks and groups of labels were chosen by.
"""

from __future__ import annotations

import argparse
import functools
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from record import write

from dm2l import DM2LClassifier
from dm2l._utils.arrays import blas_thread_count, one_blas_thread
from dm2l.outofcore import GramStatistics, RowBlocks, _label_grams

D, C, RHO = 200, 20, 0.3
GROUP = 50_000  # rows of a row group
PREFIX = 200_000
CURVE = (100_000, 300_000, 1_000_000, 3_000_000)
ALLOWED = 1.3
STAGES = ("read", "products", "fit", "prefix")


def make_rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Correlated features and labels of falling frequency, most of them not observed."""
    fixed = np.random.default_rng(0)
    mixing = fixed.standard_normal((D, D)).astype(np.float32) / D**0.5
    weights = (fixed.standard_normal((D, 5)) @ fixed.standard_normal((5, C))).astype(np.float32)
    borders = np.linspace(0.2, 1.6, C, dtype=np.float32)
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D), dtype=np.float32) @ mixing + 0.5
    scores = (X - 0.5) @ weights / (5 * D) ** 0.5 + 0.5 * rng.standard_normal((n, C))
    Y = (scores > borders).astype(np.float32)
    Y[rng.random((n, C)) >= RHO] = np.nan
    return X, Y


def make_file(path: Path, rows: int) -> None:
    names = [f"x{j}" for j in range(D)] + [f"y{j}" for j in range(C)]
    types = [pa.float32()] * D + [pa.int8()] * C
    schema = pa.schema(list(zip(names, types, strict=True)))
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, rows, GROUP):
            X, Y = make_rows(min(GROUP, rows - start), seed=1 + start)
            columns = [pa.array(np.ascontiguousarray(X[:, j])) for j in range(D)]
            columns += [
                pa.array(np.nan_to_num(Y[:, j]).astype(np.int8), mask=np.isnan(Y[:, j]))
                for j in range(C)
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))


def source(path: Path) -> RowBlocks:
    return RowBlocks.open(path, labels="y*")


def read(path: Path) -> dict[str, Any]:
    start, worked = time.perf_counter(), time.process_time()
    rows = sum(len(block.T) for block in source(path))
    seconds, cpu = time.perf_counter() - start, time.process_time() - worked
    start = time.perf_counter()
    for _ in pq.ParquetFile(path).iter_batches(batch_size=40_000):
        pass
    return {"seconds": seconds, "cpu": cpu, "rows": rows, "decode": time.perf_counter() - start}


def products(path: Path) -> dict[str, Any]:
    """Bare products of the shapes of every block; what they multiply does not matter.

    With the threads of BLAS, and with threads that take a product each: the faster counts.
    """
    seconds = {"blas": 0.0, "shared": 0.0, "cpu": 0.0}
    multiplied, room = 0, np.empty((0, D + 1))
    with ThreadPoolExecutor(blas_thread_count()) as pool:
        for block in source(path):
            T = block.T[(block.T != 0).any(axis=1)]
            states = np.array([(state == T).sum(axis=0) for state in (-1, 0, 1)])
            covered = int((T > 0).any(axis=1).sum())
            sizes = [len(T), min(covered, len(T) - covered), *np.sort(states, axis=0)[:2].ravel()]
            if len(T) > len(room):
                room = np.random.default_rng(0).standard_normal((len(T), D + 1))
            parts = [room[:size] for size in sizes]
            start = time.perf_counter()
            for part in parts:
                part.T @ part
            seconds["blas"] += time.perf_counter() - start
            start, worked = time.perf_counter(), time.process_time()
            with one_blas_thread():
                list(pool.map(lambda part: part.T @ part, parts))
            seconds["shared"] += time.perf_counter() - start
            seconds["cpu"] += time.process_time() - worked
            multiplied += int(sum(sizes))
    fastest = min(seconds["blas"], seconds["shared"])
    return {"seconds": fastest, **seconds, "rows": multiplied}


def resident() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def fit(path: Path, rows: int | None = None) -> dict[str, Any]:
    """All rows, or the first few by way of statistics, which all of them take."""
    before = resident()
    blocks = source(path) if rows is None else source(path).head(rows)
    strategy = "auto" if rows is None else "statistics"
    start, worked = time.perf_counter(), time.process_time()
    model = DM2LClassifier(lambda_d=1.0, max_memory=2e9, strategy=strategy).fit(blocks)
    seconds, cpu = time.perf_counter() - start, time.process_time() - worked
    return {
        "rows": blocks.n_rows,
        "seconds": seconds,
        "cpu": cpu,
        "peak_gb": resident(),
        "before_gb": before,
        "statistics": hasattr(model, "statistics_"),
        "evaluations": model.n_evaluations_,
    }


def prefix(path: Path) -> dict[str, Any]:
    """Scores of a fit to the first rows only, from the file and in memory, in float64."""
    head = source(path).head(PREFIX)
    blocks = list(head)
    X = np.concatenate([block.X for block in blocks]).astype(np.float64)
    T = np.concatenate([block.T for block in blocks])
    Y = np.where(T == 0, np.nan, T > 0)
    there = DM2LClassifier(lambda_d=1.0, strategy="statistics").fit(head)
    here = DM2LClassifier(lambda_d=1.0, strategy="memory").fit(X, Y)
    single = DM2LClassifier(lambda_d=1.0, strategy="memory").fit(X.astype(np.float32), Y)
    scores = [X @ model.coef_.T + model.intercept_ for model in (there, here, single)]
    # The file holds float32, and so does coef_ of models fitted to it: the fit itself is float64.
    exact = DM2LClassifier(lambda_d=1.0).fit_statistics(there.statistics_)
    apart = X @ exact.coef_.T + exact.intercept_ - scores[1]
    return {
        "rows": len(T),
        "float64": float(np.abs(apart).max()),
        "stored_in_float32": float(np.abs(scores[0] - scores[1]).max()),
        "in_memory_float32": float(np.abs(scores[2] - scores[1]).max()),
    }


def tune() -> None:
    print("seconds a million rows to gather statistics, by rows of a block and labels that share")
    for rows in (2_000, 10_000, 20_000, 40_000, 80_000):
        X, Y = make_rows(rows, seed=0)
        T = np.where(np.isnan(Y), 0, 2 * Y - 1).astype(np.int8)
        line = []
        for width in (1, 2, 3, 4):
            _label_grams.SHARING = ((0, width),)
            best = np.inf
            for _ in range(3):
                statistics = GramStatistics(D, C)
                start = time.perf_counter()
                statistics.add(X, T)
                best = min(best, time.perf_counter() - start)
            line.append(f"{width}: {best / rows * 1e6:5.2f}")
        print(f"{rows:7d}  " + "  ".join(line), flush=True)


def child(stage: str, path: Path, *more: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--stage", stage, "--file", str(path), *more]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--file", type=Path, help="where the data are, or go; default: temporary")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--head", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--stage", choices=("make", *STAGES), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if arguments.tune:
        return tune()
    if arguments.stage:
        few = functools.partial(fit, rows=arguments.head)
        stages = {"read": read, "products": products, "fit": few, "prefix": prefix}
        print(json.dumps(stages[arguments.stage](arguments.file)))
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.file or Path(folder, "rows.parquet")
        if not path.exists():
            print(f"writing {arguments.rows:,} rows to {path}", flush=True)
            make_file(path, arguments.rows)
        found: dict[str, Any] = {"size_gb": path.stat().st_size / 1e9}
        for stage in STAGES:
            found[stage] = child(stage, path)
            print(f"{stage:9}", json.dumps(found[stage]), flush=True)
        found["curve"] = []
        for rows in CURVE:
            if rows < arguments.rows:
                found["curve"].append(child("fit", path, "--head", str(rows)))
                print(f"{rows:9}", json.dumps(found["curve"][-1]), flush=True)
    ratio, strict = (
        found["fit"]["seconds"] / (found["read"][name] + found["products"]["seconds"])
        for name in ("seconds", "decode")
    )
    print(f"fit over read + products: {ratio:.2f} (allowed {ALLOWED})")
    work = found["fit"]["cpu"] / (found["read"]["cpu"] + found["products"]["cpu"])
    print(f"the same in processor time, which other programs disturb less: {work:.2f}")
    print(f"the same if reading is no more than pyarrow's unpacking: {strict:.2f}")
    if arguments.out:
        write(
            arguments.out,
            {"d": D, "c": C, "rho": RHO, "ratio": ratio, "strict": strict, "work": work, **found},
        )
    return None


if __name__ == "__main__":
    main()
