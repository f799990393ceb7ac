"""Running the cells of a protocol: each once, in any number of attempts."""

from __future__ import annotations

import functools
import importlib.metadata
import itertools
import os
import platform
import signal
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from joblib import effective_n_jobs, parallel_config
from sklearn.utils.parallel import Parallel, delayed

import dm2l
from dm2l.threads import one_blas_thread
from dm2l_lab._cell import FOLDERS, attempt, folders, load, lost
from dm2l_lab._processes import Task, TerminatedWorkerError, shared
from dm2l_lab._protocol import Cell, Protocol
from dm2l_lab._store import Store

GROUP = 4  # cells for each process that ray gets at a time

Result = tuple[Cell, dict[str, Any]]


# -- many cells ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """How far a run is: told to a callback at the start, and whenever a cell has been stored.

    Parameters
    ----------
    cell : Cell or None
        The cell; None at the start.
    status : {"done", "failed"} or None
        What became of it.
    error : str or None
        Type and message of what a failed cell raised.
    done, failed, total : int
        Cells of this selection, those of earlier runs included.
    remaining : float or None
        Estimated seconds until all are done; None while nothing is known.

    Examples
    --------
    >>> from dm2l_lab import Step
    >>> Step(None, None, None, done=3, failed=0, total=9, remaining=60.0).remaining
    60.0
    """

    cell: Cell | None
    status: str | None
    error: str | None
    done: int
    failed: int
    total: int
    remaining: float | None


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
    backend: str = "loky",
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
    backend : {"loky", "dask", "ray"}, default="loky"
        Whose processes, by way of joblib: those of this machine, or those of the dask client or
        the ray cluster that is connected, where the data sets have to be as well. With dask all
        workers are used, with ray ``n_jobs``, and all of them if that is 1.
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
    _connect(backend)
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
    identifier = store.add_run(versions=_versions(), machine=_machine(device))
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


def _connect(backend: str) -> None:
    """Make a backend known to joblib."""
    if backend == "ray":
        from ray.util.joblib import register_ray

        register_ray()
    elif backend == "dask":
        from distributed import get_client

        threads = get_client().nthreads()  # or it says that there is no client
        if max(threads.values(), default=1) > 1:
            raise ValueError(
                "Experiments need dask workers with one thread each (threads_per_worker=1): what a "
                "fit warns of, and how many threads BLAS has, belong to a process."
            )
    elif backend != "loky":
        raise ValueError(f"backend must be 'loky', 'dask' or 'ray', got {backend!r}.")


def _count(n_jobs: int, backend: str) -> int:
    """Processes; joblib would take one of them as none, and those of dask are all or nothing."""
    if backend == "loky":
        return effective_n_jobs(n_jobs)
    with parallel_config(backend=backend):
        return max(2, effective_n_jobs(-1 if n_jobs == 1 else n_jobs))


def _results(
    protocol: Protocol,
    cells: list[Cell],
    n_jobs: int,
    device: str | None,
    backend: str,
    sets: dict[str, str],
) -> Generator[Result, None, None]:
    """Cells with their rows, as they come."""
    here = backend == "loky"
    if here and n_jobs == 1:
        for cell in cells:
            yield cell, attempt(protocol, cell, device)
        return
    caller = (os.getpid() if here else None, folders())

    def arguments(cell: Cell) -> Task:
        return _only(protocol, cell), cell, device, sets[cell.dataset], *caller

    if here:
        yield from _here(protocol, cells, n_jobs, arguments)
        return
    tasks = (delayed(_work)(*arguments(cell)) for cell in cells)
    # joblib's backend for ray gives nothing before all is there, so it gets a few cells at a time.
    # A batch would keep finished cells waiting, and lose them when the process is killed.
    order = "list" if backend == "ray" else "generator_unordered"
    with parallel_config(backend=backend):
        parallel = Parallel(n_jobs=n_jobs, return_as=order, batch_size=1)
    if backend != "ray":
        yield from parallel(tasks)
        return
    while few := list(itertools.islice(tasks, GROUP * n_jobs)):
        yield from parallel(few)


def _here(
    protocol: Protocol, cells: list[Cell], n_jobs: int, arguments: Callable[[Cell], Task]
) -> Iterator[Result]:
    """Rows of all cells; those whose process died come last, one at a time."""
    died = []
    for task, result in shared(_work, map(arguments, cells), min(n_jobs, len(cells))):
        if isinstance(result, TerminatedWorkerError):
            died.append(task)
        else:
            yield result
    # Where memory was short, the system may have ended the wrong process. Now there is but one.
    for (_, cell, *_), result in shared(_work, died, 1):
        if isinstance(result, TerminatedWorkerError):
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
    parent: int | None,
    folders: tuple[str | None, ...],
) -> Result:
    """A cell in a process of its own, which may be older than the caller's environment."""
    if parent is not None:
        _serve(parent)
    for name, folder in zip(FOLDERS, folders, strict=True):
        if folder is not None:
            os.environ[name] = folder
    if load(cell.dataset).digest != data:
        raise ValueError(f"Data set {cell.dataset} is not the same on all machines of the cluster.")
    with one_blas_thread():
        return cell, attempt(protocol, cell, device)


@functools.cache  # once a process
def _serve(parent: int) -> None:
    """Leave interrupts to the parent, and end soon after it: nobody would fetch the results."""
    # A terminal sends an interrupt to all processes; the parent then ends its own.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    # Elsewhere the number of a parent does not change when it ends.
    if os.name == "posix":
        threading.Thread(target=watch, daemon=True).start()


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {"python": platform.python_version(), "dm2l": dm2l.__version__}
    for name in ("numpy", "scipy", "scikit-learn", "torch"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def _machine(device: str | None) -> dict[str, Any]:
    name = device
    if device is not None:
        try:
            import torch
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"device={device!r} needs torch: pip install 'dm2l[gpu]'", name="torch"
            ) from error
        # A device that is not there stops the run before any fit. Without its libraries torch
        # asserts, under a name that it does not know it has another error.
        try:
            torch.zeros(1, device=device)
        except (AssertionError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(f"torch has no device {device!r} here: {reason}") from error
        if device.startswith("cuda"):
            name = torch.cuda.get_device_name(device)
    return {"cpus": os.cpu_count(), "platform": platform.platform(), "device": name}


# -- how far it is ------------------------------------------------------------------------------


class Work:
    """Cells that wait, and the time they will take, judging by those that are done."""

    def __init__(
        self, store: Store, protocol: str, pending: Iterable[Cell], n_jobs: int = 1
    ) -> None:
        self.n_jobs = n_jobs
        self._pending = Counter((cell.dataset, cell.method) for cell in pending)
        self._spent = store.durations(protocol)

    def finish(self, cell: Cell, row: dict[str, Any]) -> None:
        """Take a cell off the list."""
        place = (cell.dataset, cell.method)
        self._pending[place] -= 1
        if row["status"] == "done":
            count, total = self._spent.get(place, (0, 0.0))
            self._spent[place] = (count + 1, total + row["seconds"])

    @property
    def seconds(self) -> float | None:
        """Seconds for so many processes; None while no cell has been timed."""
        waiting = +self._pending
        overall = [spent / count for count, spent in self._spent.values()]
        if not waiting or not overall:
            return None if waiting else 0.0
        total = 0.0
        near: dict[str, list[float]] = {}
        for (_, method), (count, spent) in self._spent.items():
            near.setdefault(method, []).append(spent / count)
        for place, n_cells in waiting.items():
            # The same method on the same data, or on other data, or whatever is known.
            if place in self._spent:
                count, spent = self._spent[place]
                each = spent / count
            else:
                each = statistics.fmean(near.get(place[1], overall))
            total += n_cells * each
        return total / self.n_jobs


def status(protocol: Protocol, store: Store, **selection: Any) -> dict[str, Any]:
    """Count what is done, failed and pending.

    Parameters
    ----------
    protocol : Protocol
        The protocol.
    store : Store
        Its results.
    **selection
        Which cells; as in :meth:`Protocol.cells`.

    Returns
    -------
    dict
        ``done``, ``failed``, ``pending``; ``outdated``, rows of the protocol's name that are not
        among its cells, with settings that methods had before for example; ``remaining``,
        estimated seconds of work for one process or None; ``groups``, the first three for each
        ``dataset`` and ``method``.

    Examples
    --------
    >>> from dm2l.baselines import MaskedRidgeClassifier
    >>> from dm2l_lab import Method, Protocol, Store, status
    >>> protocol = Protocol("small", ("Arts",), (Method("ridge", MaskedRidgeClassifier()),))
    >>> with Store(":memory:") as store:
    ...     counts = status(protocol, store, repetitions=10)
    >>> counts["done"], counts["pending"], counts["remaining"]
    (0, 30, None)
    """
    states = store.states(protocol.name)
    cells = list(protocol.cells(**selection))
    groups: dict[tuple[str, str], Counter[str]] = {}
    for cell in cells:
        group = groups.setdefault((cell.dataset, cell.method), Counter())
        group[states.get(cell, "pending")] += 1
    names = ("done", "failed", "pending")
    total = sum(groups.values(), Counter())
    pending = [cell for cell in cells if cell not in states]
    return {
        **{name: total[name] for name in names},
        "outdated": len(states.keys() - set(protocol.cells())),
        "remaining": Work(store, protocol.name, pending).seconds,
        "groups": [
            {"dataset": dataset, "method": method, **{name: group[name] for name in names}}
            for (dataset, method), group in groups.items()
        ],
    }
