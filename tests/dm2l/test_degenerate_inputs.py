"""Inputs without spread: finite scores, and the same ones for rows that are the same."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from dm2l import DM2LClassifier, DM2LClassifierCV

# Without "sigmoid", which is not positive semidefinite and refused for that.
KERNELS = ["linear", "rbf", "laplacian", "poly", "cosine", "tanimoto"]
INPUTS = {
    "zero columns": lambda rng, n: np.zeros((n, 2)),
    "constant columns": lambda rng, n: np.full((n, 2), 3.0),
    "one column with spread": lambda rng, n: np.column_stack([np.ones(n), rng.random(n)]),
    "two distinct rows": lambda rng, n: rng.random((2, 3))[rng.integers(2, size=n)],
    "tiny scale": lambda rng, n: 1e-12 * rng.random((n, 2)),
    "tiny spread": lambda rng, n: 1.0 + 1e-9 * rng.random((n, 2)),
    "one distinct row": lambda rng, n: (np.arange(n) == 0)[:, None] * np.ones(2),
}
# Zeros have no angles: their kernel matrix is zero and refused for that.
CASES = [(k, i) for k in KERNELS for i in INPUTS if (k, i) != ("cosine", "zero columns")]


def labels(rng, n, one_row_per_class):
    if one_row_per_class:
        Y = np.full((n, 2), np.nan)
        Y[0], Y[1] = (1, 0), (0, 1)
        return Y
    Y = (rng.random((n, 3)) < 0.5).astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    Y[:2] = [[0, 0, 0], [1, 1, 1]]
    return Y


def check(model, inputs, seed, one_row_per_class):
    rng = np.random.default_rng(seed)
    X, Y = INPUTS[inputs](rng, 12), labels(rng, 12, one_row_per_class)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "Only one class|.*undefined|.*constant", UserWarning)
        scores = model.fit(X, Y).decision_function(X)
    assert np.isfinite(scores).all()
    _, row = np.unique(X, axis=0, return_inverse=True)
    for number in range(row.max() + 1):
        alike = scores[row == number]
        assert np.allclose(alike, alike[0], atol=1e-6)


@settings(max_examples=60)
@given(
    case=st.sampled_from(CASES),
    seed=st.integers(0, 10**6),
    one_row_per_class=st.booleans(),
)
def test_a_classifier_fits_inputs_without_spread(case, seed, one_row_per_class):
    check(DM2LClassifier(kernel=case[0]), case[1], seed, one_row_per_class)


@pytest.mark.parametrize("seed", range(6))
def test_a_search_survives_a_kernel_matrix_of_ones(seed):
    check(DM2LClassifierCV(kernel="rbf", cv=2), "zero columns", seed, one_row_per_class=False)


@settings(max_examples=30)
@given(
    case=st.sampled_from(CASES),
    seed=st.integers(0, 10**6),
)
def test_a_search_fits_inputs_without_spread(case, seed):
    model = DM2LClassifierCV((0.0, 0.1, 1.0), (0.1, 1.0), cv=2, kernel=case[0])
    check(model, case[1], seed, one_row_per_class=False)
