"""Memory: how much is free, and refusing what would not fit before it is made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dm2l._utils.files import DataFileError

__all__ = ["available_memory", "check_room", "check_width", "room"]

_NAMED = 100  # bytes of a column's name and of a weight for it, at the least


def available_memory() -> int | None:
    """Bytes that can be had without swapping; None where the system does not say."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    names: Any = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def room() -> float:
    """Bytes that what is read may take; infinite where the system does not say."""
    free = available_memory()
    return float("inf") if free is None else free


def check_room(path: str | os.PathLike[str], size: float, what: str, way_out: str = "") -> None:
    """Refuse a file of which more bytes would be made than are free."""
    free = room()
    if size > free:
        raise DataFileError(
            path,
            f"{what} takes about {_amount(size)} of memory; {_amount(free)} are free",
            way_out=way_out,
        )


def check_width(path: str | os.PathLike[str], columns: int) -> None:
    """Refuse a sparse matrix of more columns than names and weights can be had for."""
    if columns > 2**16:  # to ask the system takes longer than to read a small file
        check_room(path, _NAMED * columns, f"a table of {columns} features")


def _amount(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
