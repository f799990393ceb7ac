"""The language in which :mod:`dm2l.persistence._allowed` says what a model file may hold.

A block of the table describes one class::

    StandardScaler sklearn.preprocessing._data: Estimator
      copy with_mean: bool
      fitted
      n_features_in_: size[d]
      mean_ var_: f[d] | none

Its head names the class, its module and the groups it belongs to; then come the parameters, which
must all be there, and after ``fitted`` the fitted attributes, of which all or none are there. A
name that ends in ``?`` may be absent; one that ends in ``-`` is never stored. ``include NAME``
inserts the lines of another block; a block without a module is only there to be included.

==================  =================================================================
none bool str       what Python calls them; numpy's own scalars will do
int number float    an integer; a finite number; a number, NaN or infinity
int[1:9] 'a'        an integer from 1 to 9, both included; this text
size[d]             an integer that is the size of dimension d of this object
f[n,d] i[n] b[n]    an array of finite numbers, integers or booleans of these dimensions: a letter
F[n] U[n] O[n] a[n] is a size that is the same in the whole object, ... is any size. F may hold
T[n] u4[n]          NaN, U is text, T Python's text, O plain values that can be keys of a
                    dictionary, a any of these; or an exact dtype
sparse[n,d]         a CSR or CSC matrix
[x] [n, x]          a list of x, of length n
(x, y) {x} {}       a tuple, a dictionary with text as keys, an empty one
dtype slice         a numpy dtype or scalar type, a slice
function            one of a fixed list of numpy's functions
plain               anything without objects
setting             a parameter that only fit reads: plain, a random state or a splitter
Name Name[d]        an object of this class or group; fitted, and its d is that of this object
==================  =================================================================
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
    """One form that a value may have."""

    kind: str
    value: str = ""
    sizes: tuple[str, ...] = ()
    parts: tuple[Spec, ...] = ()


Spec = tuple[Alternative, ...]


@dataclass(frozen=True)
class Entry:
    """A class that model files may hold, and its attributes."""

    name: str
    module: str
    groups: frozenset[str]
    parameters: dict[str, Spec]
    fitted: dict[str, Spec]
    optional: frozenset[str]
    dropped: frozenset[str]

    @property
    def attributes(self) -> dict[str, Spec]:
        """Parameters and fitted attributes."""
        return self.parameters | self.fitted

    def lacks(self, names: set[str]) -> list[str]:
        """What is missing among these attributes."""
        needed = self.parameters.keys() - self.optional
        fitted = self.fitted.keys() - self.optional
        return sorted((needed | fitted if names & fitted else needed) - names)


@dataclass
class Record:
    """An object of a file: its class, its attributes, and the sizes of its dimensions."""

    entry: Entry
    state: dict[str, Any]
    sizes: dict[str, int]


def _entry(name: str, module: str, groups: frozenset[str], lines: dict[str, list[str]]) -> Entry:
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

    read(name, False)
    return Entry(name, module, groups, *parts, frozenset(marked["?"]), frozenset(marked["-"]))


@cache
def parse(text: str) -> Spec:
    """What a value may be."""
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
            raise ValueError(f"{ast.unparse(node)!r} is not in the language of the table.")
    return (form,)


def _entries() -> Iterator[Entry]:
    blocks = [block.splitlines() for block in re.split(r"\n(?=\S)", TABLE.strip())]
    lines = {head.split()[0]: rest for head, *rest in blocks}
    for head, *_ in blocks:
        named, _, groups = head.partition(":")
        name, *module = named.split()
        if module:
            yield _entry(name, module[0], frozenset(groups.split()), lines)


# Read here, so that to load a file parses nothing but this file.
ENTRIES = {entry.name: entry for entry in _entries()}
BY_CLASS = {(entry.module, entry.name): entry for entry in ENTRIES.values()}
