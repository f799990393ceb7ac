"""A clinic's table: yes, no and blank in most labels, ticks in one, codes, copies of rows."""

import re

import numpy as np
import pandas as pd
import pytest

from dm2l import ConstantLabelWarning
from dm2l._auto._leaderboard import DISCARDED
from dm2l.cli._commands import cli
from dm2l.cli._learn import _show_leaderboard
from dm2l.tables import FitOptions, complete_table, fit_table, load_bundle, table_from_frame
from dm2l.tables._model import read_for
from terminal import command_runner

N_ROWS = 120
FIXED = ("--kernel", "linear", "--lambda-d", "0.1", "--alpha", "0.3", "--folds", "3")
QUICK = (*FIXED, "--estimate-folds", "0")


def run(*arguments, code=0):
    """What a command prints, standard output and standard error together, on one line."""
    runner = command_runner()
    found = runner.invoke(cli, [str(part) for part in arguments])
    assert found.exit_code == code, (found.stdout, found.stderr, found.exception)
    return " ".join((found.stdout + found.stderr).split())


def clinic(tick="yes"):
    """Visits; ``dx_parasite`` has ticks alone."""
    rng = np.random.RandomState(0)
    age, weight = rng.uniform(1, 15, N_ROWS).round(2), rng.uniform(2, 40, N_ROWS).round(3)
    frame = pd.DataFrame({"age": age, "weight": weight, "species": ["dog", "cat"] * (N_ROWS // 2)})
    for name, yes in (("dx_teeth", age > 8), ("dx_obese", weight > 20), ("dx_ear", age < 5)):
        frame[name] = np.where(rng.uniform(size=N_ROWS) < 0.3, "", np.where(yes, "yes", "no"))
    # People write as they like.
    frame.loc[frame.index[::11], "dx_ear"] = frame["dx_ear"][::11].str.upper() + " "
    frame["dx_parasite"] = np.where(rng.uniform(size=N_ROWS) < 0.1, tick, "")
    return frame


@pytest.fixture
def visits(tmp_path):
    path = tmp_path / "visits.csv"
    clinic().to_csv(path, index=False)
    return path


# ------------------------------------------------------------------- labels with one answer


def test_blanks_of_a_label_with_one_answer_stay_blank_and_that_is_said(visits, tmp_path):
    model, out = tmp_path / "m.dm2l", tmp_path / "o.csv"
    said = run("fit", visits, "--labels", "dx_*", *QUICK, "-o", model)
    assert said.count("label 'dx_parasite' cannot be learned because no entry is negative") == 1
    assert "--missing-as unlabelled" in said
    before = pd.read_csv(visits, dtype=str)
    n_blank = before["dx_parasite"].isna().sum()
    said = run("complete", model, visits, "-o", out)
    assert (
        f"'dx_parasite': {n_blank} missing entries were not filled because no entry is negative"
        in said
    )
    assert "--missing-as unlabelled" in said
    after = pd.read_csv(out, dtype=str)
    pd.testing.assert_series_equal(after["dx_parasite"], before["dx_parasite"])
    assert after["dx_parasite__probability"].isna().all()
    assert after["dx_teeth"].notna().all()
    said = run("predict", model, visits, "-o", tmp_path / "p.csv")
    assert "'dx_parasite': the prediction is the same in every row" in said


@pytest.mark.parametrize(
    ("cells", "lack"), [("no", "no entry is positive"), (None, "no entry is observed")]
)
def test_what_is_lacking_is_said_of_every_label_with_one_answer(cells, lack):
    frame = clinic().drop(columns="dx_parasite").assign(dx_rare=cells)
    frame.loc[::2, "dx_rare"] = None
    table = table_from_frame(frame, "dx_*")
    with pytest.warns(ConstantLabelWarning, match=f"'dx_rare' cannot be learned because {lack}"):
        model = fit_table(table, FitOptions("linear", 0.1, 1.0), estimate_folds=0)
    for bound in (None, 0.5):
        found = complete_table(model, table, max_error_rate=bound)
        assert not found.filled[:, 3].any()
        assert np.isnan(found.probabilities[found.missing[:, 3], 3]).all()
        assert lack in found.warnings[-1]
    assert found.filled[:, :3].any()


# ------------------------------------------------------------------- what a yes is called


@pytest.mark.parametrize("tick", ["x", "found"])
def test_one_label_may_have_a_yes_of_its_own(tmp_path, tick):
    path, model, out = (tmp_path / name for name in ("t.csv", "m.dm2l", "o.csv"))
    frame = clinic(tick)
    frame.to_csv(path, index=False)
    told = () if tick == "x" else ("--positive", "dx_para*=found")
    options = ("--labels", "dx_*", "--missing-as", "unlabelled", *told, *QUICK)
    run("fit", path, *options, "-o", model)
    run("complete", model, path, "-o", out)
    filled = pd.read_csv(out, dtype=str)
    assert set(filled["dx_teeth"]) == {"yes", "no"}
    assert (filled["dx_parasite"][frame["dx_parasite"] == tick] == tick).all()
    assert set(filled["dx_parasite"]) == {tick, f"not {tick}"}
    run("inspect", out, "--labels", "dx_*", *told)  # what complete writes, other commands read
    # The model remembers it, also beside an answer of the other kind.
    filled.loc[filled["dx_parasite"] != tick, "dx_parasite"] = "0"
    filled.to_csv(path, index=False)
    Y = read_for(load_bundle(model), path).Y
    np.testing.assert_array_equal(Y[:, 3] == 1, filled["dx_parasite"] == tick)
    np.testing.assert_array_equal(Y[:, 0] == 1, filled["dx_teeth"] == "yes")


def test_a_value_without_a_label_is_that_of_all_others(tmp_path):
    frame = pd.DataFrame({"x": [1.0, 2, 3], "a": [1, 2, None], "b": ["old", None, "new"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = ("--positive", "2", "--positive", "b=new")
    said = run("inspect", tmp_path / "t.csv", "--labels", "a,b", *words, "--json")
    assert said.count('"positive": 1, "negative": 1') == 2


# ------------------------------------------------------------------- columns


def test_forgotten_labels_are_named_however_they_are_spelt(visits, tmp_path):
    frame = pd.read_csv(visits, dtype=str)
    frame["dx_full"], frame["indoors"] = (
        ["yes", "No"] * (N_ROWS // 2),
        ["no", "yes"] * (N_ROWS // 2),
    )
    frame.to_csv(visits, index=False)
    for command in (("inspect",), ("fit", *QUICK, "-o", tmp_path / "m.dm2l")):
        said = run(command[0], visits, "--labels", "dx_teeth,dx_obese", *command[1:])
        assert "3 feature columns have values like a label" in said
        assert "('dx_ear', 'dx_parasite', 'dx_full')" in said
    assert "values like" not in run("inspect", visits, "--labels", "dx_*")
    silent = ("--labels", "dx_teeth,dx_obese", "--kind", "dx_*=boolean")
    assert "values like" not in run("inspect", visits, *silent)


def test_a_label_that_is_dropped_is_neither_label_nor_feature(visits, tmp_path):
    model = tmp_path / "m.dm2l"
    dropped = ("--labels", "dx_*", "--drop", "dx_p*")
    said = run("inspect", visits, *dropped)
    assert "column 'dx_parasite' is left out: dropped on request" in said
    run("fit", visits, *dropped, *QUICK, "-o", model)
    found = load_bundle(model)
    assert found.label_names == ["dx_teeth", "dx_obese", "dx_ear"]
    assert not any("parasite" in feature.name for feature in found.features)
    assert "no column 'dx_q'" in run("inspect", visits, *dropped, "--drop", "dx_q", code=2)
    said = run("inspect", visits, "--labels", "dx_e*", "--drop", "dx_ear", code=2)
    assert "every label is dropped" in said
    said = run("inspect", visits, "--labels", "dx_ear", "--drop", "dx_ear", code=2)
    assert "'dx_ear' is listed both as a label" in said
    said = run("inspect", visits, "--labels", "dx_ear", "--drop", "dx_*")
    assert "columns, including 1 label column." in said


@pytest.mark.parametrize("quote", [False, True])
def test_numerals_with_leading_zeros_are_codes(tmp_path, quote):
    path, model = tmp_path / "t.csv", tmp_path / "m.dm2l"
    frame = clinic()
    frame.insert(0, "postcode", np.resize(["01067", "10115", "04109", ""], N_ROWS))
    frame.insert(1, "patient_no", [f"{7 * i:05d}" for i in range(N_ROWS)])
    frame.insert(2, "hours", [*range(N_ROWS - 1), "07"])  # one slip makes no codes
    frame.to_csv(path, index=False, quoting=1 if quote else 0)
    options = ("--labels", "dx_*")
    said = run("inspect", path, *options)
    assert "'postcode': codes with leading zeros, such as '01067'" in said
    assert "'patient_no' is left out: codes with leading zeros, such as '00000'" in said
    run("fit", path, *options, *QUICK, "-o", model)
    found = load_bundle(model)
    kinds = {use.name: use.kind for use in found.uses}
    assert [kinds[name] for name in ("postcode", "patient_no")] == ["category", "identifier"]
    assert kinds["hours"] in ("numeric", "identifier")
    assert "postcode=01067" in [feature.name for feature in found.features]
    assert read_for(found, path).frame["postcode"][0] == "01067"
    run("fit", path, *options, *QUICK, "-o", model, "--kind", "postcode=numeric", "--force")
    assert {use.name: use.kind for use in load_bundle(model).uses}["postcode"] == "numeric"


@pytest.mark.parametrize("mark", ["x", "seen", "1"])
@pytest.mark.parametrize("options", [QUICK, ("--effort", "quick")])
def test_whether_a_column_is_blank_is_what_it_says(tmp_path, mark, options):
    path, model, out = (tmp_path / name for name in ("t.csv", "m.dm2l", "p.csv"))
    ill = np.random.default_rng(1).uniform(size=N_ROWS) < 0.5
    frame = clinic()[["age", "dx_teeth"]].assign(shaved=np.where(ill, mark, ""))
    frame["dx_teeth"] = np.where(np.arange(N_ROWS) % 5 == 0, "", np.where(ill, "yes", "no"))
    frame.to_csv(path, index=False)
    said = run("fit", path, "--labels", "dx_teeth", *options, "-o", model)
    assert "or blank; read as present or absent" in said
    run("predict", model, path, "-o", out)
    assert ((pd.read_csv(out)["dx_teeth"] == "yes") == ill).all()


@pytest.mark.parametrize(("kind", "words"), [("numeric", "a number"), ("boolean", "yes or no")])
def test_a_kind_that_no_value_is_of_is_refused(visits, tmp_path, kind, words):
    for command in (("inspect",), ("fit", *QUICK, "-o", tmp_path / "m.dm2l"), ("evaluate", *FIXED)):
        asked = (command[0], visits, "--labels", "dx_*", *command[1:], "--kind", f"species={kind}")
        said = run(*asked, code=2)
        assert f"'species' cannot be {kind}, because none of its values is {words}" in said
        assert "row 1 has 'dog'" in said
    frame = pd.read_csv(visits, dtype=str)
    frame.loc[5, "species"] = "1"
    frame.to_csv(visits, index=False)
    said = run("inspect", visits, "--labels", "dx_*", "--kind", f"species={kind}")
    said_of = f"'species': 'dog' in row 1 is not {words} ({N_ROWS - 1} such values)"
    assert said_of in said


# ------------------------------------------------------------------- what is said


def test_ticks_promise_nothing_and_take_no_effort(visits, tmp_path):
    model = tmp_path / "m.dm2l"
    ticks = ("--labels", "dx_*", "--missing-as", "unlabelled")
    options = (*ticks, "--estimate-folds", 0, "--folds", 2)
    said = run("fit", visits, *options, "--effort", "best", "-o", model)
    assert "--effort is ignored because --missing-as unlabelled fits a single DM2L model" in said
    assert "--effort" not in run("fit", visits, *options, "-o", model, "--force")
    said = run(
        "complete", model, visits, "-o", tmp_path / "o.csv", "--max-error-rate", "5%", code=1
    )
    assert "--max-error-rate requires observed negatives" in said
    assert "missing_as" not in said
    assert "--missing-as unlabelled" in said
    assert "this version" not in said


def test_fit_warns_of_copies_unless_groups_keep_them_together(visits, tmp_path):
    frame = pd.read_csv(visits, dtype=str)
    pd.concat([frame, frame[:9]]).to_csv(visits, index=False)
    fit = ("fit", visits, "--labels", "dx_*", *QUICK, "-o", tmp_path / "m.dm2l", "--force")
    said = run(*fit)
    assert "9 rows have the same features as an earlier row" in said
    assert "--groups duplicates" in said
    assert "repeat" not in run(*fit, "--groups", "duplicates")


def test_a_part_that_was_given_up_says_why(capsys):
    board = {name: [np.nan] for name in ("label_auc", "log_loss", "weight", "auc_gain", "seconds")}
    board |= {"model": ["boosted trees"], "settings": ["depth 6"], "note": [DISCARDED]}
    _show_leaderboard(board, verbose=True)
    shown = capsys.readouterr().out
    assert f"depth 6; {DISCARDED}" in shown


def test_arguments_that_are_swapped_are_recognized(visits, tmp_path):
    model = tmp_path / "m.dm2l"
    run("fit", visits, "--labels", "dx_*", *QUICK, "-o", model)
    for command in ("complete", "predict", "suggest", "audit"):
        said = run(command, visits, model, "-o", tmp_path / "o.csv", code=2)
        assert f"are swapped. MODEL comes before TABLE: dm2l {command} m.dm2l" in said


def test_a_column_of_groups_is_no_feature_for_a_reason_of_its_own(visits, tmp_path):
    grouped = ("--groups", "species", "--labels", "dx_*", "-o", tmp_path / "m.dm2l")
    said = run("fit", visits, *grouped, *QUICK)
    assert "column 'species' is left out: used to group rows" in said


def test_evaluate_names_what_it_measures(visits):
    options = ("--labels", "dx_teeth,dx_obese", "--repetitions", 2)
    said = run("evaluate", visits, *options, "--effort", "quick")
    assert "automatic" in said
    assert "Difference in macro average precision: 'automatic' minus" in said
    assert "DM2L" not in said
    said = run("evaluate", visits, *options, *FIXED, "--repetitions", 1)
    assert "Difference in macro average precision: 'DM2L' minus" in said
    assert "- needs 2 repetitions" in said
    assert "nan" not in said


def test_a_bound_that_fills_nothing_says_which_one_would(visits, tmp_path):
    model, out = tmp_path / "m.dm2l", tmp_path / "o.csv"
    run("fit", visits, "--labels", "dx_*", "--drop", "dx_parasite", *QUICK, "-o", model)
    said = run("complete", model, visits, "-o", out, "--max-error-rate", "0.01%")
    found = re.search(
        r"No label was filled\. A limit of at least ([0-9.]+)% is needed to fill a label", said
    )
    assert "Expected error rate:" not in said
    least = float(found[1])
    bounds = (("--max-error-rate", f"{least:g}%"), ("--max-error-rate", f"{least - 0.1:g}%"))
    enough, less = (run("complete", model, visits, "-o", out, "--force", *one) for one in bounds)
    assert "No label was filled" not in enough
    assert "No label was filled" in less
