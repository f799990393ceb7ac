"""Which table answers belong to."""

from __future__ import annotations

import hashlib

from dm2l.tables import Table


def table_digest(table: Table) -> str:
    """SHA-256 of a table's file; of its columns and labels if it never was in one."""
    if table.path.is_file():
        with table.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    text = "" if table.frame is None else table.frame.to_csv(index=False)
    return hashlib.sha256(text.encode() + table.Y.tobytes()).hexdigest()
