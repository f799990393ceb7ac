"""Model files from an attacker who knows the format, loaded under the eyes of an audit hook.

Half of the cases are real models of which parts are swapped, nested, removed, given other types,
shapes or numbers; the others are drawn from the table of allowed classes and from the names of
everything that numpy, scipy, scikit-learn and Python hold. All have right hashes.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import multiprocessing.dummy  # noqa: F401 - joblib imports it when it first starts threads
import random
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.discovery import all_estimators

from dm2l import AutoClassifier, DM2LClassifier, LabelRules, ScoreClassifier
from dm2l.baselines import MaskedOneVsRestClassifier
from dm2l.extreme import ExtremeDM2LClassifier
from dm2l.persistence import load_model, save_model
from dm2l.persistence._building import class_of
from dm2l.persistence._schema import ENTRIES, Alternative, Spec
from dm2l.tables import make_table_pipeline
from fuzz.corpus import X, Y

PAIR = LabelRules(exclusions=[("y1", "y2")])
GROUP = LabelRules(exactly_one=[("y0", "y1", "y2")])
Json = Any
Arrays = dict[str, np.ndarray[Any, Any]]
ROWS = 3

# ------------------------------------------------------------------------------------- the watch

# What loading never does. Modules are there already: an import is one that a file asked for.
FORBIDDEN = (
    *("compile", "ctypes", "exec", "ftplib", "import", "marshal", "mmap", "open", "os", "pickle"),
    *("shutil", "socket", "sqlite3", "subprocess", "tempfile", "urllib", "webbrowser"),
)
# What predictions do for the first time: scikit-learn looks for plugins of data frames.
AT_FIRST = ("compile", "exec", "import", "open", "os.listdir", "os.scandir")
_watching: list[str] = []  # the file that may be opened, while a case runs
_asking: list[str] = []  # while the model that it held is asked
_seen: list[str] = []


class Seen(Exception):  # noqa: N818 - what the hook has seen, not an error of the library
    """A model file made the process do what it must not."""


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event.split(".")[0] in FORBIDDEN and not _harmless(event, arguments):
        _seen.append(f"{event} {arguments!r:.100}")


def _harmless(event: str, arguments: tuple[Any, ...]) -> bool:
    if event == "open":
        # The traceback of an error shows lines of source files.
        path = str(arguments[0])
        reads = arguments[1] in ("r", "rb")
        return reads and (bool(_asking) or path == _watching[0] or path.endswith(".py"))
    return bool(_asking) and event in AT_FIRST


@contextmanager
def watched(path: Path, *, asking: bool = False) -> Iterator[None]:
    """Raise :class:`Seen` if anything forbidden happens inside."""
    if _hook not in _installed:
        _installed.append(_hook)
        sys.addaudithook(_hook)
    _seen.clear()
    _watching.append(str(path))
    _asking.extend([str(path)] * asking)
    try:
        yield
    finally:
        _watching.clear()
        _asking.clear()
        if _seen:
            raise Seen(_seen[0])


_installed: list[Any] = []


def load(path: Path) -> None:
    """Load a file, and ask the model about a few rows as its users would."""
    with watched(path):
        model = load_model(path)
    width = getattr(model, "n_features_in_", None)
    if not isinstance(width, int) or not 0 < width <= 1000 or isinstance(model, Pipeline):
        return
    rows: Any = np.zeros((ROWS, width))
    if hasattr(model, "feature_names_in_"):
        rows = pd.DataFrame(rows, columns=model.feature_names_in_)
    with watched(path, asking=True):
        for method in ("decision_function", "predict", "predict_proba"):
            if hasattr(model, method):
                with suppress(ValueError):  # such as labels that it does not know
                    getattr(model, method)(rows)


# ------------------------------------------------------------------------------------- good files


def models(folder: Path) -> list[Path]:
    """One file of every kind of model; and everything that files may name is imported."""
    for entry in ENTRIES.values():
        class_of(entry)
    all_estimators()
    y, one = np.nan_to_num(Y), np.eye(3)[np.arange(len(X)) % 3]
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
    frame["c"] = np.where(X[:, 2] > 0, "left", "right")
    frame["d"] = [f"some words {k % 7}" for k in range(len(X))]
    made = {
        "kernel": DM2LClassifier(kernel="rbf", calibration="isotonic", cv=2).fit(X, Y),
        "linear": DM2LClassifier(calibration="sigmoid", random_state=np.random.RandomState(0)),
        "waves": DM2LClassifier(kernel="rbf", approximation="fourier", n_components=6).fit(X, Y),
        "forest": MaskedOneVsRestClassifier(RandomForestClassifier(3, max_depth=4)).fit(X, Y),
        "extra": MaskedOneVsRestClassifier(ExtraTreesClassifier(2, max_depth=4)).fit(X, Y),
        "boosted": MaskedOneVsRestClassifier(HistGradientBoostingClassifier(max_iter=3)).fit(X, Y),
        "scaled": make_pipeline(StandardScaler(), DM2LClassifier()).fit(X, Y),
        "extreme": ExtremeDM2LClassifier(rank=2).fit(X, y),
        "rules": DM2LClassifier(rules=GROUP).fit(X, one),
        "scores": ScoreClassifier(rules=PAIR).fit(X[:, :3], one),
        "auto": AutoClassifier("quick", cv=2, random_state=0).fit(X, Y),
        "table": make_table_pipeline(frame, DM2LClassifier()).fit(frame, Y),
    }
    made["linear"].fit(X, Y)
    for name, model in made.items():
        save_model(model, folder / f"seed-{name}.dm2l")
    return [folder / f"seed-{name}.dm2l" for name in made]


@cache
def _parts(content: bytes) -> tuple[bytes, Arrays]:
    """The manifest of a good file, and its arrays."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        text = archive.read("manifest.json")
        members = {name: archive.read(name) for name in json.loads(text)["members"]}
    arrays = {name: np.load(io.BytesIO(member)) for name, member in members.items()}
    _stored.update((id(arrays[name]), member) for name, member in members.items())
    return text, arrays


_stored: dict[int, bytes] = {}  # members that hold the arrays of good files


def taken_apart(content: bytes) -> tuple[Json, Arrays]:
    """The tree of a model file, and its arrays, none of which may be changed in place."""
    text, arrays = _parts(content)
    return json.loads(text)["model"], dict(arrays)


def packed(root: Json, arrays: Arrays) -> bytes:
    """A file with right hashes, whatever the tree and the arrays."""
    contents, members = {}, {}
    for name in sorted(_members(root) & arrays.keys()):
        contents[name] = _stored.get(id(arrays[name])) or _npy(arrays[name])
        members[name] = {"sha256": hashlib.sha256(contents[name]).hexdigest()}
    manifest = {"format": "dm2l model", "version": 2, "members": members, "model": root}
    text = json.dumps(manifest).encode()
    contents["manifest.json"] = text
    contents["manifest.sha256"] = hashlib.sha256(text).hexdigest().encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return packed.getvalue()


def _npy(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _members(root: Json) -> set[str]:
    return {
        str(node["member"])
        for node in (holder[key] for holder, key in _places([root]))
        if isinstance(node, dict) and "member" in node
    }


def _places(root: Json) -> list[tuple[Any, Any]]:
    found, waiting = [], [root]
    while waiting:
        here = waiting.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here))
        for key in keys:
            found.append((here, key))
            if isinstance(here[key], (dict, list)):
                waiting.append(here[key])
    return found


# ------------------------------------------------------------------------------------ the attacks


@cache
def names() -> list[str]:
    """Full names of what numpy, scipy, scikit-learn and Python hold."""
    found = set()
    for module_name, module in list(sys.modules.items()):
        if module_name.split(".")[0] in ("builtins", "numpy", "os", "scipy", "shutil", "sklearn"):
            found |= {
                f"{value.__module__}.{value.__qualname__}"
                for value in list(vars(module).values())
                if isinstance(value, type) or callable(value)
                if isinstance(getattr(value, "__module__", None), str)
                if hasattr(value, "__qualname__")
            }
    return sorted(found)


SCALARS = [None, True, False, 0, 1, -1, 3, 2**31, 2**63, 10**30, 0.5, 1e308, "", "x", "filename"]
SCALARS += ["predict", "__class__", "/etc/passwd", "rbf", "precomputed", "(a+)+$", "passthrough"]
METHODS = [
    "predict",
    "fit",
    "__class__",
    "__dict__",
    "__reduce__",
    "steps",
    "estimators_",
    "tofile",
]
DTYPES = ["<f8", "<f4", "<i8", "<i4", "|i1", "|u1", "<u8", "|b1", "<U5", "<c16", ">f8", "<M8[s]"]


class Draw:
    """Random parts of a file."""

    def __init__(self, rng: random.Random, arrays: Arrays) -> None:
        self.rng = rng
        self.arrays = arrays
        self.left = 40  # objects: each may hold others

    def array(self, dtype: str | None = None, shape: tuple[int, ...] | None = None) -> Json:
        """A node with an array, often of a form that somebody expects."""
        rng = self.rng
        if shape is None:
            shape = tuple(
                rng.choice([0, 1, 2, 3, 5]) for _ in range(rng.choice([0, 1, 1, 2, 2, 3]))
            )
        kind = rng.choice(["zeros", "ones", "numbers", "large", "nan"])
        with np.errstate(all="ignore"):
            values = {
                "zeros": np.zeros(shape),
                "ones": np.ones(shape),
                "numbers": np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7,
                "large": np.full(shape, rng.choice([2.0**40, -(2.0**40), 1e308, -1])),
                "nan": np.full(shape, np.nan if rng.random() < 0.3 else 1),
            }[kind].astype(dtype or rng.choice(DTYPES))
        name = f"arrays/new{len(self.arrays)}.npy"
        self.arrays[name] = values
        return {"kind": "array", "member": name}

    def anything(self, depth: int = 0) -> Json:
        """Any node."""
        rng = self.rng
        kinds = ["scalar", "array", "special", "trusted", "object", "same"]
        kinds += ["list", "tuple", "dict", "objects"] if depth < 4 else []
        kinds = kinds if self.left > 0 else ["scalar", "same"]
        kind = rng.choice(kinds)
        items = (
            [self.anything(depth + 1) for _ in range(rng.choice([0, 1, 2, 3]))] if depth < 4 else []
        )
        return {
            "scalar": lambda: rng.choice(SCALARS),
            "array": self.array,
            "special": self.special,
            "trusted": lambda: self.trusted(depth),
            "object": lambda: self.object(depth=depth + 1),
            "same": lambda: {"kind": "same", "object": rng.randrange(-1, 9)},
            "list": lambda: items,
            "tuple": lambda: {"kind": rng.choice(["tuple", "set", "frozenset"]), "items": items},
            "dict": lambda: {"kind": "dict", "items": dict(zip("abcdefg", items, strict=False))},
            "objects": lambda: {"kind": "objects", "shape": [len(items)], "items": items},
        }[kind]()

    def special(self) -> Json:
        """Nodes that are neither plain nor objects."""
        rng = self.rng
        return rng.choice(
            [
                {"kind": "float", "value": rng.choice(["nan", "inf", "-inf", "1"])},
                {"kind": "dtype", "name": rng.choice([*DTYPES, "|O", "|V8"]), "type": True},
                {"kind": "slice", "ends": [0, rng.choice([3, 2**70, None])]},
                {"kind": "pandas", "name": rng.choice(["NA", "NaT", "eval", "read_pickle"])},
                {"kind": "function", "name": rng.choice(["log1p", "load", "fromfile", "str"])},
                {"kind": "scalar", "dtype": rng.choice(DTYPES), "value": rng.choice(SCALARS)},
                {
                    "kind": "sparse",
                    "format": rng.choice(["csr", "csc", "coo"]),
                    "container": "array",
                    "shape": [rng.choice([0, 2, 3, 2**40]), rng.choice([0, 2, 5, 2**40])],
                    "data": self.array("<f8", (2,)),
                    "indices": self.array("<i4", (2,)),
                    "indptr": self.array("<i4", (3,)),
                },
            ]
        )

    def trusted(self, depth: int = 0) -> Json:
        """An object of any class of the world, or a call of any function."""
        node: Json = {"kind": "trusted", "name": self.rng.choice(names())}
        if self.rng.random() < 0.5:
            node["new"] = True
        if self.rng.random() < 0.7:
            node["arguments"] = [self.rng.choice(SCALARS) for _ in range(self.rng.randrange(3))]
        if depth < 3 and self.rng.random() < 0.5:
            keys = self.rng.sample(METHODS, 2)
            node["state"] = {
                "kind": "dict",
                "items": {key: self.anything(depth + 1) for key in keys},
            }
        return node

    def object(self, name: str | None = None, depth: int = 0) -> Json:
        """An object whose attributes are mostly what the table says, or one of any class."""
        rng, table = self.rng, ENTRIES
        self.left -= 1
        if name is None:
            name = rng.choice(list(table) if rng.random() < 0.8 else names())
        node: Json = {"kind": "object", "class": name, "state": {}}
        entry = table.get(name)
        sizes: dict[str, int] = {}
        if entry is not None:
            fitted = rng.random() < 0.8
            for key, spec in (entry.attributes if fitted else entry.parameters).items():
                if key in entry.optional and rng.random() < 0.5:
                    continue
                wrong = rng.random() < 0.02
                node["state"][key] = (
                    self.anything(depth + 1) if wrong else self.form(spec, sizes, depth)
                )
        if entry is None or rng.random() < 0.1:
            node["state"][rng.choice(METHODS)] = self.anything(depth + 1)
        return node

    def form(self, spec: Spec, sizes: dict[str, int], depth: int) -> Json:
        """A value that the table allows, as far as it can be told from the form alone."""
        if depth > 8 or self.left <= 0:
            simple = [one for one in spec if one.kind != "object"]
            spec = tuple(simple) or spec
        one = self.rng.choice(spec)
        if (depth > 12 or self.left <= 0) and one.kind in ("object", "list", "dict"):
            return None
        return self._form(one, sizes, depth)

    def _form(self, one: Alternative, sizes: dict[str, int], depth: int) -> Json:
        rng = self.rng

        def size(name: str) -> int:
            if name.isdigit():
                return int(name)
            return (
                rng.choice([0, 1, 3])
                if name == "..."
                else sizes.setdefault(name, rng.choice([1, 2, 3, 5]))
            )

        match one.kind:
            case "none":
                return None
            case "bool":
                return rng.random() < 0.5
            case "int":
                return rng.choice([0, 1, 2, 10, -1, 2**40])
            case "number" | "float":
                return rng.choice([0.0, 1.0, 0.5, -3, 1e300])
            case "str":
                return rng.choice(["a", "b", "numpy", "text1", "numeric", ""])
            case "text":
                return one.value
            case "range":
                return rng.choice([int(end) for end in one.value.split(":")])
            case "size":
                return size(one.sizes[0])
            case "dtype":
                return {"kind": "dtype", "name": rng.choice(DTYPES), "type": rng.random() < 0.5}
            case "slice":
                return {"kind": "slice", "ends": [0, 1]}
            case "function":
                return {"kind": "function", "name": "log1p"}
            case "plain":
                return rng.choice(SCALARS) if rng.random() < 0.8 else self.array()
            case "array":
                letter = {"f": "<f8", "F": "<f8", "i": "<i8", "b": "|b1", "U": "<U3"}
                shape = tuple(size(name) for name in one.sizes)
                if one.value == "O":
                    items = [f"n{k}" for k in range(int(np.prod(shape)))]
                    return {"kind": "objects", "shape": list(shape), "items": items}
                exact = np.dtype(one.value).str if len(one.value) > 1 else None
                return self.array(exact or letter.get(one.value), shape)
            case "sparse":
                return self.special()
            case "list":
                count = size(one.sizes[0]) if one.sizes else rng.choice([0, 1, 2])
                return [self.form(one.parts[0], sizes, depth + 1) for _ in range(count)]
            case "tuple":
                items = [self.form(part, sizes, depth + 1) for part in one.parts]
                return {"kind": "tuple", "items": items}
            case "dict":
                keys = "ab" if one.parts else ""
                return {
                    "kind": "dict",
                    "items": {key: self.form(one.parts[0], sizes, depth + 1) for key in keys},
                }
            case _:
                table = ENTRIES
                fits = [
                    name
                    for name, entry in table.items()
                    if one.value == name or one.value in entry.groups
                ]
                small = [name for name in fits if not table[name].groups] or fits
                return self.object(rng.choice(fits if depth < 4 else small), depth + 1)


def _spoil(values: Any, rng: random.Random) -> Any:
    """An array with another number, shape or dtype."""
    if values.size and rng.random() < 0.6:
        flat = values.reshape(-1).copy()
        place = rng.randrange(flat.size)
        with np.errstate(all="ignore"):
            wrong = rng.choice([0, 1, -1, 255, 2**31 - 1, 2**40, -(2**62), np.nan, np.inf])
            flat[place] = np.array(wrong).astype(values.dtype)
        return flat.reshape(values.shape)
    with np.errstate(all="ignore"):
        return rng.choice(
            [
                lambda: values[:-1] if values.ndim else values,
                lambda: values[..., :-1] if values.ndim else values,
                lambda: values[None],
                lambda: values.ravel(),
                lambda: values.T,
                lambda: np.repeat(values, 2, axis=0) if values.ndim else values,
                lambda: values.astype(rng.choice(["<f4", "<i4", "|u1", ">f8", "<U3", "|b1"])),
            ]
        )()


def attack(content: bytes, rng: random.Random) -> bytes:
    """Another model file, made of this one or of nothing."""
    root, arrays = taken_apart(content)
    draw = Draw(rng, arrays)
    if rng.random() < 0.4:
        return packed(draw.object(), arrays)
    whole = [root]
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        places = _places(whole)
        holder, key = rng.choice(places)
        here = holder[key]
        action = rng.randrange(10)
        classed = [h[k] for h, k in places if isinstance(h[k], dict) and "class" in h[k]]
        if action == 0:
            rng.choice(classed)["class"] = rng.choice([*ENTRIES, *rng.sample(names(), 9)])
        elif action == 1:
            holder[key] = draw.anything()
        elif action == 2:
            holder[key] = draw.trusted()
        elif action == 3:
            other, place = rng.choice(places)
            if len(json.dumps(other[place])) < 50_000:
                holder[key] = copy.deepcopy(other[place])
        elif action == 4 and isinstance(holder, dict):
            del holder[key]
        elif action == 5:
            rng.choice(classed)["state"][rng.choice(METHODS)] = draw.anything()
        elif action == 6:
            wraps = [[here], {"kind": "tuple", "items": [here]}, {"kind": "set", "items": [here]}]
            holder[key] = rng.choice(wraps)
        elif action == 7:
            holder[key] = {"kind": "same", "object": rng.randrange(30)}
        elif arrays:
            name = rng.choice(sorted(arrays))
            arrays[name] = _spoil(arrays[name], rng)
    return packed(whole[0], arrays)
