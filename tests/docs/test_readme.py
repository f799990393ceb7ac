"""The numbers in the README are those of the stored results."""

import re
from pathlib import Path

import pytest

from experiments.protocols import WIDTHS_AND_WEIGHTS
from experiments.tables import write_pages
from experiments.widths import agreement

ROOT = Path(__file__).parents[2]


def test_tables_match_the_stored_results():
    write_pages(check=True)


def test_widths_of_the_published_kernel_model_are_the_ones_that_agree_with_the_paper():
    found = agreement()
    for dataset, (sigma, weight) in WIDTHS_AND_WEIGHTS.items():
        counts = {setting: n for (name, setting), n in found.items() if name == dataset}
        if counts:  # of Corel16k the first
            assert counts[f"sigma {sigma:g}, lambda_d {weight:g}"] >= max(counts.values()) - 1 >= 10


def test_the_readme_is_short_and_begins_with_a_picture():
    text = (ROOT / "README.md").read_text()
    lines = text.splitlines()
    assert len(lines) <= 120
    assert len(text.split()) <= 700
    (picture,) = [line for line in lines[:10] if line.startswith("![")]
    assert (ROOT / picture.split("(")[1].rstrip(")")).exists()


def pages_for_users() -> list[Path]:
    docs = ROOT / "docs"
    folders = ("start", "guide", "recipes", "commands", "help")
    return [page for name in folders for page in (docs / name).glob("*.md")]


@pytest.mark.parametrize("page", pages_for_users(), ids=lambda page: page.stem)
def test_user_pages_are_short(page):
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert len(prose.split()) <= 900
