"""Rates of ticks: what other ticks of a row tell, and what labels tell each other."""

import numpy as np
import pytest

from dm2l._solvers.features import Features
from dm2l.pu import PUTargets, estimate_class_prior, given_other_labels
from dm2l.simulate import simulate_truncated


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def scored(rng):
    """PUTargets of five labels that go together, and what features say, which is not all."""
    z = 2 * rng.normal(size=(60, 1)) + 0.5 * rng.normal(size=(60, 5))
    ticks = ((z > 0) & (rng.random(z.shape) < 0.8)).astype(float)
    return np.clip(0.4 + 0.05 * z, 0.0, 1.0), ticks


def one_by_one(unseen, ticks, alpha):
    """The same by solving for every label without every row."""
    R, scores = ticks - unseen, np.empty_like(unseen)
    n, c = R.shape
    for j in range(c):
        others = np.arange(c) != j
        for i in range(n):
            rows = np.arange(n) != i
            A = R[rows][:, others]
            beta = np.linalg.solve(A.T @ A + alpha * np.eye(c - 1), A.T @ R[rows, j])
            scores[i, j] = unseen[i, j] + R[i, others] @ beta
    return scores


@pytest.mark.parametrize("alpha", [0.5, 20.0])
def test_scores_given_other_ticks_are_those_of_ridge_without_the_row(scored, monkeypatch, alpha):
    monkeypatch.setattr("dm2l.pu.RIDGES", (alpha,))
    assert np.allclose(given_other_labels(*scored), one_by_one(*scored, alpha), atol=1e-10)


def test_the_ridge_is_the_one_that_foretells_rows_left_out_best(scored, monkeypatch):
    ridges = (0.01, 1.0, 30.0, 1e4)
    monkeypatch.setattr("dm2l.pu.RIDGES", ridges)
    found = [one_by_one(*scored, alpha) for alpha in ridges]
    losses = [np.sum((scored[1] - scores) ** 2) for scores in found]
    assert 0 < np.argmin(losses) < 3
    assert np.allclose(given_other_labels(*scored), found[np.argmin(losses)], atol=1e-10)


def test_the_score_of_an_entry_never_sees_it(scored, monkeypatch):
    monkeypatch.setattr("dm2l.pu.RIDGES", (3.0,))
    unseen, ticks = scored
    before = given_other_labels(unseen, ticks)
    for i, j in ((0, 0), (7, 3), (59, 4)):
        other = ticks.copy()
        other[i, j] = 1 - other[i, j]
        after = given_other_labels(unseen, other)
        assert np.isclose(after[i, j], before[i, j], atol=1e-12)
        assert not np.allclose(np.delete(after[i], j), np.delete(before[i], j))


def test_scores_follow_labels_and_rows_wherever_they_stand(scored, rng):
    unseen, ticks = scored
    rows, labels = rng.permutation(60), rng.permutation(5)
    moved = given_other_labels(unseen[rows][:, labels], ticks[rows][:, labels])
    assert np.allclose(moved, given_other_labels(unseen, ticks)[rows][:, labels], atol=1e-10)


def test_labels_that_compete_for_one_tick_say_nothing_of_each_other(scored):
    unseen, ticks = scored
    one = np.nan_to_num(simulate_truncated(ticks, 1, random_state=0))
    assert given_other_labels(unseen, one) is unseen
    alone = given_other_labels(unseen[:, :1], ticks[:, :1])
    assert np.array_equal(alone, unseen[:, :1])


def test_labels_that_imply_each_other_tell_their_rates_where_features_are_silent(rng):
    truth = np.repeat(rng.random((3000, 2)) < [0.3, 0.2], 3, axis=1)
    ticks = (truth & (rng.random(truth.shape) < 0.4)).astype(float)
    X = rng.normal(size=(3000, 4))
    prior = PUTargets.of(Features(X, True), ticks).prior
    assert np.abs(prior.value - truth.mean(axis=0)).max() < 0.07
    by_features = estimate_class_prior(X[:, :1].repeat(6, axis=1), np.where(ticks, 1.0, np.nan))
    assert (by_features.value > truth.mean(axis=0) + 0.15).all()


def test_priors_follow_their_labels(rng):
    X = rng.normal(size=(400, 6))
    truth = X @ rng.normal(size=(6, 7)) + rng.normal(size=(400, 7)) > 0.7
    ticks = (truth & (rng.random(truth.shape) < 0.5)).astype(float)
    labels = rng.permutation(7)
    first, moved = (PUTargets.of(Features(X, True), t).prior for t in (ticks, ticks[:, labels]))
    for a, b in zip(first, moved, strict=True):
        assert np.allclose(a[labels], b, rtol=1e-6)


@pytest.mark.parametrize("one_each", [False, True])
def test_rates_below_the_mean_over_ticks_are_lifted_to_it(rng, one_each):
    scores = rng.normal(size=(4000, 5))
    truth = scores > [0.0, 0.5, 1.0, 1.0, 0.3]
    truth[:, 4] = rng.random(4000) < 0.15 + 0.1 * (scores[:, 4] > 0)  # a quarter at best
    Y = np.where(truth & (rng.random(truth.shape) < [0.6, 0.5, 0.4, 0.5, 0.5]), 1.0, np.nan)
    if one_each:
        Y = np.where(simulate_truncated(np.nan_to_num(Y), 1, random_state=0) == 1, 1.0, np.nan)
    alone = [estimate_class_prior(scores[:, [j]], Y[:, [j]]).rate[0] for j in range(5)]
    mean = np.average(alone, weights=np.nansum(Y, axis=0))
    found = estimate_class_prior(scores, Y)
    below = np.asarray(alone) < mean
    assert below[4]
    assert 1 < below.sum() < 5
    assert np.allclose(found.rate[below], mean)
    if one_each:
        assert np.allclose(found.rate, mean)
        # Labels differ more than their mean is uncertain, and their errors say so.
        weight = np.nansum(Y, axis=0) / np.nansum(Y)
        of_mean = np.sqrt(np.sum((weight * (np.asarray(alone) / mean - 1)) ** 2))
        assert (found.standard_error / found.value > 1.5 * of_mean).all()
    else:
        assert (found.rate[~below] > mean).all()
        assert (found.rate[~below] < np.asarray(alone)[~below]).all()
