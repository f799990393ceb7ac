"""Results in one SQLite file, in which a row is either whole or not there."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, Self

from dm2l.files import whole_file
from dm2l_lab._protocol import Cell, Protocol

CONVENTIONS = ("published", "default")
METRICS = (
    "ranking_loss",
    "average_precision",
    "coverage",
    "instance_auc",
    "label_auc",
    "one_error",
    "hamming_loss",
)

SCHEMA_VERSION = 1
_APPLICATION = 0x444D324C  # "DM2L": tells a store from other SQLite files
_PATIENCE = 120.0  # seconds to wait for another process that writes

_KEY = tuple(field.name for field in fields(Cell))
# Names and SQLite types of a row's columns; those of type JSON are stored as TEXT.
_COLUMNS = {
    "protocol": "TEXT",
    "dataset": "TEXT",
    "mask": "TEXT",
    "rate": "REAL",
    "repetition": "INTEGER",
    "method": "TEXT",
    "settings": "TEXT",
    "status": "TEXT",  # done or failed
    "error": "TEXT",  # type and message of what a failed cell raised
    "metrics": "JSON",  # by convention, by name; null: undefined, or there is no predict
    "parameters": "JSON",  # what the hash in settings stands for
    "chosen": "JSON",  # best_params_ of a search
    "n_iter": "INTEGER",
    "n_evaluations": "INTEGER",
    "n_train": "INTEGER",
    "n_test": "INTEGER",
    "observed": "REAL",  # share of the training labels
    "n_copies": "INTEGER",  # test rows with an identical row in training
    "split": "TEXT",
    "data": "TEXT",  # hash of features and labels
    "scores": "TEXT",  # hash of the scores of the test rows
    "split_seed": "INTEGER",
    "mask_seed": "INTEGER",
    "estimator_seed": "INTEGER",
    "seconds_fit": "REAL",
    "seconds_score": "REAL",
    "seconds": "REAL",  # all of it: data, fit, scores, metrics
    "peak_memory": "REAL",  # MiB, of the process since its start
    "device": "TEXT",
    "warnings": "JSON",  # how often, by text
    "run": "TEXT",
}
_RUN_COLUMNS = {"started": "TEXT", "versions": "JSON", "machine": "JSON"}
_METRIC_COLUMNS = {f"{c}_{name}": (c, name) for c in CONVENTIONS for name in METRICS}
_ORDER = "protocol, repetition, dataset, rate DESC, mask, method, settings"


class Store:
    """Rows of results in a SQLite file that several processes may use at a time.

    A row is on the disk, whole, once :meth:`add` returns, and what is cut short before leaves
    nothing. The file must not lie on a network file system, whose locks SQLite cannot trust. As
    long as it is open, and after a kill until it is opened again, rows may still be in a second
    file beside it, whose name ends in ``-wal``.

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
        if read_only and not Path(self.path).is_file():
            raise FileNotFoundError(f"There is no store {self.path}.")
        with self._named():
            self._db = _connect(self.path, read_only)
            try:
                self._prepare(read_only)
            except BaseException:
                self._db.close()
                raise

    def _prepare(self, read_only: bool) -> None:
        tables = self._one("SELECT count(*) FROM sqlite_master")
        if tables and self._one("PRAGMA application_id") != _APPLICATION:
            raise ValueError(f"{self.path} is a SQLite file, but not a store of results.")
        version = self._one("PRAGMA user_version")
        if version > SCHEMA_VERSION:
            raise ValueError(
                f"{self.path} has schema version {version}, and this dm2l knows up to "
                f"{SCHEMA_VERSION}. Update dm2l."
            )
        if read_only:
            if not version:
                raise ValueError(f"{self.path} is empty, not a store of results.")
            return
        if self._one("PRAGMA journal_mode") != "wal":
            _insist(lambda: self._db.execute("PRAGMA journal_mode = WAL"))
        self._db.execute("PRAGMA synchronous = FULL")
        if version < SCHEMA_VERSION:
            self._create()

    def _create(self) -> None:
        types = {name: type_.replace("JSON", "TEXT") for name, type_ in _COLUMNS.items()}
        required = (*_KEY, "status", "run")
        columns = [f"{c} {t}{' NOT NULL' if c in required else ''}" for c, t in types.items()]
        with self._transaction():  # the pragmas take part in it: all or nothing
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS runs"
                " (id TEXT PRIMARY KEY, started TEXT, versions TEXT, machine TEXT)"
            )
            self._db.execute(
                f"CREATE TABLE IF NOT EXISTS results ({', '.join(columns)},"
                f" UNIQUE ({', '.join(_KEY)}))"
            )
            self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _one(self, sql: str) -> Any:
        return self._db.execute(sql).fetchone()[0]

    def _all(self, sql: str, values: Iterable[Any] = ()) -> list[Any]:
        with self._named():
            return self._db.execute(sql, list(values)).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # All of it inside: an interrupt may come between any two lines.
        with self._named():
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _named(self) -> Iterator[None]:
        """What SQLite has to say, with the path."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if not hasattr(error, "sqlite_errorcode"):  # not of SQLite: a store that is closed
                raise
            raise _explained(error, self.path) from error

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
        with self._transaction():
            self._insert_run(run, started, versions, machine)
        return run

    def _insert_run(self, run: str, started: Any, versions: Any, machine: Any) -> None:
        values = (run, started, _dump(versions), _dump(machine))
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
        with self._transaction():
            return self._insert({**dict(zip(_KEY, astuple(cell), strict=True)), **row}, retried)

    def _insert(self, row: Mapping[str, Any], retried: bool = False) -> bool:
        if unknown := set(row) - set(_COLUMNS):
            raise ValueError(f"A row has no columns {sorted(unknown)}.")
        changes = ", ".join(f"{c} = excluded.{c}" for c in _COLUMNS if c not in _KEY)
        cursor = self._db.execute(
            f"INSERT INTO results ({', '.join(_COLUMNS)})"
            f" VALUES ({', '.join('?' * len(_COLUMNS))})"
            f" ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {changes}"
            " WHERE results.status = 'failed' AND (excluded.status = 'done' OR ?)",
            [_dump(row.get(c)) if type_ == "JSON" else row.get(c) for c, type_ in _COLUMNS.items()]
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
        if _suffix(other) in _READERS:
            rows = _READERS[_suffix(other)](Path(other))
        else:
            with Store(other, read_only=True) as store:
                rows = store.rows()
        with self._transaction():
            self.check(rows, other)
            for row in rows:
                self._insert_run(row["run"], *(row[name] for name in _RUN_COLUMNS))
            return sum(self._insert({name: row[name] for name in _COLUMNS}) for row in rows)

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
        stored = self._all(f"SELECT DISTINCT {', '.join(columns)} FROM results")
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
        sql = f"SELECT {', '.join(_KEY)}, status FROM results{where} ORDER BY {_ORDER}"
        return {Cell(*key): status for *key, status in self._all(sql, values)}

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
        found = self._all(sql, [protocol])
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
        columns = {**_COLUMNS, **_RUN_COLUMNS}
        stored = self._all(
            f"SELECT {', '.join(columns)} FROM results LEFT JOIN runs ON runs.id = results.run"
            f" WHERE {' AND '.join(where)} ORDER BY {_ORDER}",
            [value for values in chosen.values() for value in values],
        )
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
        return [row for row in rows if Cell(*(row[name] for name in _KEY)) in cells]

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

        flat = [_flat(row) for row in self.rows(protocol, **selection)]
        frame = pd.DataFrame(flat, columns=list(_table_types()))
        numbers = [c for c, type_ in _table_types().items() if type_ == "REAL"]
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
        if _suffix(path) not in _WRITERS:
            raise ValueError(
                f"A table is a .csv or a .parquet file, by the end of its name; got {str(path)!r}."
            )
        rows = [_flat(row) for row in self.rows(protocol, **selection)]
        with whole_file(path) as partial:
            _WRITERS[_suffix(path)](partial, rows)
        return len(rows)

    @classmethod
    def from_table(
        cls, table: str | os.PathLike[str], path: str | os.PathLike[str] = ":memory:"
    ) -> Self:
        """Open a store with the rows of a table.

        Parameters
        ----------
        table : path-like
            What :meth:`export` wrote.
        path : path-like, default=":memory:"
            The store, made if it does not exist.

        Returns
        -------
        Store
            The store.
        """
        if _suffix(table) not in _READERS:
            raise ValueError(f"A table is a .csv or a .parquet file; got {str(table)!r}.")
        store = cls(path)
        try:
            store.merge(table)
        except BaseException:
            store.close()
            raise
        return store


def _connect(path: str, read_only: bool) -> sqlite3.Connection:
    # isolation_level None: transactions begin where the code says so, and nowhere else.
    if not read_only:
        return sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
    file = Path(path).resolve()
    # Where nothing can be written, the usual shared index of the log cannot be made either. As
    # "immutable" a file is read without its log: only where there is none.
    still = not os.access(file.parent, os.W_OK) and not _log(file)
    uri = f"{file.as_uri()}?mode=ro{'&immutable=1' if still else ''}"
    return sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)


def _log(file: Path) -> str | None:
    """Name of the file with rows that are not in the store itself yet."""
    log = file.with_name(f"{file.name}-wal")
    return log.name if log.is_file() and log.stat().st_size else None


def _explained(error: sqlite3.DatabaseError, path: str) -> Exception:
    """The same as an error of Python, with the path and what can be done."""
    kind = error.sqlite_errorcode & 0xFF  # the rest are details of it
    file = Path(path).resolve()
    if kind in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return ValueError(f"{path} is not a store of results, or it is damaged: {error}.")
    if kind == sqlite3.SQLITE_CONSTRAINT:
        return ValueError(f"{path} does not take a row: {error}.")
    if kind not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
        return OSError(f"{path}: {error}.")
    if not file.parent.is_dir():
        return FileNotFoundError(f"There is no folder {file.parent} for the store {file.name}.")
    if kind == sqlite3.SQLITE_CANTOPEN and (log := _log(file)):
        return PermissionError(
            f"{path}: {error}. Rows wait in {log}, which SQLite can read only in a folder that it "
            f"can write to. Copy {file.name} and {log} to one, and use the copy."
        )
    return PermissionError(f"{path}: {error}. A store is written to only where its folder can be.")


def _insist(action: Callable[[], Any]) -> None:
    """Repeat while the file is locked: a change of the journal mode does not wait by itself."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            action()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)


def _dump(value: Any) -> str | None:
    return None if value is None else json.dumps(value, sort_keys=True, allow_nan=False)


# -- rows as lines of a table -------------------------------------------------------------------


def _table_types() -> dict[str, str]:
    """Columns of a table: those of a row and its run, with the metrics side by side."""
    types = {**_COLUMNS, **_RUN_COLUMNS}
    types.pop("metrics")
    return {**types, **dict.fromkeys(_METRIC_COLUMNS, "REAL")}


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    metrics = row["metrics"] or {convention: {} for convention in CONVENTIONS}
    flat = {
        column: _dump(row[column]) if type_ == "JSON" else row[column]
        for column, type_ in {**_COLUMNS, **_RUN_COLUMNS}.items()
        if column != "metrics"
    }
    return flat | {column: metrics[c].get(name) for column, (c, name) in _METRIC_COLUMNS.items()}


def _nested(flat: Mapping[str, Any], path: Path, number: int) -> dict[str, Any]:
    if missing := set(_table_types()) - set(flat):
        raise ValueError(f"{path} lacks the columns {sorted(missing)} of a table of results.")
    row: dict[str, Any] = {}
    for column, type_ in _table_types().items():
        value = flat[column]
        try:
            row[column] = None if value in (None, "") else _CASTS[type_](value)
        except ValueError as error:
            raise ValueError(
                f"{path}, row {number}, column {column}: {value!r} is no {_WORDS[type_]}."
            ) from error
    values = {column: row.pop(column) for column in _METRIC_COLUMNS}
    row["metrics"] = None
    if row["status"] == "done":
        row["metrics"] = {c: {} for c in CONVENTIONS}
        for column, (convention, name) in _METRIC_COLUMNS.items():
            row["metrics"][convention][name] = values[column]
    return row


def _whole(value: Any) -> int:
    """A whole number, spelled 24.0 too, as pandas does in a column with holes."""
    number = float(value)
    if not number.is_integer():
        raise ValueError
    return int(number)


_CASTS: dict[str, Callable[[Any], Any]] = {
    "REAL": float,
    "INTEGER": _whole,
    "JSON": json.loads,
    "TEXT": str,
}
_WORDS = {"REAL": "number", "INTEGER": "whole number", "JSON": "JSON"}


def _suffix(path: str | os.PathLike[str]) -> str:
    return Path(path).suffix.lower()


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(_table_types()))
        writer.writeheader()
        writer.writerows(rows)


def _read_csv(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="", encoding="utf-8") as file:
        return [_nested(row, path, number) for number, row in enumerate(csv.DictReader(file), 1)]


def _write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    pa, parquet = _pyarrow()
    types = {"REAL": pa.float64(), "INTEGER": pa.int64(), "JSON": pa.string(), "TEXT": pa.string()}
    schema = pa.schema([(name, types[type_]) for name, type_ in _table_types().items()])
    parquet.write_table(pa.Table.from_pylist(rows, schema=schema), path)


def _read_parquet(path: Path) -> list[dict[str, Any]]:
    _, parquet = _pyarrow()
    rows = parquet.read_table(path).to_pylist()
    return [_nested(row, path, number) for number, row in enumerate(rows, 1)]


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Parquet files need pyarrow: pip install 'dm2l[io]'. A .csv file needs nothing.",
            name="pyarrow",
        ) from error
    return pa, parquet


_WRITERS = {".csv": _write_csv, ".parquet": _write_parquet}
_READERS = {".csv": _read_csv, ".parquet": _read_parquet}
