"""Covariances of residuals of known labels: EM against direct maximization, and its laws."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from dm2l.completion._covariance import (
    DenseCovariance,
    FactorCovariance,
    batches,
    em_dense,
    em_factor,
    pairwise_covariance,
)


def residual_rows(seed, n=40, c=4, rate=0.6, r=2):
    rng = np.random.default_rng(seed)
    E = rng.normal(size=(n, r)) @ rng.normal(size=(r, c)) + 0.7 * rng.normal(size=(n, c))
    known = rng.random((n, c)) < rate
    return np.where(known, E, 0.0), known


def fitted(E, known, form, rounds=10):
    if form == "factor":
        return em_factor(E, known, 2, rounds=rounds)[0].matrix()
    start = DenseCovariance(pairwise_covariance(E, known))
    return em_dense(E, known, start, rounds=rounds)[0].matrix()


def log_likelihood(S, E, known):
    """Of the known residuals, row by row, constants left out."""
    total = 0.0
    for e, m in zip(E, known, strict=True):
        if m.any():
            block = S[np.ix_(m, m)]
            total -= 0.5 * (np.log(np.linalg.det(block)) + e[m] @ np.linalg.solve(block, e[m]))
    return total


def test_em_finds_what_direct_maximisation_finds():
    E, known = residual_rows(0, n=60, c=3)
    start = DenseCovariance(pairwise_covariance(E, known, 0.0))
    nu = 0.3 * len(E)

    def objective(S):
        prior = np.linalg.slogdet(S)[1] + np.trace(np.linalg.solve(S, start.S))
        return log_likelihood(S, E, known) - 0.5 * nu * prior

    def loss(v):
        root = np.zeros((3, 3))
        root[np.tril_indices(3)] = v
        return -objective(root @ root.T + 1e-9 * np.eye(3))

    first = np.linalg.cholesky(start.S)[np.tril_indices(3)]
    best = scipy.optimize.minimize(loss, first, method="BFGS", options={"gtol": 1e-6})
    found, history = em_dense(E, known, start, rounds=300, tol=0.0)
    root = np.zeros((3, 3))
    root[np.tril_indices(3)] = best.x
    np.testing.assert_allclose(found.S, root @ root.T, atol=1e-4)
    np.testing.assert_allclose(history[-1], -best.fun, rtol=1e-8)


def test_factors_find_what_direct_maximisation_finds():
    E, known = residual_rows(1, n=60, c=4)
    d = ((E**2).sum(axis=0) + 1) / (known.sum(axis=0) + 1)

    def loss(v):
        L, psi = v[:4], np.exp(v[4:])
        held = 5.0 * L**2 / psi + np.log(psi) + d / psi
        return 0.5 * held.sum() - log_likelihood(np.outer(L, L) + np.diag(psi), E, known)

    found, history = em_factor(E, known, 1, ridge=5.0, rounds=500, tol=0.0)
    first = np.concatenate([found.L[:, 0] * 0.5, np.log(d)])
    best = scipy.optimize.minimize(loss, first, method="BFGS", options={"gtol": 1e-6})
    np.testing.assert_allclose(history[-1], -best.fun, rtol=1e-6)
    L = best.x[:4]
    np.testing.assert_allclose(
        found.matrix(), np.outer(L, L) + np.diag(np.exp(best.x[4:])), atol=1e-3
    )


@given(
    seed=st.integers(0, 2**16),
    rate=st.sampled_from([0.2, 0.5, 0.9, 1.0]),
    prior=st.sampled_from([0.0, 0.1, 3.0]),
)
@settings(max_examples=15, deadline=None)
def test_no_round_lowers_the_objective(seed, rate, prior):
    E, known = residual_rows(seed, rate=rate, c=5)
    start = DenseCovariance(pairwise_covariance(E, known, 1.0))
    with mock.patch("dm2l.completion._covariance.PRIOR", prior):
        dense = em_dense(E, known, start, rounds=6, tol=-np.inf)[1]
    factor = em_factor(E, known, 2, ridge=1 + 10 * prior, rounds=6, tol=-np.inf)[1]
    for history in (dense, factor):
        assert len(history) == 7
        assert np.diff(history).min() >= -1e-8 * abs(history[0])


def test_the_gradient_is_that_of_the_likelihood():
    E, known = residual_rows(2)
    S = DenseCovariance(pairwise_covariance(E, known))
    gradient, value = S.expected(E, known, list(batches(known)))
    np.testing.assert_allclose(value, log_likelihood(S.S, E, known), rtol=1e-10)
    step = np.zeros_like(S.S)
    step[0, 1] = step[1, 0] = step[2, 2] = 1e-5
    up, down = (log_likelihood(S.S + s * step, E, known) for s in (1, -1))
    np.testing.assert_allclose((up - down) / 2, 0.5 * np.sum(gradient * step), rtol=1e-5)


def test_moments_are_those_of_rows_where_both_are_known():
    E, known = residual_rows(3, n=400)
    S = pairwise_covariance(E, known, 0.0)
    both = known[:, 0] & known[:, 1]
    np.testing.assert_allclose(S[0, 1], np.mean(E[both, 0] * E[both, 1]), rtol=1e-10)
    assert abs(pairwise_covariance(E, known, 1.0)[0, 1]) < abs(S[0, 1])


def test_pairs_without_evidence_are_taken_as_unrelated():
    rng = np.random.default_rng(0)
    known = rng.random((300, 12)) < 0.2
    E = np.where(known, rng.normal(size=known.shape), 0.0)
    off = ~np.eye(12, dtype=bool)
    loose, tight = (pairwise_covariance(E, known, s)[off] for s in (0.0, 2.0))
    assert np.mean(tight == 0.0) > 0.7
    assert np.abs(tight).sum() < 0.5 * np.abs(loose).sum()


@pytest.mark.parametrize("form", ["dense", "factor"])
def test_a_label_or_row_without_anything_known_changes_nothing(form):
    E, known = residual_rows(4, n=200)
    plain = fitted(E, known, form)
    more, none = np.pad(E, ((0, 0), (0, 1))), np.pad(known, ((0, 0), (0, 1)))
    S = fitted(more, none, form)
    np.testing.assert_allclose(S[:4, :4], plain, atol=1e-6)
    np.testing.assert_allclose(S[4, :4], 0.0, atol=1e-6)


def test_a_row_without_anything_known_moves_only_the_weight_of_the_prior():
    E, known = residual_rows(4, n=200)
    start = DenseCovariance(pairwise_covariance(E, known))
    longer, none = np.pad(E, ((0, 3), (0, 0))), np.pad(known, ((0, 3), (0, 0)))
    np.testing.assert_allclose(pairwise_covariance(longer, none), start.S, atol=1e-12)
    for S in (start, FactorCovariance(np.ones((4, 1)), np.ones(4))):
        for a, b in zip(S.shifts(longer, none), S.shifts(E, known), strict=True):
            np.testing.assert_allclose(a[:200], b, atol=1e-12)


@pytest.mark.parametrize("form", ["dense", "factor"])
def test_the_order_of_labels_does_not_matter(form):
    E, known = residual_rows(5, n=300, c=6)
    order = np.array([3, 0, 5, 1, 4, 2])
    S = fitted(E, known, form, 20)
    moved = fitted(E[:, order], known[:, order], form, 20)
    np.testing.assert_allclose(S[np.ix_(order, order)], moved, atol=1e-4)


def test_the_truth_is_found():
    E, known = residual_rows(7, n=4000, c=5)
    rng = np.random.default_rng(7)
    rng.normal(size=(4000, 2))
    loadings = rng.normal(size=(2, 5))
    truth = loadings.T @ loadings + 0.49 * np.eye(5)
    np.testing.assert_allclose(fitted(E, known, "dense"), truth, atol=0.25)
