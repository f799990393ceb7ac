"""The container: an uncompressed zip file of which nothing is believed before it is checked."""

from __future__ import annotations

import hashlib
import os
import re
import reprlib
import stat
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from dm2l._utils.files import FAULTS, atomic_write

MAX_BYTES = 4 * 2**30
MAX_MEMBERS = 100_000
_MAX_DIRECTORY = MAX_MEMBERS * 256
_CHUNK = 2**20
_LARGE = 2**30  # bytes from which on a member gets fields of 64 bits

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")
_LOCAL = struct.Struct("<4s5H3L2H")
_PART = r"[A-Za-z0-9_-][A-Za-z0-9_.-]*"
_NAME = re.compile(rf"{_PART}(/{_PART})*")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200


class ModelFileError(ValueError):
    """A file is no model file, is damaged, or asks for what is not allowed.

    Raised by ``load_model``, with what is wrong. Nothing of the file was run.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l.persistence import ModelFileError, load_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "notes.txt")
    ...     _ = path.write_text("This is not a model, however long one looks at it.")
    ...     try:
    ...         load_model(path)
    ...     except ModelFileError as error:
    ...         print(str(error).removeprefix(folder))
    /notes.txt cannot be loaded: it is not a zip file, or was cut short.
    """


def brief(value: Any) -> str:
    """What a file says, for a message, however much of it there is."""
    return _SHORT.repr(value)


# -------------------------------------------------------------------------------------- reading


class Span(NamedTuple):
    """Where the content of a member lies in the file."""

    start: int
    size: int


class Archive:
    """Members of a zip file that has nothing but plain uncompressed members, one after another.

    Since nothing is compressed and no two members share a byte, what can be read out of it is
    never more than the file itself.
    """

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        n_members, directory = self._end(size)
        try:
            # For the directory alone, which is short; members are read without its help.
            with zipfile.ZipFile(file) as opened:
                infos = opened.infolist()
        except FAULTS as error:
            raise ModelFileError(f"its zip directory is damaged ({error}).") from error
        if len(infos) != n_members:
            raise ModelFileError(
                f"its zip directory lists {len(infos)} members and announces {n_members}."
            )
        self.spans: dict[str, Span] = {}
        place = 0
        for info in sorted(infos, key=lambda info: info.header_offset):
            _check_info(info)
            if info.filename in self.spans:
                raise ModelFileError(f"it has two members named {info.filename!r}.")
            if info.header_offset != place:
                raise ModelFileError(
                    f"the member {info.filename!r} overlaps another or lies apart."
                )
            span = self._locate(info, directory)
            self.spans[info.filename] = span
            place = span.start + span.size
        if place != directory:
            raise ModelFileError("its members do not end where its zip directory begins.")

    def _end(self, size: int) -> tuple[int, int]:
        """Number of members and start of the directory, from the last bytes of the file."""
        end = self._unpack(_END, size - _END.size)
        if end[0] != b"PK\5\6" or end[7]:
            raise ModelFileError("it is not a zip file, or was cut short.")
        n_members, length, start = end[4:7]
        after = size - _END.size
        locator = self._unpack(_LOCATOR64, after - _LOCATOR64.size)
        if locator[0] == b"PK\6\7":
            after -= _LOCATOR64.size + _END64.size
            end64 = self._unpack(_END64, after)
            if end64[0] != b"PK\6\6" or locator[2] != after:
                raise ModelFileError("the end of its zip directory is damaged.")
            n_members, length, start = end64[7:]
        if n_members > MAX_MEMBERS or length > _MAX_DIRECTORY:
            raise ModelFileError(
                f"it announces {n_members} members in a directory of {length} bytes; at most "
                f"{MAX_MEMBERS} are read."
            )
        if start + length != after:
            raise ModelFileError("its zip directory is not where its end says, or was cut short.")
        return n_members, start

    def _unpack(self, form: struct.Struct, place: int) -> tuple[Any, ...]:
        if place < 0:
            return (b"",) + (0,) * 8
        self._file.seek(place)
        content = self._file.read(form.size)
        if len(content) < form.size:
            raise ModelFileError("it was cut short.")
        return form.unpack(content)

    def _locate(self, info: zipfile.ZipInfo, directory: int) -> Span:
        """Content of a member, from the header before it, which must not tell another name."""
        header = self._unpack(_LOCAL, info.header_offset)
        name = self._file.read(header[9])
        if header[0] != b"PK\3\4" or name != info.filename.encode():
            raise ModelFileError(f"the header of its member {info.filename!r} is damaged.")
        start = info.header_offset + _LOCAL.size + header[9] + header[10]
        if start + info.file_size > directory:
            raise ModelFileError(
                f"its member {info.filename!r} announces {info.file_size} bytes, more than there "
                "are."
            )
        return Span(start, info.file_size)

    def chunks(self, name: str, start: int = 0) -> Iterator[bytes]:
        """Content of a member from ``start`` on."""
        span = self.spans[name]
        self._file.seek(span.start + start)
        left = span.size - start
        while left > 0:
            chunk = self._file.read(min(left, _CHUNK))
            if not chunk:
                raise ModelFileError(f"it ends inside its member {name!r}.")
            left -= len(chunk)
            yield chunk

    def head(self, name: str, size: int) -> bytes:
        """The first bytes of a member."""
        span = self.spans[name]
        self._file.seek(span.start)
        return self._file.read(min(size, span.size))

    def read(self, name: str, most: int) -> bytes:
        """Content of a member that may have ``most`` bytes."""
        if name not in self.spans:
            raise ModelFileError(f"it has no member {name!r}.")
        if self.spans[name].size > most:
            raise ModelFileError(
                f"its member {name!r} has {self.spans[name].size} bytes; at most {most} are read."
            )
        return b"".join(self.chunks(name))


def _check_info(info: zipfile.ZipInfo) -> None:
    """Refuse whatever a model file has no use for."""
    # What zipfile makes of a name (it ends at a zero byte) is not what stands there.
    name = info.orig_filename
    wrong = ""
    if not _NAME.fullmatch(name) or ".." in name:
        wrong = "has a name that is a path elsewhere or of another system"
    elif stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
        wrong = "is a link, a folder or a special file"
    elif info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
        wrong = "is compressed"
    elif info.flag_bits:
        wrong = "is encrypted or has other flags set"
    if wrong:
        raise ModelFileError(f"its member {name!r} {wrong}.")


# -------------------------------------------------------------------------------------- writing


class Sink:
    """A file to write to that keeps the hash and the size of what was written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, content: Any) -> int:
        """Write on."""
        self._hash.update(content)
        self.size += len(content)
        return self._file.write(content)

    @property
    def sha256(self) -> str:
        """Hash, in hexadecimal."""
        return self._hash.hexdigest()


@contextmanager
def new_member(archive: zipfile.ZipFile, name: str, size: int) -> Iterator[Sink]:
    """A member of about this size, the same bytes whenever and wherever it is written."""
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.create_system = 3
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    with archive.open(info, "w", force_zip64=size > _LARGE) as file:
        yield Sink(file)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of ``path`` once it is whole and on the disk, or not at all."""
    with atomic_write(path) as partial, partial.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    if os.name == "posix":  # elsewhere a folder cannot be opened
        folder = os.open(partial.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
