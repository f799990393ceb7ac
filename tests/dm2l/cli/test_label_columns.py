"""Commands on label columns with several values, ordered values, tags, and on label rules."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dm2l import LabelRules
from dm2l.cli._commands import cli
from dm2l.tables import (
    FitOptions,
    audit_table,
    complete_table,
    fit_table,
    load_bundle,
    table_from_frame,
)
from dm2l.tables._inspection import observed_warnings
from terminal import command_runner

FIXED = ("--kernel", "linear", "--lambda-d", "0.1", "--alpha", "0.3", "--folds", "2")
LABELS = ("--labels", "fever,rash,stage,pain,seen,finds", "--values", "pain=low<mid<high")
STAGES, PAINS = np.array(["I", "II", "III", "unclear"]), np.array(["low", "mid", "high"])


def run(*arguments, code=0):
    result = command_runner().invoke(cli, list(map(str, arguments)), env={"COLUMNS": "80"})
    assert result.exit_code == code, result.output + result.stderr
    return " ".join(f"{result.stdout} {result.stderr}".split())


@pytest.fixture(scope="module")
def form(tmp_path_factory):
    """A clinical form with blanks, its complete truth, and a model of it."""
    folder, rng = tmp_path_factory.mktemp("form"), np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    near = X + 0.2 * rng.normal(size=X.shape)
    truth = pd.DataFrame({"fever": np.where(near[:, 0] > 0, "yes", "no")})
    truth["rash"] = np.where(near[:, 0] > 1, "yes", "no")
    corners = near[:, :2] @ [[1, -1, 0, 0], [0, 0, 1, -1]]
    truth["stage"] = STAGES[corners.argmax(axis=1)]
    truth["pain"] = PAINS[np.digitize(near[:, 2], [-0.5, 0.5])]
    truth["seen"] = np.where(near[:, 2] > 0, "x", None)
    tags = [["cyst"] * a + ["scar"] * b or ["clear"] for a, b in (near[:, :2] > 0).tolist()]
    truth["finds"] = [", ".join(found) for found in tags]
    table = truth.mask(rng.random(truth.shape) < 0.25)
    inputs = pd.DataFrame(X, columns=["x", "y", "z"]).round(3)
    inputs["date"] = pd.date_range("2024-01-01", periods=150).strftime("%Y-%m-%d")
    pd.concat([inputs, table], axis=1).to_csv(folder / "form.csv", index=False)
    options = ("--split", ",", "--missing-as", "finds=negative", "--missing-as", "seen=negative")
    said = run("fit", folder / "form.csv", *LABELS, *options, *FIXED, "-o", folder / "m.dm2l")
    return folder, truth, table, said


def test_a_form_goes_from_blanks_to_values_in_three_commands(form):
    folder, truth, table, said = form
    inspected = run("inspect", folder / "form.csv", *LABELS, "--split", ",")
    assert "label column 'stage' holds 4 values: I, II, III, unclear" in inspected
    assert "label column 'pain' holds 3 ordered values: low < mid < high" in inspected
    assert "label column 'finds' holds 3 tags: clear, cyst, scar" in inspected
    for name in ("fever", "stage=I", "stage=unclear", "pain>=mid", "pain>=high", "finds=scar"):
        assert f" {name} " in said  # the quality of every value
    run("complete", folder / "m.dm2l", folder / "form.csv", "-o", folder / "filled.csv")
    filled = pd.read_csv(folder / "filled.csv", dtype=str)
    for name in ("fever", "rash", "stage", "pain"):
        known = table[name].notna()
        assert (filled[name][known] == table[name][known]).all()
        assert set(filled[name]) == set(truth[name])
        assert (filled[name] == truth[name])[~known].mean() > 0.7
        assert filled[f"{name}__probability"].notna().equals(~known)
    known = table["finds"].notna()
    assert (filled["finds"][known] == table["finds"][known]).all()
    added = filled["finds"][~known].fillna("").str.split(", ").map(frozenset)
    assert (added == truth["finds"][~known].str.split(", ").map(frozenset)).mean() > 0.6


def test_every_command_reads_what_another_wrote(form):
    folder, truth, _, _ = form
    model, first = folder / "m.dm2l", folder / "first.csv"
    run("complete", model, folder / "form.csv", "-o", first, "--max-error-rate", "10%")
    book = folder / "book.xlsx"
    run("complete", model, first, "-o", book, "--details", folder / "details.csv")
    run("predict", model, book, "-o", folder / "scores.csv")
    details = pd.read_csv(folder / "details.csv", dtype=str)
    assert set(details["answer"][details["label"] == "stage"]) <= set(STAGES)
    once = pd.read_csv(first, dtype=str)
    for name in ("fever", "stage", "pain"):  # unfilled cells are to be checked
        open_ = once[name].isna()
        assert set(once[f"{name}__look"][open_]) == {"yes"}
        assert set(once[f"{name}__look"][~open_].dropna()) <= {"no"}
    scores = pd.read_csv(folder / "scores.csv", dtype=str)
    assert (scores["stage"] == truth["stage"]).mean() > 0.7
    assert (scores["pain"] == truth["pain"]).mean() > 0.7
    assert {"stage=II__probability", "pain>=mid__score"} <= set(scores)
    options = (*LABELS, "--split", "finds=,")
    for path in (first, book, folder / "scores.csv"):
        assert "holds 4 values: I, II, III, unclear" in run("inspect", path, *options)
    run("audit", model, book, "--top", 3)
    run("fit", book, *options, *FIXED, "--estimate-folds", 0, "-o", folder / "again.dm2l")


def test_the_most_contradicted_rule_is_named_first():
    # One row with a wrong label contradicts a true rule, and all later rows a false one.
    frame = pd.DataFrame({"x": range(30), "flu": 1, "fever": 1, "rash": 0})
    frame.loc[0, ["fever", "rash"]] = 0, 1
    table = table_from_frame(frame, ["flu", "fever", "rash"])
    rules = LabelRules([("rash", "fever"), ("flu", "rash")])
    (warning,) = [line for line in observed_warnings(table, rules) if "contradict" in line]
    assert "30 rows contradict the rules; correct the labels, or remove" in warning
    assert "(most violated, 29: 'flu => rash')" in warning
    assert "(row 2: 'flu' is yes and 'rash' is no, which contradicts 'flu => rash'" in warning


def test_rules_are_stored_and_wrong_ones_are_refused(form):
    folder, _, table, _ = form
    path, rules, model = folder / "form.csv", folder / "rules.txt", folder / "ruled.dm2l"
    labels = ("--labels", "fever,rash,stage")
    found = run("inspect", path, *labels, "--write-rules", rules)
    assert "rash => fever # in " in found
    assert "rash => fever  # in " in rules.read_text()
    fit = ("fit", path, *labels, *FIXED, "--estimate-folds", 0, "-o", model, "--force", "--rules")
    # Rows that contradict the rules are listed, with the line of the rule.
    rules.write_text("rash => fever\nfever => stage=I\n")
    said = run(*fit, rules)
    wrong = (table["fever"] == "yes") & ~table["stage"].isin(["I", np.nan])
    assert f"form.csv: {wrong.sum()} rows contradict the rules" in said
    assert f"row {wrong.idxmax() + 1}: " in said
    assert "rules.txt, line 2" in said
    measured = run("evaluate", path, *labels, *FIXED, "--repetitions", 1, "--rules", rules)
    assert f"form.csv: {wrong.sum()} rows contradict the rules" in measured
    kept = load_bundle(model).classifier.rules
    assert kept.implications == (("rash", "fever"), ("fever", "stage=I"))
    assert kept.exactly_one == (tuple(f"stage={value}" for value in STAGES),)
    rules.write_text("rash => fever\n")
    said = run("complete", model, path, "-o", folder / "o.csv", "--rules", rules)
    follow = (table["rash"] == "yes") & table["fever"].isna()
    follow |= (table["fever"] == "no") & table["rash"].isna()
    assert f"{follow.sum()} of the filled labels follow from the rules." in said
    # A rule that excludes some values of a cell does not fill it with an improbable one.
    rules.write_text("stage=I => fever\nstage=III => rash\n")
    bounded = (model, path, "-o", folder / "b.csv", "--rules", rules, "--max-error-rate", "5%")
    run("complete", *bounded)
    chance = pd.read_csv(folder / "b.csv").query("stage.notna()")["stage__probability"].dropna()
    assert (chance >= 0.95).all()
    for text, message in (
        ("rash => fevr\n", "'rash => fevr' (rules.txt, line 1)"),
        ("# none\nrash > fever\n", "rules.txt, line 2"),
        ("rash => fever\nfever => rash\n", "(rules.txt, line 2)"),
        ("stage=I => stage=II\n", "(rules.txt, line 1)"),
    ):
        rules.write_text(text)
        for command in (fit, ("complete", model, path, "-o", folder / "no.csv", "--rules")):
            assert message in run(*command, rules, code=1)


@pytest.fixture(scope="module")
def graded():
    """A table with an ordered and an unordered column, its complete truth, and a model."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3))
    near = X + 0.35 * rng.normal(size=X.shape)
    truth = pd.DataFrame({"fever": np.where(near[:, 0] > 0, "yes", "no")})
    corners = near[:, :2] @ [[1, -1, 0], [0, 0.5, -1]]
    truth["stage"] = STAGES[corners.argmax(axis=1)]
    truth["pain"] = PAINS[np.digitize(near[:, 2], [-0.6, 0.6])]
    inputs = pd.DataFrame(X, columns=["x", "y", "z"])

    def read(labels):
        frame = pd.concat([inputs, labels], axis=1)
        return table_from_frame(frame, ["fever", "stage", "pain"], values="pain=low<mid<high")

    table = read(truth.mask(rng.random(truth.shape) < 0.4))
    model = fit_table(table, FitOptions("linear", 0.1, 1.0), estimate_folds=0)
    return table, read(truth), model


@pytest.mark.parametrize("limit", [0.05, 0.1])
def test_error_rates_of_cells_with_several_values_are_within_the_limit(graded, limit):
    table, truth, model = graded
    found = complete_table(model, table, max_error_rate=limit)
    wrong = found.filled & (found.positive != (truth.Y == 1))
    columns = [[0], *(labels for labels, _ in found.exclusive)]
    for labels in columns:  # the labels of a cell are filled together
        cells = found.filled[:, labels]
        assert (cells.any(axis=1) == cells.all(axis=1)).all()
        assert cells.any()
        assert wrong[:, labels].any(axis=1).sum() <= limit * cells.any(axis=1).sum()
    (stage, _), (pain, _) = table.exclusive
    # The probabilities of the filled values, computed apart.
    values = found.probabilities[:, stage][
        found.filled[:, stage] & found.positive[:, stage]
    ].tolist()
    for row in np.flatnonzero(found.filled[:, pain[0]]):
        steps = [1, *found.probabilities[row, pain], 0]
        values.append(-np.diff(steps)[found.positive[row, pain].sum()])
    assert min(values) >= 1 - limit
    assert np.isclose(found.expected_wrong_values, 1 - np.mean(values))
    plain = found.filled[:, 0] & found.positive[:, 0], found.filled[:, 0] & ~found.positive[:, 0]
    rates = found.expected_wrong_yes, found.expected_wrong_no
    total = sum(side.sum() * rate for side, rate in zip(plain, rates, strict=True))
    n = found.count(found.filled)
    assert n == found.filled[:, 0].sum() + len(values)
    assert found.count(found.missing) == sum(found.missing[:, ks[0]].sum() for ks in columns)
    assert np.isclose(found.expected_wrong, (total + np.sum(1 - np.array(values))) / n)
    assert max(found.expected_wrong, *rates, found.expected_wrong_values) <= limit


def test_wrong_values_of_cells_are_found(graded):
    table, truth, model = graded
    Y, planted = table.Y.copy(), set()
    p = complete_table(model, replace(table, Y=np.full(Y.shape, np.nan))).probabilities
    for labels, _ in table.exclusive:  # a clear first value becomes the last one
        first = np.isin(np.arange(len(labels)), [0] if len(labels) == 3 else [])
        clear = (truth.Y[:, labels] == first).all(axis=1) & ~np.isnan(Y[:, labels[0]])
        row = int(np.argmax(np.where(clear, -np.abs(p[:, labels] - first).sum(axis=1), -9.0)))
        Y[row, labels] = first[::-1] if len(labels) == 3 else True
        planted.add(row + 1)
    found = audit_table(model, replace(table, Y=Y), top=10)
    assert planted <= set(found.row.tolist())
