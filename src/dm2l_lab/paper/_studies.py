"""Numbers behind figures that no store holds: ranks of labels, courses of solvers, sensitivity."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning
from sklearn.utils import check_array, check_random_state

from dm2l import metrics
from dm2l.classifier import DM2LClassifier
from dm2l.labels import ConstantLabelWarning, Signs, Spectrum, parse_labels, signs
from dm2l.search import DM2LClassifierCV

__all__ = [
    "Convergence",
    "Course",
    "LabelRanks",
    "Sensitivity",
    "convergence",
    "label_ranks",
    "sensitivity",
]

Numbers = NDArray[np.float64]

# The paper's four, in its order.
METRICS = ("ranking_loss", "instance_auc", "coverage", "average_precision")
_SOLVERS = ("lbfgs", "cccp", "published")


# -- ranks of label matrices --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LabelRanks:
    """Spectra of a label matrix, of its groups, and of random rows as many as in each group.

    Parameters
    ----------
    whole : Spectrum
        All rows.
    groups : dict of str to Spectrum
        By name of the label: the rows in which it is an observed positive.
    random : dict of str to tuple of Spectrum
        By name of the label: rows drawn at random, as many as the group has. What a group lacks
        in rank against these is due to its label, not to its size.
    """

    whole: Spectrum
    groups: dict[str, Spectrum]
    random: dict[str, tuple[Spectrum, ...]]


def label_ranks(
    Y: Any, *, draws: int = 5, random_state: Any = 0, label_names: Any = None, **reading: Any
) -> LabelRanks:
    """Compare the rank of a label matrix with the ranks of the groups ``Y_k``.

    The matrix is that of the signs: +1 observed positive, -1 observed negative, and **0 where a
    label is missing**, so holes add to the ranks. ``Y_k`` has the rows in which label ``k`` is an
    observed positive; hidden positives are in no group. Labels without one have no group.

    Parameters
    ----------
    Y : array-like, data frame or signed CSR of shape (n, c)
        Labels, with holes or without.
    draws : int, default=5
        Random subsets of rows to compare each group with; 0 for none.
    random_state : int, RandomState or None, default=0
        For these.
    label_names : sequence of str, default=None
        Names of the labels; None takes those of the data frame, or numbers.
    **reading
        ``label_mask``, ``missing_label``, ``absent_label`` of :func:`dm2l.labels.parse_labels`.

    Returns
    -------
    LabelRanks
        The spectra.

    Examples
    --------
    Every snake is a reptile, so the rows of "snake" span less:

    >>> from dm2l_lab.paper._studies import label_ranks
    >>> Y = [[1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 1, 0], [0, 0, 1], [0, 0, 0]]
    >>> ranks = label_ranks(Y, label_names=["snake", "reptile", "river"])
    >>> ranks.whole.rank, {name: group.rank for name, group in ranks.groups.items()}
    (3, {'snake': 2, 'reptile': 3, 'river': 3})
    """
    labels = parse_labels(Y, **reading)
    T = labels.signs
    found = labels.names if label_names is None else label_names
    names = [str(name) for name in (range(T.shape[1]) if found is None else found)]
    if len(names) != T.shape[1] or len(set(names)) < len(names):
        raise ValueError(f"label_names must name {T.shape[1]} labels, each differently: {names}.")
    rng = check_random_state(random_state)
    groups, random = {}, {}
    for k, name in enumerate(names):
        members = np.flatnonzero(T[:, k] > 0)
        if len(members):
            groups[name] = Spectrum.of(T[members])
            random[name] = tuple(
                Spectrum.of(T[rng.permutation(len(T))[: len(members)]]) for _ in range(draws)
            )
    return LabelRanks(Spectrum.of(T), groups, random)


# -- convergence --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Course:
    """The exact objective at the start and after each iteration, and the seconds since fit began.

    Parameters
    ----------
    objective, seconds : ndarray of shape (n_iter + 1,)
        No solver tells when it had its start, so the first of the seconds is nan.
    """

    objective: Numbers
    seconds: Numbers


@dataclass(frozen=True, eq=False)
class Convergence:
    """How solvers get to the minimum of one objective.

    Parameters
    ----------
    courses : dict of str to Course
        By name of the solver.
    lowest : float
        The lowest objective known.
    """

    courses: dict[str, Course]
    lowest: float

    def distance(self, solver: str) -> Numbers:
        """Relative distance from the lowest objective known, ``(J - lowest) / lowest``."""
        return (self.courses[solver].objective - self.lowest) / self.lowest


class _Timed(DM2LClassifier):
    """The same estimator with a clock instead of its progress report."""

    def _report(self, iteration: int, value: float) -> None:
        self.stamps_.append(time.perf_counter())

    def course(self, X: Any, Y: Any, label_mask: Any) -> Course:
        """Fit, and tell how it went."""
        self.stamps_: list[float] = []
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the course says it better
            self.fit(X, Y, label_mask=label_mask)
        # A model without nuclear norms is solved at once: its start is its end.
        stamps = [np.nan, *self.stamps_] if self.stamps_ else [time.perf_counter()]
        return Course(self.objective_history_.astype(np.float64), np.array(stamps) - start)


def convergence(
    X: Any,
    Y: Any,
    estimator: DM2LClassifier | None = None,
    *,
    solvers: Sequence[str] = ("lbfgs", "cccp", "published"),
    tol: float = 1e-8,
    max_iter: Mapping[str, int] | None = None,
    label_mask: Any = None,
) -> Convergence:
    """Follow solvers to the minimum of the objective that an estimator stands for.

    An iteration of "cccp" or "published" is a round, with iterations of its own inside.

    Parameters
    ----------
    X, Y, label_mask
        As in :meth:`DM2LClassifier.fit`.
    estimator : DM2LClassifier, default=None
        Its solver, ``tol`` and ``max_iter`` do not count. None: ``DM2LClassifier.published()``,
        the paper's DM2L-l.
    solvers : sequence of {"lbfgs", "cccp", "published"}
        Which ones.
    tol : float, default=1e-8
        Tolerance of those that run to convergence; the lowest objective is looked for with a
        hundredth of it.
    max_iter : mapping of str to int, default=None
        Most iterations of a solver, instead of 24 (linear) or 9 (kernel) of "published", as in
        the paper, and 1000 of the others.

    Returns
    -------
    Convergence
        Their courses.

    Examples
    --------
    >>> from dm2l import DM2LClassifier
    >>> from dm2l.datasets import make_missing_multilabel
    >>> from dm2l_lab.paper._studies import convergence
    >>> X, Y = make_missing_multilabel(n_samples=100, random_state=0)
    >>> study = convergence(X, Y, DM2LClassifier(alpha=1.0), solvers=["lbfgs", "cccp"])
    >>> bool(study.distance("lbfgs")[-1] < 1e-6)
    True
    """
    if estimator is None:
        estimator = DM2LClassifier.published()
    linear = estimator.kernel == "linear"
    limits = {"lbfgs": 1000, "cccp": 1000, "published": 24 if linear else 9} | dict(max_iter or {})
    if not solvers or not set(solvers) <= set(_SOLVERS) or not limits.keys() <= set(_SOLVERS):
        raise ValueError(
            f"solvers and keys of max_iter must be among {', '.join(_SOLVERS)}; got {solvers!r} "
            f"and {max_iter!r}."
        )
    if "published" in solvers:
        marks = {name: getattr(estimator, name) for name in ("missing_label", "absent_label")}
        _check_common_objective(estimator, signs(Y, label_mask=label_mask, **marks))
    settings = estimator.get_params(deep=False) | {"verbose": 1, "tol": tol, "warm_start": False}
    courses = {
        name: _Timed(**(settings | {"solver": name, "max_iter": limits[name]})).course(
            X, Y, label_mask
        )
        for name in solvers
    }
    tight = {"solver": "lbfgs", "tol": 0.01 * tol, "max_iter": 5000}
    best = _Timed(**(settings | tight)).course(X, Y, label_mask)
    lowest = min(float(course.objective.min()) for course in (best, *courses.values()))
    if not lowest > 0:
        raise ValueError(
            f"The lowest objective is {lowest:.3g}: there is no relative distance from it. Use a "
            "larger alpha or lambda_d."
        )
    return Convergence(courses, lowest)


def _check_common_objective(estimator: DM2LClassifier, T: Signs) -> None:
    """Refuse what the published solver would minimise another objective for than the others."""
    if estimator.kernel != "linear" and estimator.alpha != 0:
        raise ValueError(
            f"With a kernel and alpha={estimator.alpha!r} the published solver has another ridge, "
            "on its dual weights: set alpha=0, or leave 'published' out of solvers."
        )
    T = T[:, (T > 0).any(axis=0) & (T < 0).any(axis=0)]
    bare = (T != 0).any(axis=1) & ~(T > 0).any(axis=1)
    if bare.any() and estimator.local and estimator.discriminant and estimator.lambda_d > 0:
        raise ValueError(
            f"{bare.sum()} rows, the first is number {int(np.flatnonzero(bare)[0])}, have no "
            "observed positive. The published solver has them in its global norm, the others "
            "have not: leave these rows out, or 'published' out of solvers."
        )


# -- sensitivity --------------------------------------------------------------------------------


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
    def from_rows(cls, rows: Iterable[Mapping[str, Any]], *, convention: str = "published") -> Self:
        """Rows of a store whose methods differ in ``lambda_d`` and ``gamma`` only.

        Parameters
        ----------
        rows : iterable of mapping
            As :meth:`Store.rows` gives them, of one data set, mask and rate; failures are nan.
        convention : {"published", "default"}, default="published"
            Of the metrics.
        """
        done = [row for row in rows if row["status"] == "done"]
        if not done:
            raise ValueError("None of the rows is done: there is nothing to compare.")
        same: dict[str, Any] = {}
        for row in done:
            free = {k: v for k, v in row["parameters"].items() if k not in ("lambda_d", "gamma")}
            place = {name: row[name] for name in ("protocol", "dataset", "mask", "rate")}
            for name, value in (place | free).items():
                if same.setdefault(name, value) != value:
                    raise ValueError(
                        f"Rows differ in {name}: {same[name]!r} and {value!r}. Select rows that "
                        "differ in lambda_d and gamma only."
                    )
        kernel = same.get("kernel") == "rbf"
        keys = [
            (row["repetition"], p["lambda_d"], p["gamma"] if kernel else None)
            for row in done
            for p in [row["parameters"]]
        ]
        found = [row["metrics"][convention] for row in done]
        values = {m: np.array([f[m] for f in found], dtype=np.float64) for m in found[0]}
        return cls._of(keys, values)

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

    Examples
    --------
    >>> from dm2l.datasets import make_missing_multilabel
    >>> from dm2l_lab.paper._studies import sensitivity
    >>> X, Y = make_missing_multilabel(random_state=0)
    >>> study = sensitivity(X[:120], Y[:120], X[120:], Y[120:], [0.01, 0.1, 1], sigmas=[1, 4])
    >>> study.scores["ranking_loss"].shape
    (1, 2, 3)
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
