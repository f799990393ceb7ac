"""The numbers in the README are those of the stored results."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_tables_match_the_stored_results():
    command = [sys.executable, str(ROOT / "benchmarks" / "readme.py"), "--check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
