"""Read the manifest of a model file into checked records.

Every value must have a type that is allowed at its position, so a file can contain only classes,
attributes and types from the table of allowed classes. The result is data: arrays, plain values and
records of objects. Objects are built from the records after the whole file has been checked.
"""

import math
import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.arrays import sparse_from_parts
from dm2l.persistence._archive import KINDS, ModelFileError, brief
from dm2l.persistence._checks import CHECKS, Wrong, check_requests
from dm2l.persistence._schema import ENTRIES, Alternative, Entry, Record, Spec, parse

Json = Any
OTHER_VERSION = "If another version of dm2l or scikit-learn wrote the file, fit the model again."
MAX_DEPTH = 64
# Bytes that each value and each object takes from the budget.
_VALUE, _OBJECT = 64, 16384
_INTEGERS = 1 - 2**63, 2**63 - 1
_LONGEST_DTYPE = 40
_PLAIN, _OBJECTS = parse("plain"), {"T": parse("str"), "O": parse("key"), "a": parse("key")}
# For each allowed type: the kinds of numpy scalars and the Python type that it allows.
_SCALARS: dict[str, Any] = {"none": ("", type(None)), "bool": ("b", bool), "str": ("U", str)}
# Long lists are read in one step if all items have types that need no check.
_SIMPLE: set[type] = {str, int, float, bool, type(None)}
_AT_ONCE: dict[str, set[type]] = {"str": {str}, "key": _SIMPLE, "plain": _SIMPLE}
# The allowed type of every value inside an object of a trusted class.
_ANYTHING: Spec = (Alternative("plain", "Anything"), Alternative("object", "Anything"))
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_KINDS = {"f": "f", "F": "f", "i": "iu", "b": "b", "U": "U", "T": "O", "O": "O"}


@dataclass
class Trusted:
    """The stored content of an object whose class the caller trusts."""

    name: str
    parts: dict[str, Any]


class _MismatchError(Exception):
    """Error for a value that does not have an allowed type; the next allowed type is then tried."""


# These functions are elementwise. They cannot write to memory of the caller: ``kw_args`` must be
# None, so a file cannot pass an ``out`` argument.
FUNCTIONS = {
    *("abs", "arcsinh", "arctan", "cbrt", "exp", "expm1", "log", "log10", "log1p", "log2"),
    *("sign", "sqrt", "square", "tanh"),
}


class Reader:
    """Reads and checks values of a manifest; ``array`` returns the array of an archive member."""

    # A short manifest could cause much work by referring to the same array many times. ``budget``
    # therefore limits the total bytes of values and objects created and of arrays checked.

    def __init__(
        self,
        array: Callable[[Any], NDArray[Any]],
        trusted: Container[str],
        budget: float = math.inf,
    ) -> None:
        self._array_of = array
        self._trusted = trusted
        self._budget = budget
        self._depth = self._n_trusted = 0
        self._records: list[Record | Trusted] = []
        self._known_finite: set[str] = set()
        self._matrices: dict[tuple[Any, ...], Any] = {}
        self.untrusted: set[str] = set()
        self.sklearn_classes: set[str] = set()
        self.foreign: set[int] = set()  # ids of arrays that belonged to another library

    def read(self, node: Json, spec: Spec, place: str, sizes: dict[str, int]) -> Any:
        """Read a value of the manifest, which must have a type that ``spec`` allows."""
        self.pay(_VALUE)
        self._depth += 1
        if self._depth > 2 * MAX_DEPTH:
            raise ModelFileError("the manifest is nested too deeply.")
        try:
            kind = _kind(node)
            if kind == "trusted":
                return self._read_trusted(node, place)
            if kind == "same":
                node = self._earlier(node)
            for form in spec:
                try:
                    method = getattr(self, f"_{form.kind}", None)
                    return method(node, form, place, sizes) if method else _simple(node, form)
                except _MismatchError:
                    pass
        finally:
            self._depth -= 1
        raise ModelFileError(f"{place} is {_described(node)}, which is not allowed there.")

    def pay(self, size: int) -> None:
        """Subtract bytes from the memory budget; raise an error if too few bytes are left."""
        self._budget -= size
        if self._budget < 0:
            raise ModelFileError("the contents need far more memory than the size of the file.")

    def _size(self, node: Json, form: Alternative, place: str, sizes: dict[str, int]) -> Any:
        value = _scalar(node, "iu", int)
        _bind(sizes, form, [int(value)], place)
        return value

    def _plain(self, node: Json, form: Alternative, place: str, sizes: dict[str, int]) -> Any:
        """Read a value without objects; inside an object of a trusted class, read any value."""
        inner = _ANYTHING if form.value else _PLAIN
        if node is None or type(node) in (bool, int, float, str):
            return node
        if type(node) is list:
            return self._read_items(node, inner, place, sizes)
        kind = _kind(node)
        if kind == "tuple":
            return tuple(self.read(item, inner, place, sizes) for item in _items(node, place))
        if kind == "dict":
            return self._dict(node, Alternative("dict", parts=(inner,)), place, sizes)
        if kind == "pandas" and node.get("name") in ("NA", "NaT"):
            return getattr(import_module("pandas"), node["name"])
        if kind == "objects":
            return self._objects(node, place, inner)
        if kind == "array":
            return self._any_array(node)
        if kind == "sparse":
            return self._any_sparse(node, place)
        if kind in ("dtype", "slice", "float"):
            return _simple(node, Alternative(kind))
        return _scalar(node, "biufU")

    def _key(self, node: Json, form: Alternative, place: str, sizes: dict[str, int]) -> Any:
        """Read a hashable value, which can be the key of a dictionary."""
        value = self._plain(node, form, place, sizes)
        try:
            hash(value)
        except TypeError:
            raise _MismatchError from None
        return value

    def _list(self, node: Json, form: Alternative, place: str, sizes: dict[str, int]) -> list[Any]:
        if type(node) is not list:
            raise _MismatchError
        _bind(sizes, form, [len(node)][: len(form.sizes)], place)
        return self._read_items(node, form.parts[0], place, sizes)

    def _tuple(self, node: Json, form: Alternative, place: str, sizes: dict[str, int]) -> Any:
        items = _items(node, place) if _kind(node) == "tuple" else None
        if items is None or len(items) != len(form.parts):
            raise _MismatchError
        parts = zip(items, form.parts, strict=True)
        return tuple(
            self.read(v, part, f"{place}[{i}]", sizes) for i, (v, part) in enumerate(parts)
        )

    def _dict(self, node: Json, form: Alternative, place: str, sizes: dict[str, int]) -> Any:
        items = _items(node, place, dict) if _kind(node) == "dict" else None
        if items is None or (items and not form.parts):
            raise _MismatchError
        return {
            key: self.read(v, form.parts[0], f"{place}[{brief(key)}]", sizes)
            for key, v in items.items()
        }

    def _any_array(self, node: Json) -> NDArray[Any]:
        if _kind(node) != "array":
            raise _MismatchError
        array = self._array_of(node.get("member"))
        if "library" in node:
            self.foreign.add(id(array))
        return array

    def _array(self, node: Json, form: Alternative, place: str, sizes: dict[str, int]) -> Any:
        letter, exact = form.value[0], len(form.value) > 1
        if letter in _OBJECTS and _kind(node) == "objects":
            array: NDArray[Any] = self._objects(node, place, _OBJECTS[letter])
        else:
            array = self._any_array(node)
        fits = (
            array.dtype.str[1:] == form.value
            if exact
            else array.dtype.kind in _KINDS.get(letter, "biufUO")
        )
        if not fits or not array.dtype.isnative or array.ndim != len(form.sizes):
            raise _MismatchError
        _bind(sizes, form, array.shape, place)
        if letter == "f" and node["member"] not in self._known_finite:
            self.pay(array.nbytes)
            self._known_finite.add(node["member"])
            if not np.isfinite(array).all():
                raise ModelFileError(f"{place} contains NaN or infinity.")
        return array

    def _objects(self, node: Json, place: str, inner: Spec) -> NDArray[np.object_]:
        items, shape = node.get("items"), node.get("shape")
        if type(items) is not list or type(shape) is not list or len(shape) > 32:
            raise ModelFileError(f"{place} must have the lists 'items' and 'shape'.")
        sizes = all(type(n) is int and 0 <= n < 2**31 for n in shape)
        if not sizes or math.prod(shape) != len(items):
            raise ModelFileError(
                f"{place} has {len(items)} values, which do not match its shape {brief(shape)}."
            )
        array = np.empty(len(items), dtype=object)
        for i, item in enumerate(self._read_items(items, inner, place, {})):
            array[i] = item
        return array.reshape(shape)

    def _read_items(
        self, nodes: list[Json], spec: Spec, place: str, sizes: dict[str, int]
    ) -> list[Any]:
        """Read the values of a list; long lists of texts or numbers are read in one step."""
        kinds = _AT_ONCE.get(spec[0].kind, set()) if len(nodes) > 8 else set[type]()
        if kinds and kinds.issuperset(map(type, nodes)):
            self.pay(_VALUE * len(nodes))
            return list(nodes)
        return [self.read(v, spec, f"{place}[{i}]", sizes) for i, v in enumerate(nodes)]

    def _any_sparse(self, node: Json, place: str) -> Any:
        if _kind(node) != "sparse":
            raise _MismatchError
        parts = [node.get(name) for name in ("data", "indices", "indptr")]
        names = [part.get("member") if type(part) is dict else None for part in parts]
        layout, container, shape = (node.get(k) for k in ("format", "container", "shape"))
        if layout not in ("csr", "csc") or type(shape) is not list:
            raise ModelFileError(
                f"{place} must be a sparse matrix in csr or csc format, got {brief(layout)}."
            )
        key = (*map(str, names), layout, str(container), str(shape)[:100])
        if key not in self._matrices:
            arrays = [self._array_of(name) for name in names]
            self.pay(sum(array.nbytes for array in arrays))
            try:
                data, indices, indptr = arrays
                matrix = sparse_from_parts(data, indices, indptr, shape, layout=layout)
            except (ValueError, OverflowError) as error:
                raise ModelFileError(f"{place} is not a valid sparse matrix: {error}.") from error
            if container == "matrix":
                matrix = (sp.csr_matrix if layout == "csr" else sp.csc_matrix)(matrix)
            self._matrices[key] = matrix
        return self._matrices[key]

    def _sparse(self, node: Json, form: Alternative, place: str, sizes: dict[str, int]) -> Any:
        value = self._any_sparse(node, place)
        _bind(sizes, form, value.shape, place)
        return value

    def _earlier(self, node: Json) -> Any:
        """Return the earlier record to which a node refers; an object cannot contain itself."""
        index = node.get("object")
        if type(index) is not int or not 0 <= index < len(self._records):
            raise ModelFileError(
                f"the manifest refers to the object {brief(index)}, which is not defined before it."
            )
        return self._records[index]

    def _object(self, node: Json, form: Alternative, place: str, sizes: dict[str, int]) -> Any:
        if type(node) is Trusted:
            return node
        record = self._read_record(node, form, place) if _kind(node) == "object" else node
        if type(record) is not Record or not _is_one(record.entry, form):
            raise _MismatchError
        if not record.sizes.keys() >= set(form.sizes):
            raise ModelFileError(f"{place} is a {record.entry.name} that is not fitted.")
        _bind(sizes, form, [record.sizes[name] for name in form.sizes], place)
        return record

    def _read_record(self, node: Json, form: Alternative, place: str) -> Record:
        name, nodes = node.get("class"), node.get("state")
        entry = ENTRIES.get(name) if type(name) is str else None
        if entry is None:
            raise ModelFileError(f"{place} has the class {brief(name)}, which is not allowed.")
        if not _is_one(entry, form):
            raise _MismatchError
        if type(nodes) is not dict:
            raise ModelFileError(f"{place}, a {name}, must have a dictionary of attributes.")
        self.pay(_OBJECT)
        if entry.module.startswith("sklearn."):
            self.sklearn_classes.add(entry.name)
        specs = entry.attributes
        record, before = Record(entry, {}, {}), self._n_trusted
        try:
            for unknown in sorted(nodes.keys() - specs.keys()):
                reason = f"has the attribute {brief(unknown)}, which is not allowed"
                raise Wrong(f"{reason}. {OTHER_VERSION}")
            for key, part in nodes.items():
                record.state[key] = self.read(part, specs[key], f"{name}.{key}", record.sizes)
            for lacking in entry.lacks(set(nodes)):
                raise Wrong(f"has no attribute {lacking!r}. {OTHER_VERSION}")
            if self._n_trusted == before:
                check_requests(record.state.get("_metadata_request"))
                for check in CHECKS.get(name, ()) if entry.is_fitted(set(nodes)) else ():
                    check(record)
        except Wrong as wrong:
            raise ModelFileError(f"{place}, a {name}, {str(wrong).rstrip('.')}.") from None
        self._records.append(record)
        return record

    def _read_trusted(self, node: Json, place: str) -> Trusted:
        """Read an object of a class outside the table; its attributes are not checked."""
        name = node.get("name")
        if type(name) is not str or not _NAME.fullmatch(name):
            raise ModelFileError(f"{place} has a class with the malformed name {brief(name)}.")
        if name not in self._trusted:
            self.untrusted.add(name)
        self._n_trusted += 1
        given = [key for key in ("new", "arguments", "state", "items") if key in node]
        parts = {key: self.read(node[key], _ANYTHING, f"{place}.{key}", {}) for key in given}
        value = Trusted(name, parts)
        self._records.append(value)
        return value


def _kind(node: Json) -> str | None:
    kind = node.get("kind") if type(node) is dict else None
    return kind if type(kind) is str else None


def _scalar(node: Json, kinds: str, *types: type) -> Any:
    """Read a plain value of one of ``types``, or a numpy scalar whose kind is in ``kinds``."""
    if type(node) in types:
        return node
    if _kind(node) != "scalar":
        raise _MismatchError
    dtype, value = _read_dtype(node.get("dtype")), node.get("value")
    value = _read_float(value) if type(value) is dict else value
    if dtype.kind not in kinds or type(value) not in (bool, int, float, str):
        raise _MismatchError
    try:
        # Older versions of numpy only warn if an integer is too large for the dtype.
        if dtype.kind in "iu" and (
            type(value) is not int or not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max
        ):
            raise OverflowError(f"{value} is not a valid {dtype}")
        return dtype.type(value)
    except (ValueError, OverflowError) as error:
        raise ModelFileError(f"the manifest has a malformed scalar: {error}.") from error


def _simple(node: Json, form: Alternative) -> Any:
    """Read a value that is not a container, such as a number, a text or a dtype."""
    kind = _kind(node)
    match form.kind:
        case "none" | "bool" | "str":
            return _scalar(node, *_SCALARS[form.kind])
        case "text" if type(node) is str and node == form.value:
            return node
        case "int" | "range":
            value = _scalar(node, "iu", int)
            low, high = map(int, form.value.split(":")) if form.value else _INTEGERS
            if low <= value <= high:
                return value
        case "number":
            value = _scalar(node, "iuf", int, float)
            if abs(value) < 2**63 if type(value) is int else np.isfinite(value):
                return value
        case "float":
            return _read_float(node) if kind == "float" else _scalar(node, "iuf", int, float)
        case "dtype" if kind == "dtype":
            dtype = _read_dtype(node.get("name"))
            return dtype.type if node.get("type") is True else dtype
        case "slice" if kind == "slice":
            ends = node.get("ends")
            if type(ends) is list and [type(end) for end in ends] == [int, int]:
                return slice(*ends)
        case "function" if kind == "function":
            name = node.get("name")
            if type(name) is str and name in FUNCTIONS:
                return getattr(np, name)
    raise _MismatchError


def _is_one(entry: Entry, form: Alternative) -> bool:
    return form.value in (entry.name, "Anything") or form.value in entry.groups


def _bind(sizes: dict[str, int], form: Alternative, found: Sequence[int], place: str) -> None:
    """Check sizes against the known dimensions of an object, and record new dimensions."""
    for name, size in zip(form.sizes, found, strict=True):
        wanted = int(name) if name.isdigit() else sizes.setdefault(name, size)
        if name != "..." and wanted != size:
            raise ModelFileError(f"{place} has size {size}, but the other arrays require {wanted}.")


def _read_dtype(name: Any) -> np.dtype[Any]:
    try:
        # numpy parses a long name as a list of dtypes, which is slow.
        dtype = np.dtype(name) if type(name) is str and len(name) <= _LONGEST_DTYPE else None
    except (TypeError, ValueError):
        dtype = None
    if dtype is None or dtype.kind not in KINDS or dtype.str != name:
        raise ModelFileError(f"the manifest has the dtype {brief(name)}, which is not allowed.")
    return dtype


def _read_float(node: dict[str, Any]) -> float:
    found = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}.get(str(node.get("value"))[:9])
    if found is None:
        raise ModelFileError(f"the manifest has the malformed number {brief(node)}.")
    return found


def _items(node: dict[str, Any], place: str, expected: type = list) -> Any:
    if type(node.get("items")) is not expected:
        raise ModelFileError(f"{place} must have an entry 'items' of type {expected.__name__}.")
    return node["items"]


def _described(node: Any) -> str:
    """Return a short description of a value for an error message."""
    if isinstance(node, Record):
        return f"a {node.entry.name}"
    if isinstance(node, dict) and node.get("kind") == "object":
        return f"a {brief(node.get('class'))}"
    return f"of kind {brief(node.get('kind'))}" if isinstance(node, dict) else brief(node)
