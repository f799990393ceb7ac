"""Examples that need RDKit or torch are skipped, with the reason, where it is not installed."""

import gc
from collections.abc import Generator
from importlib.util import find_spec

import pytest

# The module that the examples of some files need, and the reason to skip them without it.
NEEDS = {
    ("chemistry.py", "chemistry.md"): ("rdkit", "molecules need the extra chem (RDKit)"),
    ("torch.py", "networks.md"): ("torch", "torch is an extra"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them."""
    for names, (module, reason) in NEEDS.items():
        if find_spec(module) is None:
            for item in items:
                if item.path.name in names:
                    item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Switch the garbage collector off while tests are collected: it took a third of that time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
