"""A short run of the fuzzer, the same every time: documented errors, no signal, no hang."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("skops", reason="skops is an extra")
pytest.importorskip("pyarrow", reason="pyarrow is an extra")

ROOT = Path(__file__).parents[1]
CASES = {"table": 150, "model": 150, "bundle": 60, "journal": 150, "statistics": 150, "fit": 150}


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits are those of Linux")
@pytest.mark.parametrize("kind", CASES)
def test_a_short_run_of_the_fuzzer_finds_nothing(kind, tmp_path):
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    until = str(time.time() + 600)
    child = subprocess.run(
        [sys.executable, "-m", "fuzz.worker", kind, "0", str(CASES[kind]), until, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert child.returncode == 0, child.stderr[-2000:]
    assert child.stdout == ""
    assert (tmp_path / "case").read_text().strip() == "-1"  # it came to its end
