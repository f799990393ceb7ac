"""Rows that belong together stay together, so that estimates are not made by copies."""

import numpy as np
import pandas as pd
import pytest

from assays import LABELS, make_assays
from dm2l import AutoClassifier
from dm2l.chemistry import compound_groups, is_valid_smiles, scaffold_groups
from dm2l.datasets import duplicate_groups
from dm2l.io._columns import ColumnRequestError
from dm2l.model_selection import MultilabelKFold
from dm2l.tables import (
    FitOptions,
    evaluate_table,
    fit_table,
    inspect_table,
    load_bundle,
    save_bundle,
    table_from_frame,
)
from dm2l.tables._measures import hold_out

FIXED = FitOptions("rbf", 0.0, 0.01, cv=3)


def copies(n=40, times=3):
    """Noise that tells nothing but which rows are copies: labels are those of the original."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    frame["patient"] = [f"P{i % 7}{i}" for i in range(n)]
    for name in ("tox_1", "tox_2"):
        frame[name] = rng.integers(0, 2, n)
    frame = pd.concat([frame] * times, ignore_index=True)
    return frame.sample(frac=1, random_state=0).reset_index(drop=True)


@pytest.mark.parametrize("options", [FIXED, FitOptions(effort="quick", cv=3)])
def test_copies_make_estimates_too_good_and_groups_do_not(options):
    frame = copies()
    table = table_from_frame(frame.drop(columns="patient"), "tox_*")
    naive = fit_table(table, options, estimate_folds=3).estimate.values["label_auc"].mean
    found = fit_table(table, options, estimate_folds=3, groups="duplicates")
    honest = found.estimate.values["label_auc"].mean
    assert honest < 0.7  # labels cannot be told: 0.5, with an error of 0.1
    assert naive > honest + 0.2
    named = table_from_frame(frame, "tox_*")
    model = fit_table(named, options, estimate_folds=3, groups="patient")
    assert model.estimate.values["label_auc"].mean == pytest.approx(honest, abs=0.2)
    assert [use.kind for use in model.uses] == ["numeric"] * 3 + ["dropped"]
    given = fit_table(table, options, estimate_folds=3, groups=frame["patient"])
    assert given.estimate == model.estimate


def test_the_file_of_a_model_holds_no_groups(tmp_path):
    model = fit_table(table_from_frame(copies(), "tox_*"), FIXED, groups="patient")
    save_bundle(model, tmp_path / "model")
    assert load_bundle(tmp_path / "model").classifier.cv.groups is None


def test_evaluation_hides_a_label_in_all_copies_or_in_none():
    frame = copies()
    table = table_from_frame(frame, "tox_*")
    groups = frame.groupby("patient").ngroup().to_numpy()
    left, hidden = hold_out(table.Y, 0.3, 0, groups)
    assert np.array_equal(np.isnan(left), ~np.isnan(hidden))
    for rows in (np.flatnonzero(groups == g) for g in range(groups.max() + 1)):
        assert len(np.unique(np.isnan(left[rows]), axis=0)) == 1
    assert np.isnan(left).mean() == pytest.approx(0.3, abs=0.05)
    naive, honest = (
        evaluate_table(table, FIXED, repetitions=2, drop=["patient"], groups=groups)
        .methods["features alone"]["label_auc"]
        .mean
        for groups in (None, "duplicates")
    )
    assert honest < 0.7
    assert naive > honest + 0.2


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ("nobody", "no such column.*'duplicates'"),
        ("scaffold", "no column of SMILES"),
        ([1, 2], "120 rows"),
        ([1] * 120, "2 folds need at least 2 groups of rows, but groups has 1"),
    ],
)
def test_what_cannot_be_a_group_is_refused(groups, words):
    with pytest.raises((ValueError, ColumnRequestError), match=words):
        fit_table(table_from_frame(copies(), "tox_*"), FIXED, groups=groups)


def test_rows_with_a_blank_group_belong_to_no_others():
    frame = copies().assign(patient=None)
    frame.loc[:9, "patient"] = "one"
    model = fit_table(table_from_frame(frame, "tox_*"), FIXED, groups="patient")
    assert model.estimate.repetitions == 5


def test_inspect_counts_what_the_model_sees_twice_and_names_the_remedy():
    found = inspect_table(table_from_frame(copies().drop(columns="patient"), "tox_*"))
    assert found.n_duplicates == 80
    assert any("--groups duplicates" in line for line in found.warnings)


def test_the_automatic_estimator_keeps_groups_together_without_rows_of_no_label():
    frame = copies()
    X, Y = frame[["a", "b", "c"]].to_numpy(), frame[["tox_1", "tox_2"]].to_numpy(dtype=float)
    Y[::5] = np.nan
    groups = duplicate_groups(X)
    for given in ("duplicates", groups):
        cv = MultilabelKFold(3, groups=given, random_state=0)
        model = AutoClassifier("quick", cv=cv, random_state=0).fit(X, Y)
        fold = model.held_out_folds_
        seen = fold >= 0
        assert np.array_equal(seen, ~np.isnan(Y).all(axis=1))
        assert all(len(set(fold[seen & (groups == g)])) <= 1 for g in range(groups.max() + 1))


def test_molecules_are_grouped_by_compound_and_by_scaffold():
    pytest.importorskip("rdkit", reason="molecules need the extra chem (RDKit)")
    frame = pd.DataFrame(make_assays(150))
    frame = pd.concat([frame, frame[:30]], ignore_index=True)
    table = table_from_frame(frame, LABELS)
    known = is_valid_smiles(frame["smiles"])
    groups = compound_groups(frame["smiles"][known])
    assert inspect_table(table).n_duplicates == len(groups) - groups.max() - 1 >= 28
    model = fit_table(table, FIXED, groups="scaffold")
    assert model.estimate.repetitions == 5
    assert scaffold_groups(frame["smiles"]).max() + 1 >= 5


def test_salts_of_a_compound_are_in_one_fold_without_being_asked_for():
    pytest.importorskip("rdkit", reason="molecules need the extra chem (RDKit)")
    rng = np.random.default_rng(0)
    chains = [f"{'C' * (i % 9 + 1)}{'NOS'[i % 3]}{'C' * (i // 9 + 1)}" for i in range(60)]
    smiles = pd.Series(
        [salt for chain in chains for salt in (chain, f"{chain}.Cl", f"[Na].{chain}")]
    )
    compounds = compound_groups(smiles)
    labels = rng.integers(0, 2, (compounds.max() + 1, 2))[compounds]  # known from copies only
    frame = pd.DataFrame({"smiles": smiles, "tox_1": labels[:, 0], "tox_2": labels[:, 1]})
    table = table_from_frame(frame.sample(frac=1, random_state=0), "tox_*")
    honest = fit_table(table, FIXED, estimate_folds=3)
    naive = fit_table(table, FIXED, estimate_folds=3, groups=np.arange(len(frame)))
    assert honest.estimate.values["label_auc"].mean < 0.7
    assert naive.estimate.values["label_auc"].mean > 0.9
    found = inspect_table(table)
    assert found.n_duplicates == len(frame) - compounds.max() - 1
    assert not any("--groups" in line for line in found.warnings)
