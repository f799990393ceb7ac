"""Tables of results: means, ranks, and how they compare with the published figures."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from scipy.stats import rankdata

from dm2l_lab._protocol import NO_MASK
from dm2l_lab._published import MEASURES, SOURCES, Measure, best_published, published_figures
from dm2l_lab._results import Place, Results
from dm2l_lab._rows import CONVENTIONS

__all__ = ["Contest", "ResultTable", "TableEntry", "contests"]

ROUNDING = 12  # decimals up to which a mean is trusted

Outcome = Literal["better", "equal", "lost", "missing"]


@dataclass(frozen=True, eq=False)
class TableEntry:
    """One measure of one method on one data set at one rate.

    Attributes
    ----------
    place : Place
        Where it belongs; the data set as the table shows it.
    measure : Measure
        What was measured.
    values : dict of int to float
        By repetition. Of a data set that is the mean of several: where all have a value.
    n_failed : int
        Repetitions that failed.
    expected : int or None
        Repetitions there should be, if that is known.
    published : float or None
        What the paper prints for a method of this name.
    rank : float or None
        Among the methods of the line, by mean; equal means share their rank.
    """

    place: Place
    measure: Measure
    values: dict[int, float]
    n_failed: int = 0
    expected: int | None = None
    published: float | None = None
    rank: float | None = None

    @property
    def n(self) -> int:
        """Number of repetitions."""
        return len(self.values)

    @cached_property
    def mean(self) -> float | None:
        """Mean over repetitions; None where there are none."""
        return statistics.fmean(self.values.values()) if self.values else None

    @cached_property
    def deviation(self) -> float | None:
        """Standard deviation over repetitions; None for fewer than two."""
        return statistics.stdev(self.values.values()) if self.n > 1 else None

    def restricted(self, repetitions: Collection[int]) -> TableEntry:
        """The entry as it would be with some of its repetitions only, without a rank.

        Parameters
        ----------
        repetitions : collection of int
            Those to keep.

        Returns
        -------
        TableEntry
            Another one.
        """
        kept = {r: value for r, value in self.values.items() if r in repetitions}
        return replace(self, values=kept, rank=None)

    @property
    def difference(self) -> float | None:
        """Mean minus published figure."""
        if self.mean is None or self.published is None:
            return None
        return self.mean - self.published

    @property
    def reproduced(self) -> bool | None:
        """Whether the mean lies within the tolerance around the published figure."""
        if self.mean is None or self.published is None:
            return None
        return self.measure.reproduced(self.mean, self.published)


def paired_means(line: dict[str, TableEntry]) -> dict[str, float]:
    """Means over the repetitions that all entries with values have; none if there are none.

    Parameters
    ----------
    line : dict of str to TableEntry
        By method.

    Returns
    -------
    dict of str to float
        By method, those without values left out.
    """
    run = {method: entry for method, entry in line.items() if entry.values}
    common = set.intersection(*(set(entry.values) for entry in run.values())) if run else set()
    means = {method: entry.restricted(common).mean for method, entry in run.items()}
    return {method: mean for method, mean in means.items() if mean is not None}


class ResultTable:
    """All measures of all methods, under one mask and one convention of the metrics.

    Parameters
    ----------
    results : Results
        What to show.
    mask : str, default=None
        One of ``results.masks``; None for the first. Rows without hidden labels belong to all.
    convention : {"published", "default"}, default="published"
        How metrics treat rows in which they are undefined.
    """

    def __init__(
        self, results: Results, mask: str | None = None, convention: str = "published"
    ) -> None:
        mask = results.masks[0] if mask is None else mask
        if mask not in results.masks:
            raise ValueError(
                f"Results of {results.name!r} have the masks {', '.join(results.masks)}, got "
                f"{mask!r}."
            )
        if convention not in CONVENTIONS:
            raise ValueError(f"convention must be one of {CONVENTIONS}, got {convention!r}.")
        self.results = results
        self.mask = mask
        self.convention = convention
        self._lines: dict[tuple[str, float, str], dict[str, TableEntry]] = {}

    def line(self, dataset: str, rate: float, measure: str) -> dict[str, TableEntry]:
        """Entries of all methods, with ranks; those without any value are there too.

        Ranks are of means over the repetitions that all methods with values have.

        Parameters
        ----------
        dataset : str
            As shown, or as stored.
        rate : float
            Share of observed labels.
        measure : str
            Name of one of :data:`MEASURES`.

        Returns
        -------
        dict of str to TableEntry
            By method.
        """
        key = (dataset, rate, measure)
        if key not in self._lines:
            kind = next(m for m in MEASURES if m.name == measure)
            line = {m: self._entry(dataset, rate, kind, m) for m in self.results.methods}
            means = paired_means(line)
            sign = -1 if kind.higher_is_better else 1
            # Means that only rounding tells apart, as of 0.10, 0.14 and 0.13, 0.11, are equal.
            ranks = rankdata([round(sign * mean, ROUNDING) for mean in means.values()])
            for method, rank in zip(means, ranks, strict=True):
                line[method] = replace(line[method], rank=float(rank))
            self._lines[key] = line
        return self._lines[key]

    def _entry(self, dataset: str, rate: float, measure: Measure, method: str) -> TableEntry:
        results = self.results
        mask = NO_MASK if rate == 1 else self.mask
        sets = results.datasets.get(dataset, (dataset,))
        places = [Place(name, mask, rate, method) for name in sets]
        by_set = [self._values(place, measure) for place in places]
        common = set.intersection(*(set(values) for values in by_set))
        failed = {row["repetition"] for place in places for row in results.failed.get(place, ())}
        published = self.published_name(dataset)
        return TableEntry(
            Place(dataset, mask, rate, method),
            measure,
            {r: statistics.fmean(values[r] for values in by_set) for r in sorted(common)},
            n_failed=len(failed),
            expected=results.expected_at(places),
            published=published_figures().get((published or "", rate, measure.name, method)),
        )

    def _values(self, place: Place, measure: Measure) -> dict[int, float]:
        found = {
            row["repetition"]: (row["metrics"] or {}).get(self.convention, {}).get(measure.metric)
            for row in self.results.done.get(place, ())
        }
        return {repetition: value for repetition, value in found.items() if value is not None}

    def published_name(self, dataset: str) -> str | None:
        """The paper's name of a data set of this table; None where it has no figures for it.

        Parameters
        ----------
        dataset : str
            As shown.

        Returns
        -------
        str or None
            Also where only some of the sets are there that the paper averages: see
            :meth:`is_part`.
        """
        sets = self.results.datasets.get(dataset)
        if sets is None:  # one of several that are shown as one
            return None
        return next((name for name, sources in SOURCES.items() if set(sets) <= set(sources)), None)

    def is_part(self, dataset: str) -> bool:
        """Whether the published figure rests on more sets than are here."""
        name = self.published_name(dataset)
        return name is not None and len(self.results.datasets[dataset]) < len(SOURCES[name])

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Measures that any row has."""
        found = {
            name
            for rows in self.results.done.values()
            for row in rows
            for name in (row["metrics"] or {}).get(self.convention, {})
        }
        return tuple(measure for measure in MEASURES if measure.metric in found)


# -- against the best of the paper --------------------------------------------------------------


@dataclass(frozen=True)
class Contest:
    """The best published figure of one cell and ours.

    Attributes
    ----------
    dataset, rate, measure
        The cell; the data set by the paper's name.
    published, published_by
        The best figure in print, and whose it is.
    entry : TableEntry or None
        The best of our variants; None where none has a value.
    outcome : {"better", "equal", "lost", "missing"}
        Of our mean, both rounded to the three decimals of print.
    part : bool
        Whether ours rests on fewer sets than the published figure.
    """

    dataset: str
    rate: float
    measure: Measure
    published: float
    published_by: tuple[str, ...]
    entry: TableEntry | None
    outcome: Outcome
    part: bool

    @property
    def won(self) -> bool:
        """Whether ours is at least as good."""
        return self.outcome in ("better", "equal")


def contests(table: ResultTable, variants: Iterable[str]) -> list[Contest]:
    """Set the best of our variants against the best published figure, cell by cell.

    Parameters
    ----------
    table : ResultTable
        Our results.
    variants : iterable of str
        Methods to take the best of, as in print the best of all is taken.

    Returns
    -------
    list of Contest
        96, one for each cell of the paper's Tables 2 to 4.
    """
    chosen = list(variants)
    shown = {table.published_name(name): name for name in table.results.datasets}
    measures = {measure.name: measure for measure in MEASURES}
    found = []
    for (dataset, rate, name), (figure, methods) in best_published().items():
        measure = measures[name]
        line = table.line(shown[dataset], rate, name) if dataset in shown else {}
        ours = {method: line[method].mean for method in chosen if method in line}
        means = {method: mean for method, mean in ours.items() if mean is not None}
        entry: TableEntry | None = None
        outcome: Outcome = "missing"
        if means:
            best = measure.best(list(means.values()))
            entry = next(line[method] for method, mean in means.items() if mean == best)
            compared = measure.compare(best, figure)
            outcome = "lost" if compared == "worse" else compared
        part = dataset in shown and table.is_part(shown[dataset])
        found.append(Contest(dataset, rate, measure, figure, methods, entry, outcome, part))
    return found
