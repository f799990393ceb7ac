"""LEML: its losses, its two sub-problems, the trust-region steps and the whole method."""

from __future__ import annotations

import time

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import baseline_oracles as baseline
import dm2l_oracles as oracle
from dm2l import ConstantLabelWarning
from dm2l.baselines import LEMLClassifier
from dm2l.baselines._leml import LOSSES, InputFactor, LabelFactor, trust_region_newton
from dm2l.baselines._linear import ImputedTargets, Inputs, weighted_grams

CODINGS = [("squared", missing) for missing in ("ignore", "neutral", "negative")]
CODINGS += [("logistic", "ignore"), ("squared_hinge", "ignore")]
# Enough rounds for an alternation that converges linearly, with every W step nearly exact.
settled = {"max_iter": 80, "tol": 1e-6}


def fitted(X, T, rank, alpha, **settings):
    settings = {"random_state": 0} | settings
    return LEMLClassifier(rank, alpha, **settings).fit(X, oracle.as_labels(T))


# ------------------------------------------------------------------------------------- losses


@pytest.mark.parametrize("name", baseline.LOSSES)
def test_loss_is_its_formula(name):
    rng = np.random.default_rng(0)
    F, Y = 3 * rng.standard_normal((20, 4)), np.where(rng.random((20, 4)) < 0.5, 1.0, -1.0)
    expected = baseline.entrywise(baseline.loss, name, F, Y, np.ones(F.shape, dtype=bool))
    np.testing.assert_allclose(LOSSES[name].value(F, Y), expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("name", baseline.LOSSES)
def test_slope_and_curvature_of_a_loss_are_its_derivatives(name):
    rng = np.random.default_rng(1)
    F, Y = 3 * rng.standard_normal((30, 4)), np.where(rng.random((30, 4)) < 0.5, 1.0, -1.0)
    F = np.where(np.abs(1 - Y * F) < 1e-3, F + 0.01, F)  # off the kink of the hinge's slope
    loss, h = LOSSES[name], 1e-5
    slope = (loss.value(F + h, Y) - loss.value(F - h, Y)) / (2 * h)
    curvature = (loss.slope(F + h, Y) - loss.slope(F - h, Y)) / (2 * h)
    np.testing.assert_allclose(loss.slope(F, Y), slope, atol=1e-8)
    np.testing.assert_allclose(loss.curvature(F, Y), curvature, atol=1e-8)


def test_logistic_loss_of_huge_scores_neither_overflows_nor_vanishes():
    F, Y = np.array([[1e4, -1e4]]), np.ones((1, 2))
    loss = LOSSES["logistic"]
    np.testing.assert_allclose(loss.value(F, Y), [[0.0, 1e4]])
    np.testing.assert_allclose(loss.slope(F, Y), [[0.0, -1.0]])
    np.testing.assert_allclose(loss.curvature(F, Y), [[0.0, 0.0]])


# ---------------------------------------------------------------------------------- W given H


def input_factor(name, missing, sparse, centre, seed=0):
    """The function, its data (centred if it centres) and random numbers."""
    X, T = baseline.draw_rows(seed, 14, 5, 4, 0.6)
    X += 0.5
    rng = np.random.default_rng(seed)
    H, b = rng.standard_normal((4, 3)), rng.standard_normal(4)
    given = sp.csr_matrix(X) if sparse else X
    factor = InputFactor(Inputs(given, centre), ImputedTargets(T, missing), LOSSES[name], 0.7, H, b)
    return factor, (X - X.mean(axis=0) if centre else X, T, H, b), rng


@pytest.mark.parametrize(("name", "missing"), CODINGS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("centre", [False, True])
def test_input_factor_is_the_penalised_loss_of_what_counts(name, missing, sparse, centre):
    factor, (X, T, H, b), rng = input_factor(name, missing, sparse, centre)
    W = rng.standard_normal((5, 3))
    Y, observed = baseline.read_targets(T, missing)
    expected = 0.5 * np.sum(W**2)
    expected += 0.7 * baseline.total_loss(name, X @ W @ H.T + b, Y, observed)
    assert factor.value(W) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("name", "missing"), CODINGS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("centre", [False, True])
def test_gradient_and_products_of_the_input_factor_are_its_derivatives(
    name, missing, sparse, centre
):
    factor, _, rng = input_factor(name, missing, sparse, centre)
    W, S = rng.standard_normal((2, 5, 3))

    def gradient(W):
        factor.value(W)
        return factor.gradient()

    expected = oracle.central_differences(factor.value, W, 1e-5)
    np.testing.assert_allclose(gradient(W), expected, atol=1e-7)
    h = 1e-6
    change = (gradient(W + h * S) - gradient(W - h * S)) / (2 * h)
    gradient(W)
    np.testing.assert_allclose(factor.product(S), change, atol=1e-6)


def test_a_refused_point_leaves_the_products_of_the_input_factor_where_they_were():
    factor, _, rng = input_factor("logistic", "ignore", False, True)
    W, S = rng.standard_normal((2, 5, 3))
    factor.value(W)
    factor.gradient()
    before = factor.product(S)
    factor.value(W + 5)
    np.testing.assert_array_equal(factor.product(S), before)


# ---------------------------------------------------------------------------------- H given W


def label_factor(name, intercept, seed=0, C=0.8):
    X, T = baseline.draw_rows(seed, 40, 3, 4, 0.6)
    return LabelFactor(X, ImputedTargets(T, "ignore"), LOSSES[name], C, intercept), X, T


@pytest.mark.parametrize("name", baseline.LOSSES)
@pytest.mark.parametrize("intercept", [False, True])
def test_label_factor_is_a_penalised_loss_for_every_label(name, intercept):
    factor, X, T = label_factor(name, intercept)
    H = np.random.default_rng(0).standard_normal((4, 3 + intercept))
    for j in range(4):
        scores = X @ H[j, :3] + (H[j, 3] if intercept else 0.0)
        rows = oracle.observed_rows(T, j)
        losses = [baseline.loss(name, scores[i], T[i, j]) for i in rows]
        expected = 0.5 * np.sum(H[j, :3] ** 2) + 0.8 * sum(losses)
        assert factor.values(H)[j] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", baseline.LOSSES)
@pytest.mark.parametrize("intercept", [False, True])
def test_gradients_and_hessians_of_the_label_factor_are_its_derivatives(name, intercept):
    factor, _, _ = label_factor(name, intercept)
    H = np.random.default_rng(1).standard_normal((4, 3 + intercept))
    expected = oracle.central_differences(lambda H: float(factor.values(H).sum()), H, 1e-5)
    np.testing.assert_allclose(factor.gradients(H), expected, atol=1e-7)
    hessians = factor.hessians(H)
    h = 1e-6
    for a in range(H.shape[1]):
        step = np.zeros(H.shape)
        step[:, a] = h
        change = (factor.gradients(H + step) - factor.gradients(H - step)) / (2 * h)
        np.testing.assert_allclose(hessians[:, a], change, atol=1e-6)


def test_weighted_grams_are_sums_over_all_rows_however_many_columns_there_are():
    rng = np.random.default_rng(0)
    Z, weights = rng.standard_normal((2000, 100)), rng.random((2000, 3))
    grams = weighted_grams(Z, weights)
    for j in range(3):
        np.testing.assert_allclose(grams[j], Z.T @ np.diag(weights[:, j]) @ Z, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("alpha", [0.01, 2.0])
def test_squared_label_factor_is_solved_by_the_normal_equations_of_its_rows(seed, alpha):
    factor, Z, T = label_factor("squared", False, seed, C=1 / alpha)
    H = factor.minimize(np.random.default_rng(seed).standard_normal((4, 3)))
    for j in range(4):
        rows = oracle.observed_rows(T, j)
        matrix = Z[rows].T @ Z[rows] + alpha / 2 * np.eye(3)
        expected = np.linalg.solve(matrix, Z[rows].T @ T[rows, j])
        np.testing.assert_allclose(H[j], expected, rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_intercept_of_a_squared_label_factor_is_not_penalized(seed):
    factor, Z, T = label_factor("squared", True, seed, C=0.05)
    H = factor.minimize(np.zeros((4, 4)))
    for j in range(4):
        rows = oracle.observed_rows(T, j)
        ones = np.column_stack([Z[rows], np.ones(len(rows))])
        matrix = ones.T @ ones + np.diag([10.0, 10.0, 10.0, 0.0])
        np.testing.assert_allclose(H[j], np.linalg.solve(matrix, ones.T @ T[rows, j]), rtol=1e-8)


@pytest.mark.parametrize("C", [0.1, 5.0])
@pytest.mark.parametrize("intercept", [False, True])
def test_logistic_label_factor_is_scikit_learns_logistic_regression(C, intercept):
    factor, Z, T = label_factor("logistic", intercept, C=C)
    H = factor.minimize(np.random.default_rng(0).standard_normal((4, 3 + intercept)))
    peer = LogisticRegression(
        C=C, fit_intercept=intercept, solver="newton-cholesky", tol=1e-10, max_iter=1000
    )
    for j in range(4):
        rows = oracle.observed_rows(T, j)
        peer.fit(Z[rows], T[rows, j])
        expected = np.append(peer.coef_[0], peer.intercept_)[: 3 + intercept]
        np.testing.assert_allclose(H[j], expected, atol=1e-7)


@pytest.mark.parametrize("C", [0.1, 5.0])
def test_squared_hinge_label_factor_is_scikit_learns_linear_svm(C):
    factor, Z, T = label_factor("squared_hinge", False, C=C)
    H = factor.minimize(np.zeros((4, 3)))
    peer = LinearSVC(C=C, dual=False, fit_intercept=False, tol=1e-12, max_iter=100_000)
    for j in range(4):
        rows = oracle.observed_rows(T, j)
        np.testing.assert_allclose(H[j], peer.fit(Z[rows], T[rows, j]).coef_[0], atol=1e-5)


@pytest.mark.parametrize("name", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("start", [0.0, 1.0, 30.0])
def test_label_factor_is_minimised_from_any_start(name, intercept, start):
    factor, Z, T = label_factor(name, intercept, seed=2, C=2.0)
    size = 3 + intercept
    begin = start * np.random.default_rng(3).standard_normal((4, size))
    H = factor.minimize(begin)
    assert np.all(factor.values(H) <= factor.values(begin))
    Z = np.column_stack([Z, np.ones(len(Z))])[:, :size]
    penalty = np.array([1.0, 1.0, 1.0, 0.0])[:size]
    for j in range(4):
        rows = oracle.observed_rows(T, j)
        expected = baseline.label_solution(name, Z[rows], T[rows, j], penalty, 2.0, np.zeros(size))
        np.testing.assert_allclose(H[j], expected, atol=1e-6)


def test_squared_hinge_is_minimised_from_where_it_has_no_curvature():
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    targets = ImputedTargets(np.sign(X).astype(np.int8), "ignore")
    factor = LabelFactor(X, targets, LOSSES["squared_hinge"], 1.0, True)
    start = np.array([[50.0, 0.0]])
    assert factor.values(start) == pytest.approx(0.5 * 50**2)  # no entry has a loss there
    # By symmetry b = 0, and only x = 1 and x = -1 bind: h = 4 (1 - h).
    np.testing.assert_allclose(factor.minimize(start), [[0.8, 0.0]], atol=1e-8)


# -------------------------------------------------------------------------- trust-region steps


class Plain:
    """A function for the trust-region steps from three plain ones, counting its calls."""

    def __init__(self, value, gradient, product):
        self._value, self._gradient, self._product = value, gradient, product
        self.values = self.gradients = 0

    def value(self, w):
        self.values += 1
        self._at = w
        return self._value(w)

    def gradient(self):
        self.gradients += 1
        self._base = self._at
        return self._gradient(self._at)

    def product(self, s):
        return self._product(self._base, s)

    @property
    def parts(self):
        return self._value, self._gradient, self._product


def quadratic(seed, size=12):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((size, size))
    A, b = root @ root.T + 0.1 * np.eye(size), rng.standard_normal(size)
    function = Plain(lambda w: 0.5 * w @ A @ w - b @ w, lambda w: A @ w - b, lambda _, s: A @ s)
    return function, np.linalg.solve(A, b), rng


def logistic(seed, scale=1.0):
    """Logistic regression on 60 rows with a small ridge."""
    rng = np.random.default_rng(seed)
    X = scale * rng.standard_normal((60, 6))
    y = np.where(X @ rng.standard_normal(6) + rng.standard_normal(60) > 0, 1.0, -1.0)

    def share(w):
        return expit(-y * (X @ w))

    return Plain(
        lambda w: 0.05 * w @ w + np.logaddexp(0, -y * (X @ w)).sum(),
        lambda w: 0.1 * w - X.T @ (y * share(w)),
        lambda w, s: 0.1 * s + X.T @ (share(w) * (1 - share(w)) * (X @ s)),
    )


def valley(depth=1.0):
    """``depth sum_i sqrt(1 + w_i^2)``, whose Newton step from ``w_i`` leads to ``-w_i^3``."""
    return Plain(
        lambda w: depth * float(np.sqrt(1 + w**2).sum()),
        lambda w: depth * w / np.sqrt(1 + w**2),
        lambda w, s: depth * s / (1 + w**2) ** 1.5,
    )


@pytest.mark.parametrize("seed", range(4))
def test_trust_region_steps_reach_the_minimum_of_a_quadratic(seed):
    function, solution, rng = quadratic(seed)
    w = trust_region_newton(function, rng.standard_normal(12), tol=1e-12, max_iter=500)
    np.testing.assert_allclose(w, solution, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale", [0.1, 10.0])
def test_trust_region_steps_agree_with_scipy_on_logistic_regression(seed, scale):
    function = logistic(seed, scale)
    start = np.full(6, 3.0)
    w = trust_region_newton(function, start, tol=1e-12, max_iter=500)
    value, gradient, _ = function.parts
    peer = scipy.optimize.minimize(value, start, jac=gradient, method="BFGS", tol=1e-9)
    assert value(w) <= peer.fun + 1e-10
    np.testing.assert_allclose(w, peer.x, rtol=1e-4, atol=1e-5)
    # Further down, differences of the value drown in its rounding.
    assert np.linalg.norm(gradient(w)) <= 1e-7 * np.linalg.norm(gradient(start))


@pytest.mark.parametrize("max_iter", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize(("start", "seed"), [(0.5, 5), (3.0, 5), (40.0, 5), (1.5, 6), (1.5, 9)])
@pytest.mark.parametrize(
    "case", ["quadratic", "logistic", "steep logistic", "valley", "deep valley"]
)
def test_trust_region_steps_are_those_of_liblinear(case, start, seed, max_iter):
    function = {
        "quadratic": quadratic(0)[0],
        "logistic": logistic(0),
        "steep logistic": logistic(1, 20.0),
        "valley": valley(),
        "deep valley": valley(100.0),
    }[case]
    size = 12 if case == "quadratic" else 6
    w = start * np.random.default_rng(seed).standard_normal(size)
    found = trust_region_newton(function, w, tol=1e-6, max_iter=max_iter)
    expected = baseline.tron(*function.parts, w, eps=1e-6, max_iter=max_iter)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_a_refused_trust_region_step_is_tried_again_in_a_smaller_region():
    function = valley(100.0)
    end = trust_region_newton(function, np.array([1.8, -1.6, 1.4]), tol=1e-6, max_iter=50)
    np.testing.assert_allclose(end, 0.0, atol=1e-5)
    assert function.values > function.gradients  # some step was refused: no gradient there


@pytest.mark.parametrize("max_iter", [1, 2, 4, 30])
@pytest.mark.parametrize("seed", range(3))
def test_trust_region_steps_never_end_higher_than_they_started(seed, max_iter):
    rng = np.random.default_rng(seed)
    for function, size in [(logistic(seed, 20.0), 6), (valley(), 5), (quadratic(seed)[0], 12)]:
        w = 10.0 ** rng.integers(-2, 3) * rng.standard_normal(size)
        end = trust_region_newton(function, w, tol=1e-10, max_iter=max_iter)
        value = function.parts[0]
        assert value(end) <= value(w)
        assert value(end) < value(w) or max_iter < 30


def test_trust_region_steps_stop_when_the_gradient_has_shrunk_by_the_tolerance():
    start, norms, steps = np.full(6, 2.0), [], []
    for tol in [0.5, 0.1, 1e-3, 1e-8]:
        function = logistic(2)
        w = trust_region_newton(function, start, tol=tol, max_iter=100)
        gradient = function.parts[1]
        norms.append(np.linalg.norm(gradient(w)) / np.linalg.norm(gradient(start)))
        steps.append(function.values - 1)
        assert norms[-1] <= tol
    assert steps == sorted(steps)
    assert steps[0] < steps[-1] < 100
    assert norms[0] > 1e-3  # a loose tolerance is not overdone


def test_trust_region_steps_stay_at_a_stationary_point():
    function, solution, _ = quadratic(1)
    flat = Plain(lambda w: 0.5 * float(w @ w), lambda w: w, lambda _, s: s)
    zero = np.zeros(3)
    np.testing.assert_array_equal(trust_region_newton(flat, zero, tol=0.0, max_iter=5), zero)
    end = trust_region_newton(function, solution, tol=0.0, max_iter=50)  # rounding is all there is
    np.testing.assert_allclose(end, solution, rtol=1e-8)


# ----------------------------------------------------------------------------- the whole method


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "missing"), CODINGS)
def test_leml_takes_the_steps_of_its_published_program(name, missing, seed):
    X, T = baseline.draw_rows(seed, 25, 6, 5, 0.6)
    settings = {"missing": missing, "fit_intercept": False, "max_iter": 4}
    model = fitted(X, T, 3, 0.5, loss=name, random_state=seed, **settings)
    expected, history = baseline.leml(X, T, 3, 0.5, name=name, missing=missing, n_iter=4, seed=seed)
    W, b = baseline.on_scale_of_targets(model, missing)
    accuracy = 1e-8 if name == "squared" else 1e-6  # what trust-exact leaves of a gradient
    np.testing.assert_allclose(W, expected, rtol=accuracy, atol=accuracy)
    np.testing.assert_allclose(model.objective_history_, history, rtol=accuracy)
    np.testing.assert_array_equal(b, 0.0)


def test_leml_takes_the_steps_of_its_published_program_for_other_tolerances():
    X, T = baseline.draw_rows(3, 30, 8, 5, 0.6)
    found = {}
    for tol in [0.9, 0.1, 1e-4]:
        model = fitted(X, T, 4, 0.1, fit_intercept=False, max_iter=3, tol=tol, random_state=7)
        expected, _ = baseline.leml(X, T, 4, 0.1, tol=tol, n_iter=3, seed=7)
        # Rounding grows over many conjugate gradients: at 1e-4 the last digit of X moves the
        # weights of the literal program itself by 1.5e-5.
        np.testing.assert_allclose(model.coef_.T, expected, atol=1e-8 if tol > 1e-3 else 1e-4)
        found[tol] = model.coef_
    assert np.abs(found[0.9] - found[1e-4]).max() > 1e-3  # the tolerance is part of the method


@pytest.mark.parametrize("observed", [0.5, 1.0])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("name", "missing"), CODINGS)
def test_objective_of_leml_never_rises(name, missing, intercept, observed):
    X, T = baseline.draw_rows(4, 40, 6, 5, observed)
    settings = {"loss": name, "missing": missing, "fit_intercept": intercept}
    for alpha in [0.01, 3.0]:
        model = fitted(X + 1, T, 3, alpha, max_iter=15, **settings)
        history = model.objective_history_
        assert len(history) == model.n_iter_ == 15
        assert model.objective_ == history[-1]
        assert np.all(np.diff(history) <= 1e-11 * history[0])
        assert history[-1] < history[0]


def loss_and_nuclear_norm(model, X, T):
    """Loss of a fitted model, and ``alpha`` times the nuclear norm of its weights."""
    W, b = baseline.on_scale_of_targets(model, model.missing)
    Y, observed = baseline.read_targets(T, model.missing)
    fit = baseline.total_loss(model.loss, X @ W + b, Y, observed)
    return fit + model.alpha * oracle.nuclear_norm(W)


# For any factors of Z = W H', (||W||^2 + ||H||^2) / 2 >= ||Z||_*, because ||Z||_* = <U V', Z> =
# <W'U, H'V> <= ||W|| ||H||. Factors that are optimal for their product have equality: otherwise
# those of Z's singular value decomposition, U sqrt(D) and V sqrt(D), would be better.


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("name", "missing"), CODINGS)
def test_objective_of_leml_is_at_least_its_loss_and_nuclear_norm(name, missing, intercept):
    X, T = baseline.draw_rows(5, 40, 6, 5)
    settings = {"loss": name, "missing": missing, "fit_intercept": intercept}
    for rounds in [1, 3, 10]:
        model = fitted(X, T, 3, 2.0, max_iter=rounds, **settings)
        assert model.objective_ >= loss_and_nuclear_norm(model, X, T) * (1 - 1e-10)


@pytest.mark.parametrize(("rank", "intercept"), [(2, True), (5, False)])
@pytest.mark.parametrize(("name", "missing"), CODINGS)
def test_settled_leml_has_loss_plus_nuclear_norm_for_objective(name, missing, intercept, rank):
    X, T = baseline.draw_rows(6, 40, 6, 5)
    settings = {"loss": name, "missing": missing, "fit_intercept": intercept} | settled
    model = fitted(X, T, rank, 3.0, **settings)
    assert model.objective_ == pytest.approx(loss_and_nuclear_norm(model, X, T), rel=1e-7)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("missing", ["ignore", "neutral", "negative"])
@pytest.mark.parametrize("intercept", [False, True])
def test_leml_of_full_rank_reaches_the_convex_minimum_of_cvxpy(intercept, missing, seed):
    X, T = baseline.draw_rows(seed, 20, 5, 3)
    Y, observed = baseline.read_targets(T, missing)
    best = baseline.nuclear_regression(X, Y, observed, 3.0, intercept)
    settings = {"missing": missing, "fit_intercept": intercept}
    rough = fitted(X, T, 3, 3.0, **settings)
    model = fitted(X, T, 3, 3.0, **settings, **settled)
    assert np.all(rough.objective_history_ >= best * (1 - 1e-7))
    assert best * (1 - 1e-7) <= model.objective_ <= best * (1 + 1e-5)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("missing", ["ignore", "neutral", "negative"])
def test_leml_of_full_rank_without_penalty_is_least_squares_on_what_counts(missing, intercept):
    X, T = baseline.draw_rows(7, 40, 4, 3)
    Y, observed = baseline.read_targets(T, missing)
    settings = {"missing": missing, "fit_intercept": intercept}
    model = fitted(X + 0.5, T, 3, 1e-8, **settings, **settled)
    W, b = baseline.on_scale_of_targets(model, missing)
    found = np.vstack([W, b])
    design = np.column_stack([X + 0.5, np.full(len(X), float(intercept))])
    for j in range(3):
        rows = observed[:, j]
        expected = np.linalg.lstsq(design[rows], Y[rows, j], rcond=None)[0]
        np.testing.assert_allclose(found[:, j], expected, atol=1e-5)


@pytest.mark.parametrize("intercept", [False, True])
def test_scores_of_leml_are_those_of_its_weights(intercept):
    X, T = baseline.draw_rows(8, 30, 5, 4)
    model = fitted(X + 2, T, 2, 1.0, fit_intercept=intercept)
    fresh = np.random.default_rng(0).standard_normal((6, 5))
    expected = fresh @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(fresh), expected, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(fresh), expected > 0)
    assert np.any(model.intercept_ != 0) == intercept


@pytest.mark.parametrize("rank", [1, 2, 4, 6, 50])
@pytest.mark.parametrize("name", baseline.LOSSES)
def test_weights_of_leml_have_at_most_the_rank_asked_for(name, rank):
    X, T = baseline.draw_rows(9, 60, 8, 6)
    model = fitted(X, T, rank, 0.1, loss=name)
    assert np.linalg.matrix_rank(model.coef_, tol=1e-9) == min(rank, 6)
    if rank > 6:  # no more than the labels can use
        np.testing.assert_array_equal(model.coef_, fitted(X, T, 6, 0.1, loss=name).coef_)


@pytest.mark.parametrize("alpha", [1.0, 1e6])
def test_a_stronger_penalty_shrinks_the_weights_of_leml(alpha):
    X, T = baseline.draw_rows(10, 60, 8, 6)
    small, large = (fitted(X, T, 3, a, max_iter=50) for a in (alpha, 30 * alpha))
    assert np.linalg.norm(large.coef_) < 0.9 * np.linalg.norm(small.coef_)


@pytest.mark.parametrize("intercept", [False, True])
def test_holes_read_as_negatives_are_negatives(intercept):
    X, T = baseline.draw_rows(11, 40, 5, 4)
    settings = {"missing": "negative", "fit_intercept": intercept}
    missing = fitted(X, T, 3, 0.5, **settings)
    filled = fitted(X, np.where(T == 0, -1, T), 3, 0.5, **settings)
    np.testing.assert_array_equal(missing.coef_, filled.coef_)
    np.testing.assert_array_equal(missing.intercept_, filled.intercept_)


def test_neutral_holes_make_no_difference_where_there_are_none():
    X, T = baseline.draw_rows(12, 40, 5, 4, observed=1.0)
    assert (T != 0).all()
    ignored, neutral = (fitted(X, T, 3, 0.5, missing=missing) for missing in ("ignore", "neutral"))
    np.testing.assert_array_equal(ignored.coef_, neutral.coef_)


def test_ways_to_read_holes_differ_where_there_are_some():
    X, T = baseline.draw_rows(13, 40, 5, 4)
    first, second, third = (
        fitted(X, T, 3, 0.5, missing=missing).decision_function(X)
        for missing in ("ignore", "neutral", "negative")
    )
    for one, other in [(first, second), (first, third), (second, third)]:
        assert np.abs(one - other).max() > 0.05


@pytest.mark.parametrize("missing", ["neutral", "negative"])
@pytest.mark.parametrize("name", ["logistic", "squared_hinge"])
def test_leml_refuses_targets_of_zero_where_the_loss_has_none(name, missing):
    X, T = baseline.draw_rows(0, 20, 3, 3)
    with pytest.raises(ValueError, match=f"missing='{missing}' requires .*got loss='{name}'"):
        fitted(X, T, 2, 1.0, loss=name, missing=missing)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rank", 0),
        ("rank", 2.5),
        ("rank", "full"),
        ("alpha", 0),
        ("alpha", -1.0),
        ("alpha", np.inf),
        ("alpha", np.nan),
        ("alpha", "scale"),
        ("loss", "hinge"),
        ("loss", None),
        ("missing", "skip"),
        ("max_iter", 0),
        ("max_iter", 1.0),
        ("tol", -0.1),
        ("tol", np.inf),
        ("tol", None),
        ("threshold", "best"),
    ],
)
def test_leml_names_the_parameter_that_it_refuses_and_its_value(name, value):
    X, T = baseline.draw_rows(0, 20, 3, 3)
    model = LEMLClassifier(**{name: value})
    with pytest.raises(ValueError, match=rf"^{name} must be .*got {value!r}"):
        model.fit(X, oracle.as_labels(T))


def test_leml_with_thousands_of_labels_takes_seconds():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 30))
    T = oracle.draw_targets(rng, 200, 2000, 0.5)
    begin = time.perf_counter()
    model = fitted(X, T, 10, 1.0)
    assert time.perf_counter() - begin < 20  # about 1 s where it was written
    assert model.coef_.shape == (2000, 30)
    assert np.linalg.matrix_rank(model.coef_) == 10
    assert np.all(np.diff(model.objective_history_) <= 0)


def test_leml_says_how_far_it_is_on_standard_error(capsys):
    X, T = baseline.draw_rows(0, 20, 3, 3)
    model = fitted(X, T, 2, 1.0, max_iter=4, verbose=1)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert len(lines) == 4
    for i, (line, value) in enumerate(zip(lines, model.objective_history_, strict=True), 1):
        assert line.startswith("[LEML]")
        assert f"iteration {i:4d} " in line
        assert f"{value:.6g}" in line
    fitted(X, T, 2, 1.0)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("shape", [(40, 6, 5), (12, 30, 4)])
@pytest.mark.parametrize(("name", "missing"), CODINGS)
def test_sparse_rows_give_the_weights_of_dense_ones(name, missing, shape):
    X, T = baseline.draw_rows(14, *shape)
    X = np.where(np.abs(X) < 0.7, 0.0, X)
    settings = {"loss": name, "missing": missing, "fit_intercept": False}
    dense, sparse = (fitted(A, T, 3, 1.0, **settings) for A in (X, sp.csr_matrix(X)))
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-8)
    np.testing.assert_allclose(
        sparse.decision_function(sp.csr_matrix(X)), dense.decision_function(X), atol=1e-8
    )


@pytest.mark.parametrize("shift", [0.0, 3.0])
@pytest.mark.parametrize("name", baseline.LOSSES)
def test_sparse_rows_with_an_intercept_take_the_steps_of_dense_ones(name, shift):
    X, T = baseline.draw_rows(0, 60, 8, 5)
    X += shift
    dense, sparse = (fitted(A, T, 3, 1.0, loss=name) for A in (X, sp.csr_matrix(X)))
    np.testing.assert_allclose(sparse.objective_history_, dense.objective_history_, rtol=1e-7)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-6)
    np.testing.assert_allclose(sparse.intercept_, dense.intercept_, atol=1e-5)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("name", "missing"), CODINGS)
def test_float32_rows_give_nearly_the_weights_of_float64_ones(name, missing, intercept):
    X, T = baseline.draw_rows(16, 50, 6, 5)
    settings = {"loss": name, "missing": missing, "fit_intercept": intercept}
    single, double = (fitted(A, T, 3, 1.0, **settings) for A in (X.astype(np.float32), X))
    assert single.coef_.dtype == np.float32
    np.testing.assert_allclose(single.coef_, double.coef_, atol=1e-4)
    np.testing.assert_allclose(single.objective_, double.objective_, rtol=1e-5)


def test_features_far_from_zero_cost_leml_no_accuracy():
    X, T = baseline.draw_rows(17, 50, 4, 3)
    X += np.array([0.0, 1.0, -2.0, 0.5])
    near, far = fitted(X, T, 3, 1.0), fitted(X + 1e5, T, 3, 1.0)
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-6)
    np.testing.assert_allclose(far.objective_, near.objective_, rtol=1e-7)


def test_leml_repeats_itself_for_a_random_state_and_not_for_another():
    X, T = baseline.draw_rows(18, 40, 6, 5)

    def weights(state):
        return fitted(X, T, 2, 1.0, max_iter=2, random_state=state).coef_

    np.testing.assert_array_equal(weights(3), weights(3))
    np.testing.assert_array_equal(weights(3), weights(np.random.RandomState(3)))
    assert np.abs(weights(3) - weights(4)).max() > 1e-3


def test_a_row_without_observed_labels_changes_nothing():
    X, T = baseline.draw_rows(19, 30, 4, 3)
    more = np.vstack([X, np.full((2, 4), 100.0)])
    empty = np.vstack([T, np.zeros((2, 3), dtype=np.int8)])
    np.testing.assert_array_equal(fitted(more, empty, 2, 1.0).coef_, fitted(X, T, 2, 1.0).coef_)


def test_a_label_with_one_class_is_constant_and_the_others_do_not_see_it():
    X, T = baseline.draw_rows(20, 30, 4, 3)
    wider = np.insert(T, 1, 1, axis=1)
    with pytest.warns(ConstantLabelWarning):
        model = fitted(X, wider, 2, 1.0)
    alone = fitted(X, T, 2, 1.0)
    np.testing.assert_array_equal(model.coef_[[0, 2, 3]], alone.coef_)
    np.testing.assert_array_equal(model.coef_[1], 0.0)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], (len(X) + 0.5) / (len(X) + 1))


def test_leml_with_nothing_to_learn_has_constant_scores_and_no_objective():
    X = np.random.default_rng(0).standard_normal((6, 2))
    with pytest.warns(ConstantLabelWarning):
        model = LEMLClassifier().fit(X, np.tile([1.0, 0.0], (6, 1)))
    np.testing.assert_allclose(model.predict_proba(X), np.tile([6.5 / 7, 0.5 / 7], (6, 1)))
    assert model.objective_ == 0.0
    assert len(model.objective_history_) == 0


@pytest.mark.parametrize("name", ["squared", "logistic", "squared_hinge"])
@pytest.mark.parametrize("scale", [1e3, 1e6, 1e8])
def test_large_features_do_not_spoil_the_rows_of_H(name, scale):
    X, T = baseline.draw_rows(0, 60, 4, 3, 0.8)
    expected = (
        np.mean(T != 0) * T.size * {"squared": 1.0, "squared_hinge": 1.0}.get(name, np.log(2))
    )
    model = fitted(scale * X, T, 3, 30.0, loss=name, random_state=0)
    assert model.objective_ < expected  # what zero weights would give
    assert (np.diff(model.objective_history_) <= 1e-9 * model.objective_history_[:-1]).all()


@pytest.mark.parametrize("name", ["logistic", "squared_hinge"])
def test_newton_steps_for_H_never_ascend_from_the_point_they_start_at(name):
    visited = []

    class Watched(LabelFactor):
        def hessians(self, H):
            visited[-1].append(self.values(H))
            return super().hessians(H)

    for seed in range(60):
        rng = np.random.default_rng(seed)
        _, T = baseline.draw_rows(seed, 12, 3, 4, 0.8)
        Z = rng.standard_normal((12, 3)) * 10.0 ** rng.uniform(-1, 3, 3)
        visited.append([])
        Watched(Z, ImputedTargets(T, "ignore"), LOSSES[name], 10.0, True).minimize(np.zeros((4, 4)))
    rises = [np.diff(points, axis=0).max() for points in visited if len(points) > 1]
    assert max(map(len, visited)) > 5  # steps that had to be halved among them
    scale = max(points[0].max() for points in visited)
    assert max(rises) <= 1e-9 * scale
