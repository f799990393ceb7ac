"""What checks cost: seconds inside of them over those of the read or fit that they are part of.

    python benchmarks/checks.py [--repeat 15] [--out FILE.json]

Every check is timed where it is called, so that both figures come from the same call; the median
of the ratios is reported. Of the door for sparse matrices, which also makes them, what scipy takes
to make the same matrix unchecked is taken off.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest import mock

import numpy as np
import record
import scipy.io
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from dm2l import DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier
from dm2l.datasets import load_dataset
from dm2l.io import read_csv, read_mat, read_npz, read_svmlight, write_npz

# Modules of the library, and the checks that they call by a name of their own.
CHECKS = {
    "io._matrix_files": ["check_regular", "check_memory", "check_width", "check_distinct"],
    "io._svmlight_file": ["check_memory", "check_width", "check_distinct"],
    "_utils.files": ["check_regular", "check_memory"],
    "io._table": ["check_distinct"],
    "_base": ["check_finite", "check_magnitude"],
    "_classifier": ["check_magnitude"],
    "_solvers.nuclear": ["check_finite"],
    "_solvers.problem": ["check_finite"],
}
DOORS = ("io._matrix_files",)


@contextmanager
def timed() -> Iterator[list[float]]:
    """Seconds that checks take, one after the other."""
    spent: list[float] = []
    with ExitStack() as stack:
        for place, names in CHECKS.items():
            module = importlib.import_module(f"dm2l.{place}")
            for name in names:
                wrapped = _timed(getattr(module, name), spent)
                stack.enter_context(mock.patch.object(module, name, wrapped))
        for place in DOORS:
            module = importlib.import_module(f"dm2l.{place}")
            wrapped = _timed_door(module.sparse_from_parts, spent)
            stack.enter_context(mock.patch.object(module, "sparse_from_parts", wrapped))
        yield spent


def _timed(check: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        start = perf_counter()
        result = check(*arguments, **options)
        spent.append(perf_counter() - start)
        return result

    return call


def _timed_door(door: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    def call(data: Any, indices: Any, indptr: Any, shape: Any, **options: Any) -> Any:
        start = perf_counter()
        matrix = door(data, indices, indptr, shape, **options)
        middle = perf_counter()
        type(matrix)((data, indices, indptr), shape=matrix.shape)
        spent.append(2 * middle - start - perf_counter())
        return matrix

    return call


def ratio(action: Callable[[], Any], repeat: int) -> dict[str, float]:
    """Median seconds of a call, and median share of the checks in it."""
    action()
    seconds, shares = [], []
    for _ in range(repeat):
        with timed() as spent:
            start = perf_counter()
            action()
            seconds.append(perf_counter() - start)
        shares.append(sum(spent) / seconds[-1])
    return {"seconds": statistics.median(seconds), "share": statistics.median(shares)}


def reads(folder: Path) -> dict[str, Callable[[], Any]]:
    """Files of all forms, with nothing but what was loaded in them."""
    wide, narrow = load_dataset("bibtex"), load_dataset("yeast")
    write_npz(folder / "bibtex.npz", wide)
    Y = sp.csr_array(wide.target)
    dump_svmlight_file(wide.data, Y, str(folder / "bibtex.svm"), multilabel=True)
    variables = {"X": sp.csc_matrix(wide.data), "Y": np.asarray(wide.target, dtype=float)}
    scipy.io.savemat(folder / "bibtex.mat", variables)
    X = narrow.data.toarray() if sp.issparse(narrow.data) else narrow.data
    names = [f"x{j}" for j in range(X.shape[1])] + [f"y{k}" for k in range(narrow.target.shape[1])]
    np.savetxt(
        folder / "yeast.csv",
        np.hstack([X, narrow.target]),
        fmt="%.6g",
        delimiter=",",
        header=",".join(names),
        comments="",
    )
    return {
        "npz, bibtex": lambda: read_npz(folder / "bibtex.npz"),
        "MATLAB, bibtex": lambda: read_mat(folder / "bibtex.mat"),
        "svmlight, bibtex": lambda: read_svmlight(folder / "bibtex.svm"),
        "CSV, yeast": lambda: read_csv(folder / "yeast.csv", "y*"),
    }


def fits() -> dict[str, Callable[[], Any]]:
    """Fits to data sets as they are."""
    yeast, arts = load_dataset("yeast"), load_dataset("Arts")
    return {
        "DM2L, yeast": lambda: DM2LClassifier().fit(yeast.data, yeast.target),
        "DM2L, Arts": lambda: DM2LClassifier().fit(arts.data, arts.target),
        "masked ridge, Arts": lambda: MaskedRidgeClassifier().fit(arts.data, arts.target),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/checks.json")
    arguments = parser.parse_args()
    found: dict[str, Any] = {"repeat": arguments.repeat, "reads": {}, "fits": {}}
    with tempfile.TemporaryDirectory() as name:
        for kind, actions in (("reads", reads(Path(name))), ("fits", fits())):
            for what, action in actions.items():
                found[kind][what] = ratio(action, arguments.repeat)
                print(f"{kind[:-1]} {what}: {found[kind][what]}", flush=True)
    record.write(arguments.out, found)


if __name__ == "__main__":
    main()
