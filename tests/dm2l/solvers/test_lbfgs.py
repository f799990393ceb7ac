"""The quasi-Newton solver against textbook formulas, closed forms and scipy's own."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

import dm2l_oracles as oracle
from dm2l._solvers.features import Features
from dm2l._solvers.lbfgs import MEMORY, SMOOTHING, _Memory, solve_lbfgs
from dm2l._solvers.nuclear import Evaluation, SmoothNorm
from dm2l._solvers.objective import Objective
from dm2l._solvers.problem import Preconditioner, Problem
from dm2l._utils.arrays import to_numpy

SHAPE = (4, 3)  # of the variables whose directions are looked at

# ---------------------------------------------------------------------------- the direction


def draw_pairs(count, seed=0):
    """Steps and gradient changes of a quadratic function, and a gradient."""
    rng = np.random.default_rng(seed)
    size = np.prod(SHAPE)
    root = rng.standard_normal((size, size))
    hessian = root @ root.T / size + 0.1 * np.eye(size)
    steps = rng.standard_normal((count, size))
    pairs = [(s.reshape(SHAPE), (hessian @ s).reshape(SHAPE)) for s in steps]
    return pairs, rng.standard_normal(SHAPE)


def draw_model(kind):
    """An initial inverse Hessian as a matrix of the flat variables."""
    if kind == "identity":
        return np.eye(np.prod(SHAPE))
    root = np.random.default_rng(9).standard_normal((SHAPE[1], SHAPE[1]))
    return np.kron(np.eye(SHAPE[0]), root @ root.T + np.eye(SHAPE[1]))


def remembered(pairs, convert=np.asarray):
    memory = _Memory()
    for s, y in pairs:
        memory.add(convert(s), convert(y))
    return memory


def direction(memory, gradient, model, convert=np.asarray):
    def precondition(G):
        return convert((model @ to_numpy(G).ravel()).reshape(SHAPE))

    return to_numpy(memory.direction(convert(gradient), precondition))


def two_loops(pairs, gradient, model):
    """Algorithm 7.4 of Nocedal and Wright, with ``model`` as the initial inverse Hessian."""
    pairs = [(s.ravel(), y.ravel()) for s, y in pairs]
    q, alphas = gradient.ravel().copy(), []
    for s, y in reversed(pairs):
        alphas.append(s @ q / (s @ y))
        q -= alphas[-1] * y
    r = model @ q
    for (s, y), alpha in zip(pairs, reversed(alphas), strict=True):
        r += s * (alpha - y @ r / (s @ y))
    return -r.reshape(SHAPE)


def bfgs_inverse(pairs, model):
    """The BFGS update (6.17) of the inverse Hessian, as dense matrices, pair after pair."""
    H, eye = model, np.eye(len(model))
    for s, y in pairs:
        s, y = s.ravel(), y.ravel()
        left = eye - np.outer(s, y) / (s @ y)
        H = left @ H @ left.T + np.outer(s, s) / (s @ y)
    return H


models = pytest.mark.parametrize("kind", ["identity", "kronecker"])
counts = pytest.mark.parametrize(
    "count", [0, 1, 2, 7, MEMORY - 1, MEMORY, MEMORY + 1, 2 * MEMORY + 5]
)


@models
@counts
def test_the_direction_is_that_of_the_two_loops_over_the_last_pairs(kind, count):
    pairs, gradient = draw_pairs(count)
    memory, model = remembered(pairs), draw_model(kind)
    assert len(memory.order) == min(count, MEMORY)
    expected = two_loops(pairs[-MEMORY:], gradient, model)
    found = direction(memory, gradient, model)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


@models
@counts
def test_the_direction_is_minus_the_dense_bfgs_inverse_hessian_times_the_gradient(kind, count):
    pairs, gradient = draw_pairs(count, seed=1)
    model = draw_model(kind)
    H = bfgs_inverse(pairs[-MEMORY:], model)
    expected = -(H @ gradient.ravel()).reshape(SHAPE)
    found = direction(remembered(pairs), gradient, model)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())
    if count:  # the secant equation of the last pair
        s, y = pairs[-1]
        back = -direction(remembered(pairs), y, model)
        np.testing.assert_allclose(back, s, rtol=0, atol=1e-8)


def test_a_changed_model_is_used_with_the_pairs_already_there():
    pairs, gradient = draw_pairs(5)
    memory = remembered(pairs)
    for kind in ("identity", "kronecker", "identity"):
        expected = two_loops(pairs, gradient, draw_model(kind))
        np.testing.assert_allclose(direction(memory, gradient, draw_model(kind)), expected)


@pytest.mark.parametrize("count", [0, 3, MEMORY + 3])
def test_the_memory_works_on_other_libraries(count):
    pairs, gradient = draw_pairs(count)
    memory = remembered(pairs, strict.asarray)
    found = direction(memory, gradient, draw_model("kronecker"), strict.asarray)
    expected = two_loops(pairs[-MEMORY:], gradient, draw_model("kronecker"))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


refused = {
    "negative": (np.ones(SHAPE), -np.ones(SHAPE)),
    "none": (np.ones(SHAPE), np.zeros(SHAPE)),
    "no step": (np.zeros(SHAPE), np.ones(SHAPE)),
    "orthogonal": (np.eye(*SHAPE), np.eye(*SHAPE, k=1)),
    "nearly orthogonal": (np.eye(*SHAPE), 1e-11 * np.eye(*SHAPE) + np.eye(*SHAPE, k=1)),
    "not a number": (np.ones(SHAPE), np.full(SHAPE, np.nan)),
}


@pytest.mark.parametrize("name", refused)
@pytest.mark.parametrize("count", [0, 3, MEMORY])
def test_a_pair_without_positive_curvature_is_refused(name, count):
    pairs, gradient = draw_pairs(count)
    memory, model = remembered(pairs), draw_model("identity")
    before = direction(memory, gradient, model)
    memory.add(*refused[name])
    assert len(memory.order) == count
    np.testing.assert_array_equal(direction(memory, gradient, model), before)


def test_a_tiny_pair_that_curves_upwards_is_kept():
    pairs, gradient = draw_pairs(2)
    memory = remembered([*pairs, (1e-9 * np.ones(SHAPE), 1e-12 * np.ones(SHAPE))])
    assert len(memory.order) == 3
    expected = two_loops(
        [*pairs, (np.ones(SHAPE), 1e-3 * np.ones(SHAPE))], gradient, draw_model("identity")
    )
    found = direction(memory, gradient, draw_model("identity"))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


# ------------------------------------------------------------------------- the preconditioner


def make(X, T, lambda_d, alpha=0.5, intercept=True, **terms):
    example = np.empty(0, dtype=X.dtype) if sp.issparse(X) else X
    return Problem(Features(X, intercept), Objective(T, lambda_d, like=example, **terms), alpha)


@pytest.mark.parametrize("kind", ["dense", "csr", "strict"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("observed", [1.0, 0.4])
def test_the_square_of_the_factor_is_the_share_of_the_gram_matrix_and_the_ridge(
    kind, intercept, alpha, observed
):
    X, T = oracle.draw_problem(0, 25, 4, 3, observed)
    convert = {"dense": np.asarray, "csr": sp.csr_array, "strict": strict.asarray}[kind]
    problem = make(convert(X), T, 0.3, alpha, intercept)
    preconditioner = Preconditioner(problem)
    assert preconditioner.rho == pytest.approx((T != 0).mean(), rel=1e-12)
    Phi = np.column_stack([X, np.ones(25)]) if intercept else X
    ridge = np.diag([alpha] * 4 + [0.0] * intercept)
    expected = (T != 0).mean() * Phi.T @ Phi + ridge
    back = strict.asarray if kind == "strict" else np.asarray
    R = to_numpy(preconditioner.to_variables(back(np.eye(4 + intercept)))).T
    np.testing.assert_allclose(R @ R.T, expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(R, np.tril(R))
    inverse = to_numpy(preconditioner.to_weights(back(np.eye(4 + intercept))))
    np.testing.assert_allclose(R.T @ inverse, np.eye(4 + intercept), rtol=0, atol=1e-12)
    inverse = to_numpy(preconditioner.to_gradient(back(np.eye(4 + intercept))))
    np.testing.assert_allclose(R @ inverse, np.eye(4 + intercept), rtol=0, atol=1e-12)


@pytest.mark.parametrize("intercept", [False, True])
def test_a_gram_matrix_that_is_given_serves_like_the_one_that_is_made(intercept):
    X, T = oracle.draw_problem(1, 25, 4, 3)
    problem = make(X, T, 0.3, intercept=intercept)
    Phi = np.column_stack([X, np.ones(25)]) if intercept else X
    made, given = Preconditioner(problem), Preconditioner(problem, Phi.T @ Phi)
    assert given.rho == made.rho
    V = np.random.default_rng(0).standard_normal((4 + intercept, 3))
    np.testing.assert_allclose(given.to_weights(V), made.to_weights(V), rtol=1e-10)
    start = np.zeros((4 + intercept, 3))
    one, other = (solve_lbfgs(problem, p, start, tol=1e-9, max_iter=500) for p in (made, given))
    assert one.objective == pytest.approx(other.objective, rel=1e-8)
    # And it is that matrix that is used, not another made in secret.
    doubled = Preconditioner(problem, 2 * Phi.T @ Phi)
    assert not np.allclose(doubled.to_weights(V), made.to_weights(V), rtol=1e-2)


@pytest.mark.parametrize("scale", [1e-6, 1e8])
def test_a_column_of_another_scale_does_not_drown_the_others(scale):
    X, T = oracle.draw_problem(2, 20, 3, 3)
    units = np.array([scale, 1.0, 1.0])
    preconditioner = Preconditioner(make(X * units, T, 0.3, 0.0, False))
    R = preconditioner.to_variables(np.eye(3)).T / units[:, None]
    np.testing.assert_allclose(R @ R.T, preconditioner.rho * X.T @ X, rtol=0, atol=1e-10)


@pytest.mark.parametrize("convert", [np.asarray, strict.asarray], ids=["numpy", "strict"])
@pytest.mark.parametrize("alpha", [0.0, 1e-12])
@pytest.mark.parametrize("intercept", [False, True])
def test_rank_deficient_features_without_a_ridge_still_have_a_factor(convert, alpha, intercept):
    X, T = oracle.draw_problem(2, 20, 3, 3)
    X = np.column_stack([X, X[:, :2], np.zeros(20), 1e6 * X[:, 0]])
    preconditioner = Preconditioner(make(convert(X), T, 0.3, alpha, intercept))
    V = np.random.default_rng(0).standard_normal((7 + intercept, 3))
    back = preconditioner.to_variables(preconditioner.to_weights(convert(V)))
    np.testing.assert_allclose(to_numpy(back), V, rtol=0, atol=1e-5)


# ---------------------------------------------------------------------------------- the solver

SHAPES = {"tall": (40, 5, 4), "wide": (10, 14, 4), "many labels": (15, 3, 12)}
shapes = pytest.mark.parametrize("name", SHAPES)


def solve(problem, start=None, tol=1e-10, max_iter=2000, **others):
    preconditioner = Preconditioner(problem)
    if start is None:
        start = np.zeros((problem.features.size, problem.objective.targets.shape[1]))
    V = preconditioner.to_variables(start)
    return solve_lbfgs(problem, preconditioner, V, tol=tol, max_iter=max_iter, **others)


def unstack(W, intercept):
    return (W[:-1], W[-1]) if intercept else (W, np.zeros(W.shape[1]))


@shapes
@pytest.mark.parametrize("observed", [1.0, 0.6])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("off", ["lambda_d", "local"])
def test_without_the_norms_the_solution_is_masked_ridge(name, observed, intercept, off):
    X, T = oracle.draw_problem(3, *SHAPES[name], observed)
    terms = {"lambda_d": 0.0} if off == "lambda_d" else {"lambda_d": 0.7, "local": False}
    problem = make(X, T, alpha=0.5, intercept=intercept, **terms)
    solution = solve(problem, tol=1e-15)
    assert solution.converged
    W, b = unstack(solution.W, intercept)
    expected_W, expected_b = oracle.masked_ridge(X, T, 0.5, intercept)
    np.testing.assert_allclose(W, expected_W, rtol=0, atol=1e-6)
    np.testing.assert_allclose(b, expected_b, rtol=0, atol=1e-6)
    best = oracle.objective(X, expected_W, expected_b, T, lambda_d=0.0, alpha=0.5)
    assert solution.objective == pytest.approx(best, rel=1e-11)


def test_at_the_minimum_there_is_nothing_to_do():
    X, T = oracle.draw_problem(3, 30, 4, 3, 1.0)
    T = np.where(T == 0, -1, T).astype(np.int8)
    problem = make(X, T, 0.0)
    W = np.vstack(oracle.masked_ridge(X, T, 0.5, True))
    solution = solve(problem, start=W)
    assert solution.converged
    assert solution.n_iter <= 2
    np.testing.assert_allclose(solution.W, W, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("method", "lambda_d"), [("L-BFGS-B", 0.05), ("BFGS", 0.3), ("L-BFGS-B", 0.8)]
)
@pytest.mark.parametrize("discriminant", [True, False])
@shapes
def test_scipy_run_to_the_end_finds_nothing_better(name, method, lambda_d, discriminant):
    X, T = oracle.draw_problem(4, *SHAPES[name])
    _, d, c = SHAPES[name]
    problem = make(X, T, lambda_d, discriminant=discriminant)
    norm = SmoothNorm(SMOOTHING[-1])

    def smoothed(w):
        at = problem.evaluate(w.reshape(d + 1, c), norm)
        return at.value, at.gradient.ravel()

    ours = solve(problem)
    assert ours.converged
    W, b = unstack(ours.W, True)
    terms = {"lambda_d": lambda_d, "alpha": 0.5, "discriminant": discriminant}
    # From where ours ended nothing is left, and from elsewhere, where all is convex, neither.
    starts = [ours.W] if discriminant else [ours.W, np.zeros_like(ours.W)]
    for start in starts:
        options = {"maxiter": 300} | ({"ftol": 0.0, "gtol": 1e-9} if method == "L-BFGS-B" else {})
        theirs = scipy.optimize.minimize(
            smoothed, start.ravel(), jac=True, method=method, options=options
        )
        V, v = unstack(theirs.x.reshape(d + 1, c), True)
        other = oracle.objective(X, V, v, T, **terms)
        assert oracle.objective(X, W, b, T, **terms) <= other * (1 + 1e-7)


@pytest.mark.parametrize("lambda_d", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("max_iter", [1, 3, 1000])
def test_history_holds_the_exact_objective_of_the_start_and_of_every_iteration(lambda_d, max_iter):
    X, T = oracle.draw_problem(6, 30, 4, 4)
    problem = make(X, T, lambda_d)
    reported, seen, evaluate = [], [], problem.evaluate

    def watched(W, *arguments, **options):
        at = evaluate(W, *arguments, **options)
        seen.append((W, at.exact))
        return at

    problem.evaluate = watched
    start = np.random.default_rng(0).standard_normal((5, 4))
    solution = solve(
        problem, start, tol=1e-8, max_iter=max_iter, report=lambda *row: reported.append(row)
    )
    assert solution.n_evaluations == len(seen) == problem.n_evaluations
    assert solution.n_iter == len(solution.history) - 1 == len(reported)
    assert reported == list(enumerate(solution.history[1:], start=1))
    settings = {"lambda_d": lambda_d, "alpha": 0.5}
    first = oracle.objective(X, start[:-1], start[-1], T, **settings)
    assert solution.history[0] == pytest.approx(first, rel=1e-9)
    exact = {value: W for W, value in seen}
    for value in solution.history:
        W = exact[value]
        # From eigenvalues of Gram matrices: half the digits of a vanishing singular value.
        assert value == pytest.approx(oracle.objective(X, W[:-1], W[-1], T, **settings), rel=1e-6)
    end = oracle.objective(X, *unstack(solution.W, True), T, **settings)
    assert solution.objective == pytest.approx(end, rel=1e-6)
    assert solution.objective <= min(solution.history) * (1 + 1e-8)


def test_evaluations_of_an_earlier_solve_are_not_counted_again():
    X, T = oracle.draw_problem(6, 30, 4, 4)
    problem = make(X, T, 0.3)
    one, two = solve(problem), solve(problem)
    assert one.n_evaluations == two.n_evaluations
    assert problem.n_evaluations == 2 * one.n_evaluations


@pytest.mark.parametrize("max_iter", [1, 2, 5, 9])
def test_no_more_iterations_than_allowed_and_then_not_converged(max_iter):
    X, T = oracle.draw_problem(7, 30, 6, 5)
    problem = make(X, T, 2.0)
    start = 10 * np.random.default_rng(1).standard_normal((7, 5))
    solution = solve(problem, start, tol=1e-12, max_iter=max_iter)
    assert solution.n_iter == max_iter == len(solution.history) - 1
    assert not solution.converged
    assert solution.objective < solution.history[0]


def test_the_iterations_of_all_stages_count_together():
    X, T = oracle.draw_problem(7, 30, 6, 5)
    problem = make(X, T, 2.0)
    total = solve(problem, tol=1e-8).n_iter
    for max_iter in (total // 2, total - 2, total - 1):
        solution = solve(problem, tol=1e-8, max_iter=max_iter)
        assert solution.n_iter == max_iter
        assert not solution.converged
    assert solve(problem, tol=1e-8, max_iter=total).n_iter == total


def test_a_looser_tolerance_takes_fewer_iterations_and_keeps_its_word():
    X, T = oracle.draw_problem(8, 60, 6, 5)
    problem = make(X, T, 0.5)
    loose, mid, strong = (solve(problem, tol=tol) for tol in (1e-3, 1e-6, 1e-10))
    assert loose.n_iter < mid.n_iter < strong.n_iter
    assert all(solution.converged for solution in (loose, mid, strong))
    assert loose.objective <= strong.objective * (1 + 3e-2)
    assert mid.objective <= strong.objective * (1 + 3e-5)


@pytest.mark.parametrize("size", [1e3, 1e8, 1e30, 1e100])
@pytest.mark.parametrize("lambda_d", [0.0, 0.3])
def test_a_start_of_any_size_ends_at_the_same_minimum(size, lambda_d):
    X, T = oracle.draw_problem(0, 30, 5, 4)
    problem = make(X, T, lambda_d)
    start = size * np.random.default_rng(1).standard_normal((6, 4))
    solution = solve(problem, start, tol=1e-8)
    assert solution.converged
    assert solution.objective == pytest.approx(solve(problem).objective, rel=1e-6)


class Fragile(Problem):
    """A problem whose value is not finite where any weight is beyond a limit."""

    limit, value = 0.0, np.inf

    def evaluate(self, W, norm, linear=None, *, curvature=False):
        at = super().evaluate(W, norm, linear, curvature=curvature)
        if np.abs(W).max() <= self.limit:
            return at
        return Evaluation(self.value, self.value, np.full_like(W, np.nan), at.curvature)


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("lambda_d", [0.0, 0.3])
def test_a_trial_that_is_not_finite_is_shortened(value, lambda_d):
    X, T = oracle.draw_problem(0, 30, 5, 4)
    plain = make(X, T, lambda_d)
    W = solve(plain).W
    problem = Fragile(plain.features, plain.objective, plain.alpha)
    problem.limit, problem.value = 1.001 * np.abs(W).max(), value
    # A model that is too flat overshoots: the first trial lands far beyond the limit.
    flat = Preconditioner(problem, 1e-3 * problem.features.gram())
    solution = solve_lbfgs(problem, flat, np.zeros_like(W), tol=1e-10, max_iter=2000)
    assert solution.n_evaluations > solution.n_iter + 1
    assert np.isfinite(solution.history).all()
    assert solution.objective == pytest.approx(plain.exact(W), rel=1e-6)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize(
    "lambda_d",
    [0.0, 0.3],
)
def test_a_trial_that_overflows_is_shortened(lambda_d):
    X, T = oracle.draw_problem(0, 30, 5, 4)
    problem = make(X, T, lambda_d, alpha=1e-18)
    flat = Preconditioner(problem, 1e-19 * problem.features.gram())
    start = 1e140 * np.random.default_rng(1).standard_normal((6, 4))
    solution = solve_lbfgs(problem, flat, flat.to_variables(start), tol=1e-8, max_iter=20)
    assert np.isfinite(solution.history).all()
    assert solution.objective < 1e-3 * solution.history[0]


class WrongCurvature(Problem):
    """Rounding at extreme scales can leave the curvature with negative eigenvalues."""

    def evaluate(self, *arguments, **options):
        at = super().evaluate(*arguments, **options)
        wrong = None if at.curvature is None else -1e9 * np.eye(len(at.curvature))
        return at._replace(curvature=wrong)


def test_a_model_of_the_curvature_that_points_uphill_is_dropped():
    X, T = oracle.draw_problem(0, 30, 5, 4)
    plain = make(X, T, 0.3)
    expected = solve(plain, tol=1e-6).objective
    found = solve(WrongCurvature(plain.features, plain.objective, plain.alpha), tol=1e-6)
    assert found.objective == pytest.approx(expected, rel=1e-4)


def test_where_no_step_lowers_the_objective_the_start_is_the_answer():
    X, T = oracle.draw_problem(0, 30, 5, 4)
    plain = make(X, T, 0.3)
    problem = Fragile(plain.features, plain.objective, plain.alpha)  # finite at zero only
    solution = solve(problem, max_iter=50)
    np.testing.assert_array_equal(solution.W, np.zeros((6, 4)))
    assert solution.n_iter <= len(SMOOTHING)  # each smoothing tries once
    assert set(solution.history) == {solution.objective}


@pytest.mark.parametrize("lambda_d", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(4))
def test_a_tolerance_of_zero_ends_where_rounding_does(lambda_d, seed):
    X, T = oracle.draw_problem(seed, 20, 4, 3)
    problem = make(X, T, lambda_d)
    solution = solve(problem, tol=0.0)
    assert solution.converged
    assert solution.objective <= solve(problem).objective * (1 + 1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_solution_on_another_library_is_that_of_numpy(dtype):
    X, T = oracle.draw_problem(9, 25, 4, 3)
    X = X.astype(dtype)
    expected = solve(make(X, T, 0.4), tol=1e-7)
    problem = make(strict.asarray(X), T, 0.4)
    found = solve(problem, strict.asarray(np.zeros((5, 3))), tol=1e-7)
    assert found.W.dtype == strict.float64
    assert found.objective == pytest.approx(expected.objective, rel=1e-6)
    if dtype == np.float64:
        assert found.n_evaluations == expected.n_evaluations
        np.testing.assert_allclose(to_numpy(found.W), expected.W, rtol=0, atol=1e-7)


def test_a_solve_changes_neither_its_start_nor_its_problem():
    X, T = oracle.draw_problem(10, 25, 4, 3)
    problem = make(X, T, 0.4)
    preconditioner = Preconditioner(problem)
    V = np.random.default_rng(0).standard_normal((5, 3))
    before = V.copy(), X.copy(), T.copy()
    first = solve_lbfgs(problem, preconditioner, V, tol=1e-8, max_iter=100)
    again = solve_lbfgs(problem, preconditioner, V, tol=1e-8, max_iter=100)
    for array, copy in zip((V, X, T), before, strict=True):
        np.testing.assert_array_equal(array, copy)
    np.testing.assert_array_equal(first.W, again.W)
    assert first.history == again.history


@pytest.mark.parametrize("smoothing", SMOOTHING)
def test_wherever_the_smoothing_starts_the_minimum_is_the_same(smoothing):
    X, T = oracle.draw_problem(11, 30, 4, 4)
    problem = make(X, T, 0.4)
    found = solve(problem, smoothing=smoothing)
    assert found.objective == pytest.approx(solve(problem).objective, rel=1e-6)


def test_labels_without_any_observed_positive_leave_the_ridge_problem():
    X, _ = oracle.draw_problem(12, 10, 3, 2)
    T = -np.ones((10, 2), dtype=np.int8)
    solution = solve(make(X, T, 5.0), tol=1e-14)
    W, b = oracle.masked_ridge(X, T, 0.5, True)
    np.testing.assert_allclose(solution.W, np.vstack([W, b]), rtol=0, atol=1e-6)
