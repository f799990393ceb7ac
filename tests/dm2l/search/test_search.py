"""The search gives what fitting every setting on every fold alone gives, and sees no more."""

import tracemalloc
import warnings

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from dm2l import DM2LClassifier, DM2LClassifierCV
from dm2l._fitting import Trainer
from dm2l._search._path import Grid
from dm2l._solvers.features import ridge_value
from dm2l._solvers.lbfgs import solve_lbfgs
from dm2l.datasets import make_missing_multilabel
from dm2l.metrics import hamming_loss, ranking_loss
from dm2l.metrics._ranking import ranking_and_discrimination
from dm2l.model_selection import MultilabelKFold, get_scorer_names, selection_score

LAMBDAS, ALPHAS = [0.1, 0.0, 0.5], [3.0, 0.3]
TIGHT = {"search_tol": 1e-10, "search_iter": 3000}


def data(n=90, d=5, c=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    scores = X @ rng.standard_normal((d, c)) + 0.5 * rng.standard_normal((n, c))
    Y = np.where(rng.random((n, c)) < 0.4, np.nan, scores > 0.3)
    Y[::17] = np.nan
    return X, Y


def alone(X, Y, folds, gamma=None, metric=ranking_and_discrimination, **settings):
    """Every setting on every fold, each by itself."""
    rows = []
    for alpha in ALPHAS:
        for lambda_d in LAMBDAS:
            options = {} if gamma is None else {"gamma": gamma}
            options["coupling"] = None  # scores are the subject
            model = DM2LClassifier(lambda_d, alpha, tol=1e-10, max_iter=3000, **options, **settings)
            rows.append(
                [
                    metric(Y[test], model.fit(X[train], Y[train]).decision_function(X[test]))
                    for train, test in folds
                ]
            )
    return np.array(rows)


def splits(search):
    results = search.cv_results_
    return np.stack([results[f"split{i}_test_score"] for i in range(search.n_splits_)], axis=1)


def folds_of(Y, k=3):
    return list(MultilabelKFold(k, random_state=1).split(np.zeros((len(Y), 1)), Y))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"fit_intercept": False},
        {"discriminant": False},
        {"kernel": "rbf"},
        {"kernel": "poly", "degree": 2},
        {"kernel": "cosine"},
        {"kernel": "rbf", "approximation": "nystroem", "n_components": 30, "random_state": 0},
        {"kernel": "rbf", "approximation": "fourier", "n_components": 30, "random_state": 0},
    ],
    ids=str,
)
def test_search_scores_every_setting_as_a_fit_alone_does(settings):
    X, Y = data()
    folds = folds_of(Y)
    kernel = settings.get("kernel") not in (None, "cosine")
    gamma = 0.2 if kernel else None
    search = DM2LClassifierCV(
        LAMBDAS, ALPHAS, [gamma] if kernel else None, cv=folds, refit=False, **TIGHT, **settings
    ).fit(X, Y)
    expected = alone(X, Y, folds, gamma, **settings)
    # A path may end in another local minimum than a start from ridge: close, not equal.
    np.testing.assert_allclose(splits(search), expected, atol=5e-3)
    # An estimate is a smooth function of scores, which agree to the tolerance of the fits.
    assert np.median(np.abs(splits(search) - expected)) < 1e-6


def test_several_gammas_are_the_searches_over_each():
    X, Y = data()
    options = {"kernel": "rbf", "cv": folds_of(Y), "refit": False}
    both = DM2LClassifierCV(LAMBDAS, ALPHAS, [0.1, 0.5], **options).fit(X, Y)
    for i, gamma in enumerate((0.1, 0.5)):
        one = DM2LClassifierCV(LAMBDAS, ALPHAS, [gamma], **options).fit(X, Y)
        np.testing.assert_array_equal(splits(one), splits(both)[6 * i : 6 * i + 6])
    assert both.cv_results_["param_gamma"].tolist() == [0.1] * 6 + [0.5] * 6
    assert both.gamma_ in (0.1, 0.5)


def test_a_kernel_matrix_gives_what_its_kernel_gives():
    X, Y = data()
    options = {"cv": folds_of(Y), "lambda_ds": LAMBDAS, "alphas": ALPHAS}
    named = DM2LClassifierCV(gammas=[0.3], kernel="rbf", **options).fit(X, Y)
    K = rbf_kernel(X, gamma=0.3)
    given = DM2LClassifierCV(kernel="precomputed", **options).fit(K, Y)
    np.testing.assert_allclose(splits(given), splits(named), atol=1e-8)
    np.testing.assert_allclose(given.decision_function(K), named.decision_function(X), atol=1e-6)


def test_ridges_that_share_a_factor_are_solved_as_with_their_own(monkeypatch):
    X, Y = data()
    ridges = [0.05, 1.0, 0.2, 30.0]
    options = {"cv": folds_of(Y), "kernel": "rbf", "refit": False, "fit_intercept": False} | TIGHT
    own = splits(DM2LClassifierCV([0.0, 0.1], ridges, [0.3], **options).fit(X, Y))
    monkeypatch.setattr("dm2l._search._path.MANY", 0)

    def one_by_one(grid, factor, group):
        return [list(grid.path(factor, a)) for a in group]

    for place in ("together", "one after the other"):
        shared = splits(DM2LClassifierCV([0.0, 0.1], ridges, [0.3], **options).fit(X, Y))
        np.testing.assert_allclose(shared, own, atol=1e-5, err_msg=place)
        monkeypatch.setattr(Grid, "together", one_by_one)


@pytest.mark.parametrize("seed", range(3))
def test_threads_give_the_same_in_every_run_and_choose_as_well_as_others(monkeypatch, seed):
    X, Y = data(n=110, seed=seed)
    search = DM2LClassifierCV(LAMBDAS, [3.0, 0.3, 0.1], [0.1, 0.3], kernel="rbf", refit=False)
    own = clone(search).fit(X, Y)
    monkeypatch.setattr("dm2l._search._path.MANY", 0)
    shared, again = (clone(search).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(splits(shared), splits(again))
    # Five iterations leave scores of these few rows apart in the third decimal.
    assert own.cv_results_["mean_test_score"][shared.best_index_] >= own.best_score_ - 2e-3


@pytest.mark.parametrize("observed", [0.5, 1.0])
def test_a_ridge_is_searched_alike_whichever_others_are(monkeypatch, observed):
    X, Y = data()
    monkeypatch.setattr("dm2l._search._path.MANY", 0)
    rng = np.random.default_rng(0)
    Y = np.where(rng.random(Y.shape) <= observed, np.nan_to_num(Y), np.nan)
    options = {"cv": folds_of(Y), "kernel": "rbf", "refit": False} | TIGHT
    options["scoring"] = (
        "label_ranking_average_precision"  # of ranks: values tell how exact the steps were
    )

    def searched(*ridges):
        return splits(DM2LClassifierCV([0.0, 0.3], ridges, [0.3], **options).fit(X, Y))

    among = searched(1.0, 0.1, 3.0)
    alone = [searched(ridge) for ridge in (1.0, 0.1, 3.0)]
    np.testing.assert_allclose(among, np.concatenate(alone), atol=1e-5)


def test_the_best_setting_is_fitted_to_all_rows():
    X, Y = data()
    search = DM2LClassifierCV(LAMBDAS, ALPHAS, cv=3).fit(X, Y)
    results = search.cv_results_
    best = int(np.argmax(results["mean_test_score"]))
    assert search.best_index_ == best
    assert results["rank_test_score"][best] == 1
    assert search.best_params_ == results["params"][best]
    assert (search.lambda_d_, search.alpha_, search.gamma_) == (
        search.best_params_["lambda_d"],
        search.best_params_["alpha"],
        None,
    )
    assert search.best_score_ == results["mean_test_score"][best]
    np.testing.assert_allclose(results["mean_test_score"], splits(search).mean(axis=1))
    np.testing.assert_allclose(results["std_test_score"], splits(search).std(axis=1))
    model = DM2LClassifier(**search.best_params_).fit(X, Y)
    for method in ("decision_function", "predict", "predict_proba"):
        np.testing.assert_array_equal(getattr(search, method)(X), getattr(model, method)(X))
    np.testing.assert_array_equal(search.complete(X, Y), model.complete(X, Y))
    np.testing.assert_array_equal(search.coef_, model.coef_)
    assert search.score(X, Y) == model.score(X, Y)


@pytest.mark.parametrize("name", get_scorer_names())
def test_any_metric_of_the_library_can_choose(name):
    X, Y = data()
    folds = folds_of(Y)
    search = DM2LClassifierCV([0.1], [1.0], scoring=name, cv=folds, refit=False).fit(X, Y)
    train, test = folds[0]
    model = DM2LClassifier(0.1, 1.0, tol=1e-4).fit(X[train], Y[train])
    found = search.cv_results_["split0_test_score"][0]
    assert found == pytest.approx(
        selection_score(name, Y[test], model.decision_function(X[test])), abs=0.02
    )


def test_metrics_of_decisions_and_losses_have_their_sign():
    Y = np.array([[1.0, 0.0], [np.nan, 1.0]])
    scores = np.array([[0.4, 0.5], [-1.0, 2.0]])
    loss = selection_score("neg_hamming_loss", Y, scores)
    assert loss == -hamming_loss(Y, (scores > 0) * 1.0)
    assert selection_score("neg_ranking_loss", Y, scores) == -ranking_loss(Y, scores)


def test_a_function_can_choose():
    X, Y = data()
    seen = []

    def metric(Y_test, scores):
        seen.append((Y_test.shape, scores.shape, np.isnan(Y_test).any()))
        return -ranking_loss(Y_test, scores)

    folds = folds_of(Y)
    own = DM2LClassifierCV(LAMBDAS, ALPHAS, scoring=metric, cv=folds, refit=False).fit(X, Y)
    named = DM2LClassifierCV(
        LAMBDAS, ALPHAS, scoring="neg_ranking_loss", cv=folds, refit=False
    ).fit(X, Y)
    np.testing.assert_array_equal(splits(own), splits(named))
    assert len(seen) == 18
    assert all(a == b and missing for a, b, missing in seen)


def test_hidden_labels_change_nothing():
    X, Y = data()
    mask = ~np.isnan(Y)
    rng = np.random.default_rng(5)
    fits = []
    for _ in range(2):
        hidden = np.where(mask, Y, rng.integers(0, 2, Y.shape))
        fits.append(DM2LClassifierCV(LAMBDAS, ALPHAS, cv=3).fit(X, hidden, label_mask=mask))
    np.testing.assert_array_equal(splits(fits[0]), splits(fits[1]))
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)


def test_processes_and_sparse_inputs_change_nothing():
    X, Y = data()
    options = {"cv": folds_of(Y), "lambda_ds": LAMBDAS, "alphas": ALPHAS}
    one = DM2LClassifierCV(**options).fit(X, Y)
    two = DM2LClassifierCV(n_jobs=2, **options).fit(X, Y)
    np.testing.assert_allclose(splits(two), splits(one), atol=1e-12)
    stored = DM2LClassifierCV(**options).fit(sp.csr_array(X), Y)
    np.testing.assert_allclose(splits(stored), splits(one), atol=1e-8)


def test_search_follows_arrays_of_other_libraries():
    X, Y = data()
    options = {"cv": folds_of(Y), "lambda_ds": LAMBDAS, "alphas": ALPHAS, "kernel": "rbf"}
    ordinary = DM2LClassifierCV(**options).fit(X, Y)
    # Version 2.1 of array_api_strict moves arrays between its devices on numpy 2 only.
    device = "device1" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "CPU_DEVICE"
    there = strict.asarray(X, device=strict.Device(device))
    search = DM2LClassifierCV(n_jobs=2, **options).fit(there, Y)
    np.testing.assert_allclose(splits(search), splits(ordinary), atol=1e-8)
    assert search.decision_function(there).device == there.device


def test_without_a_final_fit_there_is_no_model():
    X, Y = data()
    search = DM2LClassifierCV([0.1], [1.0], cv=3).fit(X, Y)
    search.set_params(refit=False).fit(X, Y)
    assert not hasattr(search, "best_estimator_")
    assert not hasattr(search, "coef_")
    with pytest.raises(NotFittedError, match="refit=False"):
        search.predict(X)


def test_defaults_are_eleven_weights_and_five_ridges():
    X, Y = data(60)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        search = DM2LClassifierCV(cv=2, refit=False).fit(X, Y)
    assert len(search.cv_results_["params"]) == 55
    assert 0.0 in search.cv_results_["param_lambda_d"]
    scale = ridge_value("scale", X)
    assert np.isclose(search.cv_results_["param_alpha"], scale).any()


def test_progress_is_reported(capsys):
    X, Y = data()
    DM2LClassifierCV([0.1], [1.0], cv=3, verbose=1, refit=False).fit(X, Y)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        f"[DM2L search] {i} of 3 folds" for i in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lambda_ds": []}, r"lambda_ds must be None or .* got \[\]"),
        ({"lambda_ds": 0.1}, "lambda_ds must be None or .* got 0.1"),
        ({"lambda_ds": [0.1, -1.0]}, r"each of lambda_ds must be a finite number >= 0, got -1.0"),
        ({"alphas": [np.inf]}, "each of alphas must be a finite number >= 0, got inf"),
        ({"alphas": ["scale"]}, "each of alphas must be a finite number >= 0, got 'scale'"),
        ({"gammas": ["wide"], "kernel": "rbf"}, "each of gammas must be .* got 'wide'"),
        ({"scoring": "accuracy"}, "scoring must be None, a function or one of .* got 'accuracy'"),
        ({"n_jobs": 0}, "n_jobs must be None or a non-zero integer"),
        ({"search_tol": -1.0}, "search_tol must be a finite number >= 0"),
        ({"search_iter": 0}, "search_iter must be an integer >= 1"),
        ({"kernel": "nonsense"}, "kernel must be"),
        ({"approximation": "fourier"}, "needs kernel='rbf'"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(options, message):
    X, Y = data(20)
    with pytest.raises(ValueError, match=message):
        DM2LClassifierCV(**options).fit(X, Y)


def test_a_metric_that_is_never_defined_is_an_error():
    X, Y = data()

    def nothing(Y_test, scores):
        return np.nan

    with pytest.raises(ValueError, match="undefined on every fold"):
        DM2LClassifierCV([0.1], [1.0], cv=3, scoring=nothing).fit(X, Y)


def test_a_setting_that_a_metric_cannot_judge_is_last():
    X, Y = data()

    def moderate(Y_test, scores):
        return np.nan if np.abs(scores).max() > 0.5 else 0.5

    search = DM2LClassifierCV([0.0, 1e4], [1.0], cv=3, scoring=moderate).fit(X, Y)
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], [np.nan, 0.5])
    np.testing.assert_array_equal(search.cv_results_["rank_test_score"], [2, 1])
    assert search.lambda_d_ == 1e4
    with pytest.raises(ValueError, match="NaN on some folds for every candidate"):
        DM2LClassifierCV([0.0, 0.1], [1.0], cv=folds_of(Y), scoring=InTurn()).fit(X, Y)


class InTurn:
    """A metric that is undefined on another fold for each setting."""

    def __init__(self):
        self.calls = 0

    def __call__(self, Y, scores):
        self.calls += 1
        return np.nan if self.calls in (1, 4) else 0.5


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_a_single_label_is_not_judged_by_its_rank_in_a_row(shape):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 60))
    y = (X[:, 0] + rng.standard_normal(150) > 0).astype(int).reshape(shape)
    found = DM2LClassifierCV(cv=3).fit(X, y)
    named = DM2LClassifierCV(cv=3, scoring="label_discrimination").fit(X, y)
    assert len(set(found.cv_results_["mean_test_score"])) > 1
    np.testing.assert_array_equal(splits(found), splits(named))
    assert found.best_params_ == named.best_params_


def test_several_labels_are_judged_both_ways():
    X, Y = data()
    found = DM2LClassifierCV(LAMBDAS, ALPHAS, cv=3).fit(X, Y)
    named = DM2LClassifierCV(LAMBDAS, ALPHAS, cv=3, scoring="ranking_and_discrimination").fit(X, Y)
    np.testing.assert_array_equal(splits(found), splits(named))


@pytest.mark.parametrize("calibration", ["sigmoid", None])
def test_splits_may_come_from_a_generator(calibration):
    X, Y = data()
    settings = {"calibration": calibration, "threshold": "f1"}
    folds = folds_of(Y)
    listed = DM2LClassifierCV(LAMBDAS, ALPHAS, cv=folds, **settings).fit(X, Y)
    found = DM2LClassifierCV(LAMBDAS, ALPHAS, cv=(fold for fold in folds), **settings)
    np.testing.assert_array_equal(found.fit(X, Y).predict_proba(X), listed.predict_proba(X))
    np.testing.assert_array_equal(found.thresholds_, listed.thresholds_)
    with pytest.raises(ValueError, match=r"cv has no folds.*list"):
        found.fit(X, Y)
    model = DM2LClassifier(cv=(fold for fold in folds), **settings).fit(X, Y)
    other = DM2LClassifier(cv=folds, **settings).fit(X, Y)
    np.testing.assert_array_equal(model.predict_proba(X), other.predict_proba(X))


def test_gammas_keep_their_types():
    X, Y = data()
    search = DM2LClassifierCV([0.1], [1.0], ["scale", 0.5], kernel="rbf", cv=3).fit(X, Y)
    assert search.cv_results_["param_gamma"].tolist() == ["scale", 0.5]
    assert search.cv_results_["param_alpha"].dtype == np.float64


def test_rows_of_which_nothing_is_known_do_not_move_the_folds():
    X, Y = data()
    seen = ~np.isnan(Y).all(axis=1)
    some = DM2LClassifierCV(LAMBDAS, ALPHAS, cv=3).fit(X, Y)
    only = DM2LClassifierCV(LAMBDAS, ALPHAS, cv=3).fit(X[seen], Y[seen])
    np.testing.assert_array_equal(splits(some), splits(only))


def test_weights_that_are_good_enough_for_the_next_lambda_are_kept():
    """Tiny weights change nothing; beyond collapse nothing changes any more."""
    X, Y = make_missing_multilabel(random_state=0)
    lambdas = (1e-7, 1e-6, 1e-5, 0.3, 1e3, 1e5)
    search = DM2LClassifierCV(lambdas, alphas=(1.0,), cv=2, search_tol=1e-4, search_iter=200)
    scores = search.fit(X, Y).cv_results_["mean_test_score"]
    assert scores[0] == scores[1] == scores[2]
    assert scores[4] == scores[5]
    assert len(set(scores)) == 3


def test_a_second_fit_forgets_the_first():
    X, Y = data(60, c=3)
    search = DM2LClassifierCV((0.1, 1.0), (1.0,), cv=3).fit(X[:, ::-1], Y[:, ::-1])
    search.fit(X, Y)
    np.testing.assert_array_equal(search.predict(X), clone(search).fit(X, Y).predict(X))
    assert search.coef_ is search.best_estimator_.coef_


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(
    "lambdas",
    [(0.0, *(k * 10**e for e in (-2, -1, 0) for k in (1, 2, 5)), 10.0), (0.0, 1e-3, 10.0)],
    ids=["usual", "coarse"],
)
def test_weights_of_a_path_are_near_the_end_at_every_setting(kernel, lambdas):
    """Objectives of a path are those of tight solutions, to what scores can tell."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 10))
    noise = 2 * rng.normal(size=(150, 8))
    T = np.sign(X @ rng.normal(size=(10, 8)) + noise).astype(np.int8)
    T[rng.random(T.shape) < 0.3] = 0
    fitting = Trainer.of(DM2LClassifier(kernel=kernel, tol=1e-3, max_iter=5))
    prepared = fitting.prepare(X, T, alphas=[3.0])
    factor = prepared.preconditioner(prepared.problem(3.0, 0.0))
    for setting in Grid(fitting, prepared, [3.0], list(lambdas)).path(factor, 0):
        problem = prepared.problem(3.0, lambdas[setting.place])
        start = factor.to_variables(setting.W)
        tight = solve_lbfgs(problem, factor, start, tol=1e-9, max_iter=300).objective
        assert problem.exact(setting.W) <= 1.02 * tight, lambdas[setting.place]


def test_a_first_look_across_many_orders_of_magnitude_is_not_taken():
    """What norms of weight 1e-300 added to the objective is rounding, times 1e280 still."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 10))
    T = np.sign(X @ rng.normal(size=(10, 8)) + 2 * rng.normal(size=(150, 8))).astype(np.int8)
    fitting = Trainer.of(DM2LClassifier(tol=1e-4, max_iter=50))
    prepared = fitting.prepare(X, T, alphas=[3.0])
    factor = prepared.preconditioner(prepared.problem(3.0, 0.0))
    lambdas = [0.0, 1e-300, 1e-20, 1.0]
    *_, last = Grid(fitting, prepared, [3.0], lambdas).path(factor, 0)
    problem = prepared.problem(3.0, 1.0)
    tight = solve_lbfgs(problem, factor, factor.to_variables(last.W), tol=1e-9, max_iter=300)
    assert problem.exact(last.W) <= 1.001 * tight.objective


def test_memory_does_not_grow_with_the_number_of_settings():
    X, Y = data(200, 100, 30)

    def peak(n_alphas):
        search = DM2LClassifierCV(
            [0.0], np.geomspace(1, 1e4, n_alphas), cv=2, refit=False, scoring=lambda *_: 0.0
        )
        tracemalloc.start()
        try:
            search.fit(X, Y)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(2)  # what is imported and cached at first
    assert peak(60) < 1.3 * peak(6)


def test_metrics_of_other_libraries_arrays_are_as_quiet_as_the_caller():
    X, Y = data()

    def divides(Y_test, scores):
        return float(np.nan_to_num(np.ones(1) / np.zeros(1))[0] > 0)

    with np.errstate(divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        DM2LClassifierCV([0.1], [1.0], cv=2, refit=False, scoring=divides).fit(strict.asarray(X), Y)
