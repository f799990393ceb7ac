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


def processor() -> str:
    """Name of the processor, where the system tells it."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def machine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "dm2l": dm2l.__version__,
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "processor": processor(),
        "blas": [[b["internal_api"], b["num_threads"]] for b in threadpool_info()],
    }


def write(path: Path, record: dict[str, Any], ran_on: str | None = None) -> None:
    """Store a record; the file is complete or not there.

    ``ran_on`` names the machine of lines that were computed elsewhere and are added up here.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    here = machine() if ran_on is None else ran_on
    partial.write_text(json.dumps(record | {"machine": here}, indent=1) + "\n")
    partial.replace(path)
