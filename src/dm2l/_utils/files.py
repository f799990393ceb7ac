"""Errors in input files, decompression within memory limits, and atomic writes."""

import bz2
import csv
import errno
import glob
import gzip
import io
import json
import lzma
import os
import re
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

AnyPath = str | os.PathLike[str]
# Suffixes of tables with named columns.
TEXT, PARQUET, EXCEL = (".csv", ".tsv", ".tab", ".txt"), (".parquet", ".pq"), (".xlsx",)
TABLES = (*TEXT, *PARQUET, *EXCEL)
MEMORY_HINT = (
    "Keep fewer columns or a sample of the rows, or use a machine with more memory. A model that "
    "was fitted to a sample can complete a large table that is split into several files."
)
# Exceptions that the standard library, numpy, scipy, scikit-learn and pandas raise for damaged
# files; pyarrow raises two more.
_ANY = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, EOFError, SyntaxError)
_WITHIN = (RuntimeError, SystemError, AssertionError, csv.Error, struct.error, tokenize.TokenError)
_PACKED = (lzma.LZMAError, zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error)
FAULTS: tuple[type[Exception], ...] = (*_ANY, *_WITHIN, *_PACKED)
# Errors raised by seeking beyond the end of a damaged file.
_LOST = (errno.EINVAL, errno.EFBIG, errno.EOVERFLOW)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BYTES_PER_NAME = 100  # minimum memory for the name and the weight of a column
# Memory per byte of text for the parsed table, its features and the features of a fold.
_TEXT_FACTOR = 3.0
_PIECE = 2**18
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


class DataFileError(ValueError):
    """Error for a damaged or unsuitable file.

    If a file does not exist or cannot be read, an :class:`OSError` is raised instead.

    Parameters
    ----------
    file : str or Path
        The file.
    reason : str
        The problem, without a full stop.
    place, hint : str, default=""
        The place in the file, such as ``"line 3"``, and sentences on how to fix the problem.

    Examples
    --------
    >>> from dm2l.io import DataFileError
    >>> print(DataFileError("a.csv", "a quote is not closed", place="line 3", hint="Close it."))
    a.csv, line 3: a quote is not closed. Close it.
    """

    def __init__(self, file: AnyPath, reason: str, *, place: str = "", hint: str = "") -> None:
        self.file, self.reason, self.place, self.hint = str(file), reason, place, hint
        text = f"{file}, {place}: {reason}" if place else f"{file}: {reason}"
        text = text if text.endswith((".", "?", "!")) else f"{text}."
        super().__init__(printable(f"{text} {hint}".rstrip()))

    def __reduce__(self) -> tuple[object, ...]:
        # By default, pickle stores only the arguments of an exception.
        return partial(type(self), place=self.place, hint=self.hint), (self.file, self.reason)


def printable(text: str) -> str:
    """Return the text on one line, with control characters and line ends escaped as in JSON."""
    if text.isprintable():
        return text
    spelt = (one if one.isprintable() else json.dumps(one)[1:-1] for one in text)
    return "".join(spelt).replace("\x7f", "\\u007f")  # JSON does not escape this character


@contextmanager
def translate_errors(path: AnyPath, what: str, *also: type[Exception]) -> Iterator[None]:
    """Turn errors that a library raises while it reads ``what`` into :class:`DataFileError`."""
    # This context should enclose only calls to libraries, so that it does not hide bugs of dm2l.
    try:
        yield
    except DataFileError:
        raise
    except MemoryError as error:
        raise DataFileError(path, "the file does not fit into memory", hint=MEMORY_HINT) from error
    except OSError as error:
        if error.errno is not None and error.errno not in _LOST:
            raise
        raise damaged_file_error(path, what, error) from error
    except (*FAULTS, *also) as error:
        raise damaged_file_error(path, what, error) from error


def damaged_file_error(path: AnyPath, what: str, error: Exception) -> DataFileError:
    """Return the error for a file that made a library raise ``error``."""
    if isinstance(error, UnicodeDecodeError):
        byte = error.object[error.start]
        reason = f"byte {byte:#04x} at position {error.start} is not valid {error.encoding}"
        hint = "Pass the encoding, for example --encoding latin-1 (encoding= in Python)."
        return DataFileError(path, reason, hint=hint)
    said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    said = said if len(said) <= 300 else f"{said[:297]}..."
    hint = "Correct the file, or use another copy."
    return DataFileError(path, f"this is not {what}, or the file is damaged ({said})", hint=hint)


def check_regular(path: AnyPath) -> int:
    """Return the size of a regular file; devices, pipes and folders raise a DataFileError."""
    status = Path(path).stat()
    if not stat.S_ISREG(status.st_mode):
        raise DataFileError(path, "this is not a regular file. Pass a file, not a pipe or folder")
    return status.st_size


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path, which is renamed to ``path`` if no error occurs."""
    target = Path(os.path.realpath(path))
    unfinished = target.with_name(f".{os.getpid()}-{token_hex(4)}.part.{path.name}")
    _remove_abandoned(unfinished)
    try:
        yield unfinished
        if target.exists():  # keep the permissions of the existing file
            unfinished.chmod(stat.S_IMODE(target.stat().st_mode))
        unfinished.replace(target)
    except OSError as error:
        if error.errno in _FULL and error.filename is None:
            error.filename = str(path)  # errors of failed writes lack the file name
        raise
    finally:
        unfinished.unlink(missing_ok=True)


def _remove_abandoned(unfinished: Path) -> None:
    """Remove temporary files that killed processes made for the target of ``unfinished``."""
    if os.name != "posix":  # on Windows, os.kill would interrupt the process
        return
    ending = unfinished.name.partition(".part.")[2]
    for path in unfinished.parent.glob(f".*.part.{glob.escape(ending)}"):
        found = re.fullmatch(r"\.(\d{1,9})-[0-9a-f]{8}\.part\..*", path.name, re.DOTALL)
        if found is None:
            continue
        try:
            os.kill(int(found[1]), 0)
        except ProcessLookupError:
            path.unlink(missing_ok=True)
        except PermissionError:
            pass  # the process belongs to another user


def available_memory(unknown: float = float("inf")) -> float:
    """Return the free memory in bytes, or ``unknown`` if the system does not report it."""
    free = _probe()
    return unknown if free is None else free


def _probe() -> int | None:
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    names: Any = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def check_memory(path: AnyPath, size: float, what: str) -> None:
    """Raise an error if a file would need more bytes of memory than are free."""
    free = available_memory()
    if size > free:
        reason = f"{what} takes about {_amount(size)} of memory; {_amount(free)} are free"
        raise DataFileError(path, reason, hint=MEMORY_HINT)


def check_width(path: AnyPath, columns: int) -> None:
    """Raise an error if column names and weights of a sparse matrix would not fit into memory."""
    if columns > 2**16:  # querying free memory takes longer than reading a small file
        check_memory(path, _BYTES_PER_NAME * columns, f"a table of {columns} features")


def _amount(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"


def unpacked_name(path: AnyPath) -> Path:
    """Return a file name without its compression suffix: a.csv for a.csv.gz."""
    path = Path(path)
    inner = path.with_suffix("")
    return inner if path.suffix.lower() in (*_OPENERS, ".zip") and inner.suffix else path


def suffix_of(path: AnyPath) -> str:
    """Return the lower-case suffix of a file's format: ``.csv`` for ``a.csv.gz``."""
    return unpacked_name(path).suffix.lower()


class _Counted(io.RawIOBase):
    """Stream of decompressed bytes that raises an error above a maximum number of bytes."""

    def __init__(self, file: IO[bytes], path: Path, suffix: str, most: float) -> None:
        self._file, self._path, self._suffix, self._left = file, path, suffix, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with translate_errors(self._path, f"a {self._suffix} file"):
            data = self._file.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            reason = "the unpacked content does not fit into memory"
            raise DataFileError(self._path, reason, hint=MEMORY_HINT)
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def open_unpacked(path: AnyPath, *, whole: bool = True) -> Iterator[IO[bytes]]:
    """Open a file, and decompress it if necessary; if ``whole``, it must fit into memory."""
    path = Path(path)
    size, suffix = check_regular(path), path.suffix.lower()
    with ExitStack() as stack:
        if suffix not in (*_OPENERS, ".zip"):
            if whole:
                check_memory(path, size * _TEXT_FACTOR, "a table of this size")
            yield stack.enter_context(path.open("rb"))
            return
        with translate_errors(path, f"a {suffix} file"):
            if suffix == ".zip":
                archive = stack.enter_context(zipfile.ZipFile(path))
                names = archive.namelist()
                if len(names) != 1:
                    raise DataFileError(path, f"the file has {len(names)} files. Keep only one")
                packed: Any = stack.enter_context(archive.open(names[0]))
            else:
                packed = stack.enter_context(_OPENERS[suffix](path, "rb"))
        most = available_memory() / _TEXT_FACTOR if whole else float("inf")
        yield io.BufferedReader(_Counted(packed, path, suffix, most), _PIECE)


@contextmanager
def open_text(
    path: AnyPath, encoding: str, what: str, *, whole: bool = True, content: bytes | None = None
) -> Iterator[io.TextIOWrapper]:
    """Open a file, or its content, as text; raise an error for bytes that cannot be decoded."""
    source = open_unpacked(path, whole=whole) if content is None else io.BytesIO(content)
    with source as file, io.TextIOWrapper(file, encoding=encoding, newline="") as text:
        try:
            yield text
        except UnicodeError as error:
            raise damaged_file_error(path, what, error) from error


def read_into(stream: IO[bytes], array: Any) -> None:
    """Read bytes from a stream into a numpy array; raise EOFError if bytes are missing."""
    # This module does not import numpy, which `dm2l --help` should not load.
    flat: Any = array.reshape(-1).view("u1") if array.nbytes else b""
    start = 0
    while start < len(flat):
        # Read in pieces, because large reads from members of zip files are slow.
        received = stream.readinto(flat[start : start + _PIECE].data)  # type: ignore[attr-defined]
        if not received:
            raise EOFError("the file ends too early")
        start += received
