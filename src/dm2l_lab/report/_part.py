"""What a page says on one protocol."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from dm2l_lab._results import Place, Results
from dm2l_lab._tables import ResultTable
from dm2l_lab.report._appendix import Appendix
from dm2l_lab.report._sections import Choice, Section, sections
from dm2l_lab.report._sheets import Item, Sheet, rate_item

_MASKS = {
    "per_row": "Labels hidden row by row",
    "per_label": "Labels hidden label by label",
    "uniform": "Labels hidden uniformly at random",
    "none": "All labels observed",
}


class Mask(NamedTuple):
    """What the page has on one mask."""

    title: str
    sections: list[Section]

    @property
    def headlines(self) -> list[str]:
        """What it comes to."""
        return [line for section in self.sections for line in section.headlines]


class Part:
    """What the page has on one protocol."""

    def __init__(self, results: Results, convention: str, choice: Choice, name: str) -> None:
        self.results = results
        self.name = name
        self.appendix = Appendix(results, convention, name)
        self.masks = [
            Mask(
                _MASKS.get(mask, mask),
                list(sections(ResultTable(results, mask, convention), choice)),
            )
            for mask in results.masks
        ]

    @property
    def facts(self) -> dict[str, str]:
        """What was run."""
        results = self.results
        splits = sorted({row["split"] for row in results.rows if row["split"]})
        planned = sum(results.expected.values())
        count = str(len(results.rows))
        if planned:
            count += f" of {planned} cells"
        if results.left_out:
            count += f"; {results.left_out} more rows, with other settings than now, are left out"
        return {
            "Data sets": ", ".join(results.stored_sets),
            "Rates": ", ".join(f"{rate:g}" for rate in results.rates),
            "Splits": "; ".join(splits),
            "Rows": count,
        }

    @property
    def methods(self) -> Sheet:
        """Notes on methods, and their settings."""
        notes: dict[str, list[str]] = {}
        for protocol in self.results.protocols:
            for method in protocol.methods:
                if method.note:
                    notes.setdefault(method.name, []).append(method.note)
        settings: dict[str, dict[str, str]] = {}
        for row in self.results.rows:
            text = _settings(row["parameters"])
            settings.setdefault(row["method"], {})[row["settings"]] = text
        rows = [
            [
                Item(name),
                Item("; ".join(dict.fromkeys(notes.get(name, [])))),
                Item(" | ".join(f"{key}: {text}" for key, text in settings.get(name, {}).items())),
            ]
            for name in self.results.methods
        ]
        columns = ["Method", "Note", "Settings"]
        return Sheet("methods", "Methods and their settings", columns, "ttt", rows, folded=True)

    @property
    def gaps(self) -> list[Sheet]:
        """What failed and what is missing."""
        return [sheet for sheet in (self._failed(), self._missing()) if sheet.rows]

    def _failed(self) -> Sheet:
        rows = []
        for place, found in self.results.failed.items():
            errors: dict[str, list[int]] = {}
            for row in found:
                errors.setdefault(str(row["error"]), []).append(row["repetition"])
            for error, repetitions in errors.items():
                where = Item(", ".join(map(str, repetitions)), place=place)
                rows.append([*_where(place), where, Item(error)])
        columns = ["Data set", "ρ", "Mask", "Method", "Repetition", "Error"]
        return Sheet("failed", "Failed cells", columns, "tntttt", rows)

    def _missing(self) -> Sheet:
        rows = []
        for place, planned in self.results.expected.items():
            there = sum(len(f.get(place, ())) for f in (self.results.done, self.results.failed))
            if there < planned:
                rows.append([*_where(place), Item(str(planned - there)), Item(str(planned))])
        rows.sort(key=lambda row: [item.text for item in row])
        columns = ["Data set", "ρ", "Mask", "Method", "Missing", "of"]
        return Sheet("missing", "Cells without a result", columns, "tnttnn", rows)


def _where(place: Place) -> list[Item]:
    return [Item(place.dataset), rate_item(place.rate), Item(place.mask), Item(place.method)]


def _settings(parameters: Any) -> str:
    return json.dumps(parameters, sort_keys=True, ensure_ascii=False)
