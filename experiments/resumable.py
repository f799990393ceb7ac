"""Cells of a study, so many at a time, each a line of JSON, and none twice."""

import argparse
import json
import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, as_completed, wait
from pathlib import Path
from typing import Any

Cell = dict[str, Any]


class FailedCells(SystemExit):
    """Cells failed, and all others were computed."""


def stored(path: Path) -> list[Cell]:
    """Lines of a file; those that were cut off where a process was ended are left out."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [row for line in lines if (row := _whole(line)) is not None]


def _whole(line: str) -> Cell | None:
    try:
        found: Cell = json.loads(line)
    except json.JSONDecodeError:
        return None
    return found


def one_thread() -> None:
    """For BLAS in the processes that are started from here, which read it."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def end_with_parent() -> None:
    """Let this process end when the one that started it was killed, instead of waiting for ever."""

    def wait_for_the_end() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait_for_the_end, daemon=True).start()


def side_by_side(
    compute: Callable[..., str],
    tasks: Sequence[tuple[Any, ...]],
    jobs: int,
    minutes: float,
    a_process: int | None = None,
) -> int:
    """Tasks in order, so many at a time, each of which writes its own lines; how many broke.

    After ``minutes`` none is started, and a minute later those that still run are given up. A
    process ends after ``a_process`` of them. A task is called by its first part.
    """
    start, failed, waiting = time.monotonic(), 0, iter(tasks)
    running: dict[Any, Any] = {}
    context = multiprocessing.get_context("spawn")  # threads of BLAS do not survive a fork
    with ProcessPoolExecutor(
        jobs, context, initializer=end_with_parent, max_tasks_per_child=a_process
    ) as pool:
        while True:
            passed = (time.monotonic() - start) / 60
            while passed < minutes and len(running) < jobs:
                task = next(waiting, None)
                if task is None:
                    break
                running[pool.submit(compute, *task)] = task[0]
            if not running:
                return failed
            if passed > minutes + 1:
                print("given up:", *running.values(), sep="\n  ")
                for process in list(pool._processes.values()):
                    process.terminate()
                return failed
            for future in wait(running, timeout=5, return_when=FIRST_COMPLETED).done:
                cell, error = running.pop(future), future.exception()
                failed += error is not None
                print(future.result() if error is None else f"{cell}: {error!r}", flush=True)


def _timed(compute: Callable[..., Cell], cell: Cell, end: float) -> Cell | None:
    if time.time() > end:
        return None
    warnings.simplefilter("ignore")  # labels without positives in a fold
    start = time.perf_counter()
    found = compute(**cell)
    return cell | found | {"seconds": round(time.perf_counter() - start, 2)}


def run(compute: Callable[..., Cell], cells: Sequence[Cell], options: argparse.Namespace) -> None:
    """Compute what is not in ``options.out`` yet; after ``options.minutes`` start no more.

    Cells that fail are named, and stop no other; the next run computes them again.
    """
    one_thread()
    names = list(cells[0])
    done = {json.dumps({name: row[name] for name in names}) for row in stored(options.out)}
    todo = [cell for cell in cells if json.dumps(cell) not in done]
    print(f"{len(todo)} of {len(cells)} cells to compute", flush=True)
    end, failed, finished = time.time() + 60 * options.minutes, 0, 0
    _end_last_line(options.out)
    context = multiprocessing.get_context("spawn")  # threads of BLAS do not survive a fork
    with (
        ProcessPoolExecutor(options.jobs, context, initializer=end_with_parent) as pool,
        options.out.open("a") as file,
    ):
        futures = {pool.submit(_timed, compute, cell, end): cell for cell in todo}
        for future in as_completed(futures):
            error = future.exception()
            if error is not None:
                failed += 1
                if failed <= 5:
                    print(f"{futures[future]}: {error!r}", flush=True)
            elif (row := future.result()) is not None:
                file.write(json.dumps(row) + "\n")
                file.flush()
                if (finished := finished + 1) % 100 == 0:
                    print(f"{finished} of {len(todo)}", flush=True)
    if failed:
        raise FailedCells(f"{failed} cells failed; the same command computes them again")


def _end_last_line(path: Path) -> None:
    """Begin a new line where a process was ended within a row, whose cell is computed again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size and not path.read_bytes().endswith(b"\n"):
        with path.open("a") as file:
            file.write("\n")


def options(description: str | None, results: str, seeds: int) -> argparse.ArgumentParser:
    """What the studies have in common."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="lines of JSON")
    parser.add_argument("--summary", action="store_true", help=f"of the lines, into {results}")
    parser.add_argument("--ran-on", help="with --summary: the machine of the lines, if another")
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--rates", nargs="+", type=float)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    return parser
