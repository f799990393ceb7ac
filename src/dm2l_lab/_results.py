"""Rows of a store, protocol by protocol, in the order in which tables show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

from dm2l_lab._protocol import MASKS, NO_MASK, Cell, Protocol, protocols
from dm2l_lab._published import SOURCES, published_figures
from dm2l_lab._store import Store

__all__ = ["Place", "Results", "read_results"]

_KEY = tuple(field.name for field in fields(Cell))
_PAPER_SETS = tuple(name for sets in SOURCES.values() for name in sets)
_PAPER_METHODS = tuple(dict.fromkeys(key[3] for key in published_figures()))

Row = dict[str, Any]


class Place(NamedTuple):
    """What one number of a table stands for, but for the measure."""

    dataset: str
    mask: str
    rate: float
    method: str


# -- results of one protocol --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Results:
    """The rows of a protocol, or of several that are read as one.

    Attributes
    ----------
    name : str
        Name of the protocol; names joined by ``+``.
    rows : list of dict
        Rows of :meth:`Store.rows`, failures included.
    expected : dict of Place to int
        Repetitions of each place; empty where the protocol is not known here.
    protocols : tuple of Protocol
        Those known here.
    left_out : int
        Rows under the protocol's name that are none of its cells, with older settings for example.
    """

    name: str
    rows: list[Row]
    expected: dict[Place, int] = field(default_factory=dict)
    protocols: tuple[Protocol, ...] = ()
    left_out: int = 0

    @cached_property
    def done(self) -> dict[Place, list[Row]]:
        """Rows with values, by place, in the order of repetitions."""
        return self._by_place("done")

    @cached_property
    def failed(self) -> dict[Place, list[Row]]:
        """Failures, by place, in the order of repetitions."""
        return self._by_place("failed")

    def _by_place(self, status: str) -> dict[Place, list[Row]]:
        found: dict[Place, list[Row]] = {}
        for row in sorted(self.rows, key=lambda row: row["repetition"]):
            if row["status"] == status:
                found.setdefault(_place(row), []).append(row)
        return found

    @cached_property
    def _places(self) -> frozenset[Place]:
        return frozenset([*self.expected, *map(_place, self.rows)])

    def expected_at(self, places: Iterable[Place]) -> int | None:
        """Repetitions there should be at some places; None if that is not known.

        Parameters
        ----------
        places : iterable of Place
            Parts of one line of a table.

        Returns
        -------
        int or None
            0 for a method that the protocol does not run there.
        """
        here = list(places)
        if not self.expected or any(p in self._places and p not in self.expected for p in here):
            return None
        return max(self.expected.get(place, 0) for place in here)

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """Names of methods: in the protocol's order, then the paper's, then by name."""
        known = [method.name for protocol in self.protocols for method in protocol.methods]
        return _ordered((place.method for place in self._places), [*known, *_PAPER_METHODS])

    @cached_property
    def stored_sets(self) -> tuple[str, ...]:
        """Names of data sets, as stored."""
        known = [name for protocol in self.protocols for name in protocol.datasets]
        return _ordered((place.dataset for place in self._places), [*known, *_PAPER_SETS])

    @cached_property
    def datasets(self) -> dict[str, tuple[str, ...]]:
        """Data sets as tables show them, each with the stored sets it is the mean of.

        The paper prints the mean of ten sets as ``Corel16k``. Two or more of them become one line
        of a table, whose name says so if they are not all.
        """
        shown: dict[str, tuple[str, ...]] = {}
        for name in self.stored_sets:
            paper, parts = next(
                ((n, sets) for n, sets in SOURCES.items() if name in sets), (name, (name,))
            )
            here = tuple(other for other in self.stored_sets if other in parts)
            if len(here) == 1:
                shown[name] = here
            elif len(here) == len(parts):
                shown[paper] = here
            else:
                shown[f"{paper} ({len(here)} of {len(parts)})"] = here
        return shown

    @cached_property
    def rates(self) -> tuple[float, ...]:
        """Shares of observed labels, the largest first."""
        return tuple(sorted({place.rate for place in self._places}, reverse=True))

    @cached_property
    def masks(self) -> tuple[str, ...]:
        """Masks, each of which has a table; ``"none"`` only where there is no other."""
        found = {place.mask for place in self._places} - {NO_MASK}
        return _ordered(found, MASKS) or (NO_MASK,)


def _place(row: Mapping[str, Any]) -> Place:
    return Place(row["dataset"], row["mask"], row["rate"], row["method"])


def _ordered(names: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Names once each, the known ones first and in their order."""
    found = set(names)
    first = [name for name in dict.fromkeys(known) if name in found]
    return (*first, *sorted(found - set(first)))


def read_results(store: Store, protocol: str | Protocol | None = None) -> list[Results]:
    """Read what a store has, protocol by protocol.

    Of a protocol that is known here only its cells are read: rows that its methods left with
    other settings are counted and left out. Of one that is not known all rows are read; a method
    that has several settings on a data set is then told apart by their hash.

    Parameters
    ----------
    store : Store
        The store.
    protocol : str or Protocol, default=None
        One protocol, or several joined by ``+``, which are read as one: their data sets or methods
        have to differ. None for every protocol in the store, each by itself.

    Returns
    -------
    list of Results
        In the order of the store.
    """
    stored = list(dict.fromkeys(cell.protocol for cell in store.states()))
    if protocol is None:
        return [_read(store, [name]) for name in stored]
    if isinstance(protocol, Protocol):
        return [_read(store, [protocol])]
    known = {*stored, *protocols()}
    parts = [protocol] if protocol in known else list(dict.fromkeys(protocol.split("+")))
    if absent := [part for part in parts if part not in stored]:
        raise ValueError(
            f"{store.path} has no rows of protocol {', '.join(map(repr, absent))}; it has "
            f"{', '.join(map(repr, stored)) or 'none at all'}."
        )
    return [_read(store, parts)]


def _read(store: Store, parts: Sequence[str | Protocol]) -> Results:
    rows: list[Row] = []
    expected: dict[Place, int] = {}
    origin: dict[Place, str] = {}
    found: list[Protocol] = []
    left_out = 0
    for part in parts:
        protocol = part if isinstance(part, Protocol) else protocols().get(part)
        name = part.name if isinstance(part, Protocol) else part
        here = store.rows(name)
        counts: Counter[Place] = Counter()
        if protocol is None:
            here = _told_apart(here)
        else:
            found.append(protocol)
            cells = set(protocol.cells())
            every = len(here)
            here = [row for row in here if Cell(*(row[key] for key in _KEY)) in cells]
            left_out += every - len(here)
            counts.update(Place(c.dataset, c.mask, c.rate, c.method) for c in cells)
        for place in {*map(_place, here), *counts}:
            if origin.setdefault(place, name) != name:
                raise ValueError(
                    f"Protocols {origin[place]!r} and {name!r} both have {place}: they cannot be "
                    "read as one."
                )
        rows += here
        expected |= counts
    names = [part.name if isinstance(part, Protocol) else part for part in parts]
    return Results("+".join(names), rows, expected, tuple(found), left_out)


def _told_apart(rows: list[Row]) -> list[Row]:
    settings: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        settings.setdefault((row["dataset"], row["method"]), set()).add(row["settings"])
    several = {method for (_, method), found in settings.items() if len(found) > 1}
    return [
        {**row, "method": f"{row['method']} [{row['settings'][:6]}]"}
        if row["method"] in several
        else row
        for row in rows
    ]
