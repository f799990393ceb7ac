"""Scores of any model as inputs: calibration, what follows from it, and in-sample scores."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

from dm2l import ScoreClassifier
from dm2l._auto._score_classifier import uncertainty_ratio
from dm2l._base import FitResult
from dm2l.active import EntrySampling
from dm2l.baselines import MaskedOneVsRestClassifier, MaskedRidgeClassifier
from dm2l.datasets import make_missing_multilabel
from dm2l.deployment import to_onnx
from dm2l.labels import ConstantLabelWarning
from dm2l.model_selection import cross_val_decision
from dm2l.persistence import load_model, save_model
from dm2l.testing import check_missing_label_estimator


def drawn(n=400, c=4, seed=0):
    """Probabilities, labels drawn from them that share a residual factor, and a third missing."""
    rng = np.random.default_rng(seed)
    eta = rng.normal(size=(n, c)) * 1.5 - 0.5
    noise = rng.normal(size=(n, 1)) + 0.3 * rng.normal(size=(n, c))
    truth = (eta + noise > 0).astype(float)
    return eta, np.where(rng.random((n, c)) < 0.65, truth, np.nan), truth


@pytest.fixture(scope="module")
def case():
    eta, Y, truth = drawn()
    return eta, Y, truth, ScoreClassifier().fit(eta, Y)


def log_loss(truth, p, where):
    return -np.log(np.where(truth == 1, p, 1 - p))[where].mean()


DISTORTIONS = {
    "probability": lambda eta: expit(0.5 * eta + 1),
    "logit": lambda eta: 300 * eta * (1 + np.arange(eta.shape[1])) - 40,
    "rank": lambda eta: np.sinh(eta) ** 3,
}


@pytest.mark.parametrize("scale", DISTORTIONS)
def test_probabilities_are_recovered_from_distorted_scores(scale):
    rng = np.random.default_rng(1)
    eta = rng.normal(size=(3000, 3)) * 1.5 - 0.5
    Y = np.where(rng.random(eta.shape) < 0.7, rng.random(eta.shape) < expit(eta), np.nan)
    model = ScoreClassifier(scale, coupling=None).fit(DISTORTIONS[scale](eta), Y)
    p = model.predict_proba(DISTORTIONS[scale](eta))
    assert np.abs(p - expit(eta)).mean() < 0.02
    # A distorted probability is not one: it would be wrong by this much.
    assert np.abs(expit(0.5 * eta + 1) - expit(eta)).mean() > 0.15


def test_the_scale_is_detected_and_affine_and_monotone_maps_change_nothing(case):
    eta, Y, _, model = case
    assert model.scale_ == "logit"
    assert ScoreClassifier(coupling=None).fit(expit(eta), Y).scale_ == "probability"
    shift, stretch = np.arange(4.0), 1 + np.arange(4.0)
    other = ScoreClassifier(coupling=None).fit(shift + stretch * eta, Y)
    p = other.predict_proba(shift + stretch * eta)
    np.testing.assert_allclose(p, model.predict_proba(eta), atol=1e-9)
    ranked = ScoreClassifier("rank", coupling=None).fit(eta, Y)
    cubed = ScoreClassifier("rank", coupling=None).fit(eta**3, Y)
    new = np.random.default_rng(3).normal(size=(50, 4))
    np.testing.assert_array_equal(ranked.predict_proba(new), cubed.predict_proba(new**3))


def test_known_labels_of_a_row_improve_on_its_scores_within_the_error_rate(case):
    eta, Y, truth, model = case
    missing = np.isnan(Y)
    filled = model.complete(eta, Y, method="predict_proba")
    own = log_loss(truth, model.predict_proba(eta), missing)
    assert log_loss(truth, filled, missing) < 0.9 * own
    chosen, summary = model.complete(eta, Y, max_error_rate=0.1, return_summary=True)
    here = missing & ~np.isnan(chosen)
    assert 0 < summary.n_left < missing.sum()
    assert here.any()
    assert (chosen != truth)[here].mean() <= 0.1 + np.sqrt(0.1 * 0.9 / here.sum())


def test_permuting_rows_and_labels_permutes_the_results(case):
    eta, Y, _, _ = case
    rng = np.random.default_rng(2)
    rows, labels = rng.permutation(len(Y)), rng.permutation(4)
    split = [
        (np.flatnonzero(np.arange(len(Y)) % 4 != k), np.arange(k, len(Y), 4)) for k in range(4)
    ]
    place = np.argsort(rows)
    moved = [(place[train], place[test]) for train, test in split]
    one = ScoreClassifier(cv=split).fit(eta, Y)
    P = one.complete(eta, Y, method="predict_proba")
    other = ScoreClassifier(cv=moved).fit(eta[rows], Y[rows])
    found = other.complete(eta[rows], Y[rows], method="predict_proba")
    np.testing.assert_allclose(found, P[rows], atol=1e-9)
    # Rows are sampled by their content, which is another one if the columns are permuted.
    S, Z = eta[:, labels], Y[:, labels]
    other = ScoreClassifier(cv=split).fit(S, Z)
    p = other.predict_proba(S)
    np.testing.assert_allclose(p, one.predict_proba(eta)[:, labels], atol=1e-9)
    found = other.complete(S, Z, method="predict_proba")
    np.testing.assert_allclose(found, P[:, labels], atol=0.1)


def test_with_identity_calibration_leave_one_out_scores_of_ridge_give_its_completion(monkeypatch):
    class Identity(ScoreClassifier):
        _label_answers = None

        def _fit_labels(self, X, labels):
            self.scale_ = "logit"
            return FitResult(leave_one_out_scores=X[:, self._learnable])

        def _score_labels(self, X):
            return X[:, self._learnable]

    # Rows are sampled in the order of their digests, which are not the same for scores.
    module = "dm2l.completion._completer.row_digests"
    monkeypatch.setattr(module, lambda X, **_: np.arange(len(X), dtype=np.uint64))
    X, Y = make_missing_multilabel(150, 6, 4, rho=0.5, random_state=0)
    ridge = MaskedRidgeClassifier(coupling="residual").fit(X, Y)
    T = np.nan_to_num(2 * Y - 1).astype(int)
    rows = ridge._completer.training_rows
    scores = rows.hold_out(X, T, ridge.decision_function(X))
    found = Identity().fit(scores, Y).complete(scores, Y, method="predict_proba")
    expected = ridge.complete(X, Y, method="predict_proba")
    # Held-out scores are stored in single precision.
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_label_contract_of_all_estimators():
    results = check_missing_label_estimator(ScoreClassifier(cv=2, coupling=None), on_fail="return")
    assert not [result for result in results if result.status == "failed"]
    assert sum(result.status == "passed" for result in results) > 20


def test_missing_scores_count_as_the_observed_rate(case):
    eta, Y, truth, model = case
    S = eta.copy()
    S[:, 3] = np.nan
    S[np.random.default_rng(0).random(S.shape) < 0.2] = np.nan
    for scale in ("auto", "rank"):
        found = ScoreClassifier(scale).fit(S, Y)
        p = expit(found._own_odds(S))
        known = ~np.isnan(Y)
        rate = (np.nansum(Y, axis=0) + 0.5) / (known.sum(axis=0) + 1)
        absent = np.isnan(S)
        np.testing.assert_allclose(p[absent], np.broadcast_to(rate, p.shape)[absent], atol=1e-9)
        assert np.ptp(p[:, 3]) == 0
        filled = found.complete(S, Y, method="predict_proba")
        blank = np.isnan(Y[:, 3])
        assert roc_auc_score(truth[blank, 3], filled[blank, 3]) > 0.65
    nothing = np.full((2, 4), np.nan)
    np.testing.assert_allclose(expit(model._own_odds(nothing))[0], rate, atol=1e-9)
    assert np.isfinite(model.predict_proba(nothing)).all()


def test_weights_of_other_labels_minimize_the_penalized_log_loss(case):
    eta, Y, _, model = case
    own = model._own_odds(eta)
    A, y = np.tanh(own / 2) - model._mean, Y[:, 2]
    here = ~np.isnan(y)

    def loss(w):
        margin = (own[here, 2] + A[here] @ w) * (2 * y[here] - 1)
        return np.logaddexp(0, -margin).sum() + w @ w

    best = minimize(loss, np.zeros(4)).x
    np.testing.assert_allclose(model._cross[:, 2], best, atol=1e-4)
    odds = np.log(model.predict_proba(eta)[:, 2] / (1 - model.predict_proba(eta)[:, 2]))
    np.testing.assert_allclose(odds, own[:, 2] + A @ best, atol=1e-3)


def test_degenerate_labels_and_few_rows(case):
    eta, Y, _, _ = case
    Z = Y.copy()
    Z[:, 0], Z[:, 1] = np.nan, np.where(np.isnan(Y[:, 1]), np.nan, 1.0)
    with pytest.warns(ConstantLabelWarning):
        model = ScoreClassifier().fit(eta, Z)
    assert (model.predict(eta)[:, 1] == 1).all()
    assert np.ptp(model.predict_proba(eta)[:, 0]) == 0
    with pytest.warns(ConstantLabelWarning):
        none = ScoreClassifier().fit(eta, np.where(np.isnan(Y), np.nan, 1.0))
    assert (none.predict(eta) == 1).all()
    one = ScoreClassifier().fit(eta[:, :1], Y[:, :1])
    assert not np.isnan(one.complete(eta[:, :1], Y[:, :1])).any()
    S, few = [[0.0], [1.0], [2.0]], [[0], [1], [np.nan]]
    for scale in ("logit", "rank"):
        tiny = ScoreClassifier(scale, cv=2).fit(S, few)
        assert tiny.complete(S, few).ravel().tolist() == [0, 1, 1]
    assert set(ScoreClassifier().fit(eta[:, :1], np.arange(400) % 2).predict(eta[:, :1])) <= {0, 1}


@pytest.mark.parametrize("scale", ["probability", "logit", "rank"])
def test_files_and_graphs_give_the_same_answers(case, tmp_path, scale):
    eta, Y, _, _ = case
    S = (expit(eta) if scale == "probability" else eta).astype(np.float32).astype(float)
    S[::7, 2] = np.nan
    Z = Y.copy()
    Z[:, 1] = np.where(np.isnan(Y[:, 1]), np.nan, 0.0)
    with pytest.warns(ConstantLabelWarning):
        model = ScoreClassifier(scale, columns=[0, 1, 2, 3]).fit(S, Z)
    save_model(model, tmp_path / "model.dm2l")
    again = load_model(tmp_path / "model.dm2l")
    for method in ("predict", "predict_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(again, method)(S), getattr(model, method)(S))
    np.testing.assert_array_equal(again.complete(S, Z), model.complete(S, Z))
    if scale == "rank":
        with pytest.raises(ValueError, match="rank"):
            to_onnx(model)
        return
    runtime = pytest.importorskip("onnxruntime", reason="runs graphs: pip install onnxruntime")
    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    found = session.run(["scores", "probabilities", "labels"], {"X": S.astype(np.float32)})
    np.testing.assert_allclose(found[0], model.decision_function(S), atol=1e-5)
    np.testing.assert_allclose(found[1], model.predict_proba(S), atol=1e-5)
    np.testing.assert_array_equal(found[2], model.predict(S))


def test_queries_and_label_errors(case):
    eta, Y, truth, model = case
    pairs = EntrySampling().query(eta, Y, model, fit_clf=False, batch_size=20)
    assert len({tuple(pair) for pair in pairs.tolist()}) == 20
    assert np.isnan(Y[tuple(pairs.T)]).all()
    assert len(set(pairs[:, 1])) > 1
    wrong = np.random.default_rng(0).random(Y.shape) < 0.03
    flipped = np.where(wrong, 1 - Y, Y)
    found = ScoreClassifier().fit(eta, flipped).find_label_errors(eta, flipped)
    first = found.row[:20], found.label[:20]
    assert (flipped != truth)[first].mean() > 0.5


def test_unsuitable_scores_are_refused(case):
    eta, Y, _, model = case
    with pytest.raises(ValueError, match="3 columns of scores, but y has 4 labels"):
        ScoreClassifier().fit(eta[:, :3], Y)
    with pytest.raises(ValueError, match=r"Row 0 of X .*scale='logit'"):
        ScoreClassifier("probability").fit(np.abs(eta) + 2, Y)
    shares = ScoreClassifier(coupling=None).fit(expit(eta), Y)
    with pytest.raises(ValueError, match="from 0 to 1"):
        shares.predict(3 + expit(eta))
    with pytest.raises(ValueError, match="infin"):
        model.predict(np.full((1, 4), np.inf))
    with pytest.raises(ValueError, match="scale must be"):
        ScoreClassifier("odds").fit(eta, Y)
    frame = pd.DataFrame(Y, columns=list("abcd"))
    with pytest.raises(ValueError, match=r"'d' is the first column of X, but 'a' is"):
        ScoreClassifier().fit(pd.DataFrame(eta, columns=list("dabc")), frame)


def forest_scores(case_seed, held_out):
    X, Y = make_missing_multilabel(150, 8, 4, rho=0.5, random_state=case_seed)
    model = MaskedOneVsRestClassifier(RandomForestClassifier(12, random_state=0))
    held = held_out and cross_val_decision(model, X, Y, cv=3)
    scores = held if held_out else model.fit(X, Y).decision_function(X)
    return scores, Y


def test_in_sample_scores_are_reported_and_out_of_fold_scores_are_not():
    S, Y = forest_scores(0, held_out=False)
    with pytest.warns(UserWarning, match="in-sample, because they are much more certain"):
        ScoreClassifier(coupling=None).fit(S, Y)
    S, Y = forest_scores(0, held_out=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ScoreClassifier(coupling=None).fit(S, Y)


def test_the_ratio_and_its_error_are_those_of_loops_and_of_the_bootstrap():
    eta, Y, _ = drawn(n=300, c=3, seed=4)
    T, P = np.nan_to_num(2 * Y - 1).astype(int), expit(eta)
    T[:, 2] = 1  # nothing is missing, so that the label cannot be compared
    ratio, error = uncertainty_ratio(T, P)
    sums = [0.0, 0.0]
    for k in range(2):
        for part, sign in ((0, T[:, k] == 0), (1, T[:, k] != 0)):
            sums[part] += sum(p * (1 - p) for p in P[sign, k]) / sign.sum()
    assert ratio == pytest.approx(sums[0] / sums[1])
    rng = np.random.default_rng(0)
    drawn_again = [rng.integers(300, size=300) for _ in range(300)]
    spread = np.std([np.log(uncertainty_ratio(T[rows], P[rows])[0]) for rows in drawn_again])
    assert error == pytest.approx(spread, rel=0.15)
    assert uncertainty_ratio(T[:, 2:], P[:, 2:]) == (1.0, np.inf)
