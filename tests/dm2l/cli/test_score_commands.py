"""Scores of another model at the terminal: ``--scores`` alone or with features, by id or order."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from dm2l import ScoreClassifier
from dm2l.cli._commands import cli
from dm2l.review import Journal, ReviewSession
from dm2l.review._session import Refit
from dm2l.tables import load_bundle, read_table
from dm2l.tables._model import read_for
from terminal import command_runner

NAMES = ["tox_a", "tox_b", "tox_c"]


def run(*arguments, exit_code=0):
    result = command_runner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == exit_code, (result.stdout, result.stderr, result.exception)
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables with and without features, scores by id in another order, and a fitted model."""
    folder, rng, n = tmp_path_factory.mktemp("scores"), np.random.default_rng(0), 200
    eta = 1.5 * rng.normal(size=(n, 3)) - 0.3
    residual = rng.normal(size=(n, 1)) + 0.3 * rng.normal(size=(n, 3))
    truth = pd.DataFrame((eta + residual > 0).astype(int), columns=NAMES)
    seen = rng.random((n, 3)) < 0.65
    Y = truth.astype("Int64").where(pd.DataFrame(seen, columns=NAMES))
    ids = pd.DataFrame({"compound": [f"C{1000 + i}" for i in range(n)]})
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["mass", "logp"])
    S = pd.DataFrame(expit(eta), columns=NAMES)
    S.iloc[5, 1] = np.nan
    flat = S.copy()
    flat[:] = np.where(seen, np.where(truth == 1, 0.97, 0.03), 0.5) + 0.02 * rng.random((n, 3))
    tables = {"plain": [ids, Y], "both": [ids, X, Y], "bare": [Y], "ordered": [S], "flat": [flat]}
    for name, parts in tables.items():
        pd.concat(parts, axis=1).to_csv(folder / f"{name}.csv", index=False)
    shuffled = pd.concat([ids, S], axis=1).sample(frac=1, random_state=0).iloc[:190]
    shuffled.to_csv(folder / "oof.csv", index=False)
    truth.to_csv(folder / "truth.csv", index=False)
    by_id = ("--scores", folder / "oof.csv", "--id", "compound")
    run("fit", folder / "plain.csv", "--labels", "tox_*", *by_id, "-o", folder / "plain.dm2l")
    return folder


def test_a_table_of_labels_is_completed_within_the_error_rate(folder, tmp_path):
    by_id = ("--scores", folder / "oof.csv", "--id", "compound")
    filled = tmp_path / "filled.csv"
    files = (folder / "plain.dm2l", folder / "plain.csv")
    run("complete", *files, *by_id, "-o", filled, "--max-error-rate", "15%")
    before, after = pd.read_csv(folder / "plain.csv"), pd.read_csv(filled)
    truth = pd.read_csv(folder / "truth.csv")
    new = before[NAMES].isna() & after[NAMES].notna()
    assert new.to_numpy().sum() > 60
    assert (after[NAMES] != truth).to_numpy()[new.to_numpy()].mean() < 0.2
    assert list(after.columns[:4]) == list(before.columns)
    assert not [name for name in after.columns if name.startswith("score of")]


def test_the_model_is_that_of_the_estimator_on_matched_scores(folder):
    model = load_bundle(folder / "plain.dm2l")
    table = pd.read_csv(folder / "plain.csv")
    S = table[["compound"]].merge(pd.read_csv(folder / "oof.csv"), how="left")[NAMES]
    assert S.isna().sum().sum() == 31
    given = {"scores": folder / "oof.csv", "row_id": "compound"}
    read = read_for(model, folder / "plain.csv", **given)
    expected = ScoreClassifier().fit(S.to_numpy(), table[NAMES])
    found = model.answer(model.inputs(read)[0])
    np.testing.assert_allclose(found.probabilities, expected.predict_proba(S.to_numpy()))


def test_scores_by_order_need_neither_features_nor_ids(folder, tmp_path):
    model, scores = tmp_path / "bare.dm2l", ("--scores", folder / "ordered.csv")
    run("fit", folder / "bare.csv", "--labels", "tox_*", *scores, "-o", model)
    for command in ("audit", "suggest", "predict"):
        run(command, model, folder / "bare.csv", *scores, "-o", tmp_path / f"{command}.csv")
    asked = pd.read_csv(tmp_path / "suggest.csv")
    assert len(asked) == pd.read_csv(folder / "bare.csv").isna().sum().sum()
    result = run("explain", model, exit_code=1)
    assert "no features to explain" in result.stderr


def test_scores_join_the_ensemble_of_the_features(folder, tmp_path):
    model, by_id = tmp_path / "both.dm2l", ("--scores", folder / "oof.csv", "--id", "compound")
    given = ("--labels", "tox_*", *by_id, "--effort", "quick", "-o", model)
    shown = json.loads(run("fit", folder / "both.csv", *given, "--json").stdout)
    board = shown["leaderboard"]
    weights = dict(zip(board["model"], board["weight"], strict=True))
    assert weights["scores"] > 0.2, weights
    run("complete", model, folder / "both.csv", *by_id, "-o", tmp_path / "filled.csv")
    assert pd.read_csv(tmp_path / "filled.csv")[NAMES].notna().all(axis=None)


def test_a_review_asks_and_fits_again_with_scores(folder, tmp_path):
    model = load_bundle(folder / "plain.dm2l")
    given = {"scores": folder / "oof.csv", "row_id": "compound"}
    table = read_for(model, folder / "plain.csv", **given)
    with Journal(tmp_path / "answers.jsonl", table) as journal:
        session = ReviewSession(model, table, journal)
        assert session.progress.suggested == np.isnan(table.Y).sum()
    again = Refit(model, table).fit(table.Y)
    assert isinstance(again.classifier, ScoreClassifier)


def test_in_sample_scores_are_reported(folder, tmp_path):
    given = ("--scores", folder / "flat.csv", "-o", tmp_path / "m.dm2l")
    shown = run("fit", folder / "bare.csv", "--labels", "tox_*", *given).stderr
    assert shown.count("warning: The scores in X seem to be in-sample") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--scores", "oof.csv"), 1, r"has 190 rows, but .* has 200. .*--id"),
        (("--scores", "oof.csv", "--id", "name"), 2, r"no column 'name'"),
        (("--scores", "both.csv", "--id", "tox_a"), 2, r"no column 'tox_a'. .*not a label"),
        (("--scores", "few.csv"), 1, r"no column 'tox_b'. Pass one column of scores"),
        (("--scores", "twice.csv", "--id", "compound"), 1, "'compound' repeats .* of row"),
        (("--scores", "others.csv", "--id", "compound"), 1, "no value of column 'compound'"),
        (
            ("--scores", "words.csv"),
            1,
            "'high' in row 3 is not a number.* must be numbers or blank",
        ),
        (("--scores", "ordered.csv", "--kernel", "rbf"), 1, "requires the automatic model"),
    ],
)
def test_unsuitable_scores_are_refused(folder, tmp_path, arguments, code, message):
    S = pd.read_csv(folder / "ordered.csv")
    ids = pd.read_csv(folder / "plain.csv")[["compound"]]
    S[["tox_a"]].to_csv(folder / "few.csv", index=False)
    pd.concat([ids.replace("C1001", "C1000"), S], axis=1).to_csv(folder / "twice.csv", index=False)
    pd.concat([ids + "x", S], axis=1).to_csv(folder / "others.csv", index=False)
    words = S.astype(object)
    words.iloc[2, 0] = "high"
    words.to_csv(folder / "words.csv", index=False)
    given = [folder / one if str(one).endswith(".csv") else one for one in arguments]
    table = (folder / "plain.csv", "--labels", "tox_*")
    result = run("fit", *table, *given, "-o", tmp_path / "m.dm2l", exit_code=code)
    assert pd.Series([result.stderr.replace("\n", " ")]).str.contains(message).all(), result.stderr


def test_a_model_needs_scores_exactly_if_it_was_fitted_with_them(folder, tmp_path):
    output = ("-o", tmp_path / "o.csv")
    result = run("complete", folder / "plain.dm2l", folder / "plain.csv", *output, exit_code=1)
    assert "fitted with --scores. Pass --scores" in result.stderr
    assert read_table(folder / "both.csv", "tox_*").feature_names == ["compound", "mass", "logp"]
