"""Free memory, and refusing data that do not fit before they are made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dm2l._utils.files import DataFileError

_BYTES_PER_NAME = 100  # of a column's name and of a weight for it, at the least


def available_memory(unknown: float = float("inf")) -> float:
    """Bytes that can be used without swapping; ``unknown`` where the system does not say."""
    free = _probe()
    return unknown if free is None else free


def _probe() -> int | None:
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    names: Any = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def check_memory(path: str | os.PathLike[str], size: float, what: str, hint: str = "") -> None:
    """Refuse a file of which more bytes would be made than are free."""
    free = available_memory()
    if size > free:
        raise DataFileError(
            path,
            f"{what} takes about {_amount(size)} of memory; {_amount(free)} are free",
            hint=hint,
        )


def check_width(path: str | os.PathLike[str], columns: int) -> None:
    """Refuse a sparse matrix of more columns than names and weights can be had for."""
    if columns > 2**16:  # to ask the system takes longer than to read a small file
        check_memory(path, _BYTES_PER_NAME * columns, f"a table of {columns} features")


def _amount(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
