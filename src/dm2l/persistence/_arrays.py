"""Arrays as members in numpy's own format, read without evaluating anything."""

from __future__ import annotations

import ast
import hashlib
import io
import math
import re
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._utils.sparse_input import sparse_from_parts
from dm2l.persistence._archive import Archive, ModelFileError, brief, new_member

KINDS = "biufcUSmM"
_MAGIC = b"\x93NUMPY\x01\x00"
# All that numpy writes for a plain dtype, and for one of several fields. Its own reader evaluates
# the text as Python, and mends it where it has to.
_DTYPE = rb"'[<>|][a-zA-Z]\d{1,8}(?:\[\d{0,8}\w{1,8}\])?'"  # numpy 1 wraps larger sizes around
_FIELDS = rb"\[\('\w*', %b\)(?:, \('\w*', %b\))*\]" % (_DTYPE, _DTYPE)
_HEADER = re.compile(
    rb"\{'descr': (?:(%b)|(%b)), 'fortran_order': (True|False), " % (_DTYPE, _FIELDS)
    + rb"'shape': \(((?:\d{1,19},(?: \d{1,19}(?:, \d{1,19})*)?)?)\), \} *\n"
)


def write_array(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> dict[str, Any]:
    """Write a member and return what the manifest says of it."""
    with new_member(archive, name, array.nbytes) as sink:
        np.lib.format.write_array(sink, array, version=(1, 0), allow_pickle=False)
    return {
        "sha256": sink.sha256,
        "size": sink.size,
        "dtype": array.dtype.str,
        "shape": list(array.shape),
    }


def read_array(archive: Archive, name: str, record: dict[str, Any]) -> NDArray[Any]:
    """Read a member that must be what the manifest says; an array of its own, writable."""
    dtype, shape, fortran, start = read_header(archive, name)
    if dtype.str != record.get("dtype") or list(shape) != record.get("shape"):
        raise ModelFileError(
            f"the array {name!r} has dtype {dtype.str} and shape {shape}, its manifest says "
            f"{record.get('dtype')} and {record.get('shape')}."
        )
    try:
        array = np.empty(shape, dtype=dtype, order="F" if fortran else "C")
    except (ValueError, OverflowError, MemoryError) as error:
        raise ModelFileError(f"the array {name!r} cannot be made: {error}.") from error
    flat = array.reshape(-1, order="A").view(np.uint8)
    digest = hashlib.sha256(archive.head(name, start))
    place = 0
    for chunk in archive.chunks(name, start):
        digest.update(chunk)
        flat[place : place + len(chunk)] = np.frombuffer(chunk, dtype=np.uint8)
        place += len(chunk)
    check_hash(name, digest.hexdigest(), record)
    return array


def check_hash(name: str, digest: str, record: dict[str, Any]) -> None:
    """Refuse content that is not what was written."""
    if digest != record.get("sha256"):
        raise ModelFileError(f"the content of its member {name!r} was changed: SHA-256 differs.")


def check_sparse(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    shape: Sequence[Any],
    form: str,
) -> None:
    """Refuse places outside a sparse matrix: compiled code goes there without looking."""
    if form not in ("csr", "csc"):
        raise ModelFileError(f"a sparse matrix of it has the format {brief(form)}.")
    try:
        sparse_from_parts(data, indices, indptr, shape, layout="csc" if form == "csc" else "csr")
    except ValueError as error:
        raise ModelFileError(f"it holds a sparse matrix that is not valid: {error}.") from error


def check_sparse_member(content: bytes) -> None:
    """The same for a matrix in a file of scipy's, before scipy reads it."""
    archive = Archive(io.BytesIO(content), len(content))
    found = {name.removesuffix(".npy"): _plain_array(archive, name) for name in archive.spans}
    if not {"format", "shape", "data", "indices", "indptr"} <= found.keys():
        raise ModelFileError("a sparse matrix of it is incomplete.")
    form, shape = found["format"].tolist(), found["shape"].tolist()
    form = form.decode("ascii", "replace") if isinstance(form, bytes) else form
    check_sparse(
        found["data"],
        found["indices"],
        found["indptr"],
        shape if isinstance(shape, list) else [],
        str(form),
    )


def _plain_array(archive: Archive, name: str) -> NDArray[Any]:
    dtype, shape, fortran, start = read_header(archive, name)
    content = b"".join(archive.chunks(name, start))
    return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if fortran else "C")


def read_header(
    archive: Archive, name: str, *, fields: bool = False
) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """Dtype, shape, order and where the numbers begin, of which there must be just enough."""
    head = archive.head(name, len(_MAGIC) + 2)
    start = len(head) + int.from_bytes(head[len(_MAGIC) :], "little")
    text = archive.head(name, start)[len(head) :]
    found = _HEADER.fullmatch(text)
    if not head.startswith(_MAGIC) or found is None or (found[2] and not fields):
        raise ModelFileError(f"its member {name!r} is not a plain array in numpy's format.")
    shape = tuple(int(n) for n in found[4].decode().split(",") if n)
    try:
        if found[1]:
            dtype = np.dtype(found[1].decode("ascii").strip("'"))
        else:  # names and dtypes, as the pattern says, and nothing to be afraid of
            dtype = np.lib.format.descr_to_dtype(ast.literal_eval(found[2].decode("ascii")))
    except (TypeError, ValueError, SyntaxError) as error:
        raise ModelFileError(f"the dtype of its array {name!r} is unknown ({error}).") from error
    kind = "V" if fields and dtype.names else ""
    if dtype.kind not in KINDS + kind or dtype.hasobject or dtype.itemsize < 1:
        raise ModelFileError(f"its array {name!r} has dtype {dtype}, which is not allowed.")
    size = archive.spans[name].size - start
    if dtype.itemsize * math.prod(shape) != size:
        raise ModelFileError(
            f"the array {name!r} of dtype {dtype} and shape {shape} does not have {size} bytes."
        )
    return dtype, shape, found[3] == b"True", start
