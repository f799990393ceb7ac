"""Cases in which a plausible input once gave, or could give, a silently wrong answer."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import ShuffleSplit

from dm2l import DM2LClassifier, metrics
from dm2l.baselines import MaskedRidgeClassifier
from dm2l.datasets import make_missing_multilabel
from dm2l.model_selection import MultilabelKFold, cross_val_decision


@pytest.mark.parametrize("negative", [0, -1, False])
def test_a_1d_y_of_negatives_only_is_negative(negative):
    y = [negative] * 3
    assert metrics.hamming_loss(y, [0, 0, 0]) == 0
    assert metrics.hamming_loss(np.array(y), [1, 1, 0]) == pytest.approx(2 / 3)


def test_a_1d_y_with_holes_is_one_label():
    result = metrics.hamming_loss([1.0, np.nan, 0.0], [1, 1, 1], return_counts=True)
    assert (result.value, result.n_entries) == (0.5, 2)


def test_metrics_refuse_classes():
    with pytest.raises(ValueError, match=r"'a'|classes"):
        metrics.hamming_loss(["a", "b", "c"], [0, 1, 0])


def test_constant_scores_have_an_auc_of_one_half_by_default():
    Y = np.array([[1, 0, 0], [0, 1, 1]])
    found = metrics.evaluate(Y, np.zeros(Y.shape))
    assert found["label_auc"].value == 0.5
    assert found["instance_auc"].value == 0.5


@pytest.mark.parametrize("alpha", [1e-3, 1e-5])
def test_tolerance_is_relative_when_the_objective_is_small(alpha):
    X, Y = make_missing_multilabel(100, 30, 5, rho=0.5, random_state=0)
    settings = {"kernel": "rbf", "alpha": alpha, "lambda_d": 1e-4, "max_iter": 3000}
    rough = DM2LClassifier(**settings).fit(X, Y)
    fine = DM2LClassifier(tol=1e-9, **settings).fit(X, Y)
    assert fine.objective_ < 1
    assert rough.objective_ <= 1.01 * fine.objective_


def badly_scaled():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((220, 180)) * np.logspace(0, -3, 180)
    Y = np.where(rng.random((220, 30)) < 0.3, rng.integers(0, 2, (220, 30)), np.nan)
    return X, Y


def test_auto_falls_back_where_conjugate_gradients_do_not_converge():
    X, Y = badly_scaled()
    direct = MaskedRidgeClassifier(1e-7, solver="direct").fit(X, Y).decision_function(X)
    auto = MaskedRidgeClassifier(1e-7).fit(X, Y).decision_function(X)
    np.testing.assert_allclose(auto, direct, atol=1e-5)


def test_conjugate_gradients_that_do_not_converge_warn():
    X, Y = badly_scaled()
    with pytest.warns(ConvergenceWarning, match="Scale the features"):
        MaskedRidgeClassifier(1e-9, solver="cg").fit(X, Y)


@pytest.mark.parametrize("model", [DM2LClassifier(alpha=10.0), MaskedRidgeClassifier(10.0)])
@pytest.mark.parametrize(("dtype", "offset"), [(np.float32, 1e2), (np.float64, 1e6)])
def test_more_features_than_rows_far_from_zero(model, dtype, offset):
    X, Y = make_missing_multilabel(60, 200, 5, random_state=1)
    X = X.astype(dtype)
    moved = (X + dtype(offset)).astype(dtype)
    here = model.fit(X, Y).decision_function(X)
    there = model.fit(moved, Y).decision_function(moved)
    np.testing.assert_allclose(there, here, atol=2e-2 if dtype == np.float32 else 1e-4)


@pytest.mark.parametrize(
    "model",
    [
        DM2LClassifier(),
        DM2LClassifier(warm_start=True),
        DM2LClassifier(fit_intercept=False),
        DM2LClassifier(solver="cccp"),
        MaskedRidgeClassifier(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_features_that_are_all_zero_give_constant_scores(model, container):
    X = container(np.zeros((4, 6)))
    Y = [[1, 0], [1, 1], [1, 1], [0, 0]]
    scores = model.fit(X, Y).fit(X, Y).decision_function(X)
    assert np.ptp(scores, axis=0) == pytest.approx(0)
    assert model.coef_.shape == (2, 6)
    if not model.fit_intercept:  # nothing moves the scores from zero: 1/2 for each of 8 labels
        assert model.objective_ == pytest.approx(4)


def test_gamma_scale_survives_an_offset_in_float32():
    X, Y = make_missing_multilabel(80, 6, 4, random_state=0)
    plain = DM2LClassifier(kernel="rbf").fit(X, Y)
    moved = DM2LClassifier(kernel="rbf").fit((X + 1e3).astype(np.float32), Y)
    assert moved._kernel.gamma == pytest.approx(plain._kernel.gamma, rel=1e-3)


def test_float32_kernel_models_keep_their_weights_in_float64():
    X, Y = make_missing_multilabel(80, 6, 4, random_state=0)
    X = X.astype(np.float32)
    model = DM2LClassifier(kernel="rbf", alpha=1e-3).fit(X, Y)
    assert model.dual_coef_.dtype == np.float64
    K = rbf_kernel(X.astype(np.float64), model.X_fit_.astype(np.float64), model._kernel.gamma)
    expected = K @ model.dual_coef_ + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-12)


def test_an_objective_without_a_lower_bound_warns():
    X, Y = make_missing_multilabel(100, 150, 10, rho=0.2, random_state=3)
    with pytest.warns(ConvergenceWarning, match="no lower bound"):
        DM2LClassifier.published("rbf", lambda_d=1.0).fit(X, Y)


@pytest.fixture
def rare():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 8))
    Y = (X[:, :2] + rng.standard_normal((300, 2)) > 0).astype(float)
    rare = np.zeros((300, 1))
    rare[0] = 1
    return X, np.hstack([Y, rare])


def test_an_f1_border_is_not_read_off_one_positive(rare):
    X, Y = rare
    model = MaskedRidgeClassifier(threshold="f1").fit(X, Y)
    assert model.thresholds_[2] == 0
    assert model.predict(X)[:, 2].mean() < 0.1


@pytest.mark.parametrize("settings", [{"threshold": "f1"}, {"calibration": "sigmoid"}], ids=repr)
def test_constant_scores_of_a_fold_without_positives_are_no_evidence(rare, settings):
    X, Y = rare
    Y[:8, 2] = 1
    first = np.arange(len(X)) < 100  # all positives of the last label lie in one test fold
    splits = [(np.flatnonzero(~first), np.flatnonzero(first))]
    splits += [(np.flatnonzero(first), np.flatnonzero(~first))]
    model = MaskedRidgeClassifier(cv=splits, **settings).fit(X, Y)
    assert model.thresholds_[2] == 0
    if "calibration" in settings:  # no held-out positive, hence no curve but the observed rate
        np.testing.assert_allclose(model.predict_proba(X)[:, 2], 8.5 / 301)


def test_rows_that_a_splitter_never_tests_do_not_count_in_calibration(rare):
    X, Y = rare
    cv = ShuffleSplit(1, test_size=0.3, random_state=0)
    p = MaskedRidgeClassifier(calibration="sigmoid", cv=cv).fit(X, Y).predict_proba(X)
    assert p[:, 0].mean() == pytest.approx(Y[:, 0].mean(), abs=0.1)


def test_cv_may_be_a_list_of_splits_or_a_splitter_with_its_own_mark(rare):
    X, Y = rare
    splits = list(MultilabelKFold(3, random_state=0).split(X, Y))
    listed = MaskedRidgeClassifier(calibration="sigmoid", cv=splits).fit(X, Y)
    splitter = MultilabelKFold(3, random_state=0, missing_label=-1)
    model = MaskedRidgeClassifier(calibration="sigmoid", cv=splitter, missing_label=-1)
    np.testing.assert_array_equal(model.fit(X, Y).predict_proba(X), listed.predict_proba(X))


def test_cross_val_decision_reads_labels_and_kernels_as_the_estimator_does():
    X, Y = make_missing_multilabel(90, 6, 4, random_state=0)
    expected = cross_val_decision(DM2LClassifier(alpha=1.0), X, Y, cv=3)
    marked = np.where(np.isnan(Y), -1, Y)
    found = cross_val_decision(DM2LClassifier(alpha=1.0, missing_label=-1), X, marked, cv=3)
    np.testing.assert_array_equal(found, expected)
    pairwise = DM2LClassifier(alpha=1.0, kernel="precomputed")
    found = cross_val_decision(pairwise, X @ X.T, Y, cv=3)
    np.testing.assert_allclose(found, expected, atol=1e-2)


@pytest.mark.parametrize("container", [sp.lil_array, sp.dok_array, sp.csc_array])
def test_complete_takes_every_sparse_format(container):
    X, Y = make_missing_multilabel(60, 5, 4, random_state=0)
    signed = np.where(np.isnan(Y), 0, np.where(Y == 1, 1, -1))
    model = MaskedRidgeClassifier().fit(X, sp.csr_array(signed))
    expected = model.complete(X, sp.csr_array(signed))
    np.testing.assert_array_equal(model.complete(X, container(signed)), expected)


def test_complete_does_not_wrap_minus_one_into_an_unsigned_type():
    X, Y = make_missing_multilabel(60, 5, 4, random_state=0)
    model = MaskedRidgeClassifier().fit(X, 2 * Y - 1)
    ones = np.ones(Y.shape, dtype=np.uint8)
    filled = model.complete(X, ones, label_mask=np.zeros(Y.shape, dtype=bool))
    assert set(np.unique(filled)) <= {-1, 1}


def test_a_refit_with_another_kernel_leaves_no_stale_weights():
    X, Y = make_missing_multilabel(60, 5, 4, random_state=0)
    model = DM2LClassifier().fit(X, Y)
    model.set_params(kernel="rbf").fit(X, Y)
    assert not hasattr(model, "coef_")
    model.set_params(kernel="linear").fit(X, Y)
    assert not hasattr(model, "dual_coef_")


def test_a_threshold_array_is_refused_by_name():
    with pytest.raises(ValueError, match="threshold must be"):
        MaskedRidgeClassifier(threshold=np.zeros(3)).fit([[0.0], [1.0]], [[0], [1]])


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("value", [0.0, 1e-200])
def test_more_columns_than_rows_whose_squares_are_all_zero(make, value):
    Y = np.random.default_rng(0).choice([0.0, 1.0, np.nan], size=(20, 3))
    model = DM2LClassifier(alpha=1.0).fit(make(np.full((20, 50), value)), Y)
    scores = model.decision_function(np.zeros((1, 50)))
    np.testing.assert_allclose(scores[0], model.intercept_)
