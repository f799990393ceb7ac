"""The commands for half-labelled tables, as a person at a terminal meets them."""

import csv
import io
import json
import os
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.metrics import (
    average_precision_score,
    label_ranking_average_precision_score,
    roc_auc_score,
)

from dm2l._utils.html import percent
from dm2l.cli._ask import (
    audit_command,
    complete_command,
    explain_command,
    predict_command,
    suggest_command,
)
from dm2l.cli._learn import _show_evaluation, evaluate_command, fit_command, inspect_command
from dm2l.metrics import label_auc
from dm2l.model_selection import Interval
from dm2l.tables import (
    FitOptions,
    _explanation,
    evaluate_table,
    explain_model,
    fit_table,
    read_table,
    table_from_frame,
)
from dm2l.tables._measures import (
    AUTOMATIC,
    MEASURES,
    METHODS,
    LabelQuality,
    TableEvaluation,
    estimate_auto,
    measure,
)
from half_labelled import LABELS, as_csv, make_table, spell
from terminal import command_runner

COMMANDS = (
    inspect_command,
    fit_command,
    complete_command,
    predict_command,
    evaluate_command,
    suggest_command,
    explain_command,
    audit_command,
)
N_ROWS = 300
FIXED = ("--kernel", "linear", "--lambda-d", "0.1", "--alpha", "0.3", "--folds", "3")


def invoke(command, *arguments):
    """Run a command; standard output and standard error apart, in every version of click."""
    runner = command_runner()
    return runner.invoke(command, [str(argument) for argument in arguments])


def succeed(command, *arguments):
    result = invoke(command, *arguments)
    assert result.exit_code == 0, (result.stdout, result.stderr, result.exception)
    return result


@pytest.fixture(scope="module")
def journey(tmp_path_factory):
    """From a CSV file with blanks to a completed one: inspect, fit, complete."""
    folder = tmp_path_factory.mktemp("journey")
    columns, truth, observed = make_table(N_ROWS)
    text = as_csv(columns, spell(truth, observed, "Yes", "No"), newline="\r\n")
    paths = {name: folder / name for name in ("in.csv", "out.csv", "model.dm2l")}
    paths["in.csv"].write_bytes(text.encode())
    labels = ("--labels", "topic_*")
    results = [
        succeed(inspect_command, paths["in.csv"], *labels),
        succeed(
            fit_command,
            paths["in.csv"],
            *labels,
            *("-o", paths["model.dm2l"], "--kernel", "linear"),
            *("--folds", 3, "--estimate-folds", 2),
        ),
        succeed(complete_command, paths["model.dm2l"], paths["in.csv"], "-o", paths["out.csv"]),
    ]
    return paths, truth, observed, results


def _label_precision(truth, hole, p):
    return np.mean(
        [
            average_precision_score(truth[hole[:, k], k], p[hole[:, k], k])
            for k in range(truth.shape[1])
        ]
    )


def test_three_commands_fill_blanks_better_than_taking_them_for_no(journey):
    paths, truth, observed, _ = journey
    filled = pd.read_csv(paths["out.csv"], encoding="utf-8")
    p = filled[[f"{name}__probability" for name in LABELS]].to_numpy()
    np.testing.assert_array_equal(np.isnan(p), observed)
    ours = _label_precision(truth, ~observed, p)
    table = read_table(paths["in.csv"], "topic_*")
    table.Y = np.nan_to_num(table.Y)
    # Ridge is the stronger of the two on wrong negatives.
    naive = fit_table(table, FitOptions(kernel="linear", lambda_d=0.0, cv=3), estimate_folds=0)
    answer = naive.answer(naive.inputs(table)[0])
    theirs = _label_precision(truth, ~observed, answer.scores)
    assert ours > theirs + 0.1, (ours, theirs)
    decided = (filled[LABELS] == "Yes").to_numpy()
    accuracy = [((guess == truth)[~observed]).mean() for guess in (decided, answer.positive)]
    assert accuracy[0] > accuracy[1] + 0.1, accuracy


def test_observed_entries_and_other_cells_are_byte_identical(journey):
    paths, _, observed, _ = journey
    before, after = paths["in.csv"].read_bytes(), paths["out.csv"].read_bytes()
    assert before.count(b"\r\n") == after.count(b"\r\n") == N_ROWS + 1
    assert b"\n" not in after.replace(b"\r\n", b"")
    first = [line.split(b",") for line in before.split(b"\r\n")[:-1]]
    second = [line.split(b",") for line in after.split(b"\r\n")[:-1]]
    for i, (old, new) in enumerate(zip(first, second, strict=True)):
        # Labels and what was added hold no commas, so they can be counted from the ends.
        labels, kept = new[: len(old)][-10:], new[: len(old)][:-10]
        assert kept == old[:-10]
        for k in range(10):
            if i == 0 or observed[i - 1, k]:
                assert labels[k] == old[-10:][k]
            else:
                assert labels[k] in (b"Yes", b"No")
        assert len(new) - len(old) == 20


def test_inspect_and_fit_name_columns_that_are_left_out_with_the_reason(journey):
    inspected, fitted, completed = journey[3]
    assert "'ticket' is left out: a different single word" in inspected.stdout.replace("\n", " ")
    assert "date (year, month, weekday, days)" in inspected.stdout
    assert "topic_refund => topic_billing" in inspected.stdout
    assert "linear kernel, cross-validated ranking and discrimination 0." in fitted.stdout
    assert "lambda_d" not in fitted.stdout
    assert "Cross-validation: 2 folds" in fitted.stdout
    assert "to check" in completed.stdout


def test_a_saved_model_needs_no_flags_to_read_the_same_labels(tmp_path):
    columns, truth, observed = make_table(80)
    path = tmp_path / "t.csv"
    text = as_csv(columns, spell(truth, observed, blank="unseen"))
    path.write_text(text, encoding="utf-8")
    bad = invoke(fit_command, path, "--labels", "topic_*", "-o", tmp_path / "m", *FIXED)
    assert bad.exit_code == 1
    assert "'unseen'" in bad.stderr
    assert "--missing" in bad.stderr
    assert not (tmp_path / "m").exists()
    arguments = (path, "--labels", "topic_*", "--missing", "unseen", "-o", tmp_path / "m")
    succeed(fit_command, *arguments, *FIXED, "--estimate-folds", 0)
    result = succeed(complete_command, tmp_path / "m", path, "-o", tmp_path / "o.csv", "--json")
    counts = json.loads(result.stdout)["labels"]
    assert [count["filled"] for count in counts] == (~observed).sum(axis=0).tolist()
    assert "unseen" not in (tmp_path / "o.csv").read_text(encoding="utf-8")


def test_positive_values_and_cutoffs_are_remembered_and_spoken(tmp_path):
    x = np.random.default_rng(0).normal(size=(80, 2))
    holes = np.arange(80) % 5 == 0
    twos = np.where(holes, "", np.where(x[:, 0] > 0, "2", "1"))
    folds = np.where(holes, "", np.round(np.exp(x[:, 1]), 3).astype(str))
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "two": twos, "fold": folds})
    path, model, out = (tmp_path / name for name in ("t.csv", "m.dm2l", "o.csv"))
    frame.to_csv(path, index=False)
    words = ("--labels", "two,fold", "--positive", "2", "--cutoff", "fold>=1")
    found = json.loads(succeed(inspect_command, path, *words, "--json").stdout)
    counts = [count["positive"] for count in found["labels"]]
    assert counts == [(x[~holes, 0] > 0).sum(), (x[~holes, 1] > 0).sum()]
    evaluated = succeed(evaluate_command, path, *words, *FIXED, "--repetitions", 1, "--json")
    assert json.loads(evaluated.stdout)["n_hidden"] > 0
    succeed(fit_command, path, *words, "-o", model, *FIXED, "--estimate-folds", 0)

    succeed(complete_command, model, path, "-o", out)
    filled = pd.read_csv(out, dtype=str)
    assert set(filled["two"]) == {"1", "2"}
    assert set(filled["fold"][holes]) == {">=1", "<1"}
    assert (filled["fold"][~holes] == frame["fold"][~holes]).all()
    succeed(
        complete_command, model, out, "-o", tmp_path / "again.csv", "--details", tmp_path / "d.csv"
    )

    # Nothing is observed in a new table: the model knows how its labels are written.
    frame.assign(two="", fold="").to_csv(path, index=False)
    succeed(complete_command, model, path, "-o", out, "--force")
    assert set(pd.read_csv(out, dtype=str)["two"]) == {"1", "2"}
    succeed(predict_command, model, path, "-o", out, "--force")
    predicted = pd.read_csv(out, dtype=str)
    assert (set(predicted["two"]), set(predicted["fold"])) == ({"1", "2"}, {">=1", "<1"})
    assert ((predicted["two"] == "2") == (x[:, 0] > 0)).mean() > 0.9
    frame.assign(two="0").to_csv(path, index=False)
    assert (
        "besides the values '2' and '1'"
        in invoke(complete_command, model, path, "-o", out, "--force").stderr
    )


def test_numbers_in_a_parquet_table_are_filled_with_numbers(tmp_path):
    x = np.random.default_rng(0).normal(size=60)
    y = np.where(np.arange(60) % 5 == 0, np.nan, np.where(x > 0, 2.0, 1.0))
    path, model, out = (tmp_path / name for name in ("t.parquet", "m.dm2l", "o.parquet"))
    pd.DataFrame({"x": x, "y": y}).to_parquet(path)
    for words in (("--positive", 2), ("--cutoff", "y>1.5")):
        arguments = (path, "--labels", "y", *words, "-o", model, *FIXED, "--estimate-folds", 0)
        succeed(fit_command, *arguments, "--force")
        result = invoke(complete_command, model, path, "-o", out, "--force")
        if words[0] == "--positive":
            assert set(pd.read_parquet(out)["y"]) == {1.0, 2.0}
        else:
            assert "'>1.5', which is not a number" in result.stderr


def test_bad_values_are_data_problems_that_name_value_column_row(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,tox_a\n1,1\n2,0\n3,perhaps\n")
    for command, extra in (
        (inspect_command, ()),
        (fit_command, ("-o", tmp_path / "m")),
        (evaluate_command, ()),
    ):
        result = invoke(command, path, "--labels", "tox_*", *extra)
        assert result.exit_code == 1
        assert result.stdout == ""
        for part in ("'perhaps'", "'tox_a'", "row 3"):
            assert part in result.stderr


def test_wrong_usage_is_told_apart_from_wrong_data(journey, tmp_path):
    paths = journey[0]
    table, model = paths["in.csv"], paths["model.dm2l"]
    taken = table.with_name("taken.csv")
    taken.write_bytes(table.read_bytes().replace(b"ticket", b"topic_bug__score", 1))
    bare = table.with_name("bare.csv")
    pd.read_csv(table).drop(columns=LABELS).to_csv(bare, index=False)
    wrong_usage = (
        (inspect_command, (table,), "--labels"),
        (inspect_command, (tmp_path / "none.csv", "--labels", "a"), "does not exist"),
        (fit_command, (table, "--labels", "topic_*"), "-o"),
        (fit_command, (table, "--labels", "t", "-o", model), "--force"),
        (fit_command, (table, "--labels", "t", "-o", tmp_path / "no" / "m"), "does not exist"),
        (fit_command, (table, "--labels", "t", "-o", tmp_path / "m", "--kind", "a=b"), "'a=b'"),
        (complete_command, (model, table, "-o", paths["out.csv"]), "--force"),
        (inspect_command, (table, "--labels", "t", "--separator", ""), "one character"),
        (inspect_command, (table, "--labels", "t", "--separator", ";;"), "one character"),
        (inspect_command, (table, "--labels", "t", "--decimal", "xx"), "one character"),
        (inspect_command, (table, "--labels", "t", "--encoding", "foo"), "not a text encoding"),
        (
            complete_command,
            (model, table, "-o", tmp_path / "a.csv", "--details", tmp_path / "a.csv"),
            "--output and --details are the same file",
        ),
        (inspect_command, (table, "--labels", "tapic_*"), "no column 'tapic_*'"),
        (inspect_command, (table, "--labels", "99"), "labels=99"),
        (inspect_command, (table, "--labels", "topic_*", "--kind", "q=text"), "column 'q'"),
        (inspect_command, (table, "--labels", "topic_*", "--drop", "q"), "no column 'q'"),
        (
            fit_command,
            (table, "--labels", "topic_*", "--drop", "q", "-o", tmp_path / "m"),
            "no column 'q'",
        ),
        (evaluate_command, (table, "--labels", "topic_*", "--kind", "q=text"), "column 'q'"),
        (predict_command, (model, table, "-o", tmp_path / "a.csv", "--keep", "q"), "no column 'q'"),
        (
            predict_command,
            (model, table, "-o", tmp_path / "a.csv", "--keep", "topic_bug"),
            "'topic_bug' cannot be kept",
        ),
        (
            predict_command,
            (model, taken, "-o", tmp_path / "a.csv", "--keep", "topic_bug__score"),
            "'topic_bug__score' cannot be kept",
        ),
        (explain_command, (model, "--label", "q"), "no label 'q'"),
    )
    for command, arguments, part in wrong_usage:
        result = invoke(command, *arguments)
        assert result.exit_code == 2, arguments
        assert part in result.stderr
    wrong_data = (
        (complete_command, (table, table, "-o", tmp_path / "a.csv"), "not a zip file"),
        (complete_command, (model, table, "-o", tmp_path / "a.parquet"), "must end in .csv"),
        (predict_command, (model, table, "-o", tmp_path / "a.doc"), "must end in"),
        (
            complete_command,
            (model, bare, "-o", tmp_path / "a.csv"),
            "the file lacks 10 of the 10 labels of the model",
        ),
    )
    for command, arguments, part in wrong_data:
        result = invoke(command, *arguments)
        assert result.exit_code == 1, arguments
        assert part in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", ["itself", "dots", "link", "hard link"])
def test_an_output_never_replaces_an_input(way, journey, tmp_path):
    table, model = tmp_path / "in.csv", tmp_path / "m.dm2l"
    shutil.copy(journey[0]["in.csv"], table)
    shutil.copy(journey[0]["model.dm2l"], model)
    before = table.read_bytes(), model.read_bytes()

    def named(path):
        other = tmp_path / f"other{path.suffix}"
        other.unlink(missing_ok=True)
        if way == "link":
            other.symlink_to(path)
        elif way == "hard link":
            other.hardlink_to(path)
        else:
            other = path if way == "itself" else tmp_path / ".." / tmp_path.name / path.name
        return other

    labels, out = ("--labels", "topic_*"), tmp_path / "o.csv"
    cases = (
        (fit_command, (table, *labels, *FIXED, "-o", named(table)), "TABLE and --output"),
        (complete_command, (model, table, "-o", named(table)), "TABLE and --output"),
        (complete_command, (model, table, "-o", out, "--details", named(table)), "--details"),
        (complete_command, (model, table, "-o", named(model)), "MODEL and --output"),
        (predict_command, (model, table, "-o", named(table)), "TABLE and --output"),
        (suggest_command, (model, table, "-o", named(table)), "TABLE and --output"),
        (audit_command, (model, table, "-o", named(table)), "TABLE and --output"),
    )
    for command, arguments, part in cases:
        result = invoke(command, *arguments, "--force")
        assert result.exit_code == 2, arguments
        assert part in result.stderr
        assert "are the same file" in result.stderr
    assert before == (table.read_bytes(), model.read_bytes())


def test_outputs_that_differ_in_case_alone_are_refused(journey, tmp_path):
    model, table = journey[0]["model.dm2l"], journey[0]["in.csv"]
    arguments = (model, table, "-o", tmp_path / "o.csv", "--details", tmp_path / "O.csv")
    result = invoke(complete_command, *arguments)
    assert result.exit_code == 2
    assert "are the same file" in result.stderr


def test_a_file_that_is_none_is_a_data_problem(tmp_path):
    for name in ("a.mat", "a.npz", "a.svm", "a.arff", "a.parquet"):
        (tmp_path / name).write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + b"\x0e" * 9)
        result = invoke(inspect_command, tmp_path / name, "--labels", "a")
        assert result.exit_code == 1, name
        assert f"Error: {tmp_path / name}" in result.stderr


def test_a_tab_is_a_separator_that_can_be_typed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\ta\n1,2\t1\n3,4\t0\n5,6\t\n")
    result = succeed(inspect_command, path, "--labels", "a", "--separator", "\\t", "--json")
    assert json.loads(result.stdout)["uses"][0]["name"] == "x,y"
    assert json.loads(result.stdout)["n_rows"] == 3


def test_force_overwrites_and_leaves_nothing_else_behind(journey, tmp_path):
    paths = journey[0]
    output = tmp_path / "o.csv"
    output.write_text("precious")
    succeed(complete_command, paths["model.dm2l"], paths["in.csv"], "-o", output, "--force")
    assert output.read_bytes() == paths["out.csv"].read_bytes()
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.skipif(os.name != "posix", reason="links need a right of their own elsewhere")
def test_a_link_stays_a_link_to_what_is_written(journey, tmp_path):
    paths = journey[0]
    target, link = tmp_path / "far" / "target", tmp_path / "o.csv"
    target.parent.mkdir()
    link.symlink_to(target)
    arguments = (complete_command, paths["model.dm2l"], paths["in.csv"], "-o", link)
    succeed(*arguments)
    assert target.read_bytes() == paths["out.csv"].read_bytes()
    target.write_text("precious")
    assert invoke(*arguments).exit_code == 2
    assert target.read_text() == "precious"
    succeed(*arguments, "--force")
    assert target.read_bytes() == paths["out.csv"].read_bytes()
    assert link.is_symlink()
    assert sorted(tmp_path.rglob("*")) == sorted([link, target.parent, target])
    link.unlink()
    link.symlink_to(tmp_path / "none" / "target")
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "does not exist" in result.stderr


def test_details_go_to_a_second_file(journey, tmp_path):
    paths, _, observed, _ = journey
    output, details = tmp_path / "o.csv", tmp_path / "d.tsv"
    arguments = (paths["model.dm2l"], paths["in.csv"], "-o", output, "--details", details)
    succeed(complete_command, *arguments, "--margin", 0.3)
    header = output.read_bytes().split(b"\r\n")[0]
    assert header == paths["in.csv"].read_bytes().split(b"\r\n")[0]
    found = pd.read_csv(details, sep="\t")
    assert len(found) == (~observed).sum()
    near = (found["probability"] - 0.5).abs() <= 0.3
    clear = ((found["probability"] - 0.5).abs() - 0.3).abs() > 1e-4  # four digits are shown
    assert ((found["look"] == "yes") == near)[clear].all()
    full = pd.read_csv(paths["out.csv"])
    row = found.iloc[len(found) // 2]
    assert full[f"{row['label']}__probability"][row["row"] - 1] == row["probability"]
    assert full[row["label"]][row["row"] - 1] == row["answer"]


def test_new_rows_with_unknown_categories_and_blanks_are_predicted(journey, tmp_path):
    model = journey[0]["model.dm2l"]
    path, output = tmp_path / "new.csv", tmp_path / "scores.csv"
    rows = [
        ["vip", "amount", "text", "channel", "hours", "name", "opened"],
        ["yes", "80", "refund my money, at once", "carrier pigeon", "", 'O"Brien, Zoë', ""],
        ["", "", "", "", "", "x", ""],
        ["no", "15", "app crash exception on android phone", "e-mail", "17", "", "2024-05-01"],
    ]
    file = io.StringIO()
    csv.writer(file).writerows(rows)
    path.write_text(file.getvalue(), encoding="utf-8")
    succeed(predict_command, model, path, "-o", output, "--keep", "name")
    found = pd.read_csv(output, keep_default_na=False)
    assert found["row"].tolist() == [1, 2, 3]
    assert found["name"].tolist() == ['O"Brien, Zoë', "x", ""]
    p = found[[f"{name}__probability" for name in LABELS]]
    assert p.notna().all(axis=None)
    assert p["topic_refund__probability"].idxmax() == 0
    assert p["topic_bug__probability"].idxmax() == 2
    for name in LABELS:
        says = np.where(found[f"{name}__probability"] > 0.5, "Yes", "No")
        np.testing.assert_array_equal(found[name], says)
    bad = invoke(predict_command, model, path, "-o", output, "--force", "--separator", ";")
    assert bad.exit_code == 1
    assert "'text', 'channel', 'amount', 'hours', 'vip'" in bad.stderr


@pytest.mark.parametrize(
    ("yes", "no", "typed"),
    [
        (True, False, (True, False)),
        (1, -1, (1, -1)),
        (1.0, 0.0, (1, 0)),
        ("TRUE", "FALSE", ("TRUE", "FALSE")),
        ("active", None, ("active", "inactive")),
    ],
)
def test_predictions_are_in_the_words_and_types_of_the_table(yes, no, typed, tmp_path):
    mass = [i / 7 - 4 for i in range(60)]
    other = ["yes" if m > 1 else "no" for m in mass]
    frame = pd.DataFrame({"mass": mass, "a": [yes if m > 0 else no for m in mass], "b": other})
    frame["a"] = frame["a"].astype(object).where(frame.index % 4 > 0, None)
    paths = [tmp_path / name for name in ("in.parquet", "m.dm2l", "o.parquet", "o.csv")]
    frame.to_parquet(paths[0])
    blank = ("--missing-as", "unlabelled") if no is None else ()
    few = ("--estimate-folds", 0, "-o", paths[1], *FIXED, *blank)
    succeed(fit_command, paths[0], "--labels", "a,b", *few)
    for output in paths[2:]:
        succeed(predict_command, paths[1], paths[0], "-o", output)
    found = pd.read_parquet(paths[2])
    assert set(found["a"].tolist()) <= set(typed)
    assert type(found["a"].tolist()[0]) is type(typed[0])
    assert set(found["b"]) == {"yes", "no"}
    assert set(pd.read_csv(paths[3], dtype=str)["a"]) <= set(map(str, typed))
    if no is not None:
        assert found["a"][59] == typed[0]
        assert found["a"][1] == typed[1]


@pytest.fixture(scope="module")
def commas(tmp_path_factory):
    """A table with decimal commas, and a model of it."""
    folder = tmp_path_factory.mktemp("commas")
    path, model = folder / "in.csv", folder / "model.dm2l"
    rows = [f"k{i};{i / 7 - 4:.3f};{i % 5 > 1:d}".replace(".", ",") for i in range(60)]
    path.write_text("\n".join(["key;mass;a", *rows]))
    comma = ("--decimal", ",", "--estimate-folds", 0, "-o", model)
    succeed(fit_command, path, "--labels", "a", *comma, *FIXED)
    return path, model


def test_a_feature_can_be_kept_and_is_still_the_same_number(commas, tmp_path):
    path, model = commas
    found = []
    for number, keep in enumerate([(), ("--keep", "mass", "--keep", "mass")]):
        output = tmp_path / f"{number}.csv"
        result = succeed(predict_command, model, path, "--decimal", ",", "-o", output, *keep)
        assert "no number" not in result.stderr
        found.append(pd.read_csv(output, dtype=str))
    assert found[1].pop("mass").tolist() == pd.read_csv(path, sep=";", dtype=str)["mass"].tolist()
    pd.testing.assert_frame_equal(*found)


def test_a_filled_table_has_the_decimal_commas_of_its_own(commas, tmp_path):
    path, model = commas
    holes, filled, scores = (tmp_path / name for name in ("holes.csv", "filled.csv", "scores.csv"))
    header, *lines = path.read_text().splitlines()
    some = [line[:-1] if i % 4 == 0 else line for i, line in enumerate(lines)]
    holes.write_text("\n".join([header, *some]))
    succeed(complete_command, model, holes, "-o", filled)
    found = pd.read_csv(filled, sep=";", decimal=",")
    assert found["a__probability"].between(0, 1).sum() == found["a__look"].notna().sum() == 15
    result = succeed(predict_command, model, filled, "-o", scores)
    assert "not a number" not in result.stderr
    again = succeed(inspect_command, filled, "--labels", "a*")
    said = "".join((again.stderr + again.stdout).split())
    assert "2columns('a__probability','a__look')areleftout:anoutputofdm2l" in said


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_are_kept_letter_by_letter(commas, tmp_path, suffix):
    keys = ["NA", "null", "007", " a ", "", 'x"y;z', "1e3", "?"]
    columns = {"mass": ["1,5"] * len(keys), "key": keys, "other": ["0,50"] * len(keys)}
    path, output = tmp_path / "new.csv", tmp_path / f"scores.{suffix}"
    path.write_text(as_csv(columns, separator=";"))
    keep = ("--keep", "other", "--keep", "key")
    succeed(predict_command, commas[1], path, "--decimal", ",", "-o", output, *keep)
    if suffix == "csv":
        found = pd.read_csv(output, dtype=str, na_filter=False)
        assert found["key"].tolist() == keys
    else:
        found = pd.read_parquet(output)
        assert found["key"].isna().tolist() == [key == "" for key in keys]
        assert found["key"].fillna("").tolist() == keys
    assert found.columns[:3].tolist() == ["row", "other", "key"]
    assert set(found["other"]) == {"0,50"}


def test_a_label_named_like_another_column_of_predictions_is_refused(tmp_path):
    path, model = tmp_path / "in.csv", tmp_path / "model.dm2l"
    rows = [f"{i / 7 - 4:.3f},{i % 5 > 1:d},{i % 3 > 1:d}" for i in range(60)]
    path.write_text("\n".join(["mass,a,a__score", *rows]))
    succeed(fit_command, path, "--labels", 2, "--estimate-folds", 0, "-o", model, *FIXED)
    result = invoke(predict_command, model, path, "-o", tmp_path / "o.csv")
    assert result.exit_code == 1
    assert "label 'a__score' has the same name as another column" in result.stderr


def test_values_that_are_no_numbers_are_warned_of(journey, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("opened,vip,amount,text,channel,hours\n,yes,lots,refund,e-mail,3\n")
    result = succeed(predict_command, journey[0]["model.dm2l"], path, "-o", tmp_path / "o.parquet")
    assert "warning: column 'amount': 'lots' in row 1 is not a number" in result.stderr
    assert len(pd.read_parquet(tmp_path / "o.parquet")) == 1


def test_suggest_writes_a_ranking_of_the_holes(journey, tmp_path):
    paths, _, observed, _ = journey
    output = tmp_path / "ask.csv"
    result = succeed(
        suggest_command, paths["model.dm2l"], paths["in.csv"], "-o", output, "--top", 25, "--json"
    )
    found = pd.read_csv(output)
    assert list(found.columns) == ["row", "label", "probability", "value"]
    assert len(found) == 25
    assert found["value"].is_monotonic_decreasing
    for row, label in zip(found["row"], found["label"], strict=True):
        assert not observed[row - 1, LABELS.index(label)]
    assert json.loads(result.stdout)["suggestions"] == found.to_dict("records")


def test_suggest_ranks_rows_and_keeps_columns(journey, tmp_path):
    paths, _, observed, _ = journey
    table = pd.read_csv(paths["in.csv"], dtype=str)
    usual = (paths["model.dm2l"], paths["in.csv"])
    keep = ("--top", 5, "--keep", "ticket")
    shown = succeed(suggest_command, *usual, "-o", tmp_path / "a.csv", *keep).stdout.splitlines()
    found = pd.read_csv(tmp_path / "a.csv")
    assert shown[0].split() == list(found.columns)
    first = found.iloc[0].to_dict()
    numbers = [f"{first.pop(name):.3f}" for name in ("probability", "value")]
    assert shown[1].split() == [*map(str, first.values()), *numbers]
    assert list(found.columns) == ["row", "ticket", "label", "probability", "value"]
    assert found["ticket"].tolist() == table["ticket"][found["row"] - 1].tolist()
    result = succeed(suggest_command, *usual, "-o", tmp_path / "b.csv", "--rows", "--json")
    rows = pd.read_csv(tmp_path / "b.csv")
    assert json.loads(result.stdout)["suggestions"] == rows.to_dict("records")
    assert rows["value"].is_monotonic_decreasing
    holes = (~observed).sum(axis=1)
    assert rows["open"].tolist() == holes[rows["row"] - 1].tolist()
    assert sorted(rows["row"]) == (1 + np.flatnonzero(holes)).tolist()
    for name in ("nothing", "value"):
        result = CliRunner().invoke(
            suggest_command, [*map(str, usual), "-o", str(tmp_path / "c.csv"), "--keep", name]
        )
        assert result.exit_code == 2, result.output


def test_explain_names_words_and_labels(journey):
    result = succeed(explain_command, journey[0]["model.dm2l"], "--label", "topic_login", "--json")
    (found,) = json.loads(result.stdout)["labels"]
    assert found["label"] == "topic_login"
    assert found["features"][0][0].startswith("text: ")
    assert "topic_security" in [name for name, _ in found["together"][:3]]
    shown = succeed(explain_command, journey[0]["model.dm2l"]).stdout
    assert all(f"{name}\n" in shown for name in LABELS)
    assert max(map(len, shown.splitlines())) <= 80


def test_evaluate_puts_methods_side_by_side(journey, evaluated_once):
    path = journey[0]["in.csv"]
    arguments = (path, "--labels", "topic_*", "--repetitions", 2, *FIXED)
    result = succeed(evaluate_command, *arguments, "--json")
    found = json.loads(result.stdout)
    assert found["gains"]["missing = negative"]["label_average_precision"]["mean"] > 0
    assert [quality["label"] for quality in found["labels"]] == LABELS
    assert not result.stderr  # progress is for terminals
    shown = succeed(evaluate_command, *arguments).stdout
    for part in ("as no: missing = negative", "masked ridge", "Brier", "topic_legal"):
        assert part in shown
    wide = succeed(evaluate_command, *arguments, "--wide").stdout
    mean = found["methods"]["masked ridge"]["brier"]
    assert f"{mean['mean']:.3f} [{mean['low']:.3f}, {mean['high']:.3f}]" in wide


def test_explain_of_a_kernel_model_counts_its_columns(monkeypatch):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    frame["y"], frame["z"] = frame["a"] > 0, frame["b"] > 0
    options = FitOptions(kernel="rbf", lambda_d=0.1, alpha=0.3, cv=2)
    model = fit_table(table_from_frame(frame, ["y", "z"]), options, estimate_folds=0)
    whole, lines = explain_model(model), []
    monkeypatch.setattr(_explanation, "MOST_NUMBERS", 1)  # a column at a time
    found = explain_model(model, tell=lines.append)
    assert dict(found[0].features) == pytest.approx(dict(whole[0].features))
    assert [item.features[0][0] for item in found] == ["a", "b"]
    assert lines == [f"shuffling column {j} of 3" for j in (1, 2, 3)]


def test_numbers_of_0_and_1_are_yes_and_no_and_99_6_percent_is_not_all(tmp_path):
    path = tmp_path / "t.csv"
    frame = pd.DataFrame({"dose": range(0, 5000, 20), "smoker": [0, 1] * 125, "y": [None] * 250})
    frame.loc[[3], "y"] = 1
    frame.to_csv(path, index=False)
    shown = succeed(inspect_command, path, "--labels", "y").stdout
    assert "yes/no (1): smoker" in shown
    assert "249 of 250 label entries are missing (99.6%)." in shown
    assert [percent(k, 3820) for k in (0, 1, 1910, 3803, 3819, 3820)] == [
        *("0%", "0.1%", "50%", "99.6%", "99.9%", "100%")
    ]


def test_labels_that_receive_no_positive_are_told(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=200)})
    frame["t_rare"] = np.where(rng.random(200) < 0.06, 1.0, 0.0)
    frame["t_half"] = (frame["x"] > 0).astype(float)
    frame.loc[::3, ["t_rare", "t_half"]] = np.nan
    path, model, out = (tmp_path / name for name in ("t.csv", "m.dm2l", "o.csv"))
    frame.to_csv(path, index=False)
    options = ("--labels", "t_*", *FIXED, "--estimate-folds", 0)
    succeed(fit_command, path, *options, "-o", model)
    for command in (complete_command, predict_command):
        said = succeed(command, model, path, "-o", out, "--force").stderr
        assert said.count("1 label has no predicted positive ('t_rare')") == 1


def test_evaluation_fits_into_80_columns_and_breaks_no_name(capsys):
    value = Interval(0.8125, 0.7525, 0.8725)
    names = (AUTOMATIC, *METHODS[1:])
    values = {key: value for key, *_ in MEASURES}
    gains = dict.fromkeys(names[1:], values)
    labels = [LabelQuality("disappointment_or_sadness", 1234, 123, *[0.5] * 5)]
    found = TableEvaluation(0.2, 5, 100, dict.fromkeys(names, values), gains, labels, [])
    _show_evaluation(found)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.count("0.812") == 4 * len(MEASURES) + 3
    assert "…" not in shown
    long = replace(labels[0], label="a_name_of_a_label_" * 6)
    _show_evaluation(replace(found, labels=[long]), wide=True)
    shown = capsys.readouterr().out
    assert long.label in shown
    assert shown.count("0.812 [0.752, 0.873]") == 4 * len(MEASURES)


def test_positive_unlabelled_evaluation_shows_only_what_can_be_estimated(capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    for k, name in enumerate(("t_x", "t_y")):
        yes = frame.iloc[:, k] + 0.3 * rng.normal(size=200) > 0.5
        frame[name] = np.where(yes & (rng.random(200) < 0.7), 1.0, np.nan)
    options = FitOptions("linear", 0.0, 1.0, cv=2, missing_as="unlabelled")
    found = evaluate_table(table_from_frame(frame, "t_*"), options, repetitions=2)
    assert list(found.methods) == ["DM2L", "missing = negative"]
    hidden = sum(label.n_hidden for label in found.labels)
    assert abs(hidden - 2 * found.n_hidden) <= 2
    known = {key for key, value in found.methods["DM2L"].items() if value.mean == value.mean}
    assert known == {"label_auc", "f1_macro", "accuracy"}
    assert found.methods["DM2L"]["label_auc"].mean > 0.9
    _show_evaluation(found)
    shown = capsys.readouterr().out
    assert "overlooked positives" in shown
    assert "macro AUC" in shown
    assert not re.search(r" -( |$)|average precision|ridge|alone", shown)


def test_rankings_of_rows_are_estimated_for_complete_rows():
    rng = np.random.default_rng(0)
    score = rng.normal(size=(1500, 10)) - 1.0
    truth = (score + rng.normal(size=score.shape) > 0).astype(float)
    p, key = 1 / (1 + np.exp(-score)), "label_ranking_average_precision"
    full = measure(truth, score, p, p > 0.5)[key]
    assert full == pytest.approx(label_ranking_average_precision_score(*_ranked(truth, score)))
    hidden = [np.where(rng.random(truth.shape) < 0.2, truth, np.nan) for _ in range(6)]
    for estimate in (True, False):  # as fit and evaluate call it
        found = [measure(Y, score, p, p > 0.5, estimate=estimate)[key] for Y in hidden]
        assert np.mean(found) == pytest.approx(full, abs=0.04)


def _ranked(truth, score):
    both = (truth.max(axis=1) == 1) & (truth.min(axis=1) == 0)
    return truth[both], score[both]


def test_the_brackets_of_fit_hold_what_as_many_new_rows_would_show():
    """A test of as many rows as a fold has lies within them 19 times of 20."""
    rng = np.random.default_rng(0)
    inside = []
    for draw in range(60):
        Y = (rng.random((600, 3)) < 0.15).astype(float)
        p = 1 / (1 + np.exp(-(rng.normal(size=Y.shape) + 1.2 * Y)))
        fold = np.arange(500) % 5
        model = SimpleNamespace(held_out_=p[:500], held_out_folds_=fold)
        found = estimate_auto(model, Y[:500], ["a", "b", "c"]).values["label_auc"]
        if draw < 10:  # an interval takes less time than this independent mean
            # Rows are compared within their fold, and every positive counts the same.
            parts = [np.flatnonzero(fold == k) for k in range(5)]
            of_labels = [
                np.average(
                    [roc_auc_score(Y[part, j], p[part, j]) for part in parts],
                    weights=[Y[part, j].sum() for part in parts],
                )
                for j in range(3)
            ]
            assert found.mean == pytest.approx(np.mean(of_labels))
        inside.append(found.low <= label_auc(Y[500:], p[500:]) <= found.high)
    assert np.mean(inside) >= 0.88


def test_json_is_all_that_goes_to_standard_output(journey, tmp_path):
    paths = journey[0]
    model, table, labels = paths["model.dm2l"], paths["in.csv"], ("--labels", "topic_*")
    for command, arguments in (
        (inspect_command, (table, *labels)),
        (fit_command, (table, *labels, "-o", tmp_path / "m", *FIXED, "--estimate-folds", 2)),
        (complete_command, (model, table, "-o", tmp_path / "o.csv")),
        (predict_command, (model, table, "-o", tmp_path / "p.csv")),
    ):
        found = json.loads(succeed(command, *arguments, "--json").stdout)
        assert isinstance(found, dict)
        assert "NaN" not in json.dumps(found)


def test_a_label_that_cannot_be_learnt_is_a_warning(tmp_path):
    columns, truth, observed = make_table(60)
    labels = spell(truth, observed) | {"topic_none": [""] * 60, "topic_all": ["1"] * 60}
    path = tmp_path / "t.csv"
    path.write_text(as_csv(columns, labels), encoding="utf-8")
    arguments = (path, "--labels", "topic_*", "-o", tmp_path / "m", *FIXED)
    result = succeed(fit_command, *arguments, "--estimate-folds", 2)
    assert result.stderr.count("'topic_none' cannot be learned because no entry is observed") == 1
    succeed(complete_command, tmp_path / "m", path, "-o", tmp_path / "o.csv")
    assert pd.read_csv(tmp_path / "o.csv")["topic_none"].isna().all()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_reads_like_a_sentence_and_ends_in_an_example(command):
    text = invoke(command, "--help").stdout
    summary = command.help.split("\n")[0]
    assert summary.endswith(".")
    assert f"Example: dm2l {command.name} " in text
    assert len(text.partition("Options:")[0].partition("Example:")[2].strip().split("\n")) == 1
    assert "'" not in text.partition("Example:")[2].partition("Options:")[0]
    assert "--json" in text
    named = {option for parameter in command.params for option in parameter.opts}
    assert bool({"-o", "--write-rules"} & named) == ("--force" in named), named


def test_the_help_of_scoring_names_the_defaults_of_the_search():
    text = " ".join(invoke(fit_command, "--help").stdout.split())
    assert "ranking_and_discrimination, or label_discrimination if" in text


def test_quotes_that_windows_passes_on_are_removed(tmp_path):
    columns, truth, observed = make_table(60)
    path = tmp_path / "t.csv"
    path.write_text(as_csv(columns, spell(truth, observed, "seen", "No")), encoding="utf-8")
    positive, kind = ("--positive", "'topic_*=seen'"), ("--kind", "'channel=text'")
    arguments = ("--labels", "'topic_*'", *positive, *kind, "--drop", "'vip'", "--json")
    found = json.loads(succeed(inspect_command, path, *arguments).stdout)
    assert [label["label"] for label in found["labels"]] == LABELS
    kinds = {use["name"]: use["kind"] for use in found["uses"]}
    assert (kinds["vip"], kinds["channel"]) == ("dropped", "text")


def test_fit_prints_a_line_for_each_model_and_hyperparameters_on_request(tmp_path):
    columns, truth, observed = make_table(80)
    (tmp_path / "in.csv").write_text(as_csv(columns, spell(truth, observed)))
    arguments = (tmp_path / "in.csv", "--labels", "topic_*", "-o", tmp_path / "m.dm2l", "--force")
    quick = (*arguments, "--effort", "quick")
    shown = succeed(fit_command, *quick).stdout
    assert "lambda_d" not in shown
    wanted = "(linear|logistic regression|rbf kernel|stack)  "
    assert sum(bool(re.match(wanted, line)) for line in shown.splitlines()) == 4
    assert "CV AUC" in shown
    assert "rbf kernel: lambda_d" in succeed(fit_command, *quick, "--verbose").stdout


def test_a_kernel_model_goes_the_same_way(journey, tmp_path):
    table, labels = journey[0]["in.csv"], ("--labels", "topic_billing,topic_login")
    settings = ("--kernel", "rbf", "--lambda-d", 0.1, "--alpha", 0.3, "--estimate-folds", 0)
    model = tmp_path / "m.dm2l"
    drop = ("--drop", "vip", "--drop", "topic_*", "--kind", "channel=text")
    fitted = succeed(fit_command, table, *labels, *settings, *drop, "-o", model, "--json")
    columns = {use["name"]: use["kind"] for use in json.loads(fitted.stdout)["columns"]}
    found = (columns["vip"], columns["topic_security"], columns["channel"])
    assert found == ("dropped", "dropped", "text")
    succeed(complete_command, model, table, "-o", tmp_path / "o.csv")
    found = json.loads(succeed(explain_command, model, "--json").stdout)
    assert found["kernel"] == "rbf"
    carried = {item["label"]: item["features"][0][0] for item in found["labels"]}
    assert carried["topic_login"] == "text"
