"""Values out of JSON that a file came with, none of which is believed."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.arrays import asarray_like, device_name
from dm2l.persistence._archive import ModelFileError, brief
from dm2l.persistence._arrays import KINDS, check_sparse
from dm2l.persistence._encoding import MAX_DEPTH, Json
from dm2l.persistence._objects import CODECS
from dm2l.persistence._sklearn import Slot, swap

_UNDER_WAY = object()
# Bytes that an object, and a curve of a calibrator, count for.
_OBJECT, _CURVE = 8192, 2048
_LONGEST_DTYPE = 40
_SPARSE = {
    ("csr", "array"): sp.csr_array,
    ("csr", "matrix"): sp.csr_matrix,
    ("csc", "array"): sp.csc_array,
    ("csc", "matrix"): sp.csc_matrix,
}


class Decoder:
    """Turns JSON into values.

    ``array`` gives the array of a member; ``parts`` are objects of scikit-learn with slots in
    them, ``slots`` the JSON of what belongs there; ``target`` is where arrays of other libraries
    go. A few lines of JSON that name the same array again and again are a way to much work:
    ``budget`` bounds the bytes of objects and curves that are made, and of arrays that are copied
    or looked through.
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
        self._matrices: dict[tuple[Any, ...], tuple[Any, Any]] = {}
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
            raise ModelFileError(f"its manifest has a value of unknown kind {brief(kind)}.")
        try:
            return self._kinds[kind](node, depth + 1)
        except ModelFileError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            what = node.get("class") if kind == "object" else kind
            raise ModelFileError(
                f"a value of kind {brief(what)} is malformed: {brief(error)}."
            ) from error

    def _once(self, what: str, index: Any, those: list[Any]) -> Any:
        """A part with its slots filled, or what belongs into a slot."""
        if type(index) is not int or not 0 <= index < len(those):
            raise ModelFileError(
                f"it has {len(those)} {what}s and points to number {brief(index)}."
            )
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
            raise ModelFileError("a scalar of its manifest is neither a number nor text.")
        return dtype.type(value)

    def _array(self, node: dict[str, Any], _: int) -> Any:
        name = node["member"]
        array = self._array_of(name)
        if "library" not in node or self._target is None:
            return array
        if name not in self._moved:
            self._moved[name] = asarray_like(array, self._target)
        return self._moved[name]

    def _pay(self, size: int) -> None:
        self._budget -= size
        if self._budget < 0:
            raise ModelFileError("its manifest makes too much of too few bytes.")

    def _objects(self, node: dict[str, Any], depth: int) -> NDArray[np.object_]:
        items, shape = self.decode(node["items"], depth), tuple(map(int, node["shape"]))
        array = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            array[i] = item
        return array if shape == array.shape else array.reshape(shape)

    def _object(self, node: dict[str, Any], depth: int) -> Any:
        name = node["class"]
        if name not in CODECS:
            raise ModelFileError(f"it holds an object of the unknown class {brief(name)}.")
        state = {
            group: {key: self.decode(value, depth) for key, value in content.items()}
            for group, content in node.items()
            if group not in ("kind", "class")
        }
        attributes = state.get("attributes", {})
        self._pay(_OBJECT)
        if name == "Calibrator":
            arrays = [value for value in attributes.values() if isinstance(value, np.ndarray)]
            self._pay(sum(array.nbytes for array in arrays))
            for curves in ("slopes", "lengths"):
                self._pay(_CURVE * math.prod(getattr(attributes.get(curves), "shape", (0,))))
        if attributes.get("_home", "numpy") != "numpy":
            attributes["_home"] = device_name(self._target)
        return CODECS[name].build(state)

    def _sparse(self, node: dict[str, Any], depth: int) -> Any:
        data, indices, indptr = parts = tuple(
            self.decode(node[part], depth) for part in ("data", "indices", "indptr")
        )
        shape, form, container = tuple(node["shape"]), node["format"], node["container"]
        key = (shape, form, container, *map(id, parts))
        if key not in self._matrices:
            check_sparse(data, indices, indptr, shape, form)
            self._pay(sum(part.nbytes for part in parts))
            matrix = _SPARSE[form, container](parts, shape=shape)
            self._matrices[key] = matrix, parts  # while they are kept, their ids are theirs
        return self._matrices[key][0]

    def _pandas(self, node: dict[str, Any], _: int) -> Any:
        name = node["name"]
        if name not in ("NA", "NaT"):
            raise ModelFileError(f"pandas has no mark {brief(name)}.")
        return getattr(importlib.import_module("pandas"), name)


def _dtype(name: Any) -> np.dtype[Any]:
    # numpy reads long names as lists of dtypes, one by one.
    if not isinstance(name, str) or len(name) > _LONGEST_DTYPE:
        raise ModelFileError(f"its manifest has the dtype {brief(name)}.")
    dtype = np.dtype(name)
    if dtype.kind not in KINDS or dtype.str != name:
        raise ModelFileError(f"its manifest has the dtype {name!r}, which is not allowed.")
    return dtype
