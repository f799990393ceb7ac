"""Files: errors in what is read, unpacking within the limits of memory, and atomic writes."""

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
# Suffixes of tables with a header.
TEXT, PARQUET, EXCEL = (".csv", ".tsv", ".tab", ".txt"), (".parquet", ".pq"), (".xlsx",)
MEMORY_HINT = (
    "Keep fewer columns or a sample of the rows, or take a machine with more memory; completing "
    "can go on in parts, one file each, with a model that was fitted to a sample."
)
# What the standard library, numpy, scipy, scikit-learn and pandas throw at damaged files; those of
# pyarrow are of these types as well, but for two that its reader adds.
_ANY = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, EOFError, SyntaxError)
_WITHIN = (RuntimeError, SystemError, AssertionError, csv.Error, struct.error, tokenize.TokenError)
_PACKED = (lzma.LZMAError, zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error)
FAULTS: tuple[type[Exception], ...] = (*_ANY, *_WITHIN, *_PACKED)
# A damaged file sends its reader to places that are not in it.
_LOST = (errno.EINVAL, errno.EFBIG, errno.EOVERFLOW)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BYTES_PER_NAME = 100  # of a column's name and of a weight for it, at the least
# Bytes in memory for a byte of text: a parsed table, its copy as features, a fold of both.
_TEXT_FACTOR = 3.0
_PIECE = 2**18
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


class DataFileError(ValueError):
    """A damaged or unsuitable file; one that may not be opened is an :class:`OSError`.

    Parameters
    ----------
    file : str or Path
        The file.
    reason : str
        What is wrong, without a full stop.
    place, hint : str, default=""
        Where in the file, such as ``"line 3"``; what can be done about it, in sentences.

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
        # Of an exception only what it was raised with crosses to another process.
        return partial(type(self), place=self.place, hint=self.hint), (self.file, self.reason)


def printable(text: str) -> str:
    """The text on one line: control characters, line ends and the like are spelt as in JSON."""
    if text.isprintable():
        return text
    spelt = (one if one.isprintable() else json.dumps(one)[1:-1] for one in text)
    return "".join(spelt).replace("\x7f", "\\u007f")  # which JSON leaves as it is


@contextmanager
def translate_errors(path: AnyPath, what: str, *also: type[Exception]) -> Iterator[None]:
    """Turn what a library throws while it reads ``what`` into :class:`DataFileError`."""
    # To be put around calls of libraries only: a mistake of our own is no bad file.
    try:
        yield
    except DataFileError:
        raise
    except MemoryError as error:
        raise DataFileError(path, "it does not fit into memory") from error
    except OSError as error:
        if error.errno is not None and error.errno not in _LOST:
            raise
        raise damaged_file_error(path, what, error) from error
    except (*FAULTS, *also) as error:
        raise damaged_file_error(path, what, error) from error


def damaged_file_error(path: AnyPath, what: str, error: Exception) -> DataFileError:
    """The error for a file in which a library has met with an ``error`` of its own."""
    if isinstance(error, UnicodeDecodeError):
        byte = error.object[error.start]
        return DataFileError(
            path,
            f"not encoded in {error.encoding}: byte {byte:#04x} at position {error.start}",
            hint="Name its encoding, for example --encoding latin-1 (encoding= in Python).",
        )
    said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    said = said if len(said) <= 300 else f"{said[:297]}..."
    return DataFileError(path, f"not {what}, or a damaged one ({said})")


def check_regular(path: AnyPath) -> int:
    """Bytes of a file; a device, pipe or folder is refused, for it may have no end."""
    status = Path(path).stat()
    if not stat.S_ISREG(status.st_mode):
        raise DataFileError(path, "not a regular file: devices, pipes and folders are not read")
    return status.st_size


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A path beside ``path``, of its suffix, that is renamed to it when all went well."""
    target = Path(os.path.realpath(path))
    unfinished = target.with_name(f".{os.getpid()}-{token_hex(4)}.part.{path.name}")
    _remove_abandoned(unfinished)
    try:
        yield unfinished
        if target.exists():  # one that only its owner may read stays so
            unfinished.chmod(stat.S_IMODE(target.stat().st_mode))
        unfinished.replace(target)
    except OSError as error:
        if error.errno in _FULL and error.filename is None:
            error.filename = str(path)  # a write that fails does not say where
        raise
    finally:
        unfinished.unlink(missing_ok=True)


def _remove_abandoned(unfinished: Path) -> None:
    """Remove what processes that no longer run have left of the same file."""
    if os.name != "posix":  # elsewhere there is no harmless signal to ask with
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
            pass  # it runs, for somebody else


def available_memory(unknown: float = float("inf")) -> float:
    """Bytes that can be used without swapping; ``unknown`` where the system does not say."""
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
    """Refuse a file of which more bytes would be made than are free."""
    free = available_memory()
    if size > free:
        reason = f"{what} takes about {_amount(size)} of memory; {_amount(free)} are free"
        raise DataFileError(path, reason, hint=MEMORY_HINT)


def check_width(path: AnyPath, columns: int) -> None:
    """Refuse a sparse matrix of more columns than names and weights can be had for."""
    if columns > 2**16:  # to ask the system takes longer than to read a small file
        check_memory(path, _BYTES_PER_NAME * columns, f"a table of {columns} features")


def _amount(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"


def unpacked_name(path: AnyPath) -> Path:
    """The name that a file has when it is unpacked: ``a.csv`` of ``a.csv.gz``."""
    path = Path(path)
    inner = path.with_suffix("")
    return inner if path.suffix.lower() in (*_OPENERS, ".zip") and inner.suffix else path


def suffix_of(path: AnyPath) -> str:
    """The suffix that gives the format of a file, in lower case: ``.csv`` of ``a.csv.gz``."""
    return unpacked_name(path).suffix.lower()


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
            reason = "what is packed in it does not fit into memory"
            raise DataFileError(self._path, reason, hint=MEMORY_HINT)
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def open_unpacked(path: AnyPath, *, whole: bool = True) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked if it is packed; with ``whole`` they have to fit in memory."""
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
                    raise DataFileError(path, f"{len(names)} files are packed in it, not 1")
                packed: Any = stack.enter_context(archive.open(names[0]))
            else:
                packed = stack.enter_context(_OPENERS[suffix](path, "rb"))
        most = available_memory() / _TEXT_FACTOR if whole else float("inf")
        yield io.BufferedReader(_Counted(packed, path, suffix, most), _PIECE)


@contextmanager
def open_text(
    path: AnyPath, encoding: str, what: str, *, whole: bool = True, content: bytes | None = None
) -> Iterator[io.TextIOWrapper]:
    """The same, or its known content, as text; letters of another encoding are an error."""
    source = open_unpacked(path, whole=whole) if content is None else io.BytesIO(content)
    with source as file, io.TextIOWrapper(file, encoding=encoding, newline="") as text:
        try:
            yield text
        except UnicodeError as error:
            raise damaged_file_error(path, what, error) from error


def read_into(stream: IO[bytes], array: Any) -> None:
    """Fill a numpy array with the next bytes of a stream; EOFError if there are not enough."""
    # Without numpy's own names: `dm2l --help` loads this module, but not numpy.
    flat: Any = array.reshape(-1).view("u1") if array.nbytes else b""
    start = 0
    while start < len(flat):
        # In pieces: a member of a zip file puts those that it has read together byte by byte.
        received = stream.readinto(flat[start : start + _PIECE].data)  # type: ignore[attr-defined]
        if not received:
            raise EOFError("it ends too early")
        start += received
