"""Protocols name cells, cells have seeds, methods have settings."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm2l.baselines import MaskedRidgeClassifier
from experiments.cell import split_rows
from experiments.protocols import PROTOCOLS, Cell, Method
from small_experiments import BROKEN, RIDGE, tiny


def test_settings_hold_what_makes_the_estimator():
    method = Method("m", MaskedRidgeClassifier, {"alpha": 2.5})
    assert json.loads(method.settings) == {"alpha": 2.5, "make": "MaskedRidgeClassifier"}
    assert method.estimator.alpha == 2.5
    assert replace(method, options={"alpha": 2}).settings != method.settings
    assert replace(method, name="other", sets=("one",)).settings == method.settings


def test_settings_of_the_protocols_are_plain():
    for protocol in PROTOCOLS.values():
        for method in protocol.methods:
            made, options = json.loads(method.settings), method.options
            assert made.pop("make") == method.make.__name__
            assert made == json.loads(json.dumps(options))


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


def test_cells_can_be_chosen_and_unknown_choices_are_named():
    protocol = tiny(masks=("per_row", "uniform"), repetitions=5)
    chosen = {"datasets": ["two"], "methods": ["ridge"], "rates": [0.4], "masks": ["uniform"]}
    assert [c.repetition for c in protocol.cells(**chosen)] == [0, 1, 2, 3, 4]
    assert [c.repetition for c in protocol.cells(**chosen, repetitions=2)] == [0, 1]
    # The order is the protocol's, not the caller's.
    assert next(protocol.cells(datasets=["two", "one"])).dataset == "one"
    assert next(protocol.cells(rates=[1])).rate == 1.0
    wrong = {"datasets": ["tow"], "methods": ["rigde"], "rates": [0.5]}
    for name, value in {**wrong, "masks": ["per_lable"]}.items():
        with pytest.raises(ValueError, match=rf"no {name} .*it has"):
            list(protocol.cells(**{name: value}))


def test_seeds_are_the_documented_ones():
    cell = Cell("tuned", "Arts", "per_row", 0.3, 4, "ridge")

    def seed(text):
        entropy = int(hashlib.sha256(text.encode()).hexdigest(), 16)
        return np.random.SeedSequence(entropy).generate_state(1)[0]

    assert cell.split_seed == seed('["dm2l", "split", "Arts", 4]')
    assert cell.mask_seed == seed('["dm2l", "mask", "Arts", 4, "per_row", 0.3]')
    assert cell.estimator_seed == seed('["dm2l", "estimator", "Arts", 4, "per_row", 0.3]')


def test_seeds_depend_on_what_they_should():
    cell = Cell("tuned", "Arts", "per_row", 0.3, 4, "ridge")

    def seeds(**changes):
        changed = cell._replace(**changes)
        return np.array([changed.split_seed, changed.mask_seed, changed.estimator_seed])

    for changes, kept in (
        ({"method": "LEML", "protocol": "as_published"}, [True, True, True]),
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
