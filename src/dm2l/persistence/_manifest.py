"""The manifest: what a model file holds, and how to know that it is still that."""

from __future__ import annotations

import hashlib
import json
import platform
from typing import Any

import numpy as np
import scipy
import sklearn

from dm2l import __version__
from dm2l.persistence._archive import Archive, ModelFileError, brief

FORMAT = "dm2l model"
VERSION = 2
MANIFEST = "manifest.json"
HASH = "manifest.sha256"
MAX_JSON = 48 * 2**20
# Bytes that Python makes of a comma and a bracket, and of a brace, with what goes with it.
_PER_VALUE, _PER_OBJECT = 64, 256
_MAX_MADE = 2**26


def write_manifest(model: Any, members: dict[str, Any]) -> bytes:
    """The text of a manifest."""
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "dm2l": __version__,
        "libraries": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "model": model,
        "members": members,
    }
    text = json.dumps(manifest, allow_nan=False).encode("ascii")
    if len(text) > MAX_JSON:
        raise ValueError(
            f"The manifest of the model has {len(text)} bytes, and may have {MAX_JSON}."
        )
    try:
        check_made(text)
    except ModelFileError as error:
        raise ValueError(f"The model cannot be saved: {error}") from error
    return text


def check_made(text: bytes) -> None:
    """Refuse JSON of which Python would make much more than it is long, such as empty lists.

    Marks inside of texts are counted too: they would have to be most of the file to matter.
    """
    values = text.count(b",") + text.count(b"[")
    made = _PER_VALUE * values + _PER_OBJECT * text.count(b"{")
    if made > _MAX_MADE + 4 * len(text):
        raise ModelFileError(
            f"{len(text)} bytes of JSON hold about {values} values, too many for their length."
        )


def read_manifest(archive: Archive) -> dict[str, Any]:
    """The manifest, which must be that of a model, unchanged and not from the future."""
    text = archive.read(MANIFEST, MAX_JSON)
    digest = archive.read(HASH, 64)
    if hashlib.sha256(text).hexdigest().encode() != digest:
        raise ModelFileError("its manifest was changed: SHA-256 differs.")
    check_made(text)
    try:
        manifest = json.loads(
            text.decode("ascii"),
            object_pairs_hook=_distinct,
            parse_constant=_refuse,
            parse_float=_finite,
        )
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"its manifest is not proper JSON ({error}).") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFileError("its manifest is not that of a dm2l model.")
    version = manifest.get("version")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"its format has the version {brief(version)}.")
    if version > VERSION:
        writer = brief(manifest.get("dm2l")).strip("'")
        raise ModelFileError(
            f"its format, version {version}, is newer than this dm2l ({__version__}), which knows "
            f"up to version {VERSION}. It was written by dm2l {writer}: update."
        )
    if version < VERSION:
        raise ModelFileError(
            f"it was saved by an earlier development version of dm2l (format {version}; this one "
            f"reads format {VERSION}). Fit the model again and save it."
        )
    if not isinstance(manifest.get("members"), dict):
        raise ModelFileError("its manifest has no proper 'members'.")
    if "model" not in manifest:
        raise ModelFileError("its manifest has no 'model'.")
    return manifest


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice in an object")
    return found


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    return value if np.isfinite(value) else _refuse(text)
