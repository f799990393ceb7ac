"""Read and write npz archives; headers are checked before memory is allocated for arrays."""

import os
import struct
import zipfile
from collections.abc import Collection, Iterator
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
    AnyPath,
    DataFileError,
    atomic_write,
    check_memory,
    check_regular,
    check_width,
    read_into,
    translate_errors,
)
from dm2l.io._columns import check_distinct, label_targets, make_bunch

_RATIO = 1100  # bytes per packed byte; zlib reaches 1032

_SPARSE = ("X_data", "X_indices", "X_indptr", "X_shape")
_BESIDE = ("label_names", "feature_names", "train_index", "test_index", "source")


def read_npz(path: str | Path, *, features_only: bool = False) -> Bunch:
    """Read a data set from an npz archive.

    The archive holds ``X`` (dense) or ``X_data, X_indices, X_indptr, X_shape`` (CSR), ``Y``, and
    optionally ``label_names``, ``feature_names``, ``train_index``, ``test_index`` and ``source``.
    :func:`write_npz` has an example.

    Parameters
    ----------
    path : str or Path
        The archive. Pickled objects, and arrays that do not fit into memory, are refused.
    features_only : bool, default=False
        If True, labels are ignored, and ``target`` has no columns.

    Returns
    -------
    Bunch
        The keys of :func:`read_csv`; ``data`` may be CSR.
    """
    found = read_members(path, (*_SPARSE, "X", "Y", *_BESIDE))
    data = _features(found, path)
    n, d = data.shape
    target: NDArray[Any] | None = None
    names: list[str] | None = []
    check_width(path, d)
    if not features_only:
        if "Y" not in found:
            raise DataFileError(path, f"it has no array Y; it has {sorted(found)}")
        target = label_targets(_numbers(found["Y"], "Y", path), None, str(path))
        names = _names(found, "label_names", target.shape[1], path)
        if len(target) != n:
            raise DataFileError(path, f"X has {n} rows, but Y has {len(target)}")
        check_distinct(names or [], str(path), "labels")
    for part in ("train_index", "test_index"):
        rows = found.get(part, np.empty(0, int))
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or not ((rows >= 0) & (rows < n)).all():
            raise DataFileError(path, f"{part} must hold row numbers from 0 to {n - 1}")
    source = found.get("source")
    return make_bunch(
        data,
        target,
        target_names=names,
        feature_names=_names(found, "feature_names", d, path),
        train_index=found.get("train_index"),
        test_index=found.get("test_index"),
        source=None if source is None else str(source),
    )


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
    path, parts = Path(path), {}
    if sp.issparse(bunch.data):
        X = sp.csr_array(bunch.data)
        parts = {"X_data": X.data, "X_indices": X.indices, "X_indptr": X.indptr}
        parts["X_shape"] = np.array(X.shape)
    else:
        parts["X"] = np.asarray(bunch.data)
    parts["Y"] = np.asarray(bunch.target)
    for part in _BESIDE:
        key = "target_names" if part == "label_names" else part
        if bunch.get(key) is not None:
            parts[part] = np.asarray(bunch[key])
    with atomic_write(path) as partial, partial.open("xb") as file:
        np.savez_compressed(file, **parts)


def _features(found: dict[str, NDArray[Any]], path: str | Path) -> Any:
    """Return X, dense or sparse, as float64."""
    if "X" in found:
        return _numbers(found["X"], "X", path)
    if not all(part in found for part in _SPARSE):
        reason = f"it has neither X nor all of {', '.join(_SPARSE)}; it has {sorted(found)}"
        raise DataFileError(path, reason)
    try:
        matrix = sparse_from_parts(*(found[part] for part in _SPARSE))
    except ValueError as error:
        reason = f"X_data, X_indices, ... are not a valid CSR matrix: {error}"
        raise DataFileError(path, reason) from error
    return matrix.astype(np.float64, copy=False)


def _numbers(values: NDArray[Any], part: str, path: str | Path) -> NDArray[np.float64]:
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        what = f"of type {values.dtype} with {values.ndim} dimensions"
        raise DataFileError(path, f"{part} is {what}, not a matrix of real numbers")
    return values.astype(np.float64, copy=False)


def _names(
    found: dict[str, NDArray[Any]], part: str, size: int, path: str | Path
) -> list[str] | None:
    names = found.get(part)
    if names is None:
        return None
    if names.shape != (size,):
        raise DataFileError(path, f"{part} is of shape {names.shape} for {size} columns")
    return [str(name) for name in names]


def read_members(path: AnyPath, wanted: Collection[str]) -> dict[str, NDArray[Any]]:
    """Return the wanted arrays that the archive has, by name."""
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
            reason = f"it has no array {name!r}; it has {', '.join(members)}"
            raise DataFileError(path, reason)
        info = members[name]
        if info.compress_type != zipfile.ZIP_STORED:
            reason = "the archive is compressed and cannot be mapped into memory"
            raise DataFileError(path, reason, hint="Write it with numpy.savez.")
        with archive.open(info) as member:
            shape, fortran, dtype = _header(member, info, path)
            begin = member.tell()
        if dtype.kind not in "biuf":
            raise DataFileError(path, f"{name!r} is of type {dtype}, not an array of numbers")
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
    """Open an archive and list its arrays by name."""
    check_regular(path)
    with translate_errors(path, "an npz archive"), zipfile.ZipFile(path) as archive:
        named = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        yield archive, {info.filename.removesuffix(".npy"): info for info in named}


def _header(
    member: IO[bytes], info: zipfile.ZipInfo, path: AnyPath
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return an array's shape, order and type, after checking them against its size."""
    version = npy.read_magic(member)
    if version not in ((1, 0), (2, 0)):
        raise DataFileError(path, f"{info.filename} is an array of version {version}")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(member)
    if dtype.hasobject:
        raise DataFileError(path, f"{info.filename} holds Python objects, which are not supported")
    end = member.tell() + prod(shape) * dtype.itemsize
    packed = end > _RATIO * (info.compress_size + 1)
    if min(shape, default=0) < 0 or end != info.file_size or packed:
        raise DataFileError(path, f"the header of {info.filename} does not match its content")
    return shape, fortran, dtype
