"""Scripts in a process of their own, which may die without taking this one with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

# One thread: every further one of a BLAS library takes address space, which a script may limit.
_THREADS = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class ChildEndedError(Exception):
    """A process has ended before its output was complete; the text says why."""


@contextmanager
def script_output(script: Path, arguments: Sequence[str]) -> Iterator[IO[bytes]]:
    """Standard output of a Python script; an EOFError while it is read is a ChildEndedError."""
    with (
        tempfile.TemporaryFile() as messages,
        subprocess.Popen(
            [sys.executable, "-P", str(script), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=messages,
            env=os.environ | _THREADS,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            yield process.stdout
        except EOFError:
            code = process.wait()
            messages.seek(0)
            lines = messages.read().decode(errors="replace").strip().splitlines()
            last = lines[-1] if lines else ""
            if code < 0:
                last = f"reading it ended with {signal.strsignal(-code)}"
            raise ChildEndedError(last) from None
        finally:
            process.kill()  # unless it has ended by itself
