"""Models to files and back."""

import hashlib
import json
import os
import platform
import re
import stat
import textwrap
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

from dm2l import __version__
from dm2l.persistence._archive import (
    MAX_BYTES,
    MAX_MEMBERS,
    Archive,
    ModelFileError,
    brief,
    new_member,
    replacing,
    write_array,
)
from dm2l.persistence._building import Builder
from dm2l.persistence._reading import Reader
from dm2l.persistence._schema import parse
from dm2l.persistence._writing import Writer

FORMAT = "dm2l model"
VERSION = 2
MANIFEST = "manifest.json"
HASH = "manifest.sha256"
MAX_JSON = 48 * 2**20
# Bytes that Python makes of a comma and a bracket, and of a brace, with what goes with it.
_PER_VALUE, _PER_OBJECT = 64, 256
_MAX_MADE = 2**26
_MAX_MESSAGE = 2000  # characters: some of what is said comes from the file
_MODEL = parse("Estimator | Model")


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to a file that ``load_model`` reads without running any code.

    The file is an uncompressed zip archive: arrays in numpy's format, a JSON manifest, and
    nothing that pickle would read. It takes the place of an existing one only when it is whole.

    Parameters
    ----------
    model : estimator
        An estimator of dm2l, fitted or not; or an estimator of scikit-learn around one, such as a
        pipeline. Functions cannot be saved, for instance a callable as ``kernel``. Classes other
        than those listed in the user guide are saved too, but load only with ``trusted``.
    path : path-like
        The file.

    See Also
    --------
    load_model : The way back.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l import DM2LClassifier
    >>> from dm2l.datasets import make_missing_multilabel
    >>> from dm2l.persistence import load_model, save_model
    >>> X, Y = make_missing_multilabel(n_samples=100, random_state=0)
    >>> model = DM2LClassifier(lambda_d=0.1).fit(X, Y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, Path(folder, "tags.dm2l"))
    ...     again = load_model(Path(folder, "tags.dm2l"))
    >>> bool((again.decision_function(X) == model.decision_function(X)).all())
    True
    """
    if not isinstance(model, BaseEstimator):
        raise TypeError(f"model must be an estimator of dm2l or scikit-learn, got {model!r}.")
    writer = Writer()
    root = writer.write(model, type(model).__name__)
    arrays = writer.arrays
    reader = Reader(arrays.__getitem__, frozenset())
    try:  # what would not load is not saved
        reader.read(root, _MODEL, type(model).__name__, {})
    except ModelFileError as error:
        raise TypeError(f"The model cannot be saved: {error}") from error
    write_file(path, root, arrays)


def write_file(path: str | os.PathLike[str], root: Any, arrays: dict[str, NDArray[Any]]) -> None:
    """Write a manifest and its arrays, whatever they are."""
    if len(arrays) + 2 > MAX_MEMBERS:
        raise ValueError(
            f"The model has {len(arrays)} arrays; a file has at most {MAX_MEMBERS} members."
        )
    with replacing(Path(path)) as file, zipfile.ZipFile(file, "w") as archive:
        hashes = {name: write_array(archive, name, array) for name, array in arrays.items()}
        text = _write_manifest(root, {name: {"sha256": digest} for name, digest in hashes.items()})
        archive.writestr(new_member(MANIFEST), text)
        archive.writestr(new_member(HASH), hashlib.sha256(text).hexdigest())


def load_model(
    path: str | os.PathLike[str],
    *,
    trusted: Iterable[str] = (),
    max_bytes: int = MAX_BYTES,
    like: Any = None,
) -> Any:
    """Read a model that ``save_model`` wrote.

    The file may come from anywhere: it is read as data, every value is checked against a list of
    the classes, attributes, types and shapes that models of dm2l have, and only then are objects
    made. Nothing of the file is run.

    Parameters
    ----------
    path : path-like
        The file.
    trusted : iterable of str, default=()
        Further classes and functions that the file may hold, by their full names; the error lists
        those that are missing. Nothing about them is checked: trusting a class is as unsafe as
        loading a pickle, so do it only for files whose author you know.
    max_bytes : int, default=4 GiB
        The largest file that is read. Memory follows the size of the file.
    like : array, default=None
        Arrays that were of another library when the model was saved (torch, cupy) go to the
        library and the device of this one. None makes them numpy arrays, and a model that
        predicts from numpy arrays.

    Returns
    -------
    estimator
        Equal to what was saved: the same parameters, and the same numbers to the last bit where
        numpy arrays were saved.

    Raises
    ------
    ModelFileError
        If the file is not a whole model file, is newer than this dm2l or holds types that are not
        trusted.

    See Also
    --------
    save_model : Writes such files.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l.baselines import MaskedRidgeClassifier
    >>> from dm2l.persistence import load_model, save_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(MaskedRidgeClassifier(alpha=2.0), Path(folder, "ridge.dm2l"))
    ...     load_model(Path(folder, "ridge.dm2l"))
    MaskedRidgeClassifier(alpha=2.0)
    """
    names = [trusted] if isinstance(trusted, str) else list(trusted)
    if isinstance(trusted, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"trusted must be a list of names of types, got {trusted!r}.")
    path = Path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ModelFileError("it is not a regular file.")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > max_bytes:
                raise ModelFileError(
                    f"it has {size} bytes, and at most max_bytes={max_bytes} are read."
                )
            return _load(Archive(file, size), frozenset(names), like)
    except ModelFileError as error:
        text = textwrap.shorten(str(error)[: 2 * _MAX_MESSAGE], _MAX_MESSAGE, placeholder=" ...")
        raise ModelFileError(f"{path} cannot be loaded: {text}") from error


def _warn_of_version(manifest: dict[str, Any], names: list[str]) -> None:
    """Warn as scikit-learn does about estimators that another version of it has fitted."""
    libraries = manifest.get("libraries")
    written = libraries.get("scikit-learn") if isinstance(libraries, dict) else None
    known = isinstance(written, str) and re.fullmatch(r"[\w.+]{1,30}", written)
    if names and known and written != sklearn.__version__:
        warning = InconsistentVersionWarning(
            estimator_name=names[0],
            current_sklearn_version=sklearn.__version__,
            original_sklearn_version=written,
        )
        warnings.warn(warning, stacklevel=4)


def _load(archive: Archive, trusted: frozenset[str], target: Any) -> Any:
    manifest = _read_manifest(archive)
    members = manifest["members"]
    missing = sorted(members.keys() - archive.sizes.keys())
    extra = sorted(archive.sizes.keys() - members.keys() - {MANIFEST, HASH})
    if missing or extra:
        what = f"no member {brief(missing[0])}" if missing else f"the member {extra[0]!r} too many"
        raise ModelFileError(f"it has {what}.")
    arrays: dict[str, NDArray[Any]] = {}

    def array(name: Any) -> NDArray[Any]:
        if type(name) is not str or name not in members:
            raise ModelFileError(f"its manifest names an array {brief(name)} that is not there.")
        if name not in arrays:
            record = members[name]
            sha256 = record.get("sha256") if isinstance(record, dict) else None
            arrays[name] = archive.read_array(name, sha256)
        return arrays[name]

    reader = Reader(array, trusted, 16 * sum(archive.sizes.values()) + 2**26)
    try:
        found = reader.read(manifest["model"], _MODEL, "the model", {})
    except RecursionError as error:
        raise ModelFileError("its manifest is nested too deeply.") from error
    if reader.untrusted:
        raise ModelFileError(
            f"it holds classes that are not trusted: {sorted(reader.untrusted)}. If you know who "
            "wrote it, and only then, name them as trusted=."
        )
    unused = sorted(members.keys() - arrays.keys())
    if unused:
        raise ModelFileError(f"its member {unused[0]!r} belongs to nothing.")
    _warn_of_version(manifest, sorted(reader.foreign_parts))
    model = Builder(target).build(found)
    if not isinstance(model, BaseEstimator):
        raise ModelFileError(f"it holds a {type(model).__name__}, not an estimator.")
    return model


# ---------------------------------------------------------------------------------- the manifest


def _write_manifest(model: Any, members: dict[str, Any]) -> bytes:
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
        _check_made(text)
    except ModelFileError as error:
        raise ValueError(f"The model cannot be saved: {error}") from error
    return text


def _check_made(text: bytes) -> None:
    """Refuse JSON of which Python would make much more than it is long, such as empty lists.

    Marks inside of texts are counted too: they would have to be most of the file to matter.
    """
    values = text.count(b",") + text.count(b"[")
    made = _PER_VALUE * values + _PER_OBJECT * text.count(b"{")
    if made > _MAX_MADE + 4 * len(text):
        raise ModelFileError(
            f"{len(text)} bytes of JSON hold about {values} values, too many for their length."
        )


def _read_manifest(archive: Archive) -> dict[str, Any]:
    """The manifest, which must be that of a model, unchanged and not from the future."""
    text = archive.read(MANIFEST, MAX_JSON)
    digest = archive.read(HASH, 64)
    if hashlib.sha256(text).hexdigest().encode() != digest:
        raise ModelFileError("its manifest was changed: SHA-256 differs.")
    _check_made(text)
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
