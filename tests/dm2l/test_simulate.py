"""Hiding labels: exact counts, nothing invented, one seed one mask."""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dm2l.labels import LabelMatrix
from dm2l.simulate import (
    simulate_missing_positives,
    simulate_per_label,
    simulate_per_row,
    simulate_uniform,
)

# A law of all of them is tried on the same matrices: drawing one takes longer than hiding labels.
ALL = [simulate_uniform, simulate_per_row, simulate_per_label, simulate_missing_positives]
all_masks = pytest.mark.parametrize("hide", ALL, ids=lambda hide: hide.__name__)

# A slow example on a busy machine is not a failure.
no_deadline = settings(deadline=None)

seeds = st.integers(0, 2**32 - 1)
# Shares as people write them: the exact product with a count is then a known fraction.
shares = st.integers(0, 100).map(lambda hundredths: hundredths / 100)
entries = st.sampled_from([0.0, 1.0, np.nan])
shapes = hnp.array_shapes(min_dims=2, max_dims=2, max_side=9)
labels = hnp.arrays(np.float64, shapes, elements=entries).filter(
    lambda Y: bool((~np.isnan(Y)).any())
)


def ceil_share(rho, counts):
    exact = Fraction(str(rho))
    return np.array([-((-exact * int(m)) // 1) for m in np.ravel(counts)], dtype=int)


def random_labels(shape=(60, 7), seed=0, missing=0.2):
    rng = np.random.default_rng(seed)
    Y = (rng.random(shape) < 0.3).astype(float)
    Y[rng.random(shape) < missing] = np.nan
    return Y


# ------------------------------------------------------------------------------------------ laws


@no_deadline
@given(Y=labels, rho=shares, seed=seeds)
def test_what_is_kept_is_unchanged_and_what_was_missing_stays_missing(Y, rho, seed):
    before = Y.copy()
    for hide in ALL:
        hidden, kept = hide(Y, rho, random_state=seed, return_mask=True)
        np.testing.assert_array_equal(Y, before, err_msg=hide.__name__)
        assert hidden.shape == Y.shape
        assert hidden.dtype == np.float64
        np.testing.assert_array_equal(kept, ~np.isnan(hidden), err_msg=hide.__name__)
        np.testing.assert_array_equal(hidden[kept], Y[kept], err_msg=hide.__name__)
        assert not (kept & np.isnan(Y)).any(), hide


@no_deadline
@given(Y=labels, rho=shares, seed=seeds)
def test_uniform_keeps_exactly_the_share_of_what_was_observed(Y, rho, seed):
    hidden = simulate_uniform(Y, rho, random_state=seed)
    assert (~np.isnan(hidden)).sum() == ceil_share(rho, (~np.isnan(Y)).sum())[0]


@pytest.mark.parametrize(("hide", "axis"), [(simulate_per_row, 1), (simulate_per_label, 0)])
@no_deadline
@given(Y=labels, rho=shares, seed=seeds)
def test_per_row_and_per_label_keep_exactly_the_share_of_each_class(hide, axis, Y, rho, seed):
    hidden = hide(Y, rho, random_state=seed)
    np.testing.assert_array_equal((hidden == 0).sum(axis), ceil_share(rho, (Y == 0).sum(axis)))
    np.testing.assert_array_equal((hidden == 1).sum(axis), ceil_share(rho, (Y == 1).sum(axis)))


@no_deadline
@given(Y=labels, rho=shares, seed=seeds)
def test_positives_keeps_the_share_of_each_label_and_every_negative(Y, rho, seed):
    hidden = simulate_missing_positives(Y, rho, random_state=seed)
    np.testing.assert_array_equal((hidden == 1).sum(0), ceil_share(rho, (Y == 1).sum(0)))
    np.testing.assert_array_equal(hidden == 0, Y == 0)


@no_deadline
@given(Y=labels, rho=shares, seed=seeds)
def test_a_tagger_who_stopped_records_negatives_instead_of_missing_entries(Y, rho, seed):
    options = {"random_state": seed, "return_mask": True}
    missing, kept = simulate_missing_positives(Y, rho, **options)
    negative, kept_too = simulate_missing_positives(Y, rho, become="negative", **options)
    np.testing.assert_array_equal(kept, kept_too)
    np.testing.assert_array_equal(np.isnan(negative), np.isnan(Y))
    lost = np.isnan(missing) & ~np.isnan(Y)
    assert (negative[lost] == 0).all()
    np.testing.assert_array_equal(negative[~lost], missing[~lost])


@no_deadline
@given(Y=labels, seed=seeds)
def test_rho_one_changes_nothing_and_rho_zero_hides_all_it_may(Y, seed):
    for hide in ALL:
        np.testing.assert_array_equal(hide(Y, 1, random_state=seed), Y, err_msg=hide.__name__)
        nothing = hide(Y, 0, random_state=seed)
        may_stay = Y == 0 if hide is simulate_missing_positives else np.zeros(Y.shape, dtype=bool)
        np.testing.assert_array_equal(~np.isnan(nothing), may_stay, err_msg=hide.__name__)


@no_deadline
@given(Y=labels, seed=seeds, pair=st.tuples(shares, shares))
def test_masks_of_one_seed_are_nested(Y, seed, pair):
    for hide in ALL:
        _, few = hide(Y, min(pair), random_state=seed, return_mask=True)
        _, many = hide(Y, max(pair), random_state=seed, return_mask=True)
        assert not (few & ~many).any(), hide


# ------------------------------------------------------------------------------------- the choice


@pytest.mark.parametrize(
    ("rho", "count", "kept"),
    # The first four products are not what they look like in binary: 0.1 * 30 > 3.
    [(0.1, 30, 3), (0.7, 10, 7), (0.1 + 0.2, 10, 3), (0.55, 100, 55), (0.71, 10, 8), (1e-9, 5, 1)],
)
@all_masks
def test_the_ceiling_is_safe_against_rounding(hide, rho, count, kept):
    Y = np.ones((1, count)) if hide is simulate_per_row else np.ones((count, 1))
    assert np.nansum(hide(Y, rho, random_state=0)) == kept


@all_masks
def test_one_seed_one_mask_and_another_seed_another(hide):
    Y = random_labels()
    first = hide(Y, 0.5, random_state=3)
    np.testing.assert_array_equal(first, hide(Y, 0.5, random_state=3))
    np.testing.assert_array_equal(first, hide(Y, 0.5, random_state=np.random.RandomState(3)))
    assert not np.array_equal(first, hide(Y, 0.5, random_state=4), equal_nan=True)


@all_masks
def test_every_entry_has_the_same_chance(hide):
    # 2 of 4 in each row (per row), of each column (per label), half of all (uniform): each entry
    # is kept in half of 2000 draws; six standard deviations are 0.067.
    Y = np.ones((4, 4))
    rng = np.random.RandomState(0)
    share = np.mean([~np.isnan(hide(Y, 0.5, random_state=rng)) for _ in range(2000)], axis=0)
    np.testing.assert_allclose(share, 0.5, atol=0.067)


def test_per_row_keeps_a_positive_in_every_row_and_uniform_does_not():
    Y = np.eye(40)
    assert (np.nansum(simulate_per_row(Y, 0.3, random_state=0), axis=1) == 1).all()
    assert np.nansum(simulate_uniform(Y, 0.3, random_state=0)) < 30


# ------------------------------------------------------------------------------------- containers


def containers():
    Y = random_labels()
    missing = np.isnan(Y)
    signed = np.where(missing, 0, np.where(Y == 1, 1, -1))
    return Y, {
        "plus_minus": np.where(missing, np.nan, signed),
        "nested_list": Y.tolist(),
        "masked_array": np.ma.array(np.where(missing, 7, Y), mask=missing),
        "object": np.where(missing, None, Y),
        "pandas": pd.DataFrame(Y),
        "nullable": pd.DataFrame(Y).astype("Int8"),
        "polars": pl.DataFrame(np.where(missing, None, Y)),
    }


@all_masks
@pytest.mark.parametrize("container", sorted(containers()[1]))
def test_the_choice_depends_on_the_labels_not_on_the_container(hide, container):
    Y, others = containers()
    expected, mask = hide(Y, 0.6, random_state=5, return_mask=True)
    result, same_mask = hide(others[container], 0.6, random_state=5, return_mask=True)
    np.testing.assert_array_equal(np.asarray(result), expected)
    np.testing.assert_array_equal(same_mask, mask)


@all_masks
def test_complete_labels_of_any_type_give_the_same_mask(hide):
    Y = random_labels(missing=0)
    expected = hide(Y, 0.6, random_state=5)
    np.testing.assert_array_equal(hide(Y.astype(bool), 0.6, random_state=5), expected)
    np.testing.assert_array_equal(hide(Y.astype(np.int8), 0.6, random_state=5), expected)


@all_masks
def test_a_data_frame_keeps_its_index_and_columns(hide):
    names, rows = list("abcdefg"), np.arange(60)[::-1]
    frame = pd.DataFrame(random_labels(), index=rows, columns=names)
    result = hide(frame, 0.5, random_state=0)
    assert isinstance(result, pd.DataFrame)
    pd.testing.assert_index_equal(result.index, frame.index)
    pd.testing.assert_index_equal(result.columns, frame.columns)


@all_masks
@pytest.mark.parametrize("csr", [sp.csr_array, sp.csr_matrix])
def test_signed_csr_comes_back_as_signed_csr(hide, csr):
    Y = random_labels()
    signed = csr(np.where(np.isnan(Y), 0, np.where(Y == 1, 1, -1)))
    expected = hide(Y, 0.6, random_state=5)
    result = hide(signed, 0.6, random_state=5)
    assert isinstance(result, csr)
    assert (result.data != 0).all()
    dense = result.toarray()
    np.testing.assert_array_equal(np.where(dense == 0, np.nan, dense > 0), expected)


@all_masks
def test_another_mark_can_mean_missing(hide):
    Y = random_labels()
    marked = np.where(np.isnan(Y), -9, Y)
    labels = LabelMatrix.from_array(marked, missing_label=-9)
    np.testing.assert_array_equal(hide(labels, 0.5, random_state=1), hide(Y, 0.5, random_state=1))


# ----------------------------------------------------------------------------------------- errors


@all_masks
@pytest.mark.parametrize("rho", [-0.1, 1.5, np.nan, "half", None, True])
def test_a_share_outside_zero_to_one_is_refused_by_value(hide, rho):
    with pytest.raises(ValueError, match=f"got {rho!r}"):
        hide(np.ones((2, 2)), rho)


@all_masks
def test_classes_are_not_a_label_matrix(hide):
    with pytest.raises(ValueError, match="label matrix"):
        hide(["cat", "dog", "bird"], 0.5)


def test_unknown_options_of_missing_positives_are_refused():
    with pytest.raises(ValueError, match="got 'unknown'"):
        simulate_missing_positives(np.ones((2, 2)), 0.5, become="unknown")


# -------------------------------------------------------------------------------------- real data


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("DM2L_DATA"), reason="DM2L_DATA is not set: no real data")
@pytest.mark.parametrize(
    ("rho", "positives", "entries_kept"), [(0.7, 0.97, 0.73), (0.3, 0.64, 0.34)]
)
def test_the_released_rule_on_arts_is_as_mild_as_was_measured(rho, positives, entries_kept):
    from dm2l.datasets import load_dataset

    Y = load_dataset("Arts").target
    hidden = simulate_per_row(Y, rho, random_state=0)
    assert np.nansum(hidden) / Y.sum() == pytest.approx(positives, abs=0.01)
    assert (~np.isnan(hidden)).mean() == pytest.approx(entries_kept, abs=0.01)
