"""``python -m fuzz.kills --kills 100``: commands are killed, then what they leave is looked at.

Of the kills of a command, two of five are inside a write. Half of these come from the kernel: files
may grow to a number of bytes and no further, and the write that would cross it ends the process
after the bytes that still fit (SIGXFSZ, as final as SIGKILL); a journal, which would take that for
a full disk, is killed after some letters of a line. The others come when a file is about to be
synced or renamed, or has just been. The remaining ones come at any moment.

Lost is what was there before, or what the command had said to be safe. Half is a file under its
name that is neither the old nor the new one.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.record import write
from fuzz.killed import COMMANDS, Killed

AT_RENAMES = ("fsync", "before rename", "after rename")


class Kill(NamedTuple):
    """When a process ends: after a time, at a number of bytes, or at a point of writing."""

    seconds: float | None = None
    bytes: int | None = None
    point: str | None = None


def start(action: Callable[[int], None], kill: Kill) -> tuple[int, int]:
    """Fork a process that acts, with a pipe for what it tells; its number, and the pipe's end."""
    ends = os.pipe()
    child = os.fork()
    if child:
        os.close(ends[1])
        return child, ends[0]
    try:
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        if kill.bytes is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it otherwise
            resource.setrlimit(resource.RLIMIT_FSIZE, (kill.bytes, kill.bytes))
        if kill.point is not None:
            _end_at(kill.point)
        action(ends[1])
    finally:
        os._exit(0)


def _end_at(point: str) -> None:
    """Have this process end itself where the point is reached."""
    fsync, replace, fdopen = os.fsync, os.replace, os.fdopen

    def ending_fsync(file: int) -> None:
        if point == "fsync":
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(file)

    def ending_replace(*arguments: Any) -> None:
        if point == "before rename":
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*arguments)
        if point == "after rename":
            os.kill(os.getpid(), signal.SIGKILL)

    def ending_fdopen(file: int, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        torn = point.startswith("after letter") and mode == "r+b"
        return Torn(file, mode, point) if torn else fdopen(file, mode, *arguments, **options)

    os.fsync, os.replace, os.fdopen = ending_fsync, ending_replace, ending_fdopen


class Torn(io.FileIO):
    """A journal, whose second line from now on is begun and not ended."""

    def __init__(self, file: int, mode: str, point: str) -> None:
        super().__init__(file, mode)
        self._letter, self._lines = int(point.split()[-1]), 0

    def write(self, line: Any) -> int:
        """A line, or the beginning of one."""
        self._lines += 1
        if self._lines < 2:
            return super().write(line)
        super().write(line[: min(self._letter, len(line) - 1)])
        os.kill(os.getpid(), signal.SIGKILL)
        return 0


def finish(child: int, pipe: int, kill: Kill) -> tuple[bool, list[Any]]:
    """Wait for the end, or bring it about; whether it was killed, and what it had told."""
    end = None if kill.seconds is None else time.monotonic() + kill.seconds
    text = b""
    while True:
        left = None if end is None else max(0.0, end - time.monotonic())
        ready, _, _ = select.select([pipe], [], [], left)
        piece = os.read(pipe, 2**16) if ready else b""
        text += piece
        if not piece:
            break
    if not ready:
        os.kill(child, signal.SIGKILL)
        while piece := os.read(pipe, 2**16):
            text += piece
    os.close(pipe)
    killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    return killed, [json.loads(line) for line in text.splitlines() if line.endswith(b"}")]


def undisturbed(action: Callable[[int], None]) -> tuple[float, list[Any]]:
    """Seconds that it takes in a process of its own, and what it tells."""
    began = time.monotonic()
    killed, told = finish(*start(action, Kill()), Kill(seconds=120.0))
    if killed:
        raise RuntimeError("what nobody disturbs does not come to its end")
    return time.monotonic() - began, told


def draw(command: Killed, inside: bool, seconds: float, rng: random.Random) -> Kill:
    """A kill of the wanted sort."""
    if not inside:
        return Kill(seconds=rng.uniform(0.0, seconds))
    if rng.random() < 0.5 and command.renames:
        return Kill(point=rng.choice(AT_RENAMES))
    sizes = command.sizes()
    if sizes is None:
        return Kill(point=f"after letter {rng.randrange(1, 140)}")
    return Kill(bytes=rng.randrange(*sizes))


def try_command(make: Callable[[Path], Killed], kills: int, seed: int) -> dict[str, Any]:
    """Kill a command so often; figures."""
    rng = random.Random(seed)
    figures: dict[str, Any] = {"kills": 0, "inside_a_write": 0, "lost": 0, "half": 0, "ended": 0}
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        command = make(Path(name))
        seconds, told = undisturbed(command.act)
        command.check(undisturbed(command.look)[1], told)
        command.reset()
        while figures["kills"] < kills:
            inside = figures["inside_a_write"] < 0.4 * (figures["kills"] + 1)
            kill = draw(command, inside, seconds, rng)
            killed, told = finish(*start(command.act, kill), kill)
            figures["ended"] += not killed  # it was done before
            figures["kills"] += killed
            figures["inside_a_write"] += killed and kill.seconds is None
            lost, half = command.check(undisturbed(command.look)[1], told)
            figures["lost"] += lost
            figures["half"] += half
            command.after(rng)
        command.reset()
        told = undisturbed(command.act)[1]
        lost, half = command.check(undisturbed(command.look)[1], told)
        figures["lost"] += lost
        figures["half"] += half
    return figures


def main() -> int:
    """Kill all commands; 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="of each command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", nargs="*", default=list(COMMANDS), choices=list(COMMANDS))
    parser.add_argument("-o", "--output", type=Path, help="where figures go, as JSON")
    arguments = parser.parse_args()
    found = {}
    for name in arguments.commands:
        found[name] = try_command(COMMANDS[name], arguments.kills, arguments.seed)
        sys.stdout.write(f"{name}: {found[name]}\n")
        sys.stdout.flush()
    if arguments.output:
        write(arguments.output, {"seed": arguments.seed, "commands": found})
    return int(any(one["lost"] or one["half"] for one in found.values()))


if __name__ == "__main__":
    sys.exit(main())
