"""The sample of rows that a stream keeps, against sorting all rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dm2l.completion._completer import row_digests, row_keys
from dm2l.outofcore import _sample
from dm2l.outofcore._sample import RowSample

problems = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed))


def draw(rng):
    n, d, c = rng.integers(1, 60), rng.integers(1, 4), rng.integers(1, 4)
    X = rng.integers(-3, 4, size=(n, d)).astype(float)  # some rows are equal
    return X, rng.choice([-1, 0, 1], size=(n, c)).astype(np.int8)


def table(rows):
    """Rows as a sorted list, for they come in no order that means anything."""
    if rows is None:
        return []
    X, T = rows
    X = X.toarray() if sp.issparse(X) else X
    return sorted(map(tuple, np.hstack([X, T]).tolist()))


def oracle(X, T, most):
    """Distinct rows of the smallest keys, and how often each came."""
    seen = (T != 0).any(axis=1)
    X, T = X[seen], T[seen]
    keys = row_keys(row_digests(X), T)
    found = {}
    for key, row in zip(keys.tolist(), np.hstack([X, T]).tolist(), strict=True):
        found.setdefault((key, tuple(row)), []).append(tuple(row))
    ranked = sorted(found)
    below = ranked[most][0] if len(ranked) > most else 2**64
    return {row: len(found[key, row]) for key, row in ranked if key < below}


def counted(sample):
    sample._settle()
    if not sample._parts:
        return {}
    (part,) = sample._parts
    X = part.X.toarray() if sp.issparse(part.X) else part.X
    rows = map(tuple, np.hstack([X, part.T]).tolist())
    return dict(zip(rows, part.weights.tolist(), strict=True))


def cut(rng, n):
    return np.array_split(rng.permutation(n), rng.integers(1, 6))


@given(problems, st.integers(1, 80))
@settings(deadline=None, max_examples=80)
def test_rows_of_the_smallest_keys_in_any_order_blocks_and_places(rng, most):
    X, T = draw(rng)
    expected = oracle(X, T, most)
    one_by_one = RowSample(most)
    for rows in cut(rng, len(T)):
        one_by_one.add(X[rows], T[rows])
    assert counted(one_by_one) == expected
    merged = RowSample(most)
    for rows in cut(rng, len(T)):
        part = RowSample(most).add(sp.csr_matrix(X[rows]), T[rows])
        assert merged.combine(part, 1)
    assert counted(merged) == expected
    again = RowSample.from_state(merged.state())
    assert counted(again) == expected


@given(problems, st.integers(1, 80))
@settings(deadline=None, max_examples=80)
def test_rows_taken_away_are_gone_and_what_is_left_is_fair(rng, most):
    X, T = draw(rng)
    gone = rng.random(len(T)) < 0.4
    sample = RowSample(most).add(X, T)
    below = sample._settle() or sample.below
    assert sample.combine(RowSample(most).add(X[gone], T[gone]), -1)
    # All that is left of rows below the rank that was turned down once, and nothing else.
    X, T = X[~gone], T[~gone]
    inside = row_keys(row_digests(X), T) / 2.0**64 < below
    assert counted(sample) == oracle(X[inside], T[inside], 80)


def test_what_was_turned_down_once_stays_out():
    rng = np.random.default_rng(0)
    X, T = rng.standard_normal((300, 2)), np.ones((300, 1), dtype=np.int8)
    first, gone, new = slice(0, 100), slice(0, 90), slice(100, 140)
    sample = RowSample(50).add(X[first], T[first])
    sample.combine(RowSample(50).add(X[gone], T[gone]), -1)
    expected = counted(sample.add(X[new], T[new]))
    merged = RowSample(50).add(X[new][:15], T[new][:15])
    other = RowSample(50).add(X[first], T[first])
    other.combine(RowSample(50).add(X[gone], T[gone]), -1)
    merged.combine(other, 1)
    assert counted(merged.add(X[new][15:], T[new][15:])) == expected
    left = np.r_[90:140]
    below = row_keys(row_digests(X[left]), T[left]) / 2.0**64 < sample.below
    assert counted(sample) == oracle(X[left][below], T[left][below], 300)


def test_rows_that_never_were_there_end_the_sample():
    X, T = np.arange(8.0).reshape(4, 2), np.ones((4, 1), dtype=np.int8)
    sample = RowSample(10).add(X[:3], T[:3])
    assert not sample.combine(RowSample(10).add(X[3:], T[3:]), -1)
    assert sample.rows() is None
    assert sample.add(X, T).rows() is None


def test_rows_without_labels_and_no_rows_at_all():
    sample = RowSample(10).add(np.ones((3, 2)), np.zeros((3, 1), dtype=np.int8))
    assert sample.add(np.ones((0, 2)), np.zeros((0, 1), dtype=np.int8)).rows() is None
    assert RowSample(0).add(np.ones((3, 2)), np.ones((3, 1), dtype=np.int8)).rows() is None


def test_every_row_has_the_same_chance():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 50, size=(40_000, 2)).astype(float) + np.arange(40_000)[:, None] / 2**17
    T = rng.choice([-1, 1], size=(40_000, 3)).astype(np.int8)
    found, _ = RowSample(10_000).add(X, T).rows()
    place = np.round((found[:, 0] % 1) * 2**17)
    assert len(found) == 10_000
    shares = np.histogram(place, bins=8, range=(0, 40_000))[0] / 1250
    np.testing.assert_allclose(shares, 1.0, atol=0.12)  # four deviations
    np.testing.assert_allclose((found // 1).mean(axis=0), 24.5, atol=0.6)


@pytest.mark.parametrize("most", [100_000, 2_000])
def test_rows_of_old_blocks_become_rare_as_they_weigh_less(most):
    rng = np.random.default_rng(0)
    sample = RowSample(most)
    for day in range(6):
        X = np.column_stack([rng.standard_normal(4000), np.full(4000, float(day))])
        sample.scale(0.5)
        sample.add(X, np.ones((4000, 1), dtype=np.int8))
    X, _ = sample.rows()
    days = np.bincount(X[:, 1].astype(int), minlength=6) / len(X)
    np.testing.assert_allclose(days, 0.5 ** np.arange(6)[::-1] / 1.96875, atol=0.04)
    assert len(X) > 0.8 * min(most, 8000)  # it is not old rows that fill the sample


def test_a_row_that_came_very_often_does_not_fill_the_memory():
    sample, T = RowSample(100), np.ones((1000, 1), dtype=np.int8)
    sample.add(np.zeros((1000, 2)), T).add(np.arange(80.0).reshape(40, 2) + 1, T[:40])
    X, _ = sample.rows()
    assert 80 <= len(X) <= 120
    assert (X == 0).all(axis=1).mean() > 0.9


def test_fewer_rows_are_given_where_much_is_made_of_each(monkeypatch):
    monkeypatch.setattr(_sample, "MAX_BYTES", 100_000)
    X, T = np.arange(400.0)[:, None], np.ones((400, 1), dtype=np.int8)
    sample = RowSample(1000).add(X, T)
    assert len(sample.rows()[0]) == 400
    assert 60 < len(sample.rows(width=125)[0]) < 140  # a thousand bytes each


@pytest.mark.parametrize("sparse", [False, True])
def test_wide_rows_are_bounded_by_their_bytes(sparse, monkeypatch):
    monkeypatch.setattr(_sample, "MAX_BYTES", 100_000)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 100)) * (rng.random((400, 100)) < 0.2)
    T = np.ones((400, 2), dtype=np.int8)
    X = sp.csr_matrix(X) if sparse else X
    room = 100_000 / (12 * 20 + 64) if sparse else 100_000 / 864
    whole = RowSample(1000).add(X, T)
    found, _ = whole.rows()
    assert 0.9 * room < found.shape[0] < 1.1 * room
    parts = RowSample(1000)
    for rows in np.array_split(rng.permutation(400), 9):
        parts.add(X[rows], T[rows])
    assert table(parts.rows()) == table(whole.rows())


def test_what_is_elsewhere_sends_enough_and_not_much_more():
    rng = np.random.default_rng(0)
    for seed in range(20):
        X, T = rng.standard_normal((3000, 1)), np.ones((3000, 1), dtype=np.int8)
        whole, parts = RowSample(200).add(X, T), RowSample(200)
        sent = 0
        for rows in np.array_split(np.arange(3000), 7):
            part = RowSample(200)
            part.expect(3000)
            part.add(X[rows], T[rows])
            sent += sum(len(rows.T) for rows in part._parts)
            parts.combine(part, 1)
        assert table(parts.rows()) == table(whole.rows()), seed
        assert sent < 400
