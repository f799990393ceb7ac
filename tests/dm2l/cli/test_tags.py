"""Tags in one column, positives only: every command from ``inspect`` to ``complete --verified``."""

import shlex

import numpy as np
import pandas as pd
import pytest

from dm2l.cli import _review
from dm2l.cli._commands import cli
from dm2l.review import Journal, ReviewSession
from dm2l.tables import complete_table, load_bundle
from dm2l.tables._model import read_for
from terminal import command_runner

TAGS = np.array(["chess", "go", "poker"])
OPTIONS = ("--labels", "uses", "--split", ",", "--missing-as", "unlabelled", "--folds", "2")


def run(*arguments):
    result = command_runner().invoke(cli, list(map(str, arguments)), env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A folder with a table whose cells join tags with ", ", and a model of it."""
    folder, rng = tmp_path_factory.mktemp("tags"), np.random.default_rng(0)
    X = rng.normal(size=(240, 3))
    truth = X + 0.3 * rng.normal(size=X.shape) > 0.3
    found = truth & (rng.random(truth.shape) < 0.4)
    table = pd.DataFrame(X.round(3), columns=["x", "y", "z"])
    table.insert(0, "name", [f"game{i:03}" for i in range(len(X))])
    words = np.array([f"word{i}" for i in range(40)])
    table["about"] = [" ".join(rng.choice(words, 9, replace=False)) for _ in X]
    table["uses"] = [", ".join(TAGS[row]) or None for row in found]
    table.to_csv(folder / "games.csv", index=False)
    model = folder / "m.dm2l"
    said = run("fit", folder / "games.csv", *OPTIONS, "--estimate-folds", "0", "-o", model)
    (folder / "said.txt").write_text(said)
    return folder, table


def cells(column):
    return [[] if pd.isna(cell) else cell.split(", ") for cell in column]


def proposed(folder):
    """The completion, and its proposed tags with their probabilities by row and tag."""
    model = load_bundle(folder / "m.dm2l")
    done = complete_table(model, read_for(model, folder / "games.csv"))
    places = np.argwhere(done.filled & done.positive).tolist()
    return done, {(i + 1, TAGS[k]): done.probabilities[i, k] for i, k in places}


def test_inspect_counts_labels_as_the_fit_reads_them(shelf):
    folder, table = shelf
    usual = ("inspect", folder / "games.csv", *OPTIONS[:4])
    assert "fit with --missing-as unlabelled" in run(*usual)
    assert "--missing-as" not in run(*usual, "--missing-as", "unlabelled")
    counts = [line.split() for line in run(*usual, "--missing-as", "negative").splitlines()]
    blank = int(table["uses"].isna().sum())  # all tags of these cells are missing
    for tag in TAGS:
        yes = sum(tag in row for row in cells(table["uses"]))
        expected = [f"uses={tag}", yes, 240 - blank - yes, blank, f"{blank / 240:.0%}"]
        assert list(map(str, expected)) in counts


def test_fit_counts_one_column_and_prints_a_loss_as_a_loss(shelf):
    said = (shelf[0] / "said.txt").read_text()
    assert "240 rows, 3 labels in 1 label column, and 43 features" in said
    assert "cross-validated ranking loss 0." in said


def test_a_tag_is_explained_by_its_name(shelf):
    model = shelf[0] / "m.dm2l"
    assert run("explain", model, "--label", "go") == run("explain", model, "--label", "uses=go")


def test_tags_are_written_in_the_form_of_the_table(shelf):
    folder, table = shelf
    run("complete", folder / "m.dm2l", folder / "games.csv", "-o", folder / "filled.csv")
    filled = pd.read_csv(folder / "filled.csv")
    before, after = cells(table["uses"]), cells(filled["uses"])
    added = {(i + 1, tag) for i, row in enumerate(after) for tag in set(row) - set(before[i])}
    assert added == set(proposed(folder)[1])
    assert all(new[: len(old)] == old for old, new in zip(before, after, strict=True))
    # Cells that had one tag or none have several now.
    assert any(len(old) < 2 <= len(new) for old, new in zip(before, after, strict=True))
    run("predict", folder / "m.dm2l", folder / "games.csv", "-o", folder / "predicted.csv")
    predicted = pd.read_csv(folder / "predicted.csv")["uses"]
    assert {tag for row in cells(predicted) for tag in row} <= set(TAGS)
    assert predicted.str.contains(", ").any()


def test_a_cell_keeps_its_own_form(shelf, tmp_path):
    folder, table = shelf
    path = tmp_path / "mixed.csv"
    mixed = table.copy()
    mixed.loc[::2, "uses"] = mixed["uses"].str.replace(", ", ",")
    mixed.to_csv(path, index=False)
    run("complete", folder / "m.dm2l", path, "-o", tmp_path / "filled.csv")
    filled = pd.read_csv(tmp_path / "filled.csv")["uses"]
    for old, new in zip(mixed["uses"].fillna(""), filled.fillna(""), strict=True):
        assert new.startswith(old)
        if "," in old:
            assert (", " in new) is (", " in old)


def test_details_have_a_line_with_its_probability_for_each_proposed_tag(shelf):
    folder, _ = shelf
    more = ("--details", folder / "details.csv", "-o", folder / "plain.csv")
    run("complete", folder / "m.dm2l", folder / "games.csv", *more)
    lines = pd.read_csv(folder / "details.csv")
    found = {(row, tag): p for row, tag, p in lines[["row", "answer", "probability"]].to_numpy()}
    expected = proposed(folder)[1]
    assert len(lines) == len(expected)
    assert found == pytest.approx(expected, abs=1e-4)
    assert (lines["label"] == "uses").all()
    assert lines["row"].is_monotonic_increasing
    near = (lines["probability"] - 0.5).abs() <= 0.2
    assert (lines["look"] == np.where(near, "yes", "no")).all()
    assert lines["row"].duplicated().any()  # cells with several proposed tags


def test_the_summary_counts_proposed_overlooked_and_remaining_positives(shelf):
    folder, table = shelf
    said = run("complete", folder / "m.dm2l", folder / "games.csv", "-o", folder / "counted.csv")
    tags = proposed(folder)[1]
    n, rows = len(tags), len({row for row, _ in tags})
    share = load_bundle(folder / "m.dm2l").classifier.class_prior_
    recorded = [sum(tag in row for row in cells(table["uses"])) for tag in TAGS]
    overlooked = np.maximum(share * 240 - recorded, 0).sum()
    assert n < overlooked
    assert (
        f"Proposed positives: {n}, in {rows} rows. Estimate: {overlooked:.0f} overlooked positives "
        f"in the table, so at least {overlooked - n:.0f} are not proposed.\n"
    ) in said


def test_the_commands_that_are_printed_run_as_printed(shelf, tmp_path, monkeypatch):
    folder, table = shelf
    path = tmp_path / "my games.csv"
    table.to_csv(path, index=False)
    monkeypatch.chdir(tmp_path)
    said = run("complete", folder / "m.dm2l", path, "-o", "first.csv", "--missing", "unknown")
    line = said.split("check a random sample: ")[1].splitlines()[0]
    assert "'" in line  # the name of the table has a space

    def answer(session, *, announce, **_):
        announce("http://here")
        for _ in range(answered):
            entry = session.question(None, "sample")
            session.answer(entry.row, {entry.label: "yes"}, "sample")
        session.close()

    monkeypatch.setattr(_review, "serve", answer)
    answered = 49
    said = run(*shlex.split(line)[1:], "--no-browser")
    assert "0 of 50 sampled questions are answered or skipped." in said
    assert "dm2l complete" not in said
    answered = 1
    said = run(*shlex.split(line)[1:], "--no-browser")
    assert "49 of 50 sampled questions are answered or skipped." in said
    line = said.split("print the error rate: ")[1].splitlines()[0]
    last = ["-o", "my games-reviewed.csv", "--verified", "answers.jsonl"]  # in the table's format
    assert shlex.split(line)[-4:] == last
    said = run(*shlex.split(line)[1:])
    assert "Filled with yes: 0 of 25 checked entries are wrong." in said
    assert "--check" not in said


def test_audit_lists_the_proposed_tags_first(shelf, tmp_path):
    folder, _ = shelf
    run("audit", folder / "m.dm2l", folder / "games.csv", "-o", tmp_path / "audit.csv")
    listed = pd.read_csv(tmp_path / "audit.csv")
    listed["tag"] = listed["label"].str.removeprefix("uses=")
    likely = listed[listed["p_error"] > 0.5]
    found = {(row, tag): p for row, tag, p in likely[["row", "tag", "p_error"]].to_numpy()}
    assert found == pytest.approx(proposed(folder)[1], abs=1e-4)


def test_suspected_errors_of_the_review_are_those_of_audit(shelf, tmp_path):
    folder, table = shelf
    run("audit", folder / "m.dm2l", folder / "games.csv", "-o", tmp_path / "audit.csv")
    listed = pd.read_csv(tmp_path / "audit.csv")
    model = load_bundle(folder / "m.dm2l")
    games = read_for(model, folder / "games.csv")
    with Journal(tmp_path / "a.jsonl", games) as journal:
        session = ReviewSession(model, games, journal)
        session.start_label_errors()
        session.wait(60)
        seen = []
        for k in range(20):
            entry = session.question(None, "label_errors")
            seen.append((entry.row, entry.label, round(entry.error_probability, 4)))
            word = "yes" if k < 15 else "skip" if k < 17 else "no"
            session.answer(entry.row, {entry.label: word}, "label_errors")
        expected = listed[["row", "label", "p_error"]].head(20)
        assert seen == [tuple(line) for line in expected.to_numpy().tolist()]
        assert list(session._label_errors) == list(zip(listed["row"], listed["label"], strict=True))
        assert (session.progress.checked, session.progress.corrected) == (20, 15)
        first = session.question(0, "label_errors")
        assert (first.row, first.label, first.answer, first.observed) == (*seen[0][:2], "yes", "")
        session.export(tmp_path / "out.csv")
        after = cells(pd.read_csv(tmp_path / "out.csv")["uses"])
    before = cells(table["uses"])
    added = {(i + 1, tag) for i, row in enumerate(after) for tag in set(row) - set(before[i])}
    assert added == {(row, label.removeprefix("uses=")) for row, label, _ in seen[:15]}
