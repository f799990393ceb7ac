"""The source archive and the wheel of a commit, built more than once into the same bytes."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def git(*words: str) -> str:
    """What git says about this checkout."""
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unpack_commit(folder: Path, commit: str = "HEAD") -> None:
    """The files of a commit, without what lies about in the checkout."""
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    git("archive", "--output", str(archive), commit)
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    archive.unlink()


def build(source: Path, target: Path, epoch: int, *kinds: str) -> dict[str, str]:
    """Build archives of a folder; returns their digests by name."""
    # The backend itself, not a frontend: it is pinned in the lock, and nothing has to be fetched.
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target), *kinds]
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(epoch)}
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)
    return {path.name: digest(path) for path in sorted(target.iterdir())}


def compare(first: Mapping[str, str], second: Mapping[str, str], what: str) -> None:
    """Stop unless two builds have the same bytes."""
    other = sorted(name for name in {*first, *second} if first.get(name) != second.get(name))
    if other:
        raise SystemExit(f"{what}: {', '.join(other)} came out otherwise")


def build_twice(folder: Path, epoch: int) -> tuple[Path, Path]:
    """Source archive and wheel, after a second build and one from the source archive agreed."""
    found = []
    for name in ("first", "elsewhere/second"):  # paths of another length
        unpack_commit(folder / name)
        # Other rights and times, as another machine would have them.
        (folder / name / "pyproject.toml").chmod(0o600 if found else 0o664)
        os.utime(folder / name / "README.md", (epoch + len(found), epoch - len(found)))
        found.append(build(folder / name, folder / f"{name}-built", epoch))
    compare(*found, "the second build")
    wheel, source = sorted(
        (folder / "first-built").iterdir(), key=lambda path: path.suffix == ".gz"
    )
    with tarfile.open(source) as content:
        content.extractall(folder / "unpacked", filter="data")
    (inner,) = (folder / "unpacked").iterdir()
    again = build(inner, folder / "from-source", epoch, "-t", "wheel")
    compare({wheel.name: found[0][wheel.name]}, again, "the wheel from the source archive")
    return source, wheel


def recipe(source: Path, version: str) -> str:
    """The recipe for conda-forge; its source lies at SOURCE_AT, or beside it."""
    text = (ROOT / "release" / "recipe.yaml").read_text()
    folder, name = os.environ.get("SOURCE_AT"), source.name
    if folder:
        text = re.sub(r"  # The archive beside.*\n  path:", "  url:", text)
        name = f"{folder}/{name}"
    filled = {"VERSION": version, "SOURCE": name, "SHA256": digest(source)}
    return re.sub("@([A-Z0-9]+)@", lambda mark: filled[mark[1]], text)


def pins() -> str:
    """Versions of the tests' lock, without digests: what the wheel is tried with."""
    lock = (ROOT / "requirements" / "test.txt").read_text()
    return "\n".join(re.findall(r"^[A-Za-z0-9._-]+==[^\\\n]+", lock, flags=re.MULTILINE)) + "\n"
