"""No file that a command writes may be one that it reads, whatever the option."""

import shutil

import click
import pytest

from dm2l.cli._commands import COMMANDS, cli
from half_labelled import as_csv, make_table, spell
from terminal import command_runner

OTHERS = {
    "fit": ["--labels", "topic_*"],
    "complete": ["-o", "o.csv"],
    "predict": ["-o", "o.csv"],
    "suggest": ["-o", "o.csv"],
    "review": ["--answers", "a.jsonl"],
    "backend": ["--answers", "a.jsonl"],
}
WRITES = [
    (name, option.opts[-1])
    for name in COMMANDS
    for option in cli.get_command(click.Context(cli), name).params
    if isinstance(option.type, click.Path) and isinstance(option, click.Option)
    if not option.type.exists
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table and a model."""
    folder = tmp_path_factory.mktemp("files")
    columns, truth, observed = make_table(40)
    text = as_csv(columns, spell(truth, observed, "Yes", "No"))
    (folder / "in.csv").write_text(text, encoding="utf-8")
    fixed = ("--kernel", "linear", "--lambda-d", "0.1", "--alpha", "1", "--folds", "2")
    arguments = ["fit", folder / "in.csv", "--labels", "topic_*", *fixed, "-o", folder / "m.dm2l"]
    assert command_runner().invoke(cli, [str(one) for one in arguments]).exit_code == 0
    return folder


def test_every_command_that_writes_is_tried():
    assert len(WRITES) >= 10
    assert {"fit", "complete", "predict", "review", "backend"} <= {name for name, _ in WRITES}


@pytest.mark.parametrize("way", ["itself", "link"])
@pytest.mark.parametrize(("name", "option"), WRITES)
def test_an_output_is_never_an_input(name, option, way, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in ("in.csv", "m.dm2l"):
        shutil.copy(files / file, file)
    inputs = [["in.csv"], ["m.dm2l", "in.csv"]][name not in ("fit", "inspect", "evaluate")]
    others = OTHERS.get(name, [])
    if option in ("--answers", "--output"):
        others = [one for one in others if one not in ("--answers", "-o", "a.jsonl", "o.csv")]
    for read in inputs:
        before = (tmp_path / read).read_bytes()
        file = read
        if way == "link":
            file = f"link-{read}"
            (tmp_path / file).symlink_to(tmp_path / read)
        arguments = [name, *inputs, *others, option, file, "--force"]
        if name == "review" and option == "--output":
            arguments += ["--answers", "a.jsonl"]
        result = command_runner().invoke(cli, arguments)
        assert result.exit_code == 2, (arguments, result.output, result.exception)
        assert "are the same file" in result.stderr, result.stderr
        assert (tmp_path / read).read_bytes() == before
