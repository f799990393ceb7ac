"""The stored rows behind every number of a report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dm2l_lab._published import MEASURES
from dm2l_lab._results import Place, Results
from dm2l_lab._tables import ResultTable

_SEEDS = ("split_seed", "mask_seed", "estimator_seed")
_LONGEST = 300  # letters of a warning


class Rows(NamedTuple):
    """The rows of one place: a table, notes, and for a mean of sets the anchors of these."""

    anchor: str
    title: str
    heads: list[str]
    lines: list[list[str]]
    notes: list[str]
    parts: dict[str, str] = {}  # noqa: RUF012 - of a tuple that nothing changes


class Appendix:
    """The rows of one protocol, place by place, each with an anchor to link to.

    Parameters
    ----------
    results : Results
        Rows.
    convention : str
        Which values to list.
    prefix : str
        Of the anchors: different for each protocol on a page.
    """

    def __init__(self, results: Results, convention: str, prefix: str) -> None:
        self.results = results
        self.convention = convention
        self._tables = {mask: ResultTable(results, mask, convention) for mask in results.masks}
        stored = {*results.done, *results.failed}
        self._places: dict[str, list[Place]] = {}
        for name in (*results.datasets, *results.stored_sets):
            sets = results.datasets.get(name, (name,))
            found = {place._replace(dataset=name) for place in stored if place.dataset in sets}
            self._places[name] = sorted(found, key=self._order)
        every = [place for places in self._places.values() for place in places]
        self._anchors = {place: f"{prefix}r{i}" for i, place in enumerate(every)}

    def _order(self, place: Place) -> tuple[float, str, int]:
        return -place.rate, place.mask, self.results.methods.index(place.method)

    def anchor(self, place: Place) -> str | None:
        """Where the rows of a place are; None where there are none."""
        return self._anchors.get(place)

    def groups(self) -> Iterator[tuple[str, list[Rows]]]:
        """Rows by data set and place."""
        for name, places in self._places.items():
            if places:
                yield name, [self._rows(place) for place in places]

    def _rows(self, place: Place) -> Rows:
        sets = self.results.datasets.get(place.dataset, (place.dataset,))
        hidden = "all labels" if place.rate == 1 else f"ρ = {place.rate:g}, {place.mask}"
        title = f"{place.dataset}, {hidden}, {place.method}"
        content = self._joint(place, sets) if len(sets) > 1 else self._stored(place)
        return Rows(self._anchors[place], title, *content)

    # -- one stored set -------------------------------------------------------------------------

    def _stored(self, place: Place) -> tuple[Any, ...]:
        done, failed = (found.get(place, []) for found in (self.results.done, self.results.failed))
        measures = self._measures(done)
        letters = _letters(_text(row["chosen"]) for row in done if row["chosen"])
        heads = ["#", *(m.name for m in measures), "s", *(["set"] if letters else [])]
        lines = []
        for row in done:
            values = (row["metrics"] or {}).get(self.convention, {})
            cells = [str(row["repetition"]), *(_value(values.get(m.metric)) for m in measures)]
            cells.append("–" if row["seconds"] is None else f"{row['seconds']:.3g}")
            if letters:
                cells.append(letters[_text(row["chosen"])] if row["chosen"] else "–")
            lines.append([*cells, *(_seed(row[name]) for name in _SEEDS)])
        notes = [f"{letter}: {text}" for text, letter in letters.items()]
        heading = "Chosen settings: " + "; ".join(notes) if notes else ""
        found = [heading, *_warnings(done), *_failures(failed)]
        return [*heads, "split", "mask", "estimator"], lines, [note for note in found if note]

    def _measures(self, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        found = {n for row in rows for n in (row["metrics"] or {}).get(self.convention, {})}
        return [measure for measure in MEASURES if measure.metric in found]

    # -- a mean of several sets -----------------------------------------------------------------

    def _joint(self, place: Place, sets: Sequence[str]) -> tuple[Any, ...]:
        parts = [place._replace(dataset=name) for name in sets]
        links = {p.dataset: self._anchors[p] for p in parts if p in self._anchors}
        mask = place.mask if place.mask in self._tables else self.results.masks[0]
        table = self._tables[mask]
        entries = {
            measure.name: table.line(place.dataset, place.rate, measure.name)[place.method].values
            for measure in table.measures
        }
        repetitions = sorted({r for values in entries.values() for r in values})
        lines = [
            [str(r), *(_value(values.get(r)) for values in entries.values())] for r in repetitions
        ]
        return ["#", *entries], lines, [], links


def _value(value: float | None) -> str:
    return "–" if value is None else f"{value:.5f}"


def _seed(value: int | None) -> str:
    return "–" if value is None else str(value)


def _text(settings: Any) -> str:
    """Settings as ``name=value``, or as JSON where they are nothing so simple."""
    if not isinstance(settings, Mapping):
        return json.dumps(settings, sort_keys=True)
    return ", ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value, sort_keys=True)}"
        for name, value in sorted(settings.items())
    )


def _letters(texts: Iterator[str]) -> dict[str, str]:
    """A short name for each distinct text: a to z, then aa and so on."""
    found: dict[str, str] = {}
    for text in texts:
        number, letters = len(found), ""
        while number >= 0:
            letters = chr(ord("a") + number % 26) + letters
            number = number // 26 - 1
        found.setdefault(text, letters)
    return found


def _warnings(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(row["warnings"] or {})
    return [f"Warned {n} times: {text[:_LONGEST]}" for text, n in counts.most_common()]


def _failures(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(str(row["error"]), []).append(str(row["repetition"]))
    return [f"Failed in repetition {', '.join(r)}: {error}" for error, r in found.items()]
