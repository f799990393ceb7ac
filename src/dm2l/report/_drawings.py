"""The figures of a report that a store has the numbers for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dm2l.experiments import Protocol, Store
from dm2l.experiments._figures import comparison_figure, rate_figure, time_figure, to_svg
from dm2l.experiments._results import read_results
from dm2l.report._figures import Figure

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
    >>> from dm2l.experiments import Store
    >>> from dm2l.report import store_figures
    >>> with Store(":memory:") as store:
    ...     store_figures(store)
    []
    """
    found: list[Figure] = []
    for results in read_results(store, protocol):
        rows = [row for row in results.rows if row["status"] == "done"]
        found += _figures(results.name, rows, convention) if rows else []
    return found


def _figures(name: str, rows: Sequence[dict[str, Any]], convention: str) -> Iterator[Figure]:
    masks = sorted({row["mask"] for row in rows} - {"none"}) or ["per_row"]
    for mask in masks:
        for metric, title in _MEASURES.items():
            drawn = rate_figure(rows, metric, mask=mask, convention=convention)
            caption = f"{title} against the share of labels that stay observed ({mask} masks)."
            yield Figure(f"{name}: {title.lower()}, {mask}", caption, to_svg(drawn))
        for methods in _PAIRS:
            for dataset in _PAIR_SETS:
                there = {row["method"] for row in rows if row["dataset"] == dataset}
                if set(methods) <= there:
                    drawn = comparison_figure(
                        rows, methods=methods, dataset=dataset, mask=mask, convention=convention
                    )
                    title = f"{name}: {methods[0]} and {methods[1]} on {dataset}"
                    yield Figure(title, f"Repetitions with {mask} masks.", to_svg(drawn))
    caption = "Seconds to fit, selection of settings included: median, shortest and longest."
    yield Figure(f"{name}: running time", caption, to_svg(time_figure(rows)))
