"""Values out of JSON that a file came with, none of which is believed."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l.arrays import home, like
from dm2l.persistence._archive import ModelFileError
from dm2l.persistence._arrays import KINDS, check_sparse
from dm2l.persistence._encoding import MAX_DEPTH, Json
from dm2l.persistence._objects import CODECS
from dm2l.persistence._sklearn import Slot, swap

_UNDER_WAY = object()
_SPARSE = {
    ("csr", "array"): sp.csr_array,
    ("csr", "matrix"): sp.csr_matrix,
    ("csc", "array"): sp.csc_array,
    ("csc", "matrix"): sp.csc_matrix,
}


class Decoder:
    """Turns JSON into values.

    Parameters
    ----------
    array : callable
        Gives the array of a member.
    parts : list
        Objects of scikit-learn, with slots in them.
    slots : list
        JSON of what belongs into the slots.
    target : array or None
        Where arrays of other libraries go.
    budget : int
        Bytes of arrays that may be copied or looked through. A few lines of JSON that name the
        same array again and again are else a way to much work.
    """

    def __init__(
        self,
        array: Callable[[str], NDArray[Any]],
        parts: list[Any],
        slots: list[Json],
        target: Any,
        budget: int,
    ) -> None:
        self._array_of = array
        self._parts = parts
        self._slots = slots
        self._target = target
        self._budget = budget
        self._moved: dict[str, Any] = {}
        self._matrices: dict[str, Any] = {}
        self._done: dict[tuple[str, int], Any] = {}
        self._memo: dict[int, tuple[Any, Any]] = {}
        self._kinds: dict[str, Callable[[dict[str, Any], int], Any]] = {
            "float": self._float,
            "scalar": self._scalar,
            "array": self._array,
            "objects": self._objects,
            "tuple": lambda node, depth: tuple(self.decode(node["items"], depth)),
            "dict": lambda node, depth: {
                key: self.decode(value, depth) for key, value in node["items"].items()
            },
            "object": self._object,
            "sparse": self._sparse,
            "dtype": lambda node, _: _dtype(node["name"]),
            "pandas": self._pandas,
            "sklearn": lambda node, _: self._once("part", node["part"], self._parts),
        }

    def decode(self, node: Json, depth: int = 0) -> Any:
        """The value."""
        if depth > 2 * MAX_DEPTH:
            raise ModelFileError("its manifest is nested too deeply.")
        if isinstance(node, list):
            return [self.decode(item, depth + 1) for item in node]
        if not isinstance(node, dict):
            return node
        kind = node.get("kind")
        if not isinstance(kind, str) or kind not in self._kinds:
            raise ModelFileError(f"its manifest has a value of unknown kind {kind!r}.")
        try:
            return self._kinds[kind](node, depth + 1)
        except ModelFileError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            what = node.get("class") if kind == "object" else kind
            raise ModelFileError(f"a value of kind {what!r} is malformed: {error!r}.") from error

    def _once(self, what: str, index: Any, those: list[Any]) -> Any:
        """A part with its slots filled, or what belongs into a slot."""
        if type(index) is not int or not 0 <= index < len(those):
            raise ModelFileError(f"it has {len(those)} {what}s and points to number {index!r}.")
        if (what, index) not in self._done:
            self._done[what, index] = _UNDER_WAY
            filled = swap(those[index], self._fill, self._memo) if what == "part" else None
            self._done[what, index] = self.decode(those[index]) if what == "slot" else filled
        if self._done[what, index] is _UNDER_WAY:
            raise ModelFileError(f"its {what} {index} contains itself.")
        return self._done[what, index]

    def _fill(self, found: Any) -> Any:
        return self._once("slot", found.index, self._slots) if type(found) is Slot else None

    def _float(self, node: dict[str, Any], _: int) -> float:
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[node["value"]]

    def _scalar(self, node: dict[str, Any], depth: int) -> Any:
        value = self.decode(node["value"], depth)
        dtype = _dtype(node["dtype"])
        if type(value) not in (bool, int, float, str) or dtype.kind not in "biufU":
            raise ModelFileError("a scalar of its manifest is no number and no text.")
        return dtype.type(value)

    def _array(self, node: dict[str, Any], _: int) -> Any:
        name = node["member"]
        array = self._array_of(name)
        if "library" not in node or self._target is None:
            return array
        if name not in self._moved:
            self._moved[name] = like(array, self._target)
        return self._moved[name]

    def _spend(self, arrays: Iterable[Any]) -> None:
        self._budget -= sum(array.nbytes for array in arrays)
        if self._budget < 0:
            raise ModelFileError("its manifest makes too much of too few arrays.")

    def _objects(self, node: dict[str, Any], depth: int) -> NDArray[np.object_]:
        items, shape = self.decode(node["items"], depth), tuple(map(int, node["shape"]))
        array = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            array[i] = item
        return array if shape == array.shape else array.reshape(shape)

    def _object(self, node: dict[str, Any], depth: int) -> Any:
        name = node["class"]
        if name not in CODECS:
            raise ModelFileError(f"it holds an object of the unknown class {name!r}.")
        state = {
            group: {key: self.decode(value, depth) for key, value in content.items()}
            for group, content in node.items()
            if group not in ("kind", "class")
        }
        attributes = state.get("attributes", {})
        if name == "Calibrator":
            self._spend(value for value in attributes.values() if isinstance(value, np.ndarray))
        if attributes.get("_home", "numpy") != "numpy":
            attributes["_home"] = home(self._target)
        return CODECS[name].build(state)

    def _sparse(self, node: dict[str, Any], depth: int) -> Any:
        key = json.dumps(node, sort_keys=True)
        if key not in self._matrices:
            self._matrices[key] = self._new_sparse(node, depth)
        return self._matrices[key]

    def _new_sparse(self, node: dict[str, Any], depth: int) -> Any:
        parts = [self.decode(node[part], depth) for part in ("data", "indices", "indptr")]
        if any(type(part) is not np.ndarray or part.ndim != 1 for part in parts):
            raise ModelFileError("a sparse matrix of it is not made of three vectors.")
        if any(part.dtype not in (np.int32, np.int64) for part in parts[1:]):
            raise ModelFileError("a sparse matrix of it has places that are not integers.")
        self._spend(parts)
        n_rows, n_columns = node["shape"]
        matrix = _SPARSE[node["format"], node["container"]](tuple(parts), shape=(n_rows, n_columns))
        check_sparse(matrix)
        return matrix

    def _pandas(self, node: dict[str, Any], _: int) -> Any:
        name = node["name"]
        if name not in ("NA", "NaT"):
            raise ModelFileError(f"pandas has no mark {name!r}.")
        return getattr(importlib.import_module("pandas"), name)


def _dtype(name: Any) -> np.dtype[Any]:
    if not isinstance(name, str):
        raise ModelFileError(f"its manifest has the dtype {name!r}.")
    dtype = np.dtype(name)
    if dtype.kind not in KINDS or dtype.str != name:
        raise ModelFileError(f"its manifest has the dtype {name!r}, which is not allowed.")
    return dtype
