"""Skipped tests are listed with the way to run them."""

import re
from pathlib import Path

from tests import conftest

pytest_plugins = ["pytester"]
HERE = Path(__file__).parent


def test_what_is_skipped_is_listed_with_the_way_to_run_it(pytester):
    pytester.makeconftest((HERE / "conftest.py").read_text())
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("k", range(3))
        def test_of_torch(k):
            pytest.importorskip("no_such_torch", reason="torch is an extra")

        @pytest.mark.skipif(True, reason="no browser is installed: none of chromium")
        def test_of_the_page(): ...

        @pytest.mark.xfail
        def test_that_fails():
            assert False

        def test_that_passes(): ...
        """
    )
    shown = pytester.runpytest_inprocess("-p", "no:cacheprovider").stdout.lines
    lines = [line.strip() for line in shown if line.strip()]
    start = next(k for k, line in enumerate(lines) if "not run, and how to run it" in line)
    assert lines[start + 1 : start + 5] == [
        "1 no browser is installed: none of chromium",
        "-> make browser, then make test",
        "3 torch is an extra",
        "-> make test-torch",
    ]


def test_targets_that_are_named_exist():
    makefile = (HERE.parent / "Makefile").read_text()
    named = set(re.findall(r"make ([a-z-]+)", " ".join(conftest.REMEDIES.values())))
    assert {"test-torch", "browser", "test", "test-oldest"} <= named
    assert all(re.search(rf"^{name}:", makefile, flags=re.MULTILINE) for name in named)


def test_every_mark_that_skips_has_a_remedy():
    paths = [path for path in HERE.rglob("test_*.py") if path != Path(__file__)]
    reasons = {r for path in paths for r in re.findall(r'reason="([^"{]*)"', path.read_text())}
    assert len(reasons) > 10
    assert [reason for reason in reasons if not conftest.remedy(reason)] == []
