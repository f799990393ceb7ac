"""The numbers in the README are those of the stored results."""

import subprocess
import sys
from pathlib import Path

import pytest

from dm2l_lab.paper._methods import WIDTHS_AND_WEIGHTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "program",
    [
        [str(ROOT / "benchmarks/readme.py")],
        [str(ROOT / "fuzz/figures.py")],
        ["-m", "dm2l_lab.paper.document"],
    ],
)
def test_tables_match_the_stored_results(program):
    command = [sys.executable, *program, "--check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def test_widths_of_the_published_kernel_model_are_the_ones_that_agree_with_the_paper():
    command = [sys.executable, "-m", "dm2l_lab.paper.widths"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = {
        tuple(line.rsplit(maxsplit=3)[0].split(maxsplit=1)): int(line.split()[-3]) for line in lines
    }
    for dataset, (sigma, weight) in WIDTHS_AND_WEIGHTS.items():
        counts = {setting: n for (name, setting), n in found.items() if name == dataset}
        if counts:  # of Corel16k the first
            assert counts[f"sigma {sigma:g}, lambda_d {weight:g}"] >= max(counts.values()) - 1 >= 10


def test_the_readme_is_short_and_begins_with_a_picture():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 150
    (picture,) = [line for line in lines[:10] if line.startswith("![")]
    assert (ROOT / picture.split("(")[1].rstrip(")")).exists()
