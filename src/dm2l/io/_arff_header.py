"""The header of an ARFF file: attributes, which of them are labels, and codes of their values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

import numpy as np

from dm2l._utils.files import DataFileError, check_regular, translate_errors
from dm2l.io._words import as_number, parse_boolean

_TOKEN = re.compile(
    r"""\s*(?: '(?P<single>(?:[^'\\]|\\.)*)'
             | "(?P<double>(?:[^"\\]|\\.)*)"
             | (?P<mark>[,{}%])
             | (?P<word>[^\s,{}%'"][^\s,{}%]*) )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_CONTROL = {"n": "\n", "r": "\r", "t": "\t"}
_MEKA = re.compile(r"(?:^|\s)-C\s+(-?\d+)(?=\s|$)")
_NUMERIC = {"numeric", "real", "integer"}


@dataclass(frozen=True)
class Attribute:
    """A declared attribute: ``values`` of a nominal one, ``kind`` as the file spells it."""

    name: str
    kind: str
    values: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Header:
    """The declarations before ``@data``."""

    relation: str
    attributes: tuple[Attribute, ...]

    @property
    def names(self) -> list[str]:
        return [attribute.name for attribute in self.attributes]

    def meka_labels(self) -> list[int] | None:
        """MEKA's ``-C k`` in the relation: the first k attributes, or the last -k."""
        option = _MEKA.search(self.relation)
        if option is None:
            return None
        count, size = int(option[1]), len(self.attributes)
        if not 1 <= abs(count) < size:
            raise ValueError(f"-C {count} in the relation does not fit {size} attributes")
        return list(range(count)) if count > 0 else list(range(size + count, size))


def tokens(line: str) -> Iterator[tuple[str, bool]]:
    """Words and punctuation of a line, each with whether it was quoted; a comment ends it."""
    position, line = 0, line.rstrip()
    while position < len(line):
        found = _TOKEN.match(line, position)
        if found is None:
            raise ValueError(f"a quote is not closed: {line[position : position + 40]!r}")
        if found["mark"] == "%":
            return
        position = found.end()
        quoted = found["single"] if found["single"] is not None else found["double"]
        if quoted is not None:
            yield _ESCAPE.sub(_unescape, quoted), True
        else:
            yield found["mark"] or found["word"], False


def _unescape(escape: re.Match[str]) -> str:
    text = escape[1]
    return chr(int(text[1:], 16)) if len(text) == 5 else _CONTROL.get(text, text)


def read_header(lines: Iterable[tuple[int, str]], where: str) -> Header:
    """Read up to ``@data``; ``lines`` is left at the first row."""
    relation, attributes = "", []
    for number, line in lines:
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        keyword = text.split(maxsplit=1)[0].lower()
        rest = text[len(keyword) :]
        try:
            if keyword == "@relation":
                relation = " ".join(word for word, _ in tokens(rest))
            elif keyword == "@attribute":
                attributes.append(_attribute(rest))
            elif keyword == "@data":
                return Header(relation, tuple(attributes))
            else:
                raise ValueError(
                    f"expected @relation, @attribute or @data, found {text[:40]!r}; is this ARFF?"
                )
        except ValueError as error:
            raise DataFileError(where, str(error), place=f"line {number}") from None
    raise DataFileError(where, "it ends before @data: no ARFF file, or only a part of one")


def _attribute(text: str) -> Attribute:
    words = list(tokens(text))
    if len(words) < 2:
        raise ValueError(f"an attribute needs a name and a type, found {text.strip()!r}")
    (name, _), (kind, quoted), *rest = words
    if kind != "{" or quoted:
        return Attribute(name, kind.lower())
    if not rest or rest[-1] != ("}", False):
        raise ValueError(f"the values of attribute {name!r} are not closed by '}}'")
    values = tuple(word for word, quoted in rest[:-1] if quoted or word != ",")
    if not values:
        raise ValueError(f"attribute {name!r} declares no values")
    return Attribute(name, "nominal", values)


def read_label_names(path: str | Path) -> list[str]:
    """Names of all labels in a Mulan XML file, nested ones included, in its order.

    Only elements and attributes are read. A document type declaration, the place where entities
    are defined, is refused before anything of it can be expanded.
    """
    names: list[str] = []
    parser = expat.ParserCreate(namespace_separator=" ")

    def refuse(*_: Any) -> NoReturn:
        raise DataFileError(
            path,
            "there is a DOCTYPE or ENTITY declaration, which a list of labels does not need and "
            "which can hide attacks; remove it",
        )

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag.rpartition(" ")[2] == "label":
            if "name" not in attributes:
                place = f"line {parser.CurrentLineNumber}"
                raise DataFileError(path, "a <label> without name=", place=place)
            names.append(attributes["name"])

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = start
    check_regular(path)
    with translate_errors(path, "well-formed XML", expat.ExpatError), Path(path).open("rb") as file:
        parser.ParseFile(file)
    if not names:
        raise DataFileError(path, 'no labels are named: there is no element <label name="...">')
    return names


@dataclass(frozen=True)
class Coding:
    """The numeric columns of an attribute: from ``start`` on, one for each of ``names``."""

    start: int
    names: tuple[str, ...]
    codes: dict[str, tuple[int, float]] | None  # value -> (column, number); None: a number itself
    omitted: tuple[int, float] = (0, 0.0)  # what a sparse row means that does not list it

    def entries(self, text: str, quoted: bool) -> Iterable[tuple[int, float]]:
        if text == "?" and not quoted:
            return [(self.start + k, np.nan) for k in range(len(self.names))]
        if self.codes is None:
            value = as_number(text)
            if value is None or "_" in text:  # float() takes 1_000
                raise ValueError(f"{self.names[0]!r} is numeric, found {text!r}")
            return ((self.start, value),)
        if text not in self.codes:
            name = self.names[0].partition("=")[0]
            raise ValueError(f"{name!r} declares {sorted(self.codes)[:8]}, found {text!r}")
        return (self.codes[text],)


def codings_of(
    header: Header, labels: list[int], features: list[int], path: Path
) -> list[Coding | None]:
    """A coding for each attribute, None for those that are left out."""
    codings: list[Coding | None] = []
    start, is_label, used = 0, set(labels), {*labels, *features}
    for j, attribute in enumerate(header.attributes):
        coded = _coding(attribute, start, j in is_label, path) if j in used else None
        codings.append(coded)
        start += 0 if coded is None else len(coded.names)
    return codings


def _coding(attribute: Attribute, start: int, is_label: bool, path: Path) -> Coding:
    name, values = attribute.name, attribute.values
    if attribute.kind in _NUMERIC:
        return Coding(start, (name,), None)
    if values is None:
        raise DataFileError(
            path,
            f"attribute {name!r} is of type {attribute.kind}, which has no numbers in it",
            hint=f"Leave it out with drop=[{name!r}].",
        )
    if is_label:
        words = {value: parse_boolean(value) for value in values}
        numbers = set(words.values())
        if not numbers <= {0.0, 1.0} and not numbers <= {-1.0, 1.0}:
            raise DataFileError(
                path,
                f"label {name!r} declares {list(values)[:8]}; a label has two values, 0/1, -1/1, "
                "no/yes, false/true, inactive/active or negative/positive",
            )
        codes = {value: (start, float(number == 1)) for value, number in words.items()}
        return Coding(start, (name,), codes, codes[values[0]])
    if len(values) > 2:
        codes = {value: (start + k, 1.0) for k, value in enumerate(values)}
        return Coding(start, tuple(f"{name}={v}" for v in values), codes, codes[values[0]])
    if set(values) <= {"0", "1"}:  # the numbers they are
        codes = {value: (start, float(value)) for value in values}
        return Coding(start, (name,), codes, codes[values[0]])
    # The later in the alphabet is 1, and the column says so: the order in which a file happens to
    # declare them must not turn the numbers round.
    one = max(values)
    codes = {value: (start, float(value == one)) for value in values}
    return Coding(start, (f"{name}={one}",), codes, codes[values[0]])
