"""Estimators with rules between labels: parameters, coherent answers, and files."""

from dataclasses import astuple

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from dm2l import AutoClassifier, DM2LClassifier, DM2LClassifierCV
from dm2l.baselines import LEMLClassifier, MaskedOneVsRestClassifier, MaskedRidgeClassifier
from dm2l.deployment import to_onnx
from dm2l.labels import LabelRules
from dm2l.persistence import load_model, save_model
from dm2l.tables._suggestion import answer_values

NAMES = ["animal", "reptile", "snake", "mammal", "small", "large"]
RULES = LabelRules(
    [("snake", "reptile"), ("reptile", "animal"), ("mammal", "animal")],
    [("reptile", "mammal")],
    exactly_one=[("small", "large")],
)


def labelled(n=120, observed=0.6, seed=0):
    """Features, complete labels that obey RULES, and the same with missing entries."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    Z = X[:, :4] + 0.7 * rng.normal(size=(n, 4))
    animal = Z[:, 0] > -0.5
    reptile, mammal = animal & (Z[:, 1] > 0.3), animal & (Z[:, 1] < -0.3)
    parts = [animal, reptile, reptile & (Z[:, 2] > 0), mammal, Z[:, 3] > 0, Z[:, 3] <= 0]
    truth = np.column_stack(parts).astype(float)
    Y = np.where(rng.random(truth.shape) < observed, truth, np.nan)
    return X, pd.DataFrame(truth, columns=NAMES), pd.DataFrame(Y, columns=NAMES)


def test_rules_must_be_label_rules_for_the_labels():
    X, _, Y = labelled()
    with pytest.raises(TypeError, match="rules must be None or LabelRules, got 'a => b'"):
        DM2LClassifier(rules="a => b").fit(X, Y)
    with pytest.raises(ValueError, match=r"unknown label 'snakes'\. Did you mean 'snake'"):
        DM2LClassifier(rules=LabelRules([("snakes", "reptile")])).fit(X, Y)
    with pytest.raises(ValueError, match="Rules need a label matrix"):
        DM2LClassifier(rules=RULES).fit(X, Y["snake"].fillna(0).astype(int).to_numpy())


def test_label_names_of_the_rules_name_plain_arrays():
    X, _, Y = labelled()
    named = LabelRules(RULES.implications, label_names=NAMES)
    assert list(MaskedRidgeClassifier(rules=named).fit(X, Y.to_numpy()).label_names_) == NAMES
    other = MaskedRidgeClassifier(rules=LabelRules([("y2", "y1")])).fit(X, Y.to_numpy())
    assert list(other.label_names_) == [f"y{k}" for k in range(6)]


def test_a_model_with_rules_has_no_onnx_graph():
    X, _, Y = labelled()
    with pytest.raises(ValueError, match="label rules are not supported"):
        to_onnx(DM2LClassifier(rules=RULES).fit(X, Y))


def probabilities(model, X, Y):
    """All outputs of a model that depend on calibration, correlation or rules."""
    filled, summary = model.complete(X, Y, max_error_rate=0.1, return_summary=True)
    outputs = (
        model.predict(X),
        model.predict_proba(X),
        filled.to_numpy(),
        np.array(astuple(summary)),
    )
    return *outputs, model.complete(X, Y, method="predict_proba").to_numpy()


def test_rules_do_not_change_the_scores_and_none_change_nothing():
    X, _, Y = labelled()
    plain, empty, ruled = (
        DM2LClassifier(rules=rules).fit(X, Y) for rules in (None, LabelRules(), RULES)
    )
    np.testing.assert_array_equal(plain.coef_, ruled.coef_)
    np.testing.assert_array_equal(plain.decision_function(X), ruled.decision_function(X))
    for one, other in zip(probabilities(plain, X, Y), probabilities(empty, X, Y), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"threshold": "f1"}, {"threshold": 0.2}, {"calibration": "isotonic"}, {"coupling": None}],
    ids=str,
)
def test_answers_obey_the_rules(parameters):
    X, truth, Y = labelled()
    plain = DM2LClassifier(**parameters).fit(X, Y)
    model = DM2LClassifier(rules=RULES, **parameters).fit(X, Y)
    assert RULES.violations(plain.predict(X), NAMES).sum() > 0
    assert not RULES.violations(model.predict(X), NAMES).any()
    filled, summary = model.complete(X, Y, return_summary=True)
    assert not RULES.violations(filled).any()
    known = RULES.propagate(Y).to_numpy()
    implied = np.isnan(Y.to_numpy()) & ~np.isnan(known)
    assert summary.n_implied == implied.sum() > 0
    assert summary.n_implied + summary.n_yes + summary.n_no == np.isnan(Y.to_numpy()).sum()
    np.testing.assert_array_equal(filled.to_numpy()[implied], truth.to_numpy()[implied])
    for p in (model.predict_proba(X), model.complete(X, Y, method="predict_proba").to_numpy()):
        for child, parent in RULES.implications:
            assert (p[:, NAMES.index(child)] <= p[:, NAMES.index(parent)] + 1e-9).all()
        assert (p[:, 1] + p[:, 3] <= 1 + 1e-9).all()
        np.testing.assert_allclose(p[:, 4] + p[:, 5], 1, atol=1e-9)
    np.testing.assert_array_equal(p[implied], truth.to_numpy()[implied])


def test_a_bounded_error_rate_leaves_what_is_implied_filled():
    X, _, Y = labelled()
    model = DM2LClassifier(rules=RULES).fit(X, Y)
    filled, summary = model.complete(X, Y, max_error_rate=0.05, return_summary=True)
    known = RULES.propagate(Y).to_numpy()
    assert summary.n_left == np.isnan(filled.to_numpy()).sum() > 0
    np.testing.assert_array_equal(filled.to_numpy()[~np.isnan(known)], known[~np.isnan(known)])
    assert not RULES.violations(filled).any()
    count = model._completer.correlation.error_rates.n.sum()
    plain = DM2LClassifier().fit(X, Y)._completer.correlation.error_rates.n.sum()
    redundant = RULES._named(model._labels)._logic.redundant(np.nan_to_num(2 * Y - 1).astype(int))
    assert plain - count == redundant.sum() > 0


def filled_with_bound(model, X, Y, truth, bound):
    """Share of missing entries that are filled, and error rate of those with no and with yes."""
    filled, summary = model.complete(X, Y, max_error_rate=bound, return_summary=True)
    filled, hidden = np.asarray(filled), np.isnan(np.asarray(Y))
    wrong = filled != np.asarray(truth)
    sides = [hidden & (filled == value) for value in (0, 1)]
    rates = [wrong[side].mean() if side.any() else 0.0 for side in sides]
    assert not summary.expected_wrong > bound
    return (hidden & ~np.isnan(filled)).sum() / hidden.sum(), *rates


@pytest.mark.parametrize(("n", "bounds"), [(200, (0.02, 0.05)), (1000, (0.05, 0.1))])
def test_rules_fill_more_under_the_same_bound(n, bounds):
    found = {bound: [] for bound in bounds}
    for seed in range(8):
        X, truth, Y = labelled(n, 0.5, seed)
        models = [DM2LClassifier(rules=rules).fit(X, Y) for rules in (None, RULES)]
        for bound, shares in found.items():
            shares.append([filled_with_bound(model, X, Y, truth, bound) for model in models])
    for bound, shares in found.items():
        without, (share, *rates) = np.mean(shares, axis=0)
        assert share > without[0], bound
        assert max(rates) <= bound


def test_labels_of_a_group_that_are_known_together_do_not_weaken_the_bound():
    rules, found = LabelRules(exactly_one=[["y0", "y1", "y2"]]), []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(600, 3))
        scores = X + 0.8 * rng.normal(size=X.shape)
        truth = (scores == scores.max(axis=1, keepdims=True)).astype(float)
        Y = np.where(rng.random(600)[:, None] < 0.5, truth, np.nan)
        found.append(filled_with_bound(DM2LClassifier(rules=rules).fit(X, Y), X, Y, truth, 0.1))
    assert max(np.mean(found, axis=0)[1:]) <= 0.1


def test_hidden_labels_have_no_effect():
    X, truth, Y = labelled()
    mask, model = ~np.isnan(Y.to_numpy()), DM2LClassifier(rules=RULES)
    flipped = truth.where(mask, 1 - truth)
    one, other = (clone(model).fit(X, y, mask) for y in (truth, flipped))
    for a, b in zip(probabilities(one, X, Y), probabilities(other, X, Y), strict=True):
        np.testing.assert_array_equal(a, b)


def test_order_of_the_labels_does_not_matter():
    X, _, Y = labelled()
    order = [3, 0, 5, 1, 4, 2]
    one, other = (MaskedRidgeClassifier(rules=RULES).fit(X, y) for y in (Y, Y.iloc[:, order]))
    proba = {"method": "predict_proba"}
    np.testing.assert_allclose(
        other.complete(X, Y.iloc[:, order], **proba), one.complete(X, Y, **proba).iloc[:, order]
    )
    np.testing.assert_array_equal(other.predict(X), one.predict(X)[:, order])


def test_a_row_that_contradicts_the_rules_is_named_and_suspected():
    X, truth, Y = labelled()
    clean = DM2LClassifier(rules=RULES).fit(X, truth)
    wrong = truth.copy()
    row = int(np.flatnonzero(truth["snake"] == 1)[0])
    wrong.loc[row, "reptile"] = 0.0
    told = rf"1 row\(s\) contradict the rules. In row {row} \(counted from 0\), 'snake'"
    with pytest.warns(UserWarning, match=told):
        model = DM2LClassifier(rules=RULES).fit(X, wrong)
    found = model.find_label_errors(X, wrong)
    first = {(int(i), NAMES[k]) for i, k in zip(found.row[:5], found.label[:5], strict=True)}
    assert first & {(row, "snake"), (row, "reptile")}
    assert (np.diff(found.probability) <= 0).all()
    at = np.flatnonzero((found.row == row) & (found.label < 3))
    assert found.probability[at].sum() >= 1 - 1e-9  # one of these labels is wrong
    Y.loc[row] = wrong.loc[row]
    Y.loc[row, "large"] = np.nan
    with pytest.warns(UserWarning, match="contradict the rules"):
        filled = clean.complete(X, Y)
    known = Y.loc[row].notna()
    pd.testing.assert_series_equal(filled.loc[row][known], Y.loc[row][known], check_dtype=False)


def test_positives_only():
    X, truth, _ = labelled(200)
    ticks = truth.where((truth == 1) & (np.random.default_rng(1).random(truth.shape) < 0.5))
    model = MaskedRidgeClassifier(rules=RULES, missing_as="unlabelled").fit(X, ticks)
    assert not RULES.violations(model.predict(X), NAMES).any()
    filled, summary = model.complete(X, ticks, return_summary=True)
    assert not RULES.violations(filled).any()
    assert summary.n_implied > 0
    suspected = model.find_label_errors(X, ticks)
    implied = ticks.isna().to_numpy() & (RULES.propagate(ticks) == 1).to_numpy()
    assert (suspected.probability[implied[suspected.row, suspected.label]] == 1).all()


def test_an_answer_is_worth_what_it_implies():
    X, _, Y = labelled()
    Y.iloc[:40] = np.nan
    model = DM2LClassifier(rules=RULES).fit(X, Y)
    values = answer_values(model, X, Y.to_numpy())
    plain = answer_values(DM2LClassifier().fit(X, Y), X, Y.to_numpy())
    p, e = values.probability[:40], values.own[:40]
    snake, large = NAMES.index("snake"), NAMES.index("large")
    implied = p[:, snake] * (e[:, 0] + e[:, 1] + e[:, 3])
    assert (values.row[:40, snake] >= implied - 1e-12).all()
    assert (values.row[:40, large] >= e[:, NAMES.index("small")] - 1e-12).all()
    assert values.row[:40, large].sum() > plain.row[:40, large].sum()


@pytest.mark.parametrize(
    "model",
    [
        DM2LClassifier(rules=RULES),
        DM2LClassifierCV([0.0], [1.0], cv=2, rules=RULES),
        AutoClassifier("quick", cv=2, rules=RULES, random_state=0),
        MaskedRidgeClassifier(rules=RULES, missing_as="unlabelled"),
        MaskedOneVsRestClassifier(LogisticRegression(), rules=RULES),
        LEMLClassifier(rules=RULES),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_with_rules_are_saved_and_loaded(model, tmp_path):
    X, _, Y = labelled()
    model = clone(model).fit(X, Y.where(Y == 1) if model.missing_as == "unlabelled" else Y)
    save_model(model, tmp_path / "model.dm2l")
    loaded = load_model(tmp_path / "model.dm2l")
    assert loaded.rules == RULES
    assert loaded._completer.rules.label_names == tuple(NAMES)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
