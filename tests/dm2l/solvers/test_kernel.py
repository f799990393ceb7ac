"""Kernel models in the scores: steps, leverages and solutions against the model on a factor."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

import dm2l._fitting
from dm2l import DM2LClassifier, DM2LClassifierCV
from dm2l._fitting import Trainer
from dm2l._solvers.features import Features
from dm2l._solvers.kernel_problem import KernelOperator, KernelPreconditioner, KernelProblem
from dm2l._solvers.kernels import kernel_factor
from dm2l._solvers.lbfgs import solve_lbfgs
from dm2l._solvers.nuclear import SmoothNorm
from dm2l._solvers.objective import Objective
from dm2l._solvers.problem import Preconditioner, Problem, conjugate_gradients
from dm2l.datasets import make_missing_multilabel
from dm2l.labels import LabelMatrix
from dm2l.labels._entries import EntryWeights
from dm2l_oracles import leverages


@pytest.fixture(params=[0, 1])
def seed(request):
    return request.param


@pytest.fixture
def data(seed):
    X, Y = make_missing_multilabel(n_samples=80, random_state=seed)[:2]
    return X, np.nan_to_num(2 * Y - 1).astype(np.int8)


def problem_of(X, T, intercept, alpha=0.3, lambda_d=0.5):
    features = KernelOperator(rbf_kernel(X), intercept)
    return KernelProblem(features, Objective(T, lambda_d), alpha)


def random_weights(problem, rng):
    rows = problem.features.n + problem.features.intercept
    return problem.from_original(rng.standard_normal((rows, problem.n_labels)))


@pytest.mark.parametrize("in_scores", [True, False])
def test_what_is_known_at_one_lambda_saves_an_evaluation_at_the_next(data, in_scores):
    X, T = data
    problem = problem_of(X, T, True, lambda_d=0.2)
    factor = KernelPreconditioner(problem, keep=True)
    if not in_scores:
        problem = Problem(Features(X, True), Objective(T, 0.2), 0.3)
        factor = Preconditioner(problem)
    limits = {"tol": 1e-4, "max_iter": 50, "finest": 1e-2}
    first = solve_lbfgs(problem, factor, conjugate_gradients(problem, factor), **limits)
    V = factor.to_variables(first.W)

    def other(lambda_d):
        problem.objective.set_weight(lambda_d)
        return type(problem)(problem.features, problem.objective, problem.alpha)

    plain = other(0.0).evaluate(first.W, SmoothNorm(0.0))
    known = first.known.reweighed(plain, 0.6 / 0.2)
    fresh = other(0.6).evaluate(first.W, SmoothNorm(known.smoothing))
    for found, expected in zip(known.at[:3], fresh[:3], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    looked = solve_lbfgs(other(0.6), factor, V, **limits)
    saved = solve_lbfgs(other(0.6), factor, V, known=known, **limits)
    assert saved.objective == pytest.approx(looked.objective, rel=2e-4)
    assert saved.n_evaluations < looked.n_evaluations
    # Seen at another smoothing it says nothing about the start.
    useless = known._replace(smoothing=0.5)
    ignored = solve_lbfgs(other(0.6), factor, V, known=useless, **limits)
    np.testing.assert_array_equal(ignored.W, looked.W)


@pytest.mark.parametrize("intercept", [True, False])
def test_value_and_slopes_are_those_of_the_model_on_a_factor(data, intercept, seed):
    X, T = data
    rng = np.random.default_rng(seed)
    problem = problem_of(X, T, intercept)
    W, step = (random_weights(problem, rng) for _ in range(2))
    factor = kernel_factor(rbf_kernel(X))
    other = Problem(Features(factor.Phi, intercept), Objective(T, 0.5), 0.3)

    def on_factor(W):
        A, b = np.split(problem.to_original(W), [len(X)])
        return np.vstack([factor.L.T @ A[factor.pivots], b])

    at, there = (p.evaluate(w, SmoothNorm(0.1)) for p, w in ((problem, W), (other, on_factor(W))))
    assert at.value == pytest.approx(there.value, rel=1e-9)
    slope = float(np.sum(at.gradient * step[: len(X)]))
    assert slope == pytest.approx(float(np.sum(there.gradient * on_factor(step))), rel=1e-7)


@pytest.mark.parametrize("intercept", [True, False])
def test_a_step_undoes_the_hessian_of_labels_without_holes(data, intercept, seed):
    X, T = data
    rng = np.random.default_rng(seed)
    problem = problem_of(X, np.where(T == 0, 1, T).astype(np.int8), intercept)
    V = random_weights(problem, rng)
    factor = KernelPreconditioner(problem, keep=True)
    np.testing.assert_allclose(factor.step(factor.hessian(problem, V)), V, atol=1e-8)


@pytest.mark.parametrize("intercept", [True, False])
def test_leverages_are_exact(data, intercept):
    X, T = data
    whole = np.where(T == 0, 1, T).astype(np.int8)
    problem = problem_of(X, whole, intercept)
    Phi = kernel_factor(rbf_kernel(X)).Phi
    expected = leverages(Phi, whole != 0, 0.3, intercept=intercept)[:, 0]
    found = KernelPreconditioner(problem).leverages()
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "cosine", "tanimoto"])
def test_solution_is_that_of_the_model_on_a_factor(data, intercept, kernel, monkeypatch):
    X, T = data
    X = np.abs(np.vstack([X, X[:5]]))
    T = np.vstack([T, T[:5]])
    Y = np.where(T == 0, np.nan, T > 0)
    model = DM2LClassifier(
        kernel=kernel, alpha=0.5, lambda_d=0.1, fit_intercept=intercept, tol=1e-9
    )
    here = model.fit(X, Y)
    objective, scores = here.objective_, here.decision_function(X[:20] + 0.1)
    assert len(here.X_fit_) == len(X)
    monkeypatch.setattr(dm2l._fitting, "SAFE_KERNELS", ())
    there = model.fit(X, Y)
    assert objective == pytest.approx(there.objective_, rel=1e-7)
    np.testing.assert_allclose(scores, there.decision_function(X[:20] + 0.1), atol=2e-3)


@pytest.mark.parametrize("lambda_d", [0.0, 0.1])
def test_joint_coupling_is_that_of_the_model_on_a_factor(data, lambda_d, monkeypatch):
    X, T = data
    Y = np.where(T == 0, np.nan, T > 0)
    model = DM2LClassifier(
        kernel="rbf", alpha=0.5, lambda_d=lambda_d, coupling="joint", tol=1e-8, gamma=0.02
    )
    here = model.fit(X, Y).decision_function(X + 0.1)
    assert len(model.X_fit_) == len(X)
    monkeypatch.setattr(dm2l._fitting, "SAFE_KERNELS", ())
    there = model.fit(X, Y).decision_function(X + 0.1)
    np.testing.assert_allclose(here, there, atol=2e-3)


def test_ridge_too_small_for_one_factor_takes_the_other_way(data):
    X, T = data
    fitting = Trainer.of(DM2LClassifier(kernel="rbf", alpha=1e-3))
    assert isinstance(fitting.prepare(X, T).features, KernelOperator)
    tiny = replace(fitting, alpha=1e-12)
    assert not isinstance(tiny.prepare(X, T).features, KernelOperator)
    assert not isinstance(fitting.prepare(X, T, alphas=[1e-3, 0.0]).features, KernelOperator)
    heavy = EntryWeights.of(T, weights=np.full(T.shape, 2.0))
    assert not isinstance(fitting.prepare(X, T, heavy).features, KernelOperator)
    model = DM2LClassifier(kernel="rbf", alpha=1e-12, tol=1e-3).fit(X, np.where(T, T > 0, np.nan))
    assert np.isfinite(model.decision_function(X + 0.1)).all()


def test_a_fit_starts_where_the_last_ended(data):
    X, T = data
    fitting = Trainer.of(DM2LClassifier(kernel="rbf"))
    labels = LabelMatrix.of_signs(T)
    first = fitting.fit(X, labels)
    last = first.weights
    again = fitting.fit(X, labels, last).solution
    assert again.history[0] == pytest.approx(first.solution.objective, rel=1e-9)


def test_scores_and_coefficients_of_a_step_agree(data, seed):
    X, T = data
    rng = np.random.default_rng(seed)
    features = KernelOperator(rbf_kernel(X), True)
    gradient = rng.standard_normal((len(X), T.shape[1]))
    problem = KernelProblem(features, Objective(T, 0.0), 1.0)
    step = KernelPreconditioner(problem, keep=True).step(gradient)
    A, b = features.dual(step), step[2 * len(X) :]
    np.testing.assert_allclose(features.scores(step), features.Phi @ A + b, atol=1e-12)
    np.testing.assert_allclose(features.dual(step).sum(axis=0), 0.0, atol=1e-12)


def test_members_of_a_factor_get_what_it_gives_whoever_else_has_asked(data, seed):
    X, T = data
    rng = np.random.default_rng(seed)
    problem = KernelProblem(KernelOperator(rbf_kernel(X), True), Objective(T, 0.0), 1.0)
    factor = KernelPreconditioner(problem, keep=True)
    asked = rng.standard_normal((3, 4, len(X), T.shape[1]))  # members by rounds

    def one(member, place, rounds):
        steps = [member.step(D) for D in asked[place][:rounds]]
        member.together.leave(member.place)
        return steps

    def ask(*rounds):
        with ThreadPoolExecutor(3) as pool:
            return list(pool.map(one, factor.members(3), range(3), rounds))

    together = ask(4, 3, 2)
    for place, found in enumerate(together):
        assert len(found) == 4 - place
        for step, D in zip(found, asked[place], strict=False):
            np.testing.assert_allclose(step, factor.step(D), atol=1e-10)
    for found, again in zip(together, ask(4, 3, 2), strict=True):
        np.testing.assert_array_equal(found, again)


def test_a_member_that_fails_does_not_keep_the_others_waiting(data):
    X, T = data
    problem = KernelProblem(KernelOperator(rbf_kernel(X), True), Objective(T, 0.0), 1.0)
    first, second = KernelPreconditioner(problem, keep=True).members(2)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(first.step, np.ones(T.shape))
        second.together.leave(second.place)
        assert np.isfinite(answer.result(timeout=60)).all()


def test_a_system_that_cannot_be_solved_ends_all_who_wait(data, monkeypatch):
    problem = problem_of(*data, intercept=False)
    factor = KernelPreconditioner(problem, keep=True)
    D = np.ones((problem.features.n, 2))

    def fail(D):
        raise MemoryError("no room")

    members = factor.members(3)
    monkeypatch.setattr(factor, "solve", fail)

    def ask(member):
        try:
            return member._solve(D)
        finally:
            member.together.leave(member.place)

    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(ask, member) for member in members]
    for answer in asked:
        with pytest.raises(MemoryError, match="no room"):
            answer.result(timeout=1)


def test_search_goes_on_in_double_precision_where_single_has_no_factor():
    X, Y = make_missing_multilabel(n_samples=80, n_features=5, random_state=0)
    X, Y = np.tile(X, (3, 1)), np.tile(Y, (3, 1))  # rows that are there more than once
    options = {"kernel": "rbf", "gammas": [0.01], "alphas": [1e-6], "lambda_ds": [0.0]}
    search = DM2LClassifierCV(cv=3, refit=False, **options).fit(X, Y)
    assert np.isfinite(search.best_score_)
