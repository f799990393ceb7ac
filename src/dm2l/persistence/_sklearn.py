"""Objects of scikit-learn in a model file, by way of skops.

skops writes an object as JSON and arrays, and loads only classes that are trusted. Objects of dm2l
inside of others (the last step of a pipeline) are taken out first, leave a :class:`Slot`, and are
saved as every object of dm2l is.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from dm2l._utils.files import FAULTS
from dm2l.persistence._archive import Archive, ModelFileError, brief, new_member
from dm2l.persistence._arrays import check_hash, check_sparse_member, read_header
from dm2l.persistence._manifest import MAX_JSON, check_made
from dm2l.persistence._objects import NAMES
from dm2l.persistence._trees import PREDICTOR, TREE, TreeCheck

# Earlier ones run code of crafted files, or trust decision trees, which can read any memory.
_OLDEST = (0, 16)
_SCHEMA = "schema.json"
_OWN = (
    "dm2l.persistence._sklearn.Slot",
    "dm2l.baselines._filling.ZeroFillClassifier",
    "dm2l.tables._pipeline.TableColumns",
    # Of transformers of tables, and nothing that runs: the dtype that SimpleImputer was fitted to,
    # and the list of other columns of an older ColumnTransformer.
    "numpy.dtype",
    "sklearn.compose._column_transformer._RemainderColsList",
)
# By way of the one loader of skops that reads their members, which have been checked by then.
_SPARSE_LOADER = "SparseMatrixNode"
_SPARSE = tuple(
    f"{cls.__module__}.{cls.__name__}"
    for cls in (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.csc_matrix)
)
# Others of skops would call constructors, and __setstate__, by which a dtype gets fields anywhere.
_LOADERS = {"numpy.dtype": "DTypeNode"} | dict.fromkeys(_SPARSE, _SPARSE_LOADER)
_FAULTS: tuple[type[Exception], ...] = (*FAULTS, ImportError, MemoryError)


class Slot:
    """Stands for an object of dm2l inside an object of scikit-learn."""

    def __init__(self, index: int) -> None:
        self.index = index


def swap(value: Any, change: Callable[[Any], Any], memo: dict[int, tuple[Any, Any]]) -> Any:
    """``value`` with what ``change`` knows in it replaced; what holds none of it is not copied."""
    found = change(value)
    if found is not None:
        return found
    if id(value) in memo:
        return memo[id(value)][1]
    memo[id(value)] = value, value

    def inner(part: Any) -> Any:
        return swap(part, change, memo)

    result = value
    if isinstance(value, dict):
        items = {key: inner(part) for key, part in value.items()}
        if any(items[key] is not part for key, part in value.items()):
            result = copy(value)
            result.update(items)
    elif isinstance(value, (list, tuple)):
        parts = [inner(part) for part in value]
        if any(new is not part for new, part in zip(parts, value, strict=True)):
            result = type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    elif isinstance(value, np.ndarray) and value.dtype == object:
        result = value.copy()
        for place, part in np.ndenumerate(np.asarray(value)):
            result[place] = inner(part)
    elif _has_state(value):
        state = inner(vars(value))
        if state is not vars(value):
            result = object.__new__(type(value))
            vars(result).update(state)
    memo[id(value)] = value, result
    return result


def _has_state(value: Any) -> bool:
    known = isinstance(value, BaseEstimator) or type(value).__module__.startswith("sklearn.")
    return known and hasattr(value, "__dict__") and not isinstance(value, type)


# --------------------------------------------------------------------------------------- saving


def pack_parts(parts: list[Any]) -> bytes:
    """The objects in the format of skops, nothing compressed."""
    skops = _skops()
    try:
        content = skops.dumps(parts)
    except TypeError as error:
        raise TypeError(f"skops cannot save what the model holds: {error}.") from error
    own = {f"{cls.__module__}.{cls.__qualname__}" for cls in NAMES}
    hidden = [
        name for name in skops.get_untrusted_types(data=content) if "<" in name or name in own
    ]
    if hidden:
        raise TypeError(
            f"The model holds {', '.join(hidden)} where it cannot be saved: a function without a "
            "name of its own, or an object of dm2l inside of one that is not scikit-learn's."
        )
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(packed, "w") as target:
        for name in source.namelist():
            member = source.read(name)
            if name == _SCHEMA:
                member = json.dumps(json.loads(member)).encode()  # without its white space
            elif name.endswith(".npz"):
                plain = io.BytesIO()
                sp.save_npz(plain, sp.load_npz(io.BytesIO(member)), compressed=False)
                member = plain.getvalue()
                try:
                    check_sparse_member(member)
                except ModelFileError as error:
                    raise TypeError(f"The model cannot be saved: {error}") from error
            with new_member(target, name, len(member)) as sink:
                sink.write(member)
    return packed.getvalue()


# -------------------------------------------------------------------------------------- loading


def unpack_parts(archive: Archive, name: str, record: Any, trusted: Iterable[str]) -> list[Any]:
    """The objects, if all of their types are trusted."""
    skops = _skops()
    content = archive.read(name, archive.spans[name].size)
    check_hash(name, hashlib.sha256(content).hexdigest(), record)
    try:
        _check_content(content)
        trusted = set(trusted)
        allowed = sorted({*_OWN, *_SPARSE, TREE, PREDICTOR, *trusted})
        left = sorted(set(skops.get_untrusted_types(data=content)) - set(allowed))
        if left:
            raise ModelFileError(
                f"it holds types that are not trusted: {left!r}. If you know who wrote it, and "
                "only then, name them as trusted=."
            )
        parts = skops.loads(content, trusted=allowed)
    except ModelFileError:
        raise
    except _FAULTS as error:
        raise ModelFileError(
            f"its scikit-learn objects cannot be loaded: {brief(error)}."
        ) from error
    if type(parts) is not list:
        raise ModelFileError("its scikit-learn objects are not a list.")
    trees = TreeCheck(trusted)

    def look(value: Any) -> None:
        _check_vectoriser(value)
        trees.see(value)

    swap(parts, look, {})
    trees.finish()
    return parts


def _check_vectoriser(value: Any) -> None:
    """Refuse a vectoriser that would open files, or put words outside of its columns."""
    if type(value).__module__ != "sklearn.feature_extraction.text":
        return
    what, state = f"its {type(value).__name__}", vars(value)
    if state.get("input", "content") != "content":
        raise ModelFileError(
            f"{what} has input={brief(state['input'])} and would open the files that data name. "
            "Give it texts, and save it with input='content'."
        )
    words = state.get("vocabulary_", {})
    if type(words) is not dict or sorted(map(_place, words.values())) != list(range(len(words))):
        raise ModelFileError(f"{what} has a vocabulary that does not number its words from 0 on.")
    weights = getattr(state.get("_tfidf"), "idf_", None)
    if weights is not None and np.shape(weights) != (len(words),):
        raise ModelFileError(
            f"{what} has weights of shape {np.shape(weights)} for {len(words)} words."
        )


def _place(number: Any) -> int:
    """A column; none where it is not an integer."""
    return int(number) if isinstance(number, (int, np.integer)) else -1


def _skops() -> Any:
    try:
        import skops
        import skops.io
    except ImportError as error:
        raise ImportError(
            "A model with scikit-learn objects (pipeline, MaskedOneVsRestClassifier) needs skops: "
            "pip install 'dm2l[io]'."
        ) from error
    found = tuple(map(int, re.findall(r"\d+", skops.__version__)[:2]))
    if found < _OLDEST:
        raise ImportError(
            f"skops {skops.__version__} is not safe with files from elsewhere; "
            f"pip install 'skops>={'.'.join(map(str, _OLDEST))}'."
        )
    return skops.io


def _check_content(content: bytes) -> None:
    """Refuse what would make skops read more than there is."""
    archive = Archive(io.BytesIO(content), len(content))
    for name in archive.spans:
        if name.endswith(".npy"):
            read_header(archive, name, fields=True)
        elif name.endswith(".npz"):
            check_sparse_member(archive.read(name, archive.spans[name].size))
    owners: dict[str, Any] = {}
    schema = archive.read(_SCHEMA, MAX_JSON)
    check_made(schema)
    waiting = [json.loads(schema)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, dict):
            waiting.extend(node.values())
            name = f"{node.get('__module__')}.{node.get('__class__')}"
            if name in _LOADERS and node.get("__loader__") != _LOADERS[name]:
                what = "dtype" if name == "numpy.dtype" else "sparse matrix"
                raise ModelFileError(f"it has a {what} that is not in a member of its own.")
            if isinstance(node.get("file"), str):
                # skops reads a member again for every object that is not known by its number.
                owner = node.get("__id__")
                if not owner or owners.setdefault(node["file"], owner) != owner:
                    raise ModelFileError("two of its scikit-learn objects share a member.")
