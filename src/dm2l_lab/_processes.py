"""Processes of this machine that share tasks, any of which may end its process."""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from threading import Lock, Thread
from typing import Any

from joblib import wrap_non_picklable_objects
from sklearn import config_context, get_config

__all__ = ["ProcessEndedError", "Task", "shared"]

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
_CHILD = """
import pickle, sys
sys.path[:], parent = pickle.load(sys.stdin.buffer)
from dm2l_lab._processes import serve
serve(parent)
"""

Task = tuple[Any, ...]  # arguments


class ProcessEndedError(Exception):
    """The process of a task ended before the task did."""


def shared(
    function: Callable[..., Any], tasks: Iterable[Task], n_jobs: int
) -> Iterator[tuple[Task, Any]]:
    """Tasks with results, as they come, or with a ``ProcessEndedError``.

    When a process dies, no other does, and its task is known. The pools of joblib and of the
    standard library give up all of them, and say of none what it was at.
    """
    waiting = iter(tasks)
    free = [_Process() for _ in range(n_jobs)]
    busy: dict[Future[Any], tuple[Task, _Process]] = {}
    finished: list[tuple[Task, Any]] = []
    threads = ThreadPoolExecutor(n_jobs)  # each waits for a process
    try:
        while True:
            for task in itertools.islice(waiting, len(free)):
                process = free.pop()
                busy[threads.submit(process.call, function, task)] = task, process
            yield from finished  # while the processes are at work again
            if not busy:
                return
            finished = []
            for future in wait(busy, return_when=FIRST_COMPLETED).done:
                task, process = busy.pop(future)
                try:
                    finished.append((task, future.result()))
                except ProcessEndedError as error:
                    finished.append((task, error))
                free.append(process)
    finally:
        every = [*free, *(process for _, process in busy.values())]
        for process in every:
            process.kill()
        threads.shutdown()
        for process in every:
            process.close()


class _Process:
    """A Python process, started when it gets something to do, and again after it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._lock = Lock()  # a kill must not come between the question and the start

    def call(self, function: Callable[..., Any], task: Task) -> Any:
        """The result of a task; what it raises is raised here."""
        # By value where it has to be, as of what was defined in a notebook.
        work = partial(_configured, get_config(), function, task)
        message = pickle.dumps(wrap_non_picklable_objects(work, keep_wrapper=False))
        try:
            questions, answers = self._pipes()
            questions.write(message)
            questions.flush()
            result, error = pickle.load(answers)
        except (EOFError, OSError, pickle.UnpicklingError) as failure:  # as far as it came
            raise ProcessEndedError(f"Its process ended: {_reason(self.close())}.") from failure
        if error is not None:
            raise error
        return result

    def _pipes(self) -> tuple[Any, Any]:
        with self._lock:
            if self._process is None and self._killed:
                raise EOFError  # nobody waits any more
            if self._process is None:
                command = [sys.executable, "-c", _CHILD]
                environment, pipe = os.environ | _ONE_THREAD, subprocess.PIPE
                self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment)
                assert self._process.stdin is not None
                self._process.stdin.write(pickle.dumps((sys.path, os.getpid())))
            return self._process.stdin, self._process.stdout

    def kill(self) -> None:
        """End the process, whatever it is at, for good."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()

    def close(self) -> int | None:
        """End the process, and forget it; its exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.kill()
        with suppress(BrokenPipeError), process:  # which closes the pipes
            pass
        return process.wait()


def _reason(code: int | None) -> str:
    """Why a process ended, by its exit code."""
    if code is None or code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"{name}, perhaps for want of memory" if name == "SIGKILL" else name


def _configured(config: dict[str, Any], function: Callable[..., Any], task: Task) -> Any:
    with config_context(**config):
        return function(*task)


def serve(parent: int) -> None:
    """Do what standard input asks for, until it, or the parent, which may have ended, ends."""
    # A terminal sends an interrupt to all processes; the parent then ends its own.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":  # elsewhere the number of a parent does not change when it ends
        Thread(target=_watch, args=(parent,), daemon=True).start()
    questions = sys.stdin.buffer
    # What methods print is not to get between the results.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            work = pickle.load(questions)
        except EOFError:
            return
        result, error = None, None
        try:
            result = work()
        except Exception as raised:  # whoever asked gets it
            raised.add_note(traceback.format_exc())
            error = raised
        answers.write(pickle.dumps((result, error)))
        answers.flush()


def _watch(parent: int) -> None:
    """End soon after the parent: nobody would fetch the results."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
