"""Coupling of fits that do not hold their rows, against the fit in memory."""

import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from dm2l import ConstantLabelWarning, DM2LClassifier
from dm2l.outofcore import GramStatistics, RowBlocks, _fits
from dm2l.persistence import load_model, save_model

MODELS = {
    "linear": {},
    "without intercept": {"fit_intercept": False},
    "ridge": {"lambda_d": 0.0},
    "cccp": {"solver": "cccp", "max_iter": 20, "tol": 1e-3},
    "warm start": {"warm_start": True},
    "threshold": {"threshold": 0.2},
    "bent": {"alpha": 1e-3},  # keeps honest scores of its rows
    "waves": {
        "kernel": "rbf",
        "gamma": 0.1,
        "approximation": "fourier",
        "n_components": 40,
        "random_state": 0,
    },
}


def make(n=300, d=5, c=4, seed=0, observed=0.6):
    """Labels that features explain little of, and each other much."""
    rng = np.random.default_rng(seed)
    X, common = rng.normal(size=(n, d)), rng.normal(size=(n, 1))
    scores = 0.5 * X[:, np.arange(c) % d] + 1.5 * common + 0.5 * rng.normal(size=(n, c))
    truth = (scores > 0).astype(float)
    return X, np.where(rng.random(truth.shape) < observed, truth, np.nan), truth


@pytest.fixture
def data():
    return make()


def check_same(one, other, X, Y, atol=1e-8):
    for method in ("decision_function", "predict_proba"):
        found, expected = (model.complete(X, Y, method=method) for model in (one, other))
        np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
    np.testing.assert_allclose(
        one.label_covariance_.matrix(), other.label_covariance_.matrix(), rtol=0, atol=atol
    )
    for bound in (0.05, 0.2):
        promised = [
            m.complete(X, Y, max_error_rate=bound, return_summary=True) for m in (one, other)
        ]
        np.testing.assert_array_equal(promised[0][0], promised[1][0])
        assert promised[0][1].n_left == promised[1][1].n_left


def blocks_of(X, Y, rows=70, order=None):
    order = np.arange(len(Y)) if order is None else order
    return RowBlocks.from_arrays(X[order], Y[order], rows=rows)


# ------------------------------------------------------------------------ all rows in the sample


@pytest.mark.parametrize("strategy", ["statistics", "passes"])
@pytest.mark.parametrize("parameters", MODELS.values(), ids=MODELS)
def test_every_strategy_couples_like_the_fit_in_memory(parameters, strategy, data):
    X, Y, _ = data
    whole = DM2LClassifier(**parameters).fit(X, Y)
    order = np.random.default_rng(1).permutation(len(Y))
    check_same(DM2LClassifier(**parameters, strategy=strategy).fit(X, Y), whole, X, Y)
    source = blocks_of(X, Y, 37, order)
    check_same(DM2LClassifier(**parameters, strategy=strategy).fit(source), whole, X, Y)


def test_known_labels_of_the_row_help_its_holes(data):
    X, Y, truth = data
    holes = np.isnan(Y)
    model = DM2LClassifier(strategy="statistics").fit(blocks_of(X, Y))
    right = model.complete(X, Y)[holes] == truth[holes]
    alone = model.predict(X)[holes] == truth[holes]
    assert right.mean() > alone.mean() + 0.1


@pytest.mark.parametrize("strategy", ["statistics", "passes"])
def test_more_columns_than_rows(strategy):
    X, Y, _ = make(n=60, d=100)
    whole = DM2LClassifier(alpha=100.0).fit(X, Y)
    parts = DM2LClassifier(alpha=100.0, strategy=strategy).fit(blocks_of(X, Y, 20))
    check_same(parts, whole, X, Y)


def test_with_very_many_features_the_first_block_has_no_say():
    X, Y, _ = make(n=80, d=1100)
    order = np.argsort(X[:, 0])  # blocks far from each other
    models = [
        DM2LClassifier(alpha=2000.0, strategy="passes").fit(blocks_of(X, Y, 40, rows))
        for rows in (order, order[::-1])
    ]
    check_same(*models, X, Y)


def test_a_model_that_determines_its_own_scores_is_coupled_by_folds():
    X, Y, truth = make(n=300, d=400)
    holes = np.isnan(Y)
    model = DM2LClassifier(alpha=1e-3, strategy="statistics").fit(blocks_of(X, Y))
    right = (model.complete(X, Y)[holes] == truth[holes]).mean()
    assert right > (model.predict(X)[holes] == truth[holes]).mean() + 0.05
    # Folds by number are of rows that are not there any more: nothing is known of their scores.
    numbered = [(np.arange(150), np.arange(150, 300))]
    model = DM2LClassifier(alpha=1e-3, cv=numbered, strategy="statistics").fit(blocks_of(X, Y))
    model.complete(X, Y)


@pytest.mark.parametrize("strategy", ["statistics", "passes"])
def test_sparse_rows(strategy, data):
    X, Y, _ = data
    X = np.where(np.abs(X) > 0.7, X + 3.0, 0.0)
    whole = DM2LClassifier().fit(X, Y)
    sparse = DM2LClassifier(strategy=strategy).fit(blocks_of(sp.csr_matrix(X), Y))
    check_same(sparse, whole, X, Y)


def test_dense_and_sparse_blocks_mix(data, tmp_path):
    X, Y, _ = data
    model = DM2LClassifier().partial_fit(X[:100], Y[:100])
    model.partial_fit(sp.csr_array(X[100:]), Y[100:])
    save_model(model, tmp_path / "mixed.dm2l")
    whole = DM2LClassifier().fit(X, Y)
    check_same(model, whole, X, Y)
    check_same(load_model(tmp_path / "mixed.dm2l"), whole, X, Y)


@pytest.mark.parametrize("strategy", ["statistics", "passes"])
def test_equal_rows_count_as_often_as_they_came(strategy, data):
    X, Y, _ = data
    X, Y = np.vstack([X, X[:40], X[:20]]), np.vstack([Y, Y[:40], Y[:20]])
    whole = DM2LClassifier().fit(X, Y)
    check_same(DM2LClassifier(strategy=strategy).fit(blocks_of(X, Y)), whole, X, Y)


@pytest.mark.parametrize("strategy", ["statistics", "passes"])
@pytest.mark.filterwarnings("ignore::dm2l.ConstantLabelWarning")
def test_labels_that_cannot_be_learnt_and_rows_of_theirs(strategy, data):
    X, Y, _ = data
    Y = np.column_stack([np.full(len(Y), np.nan), Y, np.ones(len(Y))])
    Y[:30, 1:5] = np.nan
    Y[30:50] = np.nan
    with pytest.warns(ConstantLabelWarning):
        whole = DM2LClassifier().fit(X, Y)
    check_same(DM2LClassifier(strategy=strategy).fit(blocks_of(X, Y)), whole, X, Y)


@pytest.mark.parametrize("strategy", ["statistics", "passes"])
def test_one_label_has_nothing_to_couple(strategy, data):
    X, Y, _ = data
    model = DM2LClassifier(strategy=strategy).fit(blocks_of(X, Y[:, :1]))
    whole = DM2LClassifier().fit(X, Y[:, :1])
    check_same(model, whole, X, Y[:, :1])
    np.testing.assert_array_equal(model.complete(X, np.full((len(X), 1), np.nan)), model.predict(X))


def test_the_order_of_rows_does_not_matter_in_memory_either(data):
    X, Y, _ = data
    order = np.random.default_rng(2).permutation(len(Y))
    for parameters in (MODELS["linear"], MODELS["bent"]):
        models = [DM2LClassifier(**parameters).fit(X[o], Y[o]) for o in (order, slice(None))]
        check_same(*models, X, Y)


# ------------------------------------------------------------------------------------- streams


def test_blocks_in_any_order_couple_like_one_fit(data):
    X, Y, _ = data
    whole = DM2LClassifier().fit(X, Y)
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        stream = DM2LClassifier()
        for rows in np.array_split(rng.permutation(len(Y)), 5):
            stream.partial_fit(X[rows], Y[rows])
        check_same(stream, whole, X, Y)


@pytest.mark.parametrize("parameters", [MODELS["linear"], MODELS["waves"]], ids=["linear", "waves"])
def test_a_saved_stream_goes_on(parameters, data, tmp_path):
    X, Y, _ = data
    stream = DM2LClassifier(**parameters).partial_fit(X[:200], Y[:200])
    save_model(stream, tmp_path / "stream.dm2l")
    again = load_model(tmp_path / "stream.dm2l")
    assert np.array_equal(
        again.complete(X, Y, method="predict_proba"), stream.complete(X, Y, method="predict_proba")
    )
    on = [m.partial_fit(X[200:], Y[200:]) for m in (again, pickle.loads(pickle.dumps(stream)))]
    whole = DM2LClassifier(**parameters).partial_fit(X, Y)
    for model in on:
        check_same(model, whole, X, Y)


def test_unlearnt_rows_leave_the_sample(data):
    X, Y, _ = data
    never = DM2LClassifier().fit(X[:200], Y[:200])
    model = DM2LClassifier().partial_fit(X, Y).unlearn(X[200:], Y[200:])
    check_same(model, never, X, Y, atol=1e-7)
    kept = model._statistics["sample_X"]
    assert not (kept[:, None, 0] == X[None, 200:, 0]).any()


def test_rows_that_are_not_known_again_end_the_sample(data):
    X, Y, _ = data
    model = DM2LClassifier().partial_fit(X, Y)
    with pytest.warns(UserWarning, match="differ slightly"):
        model.unlearn(X[200:] * (1 + 1e-14), Y[200:])
    assert not hasattr(model, "label_covariance_")
    assert not any(name in model._statistics for name in ("sample_X", "sample_T"))
    model.partial_fit(X[200:], Y[200:])
    assert not hasattr(model, "label_covariance_")


def test_statistics_carry_their_rows_through_sums_and_files(data, tmp_path):
    X, Y, _ = data
    parts = [
        GramStatistics.gather(blocks_of(X[rows], Y[rows]))
        for rows in (slice(0, 120), slice(120, 250), slice(250, 300))
    ]
    parts[1].save(tmp_path / "one.npz")
    total = parts[0] + GramStatistics.load(tmp_path / "one.npz") + parts[2]
    check_same(DM2LClassifier().fit_statistics(total), DM2LClassifier().fit(X, Y), X, Y)
    rest = DM2LClassifier().fit_statistics(total - parts[1])
    left = np.r_[0:120, 250:300]
    check_same(rest, DM2LClassifier().fit(X[left], Y[left]), X, Y, atol=1e-7)


def test_a_damaged_sample_is_refused(data, tmp_path):
    X, Y, _ = data
    statistics = GramStatistics.gather(blocks_of(X, Y))
    state = statistics.state()
    for name, value in (("sample_T", state["sample_T"][1:]), ("sample_X", np.zeros((300, 4)))):
        with np.errstate(all="ignore"):
            statistics.save(tmp_path / "s.npz")
        with np.load(tmp_path / "s.npz") as archive:
            arrays = dict(archive)
        np.savez(tmp_path / "s.npz", **(arrays | {name: value}))
        with pytest.raises(ValueError, match="not a valid file of GramStatistics"):
            GramStatistics.load(tmp_path / "s.npz")


def test_statistics_without_rows_leave_features_alone(data):
    X, Y, _ = data
    bare = GramStatistics.gather(blocks_of(X, Y), sample=0)
    model = DM2LClassifier().fit_statistics(bare)
    assert not hasattr(model, "label_covariance_")
    holes = np.isnan(Y)
    np.testing.assert_array_equal(model.complete(X, Y)[holes], model.predict(X)[holes])
    with_rows = GramStatistics.gather(blocks_of(X, Y))
    assert not hasattr(DM2LClassifier().fit_statistics(with_rows + bare), "label_covariance_")


@pytest.mark.parametrize("parameters", [{"coupling": None}, {"classes": True}])
def test_no_rows_are_kept_where_nothing_is_coupled(parameters, data):
    X, Y, _ = data
    model = DM2LClassifier(coupling=parameters.get("coupling", "residual"))
    y = np.nan_to_num(Y[:, 0]) if "classes" in parameters else Y
    model.partial_fit(X, y, classes=[0, 1] if "classes" in parameters else None)
    assert not any(name.startswith("sample_") for name in model._statistics if "limits" not in name)
    model = DM2LClassifier(coupling=model.coupling, strategy="statistics").fit(X, y)
    assert not any(name.startswith("sample_") for name in model._statistics if "limits" not in name)


def test_forgetting_follows_labels_that_turn_around():
    X, Y, _ = make(n=600)
    turned = Y.copy()
    turned[:, 1] = 1 - turned[:, 1]
    model = DM2LClassifier().partial_fit(X, Y)
    assert model.label_covariance_.matrix()[0, 1] > 0.2
    for _ in range(3):
        model.partial_fit(X, turned, forgetting=0.3)
    fresh = DM2LClassifier().fit(X, turned).label_covariance_.matrix()
    np.testing.assert_allclose(model.label_covariance_.matrix(), fresh, atol=0.1)
    assert fresh[0, 1] < -0.2


# --------------------------------------------------------------------------- the law about leaks


@pytest.mark.parametrize("strategy", ["statistics", "passes"])
def test_hidden_truth_changes_nothing(strategy, data):
    X, Y, truth = data
    mask, found = ~np.isnan(Y), []
    for hidden in (truth, 1 - truth, np.nan * truth):
        given = np.where(mask, truth, hidden)
        source = RowBlocks.from_arrays(X, given, label_mask=mask, rows=80)
        model = DM2LClassifier(strategy=strategy).fit(source)
        found.append(model.complete(X, given, label_mask=mask, method="predict_proba"))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


# ---------------------------------------------------------------------- more rows than the sample


@pytest.fixture
def small_sample(monkeypatch):
    monkeypatch.setattr(_fits, "MAX_ROWS", 150)


def test_a_sample_is_the_same_for_all_orders_blocks_and_ways(small_sample, data):
    X, Y, truth = data
    whole = DM2LClassifier(strategy="statistics").fit(X, Y)
    assert len(whole._statistics["sample_T"]) == 150
    stream = DM2LClassifier()
    for rows in np.array_split(np.random.default_rng(3).permutation(len(Y)), 7):
        stream.partial_fit(X[rows], Y[rows])
    check_same(stream, whole, X, Y)
    order = np.random.default_rng(4).permutation(len(Y))
    check_same(DM2LClassifier(strategy="passes").fit(blocks_of(X, Y, 11, order)), whole, X, Y)
    holes = np.isnan(Y)
    right = (whole.complete(X, Y)[holes] == truth[holes]).mean()
    assert right > (whole.predict(X)[holes] == truth[holes]).mean() + 0.1


def test_a_sample_comes_near_the_coupling_of_all_rows(monkeypatch):
    monkeypatch.setattr(_fits, "MAX_ROWS", 1000)
    X, Y, _ = make(n=6000)
    some = DM2LClassifier(strategy="statistics").fit(blocks_of(X, Y, 500))
    all_rows = DM2LClassifier(strategy="memory").fit(X, Y)
    np.testing.assert_allclose(
        some.label_covariance_.matrix(), all_rows.label_covariance_.matrix(), atol=0.06
    )


@pytest.mark.parametrize("strategy", ["statistics", "passes"])
def test_memory_does_not_grow_with_rows_beyond_the_sample(strategy, monkeypatch):
    monkeypatch.setattr(_fits, "MAX_ROWS", 1000)

    def read(n):
        for start in range(0, n, 500):
            X, Y, _ = make(500, 20, 4, seed=start)
            yield X, Y

    peaks = []
    for n in (1_000, 4_000, 24_000):  # the first loads and caches
        tracemalloc.start()
        source = RowBlocks(lambda n=n: read(n))
        DM2LClassifier(max_iter=2, tol=1.0, strategy=strategy).fit(source)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < peaks[1] + 4 * 500 * 20 * 8
