"""What an answer spares its row, against answering; how far that is trusted."""

import numpy as np
import pytest

from dm2l import DM2LClassifier
from dm2l.completion._correlation import LabelCorrelation, row_gains, trust
from dm2l.completion._covariance import DenseCovariance, FactorCovariance


def coupled(seed=0, n=300, c=5, strength=1.5):
    """Labels that share a mood which features do not show, a coupling of them, and their holes."""
    rng = np.random.default_rng(seed)
    mood = strength * rng.normal(size=(n, 1))
    F = 0.6 * rng.normal(size=(n, c))
    truth = np.where(F + mood + 0.5 * rng.normal(size=(n, c)) > 0, 1.0, -1.0)
    T = np.where(rng.random((n, c)) < 0.5, truth, 0.0)
    return LabelCorrelation.fit(T, F), T, F, truth


def error(p):
    return np.minimum(p, 1 - p)


@pytest.mark.parametrize("form", ["dense", "factor"])
def test_gains_are_those_of_answering_both_ways(form):
    coupling, T, F, _ = coupled()
    if form == "factor":
        S = FactorCovariance(np.full((5, 1), 0.6), np.full(5, 0.4))
        coupling = type(coupling)(**{**vars(coupling), "covariance": S})
    p = coupling.predict(T, F)[1]
    gains = row_gains(coupling, T, F, p)
    assert (gains[T != 0] == 0).all()
    assert (gains >= -1e-12).all()
    for i, k in np.argwhere(T == 0)[::7]:
        answered = []
        for sign in (1, -1):
            row = T[i : i + 1].copy()
            row[0, k] = sign
            answered.append(coupling.predict(row, F[i : i + 1])[1][0])
        expected = 0.0
        for j in np.flatnonzero(T[i] == 0):
            if j != k:
                yes, no, chance = answered[0][j], answered[1][j], p[i, k]
                between = error(chance * yes + (1 - chance) * no)
                spared = between - chance * error(yes) - (1 - chance) * error(no)
                expected += spared * min(1.0, error(p[i, j]) / between)
        assert gains[i, k] == pytest.approx(expected, abs=1e-9)


def test_a_row_with_one_hole_and_labels_apart_have_nothing_to_gain():
    coupling, T, F, truth = coupled()
    T = truth.copy()
    T[:, 2] = 0
    p = coupling.predict(T, F)[1]
    assert (row_gains(coupling, T, F, p) == 0).all()


def test_labels_that_hold_together_are_trusted_and_those_that_do_not_are_not():
    _, T, F, _ = coupled(n=800)
    assert trust(T, F) > 0.3
    rng = np.random.default_rng(1)
    apart = np.where(rng.random(T.shape) < 0.5, np.sign(rng.normal(size=T.shape)), 0.0)
    assert trust(apart, F) < 0.2
    nothing = np.zeros(T.shape)
    nothing[:, 0] = T[:, 0]
    assert trust(nothing, F) == 0.0


def test_hidden_truth_does_not_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    truth = (X @ rng.normal(size=(4, 3)) + rng.normal(size=(120, 1)) > 0).astype(float)
    seen = rng.random(truth.shape) < 0.6
    from dm2l.tables._suggestion import answer_values

    found = []
    for hidden in (0, 1):
        Y = np.where(seen, truth, hidden)
        model = DM2LClassifier().fit(X, Y, label_mask=seen)
        found.append(answer_values(model, X, np.where(seen, Y, np.nan)).total)
    np.testing.assert_array_equal(*found)
    assert isinstance(model.label_covariance_, DenseCovariance)
