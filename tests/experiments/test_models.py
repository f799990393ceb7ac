"""The methods and protocols of the library, and the pieces they are made of."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import dm2l_oracles as oracle
from dm2l.baselines import MaskedRidgeClassifier, ZeroFillClassifier
from dm2l.datasets import catalogue, make_missing_multilabel
from experiments.models import UnitVarianceScaler, neg_ranking_loss, quality, score
from experiments.protocols import PROTOCOLS
from observed_metrics import label_ranking_average_precision, ranking_loss


@parametrize_with_checks([UnitVarianceScaler()])
def test_scaler_is_a_transformer_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_scaler_makes_variances_of_training_rows_add_up_to_one(form):
    X = np.random.default_rng(0).standard_normal((50, 4)) * [1, 10, 0.1, 0] + 5
    scaler = UnitVarianceScaler().fit(form(X))
    found = scaler.transform(form(X))
    found = found.toarray() if sp.issparse(found) else found
    assert found.var(axis=0).sum() == pytest.approx(1.0)
    np.testing.assert_allclose(found / X, np.full_like(X, found[0, 0] / X[0, 0]))


def test_scaler_follows_arrays_of_other_libraries():
    strict = pytest.importorskip("array_api_strict")
    X = np.random.default_rng(0).standard_normal((20, 3))
    found = UnitVarianceScaler().fit_transform(strict.asarray(X))
    assert isinstance(found, type(strict.asarray(X)))
    np.testing.assert_allclose(np.asarray(found), UnitVarianceScaler().fit_transform(X))


def test_scaler_leaves_constant_features_as_they_are():
    X = np.full((4, 2), 7.0)
    np.testing.assert_array_equal(UnitVarianceScaler().fit_transform(X), X)


def test_filled_labels_are_what_the_estimator_sees():
    X, Y = make_missing_multilabel(n_samples=60, random_state=0)[:2]
    model = ZeroFillClassifier(MaskedRidgeClassifier()).fit(X, Y)
    plain = MaskedRidgeClassifier().fit(X, np.where(np.isnan(Y), 0, Y))
    np.testing.assert_array_equal(model.decision_function(X), plain.decision_function(X))
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    assert not hasattr(model.estimator, "coef_")


def test_quality_uses_observed_labels_only():
    X, T = oracle.draw_problem(0, 40, 5, 4)
    Y = np.where(T == 0, np.nan, T > 0)
    scores = np.random.default_rng(1).standard_normal(Y.shape)
    assert quality(Y, scores) == label_ranking_average_precision(Y, scores) - ranking_loss(
        Y, scores
    )
    model = MaskedRidgeClassifier().fit(X, Y)
    assert score(model, X, Y) == quality(Y, model.decision_function(X))


def test_every_protocol_names_known_data_and_methods_that_can_be_cloned():
    known = catalogue()
    for protocol in PROTOCOLS.values():
        assert set(protocol.datasets) <= set(known)
        for method in protocol.methods:
            clone(method.estimator)


def test_both_protocols_have_the_methods_of_the_paper_on_every_data_set():
    published = PROTOCOLS["as_published"]
    names = {"LEML", "ML-LRC", "GLOCAL", "LSML", "DM2L-l", "DM2L-nl", "DM2L-Lo"}
    for dataset in published.datasets:
        assert {m.name for m in published.methods if m.runs_on(dataset)} == names
    assert published.masks == ("per_row",)
    assert not published.keep_copies_together
    tuned = PROTOCOLS["tuned"]
    assert tuned.masks == ("per_row", "uniform")
    assert tuned.keep_copies_together
    assert tuned.repetitions == 30
    assert "Tmc2007-500-old" not in tuned.datasets


def test_selection_is_nested_in_the_training_part():
    for name in ("DM2L linear", "DM2L kernel", "masked ridge", "masked kernel ridge"):
        search = PROTOCOLS["tuned"].method(name, "Arts").estimator[-1].search
        assert search.cv == 5
        assert search.scoring is quality
        assert search.refit
    for name in ("DM2L kernel, for ranking", "masked kernel ridge, for ranking"):
        search = PROTOCOLS["tuned"].method(name, "Arts").estimator[-1].search
        plain = PROTOCOLS["tuned"].method(name.partition(",")[0], "Arts").estimator[-1].search
        assert search.scoring is neg_ranking_loss
        # Nothing else differs.
        assert clone(search).set_params(scoring=quality).get_params() == plain.get_params()


@pytest.mark.parametrize(
    "name",
    [
        "DM2L linear",
        "DM2L kernel",
        "DM2L kernel, for ranking",
        "missing as negative",
    ],
)
def test_our_methods_fit_labels_of_which_some_are_missing(name):
    X, Y = make_missing_multilabel(n_samples=80, random_state=0)[:2]
    model = clone(PROTOCOLS["tuned_quick"].method(name, "Arts").estimator).fit(X, Y)
    assert np.isfinite(model.decision_function(X)).all()
