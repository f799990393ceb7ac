"""Opening files to read: packed ones are unpacked on the way, up to what memory can hold."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dm2l._utils.files import (
    MEMORY_HINT,
    DataFileError,
    available_memory,
    check_memory,
    check_regular,
    damaged_file_error,
    translate_errors,
)

# Suffixes of tables with a header.
TEXT, PARQUET, EXCEL = (".csv", ".tsv", ".tab", ".txt"), (".parquet", ".pq"), (".xlsx",)
_PIECE = 2**18
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}

# Bytes in memory for a byte of text: a parsed table, its copy as features, a fold of both.
TEXT_FACTOR = 3.0


def unpacked_name(path: str | os.PathLike[str]) -> Path:
    """The name that a file has when it is unpacked: ``a.csv`` of ``a.csv.gz``."""
    path = Path(path)
    inner = path.with_suffix("")
    return inner if path.suffix.lower() in (*_OPENERS, ".zip") and inner.suffix else path


def suffix_of(path: str | os.PathLike[str]) -> str:
    """The suffix that gives the format of a file, in lower case: ``.csv`` of ``a.csv.gz``."""
    return unpacked_name(path).suffix.lower()


@contextmanager
def open_unpacked(path: str | os.PathLike[str], *, whole: bool = True) -> Iterator[IO[bytes]]:
    """The bytes of a regular file, unpacked if it ends in .gz, .bz2, .xz or .zip.

    With ``whole`` it has to fit into memory; a packed one is refused as soon as that shows.
    """
    path = Path(path)
    size = check_regular(path)
    suffix = path.suffix.lower()
    if suffix not in (*_OPENERS, ".zip"):
        if whole:
            check_memory(path, size * TEXT_FACTOR, "a table of this size")
        with path.open("rb") as file:
            yield file
        return
    with ExitStack() as stack:
        with translate_errors(path, f"a {suffix} file"):
            if suffix == ".zip":
                archive = stack.enter_context(zipfile.ZipFile(path))
                names = archive.namelist()
                if len(names) != 1:
                    raise DataFileError(path, f"{len(names)} files are packed in it, not 1")
                packed: Any = stack.enter_context(archive.open(names[0]))
            else:
                packed = stack.enter_context(_OPENERS[suffix](path, "rb"))
        most = available_memory() / TEXT_FACTOR if whole else float("inf")
        yield io.BufferedReader(_Counted(packed, path, suffix, most), _PIECE)


@contextmanager
def open_text(
    path: str | os.PathLike[str],
    encoding: str,
    what: str,
    *,
    whole: bool = True,
    content: bytes | None = None,
) -> Iterator[io.TextIOWrapper]:
    """The same, or its known content, as text; letters of another encoding are an error."""
    source = open_unpacked(path, whole=whole) if content is None else io.BytesIO(content)
    with source as file, io.TextIOWrapper(file, encoding=encoding, newline="") as text:
        try:
            yield text
        except UnicodeError as error:
            raise damaged_file_error(path, what, error) from error


def read_into(stream: IO[bytes], array: NDArray[Any]) -> None:
    """Fill an array with the next bytes of a stream; EOFError if there are not enough."""
    flat = array.reshape(-1).view(np.uint8) if array.nbytes else np.empty(0, np.uint8)
    start = 0
    while start < len(flat):
        # In pieces: a member of a zip file puts those that it has read together byte by byte.
        received = stream.readinto(flat[start : start + _PIECE].data)  # type: ignore[attr-defined]
        if not received:
            raise EOFError("it ends too early")
        start += received


class _Counted(io.RawIOBase):
    """A stream of unpacked bytes that raises when there are too many."""

    def __init__(self, file: IO[bytes], path: Path, suffix: str, most: float) -> None:
        self._file, self._path, self._suffix, self._left = file, path, suffix, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with translate_errors(self._path, f"a {self._suffix} file"):
            data = self._file.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise DataFileError(
                self._path, "what is packed in it does not fit into memory", hint=MEMORY_HINT
            )
        buffer[: len(data)] = data
        return len(data)
