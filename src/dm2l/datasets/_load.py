"""Loading a data set by its name."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from sklearn.utils import Bunch

from dm2l.datasets._catalogue import DataSetCard, catalogue
from dm2l.datasets._fetch import VARIABLE as CACHE_VARIABLE
from dm2l.datasets._fetch import cache_folder, check_content, fetch, forms
from dm2l.datasets._folder import present, read

_VARIABLE = "DM2L_DATA"


def load_dataset(name: str, *, verify: bool = False, download: bool = True) -> Bunch:
    """Load a benchmark data set by its name.

    It is looked for in the folder that ``DM2L_DATA`` names, then in the cache folder
    (``DM2L_CACHE``, or where the platform keeps caches). If it is in neither and its card in the
    :func:`catalogue` has the address and the hash of a file, that file is fetched (extra
    ``data``) and kept in the cache folder.

    Parameters
    ----------
    name : str
        Name of a file without its ending, for example ``"Arts"``: an archive as
        :func:`read_npz` describes it, else an ARFF file (with its ``.xml``), else a MATLAB file.
    verify : bool, default=False
        Whether to compare the content with the card's hash.
    download : bool, default=True
        Whether the internet may be asked.

    Returns
    -------
    Bunch
        ``data`` (float64, dense or CSR), ``target`` (int8 0/1, or float64 with NaN where labels
        are missing), and ``target_names``, ``feature_names``, ``train_index``, ``test_index``,
        ``source``, each None where the file does not say.

    Raises
    ------
    FileNotFoundError
        If there is no such data set and none can be fetched; the message says where to get it
        and where to put it.
    ConnectionError
        If fetching fails.
    ValueError
        If the content is not that of the card.

    See Also
    --------
    catalogue : The data sets that are known by name.

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
    path = present(folder).get(name) if folder else None
    # Without pooch nothing can have been fetched, unless the user names a cache of their own.
    if path is None and (os.environ.get(CACHE_VARIABLE) or find_spec("pooch")):
        path = present(cache_folder()).get(name)
    if path is None:
        if card is None or card.url is None or card.file_sha256 is None or not download:
            raise FileNotFoundError(_absent(name, folder, card))
        path = fetch(card)
    bunch = read(path)
    if verify and card is not None:
        check_content(bunch, card, str(path))
    return bunch


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
        listing = ", ".join(sorted(present(folder))) or "none"
        text = f"No {name}.npz in {_VARIABLE}={folder}. Present: {listing}."
    if card is None:
        return text
    why = "download=False" if card.url and card.file_sha256 else "its card has no file to fetch"
    return (
        f"{text}\n{name} was not fetched ({why}). Get it from {card.home} and put it there as "
        f"{forms(name)}."
    )
