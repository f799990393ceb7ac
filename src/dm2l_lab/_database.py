"""The SQLite file of a store: opened, checked, brought up to date, and its errors explained."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dm2l_lab._rows import COLUMNS, KEY, dump
from dm2l_lab._settings import rekeyed

SCHEMA_VERSION = 2
_NAMELESS = 2  # the first version whose keys do not name modules
_APPLICATION = 0x444D324C  # "DM2L": tells a store from other SQLite files
_PATIENCE = 120.0  # seconds to wait for another process that writes

_REQUIRED = (*KEY, "status", "run")
_RESULTS = [
    f"{name} {type_.replace('JSON', 'TEXT')}{' NOT NULL' if name in _REQUIRED else ''}"
    for name, type_ in COLUMNS.items()
]
_TABLES = {
    "runs": "id TEXT PRIMARY KEY, started TEXT, versions TEXT, machine TEXT",
    "results": f"{', '.join(_RESULTS)}, UNIQUE ({', '.join(KEY)})",
}


class Database:
    """A connection to the file of a store, with its tables made.

    Parameters
    ----------
    path : str
        The file; ``":memory:"`` for one that is gone when closed.
    read_only : bool
        Change nothing; the file must exist.
    """

    def __init__(self, path: str, read_only: bool) -> None:
        self.path = path
        if read_only and not Path(path).is_file():
            raise FileNotFoundError(f"There is no store {path}.")
        with self._named():
            self._db = _connect(path, read_only)
            try:
                self._prepare(read_only)
            except BaseException:
                self._db.close()
                raise

    def _prepare(self, read_only: bool) -> None:
        tables = self._one("SELECT count(*) FROM sqlite_master")
        if tables and self._one("PRAGMA application_id") != _APPLICATION:
            raise ValueError(f"{self.path} is a SQLite file, but not a store of results.")
        # A view or a computed column is a program, which may never end.
        ours = {f"CREATE TABLE {name} ({columns})".encode() for name, columns in _TABLES.items()}
        found = self._db.execute("SELECT CAST(sql AS BLOB) FROM sqlite_master").fetchall()
        if tables and {sql for (sql,) in found if sql} != ours:
            raise ValueError(f"{self.path} does not have the tables of a store of results.")
        version = self._one("PRAGMA user_version")
        if version > SCHEMA_VERSION:
            raise ValueError(
                f"{self.path} has schema version {version}, and this dm2l knows up to "
                f"{SCHEMA_VERSION}. Update dm2l."
            )
        if read_only:
            if not version:
                raise ValueError(f"{self.path} is empty, not a store of results.")
            if version < SCHEMA_VERSION:  # brought up to date in a copy
                copy = sqlite3.connect(":memory:", isolation_level=None)
                self._db.backup(copy)
                self._db.close()
                self._db = copy
                self._update(version)
            return
        if self._one("PRAGMA journal_mode") != "wal":
            _insist(lambda: self._db.execute("PRAGMA journal_mode = WAL"))
        self._db.execute("PRAGMA synchronous = FULL")
        if version < SCHEMA_VERSION:
            self._update(version)

    def _update(self, version: int) -> None:
        with self.transaction():  # the pragmas take part in it: all or nothing
            for name, columns in _TABLES.items():
                self._db.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")
            if 0 < version < _NAMELESS:
                self._rekey()
            self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _rekey(self) -> None:
        """Give rows the keys that they would have today, which name no modules."""
        found = "SELECT DISTINCT settings, parameters FROM results WHERE parameters IS NOT NULL"
        for settings, parameters in self._db.execute(found).fetchall():
            new, bare = rekeyed(settings, json.loads(parameters))
            if new != settings:
                # Two rows of one cell, from before and after a class had moved: one stays.
                self._db.execute(
                    "UPDATE OR REPLACE results SET settings = ?, parameters = ? WHERE settings = ?",
                    (new, dump(bare), settings),
                )

    def _one(self, sql: str) -> Any:
        return self._db.execute(sql).fetchone()[0]

    def all(self, sql: str, values: Iterable[Any] = ()) -> list[Any]:
        with self._named():
            return self._db.execute(sql, list(values)).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
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
        except sqlite3.ProgrammingError:  # a store that is closed
            raise
        except sqlite3.DatabaseError as error:
            raise _explained(error, self.path) from error

    def execute(self, sql: str, values: Iterable[Any] = ()) -> sqlite3.Cursor:
        """Run a statement, within a transaction."""
        return self._db.execute(sql, list(values))

    def close(self) -> None:
        """Close the file."""
        self._db.close()


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
    # Text that is not UTF-8 has no number. Of one, the higher bits are details.
    kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
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
