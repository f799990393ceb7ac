"""The command line, as a person at a terminal meets it."""

import json
import os
import signal
import subprocess
import sys
import time

import click
import pytest
from click.testing import CliRunner

from dm2l import __version__
from dm2l.cli._commands import COMMANDS, cli
from terminal import command_runner


def as_json(*arguments):
    """A command whose progress, on standard error, stays out of its output."""
    runner = command_runner()
    return runner.invoke(cli, [*arguments, "--json"])


@pytest.fixture(scope="module")
def demo():
    result = as_json("demo", "--seed", "0")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_demo_compares_four_methods_on_mostly_hidden_labels(demo):
    methods = [row["method"] for row in demo["rows"]]
    assert methods == ["ridge, missing = no", "masked ridge", "DM2L linear", "DM2L kernel"]
    total = demo["n_train"] * demo["n_labels"]
    assert demo["n_hidden"] == total - -(-total * 3 // 10)


def test_demo_shows_that_holes_are_not_negatives(demo):
    by_name = {row["method"]: row for row in demo["rows"]}
    naive, masked = by_name["ridge, missing = no"], by_name["masked ridge"]
    kernel = by_name["DM2L kernel"]
    assert naive["hidden_accuracy"] < masked["hidden_accuracy"] - 0.1
    assert kernel["ranking_loss"] < masked["ranking_loss"]
    assert kernel["label_ranking_average_precision"] > masked["label_ranking_average_precision"]


def test_demo_completes_rows_in_words_without_touching_what_was_known(demo):
    for item in demo["completed"]:
        known = {name.removeprefix("not ") for name in item["known"]}
        filled = {*item["right"], *item["wrong"], *item["missed"]}
        assert not known & filled


def test_demo_prints_a_table_for_people():
    result = CliRunner().invoke(cli, ["demo", "--rho", "0.9"])
    assert result.exit_code == 0
    assert "masked ridge" in result.output
    assert "right:" in result.output


def test_demo_without_hidden_labels_has_null_for_completion():
    result = as_json("demo", "--rho", "1.0")
    assert json.loads(result.stdout)["rows"][0]["hidden_auc"] is None


def test_bad_rho_is_refused_with_its_range():
    result = CliRunner().invoke(cli, ["demo", "--rho", "3"])
    assert result.exit_code == 2
    assert "3" in result.output
    assert "0.05" in result.output


def test_module_runs_and_knows_its_version():
    command = [sys.executable, "-m", "dm2l", "--version"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert __version__ in found.stdout


def test_missing_extra_is_named(monkeypatch):
    import dm2l.cli

    monkeypatch.setitem(sys.modules, "click", None)
    monkeypatch.delitem(sys.modules, "dm2l.cli._commands", raising=False)
    with pytest.raises(SystemExit, match=r"dm2l\[cli\]"):
        dm2l.cli.main()


# -- commands are loaded when they are called ---------------------------------------------------

# In one process, since loading the library takes more than a second.
LOADED = """
import sys
from click.testing import CliRunner
import dm2l.cli
from dm2l.cli._commands import cli
for line in ("--help", "--version", "fit --help"):
    result = CliRunner().invoke(cli, line.split())
    assert result.exit_code == 0, result.output
    print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_a_command_loads_no_other():
    command = [sys.executable, "-c", LOADED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = [set(line.split()) for line in done.stdout.splitlines()]
    after_help, after_version, after_help_of_fit = loaded
    assert not {"numpy", "scipy", "sklearn", "pandas", "rich"} & (after_help | after_version)
    assert "sklearn" in after_help_of_fit
    assert "matplotlib" not in after_help_of_fit


def test_what_a_command_lacks_is_named():
    code = "import sys, dm2l.cli; sys.modules['rich'] = None; dm2l.cli.main()"
    done = subprocess.run([sys.executable, "-c", code, "demo"], capture_output=True, text=True)
    assert done.returncode
    assert "needs rich. Install it with: pip install 'dm2l[cli]'" in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_a_command_what_it_says_of_itself(name):
    command = cli.get_command(None, name)
    assert command.name == name
    assert COMMANDS[name] == command.get_short_help_str(10_000)


def test_the_list_looks_as_if_the_commands_were_loaded():
    eager = click.Group("cli", {name: cli.get_command(None, name) for name in COMMANDS})
    eager.list_commands = lambda ctx: list(COMMANDS)
    shown, expected = (
        CliRunner().invoke(group, ["--help"]).output.partition("Commands:")[2]
        for group in (cli, eager)
    )
    assert shown == expected
    assert "  inspect " in shown


def test_every_summary_fits_on_a_terminal_of_80_columns():
    shown = CliRunner().invoke(cli, ["--help"]).output.partition("Commands:")[2].splitlines()[1:]
    assert "..." not in "".join(shown)
    assert len(shown) == len(COMMANDS)
    assert all(line.endswith(".") for line in shown)


def test_an_unknown_command_is_refused():
    result = CliRunner().invoke(cli, ["bench"])
    assert result.exit_code == 2
    assert "No such command 'bench'" in result.output


BUSY = """
import time

import dm2l.cli._commands
from dm2l.cli import main
from joblib import Parallel, delayed


def work():
    Parallel(n_jobs=2)(delayed(time.sleep)(0.0) for _ in range(2))
    print("ready", flush=True)
    Parallel(n_jobs=2)(delayed(time.sleep)(300.0) for _ in range(2))


dm2l.cli._commands.cli = work
main()
"""


@pytest.mark.skipif(os.name != "posix", reason="process groups are POSIX's")
def test_a_command_that_is_ended_leaves_no_process_behind():
    command = [sys.executable, "-c", BUSY]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    for _ in range(100):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    pytest.fail("processes are left")
