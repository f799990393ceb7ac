"""Values as JSON.

``None``, booleans, numbers, texts and lists stand for themselves. Everything else is a JSON object
with its ``kind``; arrays are members of the archive, and an object of scikit-learn is one of the
``parts`` that :mod:`dm2l.persistence._sklearn` keeps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from dm2l._utils.arrays import device_name, is_non_numpy, to_numpy
from dm2l.persistence._arrays import KINDS
from dm2l.persistence._objects import CODECS, NAMES
from dm2l.persistence._sklearn import Slot, swap

Json = Any

MAX_DEPTH = 64


class Encoder:
    """Turns a model into JSON, and collects the arrays and the parts of scikit-learn it has."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.parts: list[Any] = []
        self.slots: list[Json] = []
        # With the objects themselves: an id is no longer theirs when they are gone.
        self._seen: dict[int, tuple[Any, Json]] = {}
        self._taken: dict[int, tuple[Any, Slot]] = {}
        self._memo: dict[int, tuple[Any, Any]] = {}

    def encode(self, value: Any, place: str, depth: int = 0) -> Json:
        """JSON of a value; ``place`` says where it was, for messages."""
        if depth > MAX_DEPTH:
            raise TypeError(f"{place} is nested too deeply to be saved, or contains itself.")
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"kind": "float", "value": str(value)}
        if isinstance(value, np.generic):
            return self._scalar(value, place)
        if is_non_numpy(value) or type(value) in (np.ndarray, np.memmap):
            return self._array(value, place, depth)
        if type(value) is list:
            return [self.encode(v, f"{place}[{i}]", depth + 1) for i, v in enumerate(value)]
        if type(value) is tuple:
            return {"kind": "tuple", "items": self.encode(list(value), place, depth + 1)}
        if type(value) is dict:
            return self._dict(value, place, depth)
        if type(value) in NAMES:
            return self._object(value, place, depth)
        if sp.issparse(value):
            return self._sparse(value, place)
        return self._other(value, place)

    def _scalar(self, value: np.generic, place: str) -> Json:
        plain = value.item()
        if type(plain) not in (bool, int, float, str):
            raise _unable(value, place)
        return {"kind": "scalar", "dtype": value.dtype.str, "value": self.encode(plain, place)}

    def _array(self, value: Any, place: str, depth: int) -> Json:
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        array = to_numpy(value)
        node: Json
        if array.dtype == object:
            items = self.encode(array.ravel().tolist(), place, depth + 1)
            node = {"kind": "objects", "shape": list(array.shape), "items": items}
        elif array.dtype.kind in KINDS and array.dtype.itemsize:
            name = f"arrays/{len(self.arrays)}.npy"
            self.arrays[name] = array
            node = {"kind": "array", "member": name}
            if is_non_numpy(value):
                node["library"] = device_name(value)
        else:
            raise _unable(value, place)
        self._seen[id(value)] = value, node
        return node

    def _dict(self, value: dict[Any, Any], place: str, depth: int) -> Json:
        wrong = [key for key in value if type(key) is not str]
        if wrong:
            raise TypeError(f"{place} has the key {wrong[0]!r}; keys that are saved are texts.")
        items = {key: self.encode(v, f"{place}[{key!r}]", depth + 1) for key, v in value.items()}
        return {"kind": "dict", "items": items}

    def _object(self, value: Any, place: str, depth: int) -> Json:
        node: Json = {"kind": "object", "class": NAMES[type(value)]}
        try:
            state = CODECS[node["class"]].state(value)
        except TypeError as error:
            raise TypeError(f"{place}: {error}.") from error
        for group, content in state.items():
            node[group] = {
                name: self.encode(part, f"{place}.{name}", depth + 1)
                for name, part in content.items()
            }
        return node

    def _sparse(self, value: Any, place: str) -> Json:
        container = "matrix" if isinstance(value, sp.spmatrix) else "array"
        if value.format not in ("csr", "csc") or value.ndim != 2:
            raise _unable(value, place)
        node = {
            "kind": "sparse",
            "format": value.format,
            "container": container,
            "shape": list(map(int, value.shape)),
        }
        for part in ("data", "indices", "indptr"):
            node[part] = self.encode(getattr(value, part), f"{place}.{part}")
        return node

    def _other(self, value: Any, place: str) -> Json:
        if isinstance(value, np.dtype) and value.kind in KINDS:
            return {"kind": "dtype", "name": value.str}
        if type(value).__name__ in ("NAType", "NaTType"):
            return {"kind": "pandas", "name": str(value).strip("<>")}
        if callable(value):
            raise TypeError(
                f"{place} is {value!r}, and a function cannot be saved: a model file holds data, "
                "not code. Use one of the names that the parameter takes, or for a kernel pass "
                "its matrix with kernel='precomputed'."
            )
        splits = hasattr(value, "split") and hasattr(value, "get_n_splits")
        if isinstance(value, BaseEstimator) or hasattr(value, "get_params") or splits:
            return self._part(value, place)
        raise _unable(value, place)

    def _part(self, value: Any, place: str) -> Json:
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        index = len(self.parts)
        self._seen[id(value)] = value, {"kind": "sklearn", "part": index}
        self.parts.append(None)

        def take(found: Any) -> Slot | None:
            # skops knows random states itself.
            if type(found) not in NAMES or isinstance(found, np.random.RandomState):
                return None
            if id(found) not in self._taken:
                slot = Slot(len(self.slots))
                self._taken[id(found)] = found, slot
                self.slots.append(None)
                inside = f"the {NAMES[type(found)]} in {place}"
                self.slots[slot.index] = self._object(found, inside, 0)
            return self._taken[id(found)][1]

        self.parts[index] = swap(value, take, self._memo)
        return self._seen[id(value)][1]


def _unable(value: Any, place: str) -> TypeError:
    detail = f" of dtype {value.dtype}" if hasattr(value, "dtype") else ""
    return TypeError(
        f"{place} is of type {type(value).__module__}.{type(value).__qualname__}{detail}, which a "
        "model file cannot hold."
    )
