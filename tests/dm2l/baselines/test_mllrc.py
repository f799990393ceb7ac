"""ML-LRC: singular value shrinkage, the problem in the correlations, and the whole method."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import baseline_oracles as baseline
import dm2l_oracles as oracle
from dm2l import ConstantLabelWarning
from dm2l.baselines import MLLRCClassifier
from dm2l.baselines._correlations import Correlations, shrink_singular_values

laws = settings(max_examples=150, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
tight = {"tol": 1e-10, "max_iter": 20_000}


def fitted(X, T, lambda1=1.0, lambda2=0.5, lambda3=1.0, **settings):
    return MLLRCClassifier(lambda1, lambda2, lambda3, **settings).fit(X, oracle.as_labels(T))


def drawn(seed, shape=(14, 3, 3), missing="negative"):
    """Features, signs, targets, and where the fidelity counts."""
    X, T = baseline.draw_rows(seed, *shape)
    Y, _ = baseline.read_targets(T, missing)
    return X, T, Y, np.ones(T.shape, dtype=bool)


# ------------------------------------------------------------------------------- the shrinkage


@st.composite
def matrices(draw):
    """A matrix of any shape up to 7 x 7, any rank including 0, and any of four scales."""
    n, c = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    rank = draw(st.integers(0, min(n, c)))
    rng = np.random.default_rng(draw(seeds))
    scale = 10.0 ** draw(st.integers(-2, 1))
    return scale * rng.standard_normal((n, rank)) @ rng.standard_normal((rank, c))


@laws
@given(matrices(), st.sampled_from([0.0, 0.01, 0.5, 3.0, 100.0]))
def test_what_shrinkage_takes_away_is_a_subgradient_of_the_nuclear_norm(A, threshold):
    P, norm = shrink_singular_values(A, threshold)
    size = 1e-10 * (1 + np.linalg.norm(A))
    assert P.shape == A.shape
    assert norm == pytest.approx(oracle.nuclear_norm(P), abs=size)
    # G is a subgradient of ||.||_* at P if and only if ||G||_2 <= 1 and <G, P> = ||P||_*.
    removed = A - P
    assert oracle.singular_values(removed)[0] <= threshold + size
    inner = float(np.sum(removed * P))
    assert inner == pytest.approx(threshold * norm, abs=size * (1 + np.linalg.norm(A)))


@laws
@given(matrices(), st.sampled_from([0.01, 0.5, 3.0]), seeds)
def test_no_nearby_matrix_beats_the_shrunk_one(A, threshold, seed):
    def cost(P):
        return 0.5 * np.sum((P - A) ** 2) + threshold * oracle.nuclear_norm(P)

    P, _ = shrink_singular_values(A, threshold)
    rng = np.random.default_rng(seed)
    for scale in [1e-4, 1e-2, 1.0]:
        D = scale * rng.standard_normal(A.shape)
        # Strong convexity: what is left over of the cost is at least half the squared distance.
        assert cost(P + D) >= cost(P) + 0.5 * np.sum(D**2) - 1e-9 * (1 + cost(P))


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
@pytest.mark.parametrize("threshold", [0.1, 1.0])
def test_shrinkage_agrees_with_cvxpy(shape, threshold):
    A = np.random.default_rng(0).standard_normal(shape)
    P = cp.Variable(shape)
    cp.Problem(cp.Minimize(0.5 * cp.sum_squares(P - A) + threshold * cp.normNuc(P))).solve(
        solver=cp.CLARABEL
    )
    found, norm = shrink_singular_values(A, threshold)
    np.testing.assert_allclose(found, P.value, atol=1e-5)
    assert norm == pytest.approx(oracle.nuclear_norm(P.value), abs=1e-5)


def test_known_shrinkage():
    P, norm = shrink_singular_values(np.diag([3.0, -2.0, 0.5]), 1.0)
    np.testing.assert_allclose(P, np.diag([2.0, -1.0, 0.0]), atol=1e-14)
    assert norm == pytest.approx(3.0, rel=1e-14)


# ------------------------------------------------------------------ the problem in S, W eliminated


def correlations(seed, missing, intercept, lambda1=0.7, lambda2=0.4, lambda3=0.9):
    X, _, Y, counts = drawn(seed, (20, 4, 3), missing)
    W, b = baseline.ridge(X, Y, lambda2, intercept)
    problem = Correlations(Y, Y - X @ W - b, lambda1, lambda3)
    return problem, X, Y, counts


@pytest.mark.parametrize("missing", ["negative", "neutral"])
@pytest.mark.parametrize("intercept", [False, True])
def test_value_in_the_correlations_is_the_objective_at_its_best_weights(missing, intercept):
    problem, X, Y, counts = correlations(0, missing, intercept)
    rng = np.random.default_rng(0)
    for S in [np.zeros((3, 3)), np.eye(3), *rng.standard_normal((3, 3, 3))]:
        W, b = baseline.ridge(X, Y @ S, 0.4, intercept)
        expected = baseline.mllrc_objective(X, Y, counts, W, b, S, 0.7, 0.4, 0.9)
        found = problem.smooth(S)[0] + 0.9 * oracle.nuclear_norm(S)
        assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("missing", ["negative", "neutral"])
def test_gradient_in_the_correlations_is_the_derivative_of_the_value(missing):
    problem, *_ = correlations(1, missing, True)
    for S in np.random.default_rng(1).standard_normal((3, 3, 3)):
        expected = oracle.central_differences(lambda S: problem.smooth(S)[0], S, 1e-4)
        np.testing.assert_allclose(problem.smooth(S)[1], expected, atol=1e-8)


@pytest.mark.parametrize("missing", ["negative", "neutral"])
def test_gradient_changes_no_faster_than_the_lipschitz_constant_says(missing):
    problem, *_ = correlations(2, missing, True)
    rng = np.random.default_rng(2)
    pairs = [rng.standard_normal((2, 3, 3)) for _ in range(50)]
    rates = [
        np.linalg.norm(problem.smooth(A)[1] - problem.smooth(B)[1]) / np.linalg.norm(A - B)
        for A, B in pairs
    ]
    assert max(rates) <= problem.lipschitz * (1 + 1e-12)
    # And it is not a loose bound.
    D = np.outer(np.linalg.eigh(problem.unexplained + 0.7 * problem.gram)[1][:, -1], np.ones(3))
    rate = np.linalg.norm(problem.smooth(D)[1] - problem.smooth(0 * D)[1]) / np.linalg.norm(D)
    assert rate == pytest.approx(problem.lipschitz, rel=1e-10)


# ----------------------------------------------------------------------------- the whole method


@pytest.mark.parametrize("lambda3", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("missing", ["negative", "neutral"])
@pytest.mark.parametrize("seed", range(3))
def test_mllrc_reaches_the_joint_minimum_of_cvxpy(seed, missing, intercept, lambda3):
    X, T, Y, counts = drawn(seed, missing=missing)
    weights = (0.8, 0.5, lambda3)
    best, scores, S = baseline.mllrc_optimum(X, Y, counts, *weights, intercept)
    choices = {"missing": missing, "fit_intercept": intercept}
    rough = fitted(X, T, *weights, **choices)
    assert best * (1 - 1e-7) <= rough.objective_ <= best * (1 + 1e-5)
    model = fitted(X, T, *weights, **choices, **tight)
    assert model.objective_ == pytest.approx(best, rel=1e-6)
    found = model.decision_function(X)
    np.testing.assert_allclose(
        (found + 1) / 2 if missing == "negative" else found, scores, atol=1e-3
    )
    np.testing.assert_allclose(Y @ model.correlations_, Y @ S, atol=1e-3)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("missing", ["negative", "neutral"])
def test_objective_of_mllrc_is_that_of_its_weights_and_correlations(missing, intercept):
    X, T, Y, counts = drawn(3, (25, 4, 4), missing)
    choices = {"missing": missing, "fit_intercept": intercept}
    for lambda3 in [0.0, 0.5, 6.0, 1e4]:
        model = fitted(X, T, 0.3, 2.0, lambda3, **choices)
        W, b = baseline.on_scale_of_targets(model, missing)
        S = model.correlations_
        expected = baseline.mllrc_objective(X, Y, counts, W, b, S, 0.3, 2.0, lambda3)
        assert model.objective_ == pytest.approx(expected, rel=1e-10)
        if not intercept:
            np.testing.assert_allclose(b, 0.0, atol=1e-12)


@pytest.mark.parametrize("lambda1", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("missing", ["negative", "neutral"])
@pytest.mark.parametrize("seed", range(3))
def test_without_nuclear_norm_the_correlations_have_a_closed_form(seed, missing, lambda1):
    X, T, Y, _ = drawn(seed, (30, 4, 4), missing)
    model = fitted(X, T, lambda1, 0.5, 0.0, missing=missing, fit_intercept=False)
    M = np.eye(len(X)) - X @ np.linalg.inv(X.T @ X + 0.5 * np.eye(4)) @ X.T
    matrix = Y.T @ (M + lambda1 * np.eye(len(X))) @ Y
    expected = lambda1 * np.linalg.solve(matrix, Y.T @ Y)
    np.testing.assert_allclose(model.correlations_, expected, atol=1e-6)
    W, _ = baseline.ridge(X, Y @ expected, 0.5, False)
    np.testing.assert_allclose(baseline.on_scale_of_targets(model, missing)[0], W, atol=1e-6)


@pytest.mark.parametrize("lambda3", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("missing", ["negative", "neutral"])
def test_alternating_between_weights_and_correlations_ends_at_the_same_correlations(
    missing, lambda3
):
    X, T, Y, _ = drawn(5, (30, 4, 4), missing)
    expected = baseline.mllrc_alternation(X, Y, 1.0, 0.5, lambda3, rounds=60)
    model = fitted(X, T, 1.0, 0.5, lambda3, missing=missing, fit_intercept=False, **tight)
    np.testing.assert_allclose(model.correlations_, expected, atol=1e-5)


@pytest.mark.parametrize("missing", ["negative", "neutral"])
def test_rank_of_the_correlations_falls_to_zero_as_the_nuclear_norm_weighs_more(missing):
    X, T, Y, _ = drawn(6, (40, 5, 5), missing)
    # At S = 0 the gradient is -lambda1 Y'Y: zero is the minimum once lambda3 is at least its
    # largest singular value.
    border = 0.5 * oracle.singular_values(Y)[0] ** 2
    choices = {"missing": missing}
    ranks = [
        np.linalg.matrix_rank(
            fitted(X, T, 0.5, 0.5, share * border, **choices, **tight).correlations_, tol=1e-7
        )
        for share in [1e-3, 0.1, 0.3, 0.7, 1.01, 10.0]
    ]
    assert ranks == sorted(ranks, reverse=True)
    assert ranks[0] == 5
    assert 1 <= ranks[3] < 5
    assert ranks[4:] == [0, 0]


@pytest.mark.parametrize(("missing", "score"), [("negative", -1.0), ("neutral", 0.0)])
def test_without_correlations_every_score_is_that_of_a_target_of_zero(missing, score):
    X, T, Y, _ = drawn(7, (25, 4, 3), missing)
    model = fitted(X, T, 1.0, 0.5, 1e5, missing=missing)
    # S = 0 makes the supplemented labels 0, so W = 0 and b = 0: the border of -1/+1 targets, and
    # the value of a negative for 0/1 targets. What remains is the fidelity of nothing to Y.
    np.testing.assert_array_equal(model.correlations_, 0.0)
    np.testing.assert_array_equal(model.decision_function(X), score)
    np.testing.assert_array_equal(model.predict(X), 0)
    assert model.objective_ == pytest.approx(0.5 * np.sum(Y**2), rel=1e-12)


# Momentum overshoots to S = 0 here, where ||G|| ||S|| = 0 says nothing about convergence.
def test_correlations_just_short_of_vanishing_are_found():
    X, T, Y, counts = drawn(247, (10, 3, 7), "negative")
    lambda3 = 0.9 * 0.01 * oracle.singular_values(Y.T @ Y)[0]
    best, _, S = baseline.mllrc_optimum(X, Y, counts, 0.01, 1.0, lambda3, True)
    assert np.abs(S).max() > 1e-3
    model = fitted(X, T, 0.01, 1.0, lambda3, **tight)
    assert model.objective_ <= best * (1 + 1e-5)
    assert model.correlations_.any()


@pytest.mark.parametrize("missing", ["negative", "neutral"])
@pytest.mark.parametrize("lambda1", [0.01, 1.0])
def test_objective_of_mllrc_never_rises(missing, lambda1):
    X, T, Y, _ = drawn(8, (40, 5, 6), missing)
    for share in [0.0, 0.001, 0.3, 10.0]:
        lambda3 = share * lambda1 * oracle.singular_values(Y)[0] ** 2
        model = fitted(X, T, lambda1, 0.5, lambda3, missing=missing, **tight)
        history = model.objective_history_
        assert np.all(np.diff(history) <= 1e-13 * history[0])
        assert model.objective_ == history[-1]
        assert model.n_iter_ == max(1, len(history) - 1)
        assert len(history) > 5 or share in (0.0, 10.0)


def test_mllrc_warns_when_it_may_not_take_the_steps_it_needs():
    X, T, *_ = drawn(9, (40, 5, 6))
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1 .*tol=1e-08"):
        model = fitted(X, T, 0.01, 0.5, 0.05, max_iter=1, tol=1e-8)
    assert model.n_iter_ == 1
    assert model.objective_ < model.objective_history_[0]
    more = fitted(X, T, 0.01, 0.5, 0.05, max_iter=20_000, tol=1e-8)
    assert 1 < more.n_iter_ < 50  # 30 with momentum, 64 without
    assert more.objective_ < model.objective_


def test_a_smaller_tolerance_brings_mllrc_nearer_to_its_minimum():
    X, T, *_ = drawn(10, (30, 4, 5), "neutral")
    best = fitted(X, T, 0.05, 0.5, 0.5, missing="neutral", tol=1e-12, max_iter=100_000)
    for tol in [1e-1, 1e-3, 1e-5, 1e-7]:
        model = fitted(X, T, 0.05, 0.5, 0.5, missing="neutral", tol=tol)
        assert model.objective_ <= best.objective_ * (1 + tol)
        assert model.n_iter_ <= best.n_iter_


def test_holes_read_as_negatives_are_negatives():
    X, T, *_ = drawn(11, (40, 5, 4))
    filled = np.where(T == 0, -1, T)
    same, plain = fitted(X, T), fitted(X, filled)
    np.testing.assert_array_equal(same.coef_, plain.coef_)
    np.testing.assert_array_equal(same.intercept_, plain.intercept_)
    np.testing.assert_array_equal(same.correlations_, plain.correlations_)
    neutral = fitted(X, T, missing="neutral")
    assert np.abs(neutral.decision_function(X) - plain.decision_function(X)).max() > 0.05


def test_constant_labels_have_no_correlations_and_change_no_others():
    X, T, *_ = drawn(13, (30, 4, 3))
    wider = np.insert(np.insert(T, 1, 1, axis=1), 4, -1, axis=1)
    with pytest.warns(ConstantLabelWarning):
        model = fitted(X, wider)
    alone = fitted(X, T)
    kept, constant = [0, 2, 3], [1, 4]
    assert model.correlations_.shape == (5, 5)
    np.testing.assert_array_equal(model.correlations_[constant], 0.0)
    np.testing.assert_array_equal(model.correlations_[:, constant], 0.0)
    np.testing.assert_array_equal(model.correlations_[np.ix_(kept, kept)], alone.correlations_)
    np.testing.assert_array_equal(model.coef_[kept], alone.coef_)
    np.testing.assert_array_equal(model.coef_[constant], 0.0)
    rates = np.array([len(X) + 0.5, 0.5]) / (len(X) + 1)
    p = model.predict_proba(X)[:, constant]
    np.testing.assert_allclose(p, np.tile(rates, (len(X), 1)))


def test_mllrc_with_nothing_to_learn_has_constant_scores_and_no_correlations():
    X = np.random.default_rng(0).standard_normal((6, 2))
    with pytest.warns(ConstantLabelWarning):
        model = MLLRCClassifier().fit(X, np.tile([1.0, 0.0], (6, 1)))
    np.testing.assert_allclose(model.predict_proba(X), np.tile([6.5 / 7, 0.5 / 7], (6, 1)))
    np.testing.assert_array_equal(model.correlations_, np.zeros((2, 2)))
    assert model.objective_ == 0.0


def test_two_equal_labels_share_their_correlations():
    X, T, *_ = drawn(14, (30, 4, 3))
    twice = np.column_stack([T, T[:, 0]])  # Y'Y is singular
    for lambda3 in [0.0, 1.0]:
        model = fitted(X, twice, 1.0, 0.5, lambda3, **tight)
        np.testing.assert_allclose(model.coef_[3], model.coef_[0], atol=1e-8)
        expected = np.broadcast_to(model.correlations_[:1], (2, 4))
        np.testing.assert_allclose(model.correlations_[[0, 3]], expected, atol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shape", [(40, 6, 4), (12, 30, 3)])
@pytest.mark.parametrize("missing", ["negative", "neutral"])
def test_tall_wide_dense_and_sparse_rows_give_the_joint_minimum(shape, intercept, missing):
    X, T, Y, _ = drawn(15, shape, missing)
    X = np.where(np.abs(X) < 0.7, 0.0, X)
    choices = {"missing": missing, "fit_intercept": intercept}
    dense, sparse = (fitted(A, T, 1.0, 2.0, 1.0, **choices) for A in (X, sp.csr_matrix(X)))
    for name in ("coef_", "intercept_", "correlations_", "objective_"):
        np.testing.assert_allclose(getattr(sparse, name), getattr(dense, name), atol=1e-8)
    scores = sparse.decision_function(sp.csr_matrix(X))
    np.testing.assert_allclose(scores, dense.decision_function(X), atol=1e-8)
    W, b = baseline.on_scale_of_targets(dense, missing)
    expected, shift = baseline.ridge(X, Y @ dense.correlations_, 2.0, intercept)
    np.testing.assert_allclose(W, expected, atol=1e-8)
    np.testing.assert_allclose(b, shift, atol=1e-8)


@pytest.mark.parametrize("shape", [(40, 5, 4), (12, 30, 3)])
def test_features_far_from_zero_change_nothing_but_the_intercept(shape):
    X, T, *_ = drawn(16, shape)
    near, far = fitted(X, T, **tight), fitted(X + 1e4, T, **tight)
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-6)
    np.testing.assert_allclose(far.correlations_, near.correlations_, atol=1e-6)
    scores = far.decision_function(X + 1e4)
    np.testing.assert_allclose(scores, near.decision_function(X), atol=1e-6)


def test_float32_rows_give_nearly_the_weights_of_float64_ones():
    X, T, *_ = drawn(17, (40, 5, 4))
    single, double = (fitted(A, T) for A in (X.astype(np.float32), X))
    assert single.coef_.dtype == np.float32
    np.testing.assert_allclose(single.coef_, double.coef_, atol=1e-4)
    np.testing.assert_allclose(single.correlations_, double.correlations_, atol=1e-4)


def test_the_ridge_called_scale_is_four_squared_mean_deviations_a_column():
    X, T, *_ = drawn(18, (40, 5, 4))
    X *= [1.0, 2.0, 0.1, 1.0, 5.0]
    alpha = 4 * X.std(axis=0).sum() ** 2 / 5
    named, number = fitted(X, T, lambda2="scale"), fitted(X, T, lambda2=alpha)
    np.testing.assert_allclose(named.coef_, number.coef_, rtol=1e-9)


def test_mllrc_says_how_far_it_is_on_standard_error(capsys):
    X, T, *_ = drawn(19, (20, 3, 3))
    model = fitted(X, T, verbose=1)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert len(lines) == model.n_iter_ == len(model.objective_history_) - 1
    assert all(line.startswith("[MLLRC] iteration") for line in lines)
    assert lines[-1].endswith(f"{model.objective_:.6g}")
    fitted(X, T)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lambda1", 0),
        ("lambda1", -1.0),
        ("lambda1", np.nan),
        ("lambda1", "scale"),
        ("lambda2", -1.0),
        ("lambda2", np.inf),
        ("lambda2", "auto"),
        ("lambda3", -0.1),
        ("lambda3", np.inf),
        ("lambda3", None),
        ("tol", -1e-3),
        ("max_iter", 0),
        ("max_iter", 2.5),
        ("missing", "ignore"),
        ("missing", None),
        ("threshold", "best"),
    ],
)
def test_mllrc_names_the_parameter_that_it_refuses_and_its_value(name, value):
    X, T, *_ = drawn(0)
    model = MLLRCClassifier(**{name: value})
    with pytest.raises(ValueError, match=rf"^{name} must be .*got {value!r}"):
        model.fit(X, oracle.as_labels(T))


def test_a_huge_lambda1_does_not_cancel_the_objective_away():
    X, T = baseline.draw_rows(0, 30, 4, 5, 0.7)
    model = fitted(X, T, 1e8, 1.0, 1.0)
    assert (np.diff(model.objective_history_) <= 1e-9 * model.objective_).all()
    np.testing.assert_allclose(model.correlations_, np.eye(5), atol=1e-6)
