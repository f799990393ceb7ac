"""Newton's method for held logistic regressions, against a general minimizer."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dm2l._auto._stack import ObservedEntries, Shrinkage, fit_logistic


def problem(seed, m, c, n, useless=False):
    rng = np.random.default_rng(seed)
    label = np.sort(rng.integers(0, c, n))
    Z = rng.normal(size=(m, n))
    slope = rng.gamma(2.0, 0.6, size=(m, c))
    if useless:
        slope[-1] *= -1  # a model that is better left out
    eta = rng.normal(size=c)[label] + (slope[:, label] * Z).sum(axis=0)
    t = np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), 1.0, -1.0)
    return label, Z, t, np.bincount(label, minlength=c)


def by_l_bfgs(label, Z, t, goal, firm, rate, intercept, start, shared):
    """Weights (m, c or 1) of 0 or more and intercepts, by scipy."""
    m, size = goal.shape

    def objective(x):
        W, b = x[: m * size].reshape(m, size), x[m * size :]
        own = W[:, np.zeros_like(label) if shared else label]
        loss = np.logaddexp(0, -t * (b[label] + (own * Z).sum(axis=0))).sum()
        return loss + firm / 2 * ((W - goal) ** 2).sum() + intercept / 2 * ((b - rate) ** 2).sum()

    bounds = [(0, None)] * (m * size) + [(None, None)] * len(rate)
    found = minimize(
        objective,
        start,
        method="L-BFGS-B",
        bounds=bounds,
        options={"ftol": 1e-14, "gtol": 1e-8, "maxfun": 10**6, "maxiter": 10**5},
    )
    return found.x[: m * size].reshape(m, size), found.x[m * size :]


@pytest.mark.parametrize(("m", "useless"), [(1, False), (3, False), (3, True)])
def test_weights_are_those_of_a_general_minimizer(m, useless):
    c = 4
    label, Z, t, count = problem(m, m, c, 300, useless)
    held = Shrinkage(np.full(m, 1 / m), np.zeros(c), 1.0, 20.0, 3.0)
    weights, intercepts, common = fit_logistic(ObservedEntries(Z, t, count), held)
    start = np.append(np.full(m, 0.5), np.zeros(c))
    goal = held.prior[:, None]
    first, b = by_l_bfgs(label, Z, t, goal, 1.0, held.rate, 3.0, start, True)
    np.testing.assert_allclose(common, first[:, 0], atol=2e-4)
    assert (common[-1] == 0) == useless
    start = np.append(np.repeat(first[:, 0], c), b)
    goal = np.repeat(first, c, axis=1)
    own, b = by_l_bfgs(label, Z, t, goal, 20.0, held.rate, 3.0, start, False)
    np.testing.assert_allclose(weights, own, atol=2e-3)
    np.testing.assert_allclose(intercepts, b, atol=2e-3)


def test_a_label_without_entries_gets_what_all_share():
    _, Z, t, count = problem(0, 2, 3, 200)
    held = Shrinkage(np.ones(2), np.array([0.3, -0.2, 0.1, 0.7]), 1.0, 20.0, 3.0)
    weights, intercepts, common = fit_logistic(ObservedEntries(Z, t, np.append(count, 0)), held)
    np.testing.assert_allclose(weights[:, 3], common)
    assert intercepts[3] == pytest.approx(0.7)


def test_labels_that_are_told_without_fail_have_finite_weights():
    t = np.repeat([1.0, -1.0], 50)
    held = Shrinkage(np.ones(1), np.zeros(1), 0.1, 5.0, 0.1)
    weights, intercepts, _ = fit_logistic(ObservedEntries(100 * t[None], t, np.array([100])), held)
    assert np.isfinite([*weights.ravel(), *intercepts]).all()
