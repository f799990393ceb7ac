"""The command line loads no class that dm2l itself does not know: there is no way to trust one."""

import pytest
from click import Context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import make_pipeline

from dm2l import DM2LClassifier
from dm2l.cli._commands import COMMANDS, cli
from dm2l.persistence import load_model, save_model
from half_labelled import as_csv, make_table, spell
from terminal import command_runner


class Theirs(ClassifierMixin, BaseEstimator):
    """A class of whoever wrote the file."""

    def fit(self, X, y):
        """Learn nothing."""
        return self


@pytest.fixture
def files(tmp_path):
    columns, truth, observed = make_table(30)
    table = tmp_path / "in.csv"
    table.write_text(as_csv(columns, spell(truth, observed, "Yes", "No")), encoding="utf-8")
    save_model(make_pipeline(Theirs(), DM2LClassifier()), tmp_path / "theirs.dm2l")
    return tmp_path / "theirs.dm2l", table


def test_python_loads_it_if_it_is_trusted(files):
    name = f"{Theirs.__module__}.Theirs"
    assert isinstance(load_model(files[0], trusted=[name])[0], Theirs)


@pytest.mark.parametrize(
    "command", ["complete", "predict", "suggest", "audit", "explain", "review", "backend"]
)
def test_no_command_loads_a_class_of_others(command, files, tmp_path, monkeypatch):
    model, table = files
    made = []
    monkeypatch.setattr(Theirs, "__new__", lambda cls: made.append(cls))
    arguments = [command, model, *([] if command == "explain" else [table])]
    if command in ("complete", "predict", "suggest"):
        arguments += ["-o", tmp_path / "out.csv"]
    if command in ("review", "backend"):
        arguments += ["--answers", tmp_path / "a.jsonl"]
    result = command_runner().invoke(cli, [str(one) for one in arguments])
    assert result.exit_code == 1, (result.output, result.exception)
    assert f"contains classes that are not trusted: ['{Theirs.__module__}.Theirs']" in result.stderr
    assert result.stderr.strip().splitlines()[-1].startswith("Error: ")
    assert not made


def test_no_option_of_a_command_is_about_trust():
    for name in COMMANDS:
        command = cli.get_command(Context(cli), name)
        options = " ".join(option for one in command.params for option in one.opts)
        assert "trust" not in options, name
