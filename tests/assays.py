"""The table of molecules that the chemistry recipe starts from."""

import runpy
from pathlib import Path

make_assays = runpy.run_path(str(Path(__file__).parents[1] / "docs/recipes/make_assays.py"))[
    "make_assays"
]
LABELS = "NR-*,SR-*"
