"""A store keeps every row once, whole, whoever writes and however they end."""

import csv
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV

from dm2l.baselines import MaskedRidgeClassifier
from dm2l_lab import CONVENTIONS, METRICS, Cell, Method, Protocol, Store
from dm2l_lab._settings import hash_of, rekeyed

CELL = Cell("honest", "Arts", "per_row", 0.3, 0, "ridge", "0123456789ab")


def values(number=0.5):
    return {c: dict.fromkeys(METRICS, number) for c in CONVENTIONS}


def done(number=0.5, **others):
    return {"status": "done", "metrics": values(number), "run": "r1", "seconds": 1.0, **others}


def failed(error="ValueError: no"):
    return {"status": "failed", "error": error, "run": "r1"}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store.db") as store:
        yield store


def with_run(store):
    return store.add_run(versions={"numpy": "2.0"}, machine={"cpus": 2})


# -- the rule for one key -----------------------------------------------------------------------


def test_first_result_stays(store):
    assert store.add(CELL, done(0.1))
    assert not store.add(CELL, done(0.2))
    assert [row["metrics"]["default"]["coverage"] for row in store.rows()] == [0.1]


def test_result_takes_the_place_of_a_failure_and_never_the_other_way(store):
    store.add(CELL, failed("MemoryError: full"))
    assert not store.add(CELL, failed("ValueError: another"))
    assert store.rows()[0]["error"] == "MemoryError: full"
    assert store.add(CELL, failed("ValueError: again"), retried=True)
    assert store.rows()[0]["error"] == "ValueError: again"
    assert store.add(CELL, done())
    assert store.rows()[0]["error"] is None
    assert not store.add(CELL, failed(), retried=True)
    assert store.states() == {CELL: "done"}


def test_every_part_of_the_key_tells_rows_apart(store):
    others = {
        "protocol": "other",
        "dataset": "Enron",
        "mask": "uniform",
        "rate": 0.7,
        "repetition": 1,
        "method": "LEML",
        "settings": "ba9876543210",
    }
    cells = [CELL, *(replace(CELL, **{name: value}) for name, value in others.items())]
    assert all(store.add(cell, done()) for cell in cells)
    assert set(store.states()) == set(cells)
    assert set(store.states("other")) == {replace(CELL, protocol="other")}


def test_unknown_column_is_refused_and_leaves_nothing(store):
    with pytest.raises(ValueError, match="ranking_los"):
        store.add(CELL, done(ranking_los=1.0))
    assert store.rows() == []


# Every example opens files, on a disk that others may keep busy.
few = settings(max_examples=30, deadline=None)

attempts = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["done", "failed"]), st.booleans()), max_size=12
)


@few
@given(attempts, st.integers(0, 12), st.booleans())
def test_stores_add_up_whatever_was_written_where(tmp_path_factory, attempts, cut, swap):
    """Merged in any order: each key once, done if it was done anywhere."""
    folder = tmp_path_factory.mktemp("stores")
    paths = [folder / "a.db", folder / "b.db"]
    for path, part in zip(paths, (attempts[:cut], attempts[cut:]), strict=True):
        with Store(path) as store:
            for repetition, status, retried in part:
                row = done() if status == "done" else failed()
                store.add(replace(CELL, repetition=repetition), row, retried=retried)
    first, second = paths[::-1] if swap else paths
    with Store(first) as store:
        before = len(store.rows())
        store.merge(second)
        found = {cell.repetition: status for cell, status in store.states().items()}
        assert len(store.rows()) == len(found)
        assert store.merge(second) == 0
    expected = {}
    for repetition, status, _ in attempts:
        expected[repetition] = "done" if "done" in (status, expected.get(repetition)) else "failed"
    assert found == expected
    assert before <= len(found)


# -- numbers come back as they went in ----------------------------------------------------------

numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".db"])
@few
@example(number=0.1, seconds=None, text='a\r\n"b",c', chosen=None)
@example(number=-0.0, seconds=5e-324, text="\r", chosen={})
@given(number=numbers, seconds=numbers, text=st.text(min_size=1), chosen=st.none() | st.just({}))
def test_rows_survive_the_way_out_and_back(tmp_path_factory, suffix, number, seconds, text, chosen):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    text = text.encode("utf-8", "ignore").decode().replace("\0", "") or "x"
    path = tmp_path_factory.mktemp("tables") / f"table{suffix}"
    with Store(":memory:" if suffix != ".db" else path) as store:
        run = with_run(store)
        facts = {"n_train": 3, "observed": number, "warnings": {text: 2}, "parameters": {"a": 1}}
        row = {**done(number), **facts, "run": run, "seconds_fit": seconds, "chosen": chosen}
        store.add(CELL, row)
        store.add(replace(CELL, repetition=1), {**failed(text), "run": run})
        before = store.rows()
        if suffix != ".db":
            assert store.export(path) == 2
    with Store(":memory:") as other:
        assert other.merge(path) == 2
        assert other.rows() == before
    assert before[0]["metrics"] == values(number)
    assert before[0]["versions"] == {"numpy": "2.0"}
    assert before[1]["metrics"] is None


def test_csv_is_plain_text_with_a_column_for_each_metric(store, tmp_path):
    store.add(CELL, done(0.1 + 0.2))
    store.export(tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        (line,) = csv.DictReader(file)
    assert line["published_ranking_loss"] == "0.30000000000000004"
    assert {f"{c}_{name}" for c in CONVENTIONS for name in METRICS} <= set(line)
    assert "metrics" not in line


def test_table_without_a_column_is_refused_by_its_name(store, tmp_path):
    (tmp_path / "t.csv").write_text("protocol,dataset\nhonest,Arts\n")
    with pytest.raises(ValueError, match="repetition"):
        store.merge(tmp_path / "t.csv")
    assert store.rows() == []


def test_whole_numbers_may_be_spelled_as_pandas_does(store, tmp_path):
    pd = pytest.importorskip("pandas")
    store.add(CELL, done(n_train=24))
    store.add(replace(CELL, repetition=1), failed())  # a hole: the column becomes float
    store.export(tmp_path / "t.csv")
    pd.read_csv(tmp_path / "t.csv").to_csv(tmp_path / "pandas.csv", index=False)
    assert "24.0" in (tmp_path / "pandas.csv").read_text()
    with Store(":memory:") as other:
        other.merge(tmp_path / "pandas.csv")
        assert other.rows() == store.rows()


@pytest.mark.parametrize(
    ("column", "value", "word"),
    [("n_train", "24.5", "whole number"), ("rate", "a lot", "number"), ("chosen", "{a", "JSON")],
)
def test_value_that_makes_no_sense_is_named_with_its_place(store, tmp_path, column, value, word):
    for repetition in range(2):
        store.add(replace(CELL, repetition=repetition), done())
    store.export(tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    lines[1][column] = value
    with (tmp_path / "t.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    expected = rf"t\.csv, row 2, column {column}: '{value}' is no {word}\."
    with Store(":memory:") as other, pytest.raises(ValueError, match=expected):
        other.merge(tmp_path / "t.csv")


def test_kind_of_a_table_goes_by_the_end_of_its_name_in_capitals_too(store, tmp_path):
    store.add(CELL, done())
    store.export(tmp_path / "T.CSV")
    with Store(":memory:") as other:
        other.merge(tmp_path / "T.CSV")
        assert other.rows() == store.rows()


def test_export_that_breaks_leaves_the_file_as_it_was(store, tmp_path, monkeypatch):
    from dm2l_lab import _rows

    store.add(CELL, done())
    target = tmp_path / "t.csv"
    target.write_text("before")

    def half(path, rows):
        path.write_text("half")
        raise OSError("disk full")

    monkeypatch.setitem(_rows.WRITERS, ".csv", half)
    with pytest.raises(OSError, match="disk full"):
        store.export(target)
    assert target.read_text() == "before"
    assert sorted(p.name for p in tmp_path.glob("*t.csv*")) == ["t.csv"]
    with pytest.raises(ValueError, match=r"t\.xlsx"):
        store.export(tmp_path / "t.xlsx")


def test_parquet_says_what_it_needs(store, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"dm2l\[io\]"):
        store.export(tmp_path / "t.parquet")
    assert list(tmp_path.glob("*.parquet*")) == []


# -- reading ------------------------------------------------------------------------------------


def test_order_of_rows_does_not_depend_on_the_order_of_writing(tmp_path):
    cells = [replace(CELL, repetition=r, dataset=d) for r in range(2) for d in ("b", "a")]
    orders = []
    for order in (cells, cells[::-1]):
        with Store(":memory:") as store:
            for cell in order:
                store.add(cell, done())
            orders.append([(row["repetition"], row["dataset"]) for row in store.rows()])
    assert orders[0] == orders[1] == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]


def test_rows_can_be_chosen(store):
    for name in ("ridge", "LEML"):
        store.add(replace(CELL, method=name), done())
        store.add(replace(CELL, method=name, dataset="Enron"), failed())
    store.add(replace(CELL, protocol="other"), done())
    assert len(store.rows()) == 5
    assert len(store.rows("honest")) == 4
    assert len(store.rows("honest", datasets=["Enron"])) == 2
    assert len(store.rows("honest", methods=["LEML"], status="done")) == 1
    assert store.rows(methods=[]) == []


def test_protocol_chooses_rows_with_the_settings_it_has_now(store):
    old, new = (Method("ridge", MaskedRidgeClassifier(alpha=a)) for a in (1.0, 2.0))
    for method, number in ((old, 0.1), (new, 0.2)):
        store.add(replace(CELL, settings=method.settings_hash), done(number))
    rows = store.rows(Protocol("honest", ("Arts",), (new,)))
    assert [row["metrics"]["default"]["coverage"] for row in rows] == [0.2]


def test_frame_has_numbers_in_columns(store):
    store.add(CELL, done(None, chosen={"alpha": 1.0}))
    store.add(replace(CELL, repetition=1), done(0.25))
    store.add(replace(CELL, repetition=2), failed())
    frame = store.frame("honest")
    assert frame.published_ranking_loss.isna().tolist() == [True, False, True]
    assert frame.default_label_auc[1] == 0.25
    assert frame.repetition.tolist() == [0, 1, 2]
    assert json.loads(frame.chosen[0]) == {"alpha": 1.0}
    assert store.frame(status="failed").published_ranking_loss.dtype == "float64"
    assert len(store.frame("no such")) == 0


def test_durations_are_those_of_cells_that_are_done(store):
    for repetition, seconds in enumerate((1.0, 2.5)):
        store.add(replace(CELL, repetition=repetition), done(seconds=seconds))
    store.add(replace(CELL, repetition=2), {**failed(), "seconds": 100.0})
    assert store.durations("honest") == {("Arts", "ridge"): (2, 3.5)}


# -- files that do not fit ----------------------------------------------------------------------


def test_store_of_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "store.db"
    with Store(path) as store:
        store._db.execute("PRAGMA user_version = 99")
    for read_only in (False, True):
        with pytest.raises(ValueError, match=r"version 99.*Update dm2l"):
            Store(path, read_only=read_only)


def test_files_of_others_are_refused_and_left_alone(tmp_path):
    text, database = tmp_path / "notes.txt", tmp_path / "mail.db"
    text.write_text("not a database, " * 100)
    connection = sqlite3.connect(database)
    connection.execute("CREATE TABLE mails (subject TEXT)")
    connection.commit()
    connection.close()
    before = text.read_bytes(), database.read_bytes()
    for path in (text, database):
        with pytest.raises(ValueError, match=path.name):
            Store(path)
    assert (text.read_bytes(), database.read_bytes()) == before


def test_reading_makes_no_file_and_changes_nothing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.db"):
        Store(tmp_path / "missing.db", read_only=True)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty.db").touch()
    with pytest.raises(ValueError, match="empty"):
        Store(tmp_path / "empty.db", read_only=True)
    with Store(tmp_path / "store.db") as store:
        store.add(CELL, done())
    with (
        Store(tmp_path / "store.db", read_only=True) as store,
        pytest.raises(PermissionError, match=r"store\.db: .*readonly"),
    ):
        store.add(replace(CELL, repetition=1), done())


def test_store_in_a_folder_that_cannot_be_written_can_be_read(tmp_path, monkeypatch):
    with Store(tmp_path / "store.db") as store:
        store.add(CELL, done())
    monkeypatch.setattr(os, "access", lambda *_: False)
    with Store(tmp_path / "store.db", read_only=True) as store:
        assert len(store.rows()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["store.db"]


@pytest.fixture(scope="module")
def killed_once(tmp_path_factory):
    """The files that a process left which was killed."""
    if not hasattr(signal, "SIGKILL"):
        pytest.skip("needs signals")
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-c", KILLED, str(folder / "store.db")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    return folder


@pytest.fixture
def killed(killed_once, tmp_path):
    """A store whose rows are all in the file beside it: the process was killed."""
    shutil.copytree(killed_once, tmp_path, dirs_exist_ok=True)
    return tmp_path / "store.db"


def test_rows_of_a_killed_process_are_read_where_nothing_can_be_written(killed, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with Store(killed, read_only=True) as store:
        assert len(store.rows()) == 1


def test_rows_that_cannot_be_read_are_not_passed_over(killed, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    index = killed.with_name("store.db-shm")
    index.unlink()
    index.symlink_to(
        "absent/index"
    )  # SQLite cannot make its index, as in a folder that cannot be written
    with pytest.raises(PermissionError, match=r"Rows wait in store\.db-wal.*Copy store\.db"):
        Store(killed, read_only=True)


def test_what_sqlite_cannot_do_is_said_with_the_path(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder .*absent for the store new\.db"):
        Store(tmp_path / "absent" / "new.db")
    whole, cut = tmp_path / "whole.db", tmp_path / "cut.db"
    with Store(whole) as store:
        for repetition in range(50):
            store.add(replace(CELL, repetition=repetition), done(error="x" * 500))
    cut.write_bytes(whole.read_bytes()[:20000])
    with Store(":memory:") as store, pytest.raises(ValueError, match=r"cut\.db .*damaged"):
        store.merge(cut)
    with Store(":memory:") as store, pytest.raises(ValueError, match=r"results\.run"):
        store.add(CELL, {"status": "done"})
    store.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        store.rows()


@pytest.mark.parametrize(
    ("column", "value"), [("split", "test_size=0.5"), ("data", "ffffffffffff")]
)
def test_rows_of_another_split_or_other_data_are_not_mixed_in(tmp_path, column, value):
    facts = {"split": "test_size=0.4", "data": "000000000000"}
    with Store(tmp_path / "other.db") as other:
        other.add(replace(CELL, repetition=1), done(**{**facts, column: value}))
    with Store(tmp_path / "store.db") as store:
        store.add(CELL, done(**facts))
        with pytest.raises(ValueError, match=value):
            store.merge(tmp_path / "other.db")
        assert len(store.rows()) == 1
        store.check([{"protocol": "new", "dataset": "Arts", **facts, column: value}], "a test")


ENDLESS = "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n)"


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE results RENAME TO old;"
        f"CREATE VIEW results AS {ENDLESS} SELECT old.* FROM old, n",
        f"DROP TABLE runs; CREATE VIEW runs AS {ENDLESS} SELECT i AS id, i AS started FROM n",
        "ALTER TABLE runs DROP COLUMN machine; ALTER TABLE runs ADD COLUMN machine TEXT AS (id)",
        "CREATE TRIGGER t AFTER INSERT ON results BEGIN DELETE FROM runs; END",
    ],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_with_a_program_in_it_is_refused_before_it_runs(tmp_path, change, read_only):
    path = tmp_path / "store.db"
    with Store(path) as store:
        store.add(CELL, done())
    with sqlite3.connect(path) as connection:
        connection.executescript(change)
    connection.close()
    with pytest.raises(ValueError, match="does not have the tables of a store"):
        Store(path, read_only=read_only)


@pytest.mark.parametrize(
    "value",
    [
        "'{'",
        "'[1'",
        f"'{'[' * 100_000}'",
        "CAST(x'ff7b' AS TEXT)",
        "x'ff'",
        "7",
        "'{\"default\": 1}'",
    ],
)
def test_damaged_values_of_a_store_are_told_with_its_path(tmp_path, value):
    path = tmp_path / "store.db"
    with Store(path) as store:
        store.add(CELL, done())
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE results SET metrics = {value}")
    connection.close()
    with Store(path) as store, pytest.raises(ValueError, match=r"store\.db"):
        store.frame()


@pytest.mark.parametrize(
    ("column", "value"), [("n_train", "9" * 30), ("n_train", "x"), ("chosen", "[" * 100_000)]
)
def test_tables_with_values_that_no_store_takes_are_refused(store, tmp_path, column, value):
    store.add(CELL, done())
    store.export(tmp_path / "t.csv")
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()))
    with (tmp_path / "t.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerow(rows[0] | {column: value})
    with Store(":memory:") as other, pytest.raises(ValueError, match=r"t\.csv"):
        other.merge(tmp_path / "t.csv")


# -- several processes --------------------------------------------------------------------------

# One process that becomes four when all is imported, so that they open the file at the same time.
WRITERS = """
import os, sys
from dataclasses import replace
from dm2l_lab import Cell, Store
path, cell = sys.argv[1], Cell("honest", "Arts", "per_row", 0.3, 0, "ridge", "0123456789ab")

def write(name):
    stored = 0
    with Store(path) as store:
        for repetition in range(25):
            row = {"status": "done", "run": name, "error": name * 500}
            stored += store.add(replace(cell, repetition=repetition), row)
    return stored

gate, opened = os.pipe()
writers = {}
for name in "abcd":
    writers[name] = os.fork()
    if not writers[name]:
        os.close(opened)
        os.read(gate, 1)  # until the one who holds the other end closes it
        os._exit(100 + write(name))
os.close(opened)
for name, writer in writers.items():
    print(name, os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_processes_that_open_and_write_at_once_store_every_row_once(tmp_path):
    path = tmp_path / "store.db"
    command = [sys.executable, "-c", WRITERS, str(path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = (line.split() for line in told.stdout.splitlines())
    stored = {name: int(code) - 100 for name, code in lines}  # an error's exit code is 1
    assert set(stored) == set("abcd")
    assert sum(stored.values()) == 25, told.stderr
    with Store(path, read_only=True) as store:
        rows = store.rows()
    assert [row["repetition"] for row in rows] == list(range(25))
    for row in rows:
        assert row["error"] == row["run"] * 500
    assert {n: sum(row["run"] == n for row in rows) for n in "abcd"} == stored


KILLED = """
import os, signal, sys
from dataclasses import replace
from dm2l_lab import Cell, Store
cell = Cell("honest", "Arts", "per_row", 0.3, 0, "ridge", "0123456789ab")
store = Store(sys.argv[1])
store.add(cell, {"status": "done", "run": "r"})
with store._db.transaction():
    store._insert({**vars(replace(cell, repetition=1)), "status": "done", "run": "r"})
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_kill_within_a_transaction_leaves_the_rows_before_it(killed):
    with Store(killed) as store:
        assert [cell.repetition for cell in store.states()] == [0]
        assert store.add(replace(CELL, repetition=1), done())
    assert [p.name for p in killed.parent.iterdir()] == ["store.db"]


# -- keys of earlier versions -------------------------------------------------------------------

# As they were when keys still named the modules of classes and functions.
OLD = {
    "class": "sklearn.Pipeline",
    "steps": [["scale", {"class": "dm2l.Scaler"}], ["search", {"class": "dm2l.Search"}]],
    "scoring": "dm2l.experiments._methods.quality",
    "note": "a text. With dots",
    "tol": 1e-05,
}
NOW = {
    "class": "Pipeline",
    "steps": [["scale", {"class": "Scaler"}], ["search", {"class": "Search"}]],
    "scoring": "quality",
    "note": "a text. With dots",
    "tol": 1e-05,
}


def key(parameters):
    return hash_of(json.dumps(parameters, sort_keys=True))


@pytest.fixture
def old_store(tmp_path):
    """A file of schema version 1, with a row whose key is no hash of its parameters."""
    path = tmp_path / "old.db"
    with Store(path) as store:
        run = with_run(store)
        store.add(replace(CELL, settings=key(OLD)), done(0.1, parameters=OLD, run=run))
        store.add(replace(CELL, repetition=1), done(0.2, parameters=OLD, run=run))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    return path


def version(path):
    connection = sqlite3.connect(path)
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return found


@pytest.mark.parametrize("read_only", [True, False])
def test_rows_of_an_old_store_are_found_under_the_keys_of_today(old_store, read_only):
    with Store(old_store, read_only=read_only) as store:
        first, second = store.rows()
    assert (first["settings"], first["parameters"]) == (key(NOW), NOW)
    assert first["metrics"] == values(0.1)
    assert (second["settings"], second["parameters"]) == (CELL.settings, OLD)
    assert version(old_store) == (1 if read_only else 2)


def test_old_rows_come_out_of_stores_and_tables_the_same(old_store, store, tmp_path):
    table = tmp_path / "old.csv"
    with Store(old_store) as old:
        old.export(table)
    # As the old version wrote it.
    columns = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    columns[0] |= {"settings": key(OLD), "parameters": json.dumps(OLD)}
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns[0])
        writer.writeheader()
        writer.writerows(columns)
    with sqlite3.connect(old_store) as connection:
        connection.execute("PRAGMA user_version = 1")
        change = "UPDATE results SET settings = ?, parameters = ? WHERE repetition = 0"
        connection.execute(change, (key(OLD), json.dumps(OLD)))
    connection.close()
    assert store.merge(table) == 2
    assert store.merge(old_store) == 0
    assert {row["settings"] for row in store.rows()} == {key(NOW), CELL.settings}


def test_two_rows_of_one_cell_with_keys_of_different_age_become_one(tmp_path):
    path = tmp_path / "old.db"
    moved = OLD | {"scoring": "dm2l_lab.paper._methods.quality"}
    with Store(path) as store:
        run = with_run(store)
        for parameters in (OLD, moved):
            store.add(replace(CELL, settings=key(parameters)), done(parameters=parameters, run=run))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    with Store(path) as store:
        assert list(store.states()) == [replace(CELL, settings=key(NOW))]


def test_settings_name_no_modules():
    search = GridSearchCV(MaskedRidgeClassifier(), {"alpha": [1.0]}, scoring=failed)
    parameters = json.loads(Method("search", search).settings)
    assert parameters["class"] == "GridSearchCV"
    assert parameters["estimator"]["class"] == "MaskedRidgeClassifier"
    assert parameters["scoring"] == "failed"
    assert rekeyed("0123456789ab", parameters) == ("0123456789ab", parameters)
