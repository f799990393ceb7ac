"""Running the cells of a protocol: each once, in any number of attempts."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import itertools
import math
import os
import platform
import signal
import statistics
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs, parallel_config
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

import dm2l
from dm2l import metrics
from dm2l.arrays import to_numpy
from dm2l.datasets import content_hash, duplicate_groups, load_dataset
from dm2l.experiments._protocol import MASKS, NO_MASK, Cell, Method, Protocol, plain, split_rows
from dm2l.experiments._store import CONVENTIONS, Store
from dm2l.nuclear import one_blas_thread

_FOLDERS = ("DM2L_DATA", "DM2L_CACHE")  # where load_dataset looks
_MOST_WARNINGS = 20  # texts kept of one cell
# Cells for each process that ray gets at a time.
GROUP = 4
_LONGEST_TEXT = 1000


# -- data ---------------------------------------------------------------------------------------


class _Data(NamedTuple):
    X: Any
    Y: NDArray[Any]
    groups: NDArray[np.intp]  # equal numbers for identical rows
    digest: str


def _load(name: str) -> _Data:
    return _load_from(name, _folders())


@functools.lru_cache(maxsize=1)  # one data set at a time: cells come in the order of data sets
def _load_from(name: str, _folders: tuple[str | None, ...]) -> _Data:
    bunch = load_dataset(name)
    X, Y = bunch.data, bunch.target
    return _Data(X, Y, duplicate_groups(X), content_hash(X, Y)[:12])


def _folders() -> tuple[str | None, ...]:
    return tuple(os.environ.get(name) for name in _FOLDERS)


class _Sample(NamedTuple):
    """What a cell learns from and what it is scored on; ``facts`` are columns of its row."""

    X_train: Any
    Y_train: NDArray[np.float64]  # hidden labels are NaN: nothing that learns meets their values
    X_test: Any
    Y_test: NDArray[Any]
    facts: dict[str, Any]


def _draw(protocol: Protocol, cell: Cell) -> _Sample:
    data = _load(cell.dataset)
    groups = data.groups if protocol.keep_copies_together else None
    train, test = split_rows(cell.split_seed, len(data.Y), protocol.test_size, groups)
    Y_train = data.Y[train].astype(np.float64)
    if cell.mask != NO_MASK:
        Y_train = MASKS[cell.mask](Y_train, cell.rate, random_state=cell.mask_seed)
    facts = {
        "n_train": len(train),
        "n_test": len(test),
        "observed": float((~np.isnan(Y_train)).mean()),
        "n_copies": int(np.isin(data.groups[test], data.groups[train]).sum()),
        "split": protocol.split,
        "data": data.digest,
        "split_seed": cell.split_seed,
        "mask_seed": cell.mask_seed,
        "estimator_seed": cell.estimator_seed,
    }
    return _Sample(data.X[train], Y_train, data.X[test], data.Y[test], facts)


# -- one cell -----------------------------------------------------------------------------------


def run_cell(protocol: Protocol, cell: Cell, *, device: str | None = None) -> dict[str, Any]:
    """Fit and score one cell.

    Only the features of the training rows and their observed labels reach ``fit``, and only the
    features of the test rows reach ``decision_function`` and ``predict``.

    Parameters
    ----------
    protocol : Protocol
        The protocol of the cell.
    cell : Cell
        What to run.
    device : str, default=None
        As in :func:`run`.

    Returns
    -------
    dict
        Columns of a row of :meth:`Store.rows`. What ``fit`` raises is raised here.

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> from unittest import mock
    >>> import numpy as np
    >>> from dm2l.baselines import MaskedRidgeClassifier
    >>> from dm2l.datasets import make_missing_multilabel
    >>> from dm2l.experiments import Method, Protocol, run_cell
    >>> X, Y = make_missing_multilabel(rho=1.0, random_state=0)
    >>> ridge = Method("ridge", MaskedRidgeClassifier())
    >>> protocol = Protocol("small", ("tiny",), (ridge,), rates=(0.3,), masks=("uniform",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "tiny.npz"), X=X, Y=Y)
    ...     with mock.patch.dict(os.environ, DM2L_DATA=folder):
    ...         row = run_cell(protocol, next(protocol.cells()))
    >>> row["n_train"], row["n_test"], row["observed"]
    (120, 80, 0.3)
    >>> row["metrics"]["default"]["ranking_loss"] < 0.3
    True
    """
    return _fit(protocol.method(cell.method, cell.dataset), cell, _draw(protocol, cell), device)


def _fit(method: Method, cell: Cell, sample: _Sample, device: str | None) -> dict[str, Any]:
    device = device if method.follows_x else None
    model = _seeded(method.estimator, cell.estimator_seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        X_train, X_test = (_on(device, X) for X in (sample.X_train, sample.X_test))
        start = _now(device)
        model.fit(X_train, sample.Y_train)
        fitted = _now(device)
        scores = to_numpy(model.decision_function(X_test))
        scored = _now(device)
        predictions = to_numpy(model.predict(X_test)) if hasattr(model, "predict") else None
        found = _measure(sample.Y_test, scores, predictions)
    chosen, n_iter, n_evaluations = (
        _fitted(model, name) for name in ("best_params_", "n_iter_", "n_evaluations_")
    )
    return {
        **sample.facts,
        "status": "done",
        "metrics": found,
        "parameters": plain(method.estimator),
        "chosen": plain(chosen),
        "n_iter": None if n_iter is None else int(np.max(n_iter)),
        "n_evaluations": None if n_evaluations is None else int(np.max(n_evaluations)),
        "scores": hashlib.sha256(np.ascontiguousarray(scores).tobytes()).hexdigest()[:12],
        "seconds_fit": fitted - start,
        "seconds_score": scored - fitted,
        "peak_memory": _peak_memory(),
        "device": device or "cpu",
        "warnings": _counted(caught),
    }


def _seeded(estimator: Any, seed: int) -> Any:
    """A clone in which every ``random_state`` that was left open has the seed."""
    model = clone(estimator)
    found = model.get_params()
    open_ = [k for k in found if k.rpartition("__")[2] == "random_state" and found[k] is None]
    model.set_params(**dict.fromkeys(open_, seed))
    for value in found.values():
        # Folds have no get_params. They are copies here, made by clone; and without a shuffle
        # they refuse a seed.
        folds = hasattr(value, "split") and not isinstance(value, str | type)
        if folds and getattr(value, "random_state", seed) is None:
            value.random_state = seed if getattr(value, "shuffle", True) else None
    return model


def _fitted(model: Any, name: str) -> Any:
    """An attribute of a fitted model, or of the one inside a pipeline or a search."""
    while model is not None:
        if hasattr(model, name):
            return getattr(model, name)
        steps = getattr(model, "steps", None)
        model = steps[-1][1] if steps else getattr(model, "best_estimator_", None)
    return None


def _measure(
    Y: NDArray[Any], scores: NDArray[Any], predictions: NDArray[Any] | None
) -> dict[str, dict[str, float | None]]:
    """Every metric under both conventions; None where one is undefined."""
    result: dict[str, dict[str, float | None]] = {}
    one_error = metrics.one_error(Y, scores)
    hamming_loss = math.nan if predictions is None else metrics.hamming_loss(Y, predictions)
    for convention in CONVENTIONS:
        chosen: Any = {} if convention == "default" else {"convention": convention}
        found: dict[str, Any] = {
            "ranking_loss": metrics.ranking_loss(Y, scores, **chosen),
            "average_precision": metrics.average_precision(Y, scores, **chosen),
            "coverage": metrics.coverage(Y, scores, **chosen),
            "instance_auc": metrics.instance_auc(Y, scores, **chosen),
            "label_auc": metrics.label_auc(Y, scores, **chosen),
            "one_error": one_error,
            "hamming_loss": hamming_loss,
        }
        result[convention] = {k: None if math.isnan(v) else float(v) for k, v in found.items()}
    return result


def _on(device: str | None, X: Any) -> Any:
    """The features as a tensor on a device, or as they are."""
    if device is None:
        return X
    import torch  # the gpu extra

    dense = X.toarray() if sp.issparse(X) else X
    return torch.asarray(dense, dtype=torch.float64, device=device)


def _now(device: str | None) -> float:
    """The time at which everything asked of a device so far is done."""
    if device is not None and device.startswith("cuda"):
        import torch

        torch.cuda.synchronize(device)
    return time.perf_counter()


def _counted(caught: Iterable[warnings.WarningMessage]) -> dict[str, int]:
    texts = Counter(f"{w.category.__name__}: {w.message}"[:_LONGEST_TEXT] for w in caught)
    return dict(texts.most_common(_MOST_WARNINGS))


def _peak_memory() -> float | None:
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


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
    >>> from dm2l.experiments import Step
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
    and stops no other cell.

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
    >>> from dm2l.experiments import Method, Protocol, Store, run
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
    if backend == "loky":
        n_jobs = max(1, min(n_jobs, len(pending)))
    work = Work(store, protocol.name, pending, n_jobs)
    step = Step(None, None, None, before["done"], before["failed"], len(cells), work.seconds)
    if progress is not None:
        progress(step)
    if not pending:
        return step
    # A set that is not there, or not what it was, stops the run before anything is fitted.
    names = dict.fromkeys(cell.dataset for cell in pending)
    sets = {name: _load(name).digest for name in names}
    same = {"protocol": protocol.name, "split": protocol.split}
    store.check([{**same, "dataset": name, "data": sets[name]} for name in sets], "this run")
    identifier = store.add_run(versions=_versions(), machine=_machine(device))
    for cell, row in _results(protocol, pending, n_jobs, device, backend, sets):
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
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Cells with their rows, as they come."""
    here = backend == "loky"
    if here and n_jobs == 1:
        for cell in cells:
            yield cell, _attempt(protocol, cell, device)
        return
    caller = (os.getpid() if here else None, _folders())
    tasks = (
        delayed(_work)(_only(protocol, cell), cell, device, sets[cell.dataset], *caller)
        for cell in cells
    )
    threads = {"inner_max_num_threads": 1} if here else {}
    # joblib's backend for ray gives nothing before all is there, so it gets a few cells at a time.
    # A batch would keep finished cells waiting, and lose them when the process is killed.
    order = "list" if backend == "ray" else "generator_unordered"
    with parallel_config(backend=backend, **threads):
        parallel = Parallel(n_jobs=n_jobs, return_as=order, batch_size=1)
    if backend != "ray":
        yield from parallel(tasks)
        return
    while few := list(itertools.islice(tasks, GROUP * n_jobs)):
        yield from parallel(few)


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
) -> tuple[Cell, dict[str, Any]]:
    """A cell in a process of its own, which may be older than the caller's environment."""
    if parent is not None:
        _serve(parent)
    for name, folder in zip(_FOLDERS, folders, strict=True):
        if folder is not None:
            os.environ[name] = folder
    if _load(cell.dataset).digest != data:
        raise ValueError(f"Data set {cell.dataset} is not the same on all machines of the cluster.")
    with one_blas_thread():
        return cell, _attempt(protocol, cell, device)


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


def _attempt(protocol: Protocol, cell: Cell, device: str | None) -> dict[str, Any]:
    """The row of a cell, whether it works out or not."""
    start = time.perf_counter()
    sample = _draw(protocol, cell)  # what goes wrong here is not the method's fault, and is raised
    method = protocol.method(cell.method, cell.dataset)
    row: dict[str, Any]
    try:
        row = _fit(method, cell, sample, device)
    except Exception as error:  # whatever a method of anybody raises is its result
        text = f"{type(error).__name__}: {error}"[:_LONGEST_TEXT]
        row = {**sample.facts, "status": "failed", "error": text}
        row |= {"parameters": plain(method.estimator), "peak_memory": _peak_memory()}
    return {**row, "seconds": time.perf_counter() - start}


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
        torch.zeros(1, device=device)  # a device that is not there stops the run before any fit
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
    >>> from dm2l.experiments import Method, Protocol, Store, status
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
