"""More labels than features: norms of fewer columns are the norms of all."""

import numpy as np
import pytest
import scipy.sparse as sp

from dm2l import DM2LClassifier
from dm2l._solvers.features import Features
from dm2l._solvers.nuclear import SmoothNorm
from dm2l._solvers.objective import Objective
from dm2l._solvers.problem import Problem
from dm2l.labels._entries import EntryWeights
from objective_values import objective_at

N_ROWS, N_FEATURES, N_LABELS = 60, 5, 17


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def make_problem(rng, *, intercept=True, sparse=False, weighted=False, bare=False, **others):
    X = rng.standard_normal((N_ROWS, N_FEATURES))
    X = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0)) if sparse else X
    T = rng.choice([-1, -1, 0, 1], size=(N_ROWS, N_LABELS)).astype(np.int8)
    if bare:
        T[: N_ROWS // 3] = np.minimum(T[: N_ROWS // 3], 0)  # rows outside all groups
    entries = (
        EntryWeights.of(T, weights=rng.uniform(0.3, 2.0, T.shape) * (T != 0)) if weighted else None
    )
    objective = Objective(T, 0.7, entries=entries, **others)
    return Problem(Features(X, intercept).centre(), objective, 0.4)


def over_all_labels(problem, W, norm):
    """The objective of all columns of the scores, and its gradient in the weights."""
    at = objective_at(problem.objective, problem.features.scores(W), norm, curvature=True)
    gradient = problem.features.adjoint(at.gradient) + problem.penalty * W
    return at.value + problem.ridge(W)[0], gradient, at.curvature


@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"intercept": False},
        {"sparse": True},
        {"weighted": True},
        {"bare": True},
        {"discriminant": False},
        {"global_rows": "all"},
    ],
    ids=str,
)
@pytest.mark.parametrize("rank", [None, 2, 0])
def test_fewer_columns_give_what_all_labels_give(rng, kind, rank):
    problem = make_problem(rng, **kind)
    W = rng.standard_normal((problem.features.size, N_LABELS))
    if rank is not None:
        W = W[:, :rank] @ rng.standard_normal((rank, N_LABELS))
    norm = SmoothNorm(0.05)
    value, gradient, curvature = over_all_labels(problem, W, norm)
    for at in (problem.evaluate(W, norm), problem.evaluate(W, norm, curvature=True)):
        assert at.value == pytest.approx(value, rel=1e-12)
        assert at.exact == pytest.approx(problem.exact(W), rel=1e-7)
        np.testing.assert_allclose(at.gradient, gradient, atol=1e-9)
    # A model in single precision.
    np.testing.assert_allclose(at.curvature, curvature, rtol=0, atol=1e-5 * abs(curvature).max())


def test_fewer_columns_are_what_the_norms_see(rng, monkeypatch):
    seen = []
    problem = make_problem(rng)
    add_norms = Objective.add_norms
    monkeypatch.setattr(
        Objective,
        "add_norms",
        lambda self, F, *rest, **others: (
            seen.append(F.shape[1]) or add_norms(self, F, *rest, **others)
        ),
    )
    problem.evaluate(rng.standard_normal((N_FEATURES + 1, N_LABELS)), SmoothNorm(0.1))
    assert seen == [N_FEATURES + 1]


def test_the_surrogate_keeps_all_labels(rng):
    problem = make_problem(rng)
    W = rng.standard_normal((N_FEATURES + 1, N_LABELS))
    linear = problem.linearize(W)
    at = problem.evaluate(W, SmoothNorm(1e-9), linear)
    assert at.exact == pytest.approx(problem.exact(W), rel=1e-7)


def test_a_trial_far_too_long_is_not_finite_and_no_error(rng):
    problem = make_problem(rng)
    W = np.full((N_FEATURES + 1, N_LABELS), 1e200)
    with np.errstate(over="ignore"):
        at = problem.evaluate(W, SmoothNorm(0.1))
    assert not np.isfinite(at.value)


def test_a_fit_of_more_labels_than_features_is_that_of_all_columns(rng, monkeypatch):
    X = rng.standard_normal((80, 4))
    Y = np.where(X @ rng.standard_normal((4, 12)) > 0.7, 1.0, 0.0)
    Y[rng.random(Y.shape) < 0.4] = np.nan
    model = DM2LClassifier(alpha=1.0, lambda_d=0.5, tol=1e-8, max_iter=1000, coupling=None)
    narrow = model.fit(X, Y).objective_

    def in_all_labels(self, W, norm, linear=None, *, curvature=False):
        self.n_evaluations += 1
        value, gradient, bend = over_all_labels(self, W, norm)
        at = objective_at(self.objective, self.features.scores(W), norm)
        exact = at.exact + self.ridge(W)[0]
        return at._replace(
            value=value, exact=exact, gradient=gradient, curvature=bend if curvature else None
        )

    monkeypatch.setattr(Problem, "evaluate", in_all_labels)
    assert narrow == pytest.approx(model.fit(X, Y).objective_, rel=1e-6)


def test_fewer_columns_of_other_array_libraries_too(rng):
    xp = pytest.importorskip("array_api_strict")
    problem = make_problem(rng)
    W = rng.standard_normal((N_FEATURES + 1, N_LABELS))
    expected = problem.evaluate(W, SmoothNorm(0.05), curvature=True)
    T = np.asarray(np.sign(problem.objective.targets), dtype=np.int8)
    Phi = xp.asarray(problem.features.Phi)
    other = Problem(Features(Phi, True), Objective(T, 0.7, like=Phi), 0.4)
    found = other.evaluate(xp.asarray(W), SmoothNorm(0.05), curvature=True)
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    np.testing.assert_allclose(np.asarray(found.gradient), expected.gradient, atol=1e-9)
    np.testing.assert_allclose(np.asarray(found.curvature), expected.curvature, rtol=1e-4)
