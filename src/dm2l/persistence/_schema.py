"""The language of :mod:`dm2l.persistence._allowed`, which lists what a model file may contain.

A block of the table describes one or more classes::

    StandardScaler sklearn.preprocessing._data: Estimator
      copy with_mean: bool
      fitted
      n_features_in_: size[d]
      mean_ var_: f[d] | none

The first line names the classes, their module and their groups. The parameters follow, and after
``fitted`` the fitted attributes. All parameters must be present. Either all fitted attributes are
present, or none of them is. A name that ends in ``?`` may be absent, and a name that ends in ``-``
is never stored. ``include NAME`` inserts the lines of another block. A block without a module is
only for inclusion.

==================  =================================================================
none bool str       these types of Python, or the corresponding scalars of numpy
int number float    an integer; a finite number; a number, NaN or infinity
int[1:9] 'a'        an integer from 1 to 9, both included; this text
size[d]             an integer that is the size of dimension d of this object
f[n,d] i[n] b[n]    an array of finite numbers, integers or booleans with these dimensions
F[n] U[n] T[n]      an array of numbers that may be NaN, of text, of text as Python objects
O[n] a[n] u4[n]     an array of keys of a dictionary; of any of these; of an exact dtype
sparse[n,d]         a CSR or CSC matrix
[x] [n, x]          a list of x; a list of length n
(x, y) {x} {}       a tuple; a dictionary with text as keys; an empty dictionary
dtype slice         a numpy dtype or scalar type; a slice
function            a function of a fixed list of numpy's functions
plain               any value without objects
setting             a parameter that only fit reads: plain, a random state or a splitter
Name Name[d]        an object of this class or group; a fitted one with the same size d
==================  =================================================================

A letter for a dimension stands for the same size in the whole object, and ``...`` for any size.
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
    """A class that model files may contain, and its attributes."""

    name: str
    module: str
    groups: frozenset[str]
    parameters: dict[str, Spec]
    fitted: dict[str, Spec]
    optional: frozenset[str]
    dropped: frozenset[str]

    @property
    def attributes(self) -> dict[str, Spec]:
        """Return parameters and fitted attributes."""
        return self.parameters | self.fitted

    def is_fitted(self, names: set[str]) -> bool:
        """Whether an object with these attributes is fitted, or has nothing to fit."""
        found = names & self.fitted.keys()
        return not self.fitted or any(n.endswith("_") or n not in self.optional for n in found)

    def lacks(self, names: set[str]) -> list[str]:
        """Return the required attributes that are missing."""
        needed = self.attributes if self.is_fitted(names) else self.parameters
        return sorted(needed.keys() - self.optional - names)


@dataclass
class Record:
    """The class of an object in a file, its attributes, and the sizes of its dimensions."""

    entry: Entry
    state: dict[str, Any]
    sizes: dict[str, int]


def _entry(
    name: str, block: str, module: str, groups: frozenset[str], lines: dict[str, list[str]]
) -> Entry:
    parts: tuple[dict[str, Spec], dict[str, Spec]] = ({}, {})
    marked: dict[str, set[str]] = {"": set(), "?": set(), "-": set()}

    def read(block: str, fitted: bool) -> None:
        for line in re.sub(r"\n +\|", " |", "\n".join(lines[block])).splitlines():
            line = line.strip()
            if line.startswith("include "):
                read(line.split()[1], fitted)
            elif line == "fitted":
                fitted = True
            elif line:
                names, _, text = line.replace("setting", _SETTING).partition(":")
                for part in names.split():
                    plain = part.rstrip("?-")
                    for mark, those in marked.items():
                        (those.add if part == plain + mark else those.discard)(plain)
                    if not part.endswith("-"):
                        parts[fitted][plain] = parse(text.strip())

    read(block, False)
    return Entry(name, module, groups, *parts, frozenset(marked["?"]), frozenset(marked["-"]))


@cache
def parse(text: str) -> Spec:
    """Return the forms that a text of the table allows."""
    return _forms(ast.parse(text.strip(), mode="eval").body)


def _forms(node: ast.expr) -> Spec:
    match node:
        case ast.BinOp(left, ast.BitOr(), right):
            return _forms(left) + _forms(right)
        case ast.Constant(str(text)):
            form = Alternative("text", text)
        case ast.List([ast.Name(size), item]):
            form = Alternative("list", "", (size,), (_forms(item),))
        case ast.List([item]):
            form = Alternative("list", "", (), (_forms(item),))
        case ast.Tuple(items):
            form = Alternative("tuple", "", (), tuple(map(_forms, items)))
        case ast.Set([item]):
            form = Alternative("dict", "", (), (_forms(item),))
        case ast.Dict([]):
            form = Alternative("dict")
        case ast.Subscript(ast.Name("int"), bounds):
            form = Alternative("range", ast.unparse(bounds))
        case ast.Subscript(ast.Name(name), sizes):
            other = "array" if len(name) <= 2 else "object"
            kind = name if name in ("size", "sparse") else other
            form = Alternative(kind, name, tuple(ast.unparse(sizes).strip("()").split(", ")))
        case ast.Name(name) if name.lstrip("_")[0].isupper():
            form = Alternative("object", name)
        case ast.Name(name):
            form = Alternative(name)
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is not a valid type in the allow-list.")
    return (form,)


def _entries() -> Iterator[Entry]:
    blocks = [block.splitlines() for block in re.split(r"\n(?=\S)", TABLE.strip())]
    lines = {head.split()[0]: rest for head, *rest in blocks}
    for head, *_ in blocks:
        named, _, groups = head.partition(":")
        *names, module = named.split()
        for name in names:
            yield _entry(name, names[0], module, frozenset(groups.split()), lines)


# The table is parsed on import, so that loading a file parses only this file.
ENTRIES = {entry.name: entry for entry in _entries()}
BY_CLASS = {(entry.module, entry.name): entry for entry in ENTRIES.values()}
