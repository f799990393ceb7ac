"""The score model is the classifier without containers and decisions around it."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from dm2l import DM2LClassifier
from dm2l._fitting import Trainer
from dm2l._solvers.features import FITTED, Weights, without_zeros
from dm2l.labels import LabelMatrix

KERNELS = {
    "linear": {},
    "rbf": {"kernel": "rbf"},
    "nystroem": {"kernel": "rbf", "approximation": "nystroem", "n_components": 15},
    "fourier": {"kernel": "rbf", "approximation": "fourier", "n_components": 15},
    "published": {"kernel": "rbf", "solver": "published", "alpha": 0.0, "fit_intercept": False},
}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 6))
    T = np.sign(X[:, :4] + 0.3 * rng.standard_normal((50, 4)))
    T[rng.random(T.shape) < 0.4] = 0
    T[:, 1] = np.abs(T[:, 1])  # only positives: cannot be learnt
    return X, T.astype(np.int8)


def as_labels(T):
    return np.where(T == 0, np.nan, T > 0)


@pytest.mark.parametrize("settings", KERNELS.values(), ids=KERNELS)
@pytest.mark.filterwarnings("ignore::dm2l.ConstantLabelWarning")
def test_scores_are_those_of_the_classifier(settings, rows):
    X, T = rows
    model = DM2LClassifier(random_state=0, **settings)
    fit = Trainer.of(model).fit(X, LabelMatrix.of_signs(T))
    expected = model.fit(X, as_labels(T)).decision_function(X)
    assert fit.mask.learnable.tolist() == [True, False, True, True]
    found = fit.weights.scores(X, fit.mask)
    np.testing.assert_array_equal(found, expected[:, fit.mask.learnable])
    kept = {name for name, part in zip(FITTED, fit.weights, strict=True) if part is not None}
    assert kept == set(FITTED) & set(vars(model))


@pytest.mark.parametrize("settings", KERNELS.values(), ids=KERNELS)
def test_what_a_fit_leaves_behind_does_not_change_what_it_was_given(settings, rows):
    X, T = rows
    before = X.copy(), T.copy()
    Trainer.of(DM2LClassifier(random_state=0, **settings)).fit(X, LabelMatrix.of_signs(T))
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(T, before[1])


def test_a_start_at_the_solution_ends_there(rows):
    X, T = rows
    fitting = Trainer.of(DM2LClassifier(tol=1e-8))
    labels = LabelMatrix.of_signs(T)
    cold = fitting.fit(X, labels)
    warm = fitting.fit(X, labels, cold.weights)
    assert warm.solution.n_evaluations < cold.solution.n_evaluations
    np.testing.assert_allclose(warm.solution.objective, cold.solution.objective, rtol=1e-7)


def test_a_start_of_another_shape_is_none(rows):
    X, T = rows
    fitting = Trainer.of(DM2LClassifier())
    labels = LabelMatrix.of_signs(T)
    other = fitting.fit(X, labels, Weights(np.ones(4), np.ones((4, 3))))
    np.testing.assert_array_equal(other.solution.W, fitting.fit(X, labels).solution.W)


def test_without_a_label_to_learn_there_is_no_solution(rows):
    X, T = rows
    fit = Trainer.of(DM2LClassifier()).fit(X, LabelMatrix.of_signs(np.abs(T)))
    assert fit.solution is None
    assert not fit.weights.coef.any()
    positives = np.abs(T).sum(axis=0)
    constant = 0.5 * np.log((positives + 0.5) / 0.5)  # the score of the observed rate
    np.testing.assert_allclose(fit.weights.intercept, constant)


# ------------------------------------------------------------------------ matrices of zeros


def draw_words(n=700, d=120, share=0.05, seed=0):
    """Counts of words, most of them zero."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, d)) < share, rng.integers(1, 4, (n, d)), 0).astype(float)


def test_dense_words_are_fitted_as_sparse_ones_are():
    X = draw_words()
    rng = np.random.default_rng(1)
    Y = (X @ rng.standard_normal((120, 4)) > 0).astype(float)
    Y[rng.random(Y.shape) < 0.5] = np.nan
    assert sp.issparse(without_zeros(X))
    np.testing.assert_array_equal(without_zeros(X).toarray(), X)
    model = DM2LClassifier(alpha=5.0, coupling=None)
    dense, sparse = (clone(model).fit(form, Y) for form in (X, sp.csr_array(X)))
    assert isinstance(dense.coef_, np.ndarray)
    np.testing.assert_allclose(dense.coef_, sparse.coef_, rtol=0, atol=1e-12)
    # The same rows with another column, which keeps them dense and says nothing.
    level = np.full((len(X), 1), 5.0)
    apart = clone(model).fit(np.hstack([X, level]), Y)
    scores = dense.decision_function(X)
    np.testing.assert_allclose(
        apart.decision_function(np.hstack([X, level])), scores, rtol=0, atol=1e-8
    )


@pytest.mark.parametrize("far", [1.0, 1e6])
def test_a_column_far_from_zero_keeps_a_matrix_dense(far):
    X = draw_words()
    X[:, 3] = far + 1e-3 * np.random.default_rng(2).standard_normal(len(X))
    assert without_zeros(X) is X


def test_matrices_with_few_zeros_stay_as_they_are():
    for X in (draw_words(share=0.3), sp.csr_array(draw_words())):
        assert without_zeros(X) is X


@pytest.mark.parametrize("share", [0.02, 0.07])
@pytest.mark.parametrize(
    ("dtype", "fit_intercept"), [(np.float64, True), (np.float64, False), (np.float32, True)]
)
def test_the_gram_matrix_of_zeros_is_that_of_centred_columns(share, dtype, fit_intercept):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((700, 120)) < share, rng.uniform(0.5, 3.0, (700, 120)), 0.0)
    X = X.astype(dtype)
    T = np.sign(rng.standard_normal((700, 3))).astype(np.int8)
    fitting = Trainer.of(DM2LClassifier(fit_intercept=fit_intercept))
    prepared = fitting.prepare(X, T)
    assert sp.issparse(prepared.features.Phi)
    centred = X.astype(np.float64)
    if fit_intercept:
        centred = centred - centred.mean(axis=0)
    found = prepared.features.gram()[:120, :120]
    np.testing.assert_allclose(found, centred.T @ centred, rtol=0, atol=1e-10 * found.max())
