"""A clinical form: yes/no columns, an ordered column and a column of four values, with blanks."""

import io
import json
import re

import click
import numpy as np
import pandas as pd
import pytest

from dm2l.cli._commands import _printable_errors, cli
from dm2l.cli._learn import _span
from dm2l.cli._shared import warn
from dm2l.labels._rules import LabelRules
from dm2l.model_selection import Interval
from dm2l.review import Journal, ReviewSession
from dm2l.tables import (
    FitOptions,
    complete_table,
    evaluate_table,
    fit_table,
    load_bundle,
    read_table,
    table_from_frame,
)
from dm2l.tables._completion import counted_columns
from dm2l.tables._measures import Predictions, cell_accuracy
from dm2l.tables._model import read_for
from terminal import command_runner

LABELS = ("--labels", "fever,cough,itch,severity,lesion")
ORDER = ("--values", "severity=normal<mild<moderate<severe")
FIXED = ("--kernel", "linear", "--lambda-d", "0.1", "--alpha", "1", "--estimate-folds", "0")
LEVELS = np.array(["normal", "mild", "moderate", "severe"])
LESIONS = np.array(["crust", "papule", "scale", "ulcer"])
NAMES = ["fever", "cough", "itch", "severity", "lesion"]


def run(*arguments, code=0):
    """What a command prints, standard output and standard error together, on one line."""
    result = command_runner().invoke(cli, list(map(str, arguments)))
    assert result.exit_code == code, result.output + result.stderr
    return " ".join(f"{result.stdout} {result.stderr}".split())


def make_form(seed=0, n=240):
    """A form whose last column is hard to predict; some rows have no label at all."""
    rng = np.random.default_rng(seed)
    age, weight = rng.integers(1, 15, n), rng.normal(20, 6, n).round(1)
    a, b = (age - 7) / 4 + 0.3 * rng.normal(size=n), (weight - 20) / 6 + 0.3 * rng.normal(size=n)
    frame = pd.DataFrame({"visit": [f"V{i:04d}" for i in range(n)], "age": age, "weight": weight})
    frame["fever"] = np.where(a > 0.3, "yes", "no")
    frame["cough"] = np.where(a + 0.3 * rng.normal(size=n) > 0.5, "yes", "no")
    frame["itch"] = np.where(b > 0, "yes", "no")
    frame["severity"] = LEVELS[np.digitize(a + 0.5 * b, [-0.8, 0.2, 1.2])]
    frame["lesion"] = LESIONS[np.digitize(b + rng.normal(size=n), [-0.8, 0, 0.9])]
    truth = frame[NAMES].copy()
    frame[NAMES] = truth.mask(rng.random(truth.shape) < 0.28)
    frame.loc[::40, NAMES] = None
    return frame, truth


@pytest.fixture(scope="module")
def form(tmp_path_factory):
    """The folder of a form and of its model, and the form."""
    folder = tmp_path_factory.mktemp("form")
    frame, truth = make_form()
    frame.to_csv(folder / "form.csv", index=False)
    run("fit", folder / "form.csv", *LABELS, *ORDER, *FIXED, "-o", folder / "form.dm2l")
    return folder, frame, truth


# ------------------------------------------------------------------------------------ complete


def shares_of(p):
    """Probability of each value of an ordered column from those of its steps."""
    return -np.diff(np.concatenate([[1.0], p, [0.0]]))


@pytest.mark.parametrize("limit", [None, "20%"])
def test_the_probability_of_a_cell_is_that_of_the_value_it_gets_or_would_get(form, limit):
    folder, frame, _ = form
    model = load_bundle(folder / "form.dm2l")
    table = read_for(model, folder / "form.csv")
    out, bound = folder / f"p{limit}.csv", () if limit is None else ("--max-error-rate", limit)
    run("complete", folder / "form.dm2l", folder / "form.csv", "-o", out, *bound, "--force")
    written = pd.read_csv(out, dtype=str)
    found = complete_table(model, table, max_error_rate=limit and 0.2)
    (ordered, _), (values, _) = table.exclusive
    blank = np.flatnonzero(frame["severity"].isna())
    assert len(blank) > 40
    modes = 0
    for i in blank:
        p = found.probabilities[i, ordered]
        place = int((p > 0.5).sum())  # the highest value that is reached with more than one half
        assert float(written["severity__probability"][i]) == pytest.approx(
            shares_of(p)[place], abs=1e-4
        )
        cell = written["severity"][i]
        assert cell != cell if limit and not found.filled[i, ordered[0]] else cell == LEVELS[place]
        modes += place == shares_of(p).argmax()
    assert 0 < modes <= len(blank)
    for i in np.flatnonzero(frame["lesion"].isna()):
        p = found.probabilities[i, values]
        assert float(written["lesion__probability"][i]) == pytest.approx(p.max(), abs=1e-4)


def test_complete_counts_cells_and_names_the_expected_error_rate(form):
    folder, frame, truth = form
    blank = frame[NAMES].isna()
    command = ("complete", folder / "form.dm2l", folder / "form.csv", "-o", folder / "c.csv")
    said = run(*command, "--force")
    n = int(blank.sum().sum())
    assert f"{n} of {n} missing labels were filled." in said
    for name in ("severity", "lesion"):
        assert f"{name} {blank[name].sum()} - " in said
    assert "severity>=mild" not in said
    written = pd.read_csv(folder / "c.csv", dtype=str)
    rate = float(re.search(r"Expected error rate: ([\d.]+)% \(yes", said)[1]) / 100
    wrong = (written[NAMES] != truth)[blank].sum().sum() / n
    assert rate == pytest.approx(wrong, abs=0.07)
    # A row of its own for each probability: those of yes and of values are errors of the cell.
    p = written[[f"{name}__probability" for name in NAMES]].astype(float).to_numpy()
    yes = (written[NAMES[:3]] == "yes").to_numpy()
    right = np.hstack([np.where(yes, p[:, :3], 1 - p[:, :3]), p[:, 3:]])
    assert rate == pytest.approx(1 - right[blank.to_numpy()].mean(), abs=1e-3)


def test_a_limit_says_at_most_and_why_columns_stay_blank(form):
    folder, frame, _ = form
    command = ("complete", folder / "form.dm2l", folder / "form.csv", "-o", folder / "l.csv")
    said = run(*command, "--force", "--max-error-rate", "5%")
    assert "Expected error rate: at most " in said
    assert "the lowest limit with which a label is filled" in said
    lowest = re.search(r"lesion \(([\d.]+)%\)", said)[1]
    assert pd.read_csv(folder / "l.csv")["lesion"].isna().sum() == frame["lesion"].isna().sum()
    for share, filled in ((float(lowest), True), (float(lowest) - 0.2, False)):
        run(*command, "--force", "--max-error-rate", f"{share:.1f}%")
        left = pd.read_csv(folder / "l.csv")["lesion"].isna().sum()
        assert (left < frame["lesion"].isna().sum()) == filled


def test_a_table_without_known_labels_gets_no_warning_about_constant_answers(form):
    folder, frame, _ = form
    new = folder / "new.csv"
    frame.assign(**dict.fromkeys(NAMES, "")).to_csv(new, index=False)
    command = ("complete", folder / "form.dm2l", new, "-o", folder / "n.csv", "--force")
    assert "for every missing label" not in run(*command, "--max-error-rate", "5%")
    frame.assign(fever="no", cough="no", itch=["no"] * 200 + [None] * 40).to_csv(new, index=False)
    said = run(*command, "--max-error-rate", "5%")
    assert "100.0% of the known labels are no" in said


@pytest.mark.parametrize("limit", [None, "12%"])
def test_each_column_has_its_expected_error_rate(form, limit):
    folder, frame, _ = form
    both, bound = (folder / "form.dm2l", folder / "form.csv"), ("--max-error-rate", limit)
    command = ("complete", *both, "-o", folder / "e.csv", "--force", *bound[: 2 * bool(limit)])
    said = run(*command)
    written = pd.read_csv(folder / "e.csv", dtype=str)
    result = command_runner().invoke(cli, list(map(str, (*command, "--json"))))
    found = {one["label"]: one for one in json.loads(result.stdout)["labels"]}
    for name in NAMES:
        filled = frame[name].isna() & written[name].notna()
        if not filled.any():
            assert found[name]["expected_wrong"] is None
            continue
        p = written[f"{name}__probability"][filled].astype(float)
        wrong = p.where(written[name][filled] == "no", 1 - p) if name in NAMES[:3] else 1 - p
        assert found[name]["expected_wrong"] == pytest.approx(wrong.mean(), abs=1e-4)
        assert re.search(rf"{name} {filled.sum()} (\d+|-) \d+ {wrong.mean():.1%}", said)
    assert ("over all columns" in said) == bool(limit)


def test_columns_without_positives_and_with_many_errors_are_named():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 3)).round(3), columns=["a", "b", "c"])
    names = ["sure", "rare", "few"]
    frame["sure"] = np.where(frame["a"] > 0, "yes", "no")
    frame["rare"] = np.where(rng.random(300) < 0.06, "yes", "no")
    frame["few"] = np.where(frame["b"] + 0.2 * rng.normal(size=300) > 0, "yes", "no")
    frame[names] = frame[names].mask(rng.random((300, 3)) < 0.3)
    frame.loc[12:, "few"] = None  # with so few known labels, errors are hardly ever seen
    table = table_from_frame(frame, names)
    model = fit_table(table, FitOptions("linear", 0.1, 1.0), estimate_folds=0)
    found = complete_table(model, table, max_error_rate=0.06)
    columns = {one["label"]: one for one in counted_columns(found)}
    assert columns["rare"]["filled"] > 10
    assert columns["rare"]["positive"] == 0
    assert any("no predicted positive ('rare')" in line for line in found.warnings)
    above = [name for name in names if columns[name]["expected_wrong"] > 0.06]
    assert "few" in above
    assert "rare" not in above
    words = f"expected error rate of {', '.join(map(repr, above))} exceeds the limit, which applies"
    assert any(words in line for line in found.warnings)
    assert not any("exceeds the limit" in line for line in complete_table(model, table).warnings)


def test_a_cell_is_to_be_checked_if_its_value_is_not_probable_enough(form):
    folder, frame, _ = form
    both = (folder / "form.dm2l", folder / "form.csv")
    run("complete", *both, "-o", folder / "k.csv", "--force", "--margin", "0.1")
    written = pd.read_csv(folder / "k.csv", dtype=str)
    for name in ("severity", "lesion"):
        blank = frame[name].isna()
        p = written[f"{name}__probability"][blank].astype(float)
        assert ((written[f"{name}__look"][blank] == "yes") == (p <= 0.6)).all()
        assert (p < 0.4).any()
        assert (p > 0.6).any()


def test_the_summary_of_many_columns_shows_those_with_the_most_expected_errors(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    frame = pd.DataFrame(x.round(3), columns=["a", "b"])
    for k in range(14):
        noise = rng.normal(size=80) * (3 if k >= 4 else 0.1)
        frame[f"y{k}"] = np.where(x[:, 0] + noise > 0, "yes", "no")
        frame.loc[rng.random(80) < 0.3, f"y{k}"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    run("fit", tmp_path / "t.csv", "--labels", "y*", *FIXED, "-o", tmp_path / "m.dm2l")
    command = ("complete", tmp_path / "m.dm2l", tmp_path / "t.csv", "-o", tmp_path / "o.csv")
    said = run(*command)
    assert "These 10 of 14 columns have the most expected errors." in said
    result = command_runner().invoke(cli, list(map(str, (*command, "--json", "--force"))))
    found = json.loads(result.stdout)["labels"]
    assert len(found) == 14
    found.sort(key=lambda one: -one["filled"] * one["expected_wrong"])
    assert {one["label"] for one in found[:10]} == {*re.findall(r"\b(y\d+) \d+ \d+ \d+ ", said)}


# ------------------------------------------------------------------------------- own outputs


@pytest.mark.parametrize("suffix", [".csv", ".xlsx", ".parquet"])
def test_a_completed_table_can_be_completed_again(form, tmp_path, suffix):
    folder, frame, _ = form
    model, path = folder / "form.dm2l", folder / "form.csv"
    if suffix == ".parquet":
        path = tmp_path / "form.parquet"
        frame.to_parquet(path)
    some, every = tmp_path / f"some{suffix}", tmp_path / f"every{suffix}"
    read = pd.read_parquet if suffix == ".parquet" else pd.read_csv
    read = pd.read_excel if suffix == ".xlsx" else read
    run("complete", model, path, "-o", some, "--max-error-rate", "10%")
    said = run("complete", model, some, "-o", every)
    before, after = read(some), read(every)
    again = run("complete", model, every, "-o", tmp_path / f"again{suffix}")
    assert "No label is missing." in again
    assert list(before.columns) == list(after.columns)
    filled = before[NAMES].notna() & frame[NAMES].isna()
    assert f"{filled.sum().sum()} labels in " in said
    for name in NAMES:
        kept = before[name].notna()
        for column in (name, f"{name}__probability", f"{name}__look"):
            pd.testing.assert_series_equal(
                before[column][kept], after[column][kept], check_dtype=False
            )
        assert after[name].notna().all()
        assert after[f"{name}__probability"].notna().equals(frame[name].isna())


def test_filled_labels_that_are_read_as_observed_are_counted(form, tmp_path):
    folder, frame, _ = form
    model, filled, scores = folder / "form.dm2l", tmp_path / "f.csv", tmp_path / "s.csv"
    run("complete", model, folder / "form.csv", "-o", filled)
    warning = (
        f"{frame[NAMES].isna().sum().sum()} labels in 'fever', 'cough', 'itch' and 2 more were"
    )
    options = (*LABELS, *ORDER)
    fast = ("--kernel", "linear", "--lambda-d", "0.1", "--alpha", "1", "--repetitions", 1)
    for command in (
        ("inspect", filled, *options),
        ("fit", filled, *options, *FIXED, "-o", tmp_path / "m.dm2l"),
        ("evaluate", filled, *options, *fast),
        ("audit", model, filled),
        ("suggest", model, filled, "-o", tmp_path / "ask.csv"),
    ):
        assert warning in run(*command)
    assert "filled in by dm2l" not in run("inspect", folder / "form.csv", *options)
    # Predicted labels are recognized, too, and what predict writes can be completed.
    run("predict", model, filled, "-o", scores, "--keep", "age", "--keep", "weight")
    assert f"{5 * len(frame)} labels in" in run("inspect", scores, *options)
    run("complete", model, scores, "-o", tmp_path / "o.csv")


def test_a_spreadsheet_marks_filled_cells(form, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    folder, frame, _ = form
    first, second = tmp_path / "a.xlsx", tmp_path / "b.xlsx"
    run("complete", folder / "form.dm2l", folder / "form.csv", "-o", first)
    frame.to_excel(tmp_path / "form.xlsx", index=False)
    run("complete", folder / "form.dm2l", tmp_path / "form.xlsx", "-o", second)
    for path in (first, second):
        rows = list(openpyxl.load_workbook(path).active.iter_rows(min_row=2))
        coloured = [[cell.fill.fill_type == "solid" for cell in row[3:8]] for row in rows]
        np.testing.assert_array_equal(coloured, frame[NAMES].isna())


def test_all_commands_give_a_cell_the_probability_that_the_features_give_it(form, tmp_path):
    folder, frame, _ = form
    both = (folder / "form.dm2l", folder / "form.csv")
    run("suggest", *both, "-o", tmp_path / "ask.csv")
    run("complete", *both, "-o", tmp_path / "full.csv")
    full = pd.read_csv(tmp_path / "full.csv")
    asked = pd.read_csv(tmp_path / "ask.csv")
    for row, label, p in zip(asked["row"], asked["label"], asked["probability"], strict=True):
        assert p == pytest.approx(full[f"{label}__probability"][row - 1], abs=2e-4), (row, label)
    model = load_bundle(both[0])
    table = read_for(model, both[1])
    found, plain = complete_table(model, table), model.answer(model.inputs(table)[0])
    cells = np.concatenate([labels for labels, _ in table.exclusive])
    blank = np.isnan(table.Y[:, cells])
    alone = plain.probabilities[:, cells][blank]
    np.testing.assert_allclose(found.probabilities[:, cells][blank], alone, atol=1e-12)
    # The answer to another label changes no cell on the page, unless a rule settles it.
    session = ReviewSession(model, table, Journal(tmp_path / "a.jsonl", table))
    i = int(np.flatnonzero(frame["fever"].isna() & frame["lesion"].isna())[0])
    before = found.probabilities[i, cells]
    case = session.labels()[i].copy()
    case[table.label_names.index("fever")] = 1
    supposed = session._predictions.supposing(i, case[None])[0]
    missing = np.isnan(table.Y[i, cells])
    np.testing.assert_allclose(supposed[cells][missing], before[missing], atol=1e-12)
    session.close()


def test_a_rule_that_excludes_some_values_of_a_cell_is_obeyed():
    frame, _ = make_form()
    order = "severity=normal<mild<moderate<severe"
    table = table_from_frame(frame.drop(columns="visit"), NAMES, values=order)
    model = fit_table(table, FitOptions("linear", 0.1, 1.0), estimate_folds=0)
    model.set_rules(LabelRules([("itch", "severity>=moderate")]))
    found = complete_table(model, table)
    (labels, group), _ = table.exclusive
    given = (frame["itch"] == "yes").to_numpy() & frame["severity"].isna().to_numpy()
    places = group.place(found.positive[given][:, labels])
    assert given.sum() > 20
    assert (places >= 2).all()


# ------------------------------------------------------------------------------------ inspect


def test_suggest_asks_about_each_cell_once(form, tmp_path):
    folder, frame, _ = form
    both = (folder / "form.dm2l", folder / "form.csv")
    run("suggest", *both, "-o", tmp_path / "ask.csv")
    found = pd.read_csv(tmp_path / "ask.csv")
    blank = np.argwhere(frame[NAMES].isna())
    expected = {(int(i) + 1, NAMES[j]) for i, j in blank}
    assert len(found) == len(expected)
    assert {*zip(found["row"], found["label"], strict=True)} == expected
    assert (found["value"].diff().dropna() <= 1e-9).all()
    # The most probable of four values has at least a quarter.
    assert found["probability"][found["label"] == "lesion"].between(0.25, 1).all()
    run("suggest", *both, "-o", tmp_path / "rows.csv", "--rows")
    rows = pd.read_csv(tmp_path / "rows.csv").set_index("row")["open"]
    assert (rows == frame[NAMES].isna().sum(axis=1)[rows.index - 1].to_numpy()).all()


def test_inspect_says_how_many_rules_it_wrote(form, tmp_path):
    folder, _, _ = form
    for labels, some in (((*LABELS, *ORDER), True), (("--labels", "fever,lesion"), False)):
        path = tmp_path / f"{some}.txt"
        said = run("inspect", folder / "form.csv", *labels, "--write-rules", path)
        rules = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        assert bool(rules) == some
        assert f"Wrote {len(rules)} rules to {path}." in said


def test_a_rule_with_exceptions_is_written_as_a_comment(form, tmp_path):
    folder, _, _ = form
    said = run("inspect", folder / "form.csv", *LABELS, "--write-rules", tmp_path / "rules.txt")
    _, *lines = (tmp_path / "rules.txt").read_text().splitlines()
    refuted = [line for line in lines if line.startswith("# ")]
    for line in lines:
        holds, rows = map(int, re.search(r"# in (\d+) of (\d+) rows", line).groups())
        assert (holds < rows) == (line in refuted)
    assert refuted
    assert len(refuted) < len(lines)
    assert f"lists {len(refuted)} rules that have exceptions" in said


# ----------------------------------------------------------------------- evaluate and explain

FAST = ("--kernel", "linear", "--lambda-d", "0.1", "--alpha", "1")


def test_accuracy_in_columns_with_several_values_stands_beside_the_majority(form, evaluated_once):
    folder, _, _ = form
    path = folder / "form.csv"
    said = run("evaluate", path, *LABELS, *ORDER, *FAST, "--repetitions", 3)
    assert "If the values of 'lesion' have an order, pass --values \"lesion=" in said
    assert "'severity' have an order" not in said
    found = json.loads(
        command_runner()
        .invoke(
            cli, ["evaluate", str(path), *LABELS, *ORDER, *FAST, "--repetitions", "3", "--json"]
        )
        .stdout
    )
    model = load_bundle(folder / "form.dm2l")
    table = read_for(model, path)
    n = {name: table.cells[name].notna().sum() for name in NAMES}
    assert found["n_hidden"] == pytest.approx(0.2 * sum(n.values()), rel=0.05)
    for name in ("severity", "lesion"):
        values, share = found["columns"][name], table.cells[name].value_counts(normalize=True).max()
        assert values["hidden"] == pytest.approx(0.2 * n[name], rel=0.1)
        assert values["majority"] == pytest.approx(share, abs=0.12)
        assert (
            f"{name} {values['hidden']:.0f} {values['majority']:.3f} {values['DM2L']:.3f}" in said
        )
    severity = found["columns"]["severity"]
    assert severity["DM2L"] > severity["majority"] + 0.2


def test_a_cell_with_several_values_counts_once_in_the_accuracy():
    frame, _ = make_form()
    names = ["severity", "lesion"]
    table = table_from_frame(frame[["age", "weight", *names]], names, values=ORDER[1])
    found = evaluate_table(table, FitOptions("linear", 0.1, 1.0), repetitions=1)
    for name, values in found.methods.items():
        cells = [(one["hidden"], one[name]) for one in found.columns.values()]
        assert sum(n for n, _ in cells) == found.n_hidden
        expected = sum(n * share for n, share in cells) / found.n_hidden
        assert values["accuracy"].mean == pytest.approx(expected)


def test_accuracy_is_that_of_cells_computed_apart():
    frame, _ = make_form()
    names = ["severity", "lesion"]
    table = table_from_frame(frame[["age", "weight", *names]], names, values=ORDER[1])
    rng = np.random.default_rng(0)
    hidden = np.where(rng.random(len(frame))[:, None] < 0.3, table.Y, np.nan)
    left = np.where(np.isnan(hidden), table.Y, np.nan)
    p = rng.random(table.Y.shape)
    p[:, :3] = -np.sort(-p[:, :3], axis=1)
    found = cell_accuracy(table, left, hidden, {"m": Predictions(p, p, p > 0.5)})
    for name, first, values in (("severity", 0, LEVELS), ("lesion", 3, LESIONS)):
        rows = np.flatnonzero(~np.isnan(hidden[:, first]))
        said = values[(p[rows, :3] > 0.5).sum(axis=1)]
        if name == "lesion":  # one of the values over one half, or else the most probable value
            said = values[((p[rows, 3:] > 0.5) + p[rows, 3:]).argmax(axis=1)]
        truth = frame[name][rows]
        most = frame[name][~np.isnan(left[:, first])].mode()[0]
        shares = {"majority": (truth == most).mean(), "m": (said == truth).mean()}
        assert found[name] == pytest.approx({"hidden": len(rows), **shares})


@pytest.mark.parametrize("repetitions", [1, 5])
def test_intervals_that_tell_nothing_are_not_shown(form, repetitions):
    path, wide = form[0] / "form.csv", ("--repetitions", repetitions, "--wide")
    said = run("evaluate", path, "--labels", "fever,cough", *FAST, *wide)
    assert ("cannot be estimated from so few repetitions" in said) == (repetitions == 1)
    assert "[0.000, 1.000]" not in said
    assert "nan" not in said


def test_an_interval_that_is_everything_is_shown_as_none():
    assert _span(Interval(0.5, 0.0, 1.0)) == "-"
    assert _span(Interval(0.5, np.nan, np.nan)) == "-"
    assert _span(Interval(0.5, 0.0, 0.75)) == "[0.000, 0.750]"
    assert _span(Interval(0.1, -0.25, 1.0), -1.0, "+") == "[-0.250, +1.000]"
    assert _span(Interval(0.1, -1.0, 1.0), -1.0, "+") == "-"


def test_rows_are_ranked_by_one_estimator_in_fit_evaluate_and_review(form, tmp_path):
    folder, _, _ = form
    table = read_table(
        folder / "form.csv", ["fever", "cough", "itch", "severity", "lesion"], values=ORDER[1]
    )
    options = FitOptions("linear", 0.1, 1.0)
    key = "label_ranking_average_precision"
    model = fit_table(table, options)
    fitted = model.estimate.values[key].mean
    alone = evaluate_table(table, options, repetitions=3).methods["features alone"][key].mean
    with Journal(tmp_path / "a.jsonl", table) as journal:
        session = ReviewSession(model, table, journal)
        session.answer(1, {"fever": "yes"})
        session.start_refit()
        session.wait(60)
        reviewed = session.quality.before[key].mean
        assert session.quality.n_answers == 1
    assert alone == pytest.approx(fitted, abs=0.03)
    assert reviewed == pytest.approx(fitted, abs=0.03)


def test_counts_are_those_of_columns_and_cells(form):
    folder, frame, _ = form
    known = int(frame[NAMES].notna().sum().sum())
    said = run("inspect", folder / "form.csv", *LABELS, *ORDER)
    assert "240 rows and 8 columns, including 5 label columns with 10 labels." in said
    assert f"{1200 - known} of 1200 label entries are missing" in said
    assert "the values of 'lesion' have an order" in said
    out = folder / "counted.dm2l"
    said = run("fit", folder / "form.csv", *LABELS, *ORDER, *FAST, "-o", out, "--force")
    assert "240 rows, 10 labels in 5 label columns, and 2 features" in said
    assert f"{known} observed entries" in said


def test_explain_takes_a_column_and_says_what_is_correlated(form):
    said = run("explain", form[0] / "form.dm2l", "--label", "severity")
    for label in ("severity>=mild", "severity>=moderate", "severity>=severe"):
        assert f"{label} " in said
    assert said.count("labels with correlated scores:") == 3
    assert "severity>=mild (" not in said  # the other values of the column itself
    assert "lesion=crust (" in said
    said = run("explain", form[0] / "form.dm2l", "--label", "pain", code=2)
    assert "Choose one of fever, cough, itch, severity, lesion." in said


# ----------------------------------------------------------------------------------- terminal


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


def test_warnings_are_wrapped_at_the_width_of_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    line = f"column {'visit id'!r} is left out: " + "a different single word in every row; " * 4
    for stream, wrapped in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stderr", stream)
        warn([line])
        lines = stream.getvalue().splitlines()
        assert " ".join(stream.getvalue().split()) == f"warning: {line.strip()}"
        assert (max(map(len, lines)) <= 60) == wrapped
        assert (len(lines) > 1) == wrapped


def test_errors_are_wrapped_at_the_width_of_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    text = "form.csv: no label has both positive and negative entries. " * 3
    for stream, fits in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stderr", stream)
        with pytest.raises(click.ClickException) as raised, _printable_errors():
            raise click.ClickException(text)
        raised.value.show()
        lines = stream.getvalue().splitlines()
        assert " ".join(stream.getvalue().split()) == f"Error: {text.strip()}"
        assert (max(map(len, lines)) <= 60) == (len(lines) > 1) == fits


# -------------------------------------------------------------------------------------- review


def test_review_samples_what_a_limit_fills(form, tmp_path, monkeypatch):
    folder, _, _ = form
    both = (folder / "form.dm2l", folder / "form.csv")
    review = ("review", *both, "--answers", tmp_path / "a.jsonl", "--no-browser")
    assert "--max-error-rate requires --check" in run(*review, "--max-error-rate", "5%", code=2)
    monkeypatch.setattr("dm2l.cli._review.serve", lambda *_, **__: None)
    said = run(*review, "--check", 12, "--max-error-rate", "10%")
    assert ": 0 questions answered, 0 skipped" in said
    model = load_bundle(both[0])
    table = read_for(model, both[1])
    with Journal(tmp_path / "a.jsonl", table) as journal:
        assert journal.sample.matches(complete_table(model, table, max_error_rate=0.1))
        assert not journal.sample.matches(complete_table(model, table))
        for (row, name), word in journal.sample.entries.items():
            for label, answer in journal.columns[name].answers(word).items():
                journal.add(row, label, answer)
    verify = ("complete", *both, "-o", tmp_path / "o.csv", "--verified", tmp_path / "a.jsonl")
    assert "drawn from other filled entries" in run(*verify, code=1)
    said = run(*verify, "--max-error-rate", "10%")
    checked = re.findall(r"Filled with .*?: 0 of (\d+) checked entries are wrong", said)
    assert sum(map(int, checked)) == 12
