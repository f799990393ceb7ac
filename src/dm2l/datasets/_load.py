"""Data sets by their names: metadata, and loading one from a local folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from sklearn.utils import Bunch

from dm2l.datasets._content import content_hash
from dm2l.io import read_arff, read_mat, read_npz


@dataclass(frozen=True)
class DataSetCard:
    """Metadata of a data set."""

    name: str
    n: int
    d: int
    c: int
    cardinality: float
    sha256: str
    home: str
    note: str = ""


def catalogue() -> dict[str, DataSetCard]:
    """Metadata of the data sets of the paper and of other common ones, by name.

    Examples
    --------
    >>> from dm2l.datasets import catalogue
    >>> sorted(name for name, card in catalogue().items() if card.c > 150)[-3:]
    ['Corel16k009', 'bibtex', 'delicious']
    """
    text = files("dm2l.datasets").joinpath("catalogue.json").read_text(encoding="utf-8")
    return {entry["name"]: DataSetCard(**entry) for entry in json.loads(text)}


_VARIABLE = "DM2L_DATA"

# In order of preference, where a set is there in several forms.
_READERS: dict[str, Callable[[Path], Bunch]] = {
    ".npz": read_npz,
    ".arff": read_arff,
    ".mat": read_mat,
}


def load_dataset(name: str, *, verify: bool = False) -> Bunch:
    """Load a benchmark data set by its name, from the folder that ``DM2L_DATA`` names.

    Parameters
    ----------
    name : str
        Name of a file without its ending, for example ``"Arts"``: an archive as
        :func:`~dm2l.io.read_npz` describes it, else an ARFF file (with its ``.xml``), else a
        MATLAB file.
    verify : bool, default=False
        Whether to compare the content with the card's hash.

    Returns
    -------
    Bunch
        As of :func:`dm2l.io.read_npz`.

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> from unittest import mock
    >>> import numpy as np
    >>> from dm2l.datasets import load_dataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "tiny.npz"), X=np.eye(2), Y=np.array([[1, 0], [0, 1]]))
    ...     with mock.patch.dict(os.environ, DM2L_DATA=folder):
    ...         tiny = load_dataset("tiny")
    >>> tiny.data.shape, tiny.target.tolist(), tiny.source
    ((2, 2), [[1, 0], [0, 1]], None)
    """
    if not name or any(part in name for part in ("/", "\\", "..", "\0")):
        raise ValueError(
            f"A data set is named by the stem of its archive, such as 'Arts', not by a path; "
            f"got {name!r}."
        )
    card = catalogue().get(name)
    if verify and card is None:
        raise ValueError(f"{name!r} is not in the catalogue: there is no hash to verify it with.")
    folder = _data_folder()
    # Looked up among the names that are there: nothing outside the folder can be reached, and a
    # file system that ignores case does not make two names of one set.
    path = _present(folder).get(name) if folder else None
    if path is None:
        raise FileNotFoundError(_absent(name, folder, card))
    bunch = _READERS[path.suffix.lower()](path)
    if verify and card is not None:
        _check_content(bunch, card, str(path))
    return bunch


def _present(folder: Path) -> dict[str, Path]:
    """Files that can be read, by the names of their data sets."""
    found: dict[str, Path] = {}
    paths = [path for path in folder.glob("*.*") if not path.name.startswith(".")]
    for suffix in _READERS:
        for path in sorted(paths):
            if path.suffix.lower() == suffix:
                found.setdefault(path.stem, path)
    return found


def _check_content(bunch: Bunch, card: DataSetCard, where: str) -> None:
    """Refuse data other than those of the card."""
    found = content_hash(bunch.data, bunch.target)
    if found != card.sha256:
        (n, d), c = bunch.data.shape, bunch.target.shape[1]
        raise ValueError(
            f"{where} does not hold {card.name} as the catalogue knows it: found {n} rows, {d} "
            f"features, {c} labels with content hash {found}, expected {card.n}, {card.d}, "
            f"{card.c} with {card.sha256}. It may be another edition, scaled or ordered "
            "differently."
        )


def _data_folder() -> Path | None:
    value = os.environ.get(_VARIABLE)
    if not value:
        return None
    if not Path(value).is_dir():
        raise FileNotFoundError(
            f"{_VARIABLE}={value} is not a folder. Point it to a folder of NAME.npz archives."
        )
    return Path(value)


def _absent(name: str, folder: Path | None, card: DataSetCard | None) -> str:
    if folder is None:
        text = (
            f"The environment variable {_VARIABLE} is not set. Point it to a folder of NAME.npz "
            f"archives, for example: export {_VARIABLE}=/path/to/datasets"
        )
    else:
        listing = ", ".join(sorted(_present(folder))) or "none"
        text = f"No {name}.npz in {_VARIABLE}={folder}. Present: {listing}."
    if card is None:
        return text
    return (
        f"{text} Get {name} from {card.home} and put it there as {name}.npz, {name}.arff with "
        f"{name}.xml, or {name}.mat."
    )
