"""Parse the table :mod:`dm2l.persistence._allowed`, which lists what a model file may contain.

A block of the table describes one or more classes::

    StandardScaler sklearn.preprocessing._data: Estimator Data
      copy with_mean: bool
      mean_ var_: f[d] | none

The first line names the classes and their module, then their groups and the earlier blocks that
they extend. A block without a module only serves as a base of other blocks. The other lines list
attributes. An attribute is fitted if its name begins or ends with ``_`` and its type is not
``setting``, or if a ``+`` follows its name; otherwise, it is a parameter. All parameters must be
present. Fitted attributes must be all present or all absent. An attribute with ``?`` may be absent.
An attribute with ``-`` is never stored.

==================  =================================================================
none bool str       a value of this Python type, or the corresponding numpy scalar
int number float    an integer; a finite number; a number, NaN or infinity
int[1:9] 'a'        an integer from 1 to 9, both included; this text
size[d]             an integer that is the size of dimension d of this object
f[n,d] i[n] b[n]    an array of finite numbers, integers or booleans with these dimensions
F[n] U[n] T[n]      an array of numbers that may be NaN, of text, of text as Python objects
O[n] a[n] u4[n]     an array of keys of a dictionary; of any of these types; of an exact dtype
sparse[n,d]         a CSR or CSC matrix
[x] [n, x]          a list of x; a list of length n
(x, y) {x} {}       a tuple; a dictionary with text as keys; an empty dictionary
dtype slice         a numpy dtype or scalar type; a slice
function            a function of a fixed list of numpy's functions
plain               any value without objects
setting             a parameter that only fit reads: plain, a random state or a splitter
Name Name[d]        an object of this class or group; a fitted one with the same size d
==================  =================================================================

A letter stands for the same size in all attributes of an object, and ``...`` for any size.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from dm2l.persistence._allowed import TABLE

_SETTING = "plain | RandomState | Splitter"


class Alternative(NamedTuple):
    """An allowed type of a value."""

    kind: str
    value: str = ""
    sizes: tuple[str, ...] = ()
    parts: tuple[Spec, ...] = ()


Spec = tuple[Alternative, ...]


@dataclass(frozen=True)
class Entry:
    """A class that model files may contain, with the allowed types of its attributes."""

    name: str
    module: str
    groups: frozenset[str]
    parameters: dict[str, Spec]
    fitted: dict[str, Spec]
    optional: frozenset[str]
    dropped: frozenset[str]

    @property
    def attributes(self) -> dict[str, Spec]:
        """Return the types of all attributes: parameters and fitted attributes."""
        return self.parameters | self.fitted

    def is_fitted(self, names: set[str]) -> bool:
        """Return whether an object with attributes ``names`` is fitted or never needs fitting."""
        found = names & self.fitted.keys()
        return not self.fitted or any(n.endswith("_") or n not in self.optional for n in found)

    def lacks(self, names: set[str]) -> list[str]:
        """Return the required attributes that are missing from ``names``."""
        needed = self.attributes if self.is_fitted(names) else self.parameters
        return sorted(needed.keys() - self.optional - names)


@dataclass
class Record:
    """An object in a file: its class, its attributes, and the sizes of its dimensions."""

    entry: Entry
    state: dict[str, Any]
    sizes: dict[str, int]


def _entry(name: str, module: str, groups: frozenset[str], lines: list[str]) -> Entry:
    found: dict[str, tuple[str, str]] = {}
    for line in lines:
        names, _, text = line.partition(":")
        found |= {marked.rstrip("+?-"): (marked, text.strip()) for marked in names.split()}
    parts: tuple[dict[str, Spec], dict[str, Spec]] = ({}, {})
    for one, (marked, text) in found.items():
        if text:
            fitted = "+" in marked or ("_" in (one[0], one[-1]) and text != "setting")
            parts[fitted][one] = parse(text.replace("setting", _SETTING))
    optional, dropped = (
        frozenset(one for one, (marked, _) in found.items() if marked.endswith(mark))
        for mark in "?-"
    )
    return Entry(name, module, groups, *parts, optional, dropped)


@cache
def parse(text: str) -> Spec:
    """Return the alternative types that a type expression of the table allows."""
    return _forms(ast.parse(text.strip(), mode="eval").body)


def _forms(node: ast.expr) -> Spec:
    match node:
        case ast.BinOp(left, ast.BitOr(), right):
            return _forms(left) + _forms(right)
        case ast.Constant(str(text)):
            form = Alternative("text", text)
        case ast.List([*sizes, item]):
            form = Alternative("list", "", tuple(map(ast.unparse, sizes)), (_forms(item),))
        case ast.Tuple(items):
            form = Alternative("tuple", "", (), tuple(map(_forms, items)))
        case ast.Set([item]):
            form = Alternative("dict", "", (), (_forms(item),))
        case ast.Dict([]):
            form = Alternative("dict")
        case ast.Subscript(ast.Name("int"), bounds):
            form = Alternative("range", ast.unparse(bounds))
        case ast.Subscript(ast.Name(name), size):
            other = "array" if len(name) <= 2 else "object"
            kind = name if name in ("size", "sparse") else other
            form = Alternative(kind, name, tuple(ast.unparse(size).strip("()").split(", ")))
        case ast.Name(name) if name.lstrip("_")[0].isupper():
            form = Alternative("object", name)
        case ast.Name(name):
            form = Alternative(name)
        case _:
            raise ValueError(f"{ast.unparse(node)!r} in the allow-list is not a valid type.")
    return (form,)


def _entries() -> Iterator[Entry]:
    blocks: dict[str, tuple[frozenset[str], list[str]]] = {}
    for block in re.split(r"\n+(?=\S)", TABLE.strip()):
        head, *lines = re.sub(r"\n +\|", " |", block).splitlines()
        names, _, listed = head.partition(":")
        *classes, module = names.split()
        groups = frozenset(listed.split())
        for base in sorted(groups & blocks.keys()):
            groups |= blocks[base][0]
            lines = blocks[base][1] + lines
        groups -= blocks.keys()
        blocks[names.split()[0]] = groups, lines
        for name in classes:
            yield _entry(name, module, groups, lines)


# The table is parsed on import, so that loading a file parses only this file.
ENTRIES = {entry.name: entry for entry in _entries()}
BY_CLASS = {(entry.module, entry.name): entry for entry in ENTRIES.values()}
