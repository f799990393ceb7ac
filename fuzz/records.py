"""Changes to journals, stores and tables of results that leave them well-formed."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import random
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from fuzz.mutations import mutate

WORDS = [None, [], {}, [[]], -1, 10**20, "x", "t_b", float("nan"), True, {"a": [1]}]
VALUES = [
    None,
    -1,
    2**62,
    1e308,
    1.5,
    "",
    "x",
    "{",
    "[]",
    "null",
    "NaN",
    "1e400",
    b"\xff",
    "9" * 40,
]
VALUES += ['{"published": []}', '{"published": {"coverage": {}}}', "[" * 5000, "done", "failed"]
# What whoever writes a file can have SQLite do when it is read.
STATEMENTS = [
    "DROP TABLE runs",
    "DROP TABLE results",
    "ALTER TABLE results DROP COLUMN chosen",
    "ALTER TABLE results RENAME COLUMN data TO other",
    "DELETE FROM results",
    "DELETE FROM runs",
    "PRAGMA user_version = 0",
    "PRAGMA user_version = 1",
    "PRAGMA user_version = 7",
    "PRAGMA application_id = 1",
    "INSERT INTO runs SELECT id || rowid, started, versions, machine FROM runs",
    "CREATE TRIGGER t AFTER INSERT ON results BEGIN DELETE FROM runs; END",
    "DROP TABLE runs; CREATE TABLE runs (id TEXT, started TEXT, versions TEXT, machine TEXT AS"
    " (printf('%.*c', 2000000000, 'x')))",
    "DROP TABLE runs; CREATE VIEW runs AS WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1"
    " FROM n) SELECT i AS id, i AS started, i AS versions, i AS machine FROM n",
    "ALTER TABLE results RENAME TO old; CREATE VIEW results AS WITH RECURSIVE n(i) AS (VALUES(1)"
    " UNION ALL SELECT i + 1 FROM n) SELECT old.* FROM old, n",
    "PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = replace(sql, 'TEXT', 'BLOB')",
    "PRAGMA writable_schema = 1; UPDATE sqlite_master SET rootpage = rootpage + 1",
]


def change_journal(content: bytes, rng: random.Random) -> bytes:
    """Half of the time a changed line with a right seal."""
    if rng.random() < 0.5:
        return mutate(content, rng)
    lines = content.splitlines()
    k = rng.randrange(1, len(lines))
    previous = json.loads(lines[k - 1])["seal"]
    line = json.loads(lines[k])
    del line["seal"]
    line[rng.choice([*line, "output", "probability"])] = rng.choice(WORDS)
    if rng.random() < 0.2:
        line = {"output": rng.choice(WORDS), "time": line["time"]}
    text = json.dumps(line)
    seal = hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()[:16]
    lines[k:] = [f'{text[:-1]}, "seal": "{seal}"}}'.encode()]
    return b"\n".join(lines) + b"\n"


def change_store(content: bytes, rng: random.Random) -> bytes:
    """Half of the time other values or another schema, by SQLite itself."""
    if rng.random() < 0.5:
        return mutate(content, rng)
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as file:
        Path(file.name).write_bytes(content)
        with closing(sqlite3.connect(file.name, isolation_level=None)) as db:
            db.executescript("PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF")
            for _ in range(rng.choice([1, 1, 2])):
                with suppress(sqlite3.Error, LookupError):  # the first change left nothing
                    _change_rows_of(db, rng)
        return Path(file.name).read_bytes()


def _change_rows_of(db: sqlite3.Connection, rng: random.Random) -> None:
    if rng.random() < 0.5:
        db.executescript(rng.choice(STATEMENTS))
        return
    table = rng.choice(["results", "results", "runs"])
    column = rng.choice(db.execute(f"SELECT name FROM pragma_table_info('{table}')").fetchall())[0]
    db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid <= 2", [rng.choice(VALUES)])


def change_rows(content: bytes, rng: random.Random) -> bytes:
    """Half of the time, and if it is text, another value in a cell."""
    if content[:4] == b"PAR1" or rng.random() < 0.5:
        return mutate(content, rng)
    lines = list(csv.reader(io.StringIO(content.decode())))
    row = rng.choice(lines)
    row[rng.randrange(len(row))] = str(rng.choice(VALUES))
    text = io.StringIO()
    csv.writer(text).writerows(lines)
    return text.getvalue().encode()
