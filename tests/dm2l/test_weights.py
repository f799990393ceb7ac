"""Weights of rows and entries: laws over all estimators, an oracle, metrics, blocks, rates."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_validate
from sklearn.neighbors import KNeighborsClassifier

import dm2l_oracles as oracle
from all_estimators import ESTIMATORS
from dm2l import AutoClassifier, DM2LClassifier, DM2LClassifierCV, metrics
from dm2l._solvers.nuclear import SmoothNorm
from dm2l._solvers.objective import Objective
from dm2l.baselines import (
    GLOCALClassifier,
    LEMLClassifier,
    LSMLClassifier,
    MaskedOneVsRestClassifier,
    MaskedRidgeClassifier,
    MLLRCClassifier,
)
from dm2l.datasets import make_missing_multilabel
from dm2l.extreme import ExtremeDM2LClassifier
from dm2l.labels import LabelMatrix
from dm2l.labels._entries import EntryWeights
from dm2l.model_selection import MultilabelKFold, get_scorer
from dm2l.outofcore import GramStatistics, RowBlocks
from dm2l.simulate import simulate_missing_positives
from objective_values import objective_at

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# Those whose answers depend on how many rows there are: see docs/guide/weights.md.
OTHERWISE = (AutoClassifier, GLOCALClassifier)
LAWFUL = [
    model
    for model in ESTIMATORS
    if not isinstance(model, OTHERWISE)
    and getattr(model, "coupling", None) != "joint"
    and getattr(model, "approximation", None) != "nystroem"
]


def problem(seed=0, n=40, d=5, c=4, observed=0.7):
    X, T = oracle.draw_problem(seed, n, d, c, observed)
    return X, oracle.as_labels(T)


def unfitted(model):
    model = clone(model)
    seeds = [name for name in model.get_params() if name.split("__")[-1] == "random_state"]
    return model.set_params(**dict.fromkeys(seeds, 0))


def scores(model, X, Y, new, **weights):
    return np.asarray(unfitted(model).fit(X, Y, **weights).decision_function(new))


# ------------------------------------------------------------------------- laws of all estimators


@pytest.mark.parametrize("model", LAWFUL, ids=str)
def test_integer_weights_are_repeated_rows_and_zero_is_no_row(model):
    if isinstance(model, DM2LClassifierCV):  # copies of a row lie in several folds: another choice
        model = clone(model).set_params(lambda_ds=[0.3])
    X, Y = problem()
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    found = scores(model, X, Y, X, sample_weight=weights)
    expected = scores(model, X.repeat(weights, axis=0), Y.repeat(weights, axis=0), X)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    assert np.abs(found - scores(model, X, Y, X)).max() > 1e-4


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_weights_of_one_change_no_bit(model):
    X, Y = problem()
    ones = {"sample_weight": np.ones(len(X))}
    if not isinstance(model, ExtremeDM2LClassifier):
        ones["label_weight"] = np.ones(Y.shape)
    np.testing.assert_array_equal(scores(model, X, Y, X, **ones), scores(model, X, Y, X))


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_a_row_of_weight_zero_is_not_there(model):
    X, Y = problem()
    weights = np.where(np.arange(len(X)) < 30, 1.0, 0.0)
    found = scores(model, X, Y, X, sample_weight=weights)
    np.testing.assert_allclose(found, scores(model, X[:30], Y[:30], X), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "model", [m for m in ESTIMATORS if not isinstance(m, ExtremeDM2LClassifier)], ids=str
)
def test_an_entry_of_weight_zero_is_a_hole(model):
    X, Y = problem(observed=1.0)
    mask = np.random.default_rng(1).random(Y.shape) < 0.8
    found = scores(model, X, Y, X, label_weight=mask)
    np.testing.assert_array_equal(found, scores(model, X, Y, X, label_mask=mask))


@pytest.mark.parametrize(
    "model",
    [
        MaskedRidgeClassifier(1.0, solver="direct"),
        MaskedRidgeClassifier(1.0, solver="cg"),
        DM2LClassifier(0.0, 1.0),
        DM2LClassifier(0.0, 1.0, kernel="rbf", gamma=0.2),
        LEMLClassifier(),
        LEMLClassifier(loss="logistic"),
        MaskedOneVsRestClassifier(Ridge()),
    ],
    ids=str,
)
def test_integer_weights_of_entries_are_entries_of_more_rows(model):
    """A second copy of a row may show fewer labels than the first: losses add up."""
    X, Y = problem()
    weights = np.random.default_rng(2).integers(1, 3, Y.shape).astype(float)
    weights[:, 0], Y[:, 0] = 2.0, np.arange(len(Y)) % 2  # all rows weigh two
    again = np.where(weights > 1, Y, np.nan)
    found = scores(model, X, Y, X, label_weight=weights)
    expected = scores(model, np.vstack([X, X]), np.vstack([Y, again]), X)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("model", LAWFUL, ids=str)
def test_row_weights_are_equal_weights_of_their_entries(model):
    if isinstance(model, ExtremeDM2LClassifier):
        pytest.skip("it has no label_weight")
    X, Y = problem()
    rows = np.random.default_rng(3).uniform(0.5, 2.0, len(X))
    found = scores(model, X, Y, X, sample_weight=rows)
    expected = scores(model, X, Y, X, label_weight=np.tile(rows[:, None], (1, Y.shape[1])))
    np.testing.assert_array_equal(found, expected)


TIGHT = {"tol": 1e-13, "max_iter": 5000}


@settings(max_examples=15)
@given(st.floats(0.2, 20.0), st.sampled_from(["linear", "rbf"]), st.integers(0, 3))
def test_scaling_weights_ridge_and_norms_together_changes_nothing(by, kernel, seed):
    """The norms are those of rows times roots of weights: their weight goes with the root."""
    X, Y = problem(seed)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, len(X))

    def fitted(t):
        model = DM2LClassifier(0.2 * t**0.5, 0.7 * t, kernel=kernel, gamma=0.2, **TIGHT)
        return model.fit(X, Y, sample_weight=t * weights)

    one, other = fitted(1.0), fitted(by)
    np.testing.assert_allclose(other.objective_, by * one.objective_, rtol=1e-6)
    found = other.decision_function(X)
    np.testing.assert_allclose(found, one.decision_function(X), atol=2e-3)


@settings(max_examples=15)
@given(st.floats(1e-3, 1e3), st.sampled_from(["direct", "cg"]))
def test_scaling_weights_and_ridge_together_changes_nothing(by, solver):
    X, Y = problem()
    weights = np.random.default_rng(4).uniform(0.5, 2.0, Y.shape)
    found = [
        scores(MaskedRidgeClassifier(t, solver=solver), X, Y, X, label_weight=t * weights)
        for t in (1.0, by)
    ]
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-7)


# ------------------------------------------------------------------------------------ the optimum


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("real", [False, True])
def test_weighted_problem_without_global_norm_has_the_optimum_of_cvxpy(seed, real):
    X, T = oracle.draw_problem(seed, 20, 4, 3)
    rng = np.random.default_rng(seed)
    M = rng.uniform(0.2, 3.0, T.shape) * (T != 0)
    goal = rng.standard_normal(T.shape) if real else T.astype(float)
    W, b = cp.Variable((4, 3)), cp.Variable((1, 3))
    F = X @ W + np.ones((20, 1)) @ b
    loss = cp.sum(cp.multiply(M / 2, cp.square(F - np.where(T != 0, goal, 0.0))))
    norms = [
        cp.normNuc(np.diag(np.sqrt(M[rows, k])) @ F[rows])
        for k, rows in enumerate(map(np.flatnonzero, T.T > 0))
    ]
    least = cp.Problem(cp.Minimize(loss + 0.35 * cp.sum_squares(W) + 0.2 * sum(norms)))
    least.solve(solver="CLARABEL")
    entries = EntryWeights.of(T, goal if real else None, M)
    for solver in ("lbfgs", "cccp"):
        model = DM2LClassifier(0.2, 0.7, discriminant=False, solver=solver, **TIGHT)
        model._learn(X, replace(LabelMatrix.of_signs(T), entries=entries))
        np.testing.assert_allclose(model.objective_, least.value, rtol=1e-5)
        np.testing.assert_allclose(model.coef_, W.value.T, atol=5e-3)


@pytest.mark.parametrize("global_rows", ["covered", "all"])
def test_gradient_of_the_weighted_objective_is_that_of_finite_differences(global_rows):
    T = oracle.draw_targets(np.random.default_rng(0), 8, 3)
    rng = np.random.default_rng(1)
    entries = EntryWeights.of(T, rng.standard_normal(T.shape), rng.uniform(0.1, 4.0, T.shape))
    objective = Objective(T, 0.4, global_rows=global_rows, entries=entries)

    def norm(Z, **options):
        return SmoothNorm(0.3)(Z, **options)

    F, step = rng.standard_normal(T.shape), 1e-6
    at = objective_at(objective, F, norm)
    for place in np.ndindex(F.shape):
        up, down = F.copy(), F.copy()
        up[place] += step
        down[place] -= step
        values = [objective_at(objective, part, norm).value for part in (up, down)]
        assert at.gradient[place] == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-6)


def test_a_label_may_have_fewer_positives_than_there_are_labels():
    X, Y = problem(n=40, c=4)
    Y[:, 0] = np.where(np.arange(40) < 2, 1.0, 0.0)  # alone in its stack, and wide
    twice, model = np.r_[0, np.arange(40)], DM2LClassifier(0.3, 1.0, tol=1e-9)
    weighted = model.fit(X, Y, sample_weight=np.r_[2.0, np.ones(39)]).decision_function(X)
    repeated = model.fit(X[twice], Y[twice]).decision_function(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-5)


def test_bracket_of_any_weights_is_never_negative():
    rng = np.random.default_rng(2)
    for _ in range(50):
        T = oracle.draw_targets(rng, 9, 4)
        weights = rng.lognormal(sigma=2.0, size=T.shape)
        objective = Objective(T, 1.0, entries=EntryWeights.of(T, weights=weights))
        assert objective.bracket(rng.standard_normal(T.shape)) > -1e-10


def test_exact_objective_is_that_of_repeated_rows():
    rng = np.random.default_rng(3)
    T = oracle.draw_targets(rng, 9, 4)
    times = rng.integers(1, 4, 9)
    F = rng.standard_normal(T.shape)
    found = Objective(T, 0.7, entries=EntryWeights.of(T, weights=times[:, None])).exact(F)
    assert found == pytest.approx(Objective(T.repeat(times, 0), 0.7).exact(F.repeat(times, 0)))


# ------------------------------------------------------------------------- decisions and routing


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
def test_calibration_and_thresholds_count_with_weights(calibration):
    X, Y = problem(n=60, observed=1.0)
    rows = np.arange(60)
    times = np.where(rows < 20, 3, 1)
    folds = [(rows[rows % 2 == k], rows[rows % 2 != k]) for k in range(2)]
    again = np.repeat(rows, times)
    repeated = [tuple(np.flatnonzero(np.isin(again, part)) for part in fold) for fold in folds]
    model = DM2LClassifier(0.1, 1.0, calibration=calibration, threshold="f1")
    one = clone(model).set_params(cv=folds).fit(X, Y, sample_weight=times)
    other = clone(model).set_params(cv=repeated).fit(X[again], Y[again])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(one.thresholds_, other.thresholds_, atol=1e-6)


def test_weights_travel_through_metadata_routing():
    X, Y = problem(observed=1.0)
    weights = np.random.default_rng(5).uniform(0.0, 2.0, Y.shape)
    with config_context(enable_metadata_routing=True):
        model = DM2LClassifier().set_fit_request(label_weight=True, sample_weight=True)
        scorer = get_scorer("label_auc").set_score_request(sample_weight=True)
        found = cross_validate(
            model,
            X,
            Y,
            cv=MultilabelKFold(3, random_state=0),
            scoring=scorer,
            params={"label_weight": weights, "sample_weight": np.arange(40.0) + 1},
        )
    assert np.isfinite(found["test_score"]).all()


def test_a_search_fits_and_scores_with_weights():
    X, Y = problem(n=60, observed=1.0)
    rows = np.arange(60)
    times = np.where(rows < 20, 3, 1)
    folds = [(rows[rows % 2 == k], rows[rows % 2 != k]) for k in range(2)]
    again = np.repeat(rows, times)
    repeated = [tuple(np.flatnonzero(np.isin(again, part)) for part in fold) for fold in folds]
    search = DM2LClassifierCV([0.0, 0.1, 1.0], alphas=[0.1, 10.0])
    one = clone(search).set_params(cv=folds).fit(X, Y, sample_weight=times)
    other = clone(search).set_params(cv=repeated).fit(X[again], Y[again])
    name = "mean_test_score"
    np.testing.assert_allclose(one.cv_results_[name], other.cv_results_[name], atol=1e-9)
    plain = clone(search).set_params(cv=folds).fit(X, Y)
    assert np.abs(one.cv_results_[name] - plain.cv_results_[name]).max() > 1e-4


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"sample_weight": np.ones(39)}, r"shape \(40,\)"),
        ({"sample_weight": -np.ones(40)}, ">= 0"),
        ({"sample_weight": np.full(40, np.nan)}, "finite"),
        ({"sample_weight": np.zeros(40)}, "zero everywhere"),
        ({"label_weight": np.ones((40, 3))}, r"shape \(40, 4\)"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weights, message):
    X, Y = problem()
    with pytest.raises(ValueError, match=message):
        DM2LClassifier().fit(X, Y, **weights)
    if "sample_weight" in weights:
        with pytest.raises(ValueError, match=message):
            DM2LClassifier().fit(X, Y).score(X, Y, **weights)


def test_what_stands_at_holes_of_label_weight_is_not_read():
    X, Y = problem()
    weights = np.where(np.isnan(Y), np.nan, 2.0)
    found = scores(DM2LClassifier(), X, Y, X, label_weight=weights)
    full = scores(DM2LClassifier(), X, Y, X, label_weight=sp.csr_array(np.full(Y.shape, 2.0)))
    np.testing.assert_array_equal(found, full)


def test_methods_that_cannot_weigh_say_so():
    X, Y = problem()
    weights = np.random.default_rng(6).uniform(0.5, 2.0, Y.shape)
    for model in (MLLRCClassifier(), LSMLClassifier()):
        with pytest.raises(ValueError, match="cannot weight single entries"):
            model.fit(X, Y, label_weight=weights)
    with pytest.raises(ValueError, match="does not support label_weight"):
        ExtremeDM2LClassifier().fit(X, Y, label_weight=weights)
    with pytest.raises(ValueError, match="does not accept sample_weight"):
        MaskedOneVsRestClassifier(KNeighborsClassifier()).fit(X, Y, sample_weight=weights[:, 0])


# -------------------------------------------------------------------------------------- row blocks


@pytest.mark.parametrize("strategy", ["memory", "statistics", "passes"])
def test_weights_of_row_blocks_are_those_of_a_fit_in_memory(strategy):
    X, Y = problem(n=60)
    weights = np.random.default_rng(7).choice([0.0, 0.5, 1.0, 3.0], 60)
    expected = DM2LClassifier(tol=1e-10).fit(X, Y, sample_weight=weights)
    blocks = RowBlocks.from_arrays(X, Y, sample_weight=weights, rows=25)
    by_blocks = DM2LClassifier(tol=1e-10, strategy=strategy).fit(blocks)
    by_arrays = DM2LClassifier(tol=1e-10, strategy=strategy).fit(X, Y, sample_weight=weights)
    for model in (by_blocks, by_arrays):
        found = model.decision_function(X)
        np.testing.assert_allclose(found, expected.decision_function(X), atol=1e-7)


def test_a_weight_adds_up_like_a_row_and_is_unlearnt_like_one():
    X, Y = problem(n=60)
    weights = np.random.default_rng(8).choice([0.5, 1.0, 3.0], 60)
    expected = DM2LClassifier(tol=1e-10).fit(X[:40], Y[:40], sample_weight=weights[:40])
    model = DM2LClassifier(tol=1e-10)
    for rows in np.array_split(np.arange(60), 3):
        model.partial_fit(X[rows], Y[rows], sample_weight=weights[rows])
    model.unlearn(X[40:], Y[40:], sample_weight=weights[40:])
    found = model.decision_function(X)
    np.testing.assert_allclose(found, expected.decision_function(X), atol=1e-7)


def test_statistics_of_weights_are_those_of_repeated_rows():
    X, T = oracle.draw_problem(0, 30, 3, 2)
    times = np.random.default_rng(9).integers(1, 4, 30)
    found = GramStatistics(3, 2).add(X, T, weights=times.astype(float))
    expected = GramStatistics(3, 2).add(X.repeat(times, 0), T.repeat(times, 0))
    expected.move(found.offset)
    for name in ("H", "G", "positive_rows.gram", "weights"):
        of = attrgetter(name)
        np.testing.assert_allclose(of(found), of(expected))
    found, expected = (part.sample.rows() for part in (found, expected))
    np.testing.assert_array_equal(found[0], expected[0])


# ----------------------------------------------------------------------------------------- metrics

BY_SCORES = (
    *(
        "ranking_loss",
        "label_ranking_average_precision",
        "coverage_error",
        "instance_auc",
        "label_auc",
        "one_error",
    ),
    *("precision_at_k", "ndcg_at_k"),
)


@pytest.mark.parametrize("name", [*BY_SCORES, "hamming_loss", "f1_micro", "f1_macro"])
@pytest.mark.parametrize("observed", [1.0, 0.7])
def test_a_metric_of_weighted_rows_is_that_of_repeated_rows(name, observed):
    rng = np.random.default_rng(10)
    Y = np.where(rng.random((50, 5)) < observed, rng.random((50, 5)) < 0.4, np.nan)
    S = rng.standard_normal(Y.shape).round(1)  # with ties
    S = S if name in BY_SCORES else (S > 0).astype(float)
    times = rng.integers(0, 4, 50)
    metric = getattr(metrics, name)
    found = metric(Y, S, estimate=False, sample_weight=times)
    expected = metric(Y.repeat(times, 0), S.repeat(times, 0), estimate=False)
    assert found == pytest.approx(expected, abs=1e-12)
    ones = metric(Y, S, sample_weight=np.ones(50))
    assert ones == pytest.approx(metric(Y, S), abs=1e-12)


@pytest.mark.parametrize("name", [*BY_SCORES, "calibrated_log_loss"])
def test_an_estimate_of_weighted_rows_is_near_that_of_complete_ones(name):
    rng = np.random.default_rng(11)
    S = rng.standard_normal((3000, 5))
    truth = (S + rng.standard_normal(S.shape) > 0.3).astype(float)
    weights = np.where(S[:, 0] > 0, 3.0, 0.2)
    Y = np.where(rng.random(S.shape) < 0.7, truth, np.nan)
    metric = getattr(metrics, name)
    found = metric(Y, S, sample_weight=weights)
    assert found == pytest.approx(metric(truth, S, sample_weight=weights), abs=0.03)


def test_weighted_label_auc_is_that_of_scikit_learn():
    rng = np.random.default_rng(12)
    y, s, w = rng.random(80) < 0.4, rng.standard_normal(80).round(1), rng.random(80)
    found = metrics.label_auc(y[:, None].astype(int), s[:, None], sample_weight=w)
    assert found == pytest.approx(roc_auc_score(y, s, sample_weight=w))


def test_evaluate_drops_rows_of_weight_zero():
    rng = np.random.default_rng(13)
    Y, S = rng.integers(0, 2, (30, 4)), rng.standard_normal((30, 4))
    weights = (np.arange(30) < 20).astype(float)
    found = metrics.evaluate(Y, S, y_pred=S > 0, sample_weight=weights)
    assert found == metrics.evaluate(Y[:20], S[:20], y_pred=S[:20] > 0)


# ------------------------------------------------------------------------------- observation rates


def test_weights_of_known_rates_undo_holes_that_depend_on_the_answer():
    X, truth = make_missing_multilabel(n_samples=3000, rho=1.0, noise=0.5, random_state=0)
    Y = simulate_missing_positives(truth, 0.3, random_state=0)
    train, test = slice(0, 1500), slice(1500, None)
    model = DM2LClassifier(calibration="sigmoid")
    weights = metrics.observation_weights(Y[train], (0.3, 1.0))
    plain = clone(model).fit(X[train], Y[train]).predict_proba(X[test])
    better = clone(model).fit(X[train], Y[train], label_weight=weights).predict_proba(X[test])
    share = truth[test].mean(axis=0)
    assert (plain.mean(axis=0) < 0.75 * share).all()
    np.testing.assert_allclose(better.mean(axis=0), share, atol=0.04)


def test_rates_may_be_those_of_rows_and_are_clipped():
    rates = np.array([[0.001], [0.5], [1.0]])
    Y = [[1, 0], [0, np.nan], [1, 1]]
    weights, effective = metrics.observation_weights(Y, rates, return_effective=True)
    np.testing.assert_allclose(weights, [[50, 50], [2, 0], [1, 1]])
    np.testing.assert_allclose(effective, [53**2 / (2500 + 4 + 1), 51**2 / 2501])
    with pytest.raises(ValueError, match="above 0"):
        metrics.observation_weights(Y, 0.0)
