"""Learning where only positives are known: laws, oracles, leaks, refusals."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from dm2l import DM2LClassifier, DM2LClassifierCV
from dm2l._solvers.features import Features
from dm2l.baselines import LEMLClassifier, MaskedRidgeClassifier
from dm2l.datasets import make_missing_multilabel
from dm2l.labels import LabelMatrix
from dm2l.metrics import evaluate_positive_unlabelled, f1_macro, hamming_loss, label_auc
from dm2l.persistence import load_model, save_model
from dm2l.pu import (
    PUTargets,
    check_class_prior,
    correct_scores,
    estimate_class_prior,
    unlabelled_probability,
)
from dm2l.simulate import (
    infer_skipped_negatives,
    simulate_missing_positives,
    simulate_truncated,
)


@pytest.fixture(scope="module")
def rows():
    X, truth = make_missing_multilabel(n_samples=1200, rho=1.0, noise=0.3, random_state=0)
    return X, truth, simulate_missing_positives(truth, 0.4, become="unlabelled", random_state=1)


def model(**options):
    return DM2LClassifier(0.0, missing_as="unlabelled", **options)


def test_ridge_with_any_alpha_on_the_targets_gives_the_same_scores(rows):
    X, _, Y = rows
    features = Features(X, True)
    ticks = PUTargets.of(features, np.nan_to_num(Y))
    centred = X - X.mean(axis=0)
    for alpha in (0.1, 30.0):
        R = ticks.targets(alpha)
        square = centred.T @ centred + alpha * np.eye(X.shape[1])
        W = np.linalg.solve(square, centred.T @ (R - R.mean(axis=0)))
        assert np.allclose(centred @ W + R.mean(axis=0), ticks.scores, atol=1e-8)
    first, second = (model(alpha=a).fit(X, Y).decision_function(X) for a in (0.1, 30.0))
    assert np.allclose(first, second, atol=1e-6)


def test_one_label_is_ridge_with_the_likeliest_alpha(rows, monkeypatch):
    # Of one label the model is a Gaussian process: its marginal likelihood by the dense formula.
    X, _, Y = rows
    X, y = X[:400], np.nan_to_num(Y[:400, :1])
    monkeypatch.setattr("dm2l.pu.ROUNDS", 1000)
    ticks = PUTargets.of(Features(X, True), y, class_prior=0.5)
    w, U = np.linalg.eigh((X - X.mean(axis=0)) @ (X - X.mean(axis=0)).T)
    r = (U.T @ (y - y.mean()))[:, 0]

    def likelihood(alpha):
        scale = np.mean(r**2 / (w + alpha))
        return -0.5 * (np.log(np.maximum(w, 0) + alpha).sum() + len(y) * np.log(scale))

    alphas = np.geomspace(0.1, 1e5, 2000)
    best = alphas[np.argmax([likelihood(alpha) for alpha in alphas])]
    assert best < 1e4
    found = np.median((2 * y / y.mean() * 0.5 - 1 - ticks.scores) / ticks.pull)
    assert 0.95 < found / best < 1.05


def test_leave_one_out_scores_are_those_of_a_fit_without_the_row(rows):
    # With the covariances as they are: by the dense formula for one label.
    X, _, Y = rows
    X, y = X[:80], np.nan_to_num(Y[:80, :1])
    ticks = PUTargets.of(Features(X, True), y, class_prior=0.5)
    centred = X - X.mean(axis=0)
    scale = 2 / (y.mean() / 0.5)
    # left = scale (y - f) and pull = left / alpha, so that their ratio is the ridge that EM chose.
    alpha = float(np.median((scale * y - 1 - ticks.scores) / ticks.pull))
    others = np.arange(80) != 7
    A = np.hstack([X, np.ones((80, 1))])
    ridge = alpha * np.diag([1.0] * X.shape[1] + [0.0])
    w = np.linalg.solve(A[others].T @ A[others] + ridge, A[others].T @ (scale * y - 1)[others])
    assert np.allclose(A[7] @ w, ticks.leave_one_out_scores[7], atol=1e-6)
    assert centred.shape[0] == 80


def test_learns_more_than_absence_as_negative_and_the_right_odds(rows):
    X, truth, Y = rows
    train, test = slice(0, 800), slice(800, None)
    fitted = model(calibration="sigmoid").fit(X[train], Y[train])
    negative = DM2LClassifier(0.0, calibration="sigmoid").fit(X[train], np.nan_to_num(Y[train]))
    share = truth[test].mean(axis=0)
    off, naive = (
        np.abs(m.predict_proba(X[test]).mean(axis=0) - share) / share for m in (fitted, negative)
    )
    assert np.median(off) < 0.2 < np.median(naive)
    aucs = [label_auc(truth[test], m.decision_function(X[test])) for m in (fitted, negative)]
    assert aucs[0] > aucs[1] - 0.005


def test_a_class_prior_that_is_given_sets_the_level(rows):
    X, truth, Y = rows
    prior = truth.mean(axis=0)
    fitted = model(class_prior=prior).fit(X, Y)
    assert np.allclose(fitted.class_prior_, prior)
    plain = X @ fitted.coef_.T + fitted.intercept_  # before what is below zero is corrected
    assert np.allclose((1 + plain.mean(axis=0)) / 2, prior, atol=1e-6)
    assert not fitted.class_prior_error_.any()


def test_a_label_that_no_row_is_certain_of_gets_the_rate_of_the_others():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4000, 6))
    truth = scores > 0.5
    truth[:, 5] = rng.random(4000) < 0.2 + 0.1 * (scores[:, 5] > 0)  # a third at best
    Y = np.where(truth & (rng.random(truth.shape) < 0.4), 1.0, np.nan)
    found = estimate_class_prior(scores, Y)
    assert np.isclose(found.rate[5], found.rate[:5].min())  # of the median, or above it
    assert abs(found.value[5] - truth[:, 5].mean()) < found.standard_error[5]
    alone = estimate_class_prior(scores[:, 5:], Y[:, 5:])
    assert alone.value[0] > truth[:, 5].mean() + 0.2  # an upper bound, where nobody can help


def test_scores_below_zero_probability_are_corrected_and_keep_the_order_of_rows(rows):
    X, _, Y = rows
    fitted = model().fit(X, Y)
    plain = X @ fitted.coef_.T + fitted.intercept_
    scores, prior = fitted.decision_function(X), fitted.class_prior_
    assert (plain < -1).any()
    assert (scores > -1).all()
    frequent = (1 + plain) / 2 >= prior
    assert np.array_equal(scores[frequent], plain[frequent])
    for j in range(Y.shape[1]):
        assert (np.diff(scores[np.argsort(plain[:, j]), j]) >= 0).all()
    # The curve and its slope go on where the correction begins.
    near = 2 * (prior + np.array([[-1e-6], [0.0], [1e-6]])) - 1
    assert np.allclose(correct_scores(near, prior), near, atol=1e-10)


def test_few_ticks_a_label_learn_few_directions(monkeypatch):
    # Labels that three directions of features govern, seven ticks each.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 40))
    z = X[:, :3] @ rng.normal(size=(3, 100)) - 1.5
    truth = (z + rng.normal(size=z.shape) > 0).astype(float)
    Y = simulate_truncated(truth[:700], 1, random_state=0)
    some = (Y == 1).any(axis=0)
    Y, truth, fits = Y[:, some], truth[:, some], {}
    for ticks_a_number in (2, 0.01):  # the second has all directions
        monkeypatch.setattr("dm2l.pu.POSITIVES_PER_NUMBER", ticks_a_number)
        fits[ticks_a_number] = model().fit(X[:700], Y)
    few, all_of_them = (label_auc(truth[700:], f.decision_function(X[700:])) for f in fits.values())
    assert few > all_of_them + 0.02


@pytest.mark.parametrize("bad", [0.0, 1.5, [0.5], np.full((2, 2), 0.5)])
def test_a_class_prior_that_makes_no_sense_is_refused(rows, bad):
    X, _, Y = rows
    with pytest.raises(ValueError, match="class_prior"):
        model(class_prior=bad).fit(X, Y)


def test_a_class_prior_below_the_share_of_ticks_is_refused(rows):
    _, _, Y = rows
    with pytest.raises(ValueError, match="labelled as positives"):
        check_class_prior(0.001, np.where(Y == 1, 1, -1).astype(np.int8))


def test_dense_and_sparse_ticks_and_another_mark_give_one_model(rows):
    X, _, Y = rows
    scores = model().fit(X, Y).decision_function(X)
    stored = sp.csr_array(np.nan_to_num(Y))
    assert np.array_equal(model().fit(X, stored).decision_function(X), scores)
    marked = np.where(np.isnan(Y), -9, Y)
    other = model(missing_label=-9).fit(X, marked)
    assert np.array_equal(other.decision_function(X), scores)
    ridge = MaskedRidgeClassifier(missing_as="unlabelled").fit(X, Y)
    assert np.allclose(ridge.decision_function(X), scores, atol=1e-6)


def test_hidden_truth_is_never_read(rows):
    X, truth, Y = rows
    rng = np.random.default_rng(3)
    other = np.where(np.isnan(Y), rng.random(truth.shape) < 0.5, truth)
    again = np.where(np.isnan(Y), np.nan, other)
    options = {"calibration": "isotonic", "threshold": "f1", "kernel": "rbf"}
    first, second = (model(**options).fit(X[:300], labels[:300]) for labels in (Y, again))
    assert np.array_equal(first.predict_proba(X), second.predict_proba(X))
    assert np.array_equal(first.thresholds_, second.thresholds_)


def test_negatives_that_were_seen_tell_the_rates_without_certain_rows():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(20000, 1))
    p = 0.2 + 0.5 / (1 + np.exp(-2 * z))  # never near one
    truth = rng.random(p.shape) < p
    seen = rng.random(p.shape) < np.where(truth, 0.4, 0.1)
    Y = np.where(seen, truth, np.nan)
    found = estimate_class_prior(z, Y)
    assert abs(found.value[0] - truth.mean()) < 3 * found.standard_error[0] < 0.15
    ticks_only = estimate_class_prior(z, np.where(Y == 1, 1.0, np.nan))
    assert ticks_only.value[0] > truth.mean() + 0.1  # no row is certain: an upper bound


def test_known_negatives_are_used(rows):
    X, truth, _ = rows
    rng = np.random.default_rng(5)
    keep = rng.random(truth.shape) < np.where(truth == 1, 0.3, 0.5)
    Y = np.where(keep, truth, np.nan)
    ticks = np.where(Y == 1, 1.0, np.nan)
    aucs = [
        label_auc(truth[800:], model().fit(X[:800], labels[:800]).decision_function(X[800:]))
        for labels in (Y, ticks)
    ]
    assert aucs[0] > aucs[1]


def test_completion_keeps_ticks_and_lowers_what_was_passed_over(rows):
    X, _, Y = rows
    fitted = model(calibration="sigmoid").fit(X, Y)
    p = fitted.complete(X, Y, method="predict_proba")
    assert (p[Y == 1] == 1).all()
    plain = fitted.predict_proba(X)
    holes = np.isnan(Y)
    near = X + 1e-9  # rows that are not recognised as training rows
    in_sample = fitted.complete(near, Y, method="predict_proba")
    assert (in_sample[holes] <= plain[holes] + 1e-6).all()
    assert (fitted.complete(near, Y)[holes] <= fitted.predict(X)[holes]).all()
    assert (fitted.complete(X, Y)[Y == 1] == 1).all()


def test_training_rows_are_completed_with_out_of_fold_scores():
    X, truth = make_missing_multilabel(400, 200, rho=1.0, noise=0.3, random_state=0)
    Y = simulate_missing_positives(truth, 0.4, become="unlabelled", random_state=0)
    fitted = model(calibration="sigmoid").fit(X, Y)
    p = fitted.complete(X, Y, method="predict_proba")
    in_sample = fitted.complete(X + 1e-9, Y, method="predict_proba")  # rows are not recognised
    overlooked = fitted.class_prior_.sum() * len(Y) - (Y == 1).sum()
    missing = np.isnan(Y)
    assert p[missing].sum() == pytest.approx(overlooked, rel=0.02)
    assert in_sample[missing].sum() < 0.97 * overlooked
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.complete(X, Y, method="predict_proba") == p).all()
    rows = [3, 50, 51]  # also if only some rows are completed
    assert (fitted.complete(X[rows], Y[rows], method="predict_proba") == p[rows]).all()


def test_probability_of_what_was_not_ticked_is_bayes_rule():
    rng = np.random.default_rng(0)
    truth = rng.random(400_000) < 0.6
    ticked = truth & (rng.random(400_000) < 0.7)
    found = unlabelled_probability(np.array([[0.6]]), np.array([0.7]))[0, 0]
    assert abs(found - truth[~ticked].mean()) < 0.005


def test_search_chooses_by_ticks_and_refuses_what_they_cannot_tell(rows):
    X, _, Y = rows
    search = DM2LClassifierCV([0.0], [1.0], gammas=[0.01, 10.0], kernel="rbf", cv=3)
    search.set_params(missing_as="unlabelled").fit(X[:300], Y[:300])
    assert search.gamma_ == 0.01
    assert search.class_prior_.shape == (Y.shape[1],)
    with pytest.raises(ValueError, match="cannot be estimated from positive-unlabelled"):
        search.set_params(scoring="f1_macro").fit(X[:300], Y[:300])


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        (LEMLClassifier(missing_as="unlabelled"), {}, "LEMLClassifier does not support missing_as"),
        (model(coupling="joint"), {}, "coupling='joint'"),
        (model(), {"label_mask": np.ones((60, 5), dtype=bool)}, "label_mask"),
        (model(), {"sample_weight": np.ones(60)}, "does not support sample_weight"),
        (model(strategy="statistics"), {}, "needs all rows"),
    ],
)
def test_what_ticks_do_not_go_with_is_refused(rows, estimator, options, message):
    X, _, Y = rows
    with pytest.raises(ValueError, match=message):
        estimator.fit(X[:60], Y[:60, :5], **options)


def test_measures_of_ticks_estimate_those_of_complete_labels():
    rng = np.random.default_rng(0)
    truth = rng.random((20000, 3)) < [0.1, 0.3, 0.5]
    scores = 1.5 * truth + rng.normal(size=truth.shape) - 0.7
    Y = np.where(truth & (rng.random(truth.shape) < [0.5, 0.3, 0.6]), 1.0, np.nan)
    found = evaluate_positive_unlabelled(Y, scores, truth.mean(axis=0), k=[1])
    first = truth[np.arange(len(truth)), scores.argmax(axis=1)].mean()
    for name, value in (
        ("label_auc", label_auc(truth, scores)),
        ("f1_macro", f1_macro(truth, scores > 0)),
        ("hamming_loss", hamming_loss(truth, scores > 0)),
        ("precision_at_1", first),
    ):
        assert abs(found[name].value - value) < max(4 * found[name].standard_error, 0.01), name
        assert found[name].kind == "estimate"
    stored = evaluate_positive_unlabelled(
        sp.csr_array(np.nan_to_num(Y)), scores, truth.mean(axis=0), k=[1]
    )
    assert stored == found
    labels = LabelMatrix.from_array(Y, missing_as="unlabelled")
    assert evaluate_positive_unlabelled(labels, scores, truth.mean(axis=0), k=[1]) == found
    with pytest.raises(ValueError, match="evaluate_positive_unlabelled"):
        label_auc(labels, scores)


def test_masks_leave_ticks_alone(rows):
    _, truth, _ = rows
    one = simulate_truncated(truth, 1, random_state=0)
    some = truth.any(axis=1)
    assert (np.nansum(one, axis=1) == some).all()
    assert (truth[one == 1] == 1).all()
    assert not (one == 0).any()
    three = simulate_truncated(truth, 3, random_state=0)
    assert (np.nansum(three, axis=1) == np.minimum(truth.sum(axis=1), 3)).all()
    popular = simulate_truncated(truth, 1, order="popularity", random_state=0)
    counts = truth.sum(axis=0)
    for row in np.flatnonzero(some)[:50]:
        assert counts[np.nanargmax(popular[row])] == counts[truth[row] == 1].max()
    salient = simulate_truncated(
        truth, 1, order=np.tile(np.arange(truth.shape[1]), (len(truth), 1))
    )
    assert all(
        np.nanargmax(salient[i]) == np.flatnonzero(truth[i])[-1] for i in range(50) if some[i]
    )
    rates = np.linspace(0.2, 0.9, truth.shape[1])
    kept = np.nansum(
        simulate_missing_positives(truth, rates, become="unlabelled", random_state=0), axis=0
    )
    assert np.array_equal(kept, np.ceil(rates * counts * (1 - 1e-12)))


@pytest.mark.parametrize("k", [0, True, 1.5])
def test_masks_refuse_numbers_of_ticks_that_are_none(k):
    with pytest.raises(ValueError, match="k must be"):
        simulate_truncated([[1, 0]], k)


def test_a_list_says_no_above_its_last_tick():
    Y = np.array([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]])
    found = infer_skipped_negatives(Y, [[3, 1, 0, 2], [0, 1, 2, 3], [0, 1, 2, 3]])
    nan = np.nan
    expected = [[nan, 1, nan, 0], [1, 0, 0, 1], [nan, nan, nan, nan]]
    assert np.array_equal(found, expected, equal_nan=True)
    with pytest.raises(ValueError, match="once"):
        infer_skipped_negatives(Y, [0, 0, 1, 2])


def test_a_model_of_ticks_survives_a_file(rows, tmp_path):
    X, _, Y = rows
    fitted = model(calibration="sigmoid").fit(X[:200], Y[:200])
    save_model(fitted, tmp_path / "ticks.dm2l")
    again = load_model(tmp_path / "ticks.dm2l")
    assert np.array_equal(again.class_prior_error_, fitted.class_prior_error_)
    filled = (m.complete(X[:200], Y[:200], method="predict_proba") for m in (fitted, again))
    assert np.array_equal(*filled)


@pytest.mark.parametrize("new", [True, False])
def test_doubts_are_about_what_was_not_ticked(rows, new):
    X, truth, Y = rows
    fitted = model(calibration="sigmoid").fit(X, Y)
    doubts = fitted.find_label_errors(X * (1 + 1e-12) if new else X, Y)
    assert len(doubts) == np.isnan(Y).sum()
    assert np.isnan(Y[doubts.row, doubts.label]).all()
    assert not doubts.observed.any()
    assert (np.diff(doubts.probability) <= 0).all()
    right = truth[doubts.row, doubts.label] == 1
    assert right[:100].mean() > 2 * right.mean()
    # What is said about false alarms is so, give or take.
    assert abs(doubts.false_alarms[299] - (1 - right[:300].mean())) < 0.15
    assert not (fitted.find_label_errors(X, np.where(np.isnan(Y), 0.0, Y)).row.size)


@pytest.mark.parametrize("estimator", [DM2LClassifier, MaskedRidgeClassifier])
@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.filterwarnings("ignore:.*constant")
def test_labels_without_ticks_or_with_nothing_else_leave_the_others_alone(rows, estimator, share):
    X, ticks = rows[0][:300], rows[2][:300].copy()
    rest = np.delete(ticks, 1, axis=1)
    ticks[:, 1] = 1.0 if share else np.nan
    given = np.linspace(0.8, 0.9, ticks.shape[1])
    given[1] = share or 0.5
    for prior in (None, given):
        options = {"missing_as": "unlabelled", "calibration": "sigmoid", "cv": 3}
        model = estimator(class_prior=prior, **options).fit(X, ticks)
        fewer = None if prior is None else np.delete(prior, 1)
        without = estimator(class_prior=fewer, **options).fit(X, rest)
        assert model.class_prior_[1] == share
        scores = np.delete(model.decision_function(X), 1, axis=1)
        assert np.allclose(scores, without.decision_function(X), atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*constant")
def test_labels_of_which_none_can_be_learnt_have_a_prior_as_well(rows):
    X, ticks = rows[0][:50], np.tile([1.0, np.nan], (50, 1))
    for estimator in (DM2LClassifier, MaskedRidgeClassifier):
        model = estimator(missing_as="unlabelled", calibration="sigmoid").fit(X, ticks)
        assert model.class_prior_.tolist() == [1.0, 0.0]
        assert (model.complete(X, ticks, method="predict_proba") == [1.0, 0.0]).all()


def test_a_class_prior_may_be_less_than_the_share_of_ticks_in_a_fold(rows):
    X, ticks = rows[0][:300], rows[2][:300]
    share = np.nan_to_num(ticks).mean(axis=0)
    options = {"missing_as": "unlabelled", "class_prior": share, "cv": 3}
    model = DM2LClassifier(calibration="sigmoid", **options).fit(X, ticks)
    assert np.allclose(model.predict_proba(X).mean(axis=0), share, atol=0.05)
    search = DM2LClassifierCV(lambda_ds=[0.0], alphas=[1.0], **options).fit(X, ticks)
    assert np.isfinite(search.best_score_)


def test_zeros_in_place_of_blanks_are_told():
    X = np.random.default_rng(0).normal(size=(60, 3))
    Y = (X[:, :2] > 0).astype(float)
    model = DM2LClassifier(missing_as="unlabelled", coupling=None)
    with pytest.warns(UserWarning, match=r"an observed negative\. Mark unlabelled entries by NaN"):
        model.fit(X, Y)
    model.fit(X, np.where(Y == 1, 1.0, np.nan))


@pytest.mark.parametrize("seed", range(8))
def test_priors_are_shares_where_everything_was_seen(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 5))
    Y = (X @ rng.normal(size=(5, 6)) + rng.normal(size=(200, 6)) > 0).astype(float)
    model = DM2LClassifier(missing_as="unlabelled", coupling=None)
    with pytest.warns(UserWarning, match="0 counts as an observed negative"):
        model.fit(X, Y)
    np.testing.assert_allclose(model.class_prior_, Y.mean(axis=0), rtol=1e-6)


def test_a_label_without_a_tick_says_nothing_about_rates():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(300, 3))
    Y = np.where((scores > 0) & (rng.random(scores.shape) < 0.5), 1.0, np.nan)
    Y[:, 2] = np.nan
    found = estimate_class_prior(scores, Y)  # a warning would be an error
    assert found.value[2] == 0
    assert np.isfinite(found.standard_error).all()
