"""Sheets that set our figures beside the published ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from dm2l_lab._published import PAPER_MEASURES
from dm2l_lab._tables import Contest, ResultTable, TableEntry, contests
from dm2l_lab.report._sheets import Item, Sheet, Tone, mean_item, number, rate_item, signed

_BASIS = (
    "The published figures rest on masks by row, and those of Tmc2007-500 on the edition "
    "Tmc2007-500-old."
)
_MANY = 30  # lines that one scrolls past

# -- the same method in print -------------------------------------------------------------------


def reproduction_sheets(table: ResultTable) -> Iterator[Sheet]:
    """Our figures beside those the paper prints for the same method."""
    results = table.results
    entries = [
        entry
        for measure in PAPER_MEASURES
        for dataset in results.datasets
        for rate in results.rates
        for entry in table.line(dataset, rate, measure.name).values()
        if entry.reproduced is not None
    ]
    if not entries:
        return
    methods = dict.fromkeys(entry.place.method for entry in entries)
    tolerances = "; ".join(
        f"{m.name} within {f'{100 * m.tolerance:g} %' if m.relative else f'{m.tolerance:g}'}"
        for m in PAPER_MEASURES
    )
    count = sum(bool(entry.reproduced) for entry in entries)
    notes = [
        f"{count} of {len(entries)} figures are as published ({tolerances}).",
        "Methods are matched by name.",
        _BASIS,
        *_part_note(table),
    ]
    rows = [[Item(method), *_reproduced_items(entries, method)] for method in methods]
    columns = ["Method", *(m.name for m in PAPER_MEASURES), "All"]
    yield Sheet("reproduced", "Reproduced figures", columns, "tnnnnn", rows, notes)
    yield Sheet(
        "published",
        "Every figure beside the published one",
        ["Data set", "ρ", "Measure", "Method", "Ours", "n", "Published", "Difference", "Within"],
        "tnttnnnnt",
        [_beside(entry) for entry in entries],
        _part_note(table),
        folded=True,
    )


def _reproduced_items(entries: Sequence[TableEntry], method: str) -> Iterator[Item]:
    for measures in (*((m,) for m in PAPER_MEASURES), PAPER_MEASURES):
        found = [e for e in entries if e.place.method == method and e.measure in measures]
        yield Item(f"{sum(bool(e.reproduced) for e in found)} of {len(found)}")


def _beside(entry: TableEntry) -> list[Item]:
    assert entry.published is not None
    assert entry.difference is not None
    within = Item("yes", tone="good") if entry.reproduced else Item("no", tone="bad")
    where = [Item(entry.place.dataset), rate_item(entry.place.rate), Item(entry.measure.name)]
    figures = [mean_item(entry), Item(str(entry.n)), Item(number(entry.published))]
    return [*where, Item(entry.place.method), *figures, Item(signed(entry.difference)), within]


def _part_note(table: ResultTable) -> list[str]:
    return [
        f"{name} stands beside the published {table.published_name(name)}, which is the mean of "
        "more sets."
        for name in table.results.datasets
        if table.is_part(name)
    ]


# -- the best in print --------------------------------------------------------------------------


def contest_headline(variants: Sequence[str], joint: Sequence[Contest]) -> str:
    """How many cells are won, in a sentence."""
    counts = Counter(contest.outcome for contest in joint)
    whose = variants[0] if len(variants) == 1 else f"the best of {', '.join(variants)}"
    parts = sum(contest.part and contest.outcome != "missing" for contest in joint)
    partly = f" In {parts} cells ours rests on fewer sets than the published mean." if parts else ""
    return (
        f"In {counts['better'] + counts['equal']} of the {len(joint)} cells of the paper's Tables "
        f"2 to 4 {whose} is at least as good as the best published figure of any method, both "
        f"rounded to three decimals ({counts['better']} better, {counts['equal']} equal); "
        f"{counts['lost']} are lost, {counts['missing']} have no results.{partly}"
    )


def contest_sheets(table: ResultTable, variants: Sequence[str]) -> Iterator[Sheet]:
    """The best of our variants against the best published figure of any method."""
    joint = contests(table, variants)
    if all(contest.outcome == "missing" for contest in joint):
        return
    rows = [_won(variant, contests(table, [variant])) for variant in variants]
    if len(variants) > 1:
        rows.append(_won("best of them", joint))
    lost = [contest for contest in joint if contest.outcome == "lost"]
    notes = [
        contest_headline(variants, joint),
        "The better variant is taken cell by cell after the fact, as is the best published method.",
        _BASIS,
        *_part_note(table),
    ]
    columns = ["Method", *(m.name for m in PAPER_MEASURES), "All", "Missing"]
    yield Sheet("wins", "Cells won", columns, "tnnnnnn", rows, notes)
    columns = ["Data set", "ρ", "Measure", "Published", "by", "Ours", "by", "Difference", "Outcome"]
    kinds = "tntntntnt"
    if lost:
        rows = [_contest(contest) for contest in lost]
        yield Sheet("lost", "Cells lost", columns, kinds, rows, folded=len(lost) > _MANY)
    every = [_contest(contest) for contest in joint]
    yield Sheet("contests", f"All {len(joint)} cells", columns, kinds, every, folded=True)


def _won(name: str, found: Sequence[Contest]) -> list[Item]:
    items = [Item(name)]
    for measures in (*((m,) for m in PAPER_MEASURES), PAPER_MEASURES):
        here = [contest for contest in found if contest.measure in measures]
        items.append(Item(f"{sum(contest.won for contest in here)} of {len(here)}"))
    missing = sum(contest.outcome == "missing" for contest in found)
    return [*items, Item(str(missing))]


def _contest(contest: Contest) -> list[Item]:
    entry = contest.entry
    tones: dict[str, Tone] = {"better": "good", "lost": "bad", "missing": "missing"}
    figures = [Item(number(contest.published)), Item(", ".join(contest.published_by))]
    if entry is None or entry.mean is None:
        ours = [Item("–", tone="missing"), Item(""), Item("–", tone="missing")]
    else:
        difference = signed(entry.mean - contest.published)
        ours = [mean_item(entry), Item(entry.place.method), Item(difference)]
    name = contest.dataset
    if entry is not None and entry.place.dataset != name:
        name = f"{name} ({entry.place.dataset})"
    where = [Item(name), rate_item(contest.rate), Item(contest.measure.name)]
    return [*where, *figures, *ours, Item(contest.outcome, tone=tones.get(contest.outcome, ""))]
