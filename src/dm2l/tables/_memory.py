"""Refuse a file that memory cannot hold before it fills memory."""

from __future__ import annotations

from pathlib import Path

from dm2l.scale._strategy import available_memory

# Bytes in memory for a byte of the file: a parsed table, its copy as features, a fold of both.
CSV_FACTOR = 3.0
PARQUET_FACTOR = 4.0  # of the unpacked size, which the file itself tells


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
