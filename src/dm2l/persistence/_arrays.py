"""Arrays as members in numpy's own format, read without evaluating anything."""

from __future__ import annotations

import hashlib
import math
import re
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l.persistence._archive import Archive, ModelFileError, new_member

KINDS = "biufcUSmM"
_MAGIC = b"\x93NUMPY\x01\x00"
# All that numpy writes for a plain dtype. Its own reader evaluates the text as Python.
_DTYPE = rb"[<>|][a-zA-Z]\d{1,8}(?:\[\d{0,8}\w{1,8}\])?"  # numpy 1 wraps larger sizes around
_HEADER = re.compile(
    rb"\{'descr': '(%b)', 'fortran_order': (True|False), " % _DTYPE
    + rb"'shape': \(((?:\d{1,19},(?: \d{1,19}(?:, \d{1,19})*)?)?)\), \} *\n"
)


def write_array(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> dict[str, Any]:
    """Write a member and return its record in the manifest."""
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
    dtype, shape, fortran, start = _read_header(archive, name)
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
    if digest.hexdigest() != record.get("sha256"):
        raise ModelFileError(f"the content of its member {name!r} was changed: SHA-256 differs.")
    return array


def _read_header(archive: Archive, name: str) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """Dtype, shape, order and where the numbers begin, of which there must be just enough."""
    head = archive.head(name, len(_MAGIC) + 2)
    start = len(head) + int.from_bytes(head[len(_MAGIC) :], "little")
    found = _HEADER.fullmatch(archive.head(name, start)[len(head) :])
    if not head.startswith(_MAGIC) or found is None:
        raise ModelFileError(f"its member {name!r} is not a plain array in numpy's format.")
    shape = tuple(int(n) for n in found[3].decode().split(",") if n)
    try:
        dtype = np.dtype(found[1].decode("ascii"))
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"the dtype of its array {name!r} is unknown ({error}).") from error
    if dtype.kind not in KINDS or dtype.hasobject or dtype.itemsize < 1:
        raise ModelFileError(f"its array {name!r} has dtype {dtype}, which is not allowed.")
    size = archive.spans[name].size - start
    if dtype.itemsize * math.prod(shape) != size:
        raise ModelFileError(
            f"the array {name!r} of dtype {dtype} and shape {shape} does not have {size} bytes."
        )
    return dtype, shape, found[2] == b"True", start
