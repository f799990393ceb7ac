"""A model as JSON and arrays.

``None``, booleans, numbers, texts and lists stand for themselves. Everything else is a JSON object
with its ``kind``; arrays are members of the archive.
"""

import math
from collections import UserList
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from dm2l._utils.arrays import device_name, is_non_numpy, to_numpy
from dm2l.persistence._archive import KINDS
from dm2l.persistence._building import named, state_of
from dm2l.persistence._reading import FUNCTIONS, MAX_DEPTH, Json
from dm2l.persistence._schema import BY_CLASS, Entry


class Writer:
    """Turns a model into JSON, and collects its arrays."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        # With the objects themselves: an id is no longer theirs when they are gone.
        self._seen: dict[int, tuple[Any, Json]] = {}
        self._under_way: set[int] = set()
        self._count = 0

    def write(self, value: Any, place: str, depth: int = 0, *, inside: bool = False) -> Json:
        """JSON of a value; ``inside`` of an object that has to be trusted, anything goes."""
        if depth > MAX_DEPTH:
            raise TypeError(f"{place} is nested too deeply to be saved, or contains itself.")
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"kind": "float", "value": str(value)}
        if isinstance(value, np.generic):
            return self._scalar(value, place)
        if isinstance(value, type):
            return self._other(value, place, depth, inside)
        if is_non_numpy(value) or type(value) in (np.ndarray, np.memmap):
            return self._array(value, place, depth, inside)
        if isinstance(value, UserList):  # columns of a ColumnTransformer of scikit-learn 1.6
            value = value.data
        if type(value) is list:
            items = enumerate(value)
            return [self.write(v, f"{place}[{i}]", depth + 1, inside=inside) for i, v in items]
        if type(value) is tuple:
            return {"kind": "tuple", "items": self.write(list(value), place, depth, inside=inside)}
        if type(value) is dict:
            return self._dict(value, place, depth, inside)
        entry = BY_CLASS.get((type(value).__module__, type(value).__name__))
        if entry is not None:
            return self._object(value, entry, place, depth, inside)
        if sp.issparse(value):
            return self._sparse(value, place)
        return self._other(value, place, depth, inside)

    def _scalar(self, value: np.generic, place: str) -> Json:
        plain = value.item()
        if type(plain) not in (bool, int, float, str):
            raise _unable(value, place)
        return {"kind": "scalar", "dtype": value.dtype.str, "value": self.write(plain, place)}

    def _array(self, value: Any, place: str, depth: int, inside: bool) -> Json:
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        array = to_numpy(value)
        node: Json
        if array.dtype == object:
            items = self.write(array.ravel().tolist(), place, depth + 1, inside=inside)
            return {"kind": "objects", "shape": list(array.shape), "items": items}
        if array.dtype.kind not in KINDS or not array.dtype.itemsize:
            raise _unable(value, place)
        name = f"arrays/{len(self.arrays)}.npy"
        self.arrays[name] = array
        node = {"kind": "array", "member": name}
        if is_non_numpy(value):
            node["library"] = device_name(value)
        self._seen[id(value)] = value, node
        return node

    def _dict(self, value: dict[Any, Any], place: str, depth: int, inside: bool) -> Json:
        wrong = [key for key in value if type(key) is not str]
        if wrong:
            raise TypeError(f"{place} has the key {wrong[0]!r}; keys that are saved are texts.")
        items = {
            key: self.write(v, f"{place}[{key!r}]", depth + 1, inside=inside)
            for key, v in value.items()
        }
        return {"kind": "dict", "items": items}

    def _object(self, value: Any, entry: Entry, place: str, depth: int, inside: bool) -> Json:
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        try:
            state = state_of(value, entry)
        except TypeError as error:
            raise TypeError(f"{place}: {error}.") from error
        self._enter(value, place)
        parts = {
            name: self.write(part, f"{place}.{name}", depth + 1, inside=inside)
            for name, part in state.items()
        }
        return self._leave(value, {"kind": "object", "class": entry.name, "state": parts})

    def _enter(self, value: Any, place: str) -> None:
        if id(value) in self._under_way:
            raise TypeError(f"{place} contains itself, and cannot be saved.")
        self._under_way.add(id(value))

    def _leave(self, value: Any, node: Json) -> Json:
        """Objects are numbered in the order in which they are complete."""
        self._under_way.discard(id(value))
        self._seen[id(value)] = value, {"kind": "same", "object": self._count}
        self._count += 1
        return node

    def _sparse(self, value: Any, place: str) -> Json:
        if value.format not in ("csr", "csc") or value.ndim != 2:
            raise _unable(value, place)
        node = {
            "kind": "sparse",
            "format": value.format,
            "container": "matrix" if isinstance(value, sp.spmatrix) else "array",
            "shape": list(map(int, value.shape)),
        }
        for part in ("data", "indices", "indptr"):
            node[part] = self.write(getattr(value, part), f"{place}.{part}")
        return node

    def _other(self, value: Any, place: str, depth: int, inside: bool) -> Json:
        if isinstance(value, np.dtype) and value.kind in KINDS:
            return {"kind": "dtype", "name": value.str}
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"kind": "dtype", "name": np.dtype(value).str, "type": True}
        if type(value) is slice and type(value.start) is type(value.stop) is int:
            return {"kind": "slice", "ends": [value.start, value.stop]}
        if type(value).__name__ in ("NAType", "NaTType"):
            return {"kind": "pandas", "name": str(value).strip("<>")}
        name = getattr(value, "__name__", "")
        if isinstance(value, np.ufunc) and name in FUNCTIONS:
            return {"kind": "function", "name": name}
        estimator = isinstance(value, BaseEstimator) or hasattr(value, "get_params")
        splits = hasattr(value, "split") and hasattr(value, "get_n_splits")
        ours = type(value).__module__.startswith("dm2l.")
        if (inside or (not callable(value) and (estimator or splits))) and not ours:
            return self._trusted(value, place, depth)
        if callable(value):
            raise TypeError(
                f"{place} is {value!r}, and a function cannot be saved: a model file holds data, "
                "not code. Use one of the names that the parameter takes, or for a kernel pass "
                "its matrix with kernel='precomputed'."
            )
        raise _unable(value, place)

    def _trusted(self, value: Any, place: str, depth: int) -> Json:
        """An object that only loads if its class is named as trusted: what pickle would store."""
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        self._enter(value, place)
        node: Json = {"kind": "trusted"}
        if callable(value) and hasattr(value, "__qualname__"):
            node["name"] = _name(value, place)
            return self._leave(value, node)
        try:
            made, arguments, state, listed, items = [*_reduced(value), None, None, None][:5]
        except (TypeError, ValueError) as error:
            raise _unable(value, place) from error
        if listed is not None or isinstance(value, bytes):
            raise _unable(value, place)
        if made.__name__ == "__newobj__":
            made, node["new"] = arguments[0], True
            arguments = arguments[1:]
        node["name"] = _name(made, place)
        parts = {"arguments": list(arguments), "state": state, "items": items and dict(items)}
        for key, part in parts.items():
            if part is not None:
                node[key] = self.write(part, f"{place}.{key}", depth + 1, inside=True)
        return self._leave(value, node)


def _reduced(value: Any) -> tuple[Any, ...]:
    if isinstance(value, np.ma.MaskedArray):  # its own way stores bytes
        return type(value), (value.data, np.ma.getmaskarray(value))
    reduced: tuple[Any, ...] = value.__reduce_ex__(4)
    return reduced


def _name(value: Any, place: str) -> str:
    name = f"{value.__module__}.{value.__qualname__}"
    if "<" in name or "." in value.__qualname__ or named(name) is not value:
        raise TypeError(f"{place} is {value!r}, which has no name of its own and cannot be saved.")
    return name


def _unable(value: Any, place: str) -> TypeError:
    detail = f" of dtype {value.dtype}" if hasattr(value, "dtype") else ""
    return TypeError(
        f"{place} is of type {type(value).__module__}.{type(value).__qualname__}{detail}, which a "
        "model file cannot hold."
    )
