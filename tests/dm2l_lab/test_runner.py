"""Protocols run each cell once, however often they are cut."""

import contextlib
import os
import random
import runpy
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from dm2l.baselines import MaskedRidgeClassifier
from dm2l_lab import (
    Method,
    Store,
    get_protocol,
    protocols,
    register,
    run,
    run_cell,
    status,
)
from dm2l_lab import _protocol as protocol_module
from dm2l_lab.cli._experiment import LOCAL
from fatal import Fatal
from small_experiments import BROKEN, RIDGE, SEARCH, Spy, archive, lasting, tiny


def test_run_stores_every_cell_once_and_runs_only_what_is_missing(data, store, spied):
    protocol = tiny(Method("spy", Spy()), datasets=("one", "two"))
    part = run(protocol, store, datasets=["two"], rates=[0.4])
    assert (part.done, part.failed, part.total, part.remaining) == (2, 0, 2, 0.0)
    steps = []
    whole = run(protocol, store, progress=steps.append)
    assert (whole.done, whole.total, len(spied)) == (8, 8, 8)
    assert [step.done for step in steps] == [2, 3, 4, 5, 6, 7, 8]
    assert steps[0].cell is None
    assert {step.cell for step in steps[1:]} | set(store.states()) == set(protocol.cells())
    assert run(protocol, store) == replace(steps[0], done=8, remaining=0.0)
    assert len(spied) == 8
    assert len({row["run"] for row in store.rows()}) == 2
    versions, machine = store.rows()[0]["versions"], store.rows()[0]["machine"]
    assert versions["numpy"] == np.__version__
    assert set(versions) == {"python", "dm2l", "numpy", "scipy", "scikit-learn", "torch"}
    assert machine["cpus"] == os.cpu_count()


class Moody(MaskedRidgeClassifier):
    error: BaseException | None = ValueError("not today")

    def fit(self, X, Y, label_mask=None):
        if self.error is not None:
            raise self.error
        return super().fit(X, Y, label_mask)


def test_failures_are_stored_stop_nothing_and_can_be_tried_again(data, store, monkeypatch):
    protocol = tiny(Method("moody", Moody()), RIDGE, datasets=("one",))
    steps = []
    end = run(protocol, store, progress=steps.append)
    assert (end.done, end.failed, end.total) == (4, 4, 8)
    row = store.rows(methods=["moody"])[0]
    assert row["status"] == "failed"
    assert row["error"] == "ValueError: not today"
    assert row["metrics"] is None
    assert row["n_train"] == 36
    assert steps[1].error == row["error"]

    assert run(protocol, store).failed == 4  # left alone
    with pytest.raises(ValueError, match="not today"):
        run_cell(protocol, next(protocol.cells()))
    monkeypatch.setattr(Moody, "error", MemoryError("too big"))
    assert run(protocol, store, retry_failed=True).failed == 4
    assert store.rows(methods=["moody"])[0]["error"] == "MemoryError: too big"
    monkeypatch.setattr(Moody, "error", SystemExit(3))
    assert run(protocol, store, retry_failed=True).failed == 4
    assert store.rows(methods=["moody"])[0]["error"] == "SystemExit: 3"
    monkeypatch.setattr(Moody, "error", None)
    end = run(protocol, store, retry_failed=True)
    assert (end.done, end.failed) == (8, 0)
    assert set(store.states().values()) == {"done"}


def test_interrupt_leaves_what_was_stored_and_a_resumed_run_ends_the_same(data, store, tmp_path):
    protocol = tiny()

    def stop(step):
        if step.done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(protocol, store, progress=stop)
    assert len(store.rows()) == 5
    run(protocol, store)
    with Store(tmp_path / "undisturbed.db") as other:
        run(protocol, other)
        assert lasting(store.rows()) == lasting(other.rows())


@pytest.mark.slow
def test_processes_give_the_rows_of_one(data, store, tmp_path):
    elsewhere = replace(BROKEN, sets=("two",))
    protocol = tiny(RIDGE, SEARCH, elsewhere, masks=("per_row", "uniform"))
    end = run(protocol, store, n_jobs=2)
    assert (end.done, end.failed) == (24, 6)
    with Store(tmp_path / "alone.db") as other:
        run(protocol, other)
        assert lasting(store.rows()) == lasting(other.rows())


def test_data_set_that_is_not_there_stops_the_run_before_any_fit(data, store, spied):
    protocol = tiny(Method("spy", Spy()), datasets=("one", "absent"))
    with pytest.raises(FileNotFoundError, match=r"absent\.npz"):
        run(protocol, store)
    assert spied == []
    assert run(protocol, store, datasets=["one"]).done == 4


def test_results_of_another_split_or_of_other_data_are_not_mixed(data, store, monkeypatch):
    run(tiny(RIDGE), store, repetitions=1)
    with pytest.raises(ValueError, match=r"test_size=0\.5"):
        run(tiny(RIDGE, test_size=0.5), store)
    (data / "new").mkdir()
    archive(data / "new", "one", 99)
    archive(data / "new", "two", 2, n=70)
    monkeypatch.setenv("DM2L_DATA", str(data / "new"))
    with pytest.raises(ValueError, match="contents of data set 'one'"):
        run(tiny(RIDGE), store)
    assert run(tiny(RIDGE), store, datasets=["two"]).done == 4


def test_other_settings_are_other_cells(data, store):
    protocol = tiny(RIDGE, datasets=("one",))
    run(protocol, store)
    changed = tiny(replace(RIDGE, estimator=MaskedRidgeClassifier(alpha=3.0)), datasets=("one",))
    assert status(changed, store) == {
        "done": 0,
        "failed": 0,
        "pending": 4,
        "outdated": 4,
        "remaining": pytest.approx(sum(row["seconds"] for row in store.rows())),
        "groups": [{"dataset": "one", "method": "ridge", "done": 0, "failed": 0, "pending": 4}],
    }
    assert run(changed, store).done == 4
    assert len(store.rows()) == 8
    assert len(store.rows(changed)) == 4


def test_remaining_time_is_judged_by_the_same_method_on_the_same_data_or_on_other(store):
    protocol = tiny(RIDGE, SEARCH, repetitions=3)
    for cell in protocol.cells(repetitions=1):
        seconds = {("one", "ridge"): 1.0, ("one", "search"): 10.0, ("two", "ridge"): 2.0}
        if (cell.dataset, cell.method) in seconds:
            spent = seconds[cell.dataset, cell.method]
            store.add(cell, {"status": "done", "run": "r", "seconds": spent})
    # Two more repetitions of two rates, and all three of "search" on "two", as long as on "one".
    assert status(protocol, store)["remaining"] == pytest.approx(
        4 * 1.0 + 4 * 10.0 + 4 * 2.0 + 6 * 10.0
    )
    assert status(protocol, store, datasets=["one"])["remaining"] == pytest.approx(44.0)


def test_protocols_are_found_by_name(monkeypatch):
    monkeypatch.setattr(protocol_module, "_registered", {})
    with pytest.raises(ValueError, match="no protocol 'tiny'"):
        get_protocol("tiny")
    register(tiny())
    assert get_protocol("tiny") is protocols()["tiny"]
    register(tiny(RIDGE))
    assert len(get_protocol("tiny").methods) == 1


# -- killed -------------------------------------------------------------------------------------

# The protocol as a program of its own, so that it can be killed as one.
PROGRAM = """
from dm2l import DM2LClassifierCV
from dm2l.baselines import MaskedRidgeClassifier
from dm2l_lab import Method, Protocol, register

search = DM2LClassifierCV(lambda_ds=[0.0, 1.0], alphas=[0.1, 1.0], cv=2, coupling=None)
PROTOCOL = Protocol(
    "tiny",
    ("one", "two"),
    (Method("ridge", MaskedRidgeClassifier(coupling=None)), Method("search", search)),
    rates=(1.0, 0.4),
    masks=("per_row", "uniform"),
    repetitions=3,
)
register(PROTOCOL)
if __name__ == "__main__":
    from dm2l_lab.cli._experiment import experiment

    experiment()
"""


def stored(path):
    """How many rows another process has stored so far."""
    try:
        database = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    except sqlite3.OperationalError:
        return 0
    try:
        return database.execute("SELECT count(*) FROM results").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
    finally:
        database.close()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
@pytest.mark.parametrize("jobs", [1, 2])
def test_kill_at_any_moment_and_restart_end_with_the_same_table(data, tmp_path, monkeypatch, jobs):
    monkeypatch.setattr(protocol_module, "_registered", {})  # the program registers one
    program, path = tmp_path / "program.py", tmp_path / "killed.db"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), "run", "tiny", "--store", str(path)]
    command += ["--jobs", str(jobs)]
    rng, counts = random.Random(jobs), [0]
    for more in (1, 9) if jobs == 1 else (8,):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while stored(path) < counts[-1] + more and process.poll() is None:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"
        counts.append(stored(path))
    assert counts == sorted(counts)
    assert 0 < counts[1] <= counts[-1] < 36

    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "36 of 36 cells done" in finished.stdout
    protocol = runpy.run_path(str(program))["PROTOCOL"]
    with Store(path, read_only=True) as killed, Store(tmp_path / "undisturbed.db") as undisturbed:
        run(protocol, undisturbed)
        assert lasting(killed.rows(), "machine") == lasting(undisturbed.rows(), "machine")
        assert set(killed.states()) == set(protocol.cells())
        assert len({row["run"] for row in killed.rows()}) == len(counts)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_cells_that_end_their_process_fail_and_stop_no_other(data, store):
    settings = {"datasets": ("one",), "rates": (0.4,), "repetitions": 1}
    protocol = tiny(Method("fatal", Fatal()), RIDGE, **settings)
    steps = []
    end = run(protocol, store, n_jobs=2, progress=steps.append)
    assert (end.done, end.failed, end.total) == (1, 1, 2)
    assert len(steps) == 3
    assert set(store.states()) == set(protocol.cells())
    for row in store.rows():
        assert row["status"] == ("failed" if row["method"] == "fatal" else "done")
        assert row["n_train"] == 36
    (error,) = {row["error"] for row in store.rows(status="failed")}
    assert "SIGKILL" in error
    assert run(protocol, store, n_jobs=2).failed == 1
    # The last one, too, has a process of its own.
    again = run(protocol, store, methods=["fatal"], n_jobs=2, retry_failed=True)
    assert again.failed == 1


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_process_that_is_killed_once_costs_nothing_but_time(data, store, tmp_path):
    unlucky = Method("unlucky", Fatal(file=str(tmp_path / "killed")))
    protocol = tiny(unlucky, RIDGE, datasets=("one",))
    end = run(protocol, store, n_jobs=2)
    assert (end.done, end.failed) == (8, 0)
    with Store(tmp_path / "alone.db") as other:
        run(protocol, other)
        assert lasting(store.rows()) == lasting(other.rows())


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_processes_killed_from_outside_lose_and_repeat_no_row(data, store):
    psutil = pytest.importorskip("psutil")
    before = set(psutil.Process().children(recursive=True))
    killed = []

    def kill(step):
        for process in set(psutil.Process().children(recursive=True)) - before:
            # Any of them may end, or be a zombie, by now.
            with contextlib.suppress(psutil.NoSuchProcess):
                if len(killed) < 2 and "dm2l_lab._processes" in " ".join(process.cmdline()):
                    process.kill()
                    killed.append(process)

    end = run(tiny(), store, n_jobs=2, progress=kill)
    assert len(killed) == 2
    assert (end.done, end.failed) == (16, 0)
    assert set(store.states()) == set(tiny().cells())


BEATING = """
import pathlib, sys, time
from dm2l.baselines import MaskedRidgeClassifier
from dm2l_lab import Method, Protocol, Store, run

class Beating(MaskedRidgeClassifier):
    def fit(self, X, Y, label_mask=None):
        for beat in range(600):
            pathlib.Path(sys.argv[1]).write_text(str(beat))
            time.sleep(0.1)

if __name__ == "__main__":
    protocol = Protocol("tiny", ("one",), (Method("beating", Beating()),), repetitions=2)
    with Store(":memory:") as store:
        run(protocol, store, n_jobs=2)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_workers_end_with_the_process_that_asked_for_them(data, tmp_path):
    program, beats = tmp_path / "program.py", tmp_path / "beats"
    program.write_text(BEATING.replace("sys.argv[1]", repr(str(beats))))
    process = subprocess.Popen([sys.executable, str(program)], stderr=subprocess.DEVNULL)
    while not beats.exists() and process.poll() is None:
        time.sleep(0.05)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    still_for = 0.0
    last, end = "", time.monotonic() + 30
    while still_for < 2.0 and time.monotonic() < end:
        time.sleep(0.5)
        now = beats.read_text()
        still_for = still_for + 0.5 if now == last else 0.0
        last = now
    assert still_for >= 2.0


@pytest.mark.slow
def test_a_cluster_gives_the_rows_of_one_process(data, store, tmp_path):
    distributed = pytest.importorskip("distributed")
    protocol = tiny(RIDGE, SEARCH, datasets=("one",))
    with distributed.Client(**LOCAL, n_workers=2):
        end = run(protocol, store, backend="dask")
    assert end.failed == 0
    with Store(tmp_path / "alone.db") as other:
        run(protocol, other)
        assert lasting(store.rows()) == lasting(other.rows())


def test_unknown_backends_and_clusters_that_are_not_there_are_refused(data, store):
    with pytest.raises(ValueError, match="backend must be 'processes' or 'dask', got 'mpi'"):
        run(tiny(RIDGE), store, backend="mpi")
    pytest.importorskip("distributed", reason="dask is an extra: pip install 'dm2l[scale]'")
    with pytest.raises(ValueError, match="client"):
        run(tiny(RIDGE), store, backend="dask")
    distributed = pytest.importorskip("distributed")
    threads = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "protocol": "tcp"}
    with (
        distributed.Client(**(LOCAL | threads)),
        pytest.raises(ValueError, match="one thread each"),
    ):
        run(tiny(RIDGE), store, backend="dask")


def test_a_cluster_on_this_machine_listens_to_nobody_else():
    distributed = pytest.importorskip("distributed")
    with distributed.Client(**LOCAL, n_workers=1, processes=False, protocol="tcp") as client:
        scheduler = client.cluster.scheduler
        servers = [*scheduler.http_server._sockets.values()]
        servers += [listener for worker in client.cluster.workers.values()
                    for listener in worker.http_server._sockets.values()]  # fmt: skip
        assert {server.getsockname()[0] for server in servers} == {"127.0.0.1"}
        addresses = [scheduler.address, *scheduler.workers]
        assert all(address.startswith("tcp://127.0.0.1:") for address in addresses)
