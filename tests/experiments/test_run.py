"""Every cell is run once, however often a run ends in between."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dm2l.datasets import make_missing_multilabel
from experiments import resumable
from experiments.__main__ import main
from experiments.cell import _load_from, run_cell
from experiments.results import read, write
from experiments.run import run
from small_experiments import BROKEN, RIDGE, archive, lasting, tiny

ROOT = Path(__file__).parents[2]


class InThisProcess(ThreadPoolExecutor):
    """Instead of a pool of processes, which take seconds to begin."""

    def __init__(self, jobs, mp_context, initializer):
        super().__init__(1)


@pytest.fixture
def in_this_process(monkeypatch):
    monkeypatch.setattr(resumable, "ProcessPoolExecutor", InThisProcess)
    monkeypatch.setattr(resumable, "one_thread", lambda: None)


def test_a_run_stores_every_cell_once_and_runs_only_what_is_missing(data, tmp_path, capfd, request):
    protocol, out = tiny(RIDGE), tmp_path / "rows.jsonl"
    run(protocol, out, repetitions=1, jobs=2)
    first = out.read_text()
    assert len(resumable.stored(out)) == 4
    request.getfixturevalue("in_this_process")
    run(protocol, out)
    assert "4 of 4 cells to compute" in capfd.readouterr().out
    assert out.read_text().startswith(first)
    run(protocol, out)
    assert "All cells of tiny are there." in capfd.readouterr().out
    rows = resumable.stored(out)
    assert len(rows) == 8
    expected = [run_cell(protocol, cell) | cell._asdict() for cell in protocol.cells()]
    order = ("dataset", "rate", "repetition")
    found, alone = (
        sorted(some, key=lambda row: [row[name] for name in order]) for some in (rows, expected)
    )
    left_out = ("versions", "machine", "warnings")
    assert lasting(found, *left_out) == lasting(alone, *left_out)
    assert {row["versions"]["numpy"] for row in rows} == {np.__version__}


def test_cells_of_other_files_are_not_run_again(data, tmp_path, capfd, in_this_process):
    protocol, stored, out = tiny(RIDGE), tmp_path / "stored.parquet", tmp_path / "rows.jsonl"
    run(protocol, tmp_path / "first.jsonl", repetitions=1)
    write(read(tmp_path / "first.jsonl"), stored)
    capfd.readouterr()
    run(protocol, out, have=[stored])
    assert "4 of 4 cells to compute" in capfd.readouterr().out
    assert {row["repetition"] for row in resumable.stored(out)} == {1}
    assert len(read(stored, out)) == 8


def test_failures_are_named_and_tried_again(data, tmp_path, capfd, in_this_process):
    protocol, out = tiny(RIDGE, BROKEN, datasets=("one",), rates=(1.0,)), tmp_path / "rows.jsonl"
    for cells in ("4 of 4", "2 of 2"):
        with pytest.raises(resumable.FailedCells, match="2 cells failed"):
            run(protocol, out)
        said = capfd.readouterr().out
        assert f"{cells} cells to compute" in said
        assert "'method': 'broken'" in said
        assert "lambda_d" in said
        assert {row["method"] for row in resumable.stored(out)} == {"ridge"}


def test_a_data_set_that_is_not_there_stops_the_run_before_any_fit(data, tmp_path):
    out = tmp_path / "rows.jsonl"
    with pytest.raises((ValueError, OSError), match="absent"):
        run(tiny(RIDGE, datasets=("one", "absent")), out)
    assert not out.exists()


def test_results_of_another_split_other_settings_or_other_data_are_not_mixed(
    data, tmp_path, in_this_process
):
    protocol, out = tiny(RIDGE, datasets=("one",)), tmp_path / "rows.jsonl"
    run(protocol, out, repetitions=1)
    with pytest.raises(ValueError, match=r"another split: test_size=0\.4 instead of .*=0\.5"):
        run(replace(protocol, test_size=0.5), out)
    other = replace(RIDGE, options={"alpha": 2.0, "coupling": None})
    with pytest.raises(ValueError, match=r"another settings of 'ridge': .*1\.0.*instead of.*2\.0"):
        run(replace(protocol, methods=(other,)), out)
    archive(data, "one", 5)
    _load_from.cache_clear()  # as in another process
    with pytest.raises(ValueError, match="another contents of one"):
        run(protocol, out)
    assert len(resumable.stored(out)) == 2


# -- kills --------------------------------------------------------------------------------------


def children_of(pid):
    """Processes that this one started, where the system shows them."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return path.read_text().split() if path.exists() else []


def ended(pids):
    end = time.monotonic() + 60
    while alive := [pid for pid in pids if Path("/proc", pid).exists()]:
        if time.monotonic() > end:
            return not alive
        time.sleep(0.05)
    return True


PROGRAM = """
import sys
from pathlib import Path

from experiments.run import run
from small_experiments import tiny

if __name__ == "__main__":
    run(tiny(repetitions=5), Path(sys.argv[1]), jobs=int(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_kill_at_any_moment_and_restart_end_with_the_same_table(data, tmp_path, in_this_process):
    program, out = tmp_path / "program.py", tmp_path / "killed.jsonl"
    program.write_text(PROGRAM)
    paths = os.pathsep.join([str(ROOT), *sys.path])
    options = {"env": os.environ | {"PYTHONPATH": paths}, "stdout": subprocess.DEVNULL}
    rng, counts = random.Random(1), [0]
    for more, jobs in ((1, "1"), (9, "2")):
        command = [sys.executable, str(program), str(out), jobs]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, **options)
        while len(resumable.stored(out)) < counts[-1] + more and process.poll() is None:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.05))
        workers = children_of(process.pid)
        process.kill()
        assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"
        counts.append(len(resumable.stored(out)))
        assert ended(workers), "workers are left"
    assert counts == sorted(counts)
    assert 0 < counts[1] <= counts[-1] < 40

    protocol = tiny(repetitions=5)
    run(protocol, out)
    found = {
        (r["dataset"], r["rate"], r["repetition"], r["method"]): r for r in resumable.stored(out)
    }
    assert len(found) == len(resumable.stored(out)) == len(list(protocol.cells()))
    for cell in protocol.cells(repetitions=1):
        row = found[cell.dataset, cell.rate, cell.repetition, cell.method]
        assert row["scores"] == run_cell(protocol, cell)["scores"]


@pytest.mark.parametrize("rest", ['{"a": 2, "b": {"c": 3}', '{"a": 2, "b": {"c": 3}}\n{"a"', ""])
def test_a_line_that_was_cut_off_is_left_out_and_the_next_one_is_whole(tmp_path, rest):
    out = tmp_path / "rows.jsonl"
    out.write_text('{"a": 1}\n' + rest)
    whole = [json.loads(line) for line in out.read_text().splitlines() if line.endswith("}}")]
    assert resumable.stored(out) == [{"a": 1}, *(whole if "\n" in rest else [])]
    resumable._end_last_line(out)
    with out.open("a") as file:
        file.write('{"a": 3}\n')
    assert resumable.stored(out)[-1] == {"a": 3}


# -- the command line ---------------------------------------------------------------------------


@pytest.fixture
def experiments(monkeypatch):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["experiments", *map(str, arguments)])
        main()

    return call


def test_commands_run_report_and_export(data, tmp_path, capfd, in_this_process, experiments):
    pytest.importorskip("matplotlib", reason="figures need the extra plot")
    X, Y = make_missing_multilabel(60, 8, 5, rho=1.0, random_state=0)
    archive(data, "Image", X=X, Y=Y)
    out = tmp_path / "rows.jsonl"
    chosen = ["--datasets", "Image", "--methods", "LEML", "DM2L-Lo", "--repetitions", 2]
    experiments("run", "as_published_quick", "-o", out, *chosen)
    assert len(resumable.stored(out)) == 12
    capfd.readouterr()
    experiments("report", out, "-o", tmp_path / "report")
    page = tmp_path / "report" / "as_published_quick-per_row.md"
    assert capfd.readouterr().out.split() == [str(page)]
    assert "## Ranking loss (Rkl)" in page.read_text()
    experiments("export", out, "-o", tmp_path / "rows.parquet")
    assert capfd.readouterr().out.startswith("12 rows")
    assert len(read(tmp_path / "rows.parquet")) == 12


def test_mistakes_end_with_a_sentence(tmp_path, experiments):
    with pytest.raises(SystemExit, match=r"run: Protocol 'as_published_quick' has no methods"):
        experiments("run", "as_published_quick", "-o", tmp_path / "x", "--methods", "other")
    with pytest.raises(SystemExit, match=r"report: .*absent\.parquet"):
        experiments("report", tmp_path / "absent.parquet", "-o", tmp_path)
