"""Laws of the fitted models: what must not matter does not, and hidden labels are never read."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import Ridge

import dm2l_oracles as oracle
from dm2l import ConstantLabelWarning, DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier
from dm2l.model_selection import MultilabelKFold, MultilabelShuffleSplit

LAMBDA, ALPHA = 0.1, 0.5
# Coupling comes after the fit and takes longer on a few rows: where scores are the subject there is
# none.
tight = {"lambda_d": LAMBDA, "alpha": ALPHA, "tol": 1e-14, "max_iter": 20_000, "coupling": None}
# The objective settles to about 1e-12 of its value, the scores to the square root of that.
CLOSE = 2e-5


def scores(X, T, new=None, **settings):
    """Scores of DM2L on the training rows, or on ``new`` ones."""
    model = DM2LClassifier(**(tight | settings)).fit(X, oracle.as_labels(T))
    return model.decision_function(X if new is None else new)


def problem(seed=0, n=30, d=5, c=4, observed=0.7):
    """Every row has something observed, so that rows are what a law says they are."""
    X, T = oracle.draw_problem(seed, n, d, c, observed)
    T[(T == 0).all(axis=1), 0] = 1
    new = np.random.default_rng(seed + 1000).standard_normal((7, d))
    return X, T, new


models = {
    "linear": DM2LClassifier(LAMBDA, ALPHA),
    "linear, default ridge": DM2LClassifier(LAMBDA, coupling=None),
    "no intercept": DM2LClassifier(LAMBDA, ALPHA, fit_intercept=False, coupling=None),
    "local only": DM2LClassifier(LAMBDA, ALPHA, discriminant=False, coupling=None),
    "rbf": DM2LClassifier(LAMBDA, ALPHA, kernel="rbf"),
    "cccp": DM2LClassifier(LAMBDA, ALPHA, solver="cccp", coupling=None),
    "cccp rbf": DM2LClassifier(LAMBDA, ALPHA, solver="cccp", kernel="rbf", coupling=None),
    "published": DM2LClassifier.published(),
    "published rbf": DM2LClassifier.published("rbf"),
    "ridge": MaskedRidgeClassifier(ALPHA),
    "ridge cg": MaskedRidgeClassifier(ALPHA, solver="cg", coupling=None),
    "least squares": MaskedRidgeClassifier(0.0, coupling=None),
}
decisions = {
    "sigmoid": DM2LClassifier(LAMBDA, ALPHA, calibration="sigmoid", cv=3),
    "isotonic": DM2LClassifier(LAMBDA, ALPHA, calibration="isotonic", cv=3, coupling=None),
    "f1": DM2LClassifier(LAMBDA, ALPHA, threshold="f1", cv=3),
    "f1 rbf": DM2LClassifier(LAMBDA, ALPHA, kernel="rbf", threshold="f1", cv=3, coupling=None),
    "ridge sigmoid": MaskedRidgeClassifier(ALPHA, calibration="sigmoid", cv=3, coupling=None),
    "ridge f1": MaskedRidgeClassifier(ALPHA, threshold="f1", cv=3),
}


# ------------------------------------------------------------- a linear kernel is the linear model


def linear_kernel(A, B):
    return A @ B.T


kernels = {
    "callable": {"kernel": linear_kernel},
    "poly": {"kernel": "poly", "degree": 1, "gamma": 1.0, "coef0": 0.0},
    "precomputed": {"kernel": "precomputed"},
}


@functools.cache
def linear_case(shape, intercept, sparse, lambda_d, seed):
    """Inputs, signs, new rows, settings and scores of the linear model, for all kernels."""
    X, T, new = problem(seed, *shape, c=3)
    if sparse:
        drop = np.random.default_rng(seed).random(X.shape) < 0.4
        X = sp.csr_array(np.where(drop, 0.0, X))
    settings = {"fit_intercept": intercept, "lambda_d": lambda_d, "tol": 1e-14}
    return X, T, new, settings, scores(X, T, new=new, **settings)


@pytest.mark.parametrize("kernel", kernels)
@pytest.mark.parametrize("shape", [(30, 5), (8, 14)], ids=["n > d", "n < d"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
# With the norms the scores are resolved to the square root of the objective's rounding; without
# them nothing is left but the change of variables.
@pytest.mark.parametrize(("lambda_d", "tolerance"), [(LAMBDA, 1e-6), (0.0, 1e-10)])
@pytest.mark.parametrize("seed", range(2))
def test_linear_kernel_gives_the_scores_of_the_linear_model(
    kernel, shape, intercept, sparse, lambda_d, tolerance, seed
):
    X, T, new, settings, expected = linear_case(shape, intercept, sparse, lambda_d, seed)
    inputs, queries = X, new
    if kernel == "precomputed":
        dense = X.toarray() if sparse else X
        inputs, queries = dense @ dense.T, new @ dense.T
    elif sparse:
        queries = sp.csr_array(new)
    found = scores(inputs, T, new=queries, **settings, **kernels[kernel])
    np.testing.assert_allclose(found, expected, atol=tolerance)


@pytest.mark.parametrize("seed", range(3))
def test_precomputed_gaussian_kernel_gives_the_scores_of_the_gaussian_kernel(seed):
    X, T, new = problem(seed)
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2), ((new[:, None] - X[None]) ** 2).sum(axis=2)
    K, queries = (np.exp(-0.3 * s) for s in squares)
    found = scores(K, T, new=queries, kernel="precomputed")
    expected = scores(X, T, new=new, kernel="rbf", gamma=0.3)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_kernel_matrix_with_rows_nobody_labelled_gives_the_scores_of_the_kernel_function():
    X, T, new = problem(2)
    T[[0, 7, 29]] = 0
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2), ((new[:, None] - X[None]) ** 2).sum(axis=2)
    K, queries = (np.exp(-0.3 * s) for s in squares)
    found = scores(K, T, new=queries, kernel="precomputed")
    expected = scores(X, T, new=new, kernel="rbf", gamma=0.3)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_coefficients_and_intercept_are_the_decision_function():
    X, T, new = problem()
    model = DM2LClassifier(**tight).fit(X, oracle.as_labels(T))
    np.testing.assert_allclose(
        model.decision_function(new), new @ model.coef_.T + model.intercept_, atol=1e-13
    )


# --------------------------------------------------------------------------- order and symmetry


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("discriminant", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_order_of_rows_does_not_matter(kernel, discriminant, seed):
    X, T, new = problem(seed)
    order = np.random.default_rng(seed).permutation(len(X))
    settings = {"kernel": kernel, "discriminant": discriminant}
    found = scores(X[order], T[order], new=new, **settings)
    np.testing.assert_allclose(found, scores(X, T, new=new, **settings), atol=CLOSE)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("discriminant", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_order_of_labels_only_orders_the_scores(kernel, discriminant, seed):
    X, T, new = problem(seed)
    order = np.random.default_rng(seed).permutation(T.shape[1])
    settings = {"kernel": kernel, "discriminant": discriminant}
    found = scores(X, T[:, order], new=new, **settings)
    np.testing.assert_allclose(found, scores(X, T, new=new, **settings)[:, order], atol=CLOSE)


@pytest.mark.parametrize("name", ["ridge", "least squares"])
def test_order_of_rows_and_labels_does_not_matter_to_ridge(name):
    X, T, new = problem()
    rng = np.random.default_rng(0)
    rows, labels = rng.permutation(len(X)), rng.permutation(T.shape[1])
    model = clone(models[name])
    expected = model.fit(X, oracle.as_labels(T)).decision_function(new)[:, labels]
    model.fit(X[rows], oracle.as_labels(T[np.ix_(rows, labels)]))
    np.testing.assert_allclose(model.decision_function(new), expected, atol=1e-11)


@pytest.mark.parametrize("scale", [0.1, 30.0])
@pytest.mark.parametrize("intercept", [False, True])
def test_unit_of_the_features_is_made_up_for_by_the_ridge(scale, intercept):
    X, T, new = problem()
    found = scores(scale * X, T, new=scale * new, alpha=scale**2 * ALPHA, fit_intercept=intercept)
    np.testing.assert_allclose(found, scores(X, T, new=new, fit_intercept=intercept), atol=CLOSE)


def test_default_ridge_does_not_care_about_the_unit_of_the_features():
    X, T, new = problem()
    found = scores(100 * X, T, new=100 * new, alpha="scale")
    np.testing.assert_allclose(found, scores(X, T, new=new, alpha="scale"), atol=CLOSE)


@pytest.mark.parametrize("shape", [(30, 5), (8, 14)], ids=["n > d", "n < d"])
def test_rotated_features_give_the_same_scores(shape):
    X, T, new = problem(0, *shape, c=3)
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((shape[1], shape[1])))[0]
    found = scores(X @ rotation, T, new=new @ rotation)
    # Both ends have the same objective to 1e-9; at a kink the scores follow with its square root.
    np.testing.assert_allclose(found, scores(X, T, new=new), atol=5e-5)


@pytest.mark.parametrize("shift", [3.0, 1e3])
def test_shifted_features_give_the_same_scores_when_there_is_an_intercept(shift):
    X, T, new = problem()
    found = scores(X + shift, T, new=new + shift)
    np.testing.assert_allclose(found, scores(X, T, new=new), atol=CLOSE)


@pytest.mark.parametrize("shift", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("make", [MaskedRidgeClassifier, DM2LClassifier])
def test_one_feature_far_from_zero_does_not_spoil_the_scores(make, shift):
    X, T, new = problem()
    far = np.array([shift, 0, 0, 0, 0])
    settings = {"alpha": ALPHA} if make is MaskedRidgeClassifier else tight
    near = make(**settings).fit(X, oracle.as_labels(T)).decision_function(new)
    found = make(**settings).fit(X + far, oracle.as_labels(T)).decision_function(new + far)
    np.testing.assert_allclose(found, near, atol=1e-4)


def test_a_feature_that_is_zero_everywhere_changes_nothing():
    X, T, new = problem()
    wider = [np.insert(part, 2, 0.0, axis=1) for part in (X, new)]
    np.testing.assert_allclose(scores(wider[0], T, new=wider[1]), scores(X, T, new=new), atol=CLOSE)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("intercept", [False, True])
def test_every_row_twice_is_twice_the_loss_and_root_two_times_the_norms(kernel, intercept):
    X, T, new = problem()
    settings = {"kernel": kernel, "gamma": 0.2, "fit_intercept": intercept}
    twice = scores(
        np.vstack([X, X]),
        np.vstack([T, T]),
        new=new,
        lambda_d=np.sqrt(2) * LAMBDA,
        alpha=2 * ALPHA,
        **settings,
    )
    np.testing.assert_allclose(twice, scores(X, T, new=new, **settings), atol=CLOSE)


# ------------------------------------------------------------------- what carries no information


def padded(X, T, rows=(), labels=()):
    """Rows and labels with nothing observed, put in before the given positions."""
    rng = np.random.default_rng(7)
    X = np.insert(X, rows, 10 * rng.standard_normal((len(rows), X.shape[1])), axis=0)
    return X, np.insert(np.insert(T, rows, 0, axis=0), labels, 0, axis=1)


@pytest.mark.parametrize("name", models)
def test_rows_with_nothing_observed_leave_every_score_bit_identical(name):
    X, T, new = problem()
    more, holes = padded(X, T, rows=(0, 11, 30))
    one = clone(models[name]).fit(X, oracle.as_labels(T))
    other = clone(models[name]).fit(more, oracle.as_labels(holes))
    np.testing.assert_array_equal(one.decision_function(new), other.decision_function(new))


@pytest.mark.parametrize("name", models)
def test_labels_with_nothing_observed_leave_every_other_score_bit_identical(name):
    X, T, new = problem()
    _, holes = padded(X, T, labels=(0, 2, 4))
    one = clone(models[name]).fit(X, oracle.as_labels(T))
    with pytest.warns(ConstantLabelWarning, match="no observed entry"):
        other = clone(models[name]).fit(X, oracle.as_labels(holes))
    found = other.decision_function(new)
    empty = np.flatnonzero((holes == 0).all(axis=0))
    np.testing.assert_array_equal(np.delete(found, empty, axis=1), one.decision_function(new))
    assert np.all(found[:, empty] == 0)


@pytest.mark.parametrize("name", models)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_label_with_one_class_observed_leaves_every_other_score_alone(name, sign):
    # Half of it is observed, and two rows have nothing else observed: without it they say nothing.
    X, T, new = problem()
    T[[3, 17]] = 0
    constant = sign * (np.random.default_rng(0).random((len(X), 1)) < 0.5)
    constant[[3, 17]] = sign
    both = np.hstack([T[:, :2], constant.astype(np.int8), T[:, 2:]])
    model = clone(models[name])
    if isinstance(model, DM2LClassifier) and model.solver != "published":
        model.set_params(tol=1e-12, max_iter=20_000)
    expected = model.fit(X, oracle.as_labels(T)).decision_function(new)
    with pytest.warns(ConstantLabelWarning, match="only one observed class"):
        other = clone(model).fit(X, oracle.as_labels(both))
    found = other.decision_function(new)
    np.testing.assert_allclose(np.delete(found, 2, axis=1), expected, atol=CLOSE)
    known = (constant != 0).sum()
    rate = ((known if sign > 0 else 0) + 0.5) / (known + 1)
    np.testing.assert_allclose(other.predict_proba(new)[:, 2], rate)


@pytest.mark.parametrize("name", models)
def test_coding_of_the_labels_does_not_matter(name):
    X, T, new = problem()
    observed = T != 0
    expected = clone(models[name]).fit(X, oracle.as_labels(T)).decision_function(new)
    signed = np.where(observed, T.astype(float), np.nan)
    truth = T > 0
    for labels, mask in ((signed, None), (truth, observed), (T, observed), (sp.csr_array(T), None)):
        found = clone(models[name]).fit(X, labels, label_mask=mask).decision_function(new)
        np.testing.assert_array_equal(found, expected)


# -------------------------------------------------------------------------------- masked ridge


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("solver", ["lbfgs", "cccp"])
@pytest.mark.parametrize("off", [{"lambda_d": 0.0}, {"local": False}])
@pytest.mark.parametrize("intercept", [False, True])
def test_without_nuclear_norms_the_model_is_masked_ridge(kernel, solver, off, intercept):
    X, T, _ = problem()
    found = scores(X, T, kernel=kernel, gamma=0.3, solver=solver, fit_intercept=intercept, **off)
    Phi = X
    if kernel == "rbf":
        Phi = np.linalg.cholesky(np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2)))
    W, b = oracle.masked_ridge(Phi, T, ALPHA, intercept)
    np.testing.assert_allclose(found, Phi @ W + b, atol=1e-8)
    if kernel == "linear":
        ridge = MaskedRidgeClassifier(ALPHA, fit_intercept=intercept).fit(X, oracle.as_labels(T))
        np.testing.assert_allclose(found, ridge.decision_function(X), atol=1e-8)


def test_a_vanishing_weight_of_the_norms_leads_to_masked_ridge():
    X, T, new = problem()
    ridge = MaskedRidgeClassifier(ALPHA).fit(X, oracle.as_labels(T)).decision_function(new)
    gaps = [np.abs(scores(X, T, new=new, lambda_d=w) - ridge).max() for w in (1e-1, 1e-3, 1e-5)]
    assert gaps[0] > 1e-2
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]


@pytest.mark.parametrize("shape", [(40, 6), (10, 25)], ids=["n > d", "n < d"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_masked_ridge_on_complete_labels_is_ridge_of_scikit_learn(shape, intercept, sparse):
    X, T, new = problem(0, *shape)
    T = np.where(T == 0, -1, T)
    expected = Ridge(alpha=2.0, fit_intercept=intercept).fit(X, T).predict(new)
    model = MaskedRidgeClassifier(2.0, fit_intercept=intercept)
    model.fit(sp.csr_array(X) if sparse else X, oracle.as_labels(T))
    np.testing.assert_allclose(model.decision_function(new), expected, atol=1e-8)


@pytest.mark.parametrize("shape", [(40, 6), (10, 25)], ids=["n > d", "n < d"])
@pytest.mark.parametrize("observed", [0.3, 0.8])
def test_masked_ridge_with_holes_is_ridge_of_scikit_learn_on_each_label_s_rows(shape, observed):
    X, T, new = problem(1, *shape, observed=observed)
    found = MaskedRidgeClassifier(2.0).fit(X, oracle.as_labels(T)).decision_function(new)
    for j in range(T.shape[1]):
        rows = oracle.observed_rows(T, j)
        expected = Ridge(alpha=2.0).fit(X[rows], T[rows, j]).predict(new)
        np.testing.assert_allclose(found[:, j], expected, atol=1e-8)


# -------------------------------------------------------------------------- storage and precision


@pytest.mark.parametrize("shape", [(30, 5), (8, 14)], ids=["n > d", "n < d"])
# Not "published rbf": its conjugate gradients stop at a point that the last bit of the kernel
# matrix decides (X times 1 + 1e-15 moves scores by up to 2), and a sparse X changes that bit.
@pytest.mark.parametrize("name", sorted(models.keys() - {"published rbf"}))
def test_sparse_features_give_the_scores_of_dense_ones(shape, name):
    X, T, new = problem(0, *shape, c=3)
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.5, 0.0, X)
    dense = clone(models[name]).fit(X, oracle.as_labels(T)).decision_function(new)
    for container in (sp.csr_array, sp.csr_matrix, sp.csc_array):
        model = clone(models[name]).fit(container(X), oracle.as_labels(T))
        np.testing.assert_allclose(model.decision_function(container(new)), dense, atol=1e-5)


@pytest.mark.parametrize("shape", [(30, 5), (8, 14)], ids=["n > d", "n < d"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("sparse", [False, True])
def test_float32_features_give_nearly_the_float64_scores(shape, kernel, sparse):
    X, T, new = problem(0, *shape, c=3)
    X, new = X.astype(np.float32), new.astype(np.float32)
    settings = {"tol": 1e-7, "kernel": kernel, "gamma": 0.2}
    double = scores(X.astype(np.float64), T, new=new.astype(np.float64), **settings)
    single = scores(sp.csr_array(X) if sparse else X, T, new=new, **settings)
    np.testing.assert_allclose(single, double, atol=5e-3)


@pytest.mark.parametrize("shape", [(30, 5), (8, 14)], ids=["n > d", "n < d"])
def test_float32_features_give_nearly_the_float64_ridge(shape):
    X, T, new = problem(0, *shape, c=3)
    X, new = X.astype(np.float32), new.astype(np.float32)
    model = MaskedRidgeClassifier(ALPHA)
    single = model.fit(X, oracle.as_labels(T)).decision_function(new)
    double = model.fit(X.astype(np.float64), oracle.as_labels(T)).decision_function(new)
    np.testing.assert_allclose(single, double, atol=1e-4)


# ------------------------------------------------------------------------ hidden labels stay hidden


def everything(model, X):
    """All that a fitted model tells: attributes and predictions."""
    arrays = {
        name: np.asarray(value)
        for name, value in vars(model).items()
        if name.endswith("_")
        and not name.startswith("_")
        and isinstance(value, np.ndarray | float | int)
    }
    arrays["scores"] = model.decision_function(X)
    arrays["probabilities"] = model.predict_proba(X)
    arrays["decisions"] = model.predict(X)
    return arrays


@pytest.mark.parametrize("name", models | decisions)
@pytest.mark.parametrize("seed", range(2))
def test_labels_under_the_mask_are_never_read(name, seed):
    X, T, new = problem(seed, n=30, c=3)
    rng = np.random.default_rng(seed)
    mask = T != 0
    truth = np.where(mask, T > 0, rng.random(T.shape) < 0.5).astype(float)
    model = (models | decisions)[name]
    expected = everything(clone(model).fit(X, truth, label_mask=mask), new)
    variants = {
        "flipped": np.where(mask, truth, 1 - truth),
        "all positive": np.where(mask, truth, 1),
        "all negative": np.where(mask, truth, 0),
        "missing": np.where(mask, truth, np.nan),
        "not labels": np.where(mask, truth, 7),
    }
    for hidden, labels in variants.items():
        found = everything(clone(model).fit(X, labels, label_mask=mask), new)
        assert found.keys() == expected.keys()
        for part, value in expected.items():
            np.testing.assert_array_equal(found[part], value, err_msg=f"{hidden}: {part}")
    # Where holes are NaN the truth is not even there: the same model, from the labels alone.
    found = everything(clone(model).fit(X, variants["missing"]), new)
    for part, value in expected.items():
        np.testing.assert_array_equal(found[part], value, err_msg=f"no mask: {part}")


@pytest.mark.parametrize("name", models)
def test_an_observed_label_is_read(name):
    X, T, new = problem(0, n=40, c=3)
    changed = T.copy()
    i, j = np.argwhere(T == -1)[5]
    changed[i, j] = 1
    one, other = (clone(models[name]).fit(X, oracle.as_labels(t)) for t in (T, changed))
    assert np.abs(one.decision_function(new) - other.decision_function(new)).max() > 1e-6


@pytest.mark.parametrize("make", [MultilabelKFold, MultilabelShuffleSplit])
@pytest.mark.parametrize("seed", range(3))
def test_labels_under_the_mask_do_not_move_a_row_to_another_fold(make, seed):
    X, T, _ = problem(seed, n=50)
    mask = T != 0
    truth = np.where(mask, T > 0, np.random.default_rng(seed).random(T.shape) < 0.5).astype(float)
    splitter = make(3, random_state=0)

    def folds(labels, label_mask):
        return [list(test) for _, test in splitter.split(X, labels, label_mask=label_mask)]

    expected = folds(truth, mask)
    for hidden in (
        1 - truth,
        np.ones_like(truth),
        np.zeros_like(truth),
        np.full_like(truth, np.nan),
    ):
        assert folds(np.where(mask, truth, hidden), mask) == expected
    assert folds(oracle.as_labels(T), None) == expected
    assert folds(truth, None) != expected
