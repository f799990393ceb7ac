"""Describe a model as JSON and arrays.

``None``, booleans, finite numbers, texts and lists are written as JSON values. Every other value
becomes a JSON object with a ``kind``; arrays are stored as separate members of the archive.
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
from dm2l.persistence._reading import FUNCTIONS, Json
from dm2l.persistence._schema import BY_CLASS


class Writer:
    """Turns a model into JSON, and collects its arrays."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        # Objects are kept alive with their nodes, because Python reuses the ids of deleted objects.
        self._seen: dict[int, tuple[Any, Json]] = {}
        self._count = 0

    def write(self, value: Any, place: str, *, inside: bool = False) -> Json:
        """Return a value as JSON; ``inside`` an object of a trusted class, any value is allowed."""
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"kind": "float", "value": str(value)}
        if isinstance(value, np.generic):
            plain = value.item()
            if type(plain) not in (bool, int, float, str):
                raise _unable(value, place)
            return {"kind": "scalar", "dtype": value.dtype.str, "value": self.write(plain, place)}
        if isinstance(value, type):
            return self._other(value, place, inside)
        if is_non_numpy(value) or type(value) in (np.ndarray, np.memmap):
            return self._array(value, place, inside)
        if isinstance(value, UserList):  # columns of a ColumnTransformer of scikit-learn 1.6
            value = value.data
        if type(value) is list:
            return [self.write(v, f"{place}[{i}]", inside=inside) for i, v in enumerate(value)]
        if type(value) is tuple:
            return {"kind": "tuple", "items": self.write(list(value), place, inside=inside)}
        if type(value) is dict:
            for key in value:
                if type(key) is not str:
                    fault = f"{place} has the key {key!r}"
                    raise TypeError(f"{fault}, but only dicts with text keys can be saved.")
            items = {k: self.write(v, f"{place}[{k!r}]", inside=inside) for k, v in value.items()}
            return {"kind": "dict", "items": items}
        entry = BY_CLASS.get((type(value).__module__, type(value).__name__))
        if entry is not None:
            try:
                state = state_of(value, entry)
            except TypeError as error:
                raise TypeError(f"{place}: {error}.") from error
            parts = {k: self.write(v, f"{place}.{k}", inside=inside) for k, v in state.items()}
            return self._keep(value, {"kind": "object", "class": entry.name, "state": parts})
        if sp.issparse(value):
            return self._sparse(value, place)
        return self._other(value, place, inside)

    def _array(self, value: Any, place: str, inside: bool) -> Json:
        array = to_numpy(value)
        if array.dtype == object:
            items = self.write(array.ravel().tolist(), place, inside=inside)
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

    def _keep(self, value: Any, node: Json) -> Json:
        """Give a completed object a number, to which later occurrences of it refer."""
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
        parts = ("data", "indices", "indptr")
        return node | {part: self.write(getattr(value, part), f"{place}.{part}") for part in parts}

    def _other(self, value: Any, place: str, inside: bool) -> Json:
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
            return self._trusted(value, place)
        if callable(value):
            raise TypeError(
                f"{place} is {value!r}, but a model file cannot contain functions. Use one of the "
                "names that this parameter accepts. To save a model with your own kernel, fit it "
                "to the kernel matrix with kernel='precomputed'."
            )
        raise _unable(value, place)

    def _trusted(self, value: Any, place: str) -> Json:
        """Describe an object as pickle does; it can be loaded only if its class is trusted."""
        if callable(value) and hasattr(value, "__qualname__"):
            return self._keep(value, {"kind": "trusted", "name": _name(value, place)})
        node: Json = {"kind": "trusted"}
        try:
            if isinstance(value, np.ma.MaskedArray):  # MaskedArray.__reduce__ stores raw bytes
                reduced: Any = type(value), (value.data, np.ma.getmaskarray(value))
            else:
                reduced = value.__reduce_ex__(4)
            made, arguments, state, listed, items = [*reduced, None, None, None][:5]
        except (TypeError, ValueError) as error:
            raise _unable(value, place) from error
        if listed is not None or isinstance(value, bytes):
            raise _unable(value, place)
        if made.__name__ == "__newobj__":
            made, *arguments = arguments
            node["new"] = True
        node["name"] = _name(made, place)
        parts = {"arguments": list(arguments), "state": state, "items": items and dict(items)}
        for key, part in parts.items():
            if part is not None:
                node[key] = self.write(part, f"{place}.{key}", inside=True)
        return self._keep(value, node)


def _name(value: Any, place: str) -> str:
    name = f"{value.__module__}.{value.__qualname__}"
    if "<" in name or "." in value.__qualname__ or named(name) is not value:
        raise TypeError(
            f"{place} is {value!r}, which is not at the top level of a module. Define it there."
        )
    return name


def _unable(value: Any, place: str) -> TypeError:
    detail = f" of dtype {value.dtype}" if hasattr(value, "dtype") else ""
    return TypeError(
        f"The model cannot be saved: {place} is of type "
        f"{type(value).__module__}.{type(value).__qualname__}{detail}, which is not supported."
    )
