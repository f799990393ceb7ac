"""Thousands of labels within the memory that was allowed."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from dm2l.completion._condition import condition
from dm2l.completion._covariance import FactorCovariance
from dm2l.completion._covariance_fit import em_factor

ROWS, LABELS, RANK = 2_000, 1_000, 16
# Squares of the loadings, as they are and by what the factors leave: all that goes with labels
# alone.
FIXED = 2 * 8 * LABELS * RANK**2


@pytest.fixture(scope="module")
def labels():
    T = sp.random(ROWS, LABELS, 0.02, format="csr", random_state=0)
    T.data = np.where(np.random.default_rng(0).random(T.nnz) < 0.3, 1.0, -1.0)
    return T


def peak(task):
    tracemalloc.start()
    found = task()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most, found


def test_conditioning_takes_the_memory_it_is_given(labels):
    rng = np.random.default_rng(0)
    S = FactorCovariance(0.3 * rng.standard_normal((LABELS, RANK)), np.ones(LABELS))
    entries = np.repeat(np.arange(ROWS), 3), rng.integers(0, LABELS, 3 * ROWS)

    def scores(rows):
        return np.broadcast_to(0.01 * rows[:, None], (len(rows), LABELS)) % 0.3

    peaks, answers = [], []
    for memory in (2**21, 2**23, 2**25):
        most, found = peak(lambda m=memory: condition(S, labels, scores, entries=entries, memory=m))
        assert most < 1.2 * (memory + FIXED) + 16 * len(entries[0])
        peaks.append(most)
        answers.append(found)
    assert peaks[2] > 2 * peaks[0]  # it is used where there is some
    assert peaks[0] < 8 * ROWS * LABELS  # not a single array of rows x labels
    for mean, variance in answers[1:]:
        np.testing.assert_allclose(mean, answers[0][0], atol=1e-12)
        np.testing.assert_allclose(variance, answers[0][1], atol=1e-12)


def test_factors_take_the_memory_they_are_given(labels):
    T = labels[:600].toarray()
    given = 4 * 8 * T.size  # residuals, what is known as numbers, and two products of them
    found = []
    for memory in (2**20, 2**26):
        most, (S, _) = peak(lambda m=memory: em_factor(T, T != 0, RANK, rounds=2, memory=m))
        assert most < 1.2 * (memory + 2 * FIXED) + given
        found.append(S.matrix())
    np.testing.assert_allclose(*found, atol=1e-10)
