"""One cell: its rows and the labels it may see, a fit, its measures."""

from __future__ import annotations

import functools
import hashlib
import math
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from dm2l import metrics
from dm2l._utils.arrays import to_numpy
from dm2l.datasets import content_hash, duplicate_groups, load_dataset
from dm2l_lab._protocol import MASKS, NO_MASK, Cell, Protocol
from dm2l_lab._rows import CONVENTIONS
from dm2l_lab._settings import Method, plain

FOLDER = "DM2L_DATA"  # where load_dataset looks
_MOST_WARNINGS = 20  # texts kept of one cell
_LONGEST_TEXT = 1000
_INSIDE = ("best_estimator_", "search_", "estimator_")  # where models keep the one they fitted

# -- data ---------------------------------------------------------------------------------------


Rows = NDArray[np.intp]


class _Data(NamedTuple):
    X: Any
    Y: NDArray[Any]
    groups: NDArray[np.intp]  # equal numbers for identical rows
    digest: str


def load(name: str) -> _Data:
    return _load_from(name, os.environ.get(FOLDER))


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
    >>> from dm2l_lab import Method, Protocol, run_cell
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
    return _fit(protocol.method(cell.method, cell.dataset), cell, draw(protocol, cell), device)


def _fit(method: Method, cell: Cell, sample: Sample, device: str | None) -> dict[str, Any]:
    device = device if method.follows_x else None
    model = seeded(method.estimator, cell.estimator_seed)
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


def seeded(estimator: Any, seed: int) -> Any:
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
    """An attribute of a fitted model, or of the one inside a pipeline, a search, another one."""
    while model is not None:
        if hasattr(model, name):
            return getattr(model, name)
        steps = getattr(model, "steps", None)
        inner = (getattr(model, place) for place in _INSIDE if hasattr(model, place))
        model = steps[-1][1] if steps else next(inner, None)
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


def attempt(protocol: Protocol, cell: Cell, device: str | None) -> dict[str, Any]:
    """The row of a cell, whether it works out or not."""
    start = time.perf_counter()
    sample = draw(protocol, cell)  # what goes wrong here is not the method's fault, and is raised
    method = protocol.method(cell.method, cell.dataset)
    row: dict[str, Any]
    try:
        row = _fit(method, cell, sample, device)
    except (Exception, SystemExit) as error:  # what a method of anybody raises is its result
        text = f"{type(error).__name__}: {error}"
        row = _failed(method, sample, text) | {"peak_memory": _peak_memory()}
    return {**row, "seconds": time.perf_counter() - start}


def lost(protocol: Protocol, cell: Cell, error: Exception) -> dict[str, Any]:
    """The row of a cell that ended the process it was in."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return _failed(protocol.method(cell.method, cell.dataset), draw(protocol, cell), text)


def _failed(method: Method, sample: Sample, text: str) -> dict[str, Any]:
    parameters = plain(method.estimator)
    row = {"status": "failed", "error": text[:_LONGEST_TEXT], "parameters": parameters}
    return {**sample.facts, **row}
