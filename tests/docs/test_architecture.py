"""The picture of the packages shows the import contract as it is."""

import runpy
from pathlib import Path

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def test_picture_is_that_of_the_contract():
    drawn = runpy.run_path(str(IMAGES / "architecture.py"))["draw"]()
    assert drawn == (IMAGES / "architecture.svg").read_text(encoding="utf-8")


def test_every_step_belongs_to_a_package():
    script = runpy.run_path(str(IMAGES / "architecture.py"))
    packages = {package for layer in script["layers"]() for package in layer}
    assert (script["FIT_STEPS"].keys() | script["TABLE_STEPS"].keys()) <= packages
