"""Methods are told apart by their settings, cells by their seeds."""

import functools
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm2l import DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier
from dm2l.metrics import label_ranking_average_precision, ranking_loss
from dm2l.model_selection import MultilabelKFold
from dm2l_lab import (
    Cell,
    Method,
    Protocol,
)
from dm2l_lab._cell import split_rows
from small_experiments import BROKEN, RIDGE, Spy, grid, tiny


def test_settings_hold_every_parameter_and_the_class():
    settings = json.loads(Method("m", MaskedRidgeClassifier(alpha=2.5)).settings)
    expected = MaskedRidgeClassifier(alpha=2.5).get_params()
    assert settings.pop("class") == "MaskedRidgeClassifier"
    assert settings["alpha"] == 2.5
    assert settings["missing_label"] == "nan"
    assert set(settings) == set(expected) - {"n_jobs", "verbose", "coupling", "class_prior"}


def test_settings_are_the_same_text_in_every_process():
    code = (
        "import small_experiments, sys; from dm2l_lab import Method;"
        "sys.stdout.write(Method('m', small_experiments.grid()).settings)"
    )
    here = Method("m", grid()).settings
    seed = "1" if os.environ.get("PYTHONHASHSEED") == "0" else "0"  # another one than here
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
    command = [sys.executable, "-c", code]
    there = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert there == here
    assert " at 0x" not in here


def test_settings_tell_apart_what_gives_other_results_and_nothing_else():
    def key(estimator):
        return Method("m", estimator).settings_hash

    different = [
        grid(),
        grid(cv=MultilabelKFold(3, random_state=2)),
        grid(scoring=functools.partial(ranking_loss, convention="paper")),
        grid(scoring=functools.partial(label_ranking_average_precision, convention="published")),
        grid(param_grid={"onevsrestmasked__estimator__max_depth": [2, 4]}),
        MaskedRidgeClassifier(),
        DM2LClassifier(),
        DM2LClassifier(alpha=np.float64(0.5)),
        Spy(note=np.arange(200.0)),
        Spy(note=np.r_[np.arange(100.0), -1.0, np.arange(101.0, 200.0)]),
        Spy(note=RIDGE.estimator),
        Spy(note=MaskedRidgeClassifier(alpha=1.5)),
    ]
    assert len({key(estimator) for estimator in different}) == len(different)
    assert key(grid(n_jobs=2, verbose=1)) == key(grid())
    assert key(DM2LClassifier(alpha=0.5)) == key(DM2LClassifier(alpha=np.float64(0.5)))
    assert key(Spy(note=(1, 2))) == key(Spy(note=np.array([1, 2])))


@pytest.mark.parametrize("value", [lambda Y: 0, np.random.RandomState(0), object()])
def test_parameters_without_a_lasting_name_are_refused(value):
    with pytest.raises(ValueError, match=r"Method 'spy'.*cannot tell"):
        _ = Method("spy", Spy(note=value)).settings
    with pytest.raises(TypeError, match="get_params"):
        _ = Method("spy", value).settings


# -- cells and seeds ----------------------------------------------------------------------------


def test_cells_come_in_whole_repetitions_with_one_mask_where_nothing_is_hidden():
    protocol = tiny(
        RIDGE, replace(BROKEN, sets=("two",)), masks=("per_row", "uniform"), repetitions=2
    )
    found = [
        (cell.repetition, cell.dataset, cell.rate, cell.mask, cell.method)
        for cell in protocol.cells()
    ]
    hidden = [(1.0, "none"), (0.4, "per_row"), (0.4, "uniform")]
    methods = {"one": ["ridge"], "two": ["ridge", "broken"]}
    assert found == [
        (r, d, *h, m) for r in range(2) for d in methods for h in hidden for m in methods[d]
    ]
    assert all(
        c.settings == protocol.method(c.method, c.dataset).settings_hash for c in protocol.cells()
    )


def test_cells_can_be_chosen_and_unknown_choices_are_named():
    protocol = tiny(masks=("per_row", "uniform"), repetitions=5)
    chosen = {"datasets": ["two"], "methods": ["ridge"], "rates": [0.4], "masks": ["uniform"]}
    assert [c.repetition for c in protocol.cells(**chosen)] == [0, 1, 2, 3, 4]
    assert [c.repetition for c in protocol.cells(**chosen, repetitions=2)] == [0, 1]
    assert [c.repetition for c in protocol.cells(**chosen, repetitions=range(3, 5))] == [3, 4]
    # The order is the protocol's, not the caller's.
    assert next(protocol.cells(datasets=["two", "one"])).dataset == "one"
    assert next(protocol.cells(rates=[1])).rate == 1.0
    wrong = {"datasets": ["tow"], "methods": ["rigde"], "rates": [0.5], "repetitions": [5]}
    for name, value in {**wrong, "masks": ["per_lable"], "repetitions": 6}.items():
        with pytest.raises(ValueError, match=rf"no {name} .*it has"):
            list(protocol.cells(**{name: value}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"rates": (0.0,)},
        {"rates": (1, 1.0)},
        {"masks": ("positives",)},
        {"test_size": 1.0},
        {"repetitions": 0},
        {"datasets": ()},
        {"datasets": ("one", "one")},
        {"methods": (RIDGE, RIDGE)},
    ],
)
def test_protocols_that_make_no_sense_are_refused(wrong):
    options = {"datasets": ("one",), "methods": (RIDGE,), **wrong}
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Protocol("wrong", **options)


def test_seeds_are_the_documented_ones():
    cell = Cell("honest", "Arts", "per_row", 0.3, 4, "ridge", "0")

    def seed(text):
        entropy = int(hashlib.sha256(text.encode()).hexdigest(), 16)
        return np.random.SeedSequence(entropy).generate_state(1)[0]

    assert cell.split_seed == seed('["dm2l", "split", "Arts", 4]')
    assert cell.mask_seed == seed('["dm2l", "mask", "Arts", 4, "per_row", 0.3]')
    assert cell.estimator_seed == seed('["dm2l", "estimator", "Arts", 4, "per_row", 0.3]')


def test_seeds_depend_on_what_they_should():
    cell = Cell("honest", "Arts", "per_row", 0.3, 4, "ridge", "0")

    def seeds(**changes):
        changed = replace(cell, **changes)
        return np.array([changed.split_seed, changed.mask_seed, changed.estimator_seed])

    for changes, kept in (
        ({"method": "LEML", "settings": "1", "protocol": "as_published"}, [True, True, True]),
        ({"mask": "uniform"}, [True, False, False]),
        ({"rate": 0.7}, [True, False, False]),
        ({"repetition": 5}, [False, False, False]),
        ({"dataset": "Enron"}, [False, False, False]),
    ):
        assert (seeds(**changes) == seeds()).tolist() == kept


@given(st.integers(0, 2**32 - 1), st.integers(2, 200), st.floats(0.01, 0.99))
def test_split_is_a_partition_of_the_stated_size(seed, n, test_size):
    train, test = split_rows(seed, n, test_size)
    assert sorted([*train, *test]) == list(range(n))
    assert len(test) == min(max(round(test_size * n), 1), n - 1)
    again = split_rows(seed, n, test_size)
    assert (again[0] == train).all()
    assert (again[1] == test).all()


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 9), min_size=2, max_size=60))
def test_groups_stay_on_one_side(seed, groups):
    groups = np.array(groups) * 7 - 3
    kinds = len(set(groups))
    if kinds == 1:
        with pytest.raises(ValueError, match="1 groups"):
            split_rows(seed, len(groups), 0.4, groups)
        return
    train, test = split_rows(seed, len(groups), 0.4, groups)
    assert sorted([*train, *test]) == list(range(len(groups)))
    assert not set(groups[train]) & set(groups[test])
    assert len(set(groups[test])) == min(max(round(0.4 * kinds), 1), kinds - 1)


def test_every_row_is_tested_equally_often():
    counts = np.zeros(20)
    for seed in range(2000):
        counts[split_rows(seed, 20, 0.4)[1]] += 1
    # Binomial with mean 800 and standard deviation 22.
    assert np.abs(counts - 800).max() < 5 * 22
    first = np.mean([split_rows(seed, 20, 0.4)[0][0] for seed in range(2000)])
    assert first == pytest.approx(9.5, abs=0.7)  # in random order too
