"""The low-rank head: its objective by loops, its limits, its memory, its contract."""

import contextlib
import math
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, ShuffleSplit

from dm2l import ConstantLabelWarning, DM2LClassifier
from dm2l._solvers.features import Features, ridge_value
from dm2l._solvers.nuclear import SmoothNorm
from dm2l._solvers.problem import Preconditioner
from dm2l.extreme import ExtremeDM2LClassifier
from dm2l.extreme._classifier import TopK, top_k
from dm2l.extreme._problem import (
    LowRankProblem,
    SharedRows,
    bytes_needed,
    label_basis,
)
from dm2l.labels import SparseLabelMatrix
from dm2l.metrics import hamming_loss, precision_at_k, propensities


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def data(rng):
    """Inputs and 0/1 labels, every one with at least two of each class."""
    X = rng.normal(size=(60, 6))
    Y = (X @ rng.normal(size=(6, 15)) + rng.normal(size=(60, 15)) > 2.0).astype(int)
    Y[:2] = 1
    Y[-2:] = 0
    return X, Y


def signed(Y, observed):
    return sp.csr_array(np.where(observed, 2 * Y - 1, 0))


# -- the objective ------------------------------------------------------------------------------


def brute_objective(F, t0, T, V, groups, lambda_d, discriminant):
    """Loss over every entry, and singular values, by loops."""
    value = 0.0
    for i in range(F.shape[0]):
        for j in range(F.shape[1]):
            value += 0.5 * V[i, j] * (F[i, j] - T[i, j]) ** 2
    local = sum(np.linalg.svd(F[rows] - t0, compute_uv=False).sum() for rows in groups)
    covered = sorted(set(np.concatenate(groups).tolist()))
    shared = np.linalg.svd(F[covered] - t0, compute_uv=False).sum() if discriminant else 0.0
    return value + lambda_d * (local - shared)


@pytest.mark.parametrize("absent", ["missing", "negative", "unlabelled"])
@pytest.mark.parametrize("discriminant", [True, False])
def test_objective_is_that_of_all_entries(absent, discriminant, data, rng):
    X, Y = data
    n, c = Y.shape
    observed = rng.random((n, c)) < 0.5
    stored = observed if absent == "missing" else Y > 0
    t0 = 0.0 if absent == "missing" else -1.0
    w = {"missing": 0.0, "negative": 1.0, "unlabelled": 0.4}[absent]
    gains = rng.uniform(1, 3, size=c) if absent == "unlabelled" else np.ones(c)
    T = np.where(stored, 2.0 * Y - 1, t0)
    V = np.where(stored, gains, w)
    shifted = sp.csr_array(np.where(stored, T - t0, 0.0))
    if absent == "missing":
        assert shifted.nnz == stored.sum()
    B = np.linalg.qr(rng.normal(size=(c, 4)))[0]
    positive = stored & (Y > 0)
    positive[:, 3] = False
    positive[5, 3] = True  # a label with one row has nothing to share
    groups = SharedRows.gather(sp.csr_array(positive), 4)
    problem = LowRankProblem(Features(X, True).centre(), shifted, V[stored], w, None, alpha=0.7)
    problem.attach(B, groups, 0.3, discriminant=discriminant)
    W = rng.normal(size=(7, 4))
    members = [np.flatnonzero(col) for col in positive.T if col.sum() > 1]
    F = t0 + ((X - X.mean(axis=0)) @ W[:-1] + W[-1]) @ B.T
    expected = brute_objective(F, t0, T, V, members, 0.3, discriminant)
    expected += 0.35 * (W[:-1] ** 2).sum()
    assert problem.exact(W) == pytest.approx(expected)
    assert problem.evaluate(W, SmoothNorm(1e-9)).exact == pytest.approx(expected)

    norm = SmoothNorm(1e-2)
    gradient = problem.evaluate(W, norm).gradient
    for _ in range(5):
        D = rng.normal(size=W.shape)
        h = 1e-5
        ends = [problem.evaluate(W + s * h * D, norm).value for s in (1, -1)]
        assert (gradient * D).sum() == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 4), st.integers(1, 3))
def test_global_norm_never_exceeds_the_local_ones(seed, rank, min_rows, size):
    rng = np.random.default_rng(seed)
    positive = rng.random((12, 8)) < 0.3
    groups = SharedRows.gather(sp.csr_array(positive), rank, min_rows, size=size * 10)
    expected = [np.flatnonzero(col) for col in positive.T if col.sum() >= min_rows]
    sizes = sorted(h for stack in groups.stacks for h in stack.heights)
    assert sizes == sorted(len(rows) for rows in expected)
    covered = sorted(set(np.concatenate(expected).tolist())) if expected else []
    assert groups.covered.tolist() == covered
    F = rng.normal(size=(len(covered), rank))
    padded = np.vstack([F, np.zeros(rank)])
    total = groups.norms(padded, SmoothNorm(1e-9)).exact
    assert total == pytest.approx(groups.exact(padded), abs=1e-6)
    assert total >= np.linalg.svd(F, compute_uv=False).sum() - 1e-6


def test_norms_of_wide_stacks_are_those_of_each_matrix(rng):
    heights = np.array([3, 2, 4])
    Z = np.zeros((3, 4, 6))
    for i, h in enumerate(heights):
        Z[i, :h] = rng.normal(size=(h, 6))
    Z[1, 1] = Z[1, 0]  # rank one
    found = SmoothNorm(0.05)(Z, heights=heights, curvature=True)
    each = [SmoothNorm(0.05)(Z[i, :h], curvature=True) for i, h in enumerate(heights)]
    assert found.value == pytest.approx(sum(one.value for one in each))
    assert found.exact == pytest.approx(sum(one.exact for one in each))
    np.testing.assert_allclose(found.curvature, sum(one.curvature for one in each), rtol=1e-9)
    for i, h in enumerate(heights):
        np.testing.assert_allclose(found.gradient[i, :h], each[i].gradient, atol=1e-9)


# -- the head -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_labels", [6, 15])  # fewer and more than features
def test_basis_is_that_of_reduced_rank_regression(sparse, n_labels, data, rng):
    X, Y = data[0], data[1][:, :n_labels]
    X = X * (rng.random(X.shape) < 0.6)
    Xc = np.column_stack([X - X.mean(axis=0), np.ones(len(X))])
    C = Xc.T @ Xc + np.diag([2.0] * 6 + [0.0])
    A = np.linalg.solve(np.linalg.cholesky(C), Xc.T @ Y)
    V = np.linalg.svd(A)[2][:4].T
    features = Features(sp.csr_array(X) if sparse else X, True).centre()
    stored = sp.csr_array(Y.astype(float))
    problem = LowRankProblem(features, stored, np.ones(stored.nnz), 1.0, None, alpha=2.0)
    B = label_basis(features, stored, Preconditioner(problem), 4, block=4)
    np.testing.assert_allclose(B.T @ B, np.eye(4), atol=1e-10)
    np.testing.assert_allclose(B @ B.T, V @ V.T, atol=1e-8)
    everything = label_basis(features, stored, Preconditioner(problem), n_labels)
    np.testing.assert_array_equal(everything, np.eye(n_labels))


@pytest.mark.parametrize("d", [3, 30])
def test_features_that_say_nothing_give_constant_scores(d, data):
    Y = sp.csr_array(data[1])
    model = ExtremeDM2LClassifier(rank=4, missing_as="negative", fit_intercept=False)
    np.testing.assert_allclose(
        model.fit(np.zeros((60, d)), Y).decision_function(np.ones((2, d))), -1.0
    )
    model.set_params(fit_intercept=True)
    flat = model.fit(np.zeros((60, d)), Y).decision_function(np.ones((2, d)))
    np.testing.assert_array_equal(flat[0], flat[1])
    assert np.isfinite(flat).all()


def test_without_reduction_and_with_signed_labels_it_is_dm2l(data, rng):
    X, Y = data
    observed = rng.random(Y.shape) < 0.7
    observed[[0, 1, -1, -2]] = True
    observed[20] = False  # a row with nothing to say
    T = signed(Y, observed)
    common = {"lambda_d": 0.4, "alpha": 1.5, "tol": 1e-9}
    head = ExtremeDM2LClassifier(**common, rank=15, max_iter=1000).fit(X, T)
    full = DM2LClassifier(**common).fit(X, T)
    assert head.objective_ == pytest.approx(full.objective_, rel=1e-6)
    np.testing.assert_allclose(
        head.decision_function(X), full.decision_function(X), atol=2e-3, rtol=1e-3
    )
    dense = np.where(observed, Y, np.nan)
    same = ExtremeDM2LClassifier(**common, rank=15, max_iter=1000).fit(X, dense)
    np.testing.assert_allclose(same.coef_, head.coef_)


@pytest.mark.parametrize("rank", [7, 15])
@pytest.mark.parametrize("intercept", [True, False])
def test_with_absence_as_no_and_no_norms_it_is_ridge(rank, intercept, data):
    X, Y = data
    X = X + 3.0
    model = ExtremeDM2LClassifier(
        0.0, 2.5, rank=rank, missing_as="negative", fit_intercept=intercept
    ).fit(X, sp.csr_array(Y))
    # Above the offset of -1, a positive is a 2.
    ridge = Ridge(2.5, fit_intercept=intercept).fit(X, 2.0 * Y)
    np.testing.assert_allclose(model.decision_function(X), ridge.predict(X) - 1, atol=1e-7)


def test_more_features_than_rows_and_sparse_inputs(rng):
    X = sp.csr_array(rng.normal(size=(30, 200)) * (rng.random((30, 200)) < 0.1))
    Y = (rng.random((30, 50)) < 0.2).astype(int)
    Y[0], Y[1] = 1, 0
    model = ExtremeDM2LClassifier(0.0, 0.8, rank=31, missing_as="negative")
    scores = model.fit(X, sp.csr_array(Y)).decision_function(X)
    expected = Ridge(0.8).fit(X.toarray(), 2.0 * Y).predict(X.toarray()) - 1
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    with_norms = clone(model).set_params(lambda_d=0.1, tol=1e-8, max_iter=1000)
    one = with_norms.fit(X, sp.csr_array(Y)).objective_
    two = with_norms.fit(X.toarray(), sp.csr_array(Y)).objective_
    assert one == pytest.approx(two, rel=1e-6)


@pytest.mark.parametrize("given", [False, True])
def test_unlabelled_weighs_positives_by_their_propensities(given, data, rng):
    X, Y = data
    p = rng.uniform(0.2, 1.0, size=15) if given else propensities(Y)
    model = ExtremeDM2LClassifier(
        0.0,
        1.2,
        rank=15,
        missing_as="unlabelled",
        absent_weight=0.6,
        propensities=p if given else None,
    ).fit(X, sp.csr_array(Y))
    A = np.column_stack([X, np.ones(60)])
    for j in range(15):
        v = np.where(Y[:, j] > 0, 1 / p[j], 0.6)
        H = A.T @ (v[:, None] * A) + np.diag([1.2] * 6 + [0.0])
        w = np.linalg.solve(H, A.T @ (v * (2.0 * Y[:, j] - 1 + 1)))
        np.testing.assert_allclose(model.decision_function(X)[:, j], A @ w - 1, atol=1e-5)


def test_certain_noes_weigh_more_than_doubtful_ones(data):
    X, Y = data
    T = sp.csr_array(Y)
    noes = T - sp.csr_array((np.ones(30, int), (np.arange(30), np.full(30, 2))), T.shape).multiply(
        sp.csr_array(Y == 0)
    )
    settings = {"rank": 15, "missing_as": "unlabelled", "absent_weight": 0.2}
    doubtful = ExtremeDM2LClassifier(0.0, **settings).fit(X, T).decision_function(X)
    certain = ExtremeDM2LClassifier(0.0, **settings).fit(X, noes).decision_function(X)
    where = (noes.toarray()[:, 2]) < 0
    assert certain[where, 2].mean() < doubtful[where, 2].mean() - 0.05


def test_columns_that_depend_on_each_other_are_solved_together(data):
    X, Y = data
    model = ExtremeDM2LClassifier(0.0, 1.0, rank=3, missing_as="unlabelled", absent_weight=0.05)
    T = sp.csr_array(Y)
    best = model.fit(X, T).objective_
    v = np.where(Y > 0, (1 / propensities(Y))[None, :], 0.05)
    rng = np.random.default_rng(0)

    def loss(coef, b):
        F = (X @ coef.T + b) @ model.label_vectors_.T
        return 0.5 * (v * (F - 2.0 * Y) ** 2).sum() + 0.5 * (coef**2).sum()

    assert loss(model.coef_, model.intercept_) == pytest.approx(best)
    for _ in range(20):
        near = model.coef_ + 0.01 * rng.normal(size=model.coef_.shape)
        assert loss(near, model.intercept_ + 0.01 * rng.normal(size=3)) > best


# -- lists and blocks ---------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 9))
def test_top_k_is_the_head_of_a_stable_sort(seed, c, k):
    S = np.random.default_rng(seed).integers(0, 4, size=(6, c)).astype(float)
    k = min(k, c)
    found = top_k(S, k)
    expected = np.argsort(-S, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(found.indices, expected)
    np.testing.assert_array_equal(found.scores, np.take_along_axis(S, expected, axis=1))


def test_blocks_do_not_change_the_answer(data):
    X, Y = data
    model = ExtremeDM2LClassifier(rank=4, missing_as="negative").fit(X, sp.csr_array(Y))
    scores = model.decision_function(X)
    best = model.predict_top_k(X, 4)
    assert isinstance(best, TopK)
    model.set_params(max_memory=8 * 15 * 60)  # a few rows at a time
    again = model.predict_top_k(X, 4)
    np.testing.assert_array_equal(best.indices, again.indices)
    np.testing.assert_array_equal(best.indices, top_k(scores, 4).indices)
    np.testing.assert_array_equal(model.predict(X).toarray(), scores > 0)
    tight = ExtremeDM2LClassifier(rank=4, missing_as="negative", max_memory=3e5)
    np.testing.assert_allclose(
        tight.fit(X, sp.csr_array(Y)).decision_function(X), scores, atol=1e-6
    )


def test_a_hundred_thousand_labels_stay_within_memory(rng):
    n, d, c, memory = 1500, 40, 100_000, 1.2e8
    X = rng.normal(size=(n, d))
    weights = (1.0 + np.arange(c)) ** -0.8
    columns = rng.choice(c, size=5 * n, p=weights / weights.sum())
    stored = np.ones(5 * n), (np.repeat(np.arange(n), 5), columns)
    Y = sp.csr_array(stored, shape=(n, c))
    Y.data[:] = 1
    for absent in ("negative", "unlabelled"):
        model = ExtremeDM2LClassifier(rank=30, missing_as=absent, max_memory=memory)
        tracemalloc.start()
        with pytest.warns(ConstantLabelWarning):
            model.fit(X, Y)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        best = model.predict_top_k(X[:200], 5)
        _, answer = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < memory
        assert answer < memory
        assert best.indices.shape == (200, 5)
    assert n * c * 8 >= 10 * memory
    with pytest.raises(ValueError, match=r"1500 rows and 100000 labels .* 150 rows"):
        model.decision_function(X)


def test_a_fit_that_does_not_fit_names_a_rank_that_does(rng):
    X, Y = rng.normal(size=(400, 20)), (rng.random((400, 5000)) < 0.01).astype(int)
    Y[0] = 1
    Y = sp.csr_array(Y)
    model = ExtremeDM2LClassifier(rank=21, missing_as="negative", max_memory=7e6)
    with pytest.raises(ValueError, match=r"rank=21, .*rank=") as caught:
        model.fit(X, Y)
    rank = int(str(caught.value).rsplit("rank=", 1)[1].split()[0])
    assert 1 <= rank < 21
    assert clone(model).set_params(rank=rank).fit(X, Y).label_vectors_.shape == (5000, rank)
    with pytest.raises(ValueError, match="no rank fits"):
        clone(model).set_params(max_memory=1e5).fit(X, Y)
    assert bytes_needed(400, 20, 5000, Y.nnz, 21) > 0.75 * 7e6


# -- the contract -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("Y", "absent", "message"),
    [
        ([[1, 0], [0, 1], [1, 0]], None, "positives only.*'unlabelled'"),
        ([[1, -1], [0, 1], [1, 0]], "negative", "-1 in row 0, column 1.*Do not pass missing_as"),
        ([[1, 0], [0, 2], [1, 0]], "negative", "stores 2 in row 1, column 1"),
        ([[0, 0], [0, 0], [0, 0]], "missing", "All labels in Y are missing"),
        ([[1, 0], [0, 1], [1, 0]], "no", "missing_as must be one of.*got 'no'"),
    ],
)
def test_sparse_labels_that_break_the_contract_are_refused(Y, absent, message):
    X = np.eye(3)
    with pytest.raises(ValueError, match=message):
        ExtremeDM2LClassifier(missing_as=absent).fit(X, sp.csr_array(np.array(Y)))


def test_explicit_zeros_and_other_lengths_are_refused():
    zero = sp.csr_array(([1, 0], ([0, 1], [0, 1])), shape=(3, 2))
    with pytest.raises(ValueError, match="explicit 0 in row 1, column 1"):
        ExtremeDM2LClassifier(missing_as="negative").fit(np.eye(3), zero)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ExtremeDM2LClassifier().fit(np.eye(4), [[0, 1], [1, 0], [1, 1]])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lambda_d", -1),
        ("alpha", "auto"),
        ("rank", 0),
        ("absent_weight", 0),
        ("absent_weight", 1.5),
        ("min_rows", 1.5),
        ("max_memory", math.inf),
        ("max_iter", 0),
        ("tol", math.nan),
        ("propensities", [0.5]),
        ("propensities", np.zeros(15)),
    ],
)
def test_parameters_that_make_no_sense_are_refused(name, value, data):
    X, Y = data
    model = ExtremeDM2LClassifier(missing_as="unlabelled").set_params(**{name: value})
    with pytest.raises(ValueError, match=name):
        model.fit(X, sp.csr_array(Y))


def test_labels_that_cannot_be_learnt_are_constant(data):
    X, Y = data
    T = signed(Y, np.ones_like(Y, dtype=bool)).tolil()
    T[:, 1] = 0
    T[:, 4] = 0
    T[3, 4] = 1
    with (
        pytest.warns(ConstantLabelWarning, match="no observed entry.*: column 1"),
        pytest.warns(ConstantLabelWarning, match="one observed class.*: column 4"),
    ):
        model = ExtremeDM2LClassifier(rank=5).fit(X, T.tocsr())
    scores = model.decision_function(X)
    assert (scores[:, 1] == 0).all()
    np.testing.assert_allclose(model.predict_proba(X)[:, 4], 0.75)  # one positive
    assert (np.ptp(scores[:, [1, 4]], axis=0) == 0).all()
    with pytest.warns(ConstantLabelWarning, match="15 label"):
        nothing = ExtremeDM2LClassifier(missing_as="missing").fit(X, sp.csr_array(Y))
    rate = (Y.sum(axis=0) + 0.5) / (Y.sum(axis=0) + 1)
    np.testing.assert_allclose(nothing.predict_proba(X), np.tile(rate, (len(X), 1)))
    absent = sp.csr_array(np.where(np.arange(15) == 2, 0, Y))
    with pytest.warns(ConstantLabelWarning, match="1 label.*column 2"):
        no = ExtremeDM2LClassifier(rank=5, missing_as="negative").fit(X, absent)
    np.testing.assert_allclose(no.predict_proba(X)[:, 2], 0.5 / (len(X) + 1))


def test_estimator_contract(data):
    X, Y = data
    T = sp.csr_array(Y)
    before = T.copy()
    model = ExtremeDM2LClassifier(rank=4, missing_as="negative", alpha=2.0)
    with pytest.raises(NotFittedError):
        model.predict_top_k(X)
    assert clone(model).get_params() == model.get_params()
    assert model.fit(X, T) is model
    assert (before != T).nnz == 0
    assert model.n_features_in_ == 6
    assert len(model.classes_) == len(model.label_names_) == 15
    again = clone(model).fit(X, T)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    with pytest.raises(ValueError, match="5 features"):
        model.predict_top_k(X[:, :5])
    for k in (0, 16, 1.5):
        with pytest.raises(ValueError, match="k must be an integer from 1 to 15"):
            model.predict_top_k(X, k)
    assert sp.issparse(model.predict(X))
    assert isinstance(clone(model).fit(X, Y).predict(X), np.ndarray)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        clone(model).set_params(max_iter=1, tol=1e-12, lambda_d=1.0).fit(X, T)


@pytest.mark.parametrize("absent", [None, "missing", "negative"])
@pytest.mark.parametrize("sparse_mask", [False, True])
def test_a_mask_hides_sparse_labels_as_holes_hide_dense_ones(absent, sparse_mask, data, rng):
    X, Y = data
    mask = rng.random(Y.shape) < 0.7
    mask[:2] = mask[-2:] = True
    observed = rng.random(Y.shape) < 0.8 if absent is None else Y == 1
    observed |= np.arange(60)[:, None] < 2
    sparse = signed(Y, observed) if absent is None else sp.csr_array(Y)
    known = mask if absent == "negative" else mask & observed
    holes = np.where(known, Y, np.nan)
    given = sp.csr_array(mask) if sparse_mask else mask
    model = ExtremeDM2LClassifier(rank=4, missing_as=absent)
    with contextlib.ExitStack() as stack:
        if absent == "missing":  # positives alone
            stack.enter_context(pytest.warns(ConstantLabelWarning))
        found = clone(model).fit(X, sparse, label_mask=given)
        expected = clone(model).fit(X, holes)
    np.testing.assert_allclose(
        found.decision_function(X), expected.decision_function(X), atol=1e-10
    )
    assert found.score(X, sparse, label_mask=given) == pytest.approx(expected.score(X, holes))


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
@pytest.mark.parametrize("absent", [None, "negative", "unlabelled"])
def test_complete_of_sparse_labels_is_that_of_dense_ones(method, absent, data, rng):
    X, Y = data
    observed = rng.random(Y.shape) < 0.6
    sparse = signed(Y, observed) if absent is None else sp.csr_array(Y)
    model = ExtremeDM2LClassifier(rank=4, missing_as=absent).fit(X, sparse)
    known = {None: observed, "negative": np.ones_like(observed), "unlabelled": Y == 1}[absent]
    expected = model.complete(X, np.where(known, Y, np.nan), method=method)
    found = model.complete(X, sparse, method=method)
    assert sp.issparse(found) == (method == "predict")
    if method == "predict":
        assert set(found.data) == {1}
        found, expected = found.toarray(), expected == 1
    np.testing.assert_array_equal(found, expected)


def test_complete_refuses_other_shapes_and_methods(data):
    X, Y = data
    model = ExtremeDM2LClassifier(rank=4, missing_as="negative").fit(X, sp.csr_array(Y))
    with pytest.raises(ValueError, match=r"must have shape \(60, 15\)"):
        model.complete(X, sp.csr_array(Y[:, 1:]))
    with pytest.raises(ValueError, match="method must be"):
        model.complete(X, sp.csr_array(Y), method="guess")
    with pytest.raises(ValueError, match="'unlabelled'"):
        model.set_params(missing_as="unlabelled").fit(X, sp.csr_array(Y), label_mask=Y == 1)


def test_names_of_label_columns_are_kept(data):
    pandas = pytest.importorskip("pandas")
    X, Y = data
    frame = pandas.DataFrame(Y, columns=[f"label {j}" for j in range(15)])
    model = ExtremeDM2LClassifier(rank=4).fit(X, frame)
    assert model.label_names_.tolist() == list(frame.columns)


def test_score_is_one_minus_hamming_loss_over_observed_entries(data, rng):
    X, Y = data
    model = ExtremeDM2LClassifier(rank=4, missing_as="unlabelled").fit(X, sp.csr_array(Y))
    predicted = model.decision_function(X) > 0
    right = predicted == (Y == 1)
    assert predicted.any()
    assert model.score(X, sp.csr_array(Y)) == pytest.approx(right.mean())
    weights = rng.random(len(Y))
    expected = np.average(right.mean(axis=1), weights=weights)
    assert model.score(X, sp.csr_array(Y), weights) == pytest.approx(expected)
    observed = rng.random(Y.shape) < 0.3
    observed[4] = False
    holes = np.where(observed, Y, np.nan)
    assert model.score(X, holes) == pytest.approx(right[observed].mean())
    judged = ExtremeDM2LClassifier(rank=4).fit(X, holes)
    expected = 1 - hamming_loss(holes, judged.decision_function(X) > 0, estimate=False)
    assert judged.score(X, signed(Y, observed)) == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"All labels in . are missing"):
        judged.score(X, signed(Y, np.zeros_like(observed)))


def test_a_grid_search_takes_sparse_labels(data):
    X, Y = data
    model = ExtremeDM2LClassifier(0.0, rank=4, missing_as="negative")
    cv = ShuffleSplit(2, test_size=0.3, random_state=0)
    found = GridSearchCV(model, {"alpha": [1.0, 1e6]}, cv=cv).fit(X, sp.csr_array(Y))
    assert found.best_params_ == {"alpha": 1.0}


def test_hidden_positives_are_found_where_labels_share_structure(rng):
    Z = rng.gamma(0.2, size=(700, 8))
    Z /= Z.sum(axis=1, keepdims=True)
    X = Z @ rng.normal(size=(8, 40)) + 0.6 * rng.normal(size=(700, 40))
    logits = 8 * Z @ (rng.random((8, 200)) < 0.15) + rng.gumbel(size=(700, 200))
    Y = np.zeros((700, 200), dtype=int)
    np.put_along_axis(Y, np.argsort(-logits, axis=1)[:, :8], 1, axis=1)
    visible = Y[:400] * (rng.random((400, 200)) < 0.3)
    visible[0] = 1
    truth = sp.csr_array(Y[400:])

    def precisions(scores):
        labels = SparseLabelMatrix.from_array(truth, missing_as="negative")
        return np.array([precision_at_k(labels, scores, k) for k in (1, 5)])

    # The ridge that both take here; what the head adds is that labels share directions.
    ridge = Ridge(ridge_value("scale", X[:400])).fit(X[:400], visible).predict(X[400:])
    model = ExtremeDM2LClassifier(rank=10, missing_as="unlabelled")
    best = model.fit(X[:400], sp.csr_array(visible)).predict_top_k(X[400:], 5)
    assert (precisions(best) > precisions(ridge)).all()
