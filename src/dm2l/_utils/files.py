"""Error reporting for input files, and atomic writes."""

from __future__ import annotations

import csv
import errno
import glob
import json
import lzma
import os
import re
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex


class DataFileError(ValueError):
    """A file that cannot be read: its name, the place in it, the reason and a hint.

    Every reader raises it for what a file holds. A file that is not there, or may not be opened,
    is an :class:`OSError` as everywhere.

    Parameters
    ----------
    file : str or Path
        The file.
    reason : str
        What is wrong, as a sentence or a part of one; a full stop is added where there is none.
    place : str, default=""
        Where in the file, such as ``"line 3"``.
    hint : str, default=""
        What can be done about it, in sentences.

    Examples
    --------
    >>> from dm2l._utils.files import DataFileError
    >>> print(DataFileError("a.csv", "a quote is not closed", place="line 3", hint="Close it."))
    a.csv, line 3: a quote is not closed. Close it.
    """

    def __init__(
        self, file: str | os.PathLike[str], reason: str, *, place: str = "", hint: str = ""
    ) -> None:
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


# What the standard library, numpy, scipy, scikit-learn and pandas throw at damaged files; those of
# pyarrow are of these types as well, but for two that its reader adds.
FAULTS: tuple[type[Exception], ...] = (
    ValueError,  # with it UnicodeDecodeError, pandas' ParserError, pyarrow's ArrowInvalid
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    EOFError,
    SyntaxError,
    RuntimeError,  # with it NotImplementedError and RecursionError
    SystemError,
    AssertionError,
    csv.Error,
    lzma.LZMAError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
)
# A damaged file sends its reader to places that are not in it.
_LOST = (errno.EINVAL, errno.EFBIG, errno.EOVERFLOW)


@contextmanager
def translate_errors(
    path: str | os.PathLike[str], what: str, *also: type[Exception]
) -> Iterator[None]:
    """Turn whatever a library throws while it reads a file into :class:`DataFileError`.

    ``what`` says what the file should be, such as "a MATLAB file"; ``also`` are further exceptions
    of the library. To be put around calls of libraries, and no further: a mistake of our own is no
    bad file.
    """
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


def damaged_file_error(path: str | os.PathLike[str], what: str, error: Exception) -> DataFileError:
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


def check_regular(path: str | os.PathLike[str]) -> int:
    """Bytes of a file; a device, pipe or folder is refused, for it may have no end."""
    status = Path(path).stat()
    if not stat.S_ISREG(status.st_mode):
        raise DataFileError(path, "not a regular file: devices, pipes and folders are not read")
    return status.st_size


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A path in the same folder to write to; renamed to ``path`` when all went well.

    A file that is there is replaced at once, or stays as it was; a symbolic link stays one. The
    suffix of the new path is that of ``path``: some writers go by it. Unfinished files of
    processes that were killed while they wrote to the same path are removed.
    """
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
