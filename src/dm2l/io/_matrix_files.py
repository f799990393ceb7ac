"""Read features and labels from MATLAB files and npz archives, whose content is not trusted.

Damaged MATLAB files can crash scipy's compiled reader (``fuzz/matlab.py``). The reader therefore
runs in a child process, which sends the numbers through a pipe as plain bytes. The headers of npz
archives are checked before memory is allocated. The arrays of sparse matrices are checked, too.
"""

import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy
from numpy.typing import NDArray
from sklearn.utils import Bunch

from dm2l._utils.arrays import sparse_from_parts
from dm2l._utils.files import (
    MEMORY_HINT,
    AnyPath,
    DataFileError,
    atomic_write,
    available_memory,
    check_memory,
    check_regular,
    check_width,
    damaged_file_error,
    read_into,
    translate_errors,
)
from dm2l.io._columns import check_distinct, label_targets, make_bunch

_SCRIPT = Path(__file__).with_name("_mat_child.py")
# The child process limits its address space, and each thread of a BLAS library takes a part of it.
_THREADS = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# Memory limit of the child process: twice the largest expansion by zlib, plus a fixed amount.
_RATIO, _SPARE = 2200, 2**28
_SECONDS, _BYTES_A_SECOND = 10, 1_000_000
# Usual names of variables in lower case; "+" joins a training and a test part.
_USUAL = {
    "X": "x data features train_data+test_data x_train+x_test xtrain+xtest",
    "Y": "y target targets labels label train_target+test_target y_train+y_test ytrain+ytest",
}
_EXPANSION = 1100  # unpacked bytes per packed byte of an npz archive; zlib reaches 1032
_SPARSE = ("X_data", "X_indices", "X_indptr", "X_shape")
_BESIDE = ("label_names", "feature_names", "train_index", "test_index", "source")


def read_mat(
    path: str | Path,
    X: str | Sequence[str] | None = None,
    Y: str | Sequence[str] | None = None,
    *,
    missing: float = np.nan,
    features_only: bool = False,
) -> Bunch:
    """Read features and labels from a MATLAB file of version 4 to 7.

    A label matrix with one row per label, as in the Yahoo files, is transposed. A feature matrix is
    transposed if only its transpose has as many rows as the labels.

    Parameters
    ----------
    path : str or Path
        The MATLAB file. Version 7.3 (HDF5) is not supported.
    X, Y : str or pair of str, default=None
        Variables with the features and the labels (0/1 or -1/+1, dense or sparse). For a pair
        of names, the training and test matrices are stacked. If None, usual variable names are
        tried: ``X``, ``data``, ``features``, or ``train_data`` with ``test_data``; ``Y``,
        ``target``, ``labels``, or ``train_target`` with ``test_target``, in upper or lower case.
    missing : float, default=nan
        The value that marks missing labels, such as ``0`` in files with -1, 0 and +1.
    features_only : bool, default=False
        If True, labels are ignored, and ``target`` has no columns. The shape of the label matrix
        still determines whether the feature matrix is transposed.

    Returns
    -------
    Bunch
        The same keys as in :func:`read_csv`; names are None, and ``data`` may be CSR. For a stacked
        pair, ``train_index`` and ``test_index`` are set.

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
        y_keys = x_keys  # without labels, features are not transposed
    else:
        y_keys = _keys(found, Y, "Y", path)
    if len(x_keys) != len(y_keys):
        reason = f"X={x_keys} and Y={y_keys} must name the same number of variables"
        raise DataFileError(path, reason)
    pairs = [_oriented(found, x, y, path) for x, y in zip(x_keys, y_keys, strict=True)]
    if len({(x.shape[1], y.shape[1]) for x, y in pairs}) > 1:
        shapes = [(x.shape, y.shape) for x, y in pairs]
        reason = f"matrices in {x_keys} or {y_keys} differ in their numbers of columns: {shapes}"
        raise DataFileError(path, reason)
    if sp.issparse(pairs[0][0]):
        data = sp.csr_array(sp.vstack([x for x, _ in pairs], format="csr"))
        data.sum_duplicates()
    else:
        data = np.vstack([x.toarray() if sp.issparse(x) else x for x, _ in pairs])
    values = np.vstack([y for _, y in pairs])
    if not np.isnan(missing):
        values[values == missing] = np.nan
    n, cut = len(values), len(pairs[0][1])
    parts = {"train_index": np.arange(cut), "test_index": np.arange(cut, n)}
    target = None if features_only else label_targets(values, None, str(path))
    return make_bunch(data, target, **(parts if len(pairs) > 1 else {}))


def _several(names: str | Sequence[str] | None) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names or ())


def _keys(
    found: dict[str, Any], given: str | Sequence[str] | None, argument: str, path: str | Path
) -> tuple[str, ...]:
    if given is not None:
        keys = _several(given)
        absent = [key for key in keys if key not in found]
        if absent or len(keys) not in (1, 2):
            reason = f"the file has no variables {absent}, but has {sorted(found)}"
            short = f"{argument} must name one or two variables, got {keys}"
            raise DataFileError(path, reason if absent else short)
        return keys
    guesses = _guesses(found, argument)
    if len(guesses) != 1:
        what = "several variables" if guesses else "no variable"
        reason = f"the file has {what} with a usual name for {argument}: it has {sorted(found)}"
        raise DataFileError(path, reason, hint=f"Pass the name of the variable as {argument}=.")
    return guesses[0]


def _guesses(found: dict[str, Any], argument: str) -> list[tuple[str, ...]]:
    """Return the variables, and pairs of variables, that have usual names for X or Y."""
    lower = {key.lower(): key for key in sorted(found)}
    usual = [names.split("+") for names in _USUAL[argument].split()]
    return [tuple(lower[k] for k in names) for names in usual if all(k in lower for k in names)]


def _oriented(found: dict[str, Any], x_key: str, y_key: str, path: str | Path) -> tuple[Any, Any]:
    """Return features and labels with one row per sample; transpose a matrix only if necessary."""
    for key in (x_key, y_key):
        if isinstance(found[key], str):
            raise DataFileError(path, f"{key!r} must be a matrix of numbers, got {found[key]}")
    # Sparse matrices stay in CSC format: in CSR format, every declared row would take memory.
    X, Y = (found[key].astype(np.float64, copy=False) for key in (x_key, y_key))
    if sp.issparse(Y):
        rows, columns = Y.shape
        check_memory(path, 9 * rows * columns, f"a matrix of {rows} x {columns} labels")
        Y = Y.toarray()
    for x, y in ((X, Y), (X, Y.T), (X.T, Y), (X.T, Y.T)):
        if x.shape[0] == y.shape[0]:
            return (sp.csr_array(x) if sp.issparse(x) else np.ascontiguousarray(x)), y.copy()
    both = f"{x_key!r} of shape {X.shape} and {y_key!r} of shape {Y.shape}"
    raise DataFileError(path, f"{both} differ in sample counts. Name other variables as X= or Y=")


def _read_variables(path: AnyPath, given: Iterable[str]) -> dict[str, Any]:
    """Map the names of wanted variables to matrices, and other names to short descriptions."""
    size = check_regular(path)
    Path(path).open("rb").close()  # raises an OSError if the file is not readable
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
            process.kill()  # no effect if it has ended
    if last == "version 7.3":
        reason = "MATLAB files of version 7.3 (HDF5) are not supported"
        raise DataFileError(path, reason, hint="In MATLAB, save the file with save(..., '-v7').")
    if last == "memory":
        raise DataFileError(path, "the file does not fit into memory", hint=MEMORY_HINT)
    if code < 0:
        last = f"the process that read the file ended with: {signal.strsignal(-code)}"
    raise damaged_file_error(path, "a MATLAB file", ValueError(last))


def _received(pipe: IO[bytes], path: AnyPath) -> dict[str, Any]:
    """Read the variables that the child process sends, and check their types and sizes."""
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


def read_npz(path: str | Path, *, features_only: bool = False) -> Bunch:
    """Read a data set from an npz archive.

    The archive holds ``X`` (dense) or ``X_data, X_indices, X_indptr, X_shape`` (CSR), ``Y``, and
    optionally ``label_names``, ``feature_names``, ``train_index``, ``test_index`` and ``source``.
    :func:`write_npz` has an example.

    Parameters
    ----------
    path : str or Path
        The archive. Pickled objects, and arrays that do not fit into memory, are rejected.
    features_only : bool, default=False
        If True, labels are ignored, and ``target`` has no columns.

    Returns
    -------
    Bunch
        The same keys as in :func:`read_csv`; ``data`` may be CSR.
    """
    found = read_members(path, (*_SPARSE, "X", "Y", *_BESIDE))
    data = _features(found, path)
    n, d = data.shape
    target: NDArray[Any] | None = None
    names: list[str] | None = []
    check_width(path, d)
    if not features_only:
        if "Y" not in found:
            hint = "Save the labels with numpy.savez(..., Y=labels)."
            raise DataFileError(path, f"there is no array Y among {sorted(found)}", hint=hint)
        target = label_targets(_numbers(found["Y"], "Y", path), None, str(path))
        names = _names(found, "label_names", target.shape[1], path)
        if len(target) != n:
            raise DataFileError(path, f"X has {n} rows, but Y has {len(target)}")
        check_distinct(names or [], str(path), "labels")
    known: dict[str, Any] = {k: found[k] for k in ("train_index", "test_index") if k in found}
    for part, rows in known.items():
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or not ((rows >= 0) & (rows < n)).all():
            raise DataFileError(path, f"{part} must hold row numbers from 0 to {n - 1}")
    known["feature_names"] = _names(found, "feature_names", d, path)
    known["source"] = str(found["source"]) if "source" in found else None
    return make_bunch(data, target, target_names=names, **known)


def write_npz(path: str | Path, bunch: Bunch) -> None:
    """Write a data set as an npz archive; an interrupted write leaves no incomplete file.

    Parameters
    ----------
    path : str or Path
        The file to write, such as ``NAME.npz`` in the folder of the data sets (``DM2L_DATA``).
    bunch : Bunch
        The data set, as returned by a reader.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l.datasets import load_digit_attributes
    >>> from dm2l.io import read_npz, write_npz
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_npz(Path(folder, "digits.npz"), load_digit_attributes())
    ...     again = read_npz(Path(folder, "digits.npz"))
    >>> again.data.shape
    (1797, 64)
    """
    parts = {"Y": bunch.target, "label_names": bunch.get("target_names")}
    parts |= {part: bunch.get(part) for part in _BESIDE[1:]}
    if sp.issparse(bunch.data):
        X = sp.csr_array(bunch.data)
        parts |= zip(_SPARSE, (X.data, X.indices, X.indptr, X.shape), strict=True)
    else:
        parts["X"] = bunch.data
    known: dict[str, Any] = {k: np.asarray(v) for k, v in parts.items() if v is not None}
    with atomic_write(Path(path)) as partial, partial.open("xb") as file:
        np.savez_compressed(file, **known)


def _features(found: dict[str, NDArray[Any]], path: str | Path) -> Any:
    """Return the features ``X`` as float64, dense or sparse."""
    if "X" in found:
        return _numbers(found["X"], "X", path)
    if not found.keys() >= set(_SPARSE):
        reason = f"the file must have the array X or {', '.join(_SPARSE)}, but has {sorted(found)}"
        raise DataFileError(path, reason)
    try:
        matrix = sparse_from_parts(*(found[part] for part in _SPARSE))
    except ValueError as error:
        reason = f"X_data, X_indices, ... do not form a valid CSR matrix: {error}"
        raise DataFileError(path, reason) from error
    return matrix.astype(np.float64, copy=False)


def _numbers(values: NDArray[Any], part: str, path: str | Path) -> NDArray[np.float64]:
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        what = f"of type {values.dtype} with {values.ndim} dimensions"
        raise DataFileError(path, f"{part} must be a matrix of real numbers, but is {what}")
    return values.astype(np.float64, copy=False)


def _names(found: dict[str, Any], part: str, size: int, path: AnyPath) -> list[str] | None:
    names = found.get(part)
    if names is not None and names.shape != (size,):
        raise DataFileError(path, f"{part} must have the shape ({size},), got {names.shape}")
    return None if names is None else [str(name) for name in names]


def read_members(path: AnyPath, wanted: Collection[str]) -> dict[str, NDArray[Any]]:
    """Return a mapping from array names to the wanted arrays that an archive contains."""
    found, needed = {}, 0
    with _opened(path) as (archive, members), ExitStack() as stack:
        chosen = {}
        for name in (name for name in members if name in wanted):
            member = stack.enter_context(archive.open(members[name]))
            shape, fortran, dtype = _header(member, members[name], path)
            copy = 8 if dtype.kind in "biuf" and dtype != np.float64 else 0
            needed += prod(shape) * (dtype.itemsize + copy)
            chosen[name] = member, shape, fortran, dtype
        check_memory(path, needed, "the content of the archive")
        for name, (member, shape, fortran, dtype) in chosen.items():
            array = np.empty(prod(shape), dtype)
            read_into(member, array)
            found[name] = array.reshape(shape, order="F" if fortran else "C")
    return found


def map_member(path: AnyPath, name: str) -> Any:
    """Map a numeric array of an uncompressed archive into memory."""
    with _opened(path) as (archive, members):
        if name not in members:
            reason = f"the file has no array {name!r}, but has {', '.join(members)}"
            raise DataFileError(path, reason, hint=f"Add the array: numpy.savez(..., {name}=...).")
        info = members[name]
        if info.compress_type != zipfile.ZIP_STORED:
            reason = "the archive is compressed and cannot be mapped into memory"
            raise DataFileError(path, reason, hint="Save the arrays with numpy.savez.")
        with archive.open(info) as member:
            shape, fortran, dtype = _header(member, info, path)
            begin = member.tell()
        if dtype.kind not in "biuf":
            raise DataFileError(path, f"{name!r} must be an array of numbers, got type {dtype}")
        with Path(path).open("rb") as file:
            # The lengths of the name and extra field may differ from those in the directory.
            file.seek(info.header_offset + 26)
            begin += info.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
        order: Any = "F" if fortran else "C"
        return np.memmap(path, dtype=dtype, mode="r", offset=begin, shape=shape, order=order)


def map_array(path: AnyPath) -> Any:
    """Map the array of an npy file into memory."""
    check_regular(path)
    with translate_errors(path, "an npy file"):
        return npy.open_memmap(os.fspath(path), mode="r")


@contextmanager
def _opened(path: AnyPath) -> Iterator[tuple[Any, dict[str, zipfile.ZipInfo]]]:
    """Open an npz archive; yield it, and a mapping from array names to zip entries."""
    check_regular(path)
    with translate_errors(path, "an npz archive"), zipfile.ZipFile(path) as archive:
        named = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        yield archive, {info.filename.removesuffix(".npy"): info for info in named}


def _header(
    member: IO[bytes], info: zipfile.ZipInfo, path: AnyPath
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape, memory order and dtype of an archived array; check that its size fits."""
    version = npy.read_magic(member)
    if version not in ((1, 0), (2, 0)):
        raise DataFileError(path, f"{info.filename} has the unknown format version {version}")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(member)
    if dtype.hasobject:
        raise DataFileError(path, f"{info.filename} has Python objects. Save numbers or text only")
    end = member.tell() + prod(shape) * dtype.itemsize
    packed = end > _EXPANSION * (info.compress_size + 1)
    if min(shape, default=0) < 0 or end != info.file_size or packed:
        raise DataFileError(path, f"the header of {info.filename} does not match its content")
    return shape, fortran, dtype
