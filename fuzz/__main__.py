"""``python -m fuzz --minutes 60``: every kind in turn, findings and figures at the end."""

from __future__ import annotations

import argparse
import collections
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fuzz.targets import TARGETS

ROUND = 500  # cases of a child


def run(kind: str, start: int, until: float, keep: Path | None) -> tuple[int, list[str]]:
    """A round of cases; their number and the findings. A child that dies is one, and ends it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [
            sys.executable,
            "-m",
            "fuzz.worker",
            kind,
            str(start),
            str(ROUND),
            str(until),
            name,
        ]
        child = subprocess.run(command, capture_output=True, check=False)
        found = [f"{kind}\t{line}" for line in child.stdout.decode(errors="replace").splitlines()]
        reached = int((folder / "case").read_text()) if (folder / "case").exists() else start
        if reached < 0 and not child.returncode:
            return ROUND, found
        if not (folder / "case").exists():
            sys.exit(f"{kind} cannot be tried: {child.stderr.decode(errors='replace')[-2000:]}")
        found.append(f"{kind}\t{reached}\tthe process ended with {child.returncode}")
        if keep is not None:
            shutil.copytree(folder, keep / f"{kind}-{reached}", dirs_exist_ok=True)
        return reached - start + 1, found


def main() -> int:
    """Run until the time is over; 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--kinds", nargs="*", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--keep", type=Path, help="a folder for files that end the process")
    arguments = parser.parse_args()
    until = time.time() + 60 * arguments.minutes
    counts: collections.Counter[str] = collections.Counter()
    findings: list[str] = []
    while time.time() < until:
        for kind in arguments.kinds:
            if time.time() < until:
                start = arguments.seed + counts[kind]
                n, found = run(kind, start, until, arguments.keep)
                counts[kind] += n
                findings += found
                for line in found:
                    sys.stdout.write(f"{line}\n")
    for kind, n in counts.items():
        here = sum(line.startswith(f"{kind}\t") for line in findings)
        sys.stdout.write(f"{kind:12} up to {n} cases, {here} findings\n")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
