"""Fitting is the classifier without labels, containers and decisions around it."""

import numpy as np
import pytest

from dm2l import DM2LClassifier
from dm2l.fitting import Fitting, Last

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
    fitting = Fitting.of(model)
    fit = fitting.fit(X, T)
    expected = model.fit(X, as_labels(T)).decision_function(X)
    assert fit.selection.learnable.tolist() == [True, False, True, True]
    found = fitting.scores(X, fit.attributes, fit.selection)
    np.testing.assert_array_equal(found, expected[:, fit.selection.learnable])
    assert fit.attributes.keys() <= vars(model).keys()


@pytest.mark.parametrize("settings", KERNELS.values(), ids=KERNELS)
def test_what_a_fit_leaves_behind_does_not_change_what_it_was_given(settings, rows):
    X, T = rows
    before = X.copy(), T.copy()
    Fitting.of(DM2LClassifier(random_state=0, **settings)).fit(X, T)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(T, before[1])


def test_a_start_at_the_solution_ends_there(rows):
    X, T = rows
    fitting = Fitting.of(DM2LClassifier(tol=1e-8))
    cold = fitting.fit(X, T)
    warm = fitting.fit(X, T, Last(cold.attributes["coef_"].T, cold.attributes["intercept_"]))
    assert warm.solution.n_evaluations < cold.solution.n_evaluations
    np.testing.assert_allclose(warm.solution.objective, cold.solution.objective, rtol=1e-7)


def test_a_start_of_another_shape_is_none(rows):
    X, T = rows
    fitting = Fitting.of(DM2LClassifier())
    other = fitting.fit(X, T, Last(np.ones((3, 4)), np.ones(4)))
    np.testing.assert_array_equal(other.solution.W, fitting.fit(X, T).solution.W)


def test_without_a_label_to_learn_there_is_no_solution(rows):
    X, T = rows
    fit = Fitting.of(DM2LClassifier()).fit(X, np.abs(T))
    assert fit.solution is None
    assert not fit.attributes["coef_"].any()
    np.testing.assert_array_equal(fit.attributes["intercept_"], np.ones(4))
