"""Archives from the internet, opened with care."""

from __future__ import annotations

import stat
import tarfile
import zipfile
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO

MAX_BYTES = 4 * 2**30
MAX_MEMBERS = 10_000
_CHUNK = 2**20


def unpack(
    archive: Path, folder: Path, suffixes: Collection[str], max_bytes: int | None = None
) -> list[Path]:
    """Write the members with one of the ``suffixes`` side by side into ``folder``.

    Nothing is written unless every member is harmless: no absolute path, no "..", no link and
    nothing special. ``max_bytes`` (4 GiB unless told) bounds what is written, counted while
    writing: what an archive says of its own sizes is not believed.
    """
    budget = MAX_BYTES if max_bytes is None else max_bytes
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            return _write(list(_zip_members(opened)), archive, folder, suffixes, budget)
    if tarfile.is_tarfile(archive):
        with tarfile.open(archive) as opened_tar:
            return _write(list(_tar_members(opened_tar)), archive, folder, suffixes, budget)
    raise ValueError(f"{archive.name} is neither a zip nor a tar archive.")


_Member = tuple[str, str, Callable[[], IO[bytes]]]  # name, what is wrong with it, how to open it


def _zip_members(archive: zipfile.ZipFile) -> Iterator[_Member]:
    for info in archive.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            yield info.filename, "is a link or a special file", partial(archive.open, info)
        elif info.flag_bits & 1:
            yield info.filename, "is encrypted", partial(archive.open, info)
        elif not info.is_dir():
            yield info.filename, "", partial(archive.open, info)


def _tar_members(archive: tarfile.TarFile) -> Iterator[_Member]:
    for info in islice(archive, MAX_MEMBERS + 1):
        if not info.isdir():
            wrong = "" if info.isreg() else "is a link or a special file"
            yield info.name, wrong, partial(_open_tar, archive, info)


def _open_tar(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    opened = archive.extractfile(info)
    if opened is None:
        raise ValueError(f"The member {info.name!r} of the archive has no content.")
    return opened


def _write(
    members: list[_Member], archive: Path, folder: Path, suffixes: Collection[str], budget: int
) -> list[Path]:
    if len(members) > MAX_MEMBERS:
        raise ValueError(f"{archive.name} has more than {MAX_MEMBERS} members; not unpacked.")
    for name, wrong, _ in members:
        wrong = wrong or _wrong_path(name)
        if wrong:
            raise ValueError(f"{archive.name} is not unpacked: its member {name!r} {wrong}.")
    written: list[Path] = []
    for name, _, opened in members:
        # Only the last part of the name is used: no member can choose its folder.
        target = folder / PurePosixPath(name).name
        if target.suffix.lower() not in suffixes:
            continue
        if target.exists():
            raise ValueError(f"{archive.name} has two files named {target.name!r}.")
        with opened() as source, target.open("xb") as sink:
            while chunk := source.read(_CHUNK):
                budget -= len(chunk)
                if budget < 0:
                    raise ValueError(
                        f"{archive.name} unpacks to more than it may (stopped in {name!r})."
                    )
                sink.write(chunk)
        written.append(target)
    return written


def _wrong_path(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or "\\" in name or ":" in name or "\0" in name:
        return "has an absolute path or one of another system"
    if ".." in path.parts:
        return "has '..' in its path"
    return ""
