"""dm2l experiment report."""

from click.testing import CliRunner

import dm2l_lab.paper.study
import dm2l_lab.report
from dm2l.baselines import MaskedRidgeClassifier
from dm2l_lab import Method, Protocol, register
from dm2l_lab.cli._report import report_results
from reports import add, check


def call(*arguments, code=0):
    result = CliRunner().invoke(report_results, list(map(str, arguments)))
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_command_writes_page_and_tables(filled, tmp_path):
    page, folder = tmp_path / "r.html", tmp_path / "tables"
    result = call("--store", filled.path, "-o", page, "--protocol", "mine", "--tables", folder)
    check(page.read_text(encoding="utf-8"))
    count = len(list(folder.iterdir()))
    assert count > 10
    assert f"{count} files: {folder}" in result.output
    assert str(page) in result.output


def test_command_takes_a_convention(filled, tmp_path):
    page = tmp_path / "r.html"
    call("--store", filled.path, "-o", page, "--convention", "default")
    assert "No results yet." in page.read_text(encoding="utf-8")  # only published ones are stored


def test_command_says_what_is_left_out(store, tmp_path):
    protocol = Protocol("known", ("Arts",), (Method("a", MaskedRidgeClassifier()),), (1.0,))
    register(protocol)
    add(store, "Arts", "a", [0.1, 0.2], protocol="known")
    result = call("--store", store.path, "-o", tmp_path / "r.html")
    assert "2 rows are left out" in result.output


def test_wrong_arguments_end_with_code_2_and_say_which(filled, tmp_path, monkeypatch):
    monkeypatch.setattr(dm2l_lab.report, "store_figures", lambda *args, **choice: [])
    page = tmp_path / "r.html"
    other = tmp_path / "other.db"
    other.write_text("no store, but long enough to look like a file of something", encoding="utf-8")
    store = ("--store", filled.path)
    assert "'none'" in call(*store, "-o", page, "--protocol", "none", code=2).output
    assert "--output" in call(*store, code=2).output
    assert "absent.db" in call("--store", tmp_path / "absent.db", "-o", page, code=2).output
    assert "not a store" in call("--store", other, "-o", page, code=2).output
    assert "nowhere" in call(*store, "-o", tmp_path / "nowhere" / "r.html", code=2).output
    assert not page.exists()


def test_command_draws_studies(filled, tmp_path, studied, monkeypatch):
    asked = []

    def known(name, repetitions, progress):
        asked.append((name, repetitions))
        return studied[1]

    monkeypatch.setattr(dm2l_lab.paper.study, "study", known)
    monkeypatch.setattr(dm2l_lab.report, "store_figures", lambda *args, **choice: [])
    page = tmp_path / "r.html"
    call("--store", filled.path, "-o", page, "--study", "tiny")
    text = page.read_text(encoding="utf-8")
    check(text)
    for title in ("ranks of the labels", "convergence", "sensitivity to lambda_d", "to sigma"):
        assert title in text
    assert asked == [("tiny", 1)]


def test_a_study_of_unknown_data_is_refused(filled, tmp_path):
    page = tmp_path / "r.html"
    result = call("--store", filled.path, "-o", page, "--study", "no_such", code=2)
    assert "no_such" in result.output
    assert not page.exists()
