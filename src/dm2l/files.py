"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

__all__ = ["whole_file"]


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path in the same folder to write to; renamed to ``path`` when all went well.

    If ``path`` is a symbolic link, it stays one: what it points to is written.

    Parameters
    ----------
    path : Path
        The file; one that is there is replaced at once, or stays as it was.

    Yields
    ------
    Path
        Where to write. Its suffix is that of ``path``: some writers go by it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l.files import whole_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(Path(folder, "notes.txt")) as partial:
    ...         _ = partial.write_text("all of it")
    ...     [path.name for path in Path(folder).iterdir()]
    ['notes.txt']
    """
    target = Path(os.path.realpath(path))
    partial = target.with_name(f".{token_hex(4)}.part.{path.name}")
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
