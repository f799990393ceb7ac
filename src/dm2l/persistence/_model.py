"""Save models to files and load them."""

import hashlib
import json
import math
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
# The minimum number of bytes that a JSON value and a JSON object take in memory.
_PER_VALUE, _PER_OBJECT = 64, 256
_MAX_PARSED = 2**26  # bytes
_MAX_MESSAGE = 2000  # characters, because a message may quote the file
_MODEL = parse("Estimator | Model")


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a model to a file that ``load_model`` reads without running any code.

    The file is an uncompressed zip archive of arrays in numpy's format and a JSON manifest, without
    pickled data. An existing file is replaced only after the new file is complete.

    Parameters
    ----------
    model : estimator
        An estimator of dm2l, fitted or not, or a scikit-learn estimator with such an estimator in
        it, like a pipeline. Functions, such as a callable ``kernel``, cannot be saved. A model with
        other classes than the user guide lists can be saved, but loaded only with ``trusted``.
    path : path-like
        The file.

    See Also
    --------
    load_model : Load the model.

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
    writer, name = Writer(), type(model).__name__
    try:
        root = writer.write(model, name)
        # Read the manifest before writing it, so that every saved file can be loaded.
        Reader(writer.arrays.__getitem__, frozenset()).read(root, _MODEL, name, {})
    except RecursionError:
        raise TypeError("The model contains itself or is nested too deeply to be saved.") from None
    except ModelFileError as error:
        raise TypeError(f"The model cannot be saved: {error}") from error
    write_file(path, root, writer.arrays)


def write_file(path: str | os.PathLike[str], root: Any, arrays: dict[str, NDArray[Any]]) -> None:
    """Write a manifest and its arrays without checking their contents."""
    if len(arrays) + 2 > MAX_MEMBERS:
        raise ValueError(
            f"The model has {len(arrays)} arrays, but a model file can have at most {MAX_MEMBERS}. "
            "Save the estimators in the model to separate files."
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
    """Load a model that ``save_model`` has saved.

    The file may come from an untrusted source. Its content is read as data, and every value is
    checked against a list of the classes, attributes, types and shapes that models of dm2l have.
    Objects are made only after all checks, and no code from the file is run.

    Parameters
    ----------
    path : path-like
        The file.
    trusted : iterable of str, default=()
        Qualified names of further classes and functions that the file may contain. If names are
        missing, the error lists them. Objects of these classes are not checked. Trusting a class
        is as unsafe as loading a pickle, so trust only files whose author you know.
    max_bytes : int, default=4 GiB
        Maximum size of the file in bytes. The memory for loading is proportional to this size.
    like : array, default=None
        A model that was saved with arrays of another library, such as torch or cupy, is loaded with
        arrays of the library and device of ``like``. If None, such a model is loaded with numpy
        arrays, and predicts from numpy arrays.

    Returns
    -------
    estimator
        The saved model with the same parameters. Numpy arrays are bit-identical to the saved ones.

    Raises
    ------
    ModelFileError
        If the file is damaged, is not a model file, was written by a newer version of dm2l, or
        contains classes that are not trusted.

    See Also
    --------
    save_model : Save a model.

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
        raise TypeError(f"trusted must list names like 'package.module.Class', got {trusted!r}.")
    path = Path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ModelFileError("the file is not a regular file.")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > max_bytes:
                most = f"max_bytes={max_bytes}"
                raise ModelFileError(f"the file has {size} bytes, more than {most} allows.")
            return _load(Archive(file, size), frozenset(names), like)
    except ModelFileError as error:
        text = textwrap.shorten(str(error)[: 2 * _MAX_MESSAGE], _MAX_MESSAGE, placeholder=" ...")
        remedy = "" if ". " in text else " Use another copy of the file, or save the model again."
        raise ModelFileError(f"{path} cannot be loaded: {text}{remedy}") from error


def _load(archive: Archive, trusted: frozenset[str], target: Any) -> Any:
    manifest = _read_manifest(archive)
    members = manifest["members"]
    for missing in sorted(members.keys() - archive.sizes.keys()):
        raise ModelFileError(f"the file has no member {brief(missing)}.")
    for extra in sorted(archive.sizes.keys() - members.keys() - {MANIFEST, HASH}):
        raise ModelFileError(f"the file has an unexpected member {extra!r}.")
    arrays: dict[str, NDArray[Any]] = {}

    def array(name: Any) -> NDArray[Any]:
        if type(name) is not str or name not in members:
            raise ModelFileError(f"the manifest names an array {brief(name)} that does not exist.")
        if name not in arrays:
            record = members[name]
            sha256 = record.get("sha256") if isinstance(record, dict) else None
            arrays[name] = archive.read_array(name, sha256)
        return arrays[name]

    reader = Reader(array, trusted, 16 * sum(archive.sizes.values()) + 2**26)
    try:
        found = reader.read(manifest["model"], _MODEL, "the model", {})
    except RecursionError as error:
        raise ModelFileError("the manifest is nested too deeply.") from error
    if reader.untrusted:
        raise ModelFileError(
            f"the file contains classes that are not trusted: {sorted(reader.untrusted)}. If you "
            "know the author of the file, pass these names as trusted=."
        )
    for unused in sorted(members.keys() - arrays.keys()):
        raise ModelFileError(f"the manifest does not use the member {unused!r}.")
    libraries = manifest.get("libraries")
    version = libraries.get("scikit-learn") if isinstance(libraries, dict) else None
    known = isinstance(version, str) and re.fullmatch(r"[\w.+]{1,30}", version)
    if reader.sklearn_classes and known and version != sklearn.__version__:
        warning = InconsistentVersionWarning(
            estimator_name=min(reader.sklearn_classes),
            current_sklearn_version=sklearn.__version__,
            original_sklearn_version=version,
        )
        warnings.warn(warning, stacklevel=3)
    model = Builder(target, reader.foreign).build(found)
    if not isinstance(model, BaseEstimator):
        raise ModelFileError(f"the file contains a {type(model).__name__}, not an estimator.")
    return model


def _write_manifest(model: Any, members: dict[str, Any]) -> bytes:
    """Return the JSON text of a manifest as bytes."""
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
    try:
        _check_manifest(text)
    except ModelFileError as error:
        raise ValueError(f"The model cannot be saved: {error}") from error
    return text


def _check_manifest(text: bytes) -> None:
    """Raise an error if a manifest is too long, or if its values would take too much memory."""
    # Brackets inside texts are counted, too. This only matters if they make up most of the file.
    if len(text) > MAX_JSON:
        raise ModelFileError(f"the manifest has {len(text)} bytes, more than {MAX_JSON}.")
    values = text.count(b",") + text.count(b"[")
    parsed = _PER_VALUE * values + _PER_OBJECT * text.count(b"{")
    if parsed > _MAX_PARSED + 4 * len(text):
        raise ModelFileError(
            f"the manifest has about {values} values in {len(text)} bytes, too many for a model."
        )


def _read_manifest(archive: Archive) -> dict[str, Any]:
    """Return the manifest after checking its hash, format and version."""
    text = archive.read(MANIFEST, MAX_JSON)
    digest = archive.read(HASH, 64)
    if hashlib.sha256(text).hexdigest().encode() != digest:
        raise ModelFileError("the manifest was changed. Restore the original file.")
    _check_manifest(text)
    try:
        manifest = json.loads(
            text.decode("ascii"),
            object_pairs_hook=_distinct,
            parse_constant=_finite,
            parse_float=_finite,
        )
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"the manifest is not valid JSON ({error}).") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFileError("the manifest does not describe a dm2l model.")
    version = manifest.get("version")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"the manifest has the invalid format version {brief(version)}.")
    if version > VERSION:
        writer = brief(manifest.get("dm2l")).strip("'")
        raise ModelFileError(
            f"the file was saved by dm2l {writer} in format {version}, but dm2l {__version__} "
            f"reads at most format {VERSION}. Update dm2l."
        )
    if version < VERSION:
        raise ModelFileError(
            f"the file was saved by an earlier development version of dm2l in format {version}, "
            f"but this version reads format {VERSION}. Fit the model again and save it."
        )
    if not isinstance(manifest.get("members"), dict):
        raise ModelFileError("the manifest has no valid entry 'members'.")
    if "model" not in manifest:
        raise ModelFileError("the manifest has no entry 'model'.")
    return manifest


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError("a JSON object has the same key twice")
    return found


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is not a finite number")
    return value
