"""A short run of the fuzzer, the same every time; and it sees what it is there to see."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is an extra")

ROOT = Path(__file__).parents[1]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits are those of Linux"),
]


def python(*arguments, **options):
    paths = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        **options,
    )


def test_a_short_run_of_every_kind_finds_nothing(tmp_path):
    figures = tmp_path / "figures.json"
    options = ["--cases", 40, "--jobs", 1, "--keep", tmp_path / "kept", "-o", figures]
    ran = python("-m", "fuzz", *options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(figures.read_text())
    assert found["findings"] == 0
    assert len(found["kinds"]) == 20
    for kind, tally in found["kinds"].items():
        assert tally["cases"] == 40, kind
        # Neither does everything come through, nor is everything stopped at the door.
        assert 0 < tally["results"].get("read", 0) < 40, (kind, tally["results"])


PLANTED = """
import collections, ctypes, itertools, sys, time
from pathlib import Path
import numpy as np
from fuzz import batch
from fuzz.targets import Target

def read(path):
    what = path.read_bytes()
    if what == b"1":
        raise KeyError("x")
    while what == b"2":
        pass
    if what == b"3":
        ctypes.string_at(0)
    if what == b"4":
        np.ones(12_500_000)
    if what == b"5":
        raise ValueError("full") from MemoryError()
    if what == b"6":
        raise ValueError("documented")
    if what == b"7":
        time.sleep(300)
    if what == b"8":  # compiled code that handles no signals
        collections.deque(itertools.repeat(0), maxlen=0)

def seeds(folder):
    (folder / "seed-0").write_bytes(b"x")
    return [folder / "seed-0"]

batch.SECONDS, batch.BYTES = 0.4, 2**26  # it takes seconds, not minutes
target = Target(seeds, read, lambda content, rng: b"%d" % int(NUMBER[0]))
NUMBER = [0]
folder = Path(sys.argv[1])
good = batch.seeds_of(target, folder)
for number in range(9):
    NUMBER[0] = number
    batch.WAIT = 0.5 if number == 7 else 120.0  # a case that sleeps is stopped by this limit alone
    for outcome in batch.run("planted", target, good, range(number, number + 1), 1.0, folder):
        print(outcome.number, outcome.result, bool(outcome.finding), outcome.finding, sep="\\t")
"""


def test_the_fuzzer_sees_errors_hangs_signals_and_memory(tmp_path):
    ran = python("-c", PLANTED, tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = [line.split("\t")[1:4] for line in ran.stdout.splitlines()]
    assert [result for result, *_ in found] == [
        *("read", "KeyError", "TooLong", "death", "read", "ValueError", "ValueError"),
        *("death", "death"),
    ]
    assert [seen == "True" for _, seen, _ in found] == [False, *[True] * 5, False, True, True]
    assert "SIGSEGV" in found[3][2]
    assert "bytes of memory" in found[4][2]
    assert "did not return" in found[7][2]
    assert "SIGXCPU" in found[8][2]


TORN = """
import json
from fuzz import kills
from fuzz.killed import Complete

class Torn(Complete):
    def act(self, pipe):
        self.target.write_bytes(b"")
        with self.target.open("wb", buffering=0) as file:
            for _ in range(40):
                file.write(b"x")

print(json.dumps(kills.try_command(Torn, 6, 0)))
print(json.dumps(kills.try_command(Complete, 5, 0)))
"""


def test_kills_leave_old_or_new_files_and_a_half_one_would_be_seen():
    ran = python("-c", TORN)
    assert ran.returncode == 0, ran.stderr
    torn, proper = map(json.loads, ran.stdout.splitlines())
    assert torn["half"] + torn["lost"] > 0
    assert (proper["lost"], proper["half"], proper["kills"]) == (0, 0, 5)
    assert proper["inside_a_write"] >= 2
