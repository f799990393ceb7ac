"""MATLAB files with a feature and a label matrix, read by scipy in a process of its own.

scipy's compiled reader leaves its arrays at damaged bytes: of 32,256 mutated files 136 killed the
process. No check beforehand can help that short of a second reader, so it runs in a process that
may die. Numbers come back through a pipe as plain bytes, never as objects, and parts of sparse
matrices are checked.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from dm2l._utils.arrays import sparse_from_parts
from dm2l._utils.files import (
    MEMORY_HINT,
    AnyPath,
    DataFileError,
    available_memory,
    check_memory,
    check_regular,
    damaged_file_error,
    read_into,
    translate_errors,
)
from dm2l.io._columns import label_targets, make_bunch

_SCRIPT = Path(__file__).with_name("_mat_child.py")
# One thread: every further one of a BLAS library takes address space, which the script limits.
_THREADS = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_NEWER = "In MATLAB, write it again with save(..., '-v7')."
# A file may take what zlib can make of it, and what a reader needs to find out that it is none.
_RATIO, _SPARE = 2200, 2**28
_SECONDS, _BYTES_A_SECOND = 10, 1_000_000
# Usual names in lower case; a pair is a part for training and one for testing.
_USUAL = {
    "X": "x data features train_data+test_data x_train+x_test xtrain+xtest",
    "Y": "y target targets labels label train_target+test_target y_train+y_test ytrain+ytest",
}


def read_mat(
    path: str | Path,
    X: str | Sequence[str] | None = None,
    Y: str | Sequence[str] | None = None,
    *,
    missing: float = np.nan,
    features_only: bool = False,
) -> Bunch:
    """Read features and labels from a MATLAB file of version 4 to 7.

    A label matrix with one row a label, as in the Yahoo files, is transposed; so is a feature
    matrix with one column a sample, when only that fits the labels. scipy reads the file in a
    process of its own, as damaged bytes may kill it.

    Parameters
    ----------
    path : str or Path
        The MATLAB file. Version 7.3 is HDF5 and refused.
    X, Y : str or pair of str, default=None
        Variables with the features and the labels (0/1 or -1/+1, dense or sparse). A pair is
        stacked, training rows first. None: guessed from the usual names, in any case: ``X``,
        ``data``, ``features``, ``train_data`` with ``test_data``; ``Y``, ``target``, ``labels``,
        ``train_target`` with ``test_target``.
    missing : float, default=nan
        Mark of a missing label, ``0`` in files that hold -1, 0 and +1.
    features_only : bool, default=False
        Whether labels are ignored; ``target`` then has no columns. A label matrix that is there
        still decides whether features are transposed.

    Returns
    -------
    Bunch
        As of :func:`read_csv`, without names; ``data`` may be CSR. A stacked pair has
        ``train_index`` and ``test_index``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from scipy.io import savemat
    >>> from dm2l.io import read_mat
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "tiny.mat")
    ...     savemat(path, {"data": [[0.5, 2], [1, 0], [0, 3]], "target": [[1, -1, 1], [-1, 1, 1]]})
    ...     tiny = read_mat(path)
    >>> tiny.data.shape, tiny.target.tolist()
    ((3, 2), [[1, 0], [0, 1], [1, 1]])
    """
    found = _read_variables(path, [*_several(X), *_several(Y)])
    x_keys = _keys(found, X, "X", path)
    if features_only and Y is None and len(_guesses(found, "Y")) != 1:
        y_keys = x_keys  # nothing says that they should be turned
    else:
        y_keys = _keys(found, Y, "Y", path)
    if len(x_keys) != len(y_keys):
        raise DataFileError(path, f"X={x_keys} and Y={y_keys} do not pair up")
    pairs = [_oriented(found, x, y, path) for x, y in zip(x_keys, y_keys, strict=True)]
    if len({(x.shape[1], y.shape[1]) for x, y in pairs}) > 1:
        shapes = [(x.shape, y.shape) for x, y in pairs]
        raise DataFileError(path, f"{x_keys} and {y_keys} do not stack; their shapes are {shapes}")
    if sp.issparse(pairs[0][0]):
        data = sp.csr_array(sp.vstack([x for x, _ in pairs], format="csr"))
        data.sum_duplicates()
    else:
        data = np.vstack([x.toarray() if sp.issparse(x) else x for x, _ in pairs])
    values = np.vstack([y for _, y in pairs])
    if not np.isnan(missing):
        values[values == missing] = np.nan
    n, cut = len(values), len(pairs[0][1])
    return make_bunch(
        data,
        None if features_only else label_targets(values, None, str(path)),
        train_index=np.arange(cut) if len(pairs) > 1 else None,
        test_index=np.arange(cut, n) if len(pairs) > 1 else None,
    )


def _several(names: str | Sequence[str] | None) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names or ())


def _keys(
    found: dict[str, Any], given: str | Sequence[str] | None, argument: str, path: str | Path
) -> tuple[str, ...]:
    if given is not None:
        keys = _several(given)
        absent = [key for key in keys if key not in found]
        if absent or len(keys) not in (1, 2):
            reason = f"there are no variable(s) {absent or keys}; there are {sorted(found)}"
            raise DataFileError(path, reason)
        return keys
    guesses = _guesses(found, argument)
    if len(guesses) != 1:
        what = "several candidates" if guesses else "no variable with a usual name"
        reason = f"{what} for {argument}; there are {sorted(found)}"
        raise DataFileError(path, reason, hint=f"Name it with {argument}=.")
    return guesses[0]


def _guesses(found: dict[str, Any], argument: str) -> list[tuple[str, ...]]:
    """Variables of usual names."""
    lower = {key.lower(): key for key in sorted(found)}
    usual = [names.split("+") for names in _USUAL[argument].split()]
    return [tuple(lower[k] for k in names) for names in usual if all(k in lower for k in names)]


def _oriented(found: dict[str, Any], x_key: str, y_key: str, path: str | Path) -> tuple[Any, Any]:
    """Both with one row a sample; of several orientations that fit the one with fewest turns."""
    for key in (x_key, y_key):
        if isinstance(found[key], str):
            raise DataFileError(path, f"{key!r} is not a matrix of numbers ({found[key]})")
    # By columns, as they came: by rows they would take memory for all rows that a file announces.
    X, Y = (found[key].astype(np.float64, copy=False) for key in (x_key, y_key))
    if sp.issparse(Y):
        rows, columns = Y.shape
        check_memory(path, 9 * rows * columns, f"a matrix of {rows} x {columns} labels")
        Y = Y.toarray()
    for x, y in ((X, Y), (X, Y.T), (X.T, Y), (X.T, Y.T)):
        if x.shape[0] == y.shape[0]:
            return (sp.csr_array(x) if sp.issparse(x) else np.ascontiguousarray(x)), y.copy()
    both = f"{x_key!r} of shape {X.shape} and {y_key!r} of shape {Y.shape}"
    raise DataFileError(path, f"{both} do not agree on the number of samples")


def _read_variables(path: AnyPath, given: Iterable[str]) -> dict[str, Any]:
    """Variables by their names: matrices where they are wanted, else what they are in words."""
    size = check_regular(path)
    Path(path).open("rb").close()  # what may not be read is said here
    memory = int(min(available_memory() / 3, _SPARE + _RATIO * size))
    seconds = _SECONDS + size // _BYTES_A_SECOND
    usual = " ".join(_USUAL.values()).replace("+", " ").split()
    names = json.dumps([sorted(given), usual])
    with (
        tempfile.TemporaryFile() as messages,
        subprocess.Popen(
            [sys.executable, "-P", _SCRIPT, os.fspath(path), str(memory), str(seconds), names],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=messages,
            env=os.environ | _THREADS,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            return _received(process.stdout, path)
        except EOFError:
            code = process.wait()
            messages.seek(0)
            last = messages.read().decode(errors="replace").strip().rpartition("\n")[2]
        finally:
            process.kill()  # unless it has ended by itself
    if last == "version 7.3":
        reason = "a MATLAB file of version 7.3 (HDF5), which is not read here"
        raise DataFileError(path, reason, hint=_NEWER)
    if last == "memory":
        raise DataFileError(path, "it does not fit into memory", hint=MEMORY_HINT)
    if code < 0:
        last = f"reading it ended with {signal.strsignal(-code)}"
    raise damaged_file_error(path, "a MATLAB file", ValueError(last))


def _received(pipe: IO[bytes], path: AnyPath) -> dict[str, Any]:
    line = pipe.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    with translate_errors(path, "a MATLAB file"):
        header = json.loads(line)
        found: dict[str, Any] = dict.fromkeys(header["there"], "not asked for")
        variables = header["variables"].items()
    for name, (what, forms) in variables:
        arrays = []
        for kind, shape in forms:
            numbers, dtype = prod(shape), np.dtype(kind)
            size = (8 + dtype.itemsize) * numbers
            check_memory(path, size, f"a matrix of {numbers} numbers")
            arrays.append(np.empty(shape, dtype))
            read_into(pipe, arrays[-1])
        if what == "sparse":
            try:
                found[name] = sparse_from_parts(*arrays, layout="csc")
            except ValueError as error:
                reason = f"{name!r} is not a valid sparse matrix: {error}"
                raise DataFileError(path, reason) from error
        else:
            found[name] = arrays[0] if what == "dense" else what
    return found
