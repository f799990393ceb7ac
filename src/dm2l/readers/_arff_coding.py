"""Numbers for the values of ARFF attributes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dm2l.files import DataFileError
from dm2l.readers._arff_header import Attribute, Header
from dm2l.readers.words import truth


@dataclass(frozen=True)
class Coding:
    """How an attribute is written in numbers: column ``start`` and as many as it has names."""

    start: int
    names: tuple[str, ...]
    codes: dict[str, tuple[int, float]] | None  # value -> (column, number); None: a number itself
    omitted: tuple[int, float] = (0, 0.0)  # what a sparse row means that does not list it

    def entries(self, text: str, quoted: bool) -> Iterable[tuple[int, float]]:
        if text == "?" and not quoted:
            return [(self.start + k, np.nan) for k in range(len(self.names))]
        if self.codes is None:
            if "_" in text:  # float() takes 1_000
                raise ValueError(f"{self.names[0]!r} is numeric, found {text!r}")
            try:
                return ((self.start, float(text)),)
            except ValueError:
                raise ValueError(f"{self.names[0]!r} is numeric, found {text!r}") from None
        if text not in self.codes:
            name = self.names[0].partition("=")[0]
            raise ValueError(f"{name!r} declares {sorted(self.codes)[:8]}, found {text!r}")
        return (self.codes[text],)


def codings_of(
    header: Header, labels: list[int], features: list[int], path: Path
) -> list[Coding | None]:
    """One coding an attribute, None for those left out."""
    codings: list[Coding | None] = []
    start, is_label, used = 0, set(labels), {*labels, *features}
    for j, attribute in enumerate(header.attributes):
        coded = _coding(attribute, start, j in is_label, path) if j in used else None
        codings.append(coded)
        start += 0 if coded is None else len(coded.names)
    return codings


def _coding(attribute: Attribute, start: int, is_label: bool, path: Path) -> Coding:
    name, values = attribute.name, attribute.values
    if attribute.numeric:
        return Coding(start, (name,), None)
    if values is None:
        raise DataFileError(
            path,
            f"attribute {name!r} is of type {attribute.kind}, which has no numbers in it",
            way_out=f"Leave it out with drop=[{name!r}].",
        )
    if is_label:
        words = {value: truth(value) for value in values}
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
