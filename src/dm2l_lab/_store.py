"""Results in one SQLite file, in which a row is either whole or not there."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any, Self

from dm2l._utils.files import reading, whole_file
from dm2l_lab._database import Database
from dm2l_lab._protocol import Cell, Protocol
from dm2l_lab._rows import (
    COLUMNS,
    KEY,
    READERS,
    RUN_COLUMNS,
    WRITERS,
    dump,
    flat,
    suffix,
    table_types,
)

_ORDER = "protocol, repetition, dataset, rate DESC, mask, method, settings"


class Store:
    """Rows of results in a SQLite file that several processes may use at a time.

    A row is on the disk, whole, once :meth:`add` returns, and what is cut short before leaves
    nothing. The file must not lie on a network file system, whose locks SQLite cannot trust. As
    long as it is open, and after a kill until it is opened again, rows may still be in a second
    file beside it, whose name ends in ``-wal``.

    Rows of earlier versions, whose keys named the modules of classes, are found under the keys of
    today: in a store opened to write they are changed for good.

    Parameters
    ----------
    path : path-like
        The file, made if it does not exist; ``":memory:"`` for one that is gone when closed.
    read_only : bool, default=False
        Change nothing; the file must exist.

    Examples
    --------
    >>> from dm2l_lab import Cell, Store
    >>> cell = Cell("honest", "Arts", "none", 1.0, 0, "ridge", "0123456789ab")
    >>> with Store(":memory:") as store:
    ...     run = store.add_run(versions={"dm2l": "0.1.0"}, machine={"cpus": 2})
    ...     first = store.add(cell, {"status": "done", "seconds": 1.5, "run": run})
    ...     again = store.add(cell, {"status": "done", "seconds": 9.9, "run": run})
    ...     rows = store.rows()
    >>> first, again, [row["seconds"] for row in rows]
    (True, False, [1.5])
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self.path = str(path)
        self._db = Database(self.path, read_only)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    # -- writing --------------------------------------------------------------------------------

    def add_run(self, *, versions: Mapping[str, Any], machine: Mapping[str, Any]) -> str:
        """Note the circumstances, and the time, that rows will refer to.

        Parameters
        ----------
        versions, machine : mapping
            Versions of the software, and what it runs on.

        Returns
        -------
        str
            Identifier of the run.
        """
        run = os.urandom(8).hex()  # of its own, whatever stores are merged later
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with self._db.transaction():
            self._insert_run(run, started, versions, machine)
        return run

    def _insert_run(self, run: str, started: Any, versions: Any, machine: Any) -> None:
        values = (run, started, dump(versions), dump(machine))
        self._db.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?)", values)

    def add(self, cell: Cell, row: Mapping[str, Any], *, retried: bool = False) -> bool:
        """Store the result of a cell, unless it is there.

        A result takes the place of a failure; apart from that the first row stays.

        Parameters
        ----------
        cell : Cell
            The key.
        row : mapping
            ``status`` ("done" or "failed"), ``run``, and further columns.
        retried : bool, default=False
            A failure, too, takes the place of an earlier failure.

        Returns
        -------
        bool
            Whether the row was stored.
        """
        with self._db.transaction():
            return self._insert({**dict(zip(KEY, astuple(cell), strict=True)), **row}, retried)

    def _insert(self, row: Mapping[str, Any], retried: bool = False) -> bool:
        if unknown := set(row) - set(COLUMNS):
            raise ValueError(f"A row has no columns {sorted(unknown)}.")
        changes = ", ".join(f"{c} = excluded.{c}" for c in COLUMNS if c not in KEY)
        cursor = self._db.execute(
            f"INSERT INTO results ({', '.join(COLUMNS)})"
            f" VALUES ({', '.join('?' * len(COLUMNS))})"
            f" ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET {changes}"
            " WHERE results.status = 'failed' AND (excluded.status = 'done' OR ?)",
            [dump(row.get(c)) if type_ == "JSON" else row.get(c) for c, type_ in COLUMNS.items()]
            + [retried],
        )
        return cursor.rowcount > 0

    def merge(self, other: str | os.PathLike[str]) -> int:
        """Add the rows of another store, or of a table that :meth:`export` wrote.

        Parameters
        ----------
        other : path-like
            A store, or a ``.csv`` or ``.parquet`` file. It stays as it is.

        Returns
        -------
        int
            How many rows were new.
        """
        if suffix(other) in READERS:
            rows = READERS[suffix(other)](Path(other))
        else:
            with Store(other, read_only=True) as store:
                rows = store.rows()
        with self._db.transaction():
            self.check(rows, other)
            for row in rows:
                self._insert_run(row["run"], *(row[name] for name in RUN_COLUMNS))
            return sum(self._insert({name: row[name] for name in COLUMNS}) for row in rows)

    def check(self, rows: Iterable[Mapping[str, Any]], origin: Any) -> None:
        """Refuse rows that no table should hold together with those stored.

        Parameters
        ----------
        rows : iterable of mapping
            With ``protocol``, ``dataset``, ``split`` and ``data``: a protocol has to split in
            one way, and its data sets have to stay the same.
        origin : object
            Where the rows come from, for the message.
        """
        columns = ("protocol", "dataset", "split", "data")
        stored = self._db.all(f"SELECT DISTINCT {', '.join(columns)} FROM results")
        first: dict[str, Any] = {}
        for row in [*(dict(zip(columns, found, strict=True)) for found in stored), *rows]:
            protocol, dataset = repr(row["protocol"]), repr(row["dataset"])
            for what, value in (
                (f"splits of protocol {protocol}", row["split"]),
                (f"contents of data set {dataset} under protocol {protocol}", row["data"]),
            ):
                if value is not None and first.setdefault(what, value) != value:
                    raise ValueError(
                        f"The {what} differ: {first[what]} in {self.path}, {value} in {origin}. "
                        "Use another store, or another name."
                    )

    # -- reading --------------------------------------------------------------------------------

    def states(self, protocol: str | None = None) -> dict[Cell, str]:
        """Status of every stored cell.

        Parameters
        ----------
        protocol : str, default=None
            Name of a protocol; None for all.

        Returns
        -------
        dict of Cell to {"done", "failed"}
            In the order of :meth:`rows`.
        """
        where, values = ("", []) if protocol is None else (" WHERE protocol = ?", [protocol])
        sql = f"SELECT {', '.join(KEY)}, status FROM results{where} ORDER BY {_ORDER}"
        return {Cell(*key): status for *key, status in self._db.all(sql, values)}

    def durations(self, protocol: str) -> dict[tuple[str, str], tuple[int, float]]:
        """How many cells were done, and in how many seconds, by data set and method.

        Parameters
        ----------
        protocol : str
            Name of a protocol.

        Returns
        -------
        dict of (dataset, method) to (count, seconds)
            Only where a cell is done.
        """
        sql = (
            "SELECT dataset, method, count(seconds), sum(seconds) FROM results"
            " WHERE protocol = ? AND status = 'done' AND seconds IS NOT NULL"
            " GROUP BY dataset, method"
        )
        found = self._db.all(sql, [protocol])
        return {(dataset, method): (count, total) for dataset, method, count, total in found}

    def rows(
        self,
        protocol: str | Protocol | None = None,
        *,
        datasets: Iterable[str] | None = None,
        methods: Iterable[str] | None = None,
        status: str | None = None,
    ) -> list[dict[str, Any]]:
        """Rows, with the circumstances of their run, in an order that is always the same.

        Parameters
        ----------
        protocol : str or Protocol, default=None
            A name, or a protocol: then only rows of its cells, none of earlier settings.
        datasets, methods : iterable of str, default=None
            Names; None for all.
        status : {"done", "failed"}, default=None
            None for both.

        Returns
        -------
        list of dict
            ``metrics`` is ``{"published": {...}, "default": {...}}``, or None for failures;
            ``parameters``, ``chosen``, ``warnings``, ``versions`` and ``machine`` are dicts.
        """
        name = protocol.name if isinstance(protocol, Protocol) else protocol
        tests: dict[str, list[str] | None] = {
            "protocol": None if name is None else [name],
            "dataset": None if datasets is None else list(datasets),
            "method": None if methods is None else list(methods),
            "status": None if status is None else [status],
        }
        chosen = {column: values for column, values in tests.items() if values is not None}
        where = [f"{c} IN ({', '.join('?' * len(v))})" for c, v in chosen.items()] or ["1"]
        columns = {**COLUMNS, **RUN_COLUMNS}
        stored = self._db.all(
            f"SELECT {', '.join(columns)} FROM results LEFT JOIN runs ON runs.id = results.run"
            f" WHERE {' AND '.join(where)} ORDER BY {_ORDER}",
            [value for values in chosen.values() for value in values],
        )
        with reading(self.path, "a store of results"):
            rows = [
                {
                    column: json.loads(value) if type_ == "JSON" and value is not None else value
                    for (column, type_), value in zip(columns.items(), found, strict=True)
                }
                for found in stored
            ]
        if not isinstance(protocol, Protocol):
            return rows
        cells = set(protocol.cells())
        return [row for row in rows if Cell(*(row[name] for name in KEY)) in cells]

    def frame(self, protocol: str | Protocol | None = None, **selection: Any) -> Any:
        """Rows as a pandas data frame, one column for each metric.

        Parameters
        ----------
        protocol : str or Protocol, default=None
            As in :meth:`rows`.
        **selection
            ``datasets``, ``methods``, ``status`` of :meth:`rows`.

        Returns
        -------
        pandas.DataFrame
            Metrics are called ``published_ranking_loss``, ``default_ranking_loss`` and so on;
            ``parameters``, ``chosen``, ``warnings``, ``versions``, ``machine`` are JSON texts.
        """
        import pandas as pd  # only this method needs it

        numbers = [c for c, type_ in table_types().items() if type_ == "REAL"]
        rows = self.rows(protocol, **selection)
        with reading(self.path, "a store of results"):
            frame = pd.DataFrame([flat(row) for row in rows], columns=list(table_types()))
            return frame.astype(dict.fromkeys(numbers, "float64"))  # even where all are missing

    # -- tables ---------------------------------------------------------------------------------

    def export(
        self, path: str | os.PathLike[str], protocol: str | Protocol | None = None, **selection: Any
    ) -> int:
        """Write the columns of :meth:`frame` to a table, from which rows can be read back.

        Parameters
        ----------
        path : path-like
            Ends in ``.csv`` or ``.parquet``; the latter needs pyarrow.
        protocol, **selection
            As in :meth:`frame`.

        Returns
        -------
        int
            Number of rows.
        """
        path = Path(path)
        if suffix(path) not in WRITERS:
            raise ValueError(
                f"A table is a .csv or a .parquet file, by the end of its name; got {str(path)!r}."
            )
        rows = [flat(row) for row in self.rows(protocol, **selection)]
        with whole_file(path) as partial:
            WRITERS[suffix(path)](partial, rows)
        return len(rows)
