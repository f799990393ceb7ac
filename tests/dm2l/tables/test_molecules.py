"""A chemist's table as it is: SMILES become features, and what cannot be read is left out."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from assays import LABELS, make_assays
from dm2l import chemistry
from dm2l.chemistry import is_valid_smiles
from dm2l.review import _question, _session
from dm2l.tables import (
    FitOptions,
    audit_table,
    complete_table,
    evaluate_table,
    explain_model,
    fit_table,
    inspect_table,
    load_bundle,
    read_table,
    save_bundle,
    suggest_entries,
    suggest_rows,
    table_from_frame,
    write_completion,
)
from dm2l.tables._kinds import column_kinds

pytest.importorskip("rdkit", reason="molecules need the extra chem (RDKit)")
ONE = FitOptions("tanimoto", 0.1, 1.0, cv=3)


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(make_assays(200))


@pytest.fixture(scope="module")
def unread(frame):
    rows = np.flatnonzero(~is_valid_smiles(frame["smiles"]))
    assert len(rows) == 8
    return rows


@pytest.fixture(scope="module")
def table(frame):
    return table_from_frame(frame, LABELS)


@pytest.fixture(scope="module")
def model(table):
    return fit_table(table, ONE, estimate_folds=0)


def test_a_column_of_smiles_is_recognised_and_its_faults_are_named(frame, unread):
    uses = column_kinds(frame[["mol_id", "smiles"]])
    assert [use.kind for use in uses] == ["identifier", "smiles"]
    assert all(str(row + 1) in uses[1].note for row in unread)
    assert "8 rows have invalid SMILES" in uses[1].note
    told = frame[["smiles"]].rename(columns={"smiles": "what"})
    told["what"] = "C"
    assert column_kinds(told)[0].kind == "constant"
    assert column_kinds(told, {"what": "smiles"})[0].kind == "smiles"


def test_what_rdkit_cannot_read_is_no_column_of_molecules():
    codes = [f"CN(C{i % 9}C(CO{i % 7}" for i in range(60)]  # of the right signs, and never closed
    assert not is_valid_smiles(codes).any()
    assert column_kinds(pd.DataFrame({"code": codes}))[0].kind != "smiles"
    assert column_kinds(pd.DataFrame({"smiles": codes}))[0].kind == "smiles"


def test_without_rdkit_it_is_left_out_and_the_reason_says_what_to_install(frame, monkeypatch):
    monkeypatch.setattr(chemistry, "find_spec", lambda name: None)
    use = column_kinds(frame[["smiles"]])[0]
    assert not use.used
    assert "pip install 'dm2l[chem]'" in use.reason
    with pytest.raises(ValueError, match=r"no column can be used.*dm2l\[chem\].*drop the column"):
        fit_table(table_from_frame(frame, LABELS))
    with pytest.raises(ImportError, match=r"dm2l\[chem\]"):
        fit_table(table_from_frame(frame, LABELS), kinds={"smiles": "smiles"})


def test_rows_without_a_molecule_teach_nothing(frame, unread, table, model):
    other = frame.copy()
    other.loc[unread, "NR-AR"] = ["1", "0"] * 4
    again = fit_table(table_from_frame(other, LABELS), ONE, estimate_folds=0)
    inputs = model.inputs(table)[0]
    assert np.array_equal(again.answer(inputs).scores, model.answer(inputs).scores, equal_nan=True)
    X = model.pipeline[0].transform(inputs.drop(unread)).toarray()
    known = {row.tobytes() for row in X}  # a kernel model keeps one of rows that are the same
    assert {row.tobytes() for row in model.classifier.X_fit_.toarray()} == known


def test_rows_without_a_molecule_get_no_answer(table, unread, model):
    inputs, warnings = model.inputs(table)
    answer = model.answer(inputs)
    blank = np.isnan(answer.probabilities).all(axis=1)
    assert np.flatnonzero(blank).tolist() == unread.tolist()
    assert np.isfinite(answer.probabilities[~blank]).all()
    assert not answer.positive[unread].any()
    assert "8 rows have invalid SMILES" in warnings[0]
    found = complete_table(model, table)
    left = found.missing & ~found.filled
    assert np.array_equal(left, found.missing & blank[:, None])
    assert not set(suggest_entries(model, table).row - 1) & set(unread)
    assert not set(suggest_rows(model, table).row - 1) & set(unread)
    assert not set(audit_table(model, table).row - 1) & set(unread)


def test_their_holes_stay_holes_in_the_file(frame, unread, model, tmp_path):
    frame.to_csv(tmp_path / "in.csv", index=False)
    table = read_table(tmp_path / "in.csv", LABELS)
    write_completion(complete_table(model, table), table, tmp_path / "out.csv")
    filled = pd.read_csv(tmp_path / "out.csv", dtype=str, keep_default_na=False)
    for row in unread:
        for label in table.label_names:
            assert filled.loc[row, label] == frame.loc[row, label]
            assert filled.loc[row, f"{label}__probability"] == ""
    others = np.setdiff1d(np.arange(len(frame)), unread)
    assert (filled.loc[others, table.label_names] != "").all().all()


def test_the_preparation_is_in_the_file(table, model, tmp_path):
    save_bundle(model, tmp_path / "model.dm2l")
    again = load_bundle(tmp_path / "model.dm2l")
    assert [use.kind for use in again.uses] == ["identifier", "smiles"]
    assert again.pipeline[0].named_transformers_["smiles1"].get_params() == {
        "radius": 2,
        "n_bits": 2048,
        "counts": True,
        "salts": False,
    }
    new = table_from_frame(pd.DataFrame({"mol_id": ["a", "b"], "smiles": ["Oc1ccccc1", "C1C"]}))
    p = again.answer(again.inputs(new)[0]).probabilities
    assert np.isfinite(p[0]).all()
    assert np.isnan(p[1]).all()


def test_the_file_says_what_it_needs_where_rdkit_is_missing(model, tmp_path, monkeypatch):
    save_bundle(model, tmp_path / "model.dm2l")
    monkeypatch.setattr(chemistry, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"SMILES need RDKit.*dm2l\[chem\]"):
        load_bundle(tmp_path / "model.dm2l")


def test_the_automatic_model_takes_bits_as_bits_beside_other_columns(frame):
    frame = frame[:150].assign(mass=np.random.default_rng(0).normal(size=150))
    frame.loc[3, "mass"] = np.nan
    model = fit_table(table_from_frame(frame, LABELS), FitOptions(effort="quick", cv=3))
    assert "tanimoto kernel" in model.classifier.leaderboard_["model"]
    assert model.estimate.values["label_auc"].mean > 0.7
    names = [name for name, _ in explain_model(model, "SR-p53", top=3)[0].features]
    assert len(set(names)) == 3
    assert any(name.startswith("smiles: ") for name in names)


def test_evaluation_and_inspection_go_by_readable_rows(frame, table, unread):
    only = np.zeros(len(frame), dtype=bool)
    only[unread] = True
    Y = np.where(only[:, None], table.Y, np.nan)
    with pytest.raises(ValueError, match="every label entry is missing"):
        evaluate_table(replace(table, Y=Y), ONE, repetitions=1)
    found = inspect_table(table)
    assert any("8 rows have invalid SMILES" in line for line in found.warnings)


def test_a_review_refits_without_them(table, model, unread):
    refit = _session.Refit(model, table)
    X = refit.fit(table.Y).classifier.X_fit_[:, :2048]
    assert (X.sum(axis=1) > 0).all()
    predicted = _question.TablePredictions(model, table, table.Y)
    assert not predicted.values.total[unread].any()


@pytest.mark.slow
def test_trees_use_descriptors_also_from_a_file(frame, unread, tmp_path):
    few = frame[["smiles", "NR-AR"]].drop(unread)[:80].reset_index(drop=True)
    table = table_from_frame(few, "NR-AR")
    model = fit_table(table, FitOptions(cv=2), estimate_folds=0)
    described = model.pipeline[0].named_transformers_["descriptors1"]
    width = (np.ptp(described.transform(table.frame["smiles"]), axis=0) > 0).sum()
    trees = [name for name, kind in model.classifier._inputs.items() if kind == "numbers"]
    assert trees
    for name in trees:
        assert 20 < model.classifier.models_[name].n_features_in_ <= width
    assert "tanimoto kernel" in model.classifier.leaderboard_["model"]
    save_bundle(model, tmp_path / "model.dm2l")
    inputs = model.inputs(table)[0]
    again = load_bundle(tmp_path / "model.dm2l").answer(inputs).probabilities
    assert np.array_equal(again, model.answer(inputs).probabilities)
