"""Which sheets a report has, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dm2l_lab._results import Results
from dm2l_lab._tables import ResultTable
from dm2l_lab.report._against_paper import contest_sheets, reproduction_sheets
from dm2l_lab.report._blocks import BlockStatistics, block_statistics
from dm2l_lab.report._duels import dm2l_variants, ridge_pairs
from dm2l_lab.report._sheets import Sheet, result_sheets
from dm2l_lab.report._significance import block_sheets, duel_sheets

_SUMMARIES = ("wins", "reproduced", "ridge", "ranks")


@dataclass(frozen=True, eq=False)
class Section:
    """Sheets that belong together, and the comparisons over blocks that have diagrams."""

    title: str
    sheets: Sequence[Sheet]
    blocks: Sequence[BlockStatistics] = ()

    @property
    def headlines(self) -> list[str]:
        """What it comes to: the first notes of the sheets that sum others up."""
        return [sheet.notes[0] for sheet in self.sheets if sheet.name in _SUMMARIES]


@dataclass(frozen=True)
class Choice:
    """Which methods are ours, and which pairs to compare; None to go by names."""

    variants: Sequence[str] | None = None
    pairs: Sequence[tuple[str, str]] | None = None

    def check(self, found: Iterable[Results]) -> None:
        """Refuse names that no results have."""
        methods = list(dict.fromkeys(name for results in found for name in results.methods))
        given = [*(self.variants or ()), *(name for pair in self.pairs or () for name in pair)]
        if unknown := [name for name in given if name not in methods]:
            raise ValueError(
                f"There are no results of a method {unknown[0]!r}; there are some of "
                f"{', '.join(map(repr, methods)) or 'none'}."
            )

    def variants_among(self, methods: Sequence[str]) -> list[str]:
        """Those of our variants that are among some methods."""
        if self.variants is None:
            return dm2l_variants(methods)
        return [name for name in self.variants if name in methods]

    def pairs_among(self, methods: Sequence[str]) -> list[tuple[str, str]]:
        """Those of the pairs that are among some methods."""
        if self.pairs is None:
            return ridge_pairs(methods)
        return [(a, b) for a, b in self.pairs if a in methods and b in methods]


def sections(table: ResultTable, choice: Choice) -> Iterator[Section]:
    """Everything there is to say about a table; what there is nothing to say about is left out."""
    methods = table.results.methods
    variants, pairs = choice.variants_among(methods), choice.pairs_among(methods)
    statistics = [block_statistics(table, measure) for measure in table.measures]
    blocks = [each for each in statistics if each is not None]
    paper = [*contest_sheets(table, variants), *reproduction_sheets(table)]
    for section in (
        Section("Results", list(result_sheets(table))),
        Section("Against the published figures", paper),
        Section("DM2L against ridge", list(duel_sheets(table, pairs))),
        Section("Over all data sets and rates", list(block_sheets(blocks)), blocks),
    ):
        if section.sheets:
            yield section
