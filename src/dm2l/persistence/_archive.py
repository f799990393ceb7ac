"""Read and write the uncompressed zip archives in which models are stored.

Members are arrays in numpy's format, and texts. As members are uncompressed and their sizes are
checked first, reading a file never takes more memory than its size.
"""

import hashlib
import math
import os
import re
import reprlib
import stat
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dm2l._utils.files import FAULTS, atomic_write

MAX_BYTES = 4 * 2**30
MAX_MEMBERS = 100_000
_MAX_DIRECTORY = MAX_MEMBERS * 128
# Errors that zipfile raises for damaged files; offsets outside the file raise OSError.
_DAMAGED: tuple[type[Exception], ...] = (*FAULTS, OSError)
_CHUNK = 2**20  # bytes, more than the longest header of an array
_LARGE = 2**30  # bytes; the sizes of larger members are stored as 64-bit fields

KINDS = "biufcUSmM"
_MAGIC = b"\x93NUMPY\x01\x00"
# The headers that numpy writes for plain dtypes. numpy would parse them as Python literals.
_DTYPE = rb"[<>|][a-zA-Z]\d{1,8}(?:\[\d{0,8}\w{1,8}\])?"  # larger sizes overflow in numpy 1
_HEADER = re.compile(
    rb"\{'descr': '(%b)', 'fortran_order': (True|False), " % _DTYPE
    + rb"'shape': \(((?:\d{1,19},(?: \d{1,19}(?:, \d{1,19})*)?)?)\), \} *\n"
)

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")
_PART = r"[A-Za-z0-9_-][A-Za-z0-9_.-]*"
_NAME = re.compile(rf"{_PART}(/{_PART})*")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200
brief = _SHORT.repr  # a shortened value from a file, for error messages


class ModelFileError(ValueError):
    """Error for a file that is damaged, is not a model file, or has content that is not allowed.

    ``load_model`` raises this error before any code from the file could run.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l.persistence import ModelFileError, load_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "notes.txt")
    ...     _ = path.write_text("This text file is not the file of a model.")
    ...     try:
    ...         load_model(path)
    ...     except ModelFileError as error:
    ...         print(str(error).removeprefix(folder))
    /notes.txt cannot be loaded: the file is not a zip file, or it is incomplete. Use another ...
    """


class Archive:
    """A zip file that contains only regular uncompressed members."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        n_members = _count_members(file, size)
        try:
            self._zip = zipfile.ZipFile(file)
        except _DAMAGED as error:
            raise ModelFileError(f"the zip directory is damaged ({error}).") from error
        infos = self._zip.infolist()
        if len(infos) != n_members:
            raise ModelFileError(
                f"the zip directory should have {n_members} members, but lists {len(infos)}."
            )
        self.sizes: dict[str, int] = {}
        for info in infos:
            _check_info(info)
            if info.filename in self.sizes:
                raise ModelFileError(f"the file has two members with the name {info.filename!r}.")
            self.sizes[info.filename] = info.file_size
        if sum(self.sizes.values()) > size:
            raise ModelFileError("the members are together larger than the file.")

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a member in pieces."""
        try:
            with self._zip.open(name) as member:
                while chunk := member.read(_CHUNK):
                    yield chunk
        except _DAMAGED as error:
            raise ModelFileError(f"the member {name!r} is damaged ({error}).") from error

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a member, which may have at most ``most`` bytes."""
        if name not in self.sizes:
            raise ModelFileError(f"the file has no member {name!r}.")
        if (size := self.sizes[name]) > most:
            raise ModelFileError(f"the member {name!r} has {size} bytes, more than {most}.")
        return b"".join(self.chunks(name))

    def read_array(self, name: str, sha256: Any) -> NDArray[Any]:
        """Return the array in a member as a new writable array, after checking its hash."""
        chunks = self.chunks(name)
        content = next(chunks, b"")
        digest = hashlib.sha256(content)
        dtype, shape, fortran, start = _read_header(name, content, self.sizes[name])
        try:
            array = np.empty(shape, dtype=dtype, order="F" if fortran else "C")
        except (ValueError, OverflowError, MemoryError) as error:
            raise ModelFileError(f"the array {name!r} cannot be allocated ({error}).") from error
        flat = array.reshape(-1, order="A").view(np.uint8)
        content, place = content[start:], 0
        while content:
            flat[place : place + len(content)] = np.frombuffer(content, dtype=np.uint8)
            place += len(content)
            content = next(chunks, b"")
            digest.update(content)
        if digest.hexdigest() != sha256:
            raise ModelFileError(f"the member {name!r} was changed. Restore the original file.")
        return array


def _count_members(file: IO[bytes], size: int) -> int:
    """Return the number of members, after checking the size and position of the zip directory."""

    def unpack(form: struct.Struct, place: int) -> tuple[Any, ...]:
        file.seek(max(place, 0))
        content = file.read(form.size)
        return form.unpack(content) if len(content) == form.size else (b"",) + (0,) * 10

    after = size - _END.size
    end = unpack(_END, after)
    if end[0] != b"PK\5\6" or end[7]:
        raise ModelFileError("the file is not a zip file, or it is incomplete.")
    n_members, length, start = end[4:7]
    locator = unpack(_LOCATOR64, after - _LOCATOR64.size)
    if locator[0] == b"PK\6\7":
        after -= _LOCATOR64.size + _END64.size
        end64 = unpack(_END64, after)
        if end64[0] != b"PK\6\6" or locator[2] != after:
            raise ModelFileError("the end of its zip directory is damaged.")
        n_members, length, start = end64[7:]
    if n_members > MAX_MEMBERS or length > _MAX_DIRECTORY:
        raise ModelFileError(
            f"the zip directory has {n_members} members and {length} bytes; at most {MAX_MEMBERS} "
            f"members and {_MAX_DIRECTORY} bytes are allowed."
        )
    if start + length != after:
        raise ModelFileError("the zip directory is not at the position given in the file.")
    return n_members


def _check_info(info: zipfile.ZipInfo) -> None:
    """Raise an error if a member has a name or type that does not occur in model files."""
    name = info.orig_filename  # ``filename`` would end at a zero byte
    packed = info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size
    for wrong, reason in (
        (not _NAME.fullmatch(name) or ".." in name, "has a name that is not allowed"),
        (stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG), "is not a regular file"),
        (packed, "is compressed"),
        (info.flag_bits, "is encrypted or has unknown flags"),
    ):
        if wrong:
            raise ModelFileError(f"the member {name!r} {reason}.")


def _read_header(
    name: str, content: bytes, size: int
) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """Return an array's dtype and shape, whether it is in Fortran order, and where data begin."""
    numbers = len(_MAGIC) + 2
    start = numbers + int.from_bytes(content[len(_MAGIC) : numbers], "little")
    found = _HEADER.fullmatch(content[numbers:start])
    if not content.startswith(_MAGIC) or found is None:
        raise ModelFileError(f"the member {name!r} is not an array in numpy's format.")
    shape = tuple(int(n) for n in found[3].decode().split(",") if n)
    try:
        dtype = np.dtype(found[1].decode("ascii"))
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"the array {name!r} has an unknown dtype ({error}).") from error
    if dtype.kind not in KINDS or dtype.hasobject or dtype.itemsize < 1:
        raise ModelFileError(f"the array {name!r} has dtype {dtype}, which is not allowed.")
    if dtype.itemsize * math.prod(shape) != size - start:
        raise ModelFileError(
            f"the array {name!r} has {size - start} bytes, which do not match its dtype {dtype} "
            f"and shape {shape}."
        )
    return dtype, shape, found[2] == b"True", start


def new_member(name: str) -> zipfile.ZipInfo:
    """Return a header with a fixed time and system, so that equal models give equal files."""
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.create_system = 3
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    return info


def write_array(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> str:
    """Write an array as a member and return the SHA-256 hash of its bytes."""
    digest = hashlib.sha256()
    with archive.open(new_member(name), "w", force_zip64=array.nbytes > _LARGE) as file:

        def write(part: bytes) -> None:
            digest.update(part)
            file.write(part)

        sink: Any = SimpleNamespace(write=write)
        np.lib.format.write_array(sink, array, version=(1, 0), allow_pickle=False)
    return digest.hexdigest()


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file that replaces ``path`` after it is completely on the disk."""
    with atomic_write(path) as partial, partial.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    if os.name == "posix":  # only POSIX systems can open and sync a folder
        folder = os.open(partial.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
