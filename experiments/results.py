"""Rows of results, and tables of them in the order in which pages show them."""

import json
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from experiments import resumable
from experiments.protocols import MASKS, NO_MASK, PROTOCOLS, Cell
from experiments.published import MEASURES, RESULTS, ROOT, SOURCES, Measure, published_figures

KEY = Cell._fields
_NESTED = ("chosen", "warnings", "versions", "machine")  # JSON in a table
_PAPER_SETS = tuple(name for sets in SOURCES.values() for name in sets)
_PAPER_METHODS = tuple(dict.fromkeys(key[3] for key in published_figures()))

# -- files --------------------------------------------------------------------------------------


def read(*paths: Path) -> pd.DataFrame:
    """Rows of ``.jsonl`` and ``.parquet`` files, each cell once: the first stays."""
    frames = [pd.read_parquet(p) if p.suffix == ".parquet" else _read_lines(p) for p in paths]
    frame = pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)
    if missing := {*KEY, "settings", "split", "data"} - set(frame):
        raise ValueError(f"{', '.join(map(str, paths))}: no column {', '.join(sorted(missing))}.")
    return frame.drop_duplicates(list(KEY), ignore_index=True)


def load(name: str, folder: str = "benchmarks/results") -> Any:
    """A record of a benchmark, by the name of its file."""
    return json.loads((ROOT / folder / f"{name}.json").read_text())


def _read_lines(path: Path) -> pd.DataFrame:
    rows = resumable.stored(path)
    for row in rows:
        row |= {name: None if row[name] is None else json.dumps(row[name]) for name in _NESTED}
    columns = [*KEY, "settings", "split", "data"]
    frame = pd.DataFrame(rows, columns=None if rows else columns)
    # Where all are None, pandas would take them for objects.
    numbers = [name for name in frame if name.startswith(("published_", "default_", "n_"))]
    return frame.astype(dict.fromkeys(numbers, float))


def write(frame: pd.DataFrame, path: Path) -> None:
    """Store rows as a table, in an order that is always the same."""
    by = ["protocol", "repetition", "dataset", "rate", "mask", "method"]
    ascending = [name != "rate" for name in by]
    frame.sort_values(by, ascending=ascending, ignore_index=True).to_parquet(path)


# -- results of a protocol ----------------------------------------------------------------------


class Results:
    """Rows of protocols that are read as one, under one mask, in the paper's convention of metrics.

    Rows without hidden labels belong to all masks.
    """

    def __init__(self, rows: pd.DataFrame, protocols: str, mask: str | None = None) -> None:
        self.name = protocols
        names = protocols.split("+")
        self.all_rows = rows[rows["protocol"].isin(names)]
        if self.all_rows.empty:
            stored = ", ".join(rows["protocol"].unique()) or "none"
            raise ValueError(f"There are no rows of protocol {protocols}; there are of {stored}.")
        self.protocols = [PROTOCOLS[name] for name in names if name in PROTOCOLS]
        found = set(self.all_rows["mask"]) - {NO_MASK}
        self.masks = _ordered(found, MASKS) or (NO_MASK,)
        self.mask = self.masks[0] if mask is None else mask
        self.rows = self.all_rows[self.all_rows["mask"].isin([self.mask, NO_MASK])]
        if twice := self.rows.duplicated([name for name in KEY if name != "protocol"]).sum():
            raise ValueError(f"Protocols {protocols} have {twice} cells in common.")

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """Names of methods: in the protocol's order, then the paper's, then by name."""
        known = [method.name for protocol in self.protocols for method in protocol.methods]
        return _ordered(self.all_rows["method"], [*known, *_PAPER_METHODS])

    @cached_property
    def datasets(self) -> dict[str, tuple[str, ...]]:
        """Data sets as tables show them, each with the stored sets it is the mean of.

        The paper prints the mean of ten sets as ``Corel16k``. Two or more of them become one line
        of a table, whose name says so if they are not all.
        """
        known = [name for protocol in self.protocols for name in protocol.datasets]
        stored = _ordered(self.all_rows["dataset"], [*known, *_PAPER_SETS])
        shown: dict[str, tuple[str, ...]] = {}
        for name in stored:
            paper, parts = next(
                ((n, sets) for n, sets in SOURCES.items() if name in sets), (name, (name,))
            )
            here = tuple(other for other in stored if other in parts)
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
        return tuple(sorted(self.all_rows["rate"].unique(), reverse=True))

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """Measures that any row has."""
        defined = self.rows.notna().any()
        return tuple(m for m in MEASURES if defined.get(m.column, False))

    def published_name(self, dataset: str) -> str | None:
        """The paper's name of a data set of this table; None where it has no figures for it."""
        sets = self.datasets[dataset]
        return next((name for name, sources in SOURCES.items() if set(sets) <= set(sources)), None)

    def is_part(self, dataset: str) -> bool:
        """Whether the published figure is the mean of more sets than are here."""
        name = self.published_name(dataset)
        return name is not None and len(self.datasets[dataset]) < len(SOURCES[name])

    @cached_property
    def _tables(self) -> dict[str, pd.DataFrame]:
        shown = {name: key for key, names in self.datasets.items() for name in names}
        rows = self.rows.assign(dataset=self.rows["dataset"].map(shown))
        sizes = rows["dataset"].map({name: len(sets) for name, sets in self.datasets.items()})
        index = ["dataset", "rate", "repetition"]
        tables = {}
        for measure in self.measures:
            groups = rows.assign(size=sizes).groupby([*index, "method"])
            found = groups.agg(
                mean=(measure.column, "mean"),
                count=(measure.column, "count"),
                size=("size", "first"),
            )
            # Of a mean of several sets: repetitions in which all have a value.
            whole = found.loc[found["count"] == found["size"], "mean"].unstack("method")
            tables[measure.name] = whole.reindex(columns=list(self.methods))
        return tables

    def line(self, dataset: str, rate: float, measure: str) -> pd.DataFrame:
        """Values of a measure: a row for each repetition, a column for each method."""
        table = self._tables.get(measure)
        if table is None or (dataset, rate) not in table.index.droplevel("repetition"):
            return pd.DataFrame(columns=list(self.methods), dtype=float)
        return table.loc[(dataset, rate)]


def _ordered(names: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Names once each, the known ones first and in their order."""
    found = set(names)
    first = [name for name in dict.fromkeys(known) if name in found]
    return (*first, *sorted(found - set(first)))


def paired_means(line: pd.DataFrame, methods: Sequence[str] | None = None) -> pd.Series:
    """Means over the repetitions that all methods with values have."""
    run = line[list(line if methods is None else methods)].dropna(axis=1, how="all")
    return run.dropna().mean()


@cache  # read once, not for every table
def stored_results(protocols: str, mask: str = "per_row") -> Results:
    """The stored results of the paper's protocols."""
    return Results(_stored_rows(), protocols, mask)


@cache
def _stored_rows() -> pd.DataFrame:
    return read(RESULTS / "cells.parquet")
