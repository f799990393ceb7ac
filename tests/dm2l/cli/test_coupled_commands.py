"""What a row knows, at the terminal: ``complete --max-error-rate``, ``evaluate`` and ``audit``."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from dm2l.cli._commands import cli
from dm2l.persistence import load_model
from dm2l.tables import FitOptions, fit_table, read_table, save_bundle
from terminal import command_runner

NAMES = ["t_a", "t_b", "t_c", "t_d"]
FIXED = ("--kernel", "linear", "--lambda-d", "0.1", "--alpha", "0.3", "--folds", "3")
WRONG = 25


def run(*arguments, exit_code=0):
    runner = command_runner()
    result = runner.invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == exit_code, (result.stdout, result.stderr, result.exception)
    return result


@pytest.fixture(scope="module")
def moods(tmp_path_factory):
    """Labels that share what no feature shows: a table, its model, the truth, flipped labels."""
    folder = tmp_path_factory.mktemp("moods")
    rng = np.random.default_rng(0)
    X, mood = rng.normal(size=(700, 5)), rng.normal(size=(700, 1))
    truth = 0.5 * X[:, :4] + 2 * mood + 0.3 * rng.normal(size=(700, 4)) > 0
    seen = rng.random(truth.shape) < 0.7
    flipped = np.zeros(truth.shape, dtype=bool)
    flipped.flat[rng.choice(np.flatnonzero(seen), WRONG, replace=False)] = True
    for name, Y in (("in.csv", truth), ("flipped.csv", truth ^ flipped)):
        labels = pd.DataFrame(np.where(seen, np.where(Y, "Yes", "No"), "?"), columns=NAMES)
        pd.DataFrame(X, columns=list("vwxyz")).join(labels).to_csv(folder / name, index=False)
        arguments = (folder / name, "--labels", "t_*", *FIXED, "--estimate-folds", 0)
        run("fit", *arguments, "-o", (folder / name).with_suffix(".dm2l"))
    return folder, truth, seen, flipped


@pytest.mark.parametrize("bound", ["10%", "0.1", " 10 %"])
def test_holes_are_filled_up_to_the_share_asked_for(moods, tmp_path, bound):
    folder, truth, seen, _ = moods
    both = (
        folder / "in.dm2l",
        folder / "in.csv",
        "-o",
        tmp_path / "o.csv",
        "--max-error-rate",
        bound,
    )
    found = json.loads(run("complete", *both, "--json").stdout)
    after = pd.read_csv(tmp_path / "o.csv", dtype=str, keep_default_na=False)
    left = (after[NAMES] == "?").to_numpy()
    assert found["max_error_rate"] == 0.1
    assert found["expected_wrong"] <= 0.1
    assert found["left"] == left.sum() == sum(count["left"] for count in found["labels"])
    assert found["filled"] + found["left"] == (~seen).sum()
    assert 0 < found["left"] < (~seen).sum()
    wrong = ((after[NAMES] == "Yes").to_numpy() != truth)[~seen & ~left].mean()
    assert wrong <= 0.13
    look = (after[[f"{name}__look" for name in NAMES]] == "yes").to_numpy()
    np.testing.assert_array_equal(look, left)
    shown = run("complete", *both, "--force").stdout
    assert f"{found['filled']} of {(~seen).sum()} missing labels were filled." in shown
    assert re.search(r"\(yes [0-9.]+%, no [0-9.]+%\)\. Limit: 10% over all columns\.", shown)
    assert max(found["expected_wrong_yes"], found["expected_wrong_no"]) <= 0.1


def test_without_a_bound_every_hole_is_filled(moods, tmp_path):
    folder, _, seen, _ = moods
    both = (folder / "in.dm2l", folder / "in.csv", "-o", tmp_path / "o.csv")
    found = json.loads(run("complete", *both, "--json").stdout)
    assert (found["filled"], found["left"]) == ((~seen).sum(), 0)
    assert found["max_error_rate"] is found["lowest_bound"] is None
    probability = pd.read_csv(tmp_path / "o.csv").filter(like="__probability").to_numpy()
    wrong = np.minimum(probability, 1 - probability)[~seen].mean()
    assert found["expected_wrong"] == pytest.approx(wrong, abs=1e-3)
    assert "?" not in (tmp_path / "o.csv").read_text()


@pytest.mark.parametrize("bound", ["5", "-1%", "101%", "five", "5%%", "5% of", "nan", ""])
def test_what_is_no_share_is_refused(moods, tmp_path, bound):
    folder = moods[0]
    both = (folder / "in.dm2l", folder / "in.csv", "-o", tmp_path / "o.csv")
    result = run("complete", *both, f"--max-error-rate={bound}", exit_code=2)
    assert "is not a share between 0 and 1, such as 5% or 0.05" in result.stderr


def test_margin_and_bound_exclude_each_other(moods, tmp_path):
    folder = moods[0]
    both = (
        folder / "in.dm2l",
        folder / "in.csv",
        "-o",
        tmp_path / "o.csv",
        "--max-error-rate",
        "5%",
    )
    result = run("complete", *both, "--margin", "0.2", exit_code=2)
    assert "cannot be combined with --max-error-rate" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_model_without_coupling_says_what_to_do(moods, tmp_path):
    table = read_table(moods[0] / "in.csv", "t_*")
    model = fit_table(table, FitOptions("linear", 0.1, 0.3, coupling=None), estimate_folds=0)
    save_bundle(model, tmp_path / "m.dm2l")
    both = (tmp_path / "m.dm2l", moods[0] / "in.csv", "-o", tmp_path / "o.csv")
    assert (
        "Fit the model again"
        in run("complete", *both, "--max-error-rate", "5%", exit_code=1).stderr
    )
    run("complete", *both)


def test_evaluate_shows_what_coupling_brings(moods):
    arguments = (moods[0] / "in.csv", "--labels", "t_*", *FIXED, "--repetitions", 2)
    shown = run("evaluate", *arguments).stdout
    assert "Difference in macro average precision: 'DM2L' minus" in shown
    assert re.search(r"features alone +\+", shown)


def _oracle(model_path, path):
    """The list straight from the classifier, on features that were prepared by hand."""
    # The last one is what old scikit-learn has inside of a column transformer.
    trusted = ["numpy.dtype", "sklearn.compose._column_transformer._RemainderColsList"]
    pipeline = load_model(model_path, trusted=trusted)
    frame = pd.read_csv(path, na_values="?")
    Y = np.column_stack([frame[name].map({"Yes": 1.0, "No": 0.0}) for name in NAMES])
    X = pipeline[:-1].transform(frame[list("vwxyz")])
    doubts = pipeline[-1].find_label_errors(X, Y)
    return [
        (int(i) + 1, NAMES[k], round(float(p), 4))
        for i, k, p in zip(doubts.row, doubts.label, doubts.probability, strict=True)
    ]


def test_an_audit_lists_what_the_classifier_doubts(moods, tmp_path):
    folder, truth, seen, flipped = moods
    both = (folder / "flipped.dm2l", folder / "flipped.csv")
    found = json.loads(run("audit", *both, "--json").stdout)["label_errors"]
    listed = [(line["row"], line["label"], line["p_error"]) for line in found]
    assert listed == _oracle(*both)[:1000]
    found = found[:20]
    places = [(line["row"] - 1, NAMES.index(line["label"])) for line in found]
    # How good the ranking is, is tested where it is made; but it is no accident.
    assert np.mean([flipped[place] for place in places]) > 10 * WRONG / seen.sum()
    stands = [(truth ^ flipped)[place] for place in places]
    assert [line["observed"] == "yes" for line in found] == stands
    p = [line["p_error"] for line in found]
    assert p == sorted(p, reverse=True)
    output = tmp_path / "d.csv"
    shown = run("audit", *both, "--top", 25, "-o", output, "--keep", "v").stdout.splitlines()
    written = pd.read_csv(output)
    assert list(written) == ["row", "v", "label", "observed", "p_error"]
    kept = pd.read_csv(folder / "flipped.csv")["v"].iloc[written["row"] - 1]
    np.testing.assert_allclose(written["v"], kept)
    assert written.drop(columns="v").head(20).to_dict("records") == found
    assert len(written) == 25
    assert len(shown) == 1 + 20 + 5  # the first 20, between headings and five lines of text
    assert shown[-5].startswith("Expected share of errors among these 20 entries: ")
    assert " (95% interval: " in shown[-5]
    assert shown[-4].startswith("In a test with 2% inverted labels, ")
    assert "--force" in run("audit", *both, "-o", output, exit_code=2).stderr
