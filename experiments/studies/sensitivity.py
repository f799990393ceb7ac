"""Metrics over the weight of the nuclear norms and the width of the kernel."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import check_array

from dm2l import ConstantLabelWarning, DM2LClassifierCV
from dm2l.labels._matrix import parse_labels
from experiments.cell import RANKINGS
from experiments.published import PAPER_MEASURES

Numbers = NDArray[np.float64]
METRICS = tuple(measure.metric for measure in PAPER_MEASURES)


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Metrics over a grid of ``lambda_d`` and, for a kernel, ``sigma``, both in rising order.

    Each metric has an array of shape (n_repetitions, n_sigmas or 1, n_lambdas).
    """

    lambda_ds: Numbers
    sigmas: Numbers | None
    scores: dict[str, Numbers]

    def along(self, parameter: str, metric: str) -> tuple[Numbers, Numbers]:
        """Values of the parameter that varies, and the metric of each repetition at them."""
        values, axis = (self.lambda_ds, 1) if parameter == "lambda_d" else (self.sigmas, 2)
        table = self.scores[metric]
        if values is None or table.shape[axis] > 1:
            raise ValueError(f"{parameter!r} is not what alone varies here.")
        return values, table.squeeze(axis)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Repetitions over one grid, together."""
        first = parts[0]
        scores = {m: np.concatenate([part.scores[m] for part in parts]) for m in first.scores}
        return cls(first.lambda_ds, first.sigmas, scores)


class _Marks:
    """A metric for a search that keeps all the metrics and returns where it put them."""

    def __init__(self) -> None:
        self.found: list[list[float]] = []

    def __call__(self, Y: Any, scores: Any) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMetricWarning)  # nan says as much
            self.found.append(
                [float(RANKINGS[m](Y, scores, convention="published")) for m in METRICS]
            )
        return float(len(self.found) - 1)


def sensitivity(
    X: Any,
    Y: Any,
    X_test: Any,
    Y_test: Any,
    lambda_ds: Sequence[float],
    sigmas: Sequence[float] | None = None,
    alpha: float = 1.0,
    *,
    label_mask: Any = None,
    **settings: Any,
) -> Sensitivity:
    """Ranking loss, AUC, coverage and average precision on test rows over a grid.

    Fits see the features of the training rows and their observed labels only. They share
    factorizations as those of :class:`dm2l.DM2LClassifierCV` do, whose parameters the settings
    are, and run to convergence. Without an ``approximation`` the kernel matrix has all rows.
    """
    T = parse_labels(Y, label_mask=label_mask).signs
    if not ((T > 0).any(axis=0) & (T < 0).any(axis=0)).any():
        raise ValueError("No label of Y has both classes observed: there is nothing to fit.")
    T_test = parse_labels(Y_test, allow_empty=True).signs
    X, X_test = (check_array(A, accept_sparse="csr") for A in (X, X_test))
    for name, inputs, known in (("X", X, T), ("X_test", X_test, T_test)):
        if inputs.shape[0] != len(known):
            raise ValueError(f"{name} has {inputs.shape[0]} rows, and its labels {len(known)}.")
    if X.shape[1] != X_test.shape[1] or T.shape[1] != T_test.shape[1]:
        raise ValueError(
            f"Training rows have {X.shape[1]} features and {T.shape[1]} labels, test rows "
            f"{X_test.shape[1]} and {T_test.shape[1]}: they have to be the same."
        )
    stack = sp.vstack if sp.issparse(X) or sp.issparse(X_test) else np.concatenate
    rows = np.arange(len(T) + len(T_test))
    both = np.concatenate([T, T_test])
    marks = _Marks()
    search = DM2LClassifierCV(
        **(
            {
                "lambda_ds": list(lambda_ds),
                "alphas": [alpha],
                "gammas": None if sigmas is None else [1 / (2 * float(s) ** 2) for s in sigmas],
                "kernel": "linear" if sigmas is None else "rbf",
                "search_tol": 5e-6,  # from 1e-5 on a search leaves the norms a little smoothed
                "search_iter": 1000,
            }
            | settings
        ),
        scoring=marks,
        cv=[(rows[: len(T)], rows[len(T) :])],
        refit=False,
        n_jobs=1,  # the marks are kept in this process
    )
    with warnings.catch_warnings():
        # Of labels that are constant over training and test rows together: says little here.
        warnings.simplefilter("ignore", ConstantLabelWarning)
        search.fit(stack([X, X_test]), np.where(both == 0, np.nan, both > 0))
    results = search.cv_results_
    values, column = np.unique(results["param_lambda_d"].astype(np.float64), return_inverse=True)
    widths, line = None, np.zeros(len(column), dtype=np.intp)
    if sigmas is not None:
        gammas = results["param_gamma"].astype(np.float64)
        widths, line = np.unique(1 / np.sqrt(2 * gammas), return_inverse=True)
    table = np.full((1, line.max() + 1, len(values), len(METRICS)), np.nan)
    table[0, line, column] = np.array(marks.found)[results["split0_test_score"].astype(np.intp)]
    scores = {name: table[..., m] for m, name in enumerate(METRICS)}
    return Sensitivity(values, widths, scores)
