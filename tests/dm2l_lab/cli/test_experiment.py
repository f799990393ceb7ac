"""``dm2l experiment``, as a person at a terminal meets it."""

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import dm2l
from dm2l import DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier
from dm2l.datasets import make_missing_multilabel
from dm2l_lab import Method, Protocol, Store, _protocol, register
from dm2l_lab.cli._experiment import _duration, experiment

RIDGE = Method("ridge", MaskedRidgeClassifier(coupling=None))
STRONG = Method("strong", MaskedRidgeClassifier(alpha=100.0, coupling=None))
BROKEN = Method("broken", DM2LClassifier(lambda_d=-1.0))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with two data sets and two registered protocols."""
    for seed, name in enumerate(("one", "two")):
        X, Y = make_missing_multilabel(60, 8, 5, rho=1.0, random_state=seed)
        np.savez(tmp_path / f"{name}.npz", X=X, Y=Y)
    monkeypatch.setenv("DM2L_DATA", str(tmp_path))
    monkeypatch.setattr(_protocol, "_registered", {})
    options = {"datasets": ("one", "two"), "rates": (1.0, 0.4), "repetitions": 3}
    register(Protocol("tiny", methods=(RIDGE, STRONG), masks=("per_row", "uniform"), **options))
    register(Protocol("troubled", methods=(RIDGE, BROKEN), **options))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments, code=0):
    result = CliRunner().invoke(experiment, list(map(str, arguments)))
    assert result.exit_code == code, (result.output, result.exception)
    return result


def status(*arguments):
    return json.loads(call("status", *arguments, "--json").stdout)


def test_run_does_what_is_chosen_and_goes_on(folder):
    chosen = ("--datasets", "one", "--methods", "ridge,strong", "--rates", "0.4")
    result = call("run", "tiny", "--store", "s.db", *chosen, "--masks", "uniform")
    assert "6 of 6 cells done, 0 failed: s.db" in result.stdout
    result = call("run", "tiny", "--store", "s.db", "--repetitions", "1")
    assert "12 of 12 cells done" in result.stdout
    result = call("run", "tiny", "--store", "s.db", "--repetitions", "1:3", "--datasets", "one")
    assert "12 of 12 cells done" in result.stdout
    with Store("s.db", read_only=True) as store:
        assert len(store.rows()) == 24
        assert len({row["run"] for row in store.rows()}) == 3


def test_options_can_be_repeated(folder):
    result = call("run", "tiny", "--store", "s.db", "--datasets", "one", "--datasets", "two,",
                  "--methods", "ridge", "--rates", 1, "--repetitions", 1)  # fmt: skip
    assert "2 of 2 cells done" in result.stdout


def test_names_may_have_commas(folder):
    methods = [Method(name, RIDGE.estimator) for name in ("a", "a, b", "a, b,c", "d")]
    register(Protocol("commas", ("one",), methods, rates=(1.0,), repetitions=1))
    arguments = ("run", "commas", "--store", "s.db", "--methods")
    for given, found in (
        ("a, b", {"a, b"}),
        ("a,b,c", {"a, b,c"}),
        ("d,a, b, a", {"d", "a, b", "a"}),
        ("a, b,d ,", {"a, b", "d"}),
    ):
        assert f"{len(found)} of {len(found)} cells" in call(*arguments, given).stdout
        groups = status("--store", "s.db", "--methods", given)["commas"]["groups"]
        assert {group["method"] for group in groups} == found
    call(*arguments, "a, b", "--methods", "d")
    told = call(*arguments, "a, b, x", code=2).output
    assert "no methods x; it has a, 'a, b', 'a, b,c', d." in " ".join(told.split())
    assert "no methods b, c" in call(*arguments, "b,c", code=2).output


MODULE = """
from dm2l.baselines import MaskedRidgeClassifier
from dm2l_lab import Method, Protocol, register

class Doubled(MaskedRidgeClassifier):
    def decision_function(self, X):
        return 2 * super().decision_function(X)

methods = (Method("doubled", Doubled()), Method("ridge", MaskedRidgeClassifier()))
register(Protocol("doubling", ("one",), methods, rates=(0.4,), repetitions=2))
"""


@pytest.fixture
def fresh_imports(monkeypatch):
    """What a test imports is gone after it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in {"doubling", "trouble"} - before:
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("fresh_imports")
@pytest.mark.parametrize(
    ("module", "jobs"),
    [
        ("inner/doubling.py", 1),
        ("doubling", 1),
        # Processes get the path of this one, whichever of the two has changed it.
        pytest.param("inner/doubling.py", 2, marks=pytest.mark.slow),
    ],
)
def test_protocols_of_a_module_can_be_run_in_processes_too(folder, module, jobs):
    (folder / "inner").mkdir()
    (folder / "inner" / "doubling.py").write_text(MODULE)
    (folder / "doubling.py").write_text(MODULE)
    where = ("--store", "s.db", "--module", module)
    assert "4 of 4 cells done" in call("run", "doubling", *where, "--jobs", jobs).stdout
    assert status(*where)["doubling"]["pending"] == 0
    folders = {"inner/doubling.py": folder / "inner", "doubling": folder}
    assert Path(sys.modules["doubling"].__file__).parent == folders[module]


@pytest.mark.usefixtures("fresh_imports")
def test_report_knows_protocols_of_a_module(folder):
    from dm2l_lab.cli._report import report_results

    (folder / "doubling.py").write_text(MODULE)
    call("run", "doubling", "--store", "s.db", "--module", "doubling.py", "--repetitions", 1)
    _protocol._registered.clear()
    del sys.modules["doubling"]
    arguments = ["--store", "s.db", "-o", "r.html", "--module", "doubling.py"]
    result = CliRunner().invoke(report_results, arguments)
    assert result.exit_code == 0, result.output
    assert "doubling" in _protocol._registered


@pytest.mark.usefixtures("fresh_imports")
@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("absent.py", "There is no file absent.py"),
        ("absent.module", "There is no module absent.module"),
        ("json.py", "Give the file another one"),
    ],
)
def test_modules_that_cannot_be_imported_are_named(folder, module, message):
    (folder / "json.py").write_text(MODULE)
    told = call("run", "doubling", "--store", "s.db", "--module", module, code=2).output
    assert message in " ".join(told.replace("│", " ").split())


@pytest.mark.usefixtures("fresh_imports")
def test_module_that_lacks_another_says_so_itself(folder):
    (folder / "trouble.py").write_text("import absent_library")
    result = call("run", "x", "--store", "s.db", "--module", "trouble.py", code=1)
    assert isinstance(result.exception, ModuleNotFoundError)
    assert result.exception.name == "absent_library"


@pytest.mark.parametrize("device", ["cuda:99", "no such"])
def test_device_that_is_not_there_is_named(folder, device):
    pytest.importorskip("torch")
    told = call("run", "tiny", "--store", "s.db", "--device", device, code=2).output
    assert f"no device '{device}' here" in told


def test_damaged_store_is_said_in_a_line(folder):
    call("run", "tiny", "--store", "s.db")
    (folder / "s.db").write_bytes((folder / "s.db").read_bytes()[:20000])
    for command in (("run", "tiny"), ("status",), ("export", "-o", "t.csv")):
        assert "s.db is not a store of results, or it is damaged" in " ".join(
            call(*command, "--store", "s.db", code=2).output.split()
        )


def test_failed_cells_make_the_exit_code_1_and_are_shown_once(folder):
    result = call("run", "troubled", "--store", "s.db", code=1)
    assert "12 of 24 cells done, 12 failed" in result.stdout
    assert result.output.count("lambda_d must be") == 1
    assert "broken failed on one, none 1, repetition 0" in result.output
    assert "--retry-failed" in result.output
    assert call("run", "troubled", "--store", "s.db", code=1).output.count("lambda_d") == 0
    again = call("run", "troubled", "--store", "s.db", "--retry-failed", code=1)
    assert again.output.count("lambda_d must be") == 1
    call("run", "troubled", "--store", "s.db", "--methods", "ridge", code=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "tinny", "--store", "s.db"), "no protocol 'tinny'. Known: "),
        (("run", "tiny", "--store", "s.db", "--datasets", "three"), "no datasets three"),
        (("run", "tiny", "--store", "s.db", "--rates", "many"), "many"),
        (("run", "tiny", "--store", "s.db", "--repetitions", "5:2"), "5:2"),
        (
            ("run", "tiny", "--store", "s.db", "--repetitions", "9"),
            "no repetitions 3 to 8; it has 0 to 2",
        ),
        (("run", "tiny", "--store", "s.db", "--jobs", "0"), "--jobs"),
        (("run", "tiny", "--store", "one.npz"), "not a store of results"),
        (("run", "tiny", "--store", "absent/s.db"), "no folder"),
        (("run", "tiny"), "--store"),
        (("status", "--store", "absent.db"), "absent.db"),
        (("status", "--store", "one.npz"), "not a store"),
        (("export", "--store", "absent.db", "-o", "t.csv"), "absent.db"),
        (("merge", "all.db", "absent.db"), "absent.db"),
        (("merge", "all.db"), "OTHER"),
    ],
)
def test_wrong_arguments_end_with_code_2_and_say_which(folder, arguments, message):
    assert message in call(*arguments, code=2).output


def test_missing_data_is_said_in_a_line(folder, monkeypatch):
    (folder / "two.npz").unlink()
    assert "two.npz" in call("run", "tiny", "--store", "s.db", code=2).output
    monkeypatch.delenv("DM2L_DATA")
    assert "DM2L_DATA is not set" in call("run", "tiny", "--store", "s.db", code=2).output


def test_status_counts_cells_for_each_data_set_and_method(folder):
    call("run", "troubled", "--store", "s.db", "--repetitions", 1, "--datasets", "one", code=1)
    found = status("--store", "s.db")["troubled"]
    assert (found["done"], found["failed"], found["pending"]) == (2, 2, 20)
    assert found["remaining"] > 0
    groups = {(g["dataset"], g["method"]): g for g in found["groups"]}
    assert len(groups) == 4
    assert groups["one", "ridge"]["done"] == 2
    assert groups["one", "ridge"]["pending"] == 4
    assert groups["one", "broken"]["failed"] == 2
    assert groups["two", "broken"]["pending"] == 6
    (failure,) = found["failures"]
    assert failure["count"] == 2
    assert "lambda_d" in failure["error"]

    shown = call("status", "--store", "s.db").stdout
    counts = r"2 done, 2 failed, 20 pending; about \d+ s of work for one process\."
    assert re.search(counts, shown)
    assert "broken failed 2 times: ValueError: lambda_d" in shown
    chosen = status("--store", "s.db", "--repetitions", 1, "--datasets", "one")["troubled"]
    assert (chosen["done"], chosen["failed"], chosen["pending"]) == (2, 2, 0)
    assert chosen["remaining"] == 0.0


def test_status_names_a_protocol_that_has_not_begun(folder):
    call("run", "tiny", "--store", "s.db", "--repetitions", 1)
    found = status("troubled", "tiny", "--store", "s.db")
    assert list(found) == ["troubled", "tiny"]
    assert (found["troubled"]["done"], found["troubled"]["pending"]) == (0, 24)
    assert found["troubled"]["remaining"] is None
    assert "no protocol 'other'" in call("status", "other", "--store", "s.db", code=2).output
    with Store("empty.db"):
        pass
    assert status("--store", "empty.db") == {}
    assert "no results" in call("status", "--store", "empty.db").stdout


def test_status_of_a_protocol_from_elsewhere_counts_what_is_there(folder, monkeypatch):
    call("run", "troubled", "--store", "s.db", code=1)
    monkeypatch.setattr(_protocol, "_registered", {})
    found = status("--store", "s.db")["troubled"]
    assert (found["done"], found["failed"], found["pending"]) == (12, 12, None)
    assert {g["done"] + g["failed"] for g in found["groups"]} == {6}
    assert "what is pending is unknown" in call("status", "--store", "s.db").stdout


def test_export_and_merge_bring_results_together(folder):
    pytest.importorskip("pyarrow")
    call("run", "tiny", "--store", "a.db", "--datasets", "one")
    call("run", "tiny", "--store", "b.db", "--repetitions", 1)
    result = call("merge", "all.db", "a.db", "b.db")
    assert "18 new rows of a.db" in result.stdout
    assert "6 new rows of b.db" in result.stdout
    assert "24 rows: t.parquet" in call("export", "--store", "all.db", "-o", "t.parquet").stdout
    absent = ("export", "--store", "all.db", "-o", "t.csv", "--protocol", "troubled")
    told = " ".join(call(*absent, code=2).output.split())
    assert "all.db has no rows of protocol 'troubled'; it has 'tiny'." in told
    assert not (folder / "t.csv").exists()
    assert "24 new rows" in call("merge", "back.db", "t.parquet").stdout
    with Store("all.db", read_only=True) as store, Store("back.db", read_only=True) as back:
        assert store.rows() == back.rows()
    assert "t.txt" in call("export", "--store", "all.db", "-o", "t.txt", code=2).output
    (folder / "t.csv").write_text("a,b\n1,2\n")
    assert "lacks the columns" in call("merge", "all.db", "t.csv", code=2).output


MAKEFILE = Path(__file__).parents[3] / "Makefile"


@pytest.mark.skipif(
    not (shutil.which("make") and MAKEFILE.exists()), reason="needs make, and a checkout"
)
@pytest.mark.parametrize(
    ("codes", "calls", "good"),
    [
        ("0 0", ["run", "run", "report"], True),
        ("1 0", ["run", "run", "report"], False),
        ("0 1", ["run", "run", "report"], False),
        ("2 0", ["run"], False),
    ],
)
def test_failed_cells_keep_no_report_from_being_made(tmp_path, codes, calls, good):
    shutil.copy(MAKEFILE, tmp_path)
    folder = tmp_path / ".venv" / "test"
    (folder / "bin").mkdir(parents=True)
    stand_in = folder / "bin" / "dm2l"
    stand_in.write_text(
        "#!/bin/bash\n"
        'echo "$2" >> calls\n'
        "[[ $2 == report ]] && exit 0\n"
        f"codes=({codes}); exit ${{codes[$(wc -l < calls) - 1]}}\n"
    )
    stand_in.chmod(0o755)
    (tmp_path / "requirements").mkdir()
    for name in ("requirements/test.txt", "pyproject.toml"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    (folder / f".ready-{platform.python_version()}").touch()
    command = ["make", "reproduce-quick", f"PYTHON={sys.executable}"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (result.returncode == 0) == good, result.stderr
    assert (tmp_path / "calls").read_text().split() == calls


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "an unknown time"),
        (0.2, "about 0 s"),
        (99.0, "about 99 s"),
        (150.0, "about 2 min"),
        (90000.0, "about 25.0 h"),
    ],
)
def test_durations_are_round(seconds, text):
    assert _duration(seconds) == text


PROGRAM = """
import signal
import time
from dm2l.baselines import MaskedRidgeClassifier
from dm2l_lab.cli._experiment import experiment
from dm2l_lab import Method, Protocol, register

class Slow(MaskedRidgeClassifier):
    def fit(self, X, Y, label_mask=None):
        time.sleep(0.1)
        return super().fit(X, Y, label_mask)

if __name__ == "__main__":
    # What a shell starts in the background ignores the signal from the start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    register(Protocol("slow", ("one",), (Method("slow", Slow()),), repetitions=200))
    experiment()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_interrupt_says_what_is_stored_and_ends_with_code_130(folder, jobs):
    (folder / "program.py").write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, "program.py", "run", "slow", "--store", "s.db", "--jobs", jobs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(dm2l.__file__).parents[1])},
    )
    while process.poll() is None and stored_rows() < 3:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal sends, to the workers as well
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    count = stored_rows()
    assert 3 <= count < 600
    expected = f"{count} cells are done, 0 failed, {600 - count} are pending in s.db"
    assert expected in told
    if jobs == "1":  # a worker that has not come up yet may have its own last words
        assert "Traceback" not in told


def stored_rows():
    try:
        with Store("s.db", read_only=True) as store:
            return len(store.states())
    except (FileNotFoundError, ValueError):
        return 0
