"""Arrays of npz archives, made only after a look at what their headers announce."""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dm2l.files import DataFileError, check_regular, reading
from dm2l.memory import check_room
from dm2l.readers.unpacking import fill

__all__ = ["map_array", "map_member", "read_members"]

_WHAT = "an npz archive"
_RATIO = 1100  # bytes that a packed byte can become, and some: the limit of zlib is 1032


def read_members(path: str | os.PathLike[str], wanted: Collection[str]) -> dict[str, NDArray[Any]]:
    """Those of the wanted arrays that are there, by their names."""
    found, needed = {}, 0
    with _opened(path) as (archive, members), ExitStack() as stack:
        chosen = {}
        for name, info in members.items():
            if name in wanted:
                with reading(path, _WHAT):
                    member = stack.enter_context(archive.open(info))
                shape, fortran, dtype = _header(member, info, path)
                copy = 8 if dtype.kind in "biuf" and dtype != np.float64 else 0
                needed += prod(shape) * (dtype.itemsize + copy)
                chosen[name] = member, shape, fortran, dtype
        check_room(path, needed, "what is packed in it")
        for name, (member, shape, fortran, dtype) in chosen.items():
            array = np.empty(prod(shape), dtype)
            with reading(path, _WHAT):
                fill(member, array)
            found[name] = array.reshape(shape, order="F" if fortran else "C")
    return found


def map_member(path: str | os.PathLike[str], name: str) -> Any:
    """An array of numbers in an archive that is not compressed, mapped into memory."""
    with _opened(path) as (archive, members):
        if name not in members:
            raise ValueError(f"{path} has no array {name!r}; it has {', '.join(members)}.")
        info = members[name]
        if info.compress_type != zipfile.ZIP_STORED:
            raise DataFileError(
                path,
                "the archive is compressed and cannot be mapped into memory",
                way_out="Write it with numpy.savez.",
            )
        with reading(path, _WHAT), archive.open(info) as member:
            shape, fortran, dtype = _header(member, info, path)
            begin = member.tell()
    if dtype.kind not in "biuf":
        raise DataFileError(path, f"{name!r} is of type {dtype}, not an array of numbers")
    with reading(path, _WHAT):
        with Path(path).open("rb") as file:
            # The name and the extra field of the local header may differ from the directory's.
            file.seek(info.header_offset + 26)
            begin += info.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
        order: Any = "F" if fortran else "C"
        return np.memmap(path, dtype=dtype, mode="r", offset=begin, shape=shape, order=order)


def map_array(path: str | os.PathLike[str]) -> Any:
    """The array of an npy file, mapped into memory."""
    check_regular(path)
    with reading(path, "an npy file"):
        return npy.open_memmap(os.fspath(path), mode="r")


@contextmanager
def _opened(
    path: str | os.PathLike[str],
) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    check_regular(path)
    with reading(path, _WHAT):
        archive = zipfile.ZipFile(path)
    with archive:
        infos = archive.infolist()
        named = [info for info in infos if info.filename.endswith(".npy")]
        yield archive, {info.filename.removesuffix(".npy"): info for info in named}


def _header(
    member: IO[bytes], info: zipfile.ZipInfo, path: str | os.PathLike[str]
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an array that is all there, and nothing after it."""
    with reading(path, _WHAT):
        version = npy.read_magic(member)
        if version not in ((1, 0), (2, 0)):
            raise DataFileError(path, f"{info.filename} is an array of version {version}")
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(member)
        end = member.tell() + prod(shape) * dtype.itemsize
    if dtype.hasobject:
        raise DataFileError(path, f"{info.filename} holds Python objects, which are not read")
    if (
        min(shape, default=0) < 0
        or end != info.file_size
        or end > _RATIO * (info.compress_size + 1)
    ):
        raise DataFileError(path, f"{info.filename} announces other numbers than are in it")
    return shape, fortran, dtype
