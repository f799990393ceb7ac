"""``--missing-as`` of inspect, fit, evaluate and complete: a table of ticks from end to end."""

import json

import numpy as np
import pandas as pd
import pytest

from dm2l.cli._commands import cli
from dm2l.datasets import make_missing_multilabel
from dm2l.simulate import simulate_missing_positives
from dm2l.tables import FitOptions, read_table
from terminal import command_runner


def run(*arguments):
    runner = command_runner()
    found = runner.invoke(cli, [str(part) for part in arguments])
    return found.exit_code, found.stdout, found.stdout + found.stderr


@pytest.fixture(scope="module")
def ticked(tmp_path_factory):
    X, truth = make_missing_multilabel(
        n_samples=240, n_labels=4, n_features=6, rho=1.0, noise=0.2, random_state=0
    )
    Y = simulate_missing_positives(truth, 0.5, become="unlabelled", random_state=0)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)])
    for k in range(4):
        frame[f"tag_{k}"] = np.where(Y[:, k] == 1, "1", "")
    path = tmp_path_factory.mktemp("ticks") / "tags.csv"
    frame.to_csv(path, index=False)
    return path, truth, Y


def test_inspect_says_what_labels_with_ticks_only_mean(ticked):
    code, text, _ = run("inspect", ticked[0], "--labels", "tag_*")
    assert code == 0
    assert "4 of 4 labels have positive and almost no negative entries" in text
    words = " ".join(text.split())
    assert "fit with --missing-as unlabelled" in words
    assert "has only positive entries" not in words


def test_without_a_word_about_blanks_fit_refuses_and_names_the_way(ticked, tmp_path):
    code, _, text = run("fit", ticked[0], "--labels", "tag_*", "-o", tmp_path / "m.dm2l")
    assert code == 1
    assert "--missing-as unlabelled" in text


def test_fit_and_complete_find_overlooked_positives(ticked, tmp_path):
    path, truth, Y = ticked
    model, filled = tmp_path / "m.dm2l", tmp_path / "filled.csv"
    options = ("--labels", "tag_*", "--missing-as", "unlabelled", "--estimate-folds", "2")
    code, text, whole = run("fit", path, *options, "--folds", "2", "-o", model)
    assert code == 0, whole
    assert "share of positives" in text
    assert "macro AUC" in text
    assert "Brier" not in text  # nobody knows who is negative
    code, _, whole = run("complete", model, path, "-o", filled)
    assert code == 0, whole
    written = pd.read_csv(filled)
    p = np.column_stack([written[f"tag_{k}__probability"] for k in range(4)])
    holes = np.isnan(Y)
    assert (written[[f"tag_{k}" for k in range(4)]].to_numpy()[Y == 1] == 1).all()
    assert p[holes & (truth == 1)].mean() > p[holes & (truth == 0)].mean() + 0.15


def test_audit_lists_blanks_that_should_have_been_ticked(ticked, tmp_path):
    path, truth, Y = ticked
    model = tmp_path / "m.dm2l"
    options = ("--labels", "tag_*", "--missing-as", "unlabelled", "--estimate-folds", "0")
    code, _, whole = run("fit", path, *options, "--folds", "2", "-o", model)
    assert code == 0, whole
    code, text, whole = run("audit", model, path, "--top", "40", "--json")
    assert code == 0, whole
    doubts = json.loads(text)["label_errors"]
    places = [(one["row"] - 1, int(one["label"].removeprefix("tag_"))) for one in doubts]
    assert len(places) == 40
    assert all(np.isnan(Y[place]) for place in places)
    assert {one["observed"] for one in doubts} == {"blank"}
    assert np.mean([truth[place] for place in places]) > 1.5 * truth[np.isnan(Y)].mean()


def test_evaluate_looks_for_hidden_ticks(ticked):
    options = ("--labels", "tag_*", "--missing-as", "unlabelled", "--kernel", "linear", "--json")
    code, text, whole = run("evaluate", ticked[0], *options, "--repetitions", "2", "--folds", "2")
    assert code == 0, whole
    found = json.loads(text)
    assert found["n_hidden"] < (ticked[2] == 1).sum() / 2
    assert found["methods"]["DM2L"]["label_auc"]["mean"] > 0.6
    assert found["methods"]["DM2L"]["brier"]["mean"] is None


def test_a_blank_that_means_no_is_fitted_as_one(ticked, tmp_path):
    labels = ("--labels", "tag_*", "--missing-as", "negative")
    options = (*labels, "--kernel", "linear", "--estimate-folds", "0")
    code, text, whole = run("fit", ticked[0], *options, "-o", tmp_path / "m.dm2l", "--json")
    assert code == 0, whole
    assert json.loads(text)["settings"]["kernel"] == "linear"


def test_labels_may_read_blanks_in_different_ways(ticked, tmp_path):
    table = read_table(ticked[0], "tag_*")
    blank = np.isnan(table.Y)
    mixed = FitOptions(missing_as={"*": "negative", "tag_1": "missing"}).read(table)
    np.testing.assert_array_equal(mixed.Y[:, 1], table.Y[:, 1])
    assert not np.isnan(mixed.Y[:, [0, 2, 3]]).any()
    # With one unlabelled label, the model of the whole table is positive-unlabelled.
    mixed = FitOptions(missing_as={"*": "negative", "tag_1": "unlabelled"})
    assert mixed.unlabelled
    np.testing.assert_array_equal(np.isnan(mixed.read(table).Y[:, 1]), blank[:, 1])
    labels = ("--labels", "tag_*", "--missing-as", "negative", "--missing-as", "tag_1=unlabelled")
    options = (*labels, "--kernel", "linear", "--alpha", "1", "--lambda-d", "0", "--folds", "2")
    model = tmp_path / "m.dm2l"
    code, text, whole = run("fit", ticked[0], *options, "--estimate-folds", "0", "-o", model)
    assert code == 0, whole
    assert "Estimated share of positives" in text


def test_blanks_that_are_missing_and_unlabelled_need_two_models(ticked, tmp_path):
    options = ("--labels", "tag_*", "--missing-as", "tag_1=unlabelled", "-o", tmp_path / "m.dm2l")
    code, _, text = run("fit", ticked[0], *options)
    assert code == 2
    assert "is unlabelled for 'tag_1', but missing for 'tag_0'" in text
    assert "Fit a separate model to each kind of labels" in text
