"""The language in which :mod:`dm2l.persistence._allowed` says what a model file may hold.

A block of the table describes one class::

    StandardScaler sklearn.preprocessing._data: Estimator
      copy with_mean: bool
      fitted
      n_features_in_: =d
      mean_ var_: f[d] | none

Its head names the class, its module and the groups it belongs to; then come the parameters, which
must all be there, and after ``fitted`` the fitted attributes, of which all or none are there. A
name that ends in ``?`` may be absent; one that ends in ``-`` is never stored. ``include NAME``
inserts the lines of another block; a block without a module is only there to be included.

==================  =================================================================
none bool str       what Python calls them; numpy's own scalars will do
int number float    an integer; a finite number; a number, NaN or infinity
1..9 'a'            an integer of this range; this text
=d                  an integer that is the size of dimension d of this object
f[n,d] i[n] b[n]    an array of finite numbers, integers or booleans of these dimensions: a letter
F[n] U[n] O[n] a[n] is any size that is the same in the whole object, * is any size. F may hold
u4[n]               NaN, U is text, O are plain values, a any of these; or an exact dtype
sparse[n,d]         a CSR or CSC matrix
[x] [n: x]          a list of x, of length n
(x, y) {x} {}       a tuple, a dictionary with text as keys, an empty one
dtype slice         a numpy dtype or scalar type, a slice
function            one of a fixed list of numpy's functions
plain               anything without objects
setting             a parameter that only fit reads: plain, a random state or a splitter
Name Name<d>        an object of this class or group; fitted, and its d is that of this object
==================  =================================================================
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from dm2l.persistence._allowed import TABLE

_TOKEN = re.compile(
    r"\s*(?:(?P<array>(?:sparse|[a-zA-Z]\d?)\[[\w,*]*\])|(?P<range>-?\d+\.\.-?\d+)"
    r"|(?P<text>'[^']*')|(?P<size>=\w+)|(?P<word>\w+)(?:<(?P<shared>[\w,]+)>)?|(?P<mark>[][(){}|,:]))"
)
_SETTING = "plain | RandomState | Splitter"
_CLOSING = {"[": "]", "(": ")", "{": "}"}


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


@cache
def entries() -> dict[str, Entry]:
    """The table, by the names of the classes."""
    blocks = [block.splitlines() for block in re.split(r"\n(?=\S)", TABLE.strip())]
    lines = {head.split()[0]: rest for head, *rest in blocks}
    found = {}
    for head, *_ in blocks:
        named, _, groups = head.partition(":")
        name, *module = named.split()
        if module:
            found[name] = _entry(name, module[0], frozenset(groups.split()), lines)
    return found


@cache
def by_class() -> dict[tuple[str, str], Entry]:
    """The same by module and name."""
    return {(entry.module, entry.name): entry for entry in entries().values()}


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
    tokens = list(_TOKEN.finditer(text))
    if "".join(found[0] for found in tokens) != text.rstrip():
        raise ValueError(f"{text!r} is not in the language of the table")
    spec, rest = _alternatives(tokens)
    if rest:
        raise ValueError(f"{text!r} goes on after its end")
    return spec


def _alternatives(tokens: list[re.Match[str]]) -> tuple[Spec, list[re.Match[str]]]:
    found = []
    while True:
        one, tokens = _alternative(tokens)
        found.append(one)
        if not tokens or tokens[0]["mark"] != "|":
            return tuple(found), tokens
        tokens = tokens[1:]


def _alternative(tokens: list[re.Match[str]]) -> tuple[Alternative, list[re.Match[str]]]:
    first, *rest = tokens
    if first["mark"]:
        sizes: tuple[str, ...] = ()
        if first["mark"] == "[" and rest[1]["mark"] == ":":
            sizes, rest = (rest[0]["word"],), rest[2:]
        parts = []
        while rest[0]["mark"] != _CLOSING[first["mark"]]:
            part, rest = _alternatives(rest[1:] if rest[0]["mark"] == "," else rest)
            parts.append(part)
        kind = {"[": "list", "(": "tuple", "{": "dict"}[first["mark"]]
        return Alternative(kind, "", sizes, tuple(parts)), rest[1:]
    if first["array"]:
        kind, _, sizes_text = first["array"].rstrip("]").partition("[")
        dims = tuple(sizes_text.split(",")) if sizes_text else ()
        return Alternative("sparse" if kind == "sparse" else "array", kind, dims), rest
    if first["word"] and first["word"].lstrip("_")[0].isupper():
        shared = tuple((first["shared"] or "").split(",")) if first["shared"] else ()
        return Alternative("object", first["word"], shared), rest
    for kind in ("range", "text", "size"):
        if first[kind]:
            return Alternative(kind, first[kind].strip("'=")), rest
    return Alternative(first["word"]), rest
