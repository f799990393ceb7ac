"""Data sets: metadata, loading one by name from a local folder, and scikit-learn's digits."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
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

    The result is as of :func:`dm2l.io.read_npz`.

    Parameters
    ----------
    name : str
        Name of a file without its ending, for example ``"Arts"``: an archive as
        :func:`~dm2l.io.read_npz` describes it, else an ARFF file (with its ``.xml``), else a
        MATLAB file.
    verify : bool, default=False
        Whether to compare the content with the card's hash.

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
    ...         load_dataset("tiny").target.tolist()
    [[1, 0], [0, 1]]
    """
    if not name or any(part in name for part in ("/", "\\", "..", "\0")):
        raise ValueError(
            f"A data set is named by the stem of its archive, such as 'Arts', not by a path; "
            f"got {name!r}."
        )
    card = catalogue().get(name)
    if verify and card is None:
        raise ValueError(f"{name!r} is not in the catalogue: there is no hash to verify it with.")
    folder = os.environ.get(_VARIABLE)
    if folder and not Path(folder).is_dir():
        raise FileNotFoundError(
            f"{_VARIABLE}={folder} is not a folder. Point it to a folder of NAME.npz archives."
        )
    # Looked up among the names that are there: nothing outside the folder can be reached, and a
    # file system that ignores case does not make two names of one set.
    present = _present(Path(folder)) if folder else {}
    if name not in present:
        text = (
            f"The environment variable {_VARIABLE} is not set. Point it to a folder of NAME.npz "
            f"archives, for example: export {_VARIABLE}=/path/to/datasets"
        )
        if folder:
            listing = ", ".join(sorted(present)) or "none"
            text = f"No {name}.npz in {_VARIABLE}={folder}. Present: {listing}."
        if card is not None:
            text += (
                f" Get {name} from {card.home} and put it there as {name}.npz, {name}.arff with "
                f"{name}.xml, or {name}.mat."
            )
        raise FileNotFoundError(text)
    path = present[name]
    bunch = _READERS[path.suffix.lower()](path)
    if card is None or not verify:
        return bunch
    found = content_hash(bunch.data, bunch.target)
    if found != card.sha256:
        (n, d), c = bunch.data.shape, bunch.target.shape[1]
        raise ValueError(
            f"{path} does not hold {card.name} as the catalogue knows it: found {n} rows, {d} "
            f"features, {c} labels with content hash {found}, expected {card.n}, {card.d}, "
            f"{card.c} with {card.sha256}. It may be another edition, scaled or ordered "
            "differently."
        )
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


# What holds for a digit whoever wrote it. "has a loop" follows the usual closed-loop convention of
# print (0, 6, 8, 9): most writers of this set leave the 4 open, so it does not count.
_DIGITS_WITH = {
    "even": (0, 2, 4, 6, 8),
    "prime": (2, 3, 5, 7),
    "has a loop": (0, 6, 8, 9),
    "greater than 4": (5, 6, 7, 8, 9),
    "divisible by 3": (0, 3, 6, 9),
    "square number": (0, 1, 4, 9),
    "straight strokes only": (1, 4, 7),
}

_DESCR = """\
Digit attributes
----------------

The 1797 images of handwritten digits that come with scikit-learn (8 x 8 pixels, grey values
divided by 16), each with 19 labels: the digit itself ("is 0" ... "is 9"); what follows from it
("even", "prime", "has a loop", "greater than 4", "divisible by 3", "square number", "straight
strokes only"); and what depends on the writer ("heavy ink": mean grey value above the median;
"leans right": the mixed central moment of the ink is positive). A digit implies its attributes and
no attribute implies the digit: one-way co-occurrence. No label is missing; hide some with
dm2l.simulate.
"""


def load_digit_attributes(*, return_X_y: bool = False) -> Any:
    """Load scikit-learn's digit images with labels such as "is 4", "even", "prime".

    A digit implies its attributes, and no attribute implies the digit. Nothing is downloaded.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch
        ``data`` (1797 x 64, from 0 to 1), ``target`` (1797 x 19, 0/1), ``target_names``,
        ``feature_names``, ``images``, ``digit`` and ``DESCR``.

    Examples
    --------
    >>> from dm2l.datasets import load_digit_attributes
    >>> load_digit_attributes().target_names[9:12]
    ['is 9', 'even', 'prime']
    """
    raw = load_digits()
    digit = raw.target
    images = raw.images / 16.0
    labels = {f"is {d}": digit == d for d in range(10)}
    labels |= {name: np.isin(digit, digits) for name, digits in _DIGITS_WITH.items()}
    # On the whole grey values 0 to 16, so that both comparisons are exact on every machine.
    ink = raw.images.sum(axis=(1, 2))
    labels["heavy ink"] = ink > np.median(ink)
    # Mixed central moment of the ink times the ink, rows counted from the bottom.
    x, y = np.arange(raw.images.shape[2]), np.arange(raw.images.shape[1])[::-1]
    across, up = raw.images.sum(axis=1) @ x, raw.images.sum(axis=2) @ y
    labels["leans right"] = ink * (raw.images @ x @ y) - across * up > 0

    data: Any = images.reshape(len(images), -1)
    target: Any = np.column_stack(list(labels.values())).astype(np.int8)
    feature_names, target_names = list(raw.feature_names), list(labels)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        target_names=target_names,
        feature_names=feature_names,
        images=images,
        digit=digit,
        DESCR=_DESCR,
    )
