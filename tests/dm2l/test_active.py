"""Queries of (row, label) pairs: values, diversity, candidates, and the loop of scikit-activeml."""

import numpy as np
import pytest

from dm2l import DM2LClassifier
from dm2l.active import EntrySampling
from dm2l.datasets import make_missing_multilabel
from dm2l.tables._suggestion import answer_effects, answer_values, choose_batch


@pytest.fixture(scope="module")
def case():
    X, Y, truth = make_missing_multilabel(90, 6, 4, rho=0.4, random_state=0, return_truth=True)
    model = DM2LClassifier(0.1, 1.0, calibration="sigmoid", coupling="residual").fit(X, Y)
    return X, Y, truth, model


def test_the_first_of_a_batch_is_the_most_valuable_entry_and_values_are_those_of_suggest(case):
    X, Y, _, model = case
    pairs, utilities = EntrySampling().query(
        X, Y, model, fit_clf=False, batch_size=5, return_utilities=True
    )
    total = np.where(np.isnan(Y), answer_values(model, X, Y).total, np.nan)
    np.testing.assert_allclose(utilities[0], total)
    assert utilities.shape == (5, *Y.shape)
    for (i, k), values in zip(pairs, utilities, strict=True):
        assert values[i, k] == np.nanmax(values)
    assert len({tuple(pair) for pair in pairs.tolist()}) == 5
    assert np.isnan(Y[tuple(pairs.T)]).all()
    one = EntrySampling().query(X, Y, model, fit_clf=False)
    np.testing.assert_array_equal(one, pairs[:1])


def test_what_is_left_to_be_told_is_that_of_a_label_whose_row_is_known(case):
    """Against effects from scratch with the entry known, and correlations from an inverse."""
    X, Y, _, model = case
    values = answer_values(model, X, Y)
    holes = np.isnan(Y)
    pairs, steps = choose_batch(values, holes, holes, 4)
    known, own, row = Y.copy(), values.own.copy(), values.row.copy()
    p = values.probability
    Phi = np.column_stack([values.directions, np.ones(len(X))])
    penalty = np.append(np.full(Phi.shape[1] - 1, values.alpha), 1e-8)
    for (i, k), step in zip(pairs, [*steps[1:], None], strict=True):
        seen = ~np.isnan(known[:, k])
        inverse = np.linalg.inv(Phi[seen].T @ Phi[seen] + np.diag(penalty))
        unknown = Phi @ inverse @ Phi.T
        rho = unknown[i] / np.sqrt(unknown[i, i] * np.diag(unknown))
        own[:, k] *= 1 - rho**2
        known[i, k] = 1.0
        row[i] = 0
        if step is None:
            continue
        effect = (
            2 * values.skill * answer_effects(values.directions, known, values.alpha, values.slope)
        )
        expected = own + row + 4 * p * (1 - p) * effect
        np.testing.assert_allclose(step, np.where(np.isnan(known), expected, np.nan), atol=1e-10)


def test_copies_of_a_row_are_not_asked_for_together():
    X, Y = make_missing_multilabel(60, 5, 4, rho=0.5, random_state=1)
    model = DM2LClassifier(0.1, 1.0, calibration="sigmoid", coupling="residual").fit(X, Y)
    i, k = EntrySampling().query(X, Y, model, fit_clf=False)[0]
    copies = 8
    X = np.vstack([X, np.repeat(X[i : i + 1], copies, axis=0)])
    Y = np.vstack([Y, np.repeat(Y[i : i + 1], copies, axis=0)])
    same = {int(i), *range(60, 60 + copies)}

    def repeated(pairs):
        return sum(int(r) in same and int(c) == k for r, c in pairs)

    values = answer_values(model, X, Y).total
    values[~np.isnan(Y)] = -1
    top = np.column_stack(np.unravel_index(np.argsort(-values, axis=None)[:9], Y.shape))
    assert repeated(top) >= 8  # each by itself is among the best
    assert repeated(EntrySampling().query(X, Y, model, fit_clf=False, batch_size=9)) <= 1


def test_only_candidates_are_asked_for(case):
    X, Y, _, model = case
    holes = np.argwhere(np.isnan(Y))
    for candidates in (holes[:3], np.isnan(Y) & (np.arange(4) == 2)):
        pairs = EntrySampling().query(
            X, Y, model, fit_clf=False, candidates=candidates, batch_size=500
        )
        allowed = holes[:3] if len(candidates) == 3 else np.argwhere(candidates)
        assert sorted(pairs.tolist()) == sorted(allowed.tolist())


@pytest.mark.parametrize("mark", [-1, None, 9.5])
def test_another_mark_of_what_is_missing_gives_the_same(case, mark):
    X, Y, _, model = case
    marked = np.where(np.isnan(Y), mark, Y.astype(object))
    if mark is not None:
        marked = marked.astype(float)
    expected = EntrySampling().query(X, Y, model, fit_clf=False, batch_size=3)
    found = EntrySampling(mark).query(X, marked, model, fit_clf=False, batch_size=3)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"batch_size": 0}, ValueError, "batch_size must be"),
        ({"batch_size": 1.5}, ValueError, "integer"),
        ({"candidates": [[0, 99]]}, ValueError, "outside Y"),
        ({"candidates": [1, 2]}, ValueError, "pairs"),
        ({"candidates": np.ones((90, 4), bool)}, ValueError, "is observed in Y"),
        ({"Y": np.zeros((90, 4))}, ValueError, "Y has no missing entry to query"),
        ({"candidates": np.zeros((90, 4), bool)}, ValueError, "candidates has no entry"),
        ({"clf": DM2LClassifier()}, ValueError, "not fitted"),
        ({"Y": np.full((90, 4), 3.0)}, ValueError, "Labels must be 0/1"),
        ({"Y": np.zeros(90)}, ValueError, "1-D"),
        ({"clf": object()}, ValueError, "clf must be"),
    ],
)
def test_what_cannot_be_asked_is_refused(case, change, error, message):
    X, Y, _, model = case
    given = {"Y": Y, "clf": model, **change}
    with pytest.raises(error, match=message):
        EntrySampling().query(X, fit_clf=False, **given)


def test_the_model_is_fitted_to_a_copy(case):
    X, Y, _, model = case
    fresh = DM2LClassifier(0.1, 1.0, calibration="sigmoid", coupling="residual")
    pairs = EntrySampling().query(X, Y, fresh, batch_size=3)
    assert not hasattr(fresh, "coef_")
    np.testing.assert_array_equal(
        pairs, EntrySampling().query(X, Y, model, fit_clf=False, batch_size=3)
    )


def test_it_takes_its_turn_in_a_loop_of_scikit_activeml(case):
    utils = pytest.importorskip(
        "skactiveml.utils", reason="scikit-activeml is not installed: pip install scikit-activeml"
    )
    X, _, truth, model = case
    Y = np.full(truth.shape, utils.MISSING_LABEL)
    Y[:20] = truth[:20]
    strategy = EntrySampling(missing_label=utils.MISSING_LABEL)
    for cycle in range(3):
        assert utils.is_unlabeled(Y, utils.MISSING_LABEL).sum() == 4 * 70 - 10 * cycle
        pairs = strategy.query(X=X, Y=Y, clf=model, batch_size=10)
        Y[tuple(pairs.T)] = truth[tuple(pairs.T)]
