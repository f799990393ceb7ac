"""``python -m fuzz --minutes 60``: every kind in turn on every core; findings and figures."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.record import write
from fuzz.batch import Outcome, no_return, run, seeds_of
from fuzz.targets import TARGETS

BATCH = 10.0  # seconds
KEPT = 50  # files of a kind, at most
ALSO = ("pandas", "pyarrow")


class Tally:
    """What came of the cases of a kind."""

    def __init__(self) -> None:
        self.cases, self.seconds, self.worst_seconds, self.worst_bytes = 0, 0.0, 0.0, 0
        self.results: dict[str, int] = {}
        self.findings: list[str] = []

    def add(self, outcome: Outcome) -> None:
        """Count a case."""
        self.cases += 1
        self.seconds += outcome.seconds
        self.worst_seconds = max(self.worst_seconds, outcome.seconds)
        self.worst_bytes = max(self.worst_bytes, outcome.bytes)
        self.results[outcome.result] = self.results.get(outcome.result, 0) + 1
        if outcome.finding:
            self.findings.append(f"{outcome.number}\t{outcome.name}\t{outcome.finding}")

    def join(self, other: dict[str, Any]) -> None:
        """Add what another process has counted."""
        self.cases += other["cases"]
        self.seconds += other["seconds"]
        self.worst_seconds = max(self.worst_seconds, other["worst_seconds"])
        self.worst_bytes = max(self.worst_bytes, other["worst_bytes"])
        for result, count in other["results"].items():
            self.results[result] = self.results.get(result, 0) + count
        self.findings += other["findings"]


def serve(place: int, arguments: argparse.Namespace, until: float, folder: Path) -> None:
    """Try every ``jobs``-th case of the kinds in turn, each for some seconds, until the end."""
    tallies = {kind: Tally() for kind in arguments.kinds}
    seeds: dict[str, Any] = {}
    for kind in arguments.kinds:
        (folder / kind).mkdir(parents=True)
        seeds[kind] = seeds_of(TARGETS[kind], folder / kind)
    waiting = list(arguments.kinds)
    while waiting and time.time() < until:
        for kind in list(waiting):
            tally, target = tallies[kind], TARGETS[kind]
            first = arguments.seed + place + tally.cases * arguments.jobs
            # The last case is the same however many processes share them.
            last = arguments.seed + arguments.cases if arguments.cases else sys.maxsize
            numbers = range(first, last, arguments.jobs)
            if not numbers:
                waiting.remove(kind)
            elif time.time() < until:
                for one in run(kind, target, seeds[kind], numbers, BATCH, folder / kind):
                    if one.result in ("death", "TooLong"):
                        alone = range(one.number, one.number + 1)
                        again = next(run(kind, target, seeds[kind], alone, 0.0, folder / kind))
                        words = "alone as well" if again.finding else "not alone"
                        one = one._replace(finding=f"{one.finding}, {words}")
                    tally.add(one)
                    if one.finding:
                        sys.stdout.write(f"{kind}\t{tally.findings[-1]}\n")
                        sys.stdout.flush()
                        if len(tally.findings) <= KEPT:
                            keep(kind, one, folder / kind, arguments.keep)
                figures = {kind: vars(tally) for kind, tally in tallies.items()}
                (folder / "part").write_text(json.dumps(figures))
                (folder / "part").replace(folder / "figures.json")


def keep(kind: str, outcome: Outcome, folder: Path, target: Path) -> None:
    """Copy the file of a finding; of a process that died it is the last one."""
    target.mkdir(parents=True, exist_ok=True)
    for name in (f"{outcome.number}-{outcome.name}", outcome.name):
        if (folder / name).exists():
            shutil.copy(folder / name, target / f"{kind}-{outcome.number}-{outcome.name}")
            break


def joined(folders: list[Path], kinds: list[str]) -> dict[str, Tally]:
    """Figures of all processes so far."""
    tallies = {kind: Tally() for kind in kinds}
    for folder in folders:
        if (folder / "figures.json").exists():
            for kind, figures in json.loads((folder / "figures.json").read_text()).items():
                tallies[kind].join(figures)
    return tallies


def main() -> int:
    """Run until the time is over or the cases are; 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--cases", type=int, default=0, help="of each kind; 0: while there is time")
    parser.add_argument("--kinds", nargs="*", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="files of findings")
    parser.add_argument("-o", "--output", type=Path, help="where figures go, as JSON")
    arguments = parser.parse_args()
    start = time.time()
    until = start + 60 * arguments.minutes
    # Journals wait for the disk after each line; in memory there is nothing to wait for.
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=place) as name:
        folders = [Path(name, str(place)) for place in range(arguments.jobs)]
        servers = set()
        for place, folder in enumerate(folders):
            child = os.fork()
            if not child:
                with no_return():
                    serve(place, arguments, until, folder)
            servers.add(child)
        failed, looked = 0, start
        while servers:
            time.sleep(0.1)
            for child in list(servers):
                if os.waitpid(child, os.WNOHANG)[0]:
                    servers.discard(child)
            if arguments.output and (time.time() > looked + 60 or not servers):
                looked = time.time()
                record(arguments, joined(folders, arguments.kinds), start)
        tallies = joined(folders, arguments.kinds)
    for kind, tally in tallies.items():
        failed += len(tally.findings) + (not tally.cases)
        sys.stdout.write(
            f"{kind:11}{tally.cases:8} cases, {tally.cases / (tally.seconds or 1):5.0f} a second, "
            f"at most {tally.worst_seconds:.2f} s and {tally.worst_bytes / 2**20:.0f} MiB, "
            f"{len(tally.findings)} findings; {tally.results}\n"
        )
    return int(bool(failed))


def record(arguments: argparse.Namespace, tallies: dict[str, Tally], start: float) -> None:
    """Store the figures, with what is needed to make them again."""
    figures = {
        "seed": arguments.seed,
        "jobs": arguments.jobs,
        "minutes": round((time.time() - start) / 60, 1),
        "started": time.strftime("%Y-%m-%d", time.gmtime(start)),
        "cases": sum(tally.cases for tally in tallies.values()),
        "findings": sum(len(tally.findings) for tally in tallies.values()),
        "kinds": {kind: vars(tally) for kind, tally in tallies.items()},
        "libraries": {name: version(name) for name in ALSO if find_spec(name)},
    }
    write(arguments.output, figures)


if __name__ == "__main__":
    sys.exit(main())
