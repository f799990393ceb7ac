"""Metrics over the weight of the nuclear norms and the width of the kernel."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import check_array

from dm2l import metrics
from dm2l._search._search import DM2LClassifierCV
from dm2l.labels import ConstantLabelWarning
from dm2l.labels._parsing import parse_labels, signs
from dm2l_lab._published import PAPER_METRICS as METRICS

__all__ = ["Sensitivity", "sensitivity"]

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Metrics over a grid of ``lambda_d`` and, for a kernel, ``sigma``.

    Parameters
    ----------
    lambda_ds : ndarray of shape (n_lambdas,)
        In rising order.
    sigmas : ndarray of shape (n_sigmas,) or None
        In rising order; None for the linear model.
    scores : dict of str to ndarray of shape (n_repetitions, n_sigmas or 1, n_lambdas)
        By name of the metric; nan where there is no value.
    """

    lambda_ds: Numbers
    sigmas: Numbers | None
    scores: dict[str, Numbers]

    def along(
        self, parameter: str, metric: str, *, at: float | None = None
    ) -> tuple[Numbers, Numbers]:
        """Values of one parameter, and the metric at them while the other stays fixed.

        Parameters
        ----------
        parameter : {"lambda_d", "sigma"}
            What varies.
        metric : str
            One of ``scores``.
        at : float, default=None
            Value of the other parameter, if it has several: the nearest of the grid is taken, and
            has to agree to three digits.

        Returns
        -------
        values : ndarray of shape (n_values,)
            Of the parameter.
        scores : ndarray of shape (n_repetitions, n_values)
            Of the metric.
        """
        if metric not in self.scores:
            raise ValueError(f"There is no {metric!r} here, only {', '.join(self.scores)}.")
        table = self.scores[metric]
        if parameter == "lambda_d":
            others = np.full(1, np.nan) if self.sigmas is None else self.sigmas
            return self.lambda_ds, table[:, _place(others, at, "sigma")]
        if parameter != "sigma" or self.sigmas is None:
            raise ValueError(f"{parameter!r} does not vary here.")
        return self.sigmas, table[:, :, _place(self.lambda_ds, at, "lambda_d")]

    @classmethod
    def join(cls, parts: Sequence[Sensitivity]) -> Self:
        """Repetitions over one grid, together."""
        first = parts[0]
        for part in parts:
            same = part.scores.keys() == first.scores.keys() and all(
                np.array_equal(np.asarray(getattr(part, name)), np.asarray(getattr(first, name)))
                for name in ("lambda_ds", "sigmas")
            )
            if not same:
                raise ValueError("Only studies with the same grid and metrics can be joined.")
        scores = {m: np.concatenate([part.scores[m] for part in parts]) for m in first.scores}
        return cls(first.lambda_ds, first.sigmas, scores)

    @classmethod
    def from_search(
        cls, results: Mapping[str, Any], *, alpha: float | None = None, metric: str = "score"
    ) -> Self:
        """Scores of a search, its folds as repetitions.

        Parameters
        ----------
        results : mapping
            ``cv_results_`` of :class:`dm2l.DM2LClassifierCV`.
        alpha : float, default=None
            Which one, if several were tried.
        metric : str, default="score"
            What to call the score.
        """
        ridges = np.asarray(results["param_alpha"], dtype=np.float64)
        ridge = np.unique(ridges)[_place(np.unique(ridges), alpha, "alpha")]
        rows = np.flatnonzero(ridges == ridge)
        gammas = results.get("param_gamma")
        folds = [name for name in results if name.startswith("split")]
        table = np.array([results[f"split{i}_test_score"] for i in range(len(folds))])
        keys = [
            (i, results["param_lambda_d"][row], None if gammas is None else gammas[row])
            for i in range(len(folds))
            for row in rows
        ]
        return cls._of(keys, {metric: table[:, rows].ravel()})

    @classmethod
    def _of(cls, keys: Sequence[tuple[int, Any, Any]], values: Mapping[str, ArrayLike]) -> Self:
        """Spread values over the grid that their (repetition, lambda_d, gamma) span."""
        _, repetition = np.unique([key[0] for key in keys], return_inverse=True)
        lambda_ds, j = np.unique(np.array([key[1] for key in keys], float), return_inverse=True)
        sigmas, i = None, np.zeros(len(keys), dtype=np.intp)
        if keys[0][2] is not None:
            for _, _, gamma in keys:
                if isinstance(gamma, str):
                    raise ValueError(f"gamma='{gamma}' tells no sigma: give gammas as numbers.")
            gammas = np.array([key[2] for key in keys], dtype=np.float64)
            sigmas, i = np.unique(1 / np.sqrt(2 * gammas), return_inverse=True)
        shape = (repetition.max() + 1, i.max() + 1, len(lambda_ds))
        scores = {}
        for name, column in values.items():
            scores[name] = np.full(shape, np.nan)
            scores[name][repetition, i, j] = column
        return cls(lambda_ds, sigmas, scores)


def _place(values: Numbers, at: float | None, name: str) -> int:
    """Where a value stands among those of a parameter."""
    if at is None and len(values) == 1:
        return 0
    nearest = 0 if at is None else int(np.argmin(np.abs(values - at)))
    if at is None or not np.isclose(values[nearest], at, rtol=1e-3, atol=0.0):
        raise ValueError(f"{name} must be one of {', '.join(f'{v:g}' for v in values)}; got {at}.")
    return nearest


class _Marks:
    """A metric for a search that keeps all the metrics and returns where it put them."""

    def __init__(self, convention: str) -> None:
        self._options: Any = {} if convention == "default" else {"convention": convention}
        self.found: list[list[float]] = []

    def __call__(self, Y: Any, scores: Any) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMetricWarning)  # nan says as much
            self.found.append(
                [float(getattr(metrics, m)(Y, scores, **self._options)) for m in METRICS]
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
    convention: str = "published",
    label_mask: Any = None,
    **settings: Any,
) -> Sensitivity:
    """Metrics on test rows over a grid of ``lambda_d`` and ``sigma``.

    Fits see the features of the training rows and their observed labels only. They share
    factorisations as those of :class:`dm2l.DM2LClassifierCV` do, and run to convergence.

    Parameters
    ----------
    X, Y, label_mask
        To fit; labels may have holes.
    X_test, Y_test
        To score on.
    lambda_ds : sequence of float
        Weights of the nuclear norms.
    sigmas : sequence of float, default=None
        Widths of the Gaussian kernel, ``gamma = 1 / (2 sigma^2)``; None for the linear model.
    alpha : float, default=1.0
        Ridge.
    convention : {"published", "default"}, default="published"
        Of the metrics.
    **settings
        Further parameters of :class:`dm2l.DM2LClassifierCV`, such as ``approximation``, without
        which a kernel matrix of all rows, those of the test too, is made.

    Returns
    -------
    Sensitivity
        One repetition of ranking loss, instance AUC, coverage and average precision.
    """
    T = signs(Y, label_mask=label_mask)
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
    marks = _Marks(convention)
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
    grid = Sensitivity.from_search(search.cv_results_)
    found = np.array(marks.found)[grid.scores["score"].astype(np.intp)]
    scores = {name: found[..., m] for m, name in enumerate(METRICS)}
    return Sensitivity(grid.lambda_ds, grid.sigmas, scores)
