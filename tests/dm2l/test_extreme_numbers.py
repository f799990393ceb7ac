"""Whatever finite numbers X holds: finite scores, or a ValueError that says what to do."""

from __future__ import annotations

import signal
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from all_estimators import ESTIMATORS
from dm2l import AutoClassifier, DM2LClassifier
from dm2l._utils.arrays import LARGEST, check_magnitude
from dm2l.baselines import MaskedRidgeClassifier, MLLRCClassifier
from dm2l.extreme import ExtremeDM2LClassifier

MORE = [
    MaskedRidgeClassifier(alpha=1e6),
    MaskedRidgeClassifier(alpha=0.0),
    DM2LClassifier(calibration="sigmoid", cv=2),
]


@pytest.fixture
def in_time():
    """A fit that does not return fails, where the system has an alarm clock."""

    def late(*_):
        raise TimeoutError("the fit did not return")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def labels(rng, n, c=3):
    Y = (rng.standard_normal((n, c)) > 0).astype(float)
    Y[:2] = [[0.0] * c, [1.0] * c]
    Y[2:][rng.random((n - 2, c)) < 0.3] = np.nan
    return Y


def inputs(rng, n, d):
    """Columns at scales from 1e-300 to 1e300, single large cells, nearly constant columns."""
    X = rng.standard_normal((n, d))
    kind = rng.integers(5)
    if kind == 0:
        X *= 10.0 ** rng.uniform(-300, 300)
    elif kind == 1:
        X *= 10.0 ** rng.uniform(-300, 70, d)
    elif kind == 2:
        X[rng.integers(n), rng.integers(d)] = 10.0 ** rng.uniform(0, 300)
    elif kind == 3:
        X[:, rng.integers(d)] = 1e6 * (1 + 10.0 ** rng.uniform(-17, -8) * X[:, 0])
    else:
        X = X * 10.0 ** rng.uniform(-20, 20, d) + 10.0 ** rng.uniform(-20, 20, d)
    return sp.csr_array(X) if rng.integers(3) == 0 else X


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", [*ESTIMATORS, *MORE], ids=lambda e: str(e)[:50])
def test_any_finite_numbers_give_finite_scores_or_a_value_error(estimator, in_time):
    outcomes = {True: 0, False: 0}
    for seed in range(14):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(12, 30)), int(rng.integers(1, 6))
        X, Y = inputs(rng, n, d), labels(rng, n)
        with warnings.catch_warnings():
            # Of scikit-learn's own estimators and checks; ours have none at these scales.
            warnings.filterwarnings("ignore", category=RuntimeWarning, module="sklearn|scipy")
            warnings.filterwarnings("ignore", "An ill-conditioned matrix")
            warnings.filterwarnings("ignore", category=ConvergenceWarning)
            try:
                model = clone(estimator).fit(X, Y)
                scores, p = model.decision_function(X), model.predict_proba(X)
            except ValueError as error:
                assert type(error) is ValueError, error  # noqa: PT017
                outcomes[False] += 1
            else:
                assert np.isfinite(scores).all(), seed
                assert np.isfinite(p).all(), seed
                outcomes[True] += 1
    assert outcomes[True] > 3


def test_lost_residuals_of_label_correlations_are_an_error():
    rng = np.random.default_rng(8)
    n, d = int(rng.integers(12, 30)), int(rng.integers(1, 6))
    X, Y = inputs(rng, n, d), labels(rng, n)
    with pytest.raises(ValueError, match="Standardize the columns"):
        MLLRCClassifier().fit(X, Y)


def test_a_large_ridge_beside_a_huge_cell_returns(in_time):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((25, 3))
        X[rng.integers(25), rng.integers(3)] = 1e200
        with pytest.raises(ValueError, match=r"Column \d of X holds 1e\+200.*Scale the column"):
            MaskedRidgeClassifier(alpha=1e6).fit(X, labels(rng, 25))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", [np.asfortranarray, np.ascontiguousarray, sp.csr_array])
def test_values_that_are_too_large_are_named_by_column(form, dtype):
    limit = LARGEST[np.dtype(dtype).name]
    X = np.ones((4, 3), dtype=dtype)
    X[2, 1] = -0.9 * limit
    check_magnitude(form(X))
    X[2, 1] = -1.1 * limit
    with pytest.raises(ValueError, match=r"Column 1 \('b'\) of X holds -1.1e"):
        check_magnitude(form(X), ["a", "b", "c"])
    check_magnitude(form(np.full((50, 3), 0.99 * limit, dtype=dtype)))


def test_scores_of_new_rows_that_overflow_are_refused():
    rng = np.random.default_rng(0)
    X, Y = 1e-60 * rng.standard_normal((30, 2)), labels(rng, 30)
    model = MaskedRidgeClassifier(alpha=0.0).fit(X, Y)
    X[3, 1] = 1e290
    with pytest.raises(ValueError, match=r"Absolute values of X reach 1e\+290 in column 1"):
        model.decision_function(X)


def test_a_nearly_constant_column_counts_as_constant_in_sparse_rows_too():
    """Found at usual scales: the means that sparse products subtract leave rounding only."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((40, 4))
        X[:, 1] = 1e8 * (1 + 1e-16 * X[:, 0])
        X[:, 2] = 1e3 * (1 + 1e-9 * X[:, 3])
        Y = labels(rng, 40)
        dense = DM2LClassifier().fit(X, Y).decision_function(X)
        sparse = DM2LClassifier().fit(sp.csr_array(X), Y).decision_function(X)
        np.testing.assert_allclose(sparse, dense, atol=1e-3)


def test_the_model_of_very_many_labels_refuses_huge_values():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((30, 4)), labels(rng, 30)
    X[4, 2] = 1e120
    with pytest.raises(ValueError, match="Column 2 of X"):
        ExtremeDM2LClassifier().fit(X, Y)


def test_every_block_of_rows_is_looked_at():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((30, 4)), labels(rng, 30)
    model = DM2LClassifier().partial_fit(X, Y)
    X[4, 2] = 1e120
    with pytest.raises(ValueError, match="Column 2 of X"):
        model.partial_fit(X, Y)


@pytest.mark.parametrize("estimator", [*ESTIMATORS, AutoClassifier()], ids=lambda e: str(e)[:50])
def test_columns_that_no_memory_has_space_for_are_refused_at_once(estimator):
    n, d = 24, 2**31 - 1
    places = np.arange(n), np.arange(n) * (d // n - 1)
    X = sp.csr_array((np.ones(n), places), shape=(n, d))
    Y = np.random.default_rng(0).integers(0, 2, (n, 3))
    if not estimator.__sklearn_tags__().input_tags.sparse:
        return
    with pytest.raises(ValueError, match=r"Only 24 of the 2147483647 columns of X have.*GiB"):
        clone(estimator).fit(X, Y)
