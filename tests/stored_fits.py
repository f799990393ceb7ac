"""Fits whose numbers are stored under ``tests/dm2l/stored``: the cases, and what is kept of each.

A case is a function without arguments that returns a fitted model and the rows to ask it about. It
uses public names only, so that code may move behind them. ``tests/dm2l/stored/make.py`` stores what
the cases give; ``tests/dm2l/test_stored_fits.py`` compares.
"""

import hashlib
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
import scipy.sparse as sp
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import laplacian_kernel
from threadpoolctl import threadpool_info, threadpool_limits

from dm2l import DM2LClassifier, DM2LClassifierCV
from dm2l.baselines import (
    GLOCALClassifier,
    LEMLClassifier,
    LSMLClassifier,
    MaskedOneVsRestClassifier,
    MaskedRidgeClassifier,
    MLLRCClassifier,
)
from dm2l.datasets import load_digit_attributes, make_missing_multilabel
from dm2l.extreme import ExtremeDM2LClassifier
from dm2l.metrics import label_auc
from dm2l.simulate import simulate_missing_positives, simulate_per_row, simulate_uniform

STORED = Path(__file__).parent / "dm2l" / "stored"

# What searches chose by when their fits were stored.
BY_OBSERVED = partial(label_auc, estimate=False)
# How exact searches were by default when their fits were stored.
EFFORT = {"search_tol": 1e-4, "search_iter": 10}
# Rows whose scores are stored as numbers; of all rows there is a digest.
N_STORED = 6

Fitted = tuple[Any, Any]
CASES: dict[str, Callable[[], Fitted]] = {}


def case(make: Callable[[], Fitted]) -> Callable[[], Fitted]:
    CASES[make.__name__] = make
    return make


# ---------------------------------------------------------------------------------------- data


def synthetic(n_samples: int = 150, n_features: int = 12, seed: int = 0, **others: Any) -> Any:
    return make_missing_multilabel(
        n_samples, n_features, 6, n_implications=3, random_state=seed, **others
    )


def digits(n_rows: int) -> Any:
    """Images of digits; half of the labels are seen, in the way of the paper's code."""
    X, Y = load_digit_attributes(return_X_y=True)
    return X[:n_rows], simulate_per_row(Y[:n_rows], 0.5, random_state=0)


# ---------------------------------------------------------------------------- the linear model


@case
def linear() -> Fitted:
    X, Y = digits(300)
    return DM2LClassifier().fit(X, Y), X


@case
def linear_heavy() -> Fitted:
    X, Y = digits(1000)
    return DM2LClassifier(lambda_d=3.0).fit(X, Y), X


@case
def linear_many_labels() -> Fitted:
    X, Y = make_missing_multilabel(300, 40, 50, n_implications=20, rho=0.3, random_state=25)
    return DM2LClassifier(lambda_d=1.0, alpha=1.0).fit(X, Y), X


@case
def linear_label_mask() -> Fitted:
    X, _, truth = synthetic(return_truth=True)
    _, mask = simulate_missing_positives(truth, 0.6, return_mask=True, random_state=1)
    model = DM2LClassifier(lambda_d=1.0, alpha=2.0, fit_intercept=False)
    return model.fit(X, truth, label_mask=mask), X


@case
def linear_wide() -> Fitted:
    X, Y = synthetic(60, 200, seed=1)
    return DM2LClassifier().fit(X, Y), X


@case
def linear_sparse() -> Fitted:
    X, Y = synthetic(seed=2)
    X = sp.csr_array(np.where(np.abs(X) > 0.8, X, 0.0))
    return DM2LClassifier(lambda_d=0.5).fit(X, Y), X


@case
def linear_float32() -> Fitted:
    X, Y = synthetic(seed=3)
    X = X.astype(np.float32)
    return DM2LClassifier().fit(X, Y), X


@case
def linear_sparse_positives() -> Fitted:
    X, _, truth = synthetic(seed=4, return_truth=True)
    return DM2LClassifier(missing_as="negative").fit(X, sp.csr_array(truth)), X


@case
def linear_classes() -> Fitted:
    X = load_digit_attributes().data[:200]
    y = load_digit_attributes().digit[:200].astype(np.float64)
    y[::3] = np.nan
    return DM2LClassifier(lambda_d=0.1).fit(X, y), X


@case
def shrinking_only() -> Fitted:
    X, Y = synthetic(seed=5)
    return DM2LClassifier(lambda_d=0.5, discriminant=False).fit(X, Y), X


@case
def no_norms() -> Fitted:
    X, Y = synthetic(seed=6)
    return DM2LClassifier(local=False).fit(X, Y), X


@case
def cccp() -> Fitted:
    X, Y = synthetic(80, 6, seed=7)
    return DM2LClassifier(lambda_d=0.1, alpha=1.0, solver="cccp", max_iter=200).fit(X, Y), X


@case
def published_linear() -> Fitted:
    X, Y = synthetic(seed=8)
    return DM2LClassifier.published(lambda_d=1e-3).fit(X, Y), X


# ----------------------------------------------------------------------------- kernel models


@case
def rbf() -> Fitted:
    X, Y = digits(200)
    return DM2LClassifier(kernel="rbf").fit(X, Y), X


@case
def poly() -> Fitted:
    X, Y = synthetic(seed=9)
    return DM2LClassifier(lambda_d=0.1, kernel="poly", degree=2).fit(X, Y), X


@case
def precomputed() -> Fitted:
    X, Y = synthetic(seed=10)
    K = laplacian_kernel(X, gamma=0.1)
    return DM2LClassifier(lambda_d=0.2, kernel="precomputed").fit(K, Y), K


@case
def nystroem() -> Fitted:
    X, Y = digits(300)
    model = DM2LClassifier(kernel="rbf", approximation="nystroem", n_components=40, random_state=0)
    return model.fit(X, Y), X


@case
def fourier() -> Fitted:
    X, Y = synthetic(seed=11)
    model = DM2LClassifier(kernel="rbf", approximation="fourier", n_components=50, random_state=0)
    return model.fit(X, Y), X


@case
def published_rbf() -> Fitted:
    # A wider kernel is all but singular, and without a ridge its few conjugate gradients turn the
    # rounding of products into the first digit: at sigma=2 another BLAS changes J by 30 %.
    X, Y = synthetic(100, seed=12)
    return DM2LClassifier.published("rbf", lambda_d=1e-3).fit(X, Y), X


# ------------------------------------------------------------------- decisions and searches


@case
def calibrated() -> Fitted:
    X, Y = synthetic(seed=13)
    return DM2LClassifier(calibration="sigmoid", cv=3).fit(X, Y), X


@case
def f1_thresholds() -> Fitted:
    X, Y = synthetic(seed=14)
    return DM2LClassifier(threshold="f1", cv=3).fit(X, Y), X


@case
def search_linear() -> Fitted:
    X, Y = synthetic(80, seed=15)
    return DM2LClassifierCV(cv=2, scoring=BY_OBSERVED, **EFFORT).fit(X, Y), X


@case
def search_rbf() -> Fitted:
    X, Y = synthetic(100, seed=16)
    grid = [0.0, 0.2], [0.1, 1.0], [0.02, "scale"]
    # From 0 to 0.2 are two steps of a path, which had ten iterations together.
    effort = EFFORT | {"search_iter": 5}
    model = DM2LClassifierCV(*grid, kernel="rbf", cv=3, scoring=BY_OBSERVED, **effort)
    return model.fit(X, Y), X


# ------------------------------------------------------------------------------------- scale


@case
def partial_fits() -> Fitted:
    X, Y = synthetic(seed=17)
    model = DM2LClassifier(lambda_d=0.5)
    for start in range(0, len(X), 50):
        rows = slice(start, start + 50)
        model.partial_fit(X[rows], Y[rows], solve=start == 100)
    return model, X


@case
def statistics() -> Fitted:
    X, Y = synthetic(seed=18)
    return DM2LClassifier(lambda_d=0.5, strategy="statistics").fit(X, Y), X


@case
def extreme() -> Fitted:
    X, _, truth = make_missing_multilabel(
        200, 20, 40, n_implications=10, random_state=19, return_truth=True
    )
    model = ExtremeDM2LClassifier(rank=10, missing_as="unlabelled", absent_weight=0.5)
    return model.fit(X, sp.csr_array(truth)), X


# --------------------------------------------------------------------------------- baselines


@case
def masked_ridge() -> Fitted:
    X, Y = digits(200)
    return MaskedRidgeClassifier().fit(X, Y), X


@case
def leml() -> Fitted:
    X, Y = synthetic(seed=20)
    return LEMLClassifier(rank=4, loss="logistic", random_state=0).fit(X, Y), X


@case
def lsml() -> Fitted:
    X, Y = synthetic(seed=21)
    return LSMLClassifier().fit(X, Y), X


@case
def mllrc() -> Fitted:
    X, Y = synthetic(seed=22)
    return MLLRCClassifier(missing="neutral").fit(X, Y), X


@case
def glocal() -> Fitted:
    X, _, truth = synthetic(seed=23, return_truth=True)
    Y = simulate_uniform(truth, 0.7, random_state=2)
    return GLOCALClassifier(n_components=4, n_groups=2, random_state=0).fit(X, Y), X


@case
def one_vs_rest() -> Fitted:
    X, Y = synthetic(seed=24)
    return MaskedOneVsRestClassifier(LogisticRegression()).fit(X, Y), X


# ------------------------------------------------------------------------ what is kept of a fit


class Record(NamedTuple):
    """What is kept of a fitted case."""

    objective: float | None
    n_iter: int | None
    arrays: dict[str, Any]  # small enough to be stored
    digests: dict[str, str]  # of arrays of all rows, labels and weights


_ANSWERS = {"scores": "decision_function", "probabilities": "predict_proba", "decisions": "predict"}
_WEIGHTS = ("coef_", "dual_coef_", "intercept_", "label_vectors_", "objective_history_")


def record_case(name: str) -> Record:
    """Fit a case, on one thread whatever the environment says, and take down what it gave."""
    with threadpool_limits(limits=1):
        model, X = CASES[name]()
        answers = {
            key: dense(getattr(model, method)(X))
            for key, method in _ANSWERS.items()
            if hasattr(model, method)
        }
    arrays = {key: answers[key][:N_STORED] for key in answers if key != "decisions"}
    if getattr(model, "threshold", None) is not None:
        arrays["thresholds"] = model.thresholds_
    if hasattr(model, "cv_results_"):
        tried = ("param_lambda_d", "param_alpha", "mean_test_score")
        arrays |= {key: np.asarray(model.cv_results_[key], float) for key in tried}
    # A search shows the weights of its best model, but not its objective.
    last = getattr(model, "best_estimator_", model)
    weights = {key: np.asarray(getattr(last, key)) for key in _WEIGHTS if hasattr(last, key)}
    objective, n_iter = getattr(last, "objective_", None), getattr(last, "n_iter_", None)
    return Record(
        None if objective is None else float(objective),
        None if n_iter is None else int(n_iter),
        arrays,
        {"X": digest(X)} | {key: digest(value) for key, value in (answers | weights).items()},
    )


def dense(array: Any) -> Any:
    return array.toarray() if sp.issparse(array) else np.asarray(array)


def digest(array: Any) -> str:
    """SHA-256 of dtype, shape and values."""
    array = dense(array)
    head = f"{array.dtype.str}{array.shape}".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()


def machine() -> dict[str, Any]:
    """All that the last bits of a fit depend on, besides the code of the library."""
    blas = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return {
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "libc": " ".join(platform.libc_ver()),
        "cpu": _cpu(),
        # numpy picks its own loops by what the processor can do.
        "simd": " ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])),
        "blas": sorted(
            f"{pool['prefix']} {pool['version']} {pool.get('architecture')}" for pool in blas
        ),
        "threads": 1,
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if not info.exists():  # not Linux
        return f"{platform.machine()} {platform.processor()}"
    lines = [line.partition(":") for line in info.read_text().split("\n\n")[0].splitlines()]
    found = {key.strip(): value.strip() for key, _, value in lines}
    wanted = ("vendor_id", "model name", "cpu family", "model", "stepping")
    return ", ".join(f"{key} {found[key]}" for key in wanted if key in found)
