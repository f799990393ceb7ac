"""The stored records that tables are made from."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def load(name: str, folder: str = "benchmarks/results") -> dict[str, Any]:
    """A record, by the name of its file."""
    found: dict[str, Any] = json.loads((ROOT / folder / f"{name}.json").read_text())
    return found
