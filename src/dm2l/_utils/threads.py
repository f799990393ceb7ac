"""Threads: how many BLAS may use, and workers that share tasks."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from operator import call
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

# Multiplications from which on more than one thread pays.
WORTH_SHARING = 1e8
# The same of the factors and systems of a kernel matrix, which are many. On an idle machine threads
# save tenths of a second below it; on a busy one they made 5 seconds of `dm2l fit --effort quick`
# (1,200 rows) a minute.
WORTH_FACTORING = 1e10


_controller = functools.cache(ThreadpoolController)
_pool = functools.cache(functools.partial(ThreadPoolExecutor, thread_name_prefix="dm2l"))
if hasattr(os, "register_at_fork"):  # the threads of a pool do not come along
    os.register_at_fork(after_in_child=_pool.cache_clear)


def one_blas_thread() -> AbstractContextManager[Any]:
    """Context in which BLAS uses one thread (``benchmarks/blas.py`` shows what that saves)."""
    return _ONE_THREAD


class _OneThread(AbstractContextManager[None]):
    """The limit is that of the process: the first thread that asks sets it, the last ends it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limits = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limits.restore_original_limits()


_ONE_THREAD = _OneThread()


def blas_threads(size: float, worth: float = WORTH_SHARING) -> AbstractContextManager[Any]:
    """Context for products of ``size`` multiplications: small ones get one BLAS thread."""
    return one_blas_thread() if size < worth else nullcontext()


def run_each(work: Callable[[Any], Any], items: Sequence[Any], workers: int) -> Iterator[Any]:
    """What ``work`` gives for each item, in their order and as they come, by so many threads."""
    if workers == 1 or len(items) == 1:
        return map(work, items)
    return _pool(workers).map(work, items)


def run_all(tasks: Sequence[Callable[[], Any]], workers: int) -> list[Any]:
    """Results of all tasks, in their order, by so many threads."""
    return list(run_each(call, tasks, workers))


def blas_thread_count() -> int:
    """How many threads BLAS may use here."""
    most = 1
    for pool in _controller().info():
        if pool["user_api"] == "blas":
            most = max(most, pool["num_threads"])
    return most
