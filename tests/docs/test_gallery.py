"""The gallery runs, and the API page leaves no module out."""

from __future__ import annotations

import pkgutil
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt

import dm2l

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))
# The command line has pages of its own.
UNLISTED = {"dm2l.cli"}


@pytest.fixture
def figures() -> Iterator[None]:
    mpl.use("agg")
    yield
    plt.close("all")


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_draws(path: Path, figures: None) -> None:
    if path.stem == "plot_10_molecules":
        pytest.importorskip("rdkit", reason="molecules need the extra chem (RDKit)")
    runpy.run_path(str(path), run_name="__main__")
    assert plt.get_fignums()


def test_api_page_lists_every_public_name() -> None:
    docs = ROOT / "docs"
    page = runpy.run_path(str(docs / "write_api_page.py"))["page"]()
    assert page == (docs / "api.md").read_text(encoding="utf-8"), "run docs/write_api_page.py"
    modules = {f"dm2l.{module.name}" for module in pkgutil.iter_modules(dm2l.__path__)}
    public = {name for name in modules if not name.startswith("dm2l._")}
    assert public - UNLISTED <= set(re.findall(r"py:module:: (\S+)", page))


def test_every_example_is_named_in_the_guide_or_the_recipes() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert [path.stem for path in EXAMPLES if f"gallery/{path.stem})" not in pages] == []
