"""The source archive has what its tests read."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_source_archive_includes_what_tests_read():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    missing = [name for name in included if not (ROOT / name).exists()]
    read = {
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(
            r'(?:ROOT|parents\[2\]) / "([A-Za-z_.]+)"', path.read_text(encoding="utf-8")
        )
    }
    assert len(read) > 3
    assert not missing
    assert read - {"pyproject.toml"} <= set(included)
