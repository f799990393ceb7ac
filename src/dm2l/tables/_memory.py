"""Refuse a file that memory cannot hold before it fills memory."""

from __future__ import annotations

import os
from pathlib import Path

# Bytes in memory for a byte of the file: a parsed table, its copy as features, a fold of both.
CSV_FACTOR = 3.0
PARQUET_FACTOR = 4.0  # of the unpacked size, which the file itself tells


def available_memory() -> int | None:
    """Bytes that can be had without swapping; None where the system does not say."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def check_size(path: Path, size: int, factor: float) -> None:
    """Raise if ``size`` bytes of table, as they grow in memory, do not fit."""
    free = available_memory()
    if free is not None and size * factor > free:
        raise ValueError(
            f"{path} holds {_amount(size)}, which takes about {_amount(size * factor)} of memory "
            f"to work with; {_amount(free)} are free. Keep fewer columns or a sample of the rows, "
            "or take a machine with more memory; completing can go on in parts, one file each, "
            "with a model that was fitted to a sample."
        )


def _amount(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
