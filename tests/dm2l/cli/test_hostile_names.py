"""Names of columns that talk to the terminal, to rich or to a spreadsheet."""

from __future__ import annotations

import csv
import json
import re

import pytest

from dm2l._utils.files import printable
from dm2l.cli._commands import cli
from terminal import command_runner

ESCAPE = "\x1b[2J\x1b]0;title\x07"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2066]")
LABEL = f"t_{ESCAPE}=1\u202e\x9b31m\U000e0001\nline 2\ttab"


def run(*arguments):
    runner = command_runner()
    result = runner.invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == 0, (result.stderr, result.exception)
    assert not CONTROL.search(result.stdout + result.stderr)
    return result


def refused(*arguments):
    """The usage error of a command, on which no control character shows."""
    result = command_runner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == 2, (result.stderr, result.exception)
    assert not CONTROL.search(result.stdout + result.stderr)
    return result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table and its model, with names that nobody should print."""
    folder = tmp_path_factory.mktemp("names")
    with (folder / "in.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([f"mass{ESCAPE}", "[bold]phase", "who", LABEL, '=cmd("t")'])
        for i in range(60):
            answer = "" if i % 3 == 0 else i % 2
            writer.writerow([i % 7, "ab"[i % 2], ("=1+1", "-5")[i % 2], answer, 1 - i % 2])
    fixed = ("--kernel", "linear", "--lambda-d", "0.1", "--alpha", "1", "--folds", "2")
    labels = ("--labels", LABEL, "--labels", '=cmd("t")')
    run("fit", folder / "in.csv", *labels, *fixed, "--drop", "who", "-o", folder / "m.dm2l")
    return folder


@pytest.mark.parametrize("as_json", [(), ("--json",)])
@pytest.mark.parametrize(
    "command", ["inspect", "explain", "suggest", "complete", "audit", "evaluate"]
)
def test_names_are_printed_without_control_characters(command, as_json, folder, tmp_path):
    table, model, out = folder / "in.csv", folder / "m.dm2l", tmp_path / "out.csv"
    fixed = ("--kernel", "linear", "--lambda-d", "0.1", "--alpha", "1", "--folds", "2")
    labels = ("--labels", LABEL, "--labels", '=cmd("t")')
    arguments = {
        "inspect": (table, *labels),
        "explain": (model,),
        "suggest": (model, table, "-o", out),
        "complete": (model, table, "-o", out),
        "audit": (model, table, "--top", 100),
        "evaluate": (table, *labels, *fixed, "--repetitions", "2"),
    }[command]
    result = run(command, *arguments, *as_json)
    if as_json:
        json.loads(result.stdout)
    else:
        assert "\nline 2" not in result.stdout + result.stderr
        assert "\t" not in result.stdout + result.stderr
        assert "\\u001b[2J" in result.stdout.replace("\n", "")


def test_errors_do_not_carry_control_characters(folder, tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    runner = command_runner()
    arguments = ["predict", str(folder / "m.dm2l"), str(path), "-o", str(tmp_path / "o.csv")]
    result = runner.invoke(cli, arguments)
    assert result.exit_code == 1
    assert not CONTROL.search(result.stderr)


def test_json_stays_what_it_was():
    assert json.loads(printable(json.dumps({LABEL: 1}, ensure_ascii=False))) == {LABEL: 1}
    assert printable("plain ä ✓ text") == "plain ä ✓ text"
    assert printable("a\nb\tc") == r"a\nb\tc"


def test_safe_csv_has_no_formulas_in_what_is_generated(folder, tmp_path):
    table, model, out = folder / "in.csv", folder / "m.dm2l", tmp_path / "out.csv"
    run("predict", model, table, "-o", out, "--keep", "who")
    with out.open(newline="", encoding="utf-8") as file:
        plain = list(csv.reader(file))
    assert '=cmd("t")' in plain[0]
    run("predict", model, table, "-o", out, "--keep", "who", "--safe-csv", "--force")
    with out.open(newline="", encoding="utf-8") as file:
        safe = list(csv.reader(file))
    assert '\'=cmd("t")' in safe[0]
    assert not any(cell.startswith("=") for row in safe for cell in row)
    assert {row[1] for row in safe[1:]} == {"'=1+1", "-5"}
    run("suggest", model, table, "-o", out, "--safe-csv", "--force")
    assert not any(line.split(",")[1].startswith("=") for line in out.read_text().splitlines())
    options = ("-o", out, "--safe-csv", "--force", "--details", tmp_path / "details.tsv")
    run("complete", model, table, *options[:-2])
    with out.open(newline="", encoding="utf-8") as file:
        completed = list(csv.reader(file))
    assert '\'=cmd("t")' in completed[0]
    assert not any(cell.startswith("=") for row in completed for cell in row)
    run("complete", model, table, *options)
    assert "\t=" not in (tmp_path / "details.tsv").read_text()


NAME = "a\x1b[2J\x7f\u202eb"


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", f"{NAME}.csv"),  # which is not there
        ("fit", "in.csv", "--labels", f"{NAME}*", "-o", "m.dm2l"),
        ("fit", "in.csv", "--labels", "t*", "--decimal", NAME, "-o", "n.dm2l"),
        ("fit", "in.csv", "--labels", "t*", "--drop", NAME, "-o", "n.dm2l"),
        ("fit", "in.csv", "--labels", "t*", "-o", f"{NAME}/n.dm2l"),
        ("complete", "m.dm2l", "in.csv", "--max-error-rate", NAME, "-o", "out.csv"),
        ("complete", "m.dm2l", "in.csv", "-o", f"here{NAME}.csv"),
        ("complete", "m.dm2l", "in.csv", "-o", "out.csv", "--keep", NAME),
        ("review", "m.dm2l", "in.csv", "--answers", "a.jsonl", "-o", f"here{NAME}.csv"),
        (NAME,),
        ("fit", f"--{NAME}"),
        (f"--{NAME}",),
    ],
    ids=lambda arguments: " ".join(arguments).replace(NAME, "NAME"),
)
def test_usage_errors_are_printed_without_control_characters(
    arguments, folder, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("in.csv", "m.dm2l"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / f"here{NAME}.csv").touch()
    assert "Usage:" in refused(*arguments)


def test_what_cannot_be_printed_is_spelt_out():
    assert printable("a\x7f\x1b\x9b\u202e\n\U000e0001b") == (
        r"a\u007f\u001b\u009b\u202e\n\udb40\udc01b"
    )
