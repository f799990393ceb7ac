"""Running the cells of a protocol: each once, in any number of attempts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

from joblib import effective_n_jobs, parallel_config
from sklearn.utils.parallel import Parallel, delayed

from dm2l._utils.threads import one_blas_thread
from dm2l_lab._cell import FOLDER, attempt, load, lost
from dm2l_lab._circumstances import machine, versions
from dm2l_lab._processes import ProcessEndedError, Task, shared
from dm2l_lab._progress import Step, Work
from dm2l_lab._protocol import Cell, Protocol
from dm2l_lab._store import Store

Result = tuple[Cell, dict[str, Any]]


def run(
    protocol: Protocol,
    store: Store,
    *,
    datasets: Iterable[str] | None = None,
    methods: Iterable[str] | None = None,
    rates: Iterable[float] | None = None,
    masks: Iterable[str] | None = None,
    repetitions: int | Iterable[int] | None = None,
    n_jobs: int = 1,
    device: str | None = None,
    backend: str = "processes",
    retry_failed: bool = False,
    progress: Callable[[Step], None] | None = None,
) -> Step:
    """Run the cells of a protocol that a store does not have yet.

    Every result is stored the moment it is there. However a run ends, the next one goes on where
    it stopped, and the table is the same in the end. What a method raises is stored as a failure
    and stops no other cell. With several processes of this machine, neither does the end of one
    of them, by lack of memory for example: its cell is run again when the others are done, with
    no other beside it, and is a failure if that ends its process too.

    Parameters
    ----------
    protocol : Protocol
        What to run.
    store : Store
        Where results are, and go.
    datasets, methods, rates, masks, repetitions
        Which cells; as in :meth:`Protocol.cells`.
    n_jobs : int, default=1
        Number of processes, -1 for one a core. More than one have one BLAS thread each.
    device : str, default=None
        A torch device, such as ``"cuda"``: methods with ``follows_x`` get their features as
        float64 tensors on it.
    backend : {"processes", "dask"}, default="processes"
        Those of this machine, or all workers of the dask client that is connected, where the data
        sets have to be as well.
    retry_failed : bool, default=False
        Run cells again that failed before.
    progress : callable, default=None
        Called with a :class:`Step` before the first cell and after each, by the calling thread.

    Returns
    -------
    Step
        The counts at the end.

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> from unittest import mock
    >>> import numpy as np
    >>> from dm2l.baselines import MaskedRidgeClassifier
    >>> from dm2l.datasets import make_missing_multilabel
    >>> from dm2l_lab import Method, Protocol, Store, run
    >>> X, Y = make_missing_multilabel(rho=1.0, random_state=0)
    >>> ridge = Method("ridge", MaskedRidgeClassifier())
    >>> protocol = Protocol("small", ("tiny",), (ridge,), repetitions=2)
    >>> with tempfile.TemporaryDirectory() as folder, Store(":memory:") as store:
    ...     np.savez(Path(folder, "tiny.npz"), X=X, Y=Y)
    ...     with mock.patch.dict(os.environ, DM2L_DATA=folder):
    ...         part = run(protocol, store, repetitions=1)
    ...         whole = run(protocol, store)
    ...     frame = store.frame()
    >>> part.done, whole.done, len(frame)
    (3, 6, 6)
    >>> bool((frame.published_ranking_loss < 0.2).all())
    True
    """
    cells = list(
        protocol.cells(
            datasets=datasets, methods=methods, rates=rates, masks=masks, repetitions=repetitions
        )
    )
    states = store.states(protocol.name)
    before = Counter(states.get(cell, "pending") for cell in cells)
    wanted = ("pending", "failed") if retry_failed else ("pending",)
    pending = [cell for cell in cells if states.get(cell, "pending") in wanted]
    if retry_failed:
        before["failed"] = 0
    n_jobs = _count(n_jobs, backend)
    work = Work(store, protocol.name, pending, max(1, min(n_jobs, len(pending))))
    step = Step(None, None, None, before["done"], before["failed"], len(cells), work.seconds)
    if progress is not None:
        progress(step)
    if not pending:
        return step
    # A set that is not there, or not what it was, stops the run before anything is fitted.
    names = dict.fromkeys(cell.dataset for cell in pending)
    sets = {name: load(name).digest for name in names}
    same = {"protocol": protocol.name, "split": protocol.split}
    store.check([{**same, "dataset": name, "data": sets[name]} for name in sets], "this run")
    identifier = store.add_run(versions=versions(), machine=machine(device))
    # Closed, and the processes ended, however this ends.
    with closing(_results(protocol, pending, n_jobs, device, backend, sets)) as results:
        for cell, row in results:
            store.add(cell, {**row, "run": identifier}, retried=retry_failed)
            work.finish(cell, row)
            step = Step(
                cell=cell,
                status=row["status"],
                error=row.get("error"),
                done=step.done + (row["status"] == "done"),
                failed=step.failed + (row["status"] == "failed"),
                total=step.total,
                remaining=work.seconds,
            )
            if progress is not None:
                progress(step)
    return step


def _count(n_jobs: int, backend: str) -> int:
    """Processes to use; those of dask are all or nothing."""
    if backend == "processes":
        return effective_n_jobs(n_jobs)
    if backend != "dask":
        raise ValueError(f"backend must be 'processes' or 'dask', got {backend!r}.")
    from distributed import get_client

    threads = get_client().nthreads()  # or it says that there is no client
    if max(threads.values(), default=1) > 1:
        raise ValueError(
            "Experiments need dask workers with one thread each (threads_per_worker=1): what a "
            "fit warns of, and how many threads BLAS has, belong to a process."
        )
    with parallel_config(backend="dask"):
        return max(2, effective_n_jobs(-1))  # joblib would take one of them as none


def _results(
    protocol: Protocol,
    cells: list[Cell],
    n_jobs: int,
    device: str | None,
    backend: str,
    sets: dict[str, str],
) -> Generator[Result, None, None]:
    """Cells with their rows, as they come."""
    if backend == "processes" and n_jobs == 1:
        for cell in cells:
            yield cell, attempt(protocol, cell, device)
        return
    where = os.environ.get(FOLDER)

    def arguments(cell: Cell) -> Task:
        return _only(protocol, cell), cell, device, sets[cell.dataset], where

    if backend == "processes":
        yield from _here(protocol, cells, n_jobs, arguments)
        return
    with parallel_config(backend="dask"):
        # A batch would keep finished cells waiting, and lose them when the process is killed.
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
    yield from parallel(delayed(_work)(*arguments(cell)) for cell in cells)


def _here(
    protocol: Protocol, cells: list[Cell], n_jobs: int, arguments: Callable[[Cell], Task]
) -> Iterator[Result]:
    """Rows of all cells; those whose process died come last, one at a time."""
    died = []
    for task, result in shared(_work, map(arguments, cells), min(n_jobs, len(cells))):
        if isinstance(result, ProcessEndedError):
            died.append(task)
        else:
            yield result
    # Where memory was short, the system may have ended the wrong process. Now there is but one.
    for (_, cell, *_), result in shared(_work, died, 1):
        if isinstance(result, ProcessEndedError):
            yield cell, lost(protocol, cell, result)
        else:
            yield result


def _only(protocol: Protocol, cell: Cell) -> Protocol:
    """As much of a protocol as a cell needs: the rest would travel with every cell."""
    method = protocol.method(cell.method, cell.dataset)
    return replace(protocol, datasets=(cell.dataset,), methods=(method,))


def _work(
    protocol: Protocol,
    cell: Cell,
    device: str | None,
    data: str,
    folder: str | None,
) -> Result:
    """A cell in a process of its own, which may be older than the caller's environment."""
    if folder is not None:
        os.environ[FOLDER] = folder
    if load(cell.dataset).digest != data:
        raise ValueError(f"Data set {cell.dataset} is not the same on all machines of the cluster.")
    with one_blas_thread():
        return cell, attempt(protocol, cell, device)
