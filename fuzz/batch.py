"""Run cases in a forked process with limits, and report the outcome of each.

A process that has imported everything forks a child for a few seconds of cases. This takes
milliseconds, whereas starting Python and importing everything takes seconds. If the child dies, the
first case without an outcome is the cause.

Limits are in seconds of processor time, so that other programs on the machine do not change which
cases are findings. The limit on elapsed time only ends a case that waits for ever.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import random
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dm2l._utils import files
from dm2l._utils.files import FAULTS
from dm2l.io import _mat
from fuzz.matlab import Forked
from fuzz.mutations import flip
from fuzz.targets import Target

# Seconds of processor time for one case. Compiled code that does not return to Python after this
# time is ended by the kernel after twice as many.
SECONDS = 10.0
WAIT = 600.0  # seconds of elapsed time until a case counts as hanging
BYTES = 2**30  # above the file, as pages that are touched
# Address space is not memory: an allocator of pyarrow reserves a gigabyte of it at its first use.
# This bound only ends what would take all of the machine.
SPACE = 4 * BYTES


class Outcome(NamedTuple):
    """What came of a case; ``finding`` is blank where all is well."""

    number: int
    name: str  # of the file
    result: str  # "read", or the type of what was raised
    seconds: float
    bytes: int
    finding: str = ""


class TooLong(BaseException):
    """A case takes too long; no ``except Exception`` of what is tried may catch it."""


def seeds_of(target: Target, folder: Path) -> list[tuple[str, bytes]]:
    """Good files of a target, made in a process of their own: threads do not survive a fork.

    They are read there as well, and what was imported meanwhile is imported here: every process
    that is forked for cases would have to, again and again.
    """
    child = os.fork()
    if not child:
        with no_return():
            made = target.seeds(folder)
            for path in made:
                _try(target, 0, path)
            told = {"names": [path.name for path in made], "modules": list(sys.modules)}
            (folder / "told").write_text(json.dumps(told))
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("the good files cannot be made")
    told = json.loads((folder / "told").read_text())
    for module in told["modules"]:
        with contextlib.suppress(ImportError, ValueError):  # names of no file
            importlib.import_module(module)
    return [(name, (folder / name).read_bytes()) for name in told["names"]]


@contextlib.contextmanager
def no_return() -> Iterator[None]:
    """A forked process ends here, and never goes on with what its parent was at."""
    code = 1
    try:
        yield
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(code)


def changed(kind: str, target: Target, seeds: Any, number: int) -> tuple[str, bytes]:
    """Name and content of a case, which follow from its number."""
    rng = random.Random(f"{kind} {number}")
    name, content = seeds[rng.randrange(len(seeds))]
    try:
        content = target.change(content, rng)
    except (*FAULTS, OSError, MemoryError):  # changed beyond further changes
        content = flip(content, rng)
    return name.replace("seed", "case"), content


def run(
    kind: str, target: Target, seeds: Any, numbers: range, seconds: float, folder: Path
) -> Iterator[Outcome]:
    """Outcomes of these cases, as many as there is time for; a death is one of them."""
    ends, numbers_left = os.pipe(), iter(numbers)
    child = os.fork()
    if not child:
        with no_return():
            os.close(ends[0])
            _try_cases(kind, target, seeds, numbers, seconds, folder, ends[1])
    os.close(ends[1])
    with os.fdopen(ends[0], "rb", buffering=0) as pipe:
        waiting = b""
        while True:
            ready, _, _ = select.select([pipe], [], [], WAIT)
            piece = pipe.read(2**16) if ready else b""
            if not piece:
                break
            *lines, waiting = (waiting + piece).split(b"\n")
            for line in lines:
                next(numbers_left)
                yield Outcome(*json.loads(line))
    if not ready:
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if status and (number := next(numbers_left, None)) is not None:
        said = "it did not return" if not ready else f"the process ended with {_word(status)}"
        rng = random.Random(f"{kind} {number}")  # as above, without the change
        name = seeds[rng.randrange(len(seeds))][0].replace("seed", "case")
        yield Outcome(number, name, "death", WAIT if not ready else 0.0, 0, said)


def _word(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return signal.Signals(-code).name if code < 0 else f"code {code}"


def _late(*_: object) -> None:
    raise TooLong


def _try_cases(
    kind: str, target: Target, seeds: Any, numbers: range, seconds: float, folder: Path, pipe: int
) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Readers refuse what does not fit: here that is the memory that a case may take.
    files._probe = lambda: BYTES
    _mat.subprocess = Forked  # type: ignore[assignment]
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + SPACE, resource.RLIM_INFINITY))
    warnings.simplefilter("ignore")
    until = time.monotonic() + seconds
    for number in numbers:
        name, content = changed(kind, target, seeds, number)
        (folder / name).write_bytes(content)
        outcome = _try(target, number, folder / name)
        if outcome.finding:
            (folder / f"{number}-{name}").write_bytes(content)
        os.write(pipe, json.dumps(outcome).encode() + b"\n")
        if time.monotonic() > until:
            break


def _try(target: Target, number: int, path: Path) -> Outcome:
    result, finding = "read", ""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak is that of now
    signal.signal(signal.SIGPROF, _late)
    before, start = _peak(), sum(os.times()[:4])
    limit = math.ceil(time.process_time() + 2 * SECONDS)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with contextlib.redirect_stderr(None):
            target.read(path)
    except (TooLong, Exception) as error:
        result = type(error).__name__
        short = any(isinstance(one, MemoryError) for one in _chain(error))
        if short or not isinstance(error, target.documented):
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            finding = f"{result}\t{where}\t{error!s:.120}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    seconds, peak = sum(os.times()[:4]) - start, _peak() - before
    if seconds > target.longest:
        finding = finding or f"{seconds:.1f} seconds"
    if peak > min(target.most, BYTES):
        finding = finding or f"{peak} bytes of memory"
    return Outcome(number, path.name, result, round(seconds, 4), peak, finding)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _peak() -> int:
    """Most memory of this process, in bytes, since it was last reset."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) * 1024
