"""The figures of a report that a store has the numbers for, and its diagrams."""

from __future__ import annotations

import importlib.util
import itertools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from dm2l.plots._diagrams import critical_difference_diagram
from dm2l_lab import Protocol, Store
from dm2l_lab._figures import comparison_figure, rate_figure, time_figure
from dm2l_lab._results import read_results
from dm2l_lab.report._blocks import BlockStatistics
from dm2l_lab.report._sheets import printable
from dm2l_lab.report._svg import Figure, to_svg

Row = dict[str, Any]

_MEASURES = {
    "ranking_loss": "Ranking loss",
    "average_precision": "Average precision",
    "coverage": "Coverage",
    "instance_auc": "AUC over the labels of an instance",
}
# What the paper sets side by side, and on which data.
_PAIRS = (("LEML", "DM2L-Lo"), ("DM2L-l", "DM2L-Lo"))
_PAIR_SETS = ("Arts", "Business")


def store_figures(
    store: Store, *, protocol: str | Protocol | None = None, convention: str = "published"
) -> list[Figure]:
    """Draw metrics against observation rates, the paper's pairs of methods, and fit times.

    Parameters
    ----------
    store : Store
        Results.
    protocol : str or Protocol, default=None
        Which results; None for all, each protocol by itself.
    convention : {"published", "default"}, default="published"
        How metrics treat rows in which they are undefined.

    Returns
    -------
    list of Figure
        For :func:`report`. Empty where nothing is done yet.

    Examples
    --------
    >>> from dm2l_lab import Store
    >>> from dm2l_lab.report import store_figures
    >>> with Store(":memory:") as store:
    ...     store_figures(store)
    []
    """
    found: list[Figure] = []
    for results in read_results(store, protocol):
        rows = [row for row in results.rows if row["status"] == "done"]
        found += _figures(results.name, rows, convention) if rows else []
    return found


def _figures(name: str, rows: Sequence[Row], convention: str) -> Iterator[Figure]:
    masks = sorted({row["mask"] for row in rows} - {"none"}) or ["per_row"]
    whole = [row for row in rows if all(_value(row, convention, m) for m in _MEASURES)]
    for mask in masks if whole else ():
        for metric, title in _MEASURES.items():
            drawn = rate_figure(whole, metric, mask=mask, convention=convention)
            caption = f"{title} against the share of labels that stay observed ({mask} masks)."
            small = title if title.startswith("AUC") else title.lower()
            yield Figure(f"{name}: {small}, {mask}", caption, to_svg(drawn))
        for methods, dataset in itertools.product(_PAIRS, _PAIR_SETS):
            if set(methods) <= {row["method"] for row in whole if row["dataset"] == dataset}:
                drawn = comparison_figure(
                    whole, methods=methods, dataset=dataset, mask=mask, convention=convention
                )
                title = f"{name}: {methods[0]} and {methods[1]} on {dataset}, {mask}"
                yield Figure(title, f"Repetitions with {mask} masks.", to_svg(drawn))
    timed = [row for row in rows if row.get("seconds_fit")]
    for dataset in dict.fromkeys(row["dataset"] for row in timed):
        caption = "Seconds to fit, selection of settings included: median, shortest and longest."
        drawn = time_figure(timed, dataset=dataset)
        yield Figure(f"{name}: running time on {dataset}", caption, to_svg(drawn))


def _value(row: Row, convention: str, metric: str) -> bool:
    return (row["metrics"] or {}).get(convention, {}).get(metric) is not None


# -- diagrams -----------------------------------------------------------------------------------


def can_draw() -> bool:
    """Whether matplotlib, which draws the diagrams, is there."""
    return importlib.util.find_spec("matplotlib") is not None


def diagrams(blocks: Sequence[BlockStatistics]) -> Iterator[Figure]:
    """Critical-difference diagrams, one for each measure."""
    for each in blocks:
        title = f"{each.measure.title}: average ranks"
        caption = (
            f"{len(each.methods)} methods on {len(each.blocks)} blocks. Methods under one bar do "
            f"not differ by Nemenyi's test at 5 %: their ranks lie within {each.cd:.3f}."
        )
        # A dollar would begin a formula.
        names = [printable(method).replace("$", r"\$") for method in each.methods]
        with warnings.catch_warnings():
            # Whether a font has a letter is a matter of the browser that shows the page.
            warnings.filterwarnings("ignore", message="Glyph .* missing")
            figure = critical_difference_diagram(each.ranks, each.cd, names=names).figure
            svg = to_svg(figure, title=title, description=caption, outlines=False)
        yield Figure(title, caption, svg)
