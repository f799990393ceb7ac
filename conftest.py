"""Examples that read molecules are skipped, with the reason, where RDKit is not installed."""

from importlib.util import find_spec

import pytest

MOLECULES = ("chemistry.py", "chemistry.md")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them."""
    if find_spec("rdkit") is None:
        reason = pytest.mark.skip(reason="molecules need the extra chem (RDKit)")
        for item in items:
            if item.path.name in MOLECULES:
                item.add_marker(reason)
