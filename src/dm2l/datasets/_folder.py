"""Data sets as files in a folder: which are there, and which reader opens them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sklearn.utils import Bunch

from dm2l.readers._archive import read_npz
from dm2l.readers._arff import read_arff
from dm2l.readers._mat import read_mat

# In order of preference, where a set is there in several forms.
READERS: dict[str, Callable[[Path], Bunch]] = {
    ".npz": read_npz,
    ".arff": read_arff,
    ".mat": read_mat,
}


def present(folder: Path) -> dict[str, Path]:
    """Files that can be read, by the names of their data sets."""
    found: dict[str, Path] = {}
    paths = [path for path in folder.glob("*.*") if not path.name.startswith(".")]
    for suffix in READERS:
        for path in sorted(paths):
            if path.suffix.lower() == suffix:
                found.setdefault(path.stem, path)
    return found


def read(path: Path) -> Bunch:
    """Read a file that :func:`present` has found."""
    return READERS[path.suffix.lower()](path)
