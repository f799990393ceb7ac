"""Newton's method for penalized logistic regressions, against scikit-learn and scipy."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from dm2l._auto._stack import fit_shrunk
from dm2l._utils.logistic import LogisticProblem, padded
from dm2l.completion._correlation import _WithSigns


def problem(seed, m, c, n, useless=False):
    """Inputs (m, c, n), signs and weights, some of them zero."""
    rng = np.random.default_rng(seed)
    Z, slope = rng.normal(size=(m, c, n)), rng.gamma(2.0, 0.6, size=(m, c, 1))
    if useless:
        slope[-1] *= -1  # a model that is better left out
    eta = rng.normal(size=(c, 1)) + (slope * Z).sum(axis=0)
    t = np.where(rng.random((c, n)) < 1 / (1 + np.exp(-eta)), 1.0, -1.0)
    return Z, t, rng.integers(0, 3, (c, n)).astype(float)


def steps(size):
    """Steps for second derivatives by central differences."""
    E = 1e-3 * np.eye(size)
    return [a * x + b * y for a in (1, -1) for b in (1, -1) for x in E for y in E]


def by_l_bfgs(loss, start, bounds=None):
    options = {"ftol": 1e-15, "gtol": 1e-9, "maxfun": 10**6, "maxiter": 10**5}
    return minimize(loss, start, method="L-BFGS-B", bounds=bounds, options=options).x


@pytest.mark.parametrize("strength", [0.1, 5.0])
def test_a_label_is_a_ridge_logistic_regression_of_scikit_learn(strength):
    Z, t, weights = problem(0, 3, 4, 200)
    inputs = np.stack([np.ones_like(t), *Z], axis=1)
    penalty = np.array([0.0, strength, strength, strength])
    own = LogisticProblem(inputs, t, weights, penalty, np.zeros(4))
    found = own.minimize(np.zeros((4, 4)), tol=1e-12)
    for k in range(4):
        oracle = LogisticRegression(C=1 / strength, solver="newton-cholesky", tol=1e-12)
        oracle.fit(Z[:, k].T, t[k], weights[k])
        expected = [*oracle.intercept_, *oracle.coef_[0]]
        np.testing.assert_allclose(found[k], expected, atol=1e-9)


def test_weights_are_counts_and_offsets_are_part_of_the_log_odds():
    Z, t, weights = problem(1, 2, 3, 80)
    inputs, offset = Z.transpose(1, 0, 2), 0.5 * Z[0] - 0.2
    shrunk = np.ones(2), np.array([[0.3, -0.1]])
    found = LogisticProblem(inputs, t, weights, *shrunk, offset).minimize(np.zeros((3, 2)), tol=0)
    for k in range(3):
        copies = np.repeat(np.arange(80), weights[k].astype(int))
        rows = inputs[k][:, copies], t[k, copies], offset[k, copies]

        def loss(w, Z=rows[0], t=rows[1], b=rows[2]):
            apart = w - [0.3, -0.1]
            return np.logaddexp(0, -t * (b + w @ Z)).sum() + 0.5 * apart @ apart

        np.testing.assert_allclose(found[k], by_l_bfgs(loss, np.zeros(2)), atol=1e-5)


@pytest.mark.parametrize(("m", "useless"), [(1, False), (3, False), (3, True)])
def test_shared_and_own_weights_are_those_of_a_general_minimizer(m, useless):
    c = 4
    Z, t, v = problem(m, m, c, 100, useless)
    found = fit_shrunk(Z, t, v, np.full(m, 1 / m), np.zeros(c), 1.0, 20.0, 3.0)
    own, intercepts, common, _ = found

    def objective(x, goal, firm):
        W, b = x[:-c].reshape(m, -1), x[-c:]
        loss = (v * np.logaddexp(0, -t * (b[:, None] + (W[:, :, None] * Z).sum(axis=0)))).sum()
        return loss + firm / 2 * ((W - goal) ** 2).sum() + 3.0 / 2 * (b**2).sum()

    def best(start, goal, firm):
        bounds = [(0, None)] * (len(start) - c) + [(None, None)] * c
        return by_l_bfgs(lambda x: objective(x, goal, firm), start, bounds)

    first = best(np.append(np.full(m, 0.5), np.zeros(c)), 1 / m, 1.0)
    np.testing.assert_allclose(common, first[:m], atol=2e-5)
    assert (common[-1] == 0) == useless
    start = np.append(np.repeat(first[:m], c), first[m:])
    second = best(start, first[:m, None], 20.0)
    np.testing.assert_allclose(own, second[:-c].reshape(m, c), atol=2e-5)
    if not useless:  # variances are the diagonal of the inverse of second derivatives
        near = [objective(second + d, first[:m, None], 20.0) for d in steps(len(second))]
        covariance = np.linalg.inv(np.reshape(near, (4, len(second), -1)).T @ [1, -1, -1, 1] / 4e-6)
        expected = np.diag(covariance)[:-c].reshape(m, c)
        np.testing.assert_allclose(found.variance, expected, rtol=1e-3)
    np.testing.assert_allclose(intercepts, second[-c:], atol=2e-5)


def test_signs_of_other_labels_are_inputs_of_a_ridge_logistic_regression():
    rng = np.random.default_rng(0)
    Z, t = rng.normal(size=(3, 4, 60)), rng.choice([-1.0, 0.0, 1.0], (3, 60))
    Z[:, 0] = 1.0
    penalty, goal = np.append(np.full(4, 2.0), np.full(3, 9.0)), np.zeros((3, 7))
    known = (t != 0).astype(float)
    found = _WithSigns(Z, t, known, penalty, goal).minimize(goal.copy(), tol=1e-12)
    for k in range(3):
        others = np.delete(np.arange(3), k)
        rows = t[k] != 0
        inputs = np.vstack([Z[k], t[others]])[:, rows] / np.sqrt([2.0] * 4 + [9.0] * 2)[:, None]
        oracle = LogisticRegression(fit_intercept=False, solver="newton-cholesky", tol=1e-12)
        expected = oracle.fit(inputs.T, t[k, rows]).coef_[0] / np.sqrt([2.0] * 4 + [9.0] * 2)
        np.testing.assert_allclose(found[k, [0, 1, 2, 3, *(4 + others)]], expected, atol=1e-4)
        assert found[k, 4 + k] == 0.0


def test_padding_lists_the_known_entries_of_each_label():
    known = np.array([[True, False], [False, False], [True, True]])
    rows, weights = padded(known)
    assert rows[0].tolist() == [0, 2]
    assert rows[1, 0] == 2
    assert weights.tolist() == [[1.0, 1.0], [1.0, 0.0]]
    assert padded(np.zeros((3, 2), dtype=bool))[0].shape == (2, 0)


def test_a_label_without_entries_gets_the_common_weights():
    Z, t, v = problem(0, 2, 4, 100)
    v[3], rate = 0.0, np.array([0.3, -0.2, 0.1, 0.7])
    weights, intercepts, common, _ = fit_shrunk(Z, t, v, np.ones(2), rate, 1.0, 20.0, 3.0)
    np.testing.assert_allclose(weights[:, 3], common)
    assert intercepts[3] == pytest.approx(0.7)


@pytest.mark.parametrize("size", [1.0, 100.0])
def test_labels_that_scores_separate_have_finite_weights(size):
    t = np.repeat([1.0, -1.0], 50)[None]
    prior = np.ones(1), np.zeros(1)
    found = fit_shrunk(size * t[None], t, np.ones(t.shape), *prior, 0.1, 5.0, 0.1)
    assert np.isfinite(np.concatenate([part.ravel() for part in found])).all()
