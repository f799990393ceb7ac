"""Thousands of labels within the memory that was allowed."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from dm2l.completion import _covariance
from dm2l.completion._covariance import FactorCovariance, em_factor, residuals

ROWS, LABELS, RANK = 2_000, 1_000, 16
# Squares of the loadings, as they are and by what the factors leave: all that goes with labels
# alone.
FIXED = 2 * 8 * LABELS * RANK**2


@pytest.fixture(scope="module")
def labels():
    T = sp.random(ROWS, LABELS, 0.02, random_state=0).toarray()
    signs = np.where(np.random.default_rng(0).random(T.shape) < 0.3, 1.0, -1.0)
    return np.where(T != 0, signs, 0.0)


def peak(task):
    tracemalloc.start()
    found = task()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most, found


def test_conditioning_takes_the_memory_it_is_given(labels, monkeypatch):
    rng = np.random.default_rng(0)
    S = FactorCovariance(0.3 * rng.standard_normal((LABELS, RANK)), np.ones(LABELS))
    E, known = residuals(labels, np.full(labels.shape, 0.01))
    given = 2 * 8 * labels.size  # shifts and variances of all rows
    peaks, answers = [], []
    for memory in (2**21, 2**23, 2**25):
        monkeypatch.setattr(_covariance, "MEMORY", memory)
        most, found = peak(lambda: S.shifts(E, known))
        assert most < 1.2 * (memory + FIXED) + given
        peaks.append(most)
        answers.append(found)
    assert peaks[2] > peaks[0] + 2**23  # it is used where there is some
    for shift, variance in answers[1:]:
        np.testing.assert_allclose(shift, answers[0][0], atol=1e-12)
        np.testing.assert_allclose(variance, answers[0][1], atol=1e-12)


def test_factors_take_the_memory_they_are_given(labels, monkeypatch):
    T = labels[:600]
    given = 4 * 8 * T.size  # residuals, what is known as numbers, and two products of them
    found = []
    for memory in (2**20, 2**26):
        monkeypatch.setattr(_covariance, "MEMORY", memory)
        most, (S, _) = peak(lambda: em_factor(T, T != 0, RANK, rounds=2))
        assert most < 1.2 * (memory + 2 * FIXED) + given
        found.append(S.matrix())
    np.testing.assert_allclose(*found, atol=1e-10)
