"""One protocol: whatever holds for one feature map holds for all of them."""

import numpy as np
import pytest
import scipy.sparse as sp

from dm2l._solvers.features import LinearMap
from dm2l._solvers.kernels import Kernel
from dm2l._solvers.maps import FourierMap, KernelColumns, KernelMap, LandmarkMap

RBF = Kernel("rbf", 0.3)
RNG = np.random.default_rng(0)
TALL, WIDE = RNG.standard_normal((30, 4)), RNG.standard_normal((8, 20))
CASES = {
    "linear": (LinearMap, TALL),
    "linear, wide": (LinearMap, WIDE),
    "linear, wide and far from zero": (lambda: LinearMap(intercept=True), WIDE + 1e5),
    "linear, wide and sparse": (LinearMap, sp.csr_array(np.where(WIDE > 0.5, WIDE, 0.0))),
    "linear, never reduced": (lambda: LinearMap(reduce=False), WIDE),
    "exact": (lambda: KernelMap(RBF), TALL),
    "exact, with duplicates": (lambda: KernelMap(RBF), np.repeat(TALL[:9], 2, axis=0)),
    "nystroem": (lambda: KernelMap(RBF, 12, random_state=0), TALL),
    "fourier": (lambda: FourierMap(0.3, 15, random_state=0), TALL),
    "columns": (lambda: KernelColumns(RBF), TALL),
}


def _landmarks():
    feature_map = KernelMap(RBF, 12, random_state=0)
    feature_map.fit(TALL)
    return feature_map.fixed(TALL)


@pytest.fixture(params=CASES.values(), ids=CASES)
def fitted(request):
    make, X = request.param
    feature_map = make()
    return feature_map, X, feature_map.fit(X)


def dense(X):
    return X.toarray() if sp.issparse(X) else X


def test_training_rows_have_the_features_that_they_were_fitted_to(fitted):
    feature_map, X, Phi = fitted
    if isinstance(feature_map, KernelColumns):
        pytest.skip("the variables of a solver, not features")
    if isinstance(feature_map, LinearMap) and not feature_map.plain:
        pytest.skip("fits by blocks never reduce linear features")
    np.testing.assert_allclose(dense(feature_map.fixed(X).transform(X)), dense(Phi), atol=1e-9)


def test_weights_come_back_from_their_coefficients(fitted):
    feature_map, _, Phi = fitted
    W = np.random.default_rng(1).standard_normal((Phi.shape[1], 3))
    A = feature_map.coefficients(W)
    assert A.shape == (feature_map.n_coefficients, 3)
    scores = Phi @ feature_map.weights(A)
    np.testing.assert_allclose(scores, Phi @ W, atol=1e-6 * np.abs(scores).max())


def test_identity_is_the_weights_of_the_identity_matrix(fitted):
    feature_map, _, _ = fitted
    eye = np.eye(feature_map.n_coefficients, 2)
    np.testing.assert_array_equal(feature_map.identity(2), feature_map.weights(eye))


def test_a_square_is_the_product(fitted):
    feature_map, _, Phi = fitted
    if feature_map.square is not None:
        np.testing.assert_allclose(feature_map.square(), Phi.T @ Phi, atol=1e-9)


def test_plain_rows_are_their_own_features(fitted):
    feature_map, X, Phi = fitted
    assert feature_map.plain == (Phi is X)


def test_what_is_stored_makes_the_same_map_again():
    feature_map = _landmarks()
    kept = feature_map.stored(None)
    again = LandmarkMap(kept["kernel"], kept["X_fit"], kept["landmark_factor"], 0.0)
    np.testing.assert_array_equal(again.transform(TALL), feature_map.transform(TALL))


def test_a_kernel_matrix_is_stored_by_the_numbers_of_its_rows():
    K = RBF(TALL, TALL)
    feature_map = KernelMap(Kernel("precomputed", 1.0))
    feature_map.fit(K)
    np.testing.assert_array_equal(feature_map.stored(K)["X_fit"], feature_map.pivots)
    assert feature_map.error == 0.0
