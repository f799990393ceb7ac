"""Estimators on extreme numbers, and on what is no table of numbers at all."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from all_estimators import ESTIMATORS
from dm2l import DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier

ALL = [
    *ESTIMATORS,
    DM2LClassifier(calibration="sigmoid", cv=2),
    MaskedRidgeClassifier(alpha=1e6),
    MaskedRidgeClassifier(alpha=0.0),
]


def fit_extreme(path: Path) -> None:
    """Any finite numbers: finite scores, or an error that LAPACK has no part in."""
    rng = np.random.default_rng(int(path.read_bytes()))
    estimator = ALL[rng.integers(len(ALL))]
    n, d, c = rng.integers(10, 26), rng.integers(1, 7), rng.integers(2, 5)
    X, Y = _extreme(rng, n, d), _labels(rng, n, c)
    if rng.random() < 0.3:
        X = sp.csr_array(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = clone(estimator).fit(X, Y)
            scores = model.decision_function(X)
        except np.linalg.LinAlgError as error:  # a ValueError, but one that helps nobody
            raise AssertionError(f"LinAlgError: {error} ({estimator})") from error
    if not np.isfinite(scores).all():
        raise AssertionError(f"scores are not finite ({estimator})")


def _extreme(rng: np.random.Generator, n: int, d: int) -> Any:
    X = rng.standard_normal((n, d))
    kind = rng.integers(6)
    if kind == 0:
        X *= 10.0 ** rng.uniform(-300, 300)
    elif kind == 1:
        X *= 10.0 ** rng.uniform(-300, rng.choice([70, 300]), d)
    elif kind == 2:
        X = 1e6 * (1 + 10.0 ** rng.uniform(-17, -6) * X)
    elif kind == 3:
        X = X * 10.0 ** rng.uniform(-20, 20, d) + 10.0 ** rng.uniform(-20, 20, d)
    elif kind == 4:
        X = np.floor(2 * X)  # ties, columns of zeros, equal rows
        X[:, rng.random(d) < 0.3] = 0
        X[rng.integers(n)] = X[0]
    if rng.random() < 0.25:
        X[rng.integers(n), rng.integers(d)] = 10.0 ** rng.uniform(-300, 300)
    return X.astype(np.float32) if rng.random() < 0.1 and np.abs(X).max() < 1e38 else X


def _labels(rng: np.random.Generator, n: int, c: int) -> Any:
    Y = (rng.standard_normal((n, c)) > 0).astype(float)
    Y[rng.random((n, c)) < rng.choice([0.0, 0.3, 0.9])] = np.nan
    return Y


def fit_odd(path: Path) -> None:
    """Arguments of the wrong kind: a model, a ValueError or a TypeError."""
    rng = np.random.default_rng(int(path.read_bytes()))
    X, Y = rng.standard_normal((14, 3)), _labels(rng, 14, 3)
    if rng.random() < 0.7:
        X = _odd(X, rng)
    if rng.random() < 0.7:
        Y = _odd(Y, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(ALL[rng.integers(len(ALL))]).fit(X, Y)
        model.decision_function(X)
        model.predict(_odd(np.asarray(rng.standard_normal((5, 3))), rng))


def _odd(values: Any, rng: np.random.Generator) -> Any:
    """The same in another form, or spoilt."""
    forms = [
        lambda: values.tolist(),
        lambda: [row[: 1 + i % 3] for i, row in enumerate(values.tolist())],
        lambda: values.astype(object),
        lambda: values.astype(str),
        lambda: values.astype(complex),
        lambda: values[:, 0],
        lambda: values[None],
        lambda: values[:0],
        lambda: values[:, :0],
        lambda: values[:1],
        lambda: values[: len(values) // 2],
        lambda: np.asfortranarray(values)[::-1, ::-1],
        lambda: np.ma.masked_invalid(values),
        lambda: np.where(values > 1, np.inf, values),
        lambda: np.where(values > 1, np.nan, values),
        lambda: np.nan_to_num(values).astype(rng.choice(["i1", "u8", "f2", "f4", ">f8", "?"])),
        lambda: np.nan_to_num(values) * rng.choice([2, 1e30, -1, 0]),
        lambda: _broken(values, rng),
        lambda: rng.choice(["coo", "csc", "lil", "dok", "bsr", "dia"]),
        lambda: None,
        lambda: "text",
        dict,
        lambda: 3.5,
        lambda: np.full(values.shape, np.datetime64("2020-01-01")),
        lambda: np.array([[{}] * 3] * 14),
    ]
    made = forms[rng.integers(len(forms))]()
    if isinstance(made, str) and made != "text":
        return sp.coo_array(np.nan_to_num(values)).asformat(made)
    return made


def _broken(values: Any, rng: np.random.Generator) -> Any:
    """A sparse matrix whose places repeat or stand in disorder, or that holds NaN and zeros."""
    S = sp.csr_array(np.nan_to_num(values) + 0.5)
    S.indices = rng.permutation(S.indices) if rng.random() < 0.5 else S.indices * 0
    S.has_sorted_indices = S.has_canonical_format = False
    if rng.random() < 0.5:
        S.data[rng.integers(len(S.data))] = rng.choice([np.nan, np.inf, 0.0])
    return S
