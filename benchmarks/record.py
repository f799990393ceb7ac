"""Write results with what is needed to make them again: settings, versions, machine."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

import dm2l


def machine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "dm2l": dm2l.__version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "blas": [[b["internal_api"], b["num_threads"]] for b in threadpool_info()],
    }


def write(path: Path, record: dict[str, Any]) -> None:
    """Store a record; the file is complete or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(record | {"machine": machine()}, indent=1) + "\n")
    partial.replace(path)
