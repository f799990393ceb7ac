"""Fixtures of the readers' tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def write(tmp_path):
    """Write text into a file of the test's own folder."""

    def written(text, name="set.arff", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return written
