"""Tables whose holes are filled by what their rows know, and no more of them than promised."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dm2l.io import read_npz
from dm2l.tables import (
    Completion,
    FitOptions,
    complete_table,
    evaluate_table,
    fit_table,
    load_bundle,
    read_table,
    save_bundle,
    table_from_frame,
    write_completion,
)

QUICK = FitOptions(kernel="linear", lambda_d=0.1, alpha=0.3, cv=3)
NAMES = ["t_a", "t_b", "t_c", "t_d"]


@pytest.fixture(scope="module")
def moods():
    """A table whose labels share what no feature shows, and the truth."""
    rng = np.random.default_rng(0)
    X, mood = rng.normal(size=(700, 5)), rng.normal(size=(700, 1))
    truth = (0.5 * X[:, :4] + 1.5 * mood + 0.5 * rng.normal(size=(700, 4)) > 0).astype(float)
    Y = np.where(rng.random(truth.shape) < 0.6, truth, np.nan)
    frame = pd.DataFrame(X, columns=list("vwxyz")).join(pd.DataFrame(Y, columns=NAMES))
    return table_from_frame(frame, "t_*"), truth


@pytest.fixture(scope="module")
def model(moods):
    return fit_table(moods[0], QUICK, estimate_folds=0)


@pytest.fixture(scope="module")
def uncoupled(moods):
    return fit_table(moods[0], replace(QUICK, coupling=None), estimate_folds=0)


def test_known_labels_of_the_row_fill_its_holes(moods, model, uncoupled):
    table, truth = moods
    holes = np.isnan(table.Y)
    right, brier = [], []
    for one in (model, uncoupled):
        found = complete_table(one, table)
        np.testing.assert_array_equal(found.filled, holes)
        right.append((found.positive == (truth == 1))[holes].mean())
        brier.append(np.mean((found.probabilities - truth)[holes] ** 2))
    assert right[0] > right[1] + 0.15
    assert brier[0] < brier[1] - 0.05


def test_completion_is_that_of_the_classifier_on_prepared_features(moods, model):
    table = moods[0]
    X = model.pipeline[:-1].transform(model.inputs(table)[0])
    holes = np.isnan(table.Y)
    asked = holes & ~holes.all(axis=1)[:, None]
    found = complete_table(model, table)
    p = model.classifier.complete(X, table.Y, method="predict_proba")
    np.testing.assert_array_equal(found.probabilities[asked], p[asked])
    filled = model.classifier.complete(X, table.Y)
    np.testing.assert_array_equal(found.positive, holes & (filled == 1))


def test_rows_without_known_labels_and_models_without_coupling_go_by_features(
    moods, model, uncoupled
):
    table = moods[0]
    bare = replace(table, Y=np.where(np.arange(700)[:, None] < 50, np.nan, table.Y))
    for one, rows in ((model, slice(0, 50)), (uncoupled, slice(0, 700))):
        answer, found = one.answer(one.inputs(table)[0]), complete_table(one, bare)
        holes = found.missing[rows]
        p, positive = found.probabilities[rows], found.positive[rows]
        # Of fewer rows the same product is summed in another order.
        np.testing.assert_allclose(p[holes], answer.probabilities[rows][holes], rtol=1e-12)
        np.testing.assert_array_equal(positive[holes], answer.positive[rows][holes])


def test_a_row_knows_nothing_of_other_rows(moods, model):
    table = moods[0]
    other = table.Y.copy()
    other[100:] = np.where(np.isnan(other[100:]), np.nan, 1 - other[100:])
    a, b = (complete_table(model, replace(table, Y=Y)).probabilities for Y in (table.Y, other))
    np.testing.assert_allclose(a[:100], b[:100], rtol=1e-12)
    assert not np.allclose(a[100:], b[100:])


def test_no_more_holes_are_filled_than_keep_the_promise(moods, model):
    table, truth = moods
    n_filled = []
    for bound in (0.02, 0.1, 0.2):
        found = complete_table(model, table, max_error_rate=bound)
        filled = found.filled
        np.testing.assert_array_equal(found.left, found.missing & ~filled)
        np.testing.assert_array_equal(found.look, found.left)
        assert not (found.positive & ~filled).any()
        assert np.nan_to_num(found.expected_wrong) <= bound
        n_filled.append(int(filled.sum()))
        if n_filled[-1]:
            # Two standard deviations of a share that rests on so many.
            noise = 2 * np.sqrt(bound / n_filled[-1])
            assert (found.positive != (truth == 1))[filled].mean() <= bound + noise
    assert n_filled == sorted(n_filled)
    assert 0 < n_filled[1] < n_filled[2]
    assert complete_table(model, table, max_error_rate=1.0).filled.sum() == np.isnan(table.Y).sum()


def test_a_model_without_coupling_promises_nothing(moods, uncoupled, tmp_path):
    save_bundle(uncoupled, tmp_path / "m.dm2l")
    again = load_bundle(tmp_path / "m.dm2l")
    with pytest.raises(ValueError, match="Fit the model again"):
        complete_table(again, moods[0], max_error_rate=0.1)
    a, b = (complete_table(one, moods[0]).probabilities for one in (again, uncoupled))
    np.testing.assert_array_equal(a, b)


def test_a_saved_model_couples_as_before(moods, model, tmp_path):
    save_bundle(model, tmp_path / "m.dm2l")
    again = load_bundle(tmp_path / "m.dm2l")
    a, b = (complete_table(one, moods[0], max_error_rate=0.1) for one in (again, model))
    np.testing.assert_array_equal(a.probabilities, b.probabilities)
    np.testing.assert_array_equal(a.left, b.left)


# ------------------------------------------------------------------------ holes that are left


def _half(Y, names):
    """Holes of the first label are filled with yes, those of the others are left."""
    holes = np.isnan(Y)
    left = holes.copy()
    left[:, 0] = False
    return Completion(names, holes, holes & ~left, left, 0.25 * holes, [], left, 0.01)


def test_holes_that_are_left_keep_their_text(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,a,b\n1,yes,no\n2,,NA\n3,no,?\n4,,yes\n")
    table = read_table(path, ["a", "b"])
    completion = _half(table.Y, ["a", "b"])
    write_completion(completion, table, tmp_path / "o.csv")
    lines = (tmp_path / "o.csv").read_text().splitlines()
    assert lines[1:] == [
        "1,yes,no,,,,",
        "2,yes,NA,0.2500,no,0.2500,yes",
        "3,no,?,,,0.2500,yes",
        "4,yes,yes,0.2500,no,,",
    ]
    write_completion(completion, table, tmp_path / "p.csv", details=tmp_path / "d.csv")
    details = (tmp_path / "d.csv").read_text().splitlines()
    assert details[1:3] == ["2,a,yes,0.25,no", "2,b,,0.25,yes"]


def test_holes_that_are_left_stay_null_in_parquet_and_nan_in_matrices(tmp_path):
    Y = np.array([[1.0, 0.0], [np.nan, np.nan], [0.0, 1.0]])
    columns = {name: pa.array(Y[:, k], mask=np.isnan(Y[:, k])) for k, name in enumerate("ab")}
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0], **columns}), tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", X=np.eye(3), Y=Y, label_names=["a", "b"])
    for name in ("t.parquet", "t.npz"):
        table = read_table(tmp_path / name, ["a", "b"])
        write_completion(_half(table.Y, ["a", "b"]), table, tmp_path / f"o{name}")
    expected = [[1, 0], [1, np.nan], [0, 1]]
    again = pq.read_table(tmp_path / "ot.parquet").to_pandas()
    np.testing.assert_array_equal(again[["a", "b"]].to_numpy(dtype=float), expected)
    np.testing.assert_array_equal(read_npz(tmp_path / "ot.npz").target, expected)


# -------------------------------------------------------------------------------- evaluation


def test_evaluation_shows_what_coupling_brings(moods):
    table = moods[0]
    found = evaluate_table(table, QUICK)
    gain = found.gains["features alone"]
    assert gain["label_auc"].low > 0.1
    assert gain["accuracy"].mean > 0.1
    assert gain["brier"].mean < -0.03
    for quality in found.labels:
        assert quality.average_precision > quality.features_average_precision
    # The same fit by features alone is what a fit without coupling says.
    without = evaluate_table(table, replace(QUICK, coupling=None))
    for key, value in without.methods["features alone"].items():
        # Rows are ranked with held-out scores of known labels, which a fit without coupling lacks.
        close = 0.02 if key == "label_ranking_average_precision" else 0.0
        assert value.mean == pytest.approx(found.methods["features alone"][key].mean, abs=close)
    assert without.methods["DM2L"]["label_auc"] == found.methods["features alone"]["label_auc"]
