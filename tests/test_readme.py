"""The numbers in the README are those of the stored results."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("script", ["benchmarks/readme.py", "results/document.py"])
def test_tables_match_the_stored_results(script):
    command = [sys.executable, str(ROOT / script), "--check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
