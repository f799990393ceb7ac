"""The test of an audit inverts known labels and counts them among the first suspects."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dm2l import DM2LClassifier
from dm2l.completion import LabelErrors
from dm2l.tables import FitOptions, audit_table, fit_table, table_from_frame
from dm2l.tables._completion import FIRST, INVERTED, REPEATED, Audit, _test_audit


def audit_test(Y, X, *, together):
    model = DM2LClassifier().fit(X, Y)
    T, scores, refit = model._held_out_labels(X, Y)
    before = T.copy(), scores.copy()
    found = _test_audit(model, T, scores, refit=refit, together=together)
    np.testing.assert_array_equal(T, before[0])
    np.testing.assert_array_equal(scores, before[1])
    return found


def labels(noise, seed=0, n_rows=600):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    Y = (X @ rng.normal(size=(4, 5)) + noise * rng.normal(size=(n_rows, 5)) > 0).astype(float)
    return np.where(rng.random(Y.shape) < 0.7, Y, np.nan), X


def test_predictable_labels_reveal_inverted_ones_and_random_labels_do_not():
    found, suspects = audit_test(*labels(noise=0.0), together=[])
    assert suspects == REPEATED * FIRST
    assert found > 0.8 * suspects
    found, suspects = audit_test(*labels(noise=1e6), together=[])
    assert found < 5 * INVERTED * suspects  # chance is the share of inverted labels


def test_labels_of_a_column_with_several_values_are_not_inverted():
    Y, X = labels(noise=0.0)
    assert audit_test(Y, X, together=[[0, 1, 2, 3, 4]]) is None
    assert audit_test(Y, X, together=[[0, 1]])[0] > 0


def test_few_labels_are_tested_with_as_many_suspects_as_were_inverted():
    Y, X = labels(noise=0.0)
    Y[60:] = np.nan
    n = round(INVERTED * int((~np.isnan(Y)).sum()))
    assert audit_test(Y, X, together=[])[1] == REPEATED * n < REPEATED * FIRST
    model = DM2LClassifier().fit(X, Y)
    T, scores, refit = model._held_out_labels(X, Y)
    T[4:] = 0
    assert _test_audit(model, T, scores, refit=refit, together=[]) is None


def test_positives_only_have_no_test():
    Y, X = labels(noise=0.0)
    Y[Y == 0] = np.nan
    model = DM2LClassifier(missing_as="unlabelled").fit(X, Y)
    T, scores, refit = model._held_out_labels(X, Y)
    assert _test_audit(model, T, scores, refit=refit, together=[]) is None


@pytest.mark.parametrize(("wrong", "noise"), [(0.0, 0.1), (0.02, 0.1), (0.06, 0.1), (0.02, 0.5)])
def test_the_expected_share_of_errors_is_that_of_planted_ones(wrong, noise):
    covered, shares = 0, []
    for seed in range(3):
        Y, X = labels(noise, seed, n_rows=400)
        rng = np.random.default_rng(seed)
        planted = (rng.random(Y.shape) < wrong) & ~np.isnan(Y)
        frame = pd.DataFrame(X, columns=list("abcd"))
        names = [f"y{k}" for k in range(5)]
        frame[names] = np.where(planted, 1 - Y, Y)
        table = table_from_frame(frame, names)
        model = fit_table(table, FitOptions("linear", 0.1, 1.0, cv=3), estimate_folds=0)
        found = audit_table(model, table)
        mean, low, high = found.expected_errors(20)
        places = found.row[:20] - 1, [names.index(name) for name in found.label[:20]]
        share = planted[places].mean()
        covered += low <= share <= high
        shares.append((mean, share))
    assert covered >= 2
    assert abs(np.diff(np.mean(shares, axis=0))[0]) < 0.2


@pytest.mark.parametrize("seed", range(2))
def test_the_share_is_that_of_inverted_labels_that_were_really_there(seed):
    Y, X = labels(noise=0.5, seed=seed)
    share = np.divide(*audit_test(Y, X, together=[]))
    rng = np.random.default_rng(seed)
    known, found = np.flatnonzero(~np.isnan(Y)), 0
    for _ in range(6):
        wrong, flipped = rng.choice(known, round(INVERTED * len(known)), replace=False), Y.copy()
        flipped.flat[wrong] = 1 - flipped.flat[wrong]
        errors = DM2LClassifier().fit(X, flipped).find_label_errors(X, flipped)
        first = errors.row[:FIRST] * Y.shape[1] + errors.label[:FIRST]
        found += np.isin(first, wrong).mean() / 6
    assert share == pytest.approx(found, abs=0.15)


def audited(X, truth, wrong, rng):
    planted = (rng.random(truth.shape) < wrong) & (rng.random(truth.shape) < 0.7)
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    names = [f"y{k}" for k in range(truth.shape[1])]
    frame[names] = np.where(planted, 1 - truth, truth)
    table = table_from_frame(frame, names)
    model = fit_table(table, FitOptions("linear", 0.1, 1.0, cv=3), estimate_folds=0)
    found = audit_table(model, table, FIRST)
    places = found.row - 1, [names.index(name) for name in found.label]
    return found.expected_errors(FIRST), planted[places].mean()


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_allows_for_correct_labels_that_are_noisy_by_nature(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 4))
    p = 0.05 + 0.9 / (1 + np.exp(-2 * X @ rng.normal(size=(4, 5))))
    truth = (rng.random(p.shape) < p).astype(float)
    (_, low, high), share = audited(X, truth, 0.02, rng)
    assert share < 0.6  # most suspects are correct labels
    assert low <= share <= high
    # The interval of tables whose labels follow from the features excludes few errors.
    (_, low, high), share = audited(X, (p > 0.5).astype(float), 0.05, rng)
    assert 0.2 < low <= share <= high


@pytest.mark.parametrize("refit", [True, False])
def test_error_rates_are_those_of_models_of_other_rows(refit, monkeypatch):
    Y, X = labels(noise=0.5)
    model = DM2LClassifier().fit(X, Y)
    T, scores, _ = model._held_out_labels(X, Y)
    seen, of = [], LabelErrors.of
    monkeypatch.setattr(LabelErrors, "of", lambda *parts: seen.append(parts) or of(*parts))
    found = model._completer.find_label_errors(T, scores, refit=refit)
    signs, p, held_out = seen[0]
    # The ranking is that of p, and the probabilities are those of the other models.
    against = np.where(found.observed, 1 - p[found.row, found.label], p[found.row, found.label])
    assert (np.diff(against[against > 0.6]) <= 1e-12).all()
    assert np.allclose(found.probability, of(signs, held_out).probability)
    assert np.array_equal(p, held_out) == (not refit)


def test_errors_given_conflicts_have_bounds_below_their_probabilities():
    rng = np.random.default_rng(0)
    p = np.where(rng.random((4000, 2)) < 0.5, 0.7, 0.98)
    T = np.where(rng.random(p.shape) < np.where(p == 0.7, 0.3, 0.02), -1, 1).astype(np.int8)
    rows = np.flatnonzero(p[:, 0] != p[:, 1])[:20]
    found = LabelErrors.of(T, p)._given([(row, np.array([0, 1])) for row in rows])
    assert (found.lowest <= found.probability).all()
    for row in rows:  # at least one of the two is wrong
        here = found.probability[found.row == row]
        assert here.sum() >= 1 - 1e-9


def test_tiny_error_probabilities_of_a_conflict_do_not_vanish():
    found = LabelErrors.of(np.ones((1, 2), dtype=np.int8), np.full((1, 2), 0.9))
    tiny = replace(found, probability=np.full(2, 1e-17), lowest=np.full(2, 1e-17))
    given = tiny._given([(0, np.array([0, 1]))])
    np.testing.assert_allclose(given.probability, 0.5)
    np.testing.assert_allclose(given.lowest, 0.5)


def test_an_empty_audit_has_no_interval():
    none = np.empty(0)
    audit = Audit(none, [], none, none, none, none, none, [], lowest=none)
    expected = audit.expected_errors(20)
    assert expected.mean == 0
    assert np.isnan([expected.low, expected.high]).all()
