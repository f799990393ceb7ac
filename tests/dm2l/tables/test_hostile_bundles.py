"""Bundles that say of their table what cannot be: the documented error, nothing else."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest

from crafted_models import save_unchecked
from dm2l.persistence import ModelFileError
from dm2l.tables import FitOptions, fit_table, load_bundle, read_table, save_bundle
from half_labelled import as_csv, make_table, spell

JUNK = [None, True, -1, 3, 1.5, float("nan"), "x", "", [], [1], ["x"], {}, {"x": 1}, np.zeros(2)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    columns, truth, observed = make_table(40)
    (folder / "in.csv").write_text(as_csv(columns, spell(truth, observed, "Yes", "No")))
    table = read_table(folder / "in.csv", "topic_*")
    made = fit_table(table, FitOptions("linear", 0.1, 1.0, cv=2), estimate_folds=2)
    save_bundle(made, folder / "m.dm2l")  # makes the record
    return made


def places(value, here=()):
    if here:
        yield here
    inside = enumerate(value) if isinstance(value, list) else ()
    for key, inner in value.items() if isinstance(value, dict) else inside:
        yield from places(inner, (*here, key))


def scramble(record, rng):
    *above, last = rng.choice(list(places(record)))
    holder = record
    for key in above:
        holder = holder[key]
    if rng.random() < 0.7:
        holder[last] = rng.choice(JUNK)
    else:
        del holder[last]


def saved(model, path, change):
    changed = copy.deepcopy(model.pipeline)
    change(changed[-1])
    save_unchecked(changed, path)
    return path


def test_files_of_earlier_versions_may_lack_a_metric_but_not_have_an_unknown_one(model, tmp_path):
    def forget(classifier):
        del classifier.table_["estimate"]["values"]["brier"]

    def add(classifier):
        values = classifier.table_["estimate"]["values"]
        values["unknown"] = values["brier"]

    before = load_bundle(saved(model, tmp_path / "old.dm2l", forget)).estimate.values
    assert {*before} == {*model.estimate.values} - {"brier"}
    assert before["label_auc"] == model.estimate.values["label_auc"]
    with pytest.raises(ModelFileError, match="'estimate'"):
        load_bundle(saved(model, tmp_path / "new.dm2l", add))


@pytest.mark.parametrize("kernel", ["auto", "poly"])
def test_a_record_can_only_name_a_kernel_of_the_command_line(kernel, model, tmp_path):
    def rename(classifier):
        classifier.table_["settings"]["kernel"] = kernel

    with pytest.raises(ModelFileError, match="'settings'"):
        load_bundle(saved(model, tmp_path / "k.dm2l", rename))


def test_scrambled_records_of_the_table_are_refused_or_harmless(model, tmp_path):
    outcomes = {True: 0, False: 0}
    for seed in range(60):
        path = saved(
            model,
            tmp_path / "m.dm2l",
            lambda last, seed=seed: scramble(last.table_, random.Random(seed)),
        )
        try:
            loaded = load_bundle(path)
        except ValueError:
            outcomes[False] += 1
        else:
            assert loaded.label_names == model.label_names
            outcomes[True] += 1
    assert outcomes[False] > 40
    assert load_bundle(saved(model, path, lambda last: None)).settings == model.settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_learnable", None),
        ("n_features_in_", 3),
        ("label_names_", ["a"]),
        ("coef_", np.full((2, 2), np.nan)),
        ("_labels", 5),
        ("_completer", 5),
    ],
)
def test_classifiers_that_do_not_fit_their_table_are_refused(name, value, model, tmp_path):
    path = saved(model, tmp_path / "m.dm2l", lambda last: setattr(last, name, value))
    with pytest.raises(ModelFileError, match="cannot be loaded"):
        load_bundle(path)


def test_a_classifier_that_does_not_know_its_features_is_refused(model, tmp_path):
    path = saved(model, tmp_path / "m.dm2l", lambda last: delattr(last, "n_features_in_"))
    with pytest.raises(ModelFileError, match="cannot be loaded"):
        load_bundle(path)
