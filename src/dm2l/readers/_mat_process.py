"""MATLAB files are read by scipy in a process of its own.

scipy's compiled reader leaves its arrays at damaged bytes: of 32,256 mutated files 136 killed the
process. No check beforehand can help that short of a second reader, so the process that dies is
one that nobody needs. It starts in a third of a second, which is the price of every MATLAB file;
data sets that are loaded often are better kept as npz archives. Numbers come back through a pipe
as plain bytes, never as objects, and sparse matrices go through the one door.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dm2l.files import DataFileError, check_regular, damaged, reading
from dm2l.memory import check_room, room
from dm2l.readers.unpacking import FEWER, fill
from dm2l.sparse_input import sparse_from_parts

_SCRIPT = Path(__file__).with_name("_mat_child.py")
_NEWER = "In MATLAB, write it again with save(..., '-v7')."
# A file may take what zlib can make of it, and what a reader needs to find out that it is none.
_RATIO, _SPARE = 2200, 2**28
_SECONDS, _BYTES_A_SECOND = 10, 1_000_000


class Other(NamedTuple):
    """A variable that is no matrix of numbers, and what it is instead."""

    said: str


def read_variables(
    path: str | os.PathLike[str], given: Collection[str], usual: Collection[str]
) -> dict[str, Any]:
    """Variables by their names: matrices where they are wanted, else :class:`Other`."""
    size = check_regular(path)
    Path(path).open("rb").close()  # what may not be read is said here
    memory = int(min(room() / 3, _SPARE + _RATIO * size))
    names = json.dumps([sorted(given), sorted(usual)])
    command = [sys.executable, "-P", str(_SCRIPT)]
    command += [os.fspath(path), str(memory), str(_SECONDS + size // _BYTES_A_SECOND), names]
    # One thread: every further one of a BLAS library takes address space that is counted.
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            env=os.environ | threads,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            return _received(process.stdout, path)
        except EOFError:
            code = process.wait()
            said.seek(0)
            raise _refusal(path, code, said.read().decode(errors="replace")) from None
        finally:
            process.kill()  # unless it has ended by itself


def _received(pipe: IO[bytes], path: str | os.PathLike[str]) -> dict[str, Any]:
    line = pipe.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    with reading(path, "a MATLAB file"):
        header = json.loads(line)
        found: dict[str, Any] = dict.fromkeys(header["there"], Other("not asked for"))
        variables = header["variables"].items()
    for name, (what, forms) in variables:
        arrays = [_array(pipe, np.dtype(kind), tuple(shape), path) for kind, shape in forms]
        if what == "sparse":
            data, indices, indptr, shape = arrays
            try:
                found[name] = sparse_from_parts(data, indices, indptr, shape, layout="csc")
            except ValueError as error:
                raise DataFileError(path, f"{name!r} is no sparse matrix: {error}") from error
        else:
            found[name] = arrays[0] if what == "dense" else Other(what)
    return found


def _array(
    pipe: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...], path: str | os.PathLike[str]
) -> NDArray[Any]:
    numbers = prod(shape)
    check_room(path, (8 + dtype.itemsize) * numbers, f"a matrix of {numbers} numbers", FEWER)
    array = np.empty(shape, dtype)
    fill(pipe, array)
    return array


def _refusal(path: str | os.PathLike[str], code: int, said: str) -> DataFileError:
    """What is wrong with a file whose process has ended without a result."""
    last = (said.strip().splitlines() or [""])[-1]
    if last == "version 7.3":
        reason = "a MATLAB file of version 7.3 (HDF5), which is not read here"
        return DataFileError(path, reason, way_out=_NEWER)
    if last == "memory":
        return DataFileError(path, "it does not fit into memory", way_out=FEWER)
    if code < 0:
        last = f"reading it ended with {signal.strsignal(-code)}"
    return damaged(path, "a MATLAB file", ValueError(last))
