"""One cell: its rows and the labels it may see, a fit, its measures."""

import functools
import hashlib
import importlib.metadata
import math
import os
import platform
import resource
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

import dm2l
from dm2l import metrics
from dm2l._utils.arrays import to_numpy
from dm2l.datasets import content_hash, duplicate_groups, load_dataset
from experiments.protocols import MASKS, NO_MASK, Cell, Method, Protocol

CONVENTIONS = ("published", "default")  # of metrics, on rows where they are undefined
# By the names of columns.
RANKINGS: dict[str, Callable[..., Any]] = {
    "ranking_loss": metrics.ranking_loss,
    "average_precision": metrics.label_ranking_average_precision,
    "coverage": metrics.coverage_error,
    "instance_auc": metrics.instance_auc,
    "label_auc": metrics.label_auc,
}
_INSIDE = ("best_estimator_", "search_", "estimator_")  # where models keep the one they fitted

Rows = NDArray[np.intp]

# -- data ---------------------------------------------------------------------------------------


class _Data(NamedTuple):
    X: Any
    Y: NDArray[Any]
    groups: NDArray[np.intp]  # equal numbers for identical rows
    digest: str


def load(name: str) -> _Data:
    return _load_from(name, os.environ.get("DM2L_DATA"))


@functools.lru_cache(maxsize=1)  # one data set at a time: cells come in the order of data sets
def _load_from(name: str, _folder: str | None) -> _Data:
    bunch = load_dataset(name)
    X, Y = bunch.data, bunch.target
    return _Data(X, Y, duplicate_groups(X), content_hash(X, Y)[:12])


class Sample(NamedTuple):
    """What a cell learns from and what it is scored on; ``facts`` are columns of its row."""

    X_train: Any
    Y_train: NDArray[np.float64]  # hidden labels are NaN: nothing that learns meets their values
    X_test: Any
    Y_test: NDArray[Any]
    facts: dict[str, Any]


def draw(protocol: Protocol, cell: Cell) -> Sample:
    """The rows of a cell, with the labels that it may not see hidden."""
    data = load(cell.dataset)
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
    return Sample(data.X[train], Y_train, data.X[test], data.Y[test], facts)


def split_rows(
    seed: int, n_rows: int, test_size: float, groups: NDArray[np.integer[Any]] | None = None
) -> tuple[Rows, Rows]:
    """Rows to train on and rows to score on, uniformly over rows, or over groups of rows."""
    if groups is None:
        groups = np.arange(n_rows)
    kinds, place = np.unique(groups, return_inverse=True)
    if len(kinds) < 2:
        raise ValueError(f"{n_rows} rows in {len(kinds)} groups cannot be split in two.")
    # The stream of RandomState, unlike that of a Generator, is the same in every numpy.
    order = check_random_state(seed).permutation(len(kinds))
    n_test = min(max(round(test_size * len(kinds)), 1), len(kinds) - 1)
    rank = np.empty(len(kinds), dtype=np.intp)
    rank[order] = np.arange(len(kinds))
    # In random order, so that folds made later do not see an order that the file may have.
    rows = np.argsort(rank[place.ravel()], kind="stable")
    tested = rank[place.ravel()[rows]] >= len(kinds) - n_test
    return rows[~tested], rows[tested]


# -- one cell -----------------------------------------------------------------------------------


def run_cell(protocol: Protocol, cell: Cell, device: str | None = None) -> dict[str, Any]:
    """Fit and score one cell; the columns of its row.

    Only the features of the training rows and their observed labels reach ``fit``, and only the
    features of the test rows reach ``decision_function`` and ``predict``.
    """
    method, sample = protocol.method(cell.method, cell.dataset), draw(protocol, cell)
    device = device if method.on_device else None
    model = seeded(method, cell.estimator_seed)
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
        "settings": method.settings,
        **sample.facts,
        **found,
        "chosen": None if chosen is None else {name: _plain(v) for name, v in chosen.items()},
        "n_iter": None if n_iter is None else int(np.max(n_iter)),
        "n_evaluations": None if n_evaluations is None else int(np.max(n_evaluations)),
        "scores": hashlib.sha256(np.ascontiguousarray(scores).tobytes()).hexdigest()[:12],
        "seconds_fit": fitted - start,
        "seconds_score": scored - fitted,
        "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        / (2**20 if sys.platform == "darwin" else 2**10),
        "device": device or "cpu",
        "warnings": _counted(caught),
    }


def seeded(method: Method, seed: int) -> Any:
    """The method's estimator, in which every ``random_state`` that was left open has the seed."""
    model = clone(method.estimator)
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
    """An attribute of a fitted model, or of the one inside a pipeline, a search, another one."""
    while model is not None:
        if hasattr(model, name):
            return getattr(model, name)
        steps = getattr(model, "steps", None)
        inner = (getattr(model, place) for place in _INSIDE if hasattr(model, place))
        model = steps[-1][1] if steps else next(inner, None)
    return None


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _measure(
    Y: NDArray[Any], scores: NDArray[Any], predictions: NDArray[Any] | None
) -> dict[str, float | None]:
    """Every metric under both conventions; None where one is undefined."""
    found: dict[str, Any] = {}
    for convention in CONVENTIONS:
        chosen: Any = {} if convention == "default" else {"convention": convention}
        for name, metric in RANKINGS.items():
            found[f"{convention}_{name}"] = metric(Y, scores, **chosen)
        found[f"{convention}_one_error"] = metrics.one_error(Y, scores)
        found[f"{convention}_hamming_loss"] = (
            math.nan if predictions is None else metrics.hamming_loss(Y, predictions)
        )
    return {name: None if math.isnan(value) else float(value) for name, value in found.items()}


def _on(device: str | None, X: Any) -> Any:
    """The features as a tensor on a device, or as they are."""
    if device is None:
        return X
    import torch  # the torch extra

    dense = X.toarray() if sp.issparse(X) else X
    return torch.asarray(dense, dtype=torch.float64, device=device)


def _now(device: str | None) -> float:
    """The time at which everything asked of a device so far is done."""
    if device is not None and device.startswith("cuda"):
        import torch

        torch.cuda.synchronize(device)
    return time.perf_counter()


def _counted(caught: Iterable[warnings.WarningMessage]) -> dict[str, int]:
    texts = Counter(f"{w.category.__name__}: {w.message}"[:1000] for w in caught)
    return dict(texts.most_common(20))


# -- versions and machine -----------------------------------------------------------------------


def circumstances(device: str | None = None) -> dict[str, Any]:
    """When, with what and where rows were computed."""
    versions: dict[str, str | None] = {
        "python": platform.python_version(),
        "dm2l": dm2l.__version__,
    }
    for name in ("numpy", "scipy", "scikit-learn", "torch"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    shown = device
    if device is not None and device.startswith("cuda"):
        import torch  # a device that is not there stops the run before any fit

        shown = torch.cuda.get_device_name(device)
    machine = {"cpus": os.cpu_count(), "platform": platform.platform(), "device": shown}
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"started": started, "versions": versions, "machine": machine}
