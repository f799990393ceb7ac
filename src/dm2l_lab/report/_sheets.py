"""Tables ready for print, before it is decided whether as HTML, Markdown or LaTeX."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dm2l_lab._published import PRINTED_DECIMALS, Measure
from dm2l_lab._results import Place
from dm2l_lab._tables import ResultTable, TableEntry, paired_means

_CONTROL = dict.fromkeys((*range(32), *range(127, 160)), "\N{REPLACEMENT CHARACTER}")
_CONTROL |= dict.fromkeys(map(ord, "\t\n\r"), " ")

Tone = Literal["", "good", "bad", "missing"]


@dataclass(frozen=True)
class Item:
    """What stands at one place of a sheet.

    Attributes
    ----------
    text : str
        The number or name.
    small : str
        What goes with it, in smaller letters.
    bold : bool
        For the best of a line.
    tone : {"", "good", "bad", "missing"}
        What it means, for media with colours.
    place : Place or None
        Where in the store the number comes from.
    sort : float or None
        What to sort by, where the text does not begin with it.
    """

    text: str
    small: str = ""
    bold: bool = False
    tone: Tone = ""
    place: Place | None = None
    sort: float | None = None


@dataclass(frozen=True)
class Sheet:
    """A table ready for print.

    Attributes
    ----------
    name : str
        For files.
    title : str
        Above the table.
    columns : sequence of str
        Headings.
    numeric : str
        For each column ``n`` for numbers or ``t`` for text.
    rows : sequence of sequence of Item
        As many items as columns in each.
    notes : sequence of str
        Below the table.
    folded : bool
        Whether it is too long to be read from top to bottom.
    """

    name: str
    title: str
    columns: Sequence[str]
    numeric: str
    rows: Sequence[Sequence[Item]]
    notes: Sequence[str] = ()
    folded: bool = False


def printable(text: object) -> str:
    """A text on one line without characters that no page may hold."""
    return str(text).translate(_CONTROL)


def number(value: float, decimals: int = PRINTED_DECIMALS) -> str:
    """A number with fixed decimals; never a negative zero."""
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text


def signed(value: float) -> str:
    """A difference with its sign; a zero without."""
    text = f"{value:+.{PRINTED_DECIMALS}f}"
    return text.lstrip("+-") if float(text) == 0 else text


def rate_item(rate: float) -> Item:
    """A rate."""
    return Item(f"{rate:g}")


def mean_item(entry: TableEntry, *, bold: bool = False) -> Item:
    """The mean of an entry, linked to its rows."""
    if entry.mean is None:
        return Item("–", tone="missing")
    return Item(number(entry.mean), bold=bold, place=entry.place)


# -- results ------------------------------------------------------------------------------------


def result_sheets(table: ResultTable) -> Iterator[Sheet]:
    """For each measure, all methods on all data sets; what is shown as one set follows in parts."""
    results = table.results
    parts = [name for name in results.stored_sets if name not in results.datasets]
    for measure in table.measures:
        yield _result_sheet(table, measure, list(results.datasets), measure.name.lower())
    for measure in table.measures if parts else ():
        yield _result_sheet(table, measure, parts, f"{measure.name.lower()}-parts", part=True)


def _result_sheet(
    table: ResultTable, measure: Measure, datasets: Sequence[str], name: str, part: bool = False
) -> Sheet:
    results = table.results
    lines = {
        (dataset, rate): table.line(dataset, rate, measure.name)
        for dataset in datasets
        for rate in results.rates
    }
    usual = max((entry.n for line in lines.values() for entry in line.values()), default=0)
    rows = [
        [Item(dataset), rate_item(rate), *_result_items(line, measure, usual)]
        for (dataset, rate), line in lines.items()
    ]
    direction = "higher" if measure.higher_is_better else "lower"
    notes = [
        f"Mean ± standard deviation over {usual} repetition{'s' if usual != 1 else ''} unless n "
        f"says otherwise, and rank; {direction} is better, the best of a line is bold. Where n "
        "differs, rank and bold are those over the repetitions that all methods of a line have."
    ]
    if not part:
        notes += [
            f"{shown} is the mean of {len(sets)} sets: {sets[0]} to {sets[-1]}."
            for shown, sets in results.datasets.items()
            if len(sets) > 1
        ]
    title = f"{measure.title} ({measure.name})"
    return Sheet(
        name,
        f"{title}, set by set" if part else title,
        ["Data set", "ρ", *results.methods],
        "tn" + "n" * len(results.methods),
        rows,
        notes,
        folded=part,
    )


def _result_items(line: dict[str, TableEntry], measure: Measure, usual: int) -> Iterator[Item]:
    means = paired_means(line)
    best = number(measure.best(list(means.values()))) if means else None
    for method, entry in line.items():
        failed = f"{entry.n_failed}\N{NO-BREAK SPACE}failed" if entry.n_failed else ""
        if entry.mean is None:
            if entry.n_failed:
                yield Item("failed", f"{entry.n_failed}×", tone="bad", place=entry.place)
            elif entry.expected == 0:
                yield Item("n/a", tone="missing")
            else:
                yield Item("–", "missing", tone="missing")
            continue
        text = number(entry.mean)
        spread = "" if entry.deviation is None else f"± {number(entry.deviation)} "
        count = f"n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{entry.n}" if entry.n != usual else ""
        rank = "" if entry.rank is None else f"({entry.rank:g})"
        small = ", ".join(part for part in (f"{spread}{rank}".strip(), count, failed) if part)
        bold = method in means and number(means[method]) == best
        yield Item(text, small, bold=bold, place=entry.place, sort=entry.mean)
