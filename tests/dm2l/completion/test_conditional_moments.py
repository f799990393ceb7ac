"""Means and variances given the row's other labels, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm2l.completion import _covariance
from dm2l.completion._covariance import (
    DenseCovariance,
    FactorCovariance,
    conditional_moments,
)

SEEDS = st.integers(0, 2**16)


def problem(seed, n=12, c=6, r=3, rate=None):
    """A covariance in both forms, signs with holes, scores."""
    rng = np.random.default_rng(seed)
    L, psi = rng.normal(size=(c, r)), rng.uniform(0.2, 1.0, c)
    factor = FactorCovariance(L, psi)
    rate = rng.choice([0.0, 0.3, 0.7, 1.0]) if rate is None else rate
    T = np.where(rng.random((n, c)) < rate, rng.choice([-1, 1], (n, c)), 0).astype(np.int8)
    return DenseCovariance(factor.matrix()), factor, T, rng.normal(size=(n, c))


def one_by_one(S, T, F):
    """Every entry by a solve of its own, with its own label really left out."""
    mean, variance = np.empty(F.shape), np.empty(F.shape)
    for i, k in np.ndindex(*F.shape):
        O = np.flatnonzero((T[i] != 0) & (np.arange(F.shape[1]) != k))  # noqa: E741
        gain = np.linalg.solve(S[np.ix_(O, O)], S[O, k])
        mean[i, k] = F[i, k] + gain @ (T[i, O] - F[i, O])
        variance[i, k] = S[k, k] - gain @ S[O, k]
    return mean, variance


@given(seed=SEEDS, c=st.integers(1, 9), memory=st.sampled_from([1.0, 5e3, 1e9]))
@settings(max_examples=25, deadline=None)
def test_holes_and_left_out_labels_are_what_a_solve_of_their_own_gives(seed, c, memory):
    dense, factor, T, F = problem(seed, c=c)
    mean, variance = one_by_one(dense.S, T, F)
    for form in (dense, factor):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_covariance, "MEMORY", memory)
            got = conditional_moments(form, T, F)
        np.testing.assert_allclose(got[0], mean, atol=1e-8)
        np.testing.assert_allclose(got[1], variance, atol=1e-8)


@given(seed=SEEDS)
@settings(max_examples=10, deadline=None)
def test_a_known_entry_never_sees_its_own_sign(seed):
    dense, _, T, F = problem(seed, rate=0.6)
    known = np.argwhere(T != 0)
    i, k = known[seed % len(known)]
    other = T.copy()
    other[i, k] = -T[i, k]
    for a, b in zip(
        conditional_moments(dense, T, F), conditional_moments(dense, other, F), strict=True
    ):
        np.testing.assert_allclose(a[i, k], b[i, k], atol=1e-9)


@given(seed=SEEDS)
@settings(max_examples=10, deadline=None)
def test_order_of_labels_and_rows_does_not_matter(seed):
    dense, factor, T, F = problem(seed)
    rng = np.random.default_rng(seed)
    rows, labels = rng.permutation(T.shape[0]), rng.permutation(T.shape[1])
    at = np.ix_(rows, labels)
    moved = (
        DenseCovariance(dense.S[np.ix_(labels, labels)]),
        FactorCovariance(factor.L[labels], factor.psi[labels]),
    )
    for form, other in zip((dense, factor), moved, strict=True):
        for a, b in zip(
            conditional_moments(form, T, F), conditional_moments(other, T[at], F[at]), strict=True
        ):
            np.testing.assert_allclose(a[at], b, atol=1e-9)


def test_labels_nobody_knows_change_nothing_for_the_others():
    dense, _, T, F = problem(3, rate=0.6)
    T[:, 2] = 0
    rest = [0, 1, 3, 4, 5]
    less = DenseCovariance(dense.S[np.ix_(rest, rest)])
    for a, b in zip(
        conditional_moments(dense, T, F),
        conditional_moments(less, T[:, rest], F[:, rest]),
        strict=True,
    ):
        np.testing.assert_allclose(a[:, rest], b, atol=1e-10)


@pytest.mark.parametrize("form", [0, 1])
def test_rows_that_share_a_pattern_share_their_answer(form):
    forms = problem(5, n=4, rate=0.5)
    T, F = np.repeat(forms[2], 50, axis=0), np.repeat(forms[3], 50, axis=0)
    few, many = conditional_moments(forms[form], *forms[2:]), conditional_moments(forms[form], T, F)
    for a, b in zip(few, many, strict=True):
        np.testing.assert_allclose(np.repeat(a, 50, axis=0), b, atol=1e-10)


@pytest.mark.parametrize("form", [0, 1])
def test_no_rows(form):
    forms = problem(1, n=3)
    T, F = forms[2:]
    assert conditional_moments(forms[form], T[:0], F[:0])[0].shape == (0, 6)
