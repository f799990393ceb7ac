"""Processes of this machine that share tasks, any of which may end its process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from joblib.externals.loky.process_executor import ProcessPoolExecutor, TerminatedWorkerError
from sklearn import config_context, get_config

__all__ = ["Task", "TerminatedWorkerError", "shared"]

_ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ),
    "1",
)

Task = tuple[Any, ...]  # arguments


def shared(
    function: Callable[..., Any], tasks: Iterable[Task], n_jobs: int
) -> Iterator[tuple[Task, Any]]:
    """Tasks with results, as they come, or with a ``TerminatedWorkerError``: the process died.

    Each process is a pool of its own: when it dies, no other does, and its task is known. joblib
    would give up all of them, and say of none what it was at.
    """
    waiting = iter(tasks)
    free = [_pool() for _ in range(n_jobs)]
    busy: dict[Future[Any], tuple[Task, ProcessPoolExecutor]] = {}
    finished: list[tuple[Task, Any]] = []
    try:
        while True:
            for task in itertools.islice(waiting, len(free)):
                busy[_submitted(free[-1], function, task)] = task, free[-1]
                free.pop()
            yield from finished  # while the processes are at work again
            if not busy:
                return
            finished = []
            for future in wait(busy, return_when=FIRST_COMPLETED).done:
                task, pool = busy[future]
                try:
                    finished.append((task, future.result()))
                except TerminatedWorkerError as error:
                    finished.append((task, error))
                    pool.shutdown(kill_workers=True)
                    pool = _pool()
                free.append(pool)
                del busy[future]
    finally:
        for pool in [*free, *(pool for _, pool in busy.values())]:
            pool.shutdown(kill_workers=True)


def _pool() -> ProcessPoolExecutor:
    """One process, started when it gets something to do."""
    return ProcessPoolExecutor(1, env=_ONE_THREAD)


def _submitted(pool: ProcessPoolExecutor, function: Callable[..., Any], task: Task) -> Future[Any]:
    try:
        return pool.submit(_configured, get_config(), function, task)
    except TerminatedWorkerError as error:  # it died between two tasks
        future: Future[Any] = Future()
        future.set_exception(error)
        return future


def _configured(config: dict[str, Any], function: Callable[..., Any], task: Task) -> Any:
    with config_context(**config):
        return function(*task)
