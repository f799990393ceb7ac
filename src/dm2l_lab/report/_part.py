"""What a page says on one protocol."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dm2l_lab._results import Place, Results
from dm2l_lab._tables import Table
from dm2l_lab.report._appendix import Appendix
from dm2l_lab.report._figures import Figure, can_draw, diagrams, inline_svg
from dm2l_lab.report._html import element, escape, facts_html, link, sheet_html, table_html
from dm2l_lab.report._sections import Choice, Section, sections
from dm2l_lab.report._sheets import Item, Sheet, rate_item

_MASKS = {
    "per_row": "Labels hidden row by row",
    "per_label": "Labels hidden label by label",
    "uniform": "Labels hidden uniformly at random",
    "none": "All labels observed",
}


class Part:
    """What the page has on one protocol."""

    def __init__(self, results: Results, convention: str, choice: Choice, name: str) -> None:
        self.results = results
        self.name = name
        self.appendix = Appendix(results, convention, name)
        self.masks = {
            mask: list(sections(Table(results, mask, convention), choice)) for mask in results.masks
        }

    def contents(self) -> str:
        inner = ""
        for i, (mask, found) in enumerate(self.masks.items()):
            links = ", ".join(
                link(f"{self.name}m{i}s{j}", escape(section.title))
                for j, section in enumerate(found)
            )
            title = link(f"{self.name}m{i}", escape(_mask_title(mask)))
            inner += f"<li>{title}{': ' if links else ''}{links}</li>"
        inner += f"<li>{link(f'{self.name}gaps', 'Failed and missing')}</li>"
        return f"<li>{link(self.name, escape(self.results.name))}<ul>{inner}</ul></li>"

    def html(self) -> str:
        title = f'<h2 id="{self.name}">{escape(self.results.name)}</h2>\n'
        masks = "".join(
            self._mask(mask, found, f"{self.name}m{i}")
            for i, (mask, found) in enumerate(self.masks.items())
        )
        return title + facts_html(self._protocol()) + self._methods() + masks + self._gaps()

    def rows(self) -> str:
        return f"<h3>{escape(self.results.name)}</h3>\n{self.appendix.html()}"

    def _protocol(self) -> dict[str, str]:
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

    def _methods(self) -> str:
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
        sheet = Sheet("methods", "Methods and their settings", columns, "ttt", rows, folded=True)
        return sheet_html(sheet, f"{self.name}methods", self.appendix.anchor)

    def _mask(self, mask: str, found: Sequence[Section], name: str) -> str:
        text = f'<h3 id="{name}">{escape(_mask_title(mask))}</h3>\n'
        if not found:
            return text + '<p class="note">No results yet.</p>\n'
        headlines = [line for section in found for line in section.headlines]
        if headlines:
            text += f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in headlines)}</ul>\n"
        for j, section in enumerate(found):
            text += f'<h4 id="{name}s{j}">{escape(section.title)}</h4>\n'
            text += "".join(
                sheet_html(sheet, f"{name}s{j}t{k}", self.appendix.anchor)
                for k, sheet in enumerate(section.sheets)
            )
            if section.blocks and can_draw():
                shown = (
                    figure_html(figure, f"{name}s{j}f{k}")
                    for k, figure in enumerate(diagrams(list(section.blocks)))
                )
                text += f'<div class="figures">{"".join(shown)}</div>\n'
            elif section.blocks:
                text += '<p class="note">Diagrams need matplotlib: dm2l[plot].</p>\n'
        return text

    def _gaps(self) -> str:
        text = f'<h3 id="{self.name}gaps">Failed and missing</h3>\n'
        failed, missing = self._failed(), self._missing()
        if not failed.rows and not missing.rows:
            unknown = "" if self.results.expected else "; what is missing is not known here"
            return text + f'<p class="note">Nothing failed{unknown}.</p>\n'
        for sheet in (failed, missing):
            if sheet.rows:
                text += f"<h5>{escape(sheet.title)}</h5>\n" + table_html(
                    sheet, self.appendix.anchor
                )
        return text

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


def _mask_title(mask: str) -> str:
    return _MASKS.get(mask, mask)


def figure_html(figure: Figure, name: str) -> str:
    """A figure with its title and caption."""
    title, caption, svg = figure
    drawing = inline_svg(svg, name)
    return (
        f"<figure>\n<h5>{escape(title)}</h5>\n{drawing}\n"
        f"{element('figcaption', escape(caption))}\n</figure>\n"
    )
