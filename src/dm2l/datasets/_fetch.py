"""Fetching a data set into the cache folder."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from sklearn.utils import Bunch

from dm2l.datasets._catalogue import DataSetCard
from dm2l.datasets._content import content_hash
from dm2l.datasets._folder import READERS, present, read
from dm2l.datasets._unpack import unpack
from dm2l.readers._archive import write_npz
from dm2l.readers._columns import require

VARIABLE = "DM2L_CACHE"
_EXTRA = "data"
_TIMEOUT = 30  # seconds without an answer
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


def cache_folder() -> Path:
    """``DM2L_CACHE``, or the folder the platform keeps caches in. It need not exist."""
    value = os.environ.get(VARIABLE)
    return Path(value).expanduser() if value else Path(require("pooch", _EXTRA).os_cache("dm2l"))


def fetch(card: DataSetCard) -> Path:
    """Fetch a data set, check it, and keep it as ``NAME.npz`` in the cache folder.

    The file is checked against its hash before it is opened. All that happens in a folder of its
    own: what is under ``NAME.npz`` was complete and right.
    """
    if card.url is None or card.file_sha256 is None:
        raise ValueError(f"The card of {card.name} has no address, or no hash, of a file.")
    pooch = require("pooch", _EXTRA)
    requests = require("requests", _EXTRA)
    file_name = PurePosixPath(urlsplit(card.url).path).name.lower()
    if not file_name.endswith((*READERS, *_ARCHIVES)):
        raise ValueError(f"{card.name}: {file_name!r} is in no form that can be opened.")
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix=f".{card.name}-") as scratch:
        try:
            file = pooch.retrieve(
                card.url,
                known_hash=f"sha256:{card.file_sha256}",
                fname=file_name,
                path=scratch,
                downloader=pooch.HTTPDownloader(timeout=_TIMEOUT),
            )
        except requests.RequestException as error:
            raise ConnectionError(
                f"{card.name} could not be fetched from {card.url} ({type(error).__name__}). "
                f"Without a connection, bring the file from {card.home} by other means and put it "
                f"into the folder that DM2L_DATA names, as {forms(card.name)}."
            ) from error
        bunch = _open(Path(file), card)
        check_content(bunch, card, card.url)
        bunch.source = bunch.source or card.url
        path = folder / f"{card.name}.npz"
        write_npz(path, bunch)
    return path


def check_content(bunch: Bunch, card: DataSetCard, where: str) -> None:
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


def forms(name: str) -> str:
    """The files that stand for a data set, in words."""
    return f"{name}.npz, {name}.arff with {name}.xml, or {name}.mat"


def _open(file: Path, card: DataSetCard) -> Bunch:
    if not file.name.endswith(_ARCHIVES):
        return read(file)
    with TemporaryDirectory(dir=file.parent) as inside:
        unpack(file, Path(inside), {*READERS, ".xml"})
        found = present(Path(inside))
        same = [path for stem, path in found.items() if stem.casefold() == card.name.casefold()]
        chosen = same or list(found.values())
        if len(chosen) != 1:
            listing = ", ".join(sorted(found)) or "none"
            raise ValueError(
                f"{file.name} has no single file for {card.name}; readable files in it: {listing}."
            )
        return read(chosen[0])
