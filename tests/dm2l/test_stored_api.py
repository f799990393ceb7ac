"""The public API is the one that is stored."""

import runpy
from difflib import unified_diff

from stored_fits import STORED


def test_public_api_is_the_stored_one():
    script = runpy.run_path(str(STORED / "write_api.py"))
    stored = script["FILE"].read_text(encoding="utf-8").splitlines()
    changes = list(unified_diff(stored, script["describe"]().splitlines(), lineterm="", n=0))
    assert not changes, "\n".join(
        [*changes, "If this change is meant, run tests/dm2l/stored/write_api.py."]
    )
