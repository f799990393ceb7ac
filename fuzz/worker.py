"""A child process that tries cases of one kind, under limits of time and memory."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

from fuzz.targets import TARGETS

SECONDS, BYTES = 10, 2**30  # for one case, above the file


class TooLong(BaseException):
    """A case takes too long; no ``except Exception`` of what is tried may catch it."""


def _late(*_: object) -> None:
    raise TooLong


def main(kind: str, start: int, count: int, until: float, folder: Path) -> None:
    """Try the cases, whose changes follow from their numbers; findings go to standard output."""
    target = TARGETS[kind]
    seeds = [(path.name, path.read_bytes()) for path in target.seeds(folder)]
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + BYTES, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, _late)
    warnings.simplefilter("ignore")
    mark = os.open(folder / "case", os.O_WRONLY | os.O_CREAT)
    for number in range(start, start + count):
        if time.time() > until:
            break
        rng = random.Random(f"{kind} {number}")
        name, content = seeds[number % len(seeds)]
        path = folder / name
        path.write_bytes(target.change(content, rng))
        os.pwrite(mark, b"%20d" % number, 0)
        # Code in C does not see the exception: the second alarm ends the process.
        signal.setitimer(signal.ITIMER_REAL, SECONDS, SECONDS)
        try:
            with contextlib.redirect_stderr(None):
                target.read(path)
        except (ValueError, OSError):
            pass  # documented
        except (TooLong, Exception) as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            sys.stdout.write(f"{number}\t{name}\t{type(error).__name__}\t{where}\t{error!s:.80}\n")
            sys.stdout.flush()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    os.pwrite(mark, b"%20d" % -1, 0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), Path(sys.argv[5]))
