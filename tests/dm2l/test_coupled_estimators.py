"""Estimators with coupling: what complete, doubtful and promises make of a row's known labels."""

import pickle
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dm2l import DM2LClassifier, DM2LClassifierCV
from dm2l._solvers.features import Features
from dm2l._solvers.kernel_problem import KernelOperator, KernelPreconditioner, KernelProblem
from dm2l._solvers.objective import Objective
from dm2l._solvers.problem import Preconditioner, Problem, masked_ridge
from dm2l.baselines import (
    GLOCALClassifier,
    LEMLClassifier,
    LSMLClassifier,
    MaskedOneVsRestClassifier,
    MaskedRidgeClassifier,
    MLLRCClassifier,
)
from dm2l.completion import ErrorRateBound, LabelErrors
from dm2l.completion._correlation import LabelCorrelation
from dm2l.completion._covariance import conditional_moments
from dm2l.completion._leave_out import fitted_leverages, leave_one_out_scores
from dm2l.labels import ConstantLabelWarning
from dm2l.persistence import load_model, save_model
from dm2l_oracles import leverages

COUPLED = {
    "linear": DM2LClassifier(coupling="residual"),
    "kernel": DM2LClassifier(kernel="rbf", coupling="residual"),
    "nystroem": DM2LClassifier(
        kernel="rbf", approximation="nystroem", n_components=30, random_state=0
    ),
    "cccp": DM2LClassifier(solver="cccp", max_iter=20, tol=1e-3),
    "joint": DM2LClassifier(coupling="joint"),
    "joint kernel": DM2LClassifier(kernel="rbf", coupling="joint"),
    "ridge": MaskedRidgeClassifier(),
    "joint ridge": MaskedRidgeClassifier(coupling="joint"),
    "search": DM2LClassifierCV(lambda_ds=[0.0, 0.3], alphas=[1.0], cv=2),
    "around logistic": MaskedOneVsRestClassifier(LogisticRegression(), coupling="residual", cv=3),
}
OTHERS = [
    GLOCALClassifier(),
    LEMLClassifier(),
    LSMLClassifier(),
    MLLRCClassifier(),
    MaskedOneVsRestClassifier(LogisticRegression()),
]


@pytest.fixture
def data():
    """Labels that features explain little of, and each other much."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    common = rng.normal(size=(300, 1))
    noise = rng.normal(size=(300, 4))
    truth = (0.5 * X[:, :4] + 1.5 * common + 0.5 * noise > 0).astype(float)
    Y = np.where(rng.random(truth.shape) < 0.6, truth, np.nan)
    return X, Y, truth


@pytest.fixture(params=COUPLED.values(), ids=COUPLED)
def model(request):
    return clone(request.param)


def auc(truth, scores, where):
    found = [roc_auc_score(t[w], s[w]) for t, s, w in zip(truth.T, scores.T, where.T, strict=True)]
    return np.mean(found)


# -------------------------------------------------------------------------------- completion


def test_known_labels_of_the_row_help_its_holes(model, data):
    X, Y, truth = data
    holes = np.isnan(Y)
    model.fit(X, Y)
    scores = model.decision_function(X)
    for method in ("decision_function", "predict_proba"):
        filled = model.complete(X, Y, method=method)
        assert auc(truth, filled, holes) > auc(truth, scores, holes) + 0.1
    wrong = np.mean(model.complete(X, Y)[holes] != truth[holes])
    assert wrong < np.mean(model.predict(X)[holes] != truth[holes]) - 0.05


def test_new_rows_are_filled_like_those_of_the_training(model, data):
    X, Y, truth = data
    model.fit(X[:200], Y[:200])
    holes = np.isnan(Y[200:])
    filled = model.complete(X[200:], Y[200:], method="predict_proba")
    assert auc(truth[200:], filled, holes) > 0.8


def test_scores_of_holes_are_conditional_means(model, data):
    X, Y, _ = data
    model.fit(X[:200], Y[:200])
    X, Y = X[200:], Y[200:]  # of training rows, known entries have scores that never saw them
    signs = np.nan_to_num(2 * Y - 1)
    mean, _ = conditional_moments(model.label_covariance_, signs, model.decision_function(X))
    found = model.complete(X, Y, method="decision_function")
    np.testing.assert_allclose(found, np.where(signs == 0, mean, signs), atol=1e-12)


def test_a_row_of_which_nothing_is_known_is_predicted(model, data):
    X, Y, _ = data
    model.fit(X, Y)
    nothing = np.full((9, 4), np.nan)
    np.testing.assert_array_equal(model.complete(X[:9], nothing), model.predict(X[:9]))
    found = model.complete(X[:9], nothing, method="decision_function")
    np.testing.assert_array_equal(found, model.decision_function(X[:9]))


@pytest.mark.parametrize("other", ["linear", "kernel", "ridge", "search", "around logistic"])
def test_residual_coupling_changes_no_prediction(other, data):
    X, Y, _ = data
    plain = clone(COUPLED[other]).set_params(coupling=None).fit(X, Y)
    coupled = clone(COUPLED[other]).fit(X, Y)
    for method in ("predict", "decision_function"):
        np.testing.assert_array_equal(getattr(coupled, method)(X), getattr(plain, method)(X))
    # Probabilities have curves of their own, in the order of the scores.
    order = np.argsort(plain.decision_function(X), axis=0)
    p = np.take_along_axis(coupled.predict_proba(X), order, axis=0)
    assert (np.diff(p, axis=0) >= 0).all()
    with pytest.raises(AttributeError, match="label_covariance_"):
        plain.label_covariance_  # noqa: B018
    found = plain.complete(X, Y, method="decision_function")
    np.testing.assert_array_equal(found[np.isnan(Y)], plain.decision_function(X)[np.isnan(Y)])


@pytest.mark.parametrize("threshold", [None, 0.3, "f1"])
def test_threshold_has_a_say_in_what_fills_holes(threshold, data):
    X, Y, _ = data
    holes = np.isnan(Y) & (~np.isnan(Y)).any(axis=1)[:, None]
    model = MaskedRidgeClassifier(threshold=threshold).fit(X, Y)
    filled = model.complete(X, Y)[holes]
    scores = model.complete(X, Y, method="decision_function")[holes]
    p = model.complete(X, Y, method="predict_proba")[holes]
    if threshold is None:
        np.testing.assert_array_equal(filled == 1, p > 0.5)
    elif threshold == "f1":
        assert np.mean(filled == 1) != np.mean(p > 0.5)
    else:
        np.testing.assert_array_equal(filled == 1, scores > threshold)


# ------------------------------------------------------------------------------- the leak law


def test_hidden_truth_changes_nothing(model, data):
    X, Y, truth = data
    mask = ~np.isnan(Y)
    first = clone(model).fit(X, truth, label_mask=mask)
    second = clone(model).fit(X, np.where(mask, truth, 1 - truth), label_mask=mask)
    S, other = first.label_covariance_.matrix(), second.label_covariance_.matrix()
    np.testing.assert_array_equal(S, other)
    for method in ("predict", "predict_proba", "decision_function"):
        one = first.complete(X, truth, label_mask=mask, method=method)
        two = second.complete(X, np.where(mask, truth, 7), label_mask=mask, method=method)
        np.testing.assert_array_equal(one, two)


def test_a_known_entry_has_no_part_in_its_own_score(data):
    X, Y, _ = data
    model = MaskedRidgeClassifier().fit(X, Y)
    T = np.nan_to_num(2 * Y - 1).astype(int)
    F = model.decision_function(X)
    mean, p = model._completer.correlation.predict(T, F)
    for i, j in np.argwhere(T != 0)[:20]:
        flipped = T.copy()
        flipped[i, j] *= -1
        found = model._completer.correlation.predict(flipped, F)
        np.testing.assert_allclose(found[0][i, j], mean[i, j], atol=1e-12)
        np.testing.assert_allclose(found[1][i, j], p[i, j], atol=1e-12)


def test_labels_may_come_in_any_order(data):
    X, Y, _ = data
    order = [2, 0, 3, 1]
    model = MaskedRidgeClassifier().fit(X, Y)
    turned = MaskedRidgeClassifier().fit(X, Y[:, order])
    S = model.label_covariance_.matrix()
    np.testing.assert_allclose(
        turned.label_covariance_.matrix(), S[np.ix_(order, order)], atol=1e-10
    )
    np.testing.assert_allclose(
        turned.complete(X, Y[:, order], method="predict_proba"),
        model.complete(X, Y, method="predict_proba")[:, order],
        atol=1e-6,
    )


# ----------------------------------------------------------------------- leave-one-out scores


@pytest.mark.parametrize("rates", [[0.6, 0.6, 0.6], [0.9, 0.6, 0.2]])
@pytest.mark.parametrize("intercept", [True, False])
def test_leverages_by_the_solvers_factor_are_near_the_exact_ones(rates, intercept):
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=(400, 30)) + 2.0
    known = rng.random((400, 3)) < rates
    features = Features(Phi, intercept).centre()
    T = np.where(known, 1, 0).astype(np.int8)
    factor = Preconditioner(Problem(features, Objective(T, 0.0), 20.0))
    found = fitted_leverages(features, factor, known, 20.0)
    exact = leverages(Phi, known, 20.0, intercept)
    np.testing.assert_allclose(found[known], exact[known], rtol=0.4)
    assert abs(found[known].mean() / exact[known].mean() - 1) < 0.1


def test_random_projections_give_the_leverages_of_many_features(monkeypatch):
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=(300, 200)) * rng.uniform(0.2, 2.0, size=(300, 1))
    known = rng.random((300, 2)) < 0.7
    features = Features(Phi, True).centre()
    T = np.where(known, 1, 0).astype(np.int8)
    factor = Preconditioner(Problem(features, Objective(T, 0.0), 50.0))
    exact = fitted_leverages(features, factor, known, 50.0)
    monkeypatch.setattr("dm2l.completion._leave_out.EXACT", 10)
    found = fitted_leverages(features, factor, known, 50.0)
    np.testing.assert_allclose(found.mean(), exact.mean(), rtol=0.02)
    assert np.corrcoef(found[:, 0], exact[:, 0])[0, 1] > 0.9


def test_random_projections_give_the_leverages_of_many_rows(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)) * rng.uniform(0.2, 2.0, size=(400, 1))
    known = rng.random((400, 2)) < 0.7
    T = np.where(known, 1, 0).astype(np.int8)
    problem = KernelProblem(KernelOperator(rbf_kernel(X, gamma=0.3), True), Objective(T, 0.0), 2.0)
    factor = KernelPreconditioner(problem, keep=True)
    exact = fitted_leverages(problem.features, factor, known, 2.0)
    monkeypatch.setattr("dm2l.completion._leave_out.EXACT_ROWS", 10)
    found = fitted_leverages(problem.features, factor, known, 2.0)
    assert (found != exact).all()
    np.testing.assert_allclose(found.mean(), exact.mean(), rtol=0.02)
    assert np.corrcoef(found[:, 0], exact[:, 0])[0, 1] > 0.9


def ridge_problem(X, T, alpha):
    features = Features(X, True).centre()
    problem = Problem(features, Objective(T.astype(np.int8), 0.0), alpha)
    W = features.from_original(masked_ridge(features, T, alpha))
    return problem, Preconditioner(problem), W


def test_unseen_scores_are_those_of_refits_without_the_row():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 6))
    T = np.where(rng.random((120, 3)) < 0.7, np.sign(X[:, :3] + rng.normal(size=(120, 3))), 0)
    problem, factor, W = ridge_problem(X, T, 5.0)
    F = problem.features.scores(W)
    found = leave_one_out_scores(problem, factor, T, W, problem.features)
    errors, before = [], []
    for i in range(20):
        rest = np.delete(np.arange(120), i)
        left = masked_ridge(Features(X[rest], True), T[rest], 5.0)
        # The intercept of centred features stays that of all rows.
        expected = (X[i] - X.mean(axis=0)) @ left[:-1] + W[-1]
        seen = T[i] != 0
        errors.extend(np.abs(found[i, seen] - expected[seen]))
        before.extend(np.abs(F[i, seen] - expected[seen]))
    assert np.mean(errors) < 0.15 * np.mean(before)


def test_folds_tell_where_rows_all_but_determine_their_own_scores(monkeypatch):
    monkeypatch.setattr("dm2l.completion._leave_out.TOL", 1e-8)
    monkeypatch.setattr("dm2l.completion._leave_out.STEPS", 200)
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 200))
    T = np.where(rng.random((60, 3)) < 0.7, np.sign(X[:, :3] + rng.normal(size=(60, 3))), 0)
    problem, factor, W = ridge_problem(X, T, 5.0)
    found = leave_one_out_scores(problem, factor, T, W, problem.features)
    fold = np.random.default_rng(0).permutation(60) % 5
    for k in range(5):
        rest = fold != k
        left = masked_ridge(Features(X[rest], True), T[rest], 5.0)
        expected = (X[~rest] - X.mean(axis=0)) @ left[:-1] + W[-1]
        seen = T[~rest] != 0
        np.testing.assert_allclose(found[~rest][seen], expected[seen], atol=1e-6)
    holes = T == 0
    np.testing.assert_allclose(found[holes], problem.features.scores(W)[holes], atol=0.05)


def test_entries_that_determine_their_own_score_say_nothing(data):
    X, Y, _ = data
    X, Y = X[:4], np.array([[1, 0], [0, 1], [1, 1], [0, 0.0]])
    model = MaskedRidgeClassifier(alpha=1e-9).fit(np.hstack([X, X**2]), Y)
    assert np.isfinite(model.complete(np.hstack([X, X**2]), Y * np.nan)).all()


# ------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize("estimator", [*COUPLED.values(), *OTHERS], ids=repr)
def test_coupling_is_one_of_three(estimator, data):
    X, Y, _ = data
    with pytest.raises(ValueError, match="coupling must be"):
        clone(estimator).set_params(coupling="close").fit(X, Y)


@pytest.mark.parametrize("estimator", OTHERS, ids=lambda e: type(e).__name__)
def test_other_estimators_couple_when_asked_by_folds(estimator, data):
    X, Y, _ = data
    assert estimator.coupling is None
    with pytest.raises(ValueError, match="does not support coupling='joint'"):
        clone(estimator).set_params(coupling="joint").fit(X, Y)
    model = clone(estimator).set_params(coupling="residual", cv=2).fit(X, Y)
    assert model.label_covariance_.matrix().shape == (4, 4)


def test_folds_are_fitted_once_for_all_that_want_them(data, monkeypatch):
    X, Y, _ = data
    calls = []
    plain = MaskedOneVsRestClassifier._cross_fit

    def counted(self, X, labels):
        calls.append(1)
        return plain(self, X, labels)

    monkeypatch.setattr(MaskedOneVsRestClassifier, "_cross_fit", counted)
    options = {"coupling": "residual", "calibration": "sigmoid", "threshold": "f1", "cv": 2}
    MaskedOneVsRestClassifier(LogisticRegression(), **options).fit(X, Y)
    assert len(calls) == 1


def test_the_published_solver_has_no_coupling(data):
    X, Y, _ = data
    model = DM2LClassifier.published().fit(X, Y)
    assert not hasattr(model, "label_covariance_")
    with pytest.raises(ValueError, match="published"):
        DM2LClassifier.published(coupling="joint").fit(X, Y)


def test_learning_together_needs_all_rows():
    assert hasattr(DM2LClassifier(), "partial_fit")
    assert not hasattr(DM2LClassifier(coupling="joint"), "partial_fit")


def test_a_refit_without_coupling_forgets_it(data):
    X, Y, _ = data
    model = DM2LClassifier().fit(X, Y)
    assert hasattr(model, "label_covariance_")
    assert not hasattr(model.set_params(coupling=None).fit(X, Y), "label_covariance_")


# ------------------------------------------------------------------------------ odd labels


def test_labels_that_cannot_be_learnt_stay_as_they_were(model, data):
    X, Y, _ = data
    Y = np.column_stack([Y, np.where(np.isnan(Y[:, 0]), np.nan, 1), np.full(len(Y), np.nan)])
    with pytest.warns(ConstantLabelWarning):
        model.fit(X, Y)
    assert model.label_covariance_.matrix().shape == (6, 6)
    apart = model.label_covariance_.matrix()[4:, :4]
    np.testing.assert_array_equal(apart, np.zeros((2, 4)))
    holes = np.isnan(Y[:, 4:])
    for method in ("predict", "decision_function"):
        filled = model.complete(X, Y, method=method)[:, 4:]
        np.testing.assert_array_equal(filled[holes], getattr(model, method)(X)[:, 4:][holes])
    p = model.complete(X, Y, method="predict_proba")[:, 4:]
    seen = np.sum(~holes[:, 0])
    np.testing.assert_allclose(p[holes[:, 0], 0], (seen + 0.5) / (seen + 1))  # always a yes
    np.testing.assert_array_equal(p[:, 1], 0.5)


def test_one_label_has_nothing_to_couple(model, data):
    X, Y, _ = data
    model.fit(X, Y[:, :1])
    assert model.label_covariance_.matrix().shape == (1, 1)
    for method in ("predict", "decision_function", "predict_proba"):
        filled = model.complete(X, Y[:, :1], method=method)
        holes = np.isnan(Y[:, :1])
        np.testing.assert_array_equal(filled[holes], getattr(model, method)(X)[holes])


def test_a_single_column_of_classes_has_no_covariance(data):
    X, _, truth = data
    assert not hasattr(DM2LClassifier().fit(X, truth[:, 0]), "label_covariance_")


# ------------------------------------------------------------------------- around estimators


def test_a_fit_leaves_the_coupling_for_later(model, data, tmp_path, monkeypatch):
    X, Y, _ = data
    made, fit = [], LabelCorrelation.fit

    def count(*arguments, **options):
        made.append(1)
        return fit(*arguments, **options)

    monkeypatch.setattr(LabelCorrelation, "fit", count)
    model.fit(X, Y)
    before = vars(model).copy()
    scores = model.decision_function(X)
    assert not made
    S = model.label_covariance_.matrix()
    model.complete(X, Y)
    model.predict_proba(X)
    assert len(made) == 1
    assert vars(model) == before
    # Copies and files do not hold the labels of the training rows, but what was made of them.
    again = clone(model).fit(X, Y)
    for copied in (pickle.loads(pickle.dumps(again)), deepcopy(again)):
        np.testing.assert_array_equal(copied.label_covariance_.matrix(), S)
        np.testing.assert_array_equal(copied.decision_function(X), scores)
    save_model(clone(model).fit(X, Y), tmp_path / "model.dm2l")
    np.testing.assert_array_equal(load_model(tmp_path / "model.dm2l").label_covariance_.matrix(), S)
    assert len(made) == 3


def test_saved_models_complete_as_they_did(model, data, tmp_path):
    X, Y, _ = data
    model.fit(X, Y)
    save_model(model, tmp_path / "model.dm2l")
    again = load_model(tmp_path / "model.dm2l")
    np.testing.assert_array_equal(
        again.complete(X, Y, method="predict_proba"), model.complete(X, Y, method="predict_proba")
    )
    np.testing.assert_array_equal(
        again.complete(X, Y, max_error_rate=0.2), model.complete(X, Y, max_error_rate=0.2)
    )


def test_coupling_can_be_searched_for_and_stands_in_pipelines(data):
    X, Y, _ = data
    grid = {"coupling": [None, "residual", "joint"]}
    search = GridSearchCV(MaskedRidgeClassifier(), grid, cv=KFold(2))
    assert search.fit(X, Y).best_params_["coupling"] in (None, "residual", "joint")
    pipeline = make_pipeline(StandardScaler(), DM2LClassifier()).fit(X, Y)
    filled = pipeline[-1].complete(pipeline[:-1].transform(X), Y)
    assert not np.isnan(filled).any()


def test_sparse_inputs_give_the_coupling_of_dense_ones(data):
    X, Y, _ = data
    X = np.where(np.abs(X) > 0.3, X, 0)
    for estimator in (DM2LClassifier(), MaskedRidgeClassifier(coupling="joint")):
        dense = clone(estimator).fit(X, Y).label_covariance_.matrix()
        sparse = clone(estimator).fit(sp.csr_array(X), Y).label_covariance_.matrix()
        np.testing.assert_allclose(sparse, dense, atol=1e-4)


def test_many_labels_are_coupled_by_factors():
    rng = np.random.default_rng(0)
    X, common = rng.normal(size=(150, 4)), rng.normal(size=(150, 2))
    truth = common @ rng.normal(size=(2, 220)) + 0.3 * rng.normal(size=(150, 220)) > 0
    Y = np.where(rng.random(truth.shape) < 0.5, truth, np.nan)
    model = MaskedRidgeClassifier().fit(X, Y)
    holes = np.isnan(Y)
    assert np.mean(model.complete(X, Y)[holes] == truth[holes]) > 0.8


# -------------------------------------------------------------------------------- promises


def test_promises_are_kept_on_average():
    shares = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X, common = rng.normal(size=(200, 3)), rng.normal(size=(200, 1))
        truth = X.sum(axis=1, keepdims=True) + common + rng.normal(size=(200, 5)) > 0
        Y = np.where(rng.random(truth.shape) < 0.5, truth, np.nan)
        model = MaskedRidgeClassifier(alpha=1.0).fit(X, Y)
        for level in (0.05, 0.1):
            filled = model.complete(X, Y, max_error_rate=level)
            chosen = np.isnan(Y) & ~np.isnan(filled)
            wrong = (filled != truth)[chosen]
            shares.append((level, wrong.mean() if len(wrong) else 0.0, chosen.mean()))
    shares = np.array(shares)
    for level in (0.05, 0.1):
        here = shares[shares[:, 0] == level]
        assert here[:, 1].mean() < level + 0.01
        assert here[:, 2].mean() > 0.02  # nothing filled would keep every promise


def test_the_bound_holds_among_yes_among_no_and_in_each_label():
    # Most labels are mostly no, so that a joint bound would leave a fifth of the yes wrong.
    wrong, filled = np.zeros((2, 2, 8)), np.zeros((2, 2, 8))
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, common = rng.normal(size=(1000, 4)), rng.normal(size=(1000, 1))
        noise, shift = rng.normal(size=(1000, 8)), np.linspace(0.5, 4.5, 8)
        truth = X @ rng.normal(size=(4, 8)) + common + noise > shift
        Y = np.where(rng.random(truth.shape) < 0.6, truth, np.nan)
        model = MaskedRidgeClassifier(alpha=1.0).fit(X, Y)
        for i, level in enumerate((0.05, 0.1)):
            found = model.complete(X, Y, max_error_rate=level)
            for answer in (0, 1):
                here = np.isnan(Y) & (found == answer)
                filled[i, answer] += here.sum(axis=0)
                wrong[i, answer] += (here & (truth != answer)).sum(axis=0)
    for i, level in enumerate((0.05, 0.1)):
        assert (wrong[i].sum(axis=1) <= level * filled[i].sum(axis=1)).all()
        most = level * filled[i] + 2 * np.sqrt(level * filled[i])
        assert (wrong[i] <= most)[filled[i] >= 50].all()
        assert filled[i].sum(axis=1).min() > 50


def test_a_label_with_many_errors_is_bounded_by_itself():
    rng = np.random.default_rng(0)
    q, right = rng.random((500, 3)), np.ones((500, 3), dtype=bool)
    right[::5, 2] = False  # a fifth is wrong, however confident
    yes = np.ones((500, 3), dtype=bool)
    for rows in (500, 150):  # with evidence for each label, and pooled
        bound = ErrorRateBound.fit(q[:rows], yes[:rows], np.where(right, 1, -1)[:rows])
        chosen, expected = bound.choose(q, yes, yes, 0.1)
        assert chosen[:, :2].all()
        assert chosen[:, 2].mean() < 0.1
        assert expected[0] == 0
        assert 0 < expected[1] <= 0.1 * chosen.sum()
    earlier = ErrorRateBound(bound.n, bound.confidence, bound.count)  # as in older files
    assert earlier.choose(q, yes, yes, 0.2)[0].all()


def test_more_is_filled_the_more_may_be_wrong(model, data):
    X, Y, _ = data
    model.fit(X, Y)
    holes = np.isnan(Y)
    left = holes
    for level in (0.0, 0.02, 0.1, 0.3, 1.0):
        filled, filling = model.complete(X, Y, max_error_rate=level, return_summary=True)
        np.testing.assert_array_equal(filled[~holes], Y[~holes])
        assert not (np.isnan(filled) & ~left).any()
        left = np.isnan(filled)
        assert (filling.n_left, filling.n_yes) == (left.sum(), (filled == 1)[holes].sum())
        assert filling.n_no == (filled == 0)[holes].sum()
        n_yes, n_no = filling.n_yes, filling.n_no
        rates = filling.expected_wrong, filling.expected_wrong_yes, filling.expected_wrong_no
        np.testing.assert_array_equal(np.isnan(rates), [n_yes + n_no == 0, n_yes == 0, n_no == 0])
        both, yes, no = np.nan_to_num(rates)
        assert max(both, yes, no) <= level
        assert both * (n_yes + n_no) == pytest.approx(yes * n_yes + no * n_no)
    assert not left.any()


def test_yes_and_no_can_have_bounds_of_their_own(data):
    X, Y, _ = data
    model = MaskedRidgeClassifier().fit(X, Y)
    holes = np.isnan(Y)
    only_yes = model.complete(X, Y, max_error_rate=(0.2, 0.0))
    assert not (only_yes[holes] == 0).any()
    assert (only_yes[holes] == 1).any()
    only_no = model.complete(X, Y, max_error_rate=(0.0, 0.2))
    assert not (only_no[holes] == 1).any()
    assert (only_no[holes] == 0).any()


def test_holes_that_are_left_are_marked_like_those_that_came(data):
    X, Y, _ = data
    frame = pd.DataFrame(Y, columns=list("abcd"))
    filled = MaskedRidgeClassifier().fit(X, frame).complete(X, frame, max_error_rate=0.05)
    assert list(filled.columns) == list("abcd")
    assert filled.isna().to_numpy().any()
    marked = np.nan_to_num(Y, nan=-7).astype(int)
    model = MaskedRidgeClassifier(missing_label=-7).fit(X, marked)
    found = model.complete(X, marked, max_error_rate=0.05)
    assert found.dtype.kind == "i"
    np.testing.assert_array_equal(found == -7, filled.isna().to_numpy())
    words = np.where(np.isnan(Y), "?", np.nan_to_num(Y).astype(int).astype(object))
    model = MaskedRidgeClassifier(missing_label="?").fit(X, words)
    found = model.complete(X, words, max_error_rate=0.05)
    np.testing.assert_array_equal(found == "?", filled.isna().to_numpy())
    assert set(found.ravel()) == {0, 1, "?"}


@pytest.mark.parametrize("value", [-0.1, 1.5, "5%", (0.1,), (0.1, 2), (0.1, 0.1, 0.1), True])
def test_max_wrong_is_a_share_or_two(value, data):
    X, Y, _ = data
    with pytest.raises(ValueError, match="max_error_rate must be a number from 0 to 1"):
        MaskedRidgeClassifier().fit(X, Y).complete(X, Y, max_error_rate=value)


def test_promises_are_about_decisions(data):
    X, Y, _ = data
    with pytest.raises(ValueError, match="max_error_rate needs method='predict'"):
        MaskedRidgeClassifier().fit(X, Y).complete(X, Y, method="predict_proba", max_error_rate=0.1)
    plain = MaskedOneVsRestClassifier(LogisticRegression()).fit(X, Y)
    with pytest.raises(ValueError, match=r"coupling='residual'\. Pass it to MaskedOneVsRest"):
        plain.complete(X, Y, max_error_rate=0.1)
    with pytest.raises(ValueError, match="coupling must be one of None, 'residual'; got True"):
        plain.set_params(coupling=True).fit(X, Y)


@pytest.mark.parametrize("level", [0.05, 0.1, 0.3])
def test_promise_is_benjamini_hochberg_on_p_values_with_a_margin(level):
    rng = np.random.default_rng(0)
    q, new = rng.random((8000, 1)), rng.random((300, 1))
    right = rng.random((8000, 1)) < q
    positive = rng.random((8000, 1)) < 0.5
    T = np.where(right == positive, 1, -1)
    promise = ErrorRateBound.fit(q, positive, T)
    chosen, _ = promise.choose(new, np.ones_like(new, bool), np.ones_like(new, bool), level)
    wrong, n = q[~right & positive], positive.sum()  # of the answer yes alone
    above = np.array([(wrong >= value).sum() for value in new.ravel()])
    p = (1 + 1.1 * above + np.sqrt(above)) / (n + 1)
    order = np.sort(p)
    good = np.flatnonzero(order <= level * np.arange(1, 301) / 300)
    expected = p <= order[good[-1]]
    assert expected.any()
    np.testing.assert_array_equal(chosen.ravel(), expected)
    # Other predictions that are known to be right count as filled.
    sure, yes = np.arange(300)[:, None] < 150, np.ones((300, 1), dtype=bool)
    chosen, (_, wrong_yes) = promise.choose(new, yes, ~sure, level, sure)
    filled = np.array([(new >= value).sum() for value in new.ravel()])
    low = np.flatnonzero((150 * p <= level * filled) & ~sure.ravel())
    expected = (new >= new[low].min()) & ~sure
    np.testing.assert_array_equal(chosen, expected)
    assert wrong_yes <= level * (expected | sure & (new >= new[low].min())).sum()
    nothing = np.zeros((0, 1))
    bound = ErrorRateBound.fit(nothing, nothing > 0, nothing)
    assert not bound.choose(new, new > 0, new > 0, 0.5)[0].any()


# -------------------------------------------------------------------------- doubtful labels


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("coupling", [None, "residual"])
def test_flipped_labels_are_found(data, new, coupling):
    X, _, truth = data
    rng = np.random.default_rng(3)
    flipped = rng.random(truth.shape) < 0.03
    Y = np.where(flipped, 1 - truth, truth)
    Y[rng.random(truth.shape) < 0.1] = np.nan
    flipped &= ~np.isnan(Y)
    model = MaskedRidgeClassifier(coupling=coupling).fit(X, Y)
    doubts = model.find_label_errors(X * (1 + 1e-12) if new else X, Y)
    assert len(doubts) == (~np.isnan(Y)).sum()
    np.testing.assert_array_equal(doubts.observed, Y[doubts.row, doubts.label] == 1)
    first = flipped[doubts.row, doubts.label][: flipped.sum()]
    assert first.mean() > 0.2
    assert first.mean() > 5 * flipped.mean()
    assert (np.diff(doubts.probability) <= 0).all()
    assert (np.diff(doubts.false_alarms) >= -1e-12).all()


def test_every_coupled_estimator_has_doubts(model, data):
    X, Y, _ = data
    doubts = model.fit(X, Y).find_label_errors(X, Y)
    assert len(doubts) == (~np.isnan(Y)).sum()


def test_rows_of_the_fit_are_recognised_and_scored_by_folds(data, monkeypatch):
    X, Y, _ = data
    model = MaskedRidgeClassifier(cv=3).fit(X[:80], Y[:80])
    shapes, plain = [], MaskedRidgeClassifier._cross_fit

    def counted(self, X, labels):
        shapes.append(labels.signs.shape[0])
        return plain(self, X, labels)

    monkeypatch.setattr(MaskedRidgeClassifier, "_cross_fit", counted)
    model.find_label_errors(X[:80], Y[:80])
    model.find_label_errors(X[80:], Y[80:])  # new ones: by the model itself
    some = np.r_[10:100]
    model.find_label_errors(X[some], Y[some])
    assert shapes == [80, 70]
    clone(model).set_params(coupling=None).fit(X[:80], Y[:80]).find_label_errors(X[80:], Y[80:])
    assert shapes[2:] == [len(X) - 80]  # without a record of its rows: all by folds


def test_doubts_rest_on_the_labels_that_are_known(data):
    X, Y, truth = data
    mask = ~np.isnan(Y)
    model = MaskedRidgeClassifier().fit(X, Y)
    one = model.find_label_errors(X, truth, label_mask=mask)
    two = model.find_label_errors(X, Y)
    np.testing.assert_array_equal(one.row, two.row)
    np.testing.assert_array_equal(one.probability, two.probability)
    with pytest.raises(ValueError, match="label matrix"):
        DM2LClassifier().fit(X, truth[:, 0]).find_label_errors(X, truth[:, :1])


@pytest.mark.parametrize("share", [0.0, 0.005, 0.02, 0.05])
@pytest.mark.parametrize("blunt", [0.7, 1.0, 1.5])
def test_labels_with_noise_of_their_own_are_no_mistakes(share, blunt):
    # Labels fall as a logistic curve has it; the probabilities that doubts are told are of another
    # slope than the curve's.
    rng = np.random.default_rng(5)
    margin = rng.normal(scale=3.0, size=(4000, 5))
    truth = rng.random(margin.shape) < expit(margin)
    flipped = rng.random(margin.shape) < share
    doubts = LabelErrors.of(np.where(truth != flipped, 1, -1), expit(blunt * margin))
    wrong = flipped[doubts.row, doubts.label]
    for first in (50, 200, 1000):
        assert abs(doubts.probability[:first].mean() - wrong[:first].mean()) < 0.15


def test_nothing_observed_is_nothing_doubtful():
    assert len(LabelErrors.of(np.zeros((3, 2)), np.full((3, 2), 0.5))) == 0


@pytest.mark.filterwarnings("ignore::dm2l.labels.ConstantLabelWarning")
@pytest.mark.parametrize("seed", range(3))
def test_rare_labels_are_not_filled_with_yes_where_norms_move_their_level(seed):
    # Leave-one-out scores are those of ridge; the norms lift all scores of a rare label a little,
    # which is much beside their spread: holes had more than twice the true share of positives.
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 10))
    S = X[:, :4] @ rng.normal(size=(4, 30)) + rng.normal(size=(400, 30))
    truth = (np.quantile(S, 0.97, axis=0) < S).astype(float)
    Y = np.where(rng.random(truth.shape) < 0.3, truth, np.nan)
    model = DM2LClassifier(kernel="rbf", gamma=0.1, alpha=3.0, lambda_d=1.0).fit(X, Y)
    p = model.complete(X, Y, method="predict_proba")
    learnt = (Y == 1).any(axis=0)
    holes = np.isnan(Y) & learnt
    assert 0.6 < p[holes].mean() / truth[holes].mean() < 1.5


def test_probabilities_of_a_handful_of_rows_go_by_their_scores():
    X, Y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([[0, 1], [np.nan, 1], [1, 0], [1, 0]])
    model = DM2LClassifier(alpha=0.1).fit(X, Y)
    assert ((model.predict_proba(X) > 0.5) == (model.predict(X) == 1)).all()
