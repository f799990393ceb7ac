"""Row blocks on a dask cluster, whose workers compute the sums for a fit."""

from collections.abc import Callable
from copy import copy, deepcopy
from functools import partial
from operator import iadd, itemgetter
from typing import Any

import numpy as np
from dask import config
from dask.delayed import delayed
from distributed import futures_of, get_client

from dm2l._utils.arrays import one_blas_thread
from dm2l.labels._matrix import LabelForm
from dm2l.outofcore._source import Block, RemoteBlocks, naming_block, read_block

__all__ = ["DaskBlocks"]

FAN_IN = 8  # number of results that a task adds up
# Task graphs contain the model weights, which are large with many labels.
_LARGE_GRAPHS = partial(config.set, {"distributed.admin.large-graph-warning-threshold": "10GB"})


class DaskBlocks(RemoteBlocks):
    """Row blocks from dask arrays or data frames, which stay on the workers.

    Each chunk of rows, or partition, is a block. Pass the blocks to
    :meth:`dm2l.DM2LClassifier.fit` in place of ``X`` and ``Y``; the model equals a fit in a single
    process. If a worker is lost during a fit, dask recomputes its blocks.

    Parameters
    ----------
    X : dask array or dask data frame of shape (n, d)
        Inputs.
    Y : dask array or dask data frame of shape (n, c) or (n,)
        Labels; a data frame needs as many partitions as ``X``.
    label_mask : dask array or data frame of bool of the shape of ``Y``, default=None
        True where a label may be used.
    client : dask.distributed.Client, default=None
        The client of the cluster; None uses the current client.
    keep : bool, default=True
        Whether blocks stay in the memory of the workers, or are read again in every pass.
    missing_label, missing_as, classes
        Parameters of :class:`dm2l.outofcore.RowBlocks`.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from dm2l import DM2LClassifier
    >>> from dm2l.datasets import make_missing_multilabel
    >>> from dm2l.outofcore.cluster import DaskBlocks
    >>> X, Y = make_missing_multilabel(n_samples=400, random_state=0)
    >>> with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
    ...     rows = DaskBlocks(da.from_array(X, (100, -1)), da.from_array(Y, (100, -1)))
    ...     model = DM2LClassifier().fit(rows)
    >>> model.coef_.shape == (Y.shape[1], X.shape[1])
    True
    """

    def __init__(
        self,
        X: Any,
        Y: Any,
        label_mask: Any = None,
        *,
        client: Any = None,
        keep: bool = True,
        missing_label: Any = np.nan,
        missing_as: Any = None,
        classes: Any = None,
    ) -> None:
        self.client = _current(client)
        self.keep = keep
        self._parts = _partitions(X, Y, label_mask)
        self._blocks: list[Any] | None = None
        self._counts: Any = None
        rows = sum(X.chunks[0]) if hasattr(X, "chunks") else np.nan
        here, parts = self.client, self._parts  # a reference to self would create a cycle
        super().__init__(
            lambda: (here.gather(here.compute(tasks)) for tasks in parts),
            n_rows=None if np.isnan(rows) else int(rows),
            missing_label=missing_label,
            missing_as=missing_as,
            classes=classes,
            ahead=False,
        )

    def _tasks(self) -> list[Any]:
        """Return dask tasks for checked blocks; the first call checks all blocks on the workers."""
        if self._blocks is None:
            n_features = self.n_features
            parts, read = enumerate(self._parts), delayed(_read)
            checked = [read(place, self._form, n_features, *part) for place, part in parts]
            with _LARGE_GRAPHS():
                if self.keep:
                    checked = self.client.persist(checked)
                found = self.client.compute([delayed(_summary)(one) for one in checked])
            try:
                forms, *counted = zip(*self.client.gather(found), strict=True)
                for place, form in enumerate(forms):
                    with naming_block(place):
                        self._form.join(form)
            except BaseException:
                # The traceback would keep references to the blocks on the workers.
                self.client.cancel([*found, *futures_of(checked)])
                raise
            sizes, *counts = counted
            self._finish_pass(len(sizes), sum(sizes))
            self._counts = tuple(map(sum, counts))
            self._blocks = [delayed(itemgetter(0))(one) for one in checked]
        return self._blocks

    def counts(self) -> Any:
        """Return the numbers of positives and negatives per label, and of labelled rows."""
        self._tasks()
        return self._counts

    def result_limit(self) -> float:
        """Return the maximum size in bytes of a block's result, given the workers' memory."""
        # A worker keeps several results and their sum in memory.
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        limits = [worker["memory_limit"] or np.inf for worker in workers]
        return min(limits, default=np.inf) / (FAN_IN + 3)

    def reducer(self, change: Callable[[Any], Any] | None = None) -> Callable[..., tuple[Any, ...]]:
        """Return a function that sums ``function(change(block))`` over blocks on the workers."""
        tasks = self._tasks()
        if change is not None:
            shared = delayed(_same, traverse=False)(change)
            tasks = [delayed(_applied)(shared, block) for block in tasks]
            if self.keep:
                with _LARGE_GRAPHS():
                    tasks = self.client.persist(tasks)
        return partial(self._sum, tasks)

    def _sum(self, tasks: list[Any], function: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Return the sum of ``function(block)`` over blocks, added in a fixed order."""
        # Passed as a task, the function is sent once per worker instead of once per block, and dask
        # restores it if a worker is lost.
        shared = delayed(_same, traverse=False)(function)
        parts = [delayed(_applied)(shared, task) for task in tasks]
        while len(parts) > 1:
            parts = [delayed(_added)(parts[i : i + FAN_IN]) for i in range(0, len(parts), FAN_IN)]
        with _LARGE_GRAPHS():
            return tuple(self.client.compute(parts[0]).result())


def _current(client: Any) -> Any:
    if client is None:
        try:
            client = get_client()
        except ValueError as error:
            what = "There is no dask client."
            remedy = "Create one with dask.distributed.Client(...), or pass it as client=."
            raise ValueError(f"{what} {remedy}") from error
    if client.asynchronous:
        raise ValueError("The dask client is asynchronous; create it with asynchronous=False.")
    return client


def _partitions(X: Any, Y: Any, label_mask: Any) -> list[list[Any]]:
    """Return dask tasks for the rows, labels and mask of each block."""
    chunks = X.chunks[0] if hasattr(X, "chunks") else ()
    lists = {}
    for name, part in {"X": X, "Y": Y, "label_mask": label_mask}.items():
        if part is None:
            continue
        if not hasattr(part, "to_delayed") or not hasattr(part, "ndim"):
            text = f"{name} must be a dask array or a dask data frame, got {type(part).__name__}."
            remedy = "Convert it with dask.array.from_array or dask.dataframe.from_pandas."
            raise TypeError(f"{text} {remedy}")
        if hasattr(part, "rechunk"):  # use whole rows and, if known, the block sizes of X
            same = {0: chunks} if chunks and sum(chunks) == part.shape[0] else {}
            part = part.rechunk(dict.fromkeys(range(1, part.ndim), -1) | same)
        lists[name] = list(np.ravel(part.to_delayed()))
        if len(lists[name]) != len(lists["X"]):
            what = f"X has {len(lists['X'])} blocks of rows, but {name} has {len(lists[name])}."
            raise ValueError(f"{what} Give both the same partitions.")
    return [list(parts) for parts in zip(*lists.values(), strict=True)]


def _read(place: int, form: LabelForm, n_features: int, *parts: Any) -> tuple[Block, LabelForm]:
    form = copy(form)
    with naming_block(place):
        return read_block(parts, form, n_features), form


def _summary(checked: tuple[Block, LabelForm]) -> tuple[LabelForm, int, Any, Any, Any]:
    (_, T, _), form = checked
    return form, len(T), (T > 0).sum(axis=0), (T < 0).sum(axis=0), (T != 0).any(axis=1).sum()


def _same(value: Any) -> Any:
    return value


def _applied(function: Callable[[Any], Any], block: Any) -> Any:
    with one_blas_thread():
        return function(block)


def _added(parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    first, *others = parts
    total = deepcopy(first)  # copied, because dask may reuse the parts
    for part in others:
        total = tuple(map(iadd, total, part))
    return total
