"""Base models of AutoClassifier: construction, estimated fitting times, out-of-fold scores."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from dm2l._auto._score_classifier import ScoreClassifier
from dm2l._auto._stack import Bools
from dm2l._base import MissingLabelClassifier
from dm2l._classifier import DM2LClassifier
from dm2l._search._search import DM2LClassifierCV, search_stage
from dm2l._solvers.kernels import Kernel
from dm2l._utils.arrays import checked_numbers, to_numpy
from dm2l.baselines import MaskedOneVsRestClassifier, MaskedRidgeClassifier
from dm2l.labels._entries import EntryWeights, Floats, Signs
from dm2l.labels._matrix import LabelMatrix, LearnableMask
from dm2l.model_selection import selection_score

SILENCE = 5.0  # seconds between two progress reports while labels are fitted one by one

# Errors that base models raise for unsuitable data. LinAlgError is a ValueError.
FAILURES = (ValueError, ArithmeticError, MemoryError)


class OutOfTimeError(Exception):
    """Raised when the time limit does not suffice for the base model that is being fitted."""


@dataclass(frozen=True)
class Effort:
    """Limits on the sizes and fitting times of the base models."""

    folds: int
    sample: int  # number of rows for selecting hyperparameters
    kernels: int  # number of kernel models in the ensemble
    exact: int  # number of rows up to which kernel matrices are exact
    components: int  # number of components of the approximation with more rows
    trees: int  # number of trees per forest and label
    fold_trees: int  # number of trees per forest and label in each fold
    rounds: int  # number of boosting rounds
    most_trees: int  # maximum number of trees of all labels, to limit the size of the model file
    work: float  # approximate seconds on one core for trees on 10,000 rows and 30 labels
    labels: int  # number of labels up to which nuclear norms are used
    thorough: bool = False  # whether to try models that rarely improve the ensemble


EFFORTS = {
    "quick": Effort(3, 1000, 1, 6000, 1000, 0, 0, 0, 0, 0.0, 150),
    "normal": Effort(5, 2000, 2, 8000, 2000, 200, 100, 100, 6000, 450.0, 400),
    "best": Effort(5, 4000, 2, 20_000, 4000, 500, 200, 300, 18_000, 6000.0, 1000, True),
}


class ProgressLine(str):
    """Progress report of a fit, with a function that estimates the remaining seconds."""

    step: str  # without times
    left: Callable[[], float]


class TimeBudget:
    """Time limit and progress of a fit; ``report`` is called with a text at each step."""

    def __init__(self, limit: float | None, report: Callable[[str], None] | None) -> None:
        self.start = time.monotonic()
        self.limit = float("inf") if limit is None else float(limit)
        self._report = report
        self.planned = self._done = 0.0  # estimated seconds of the whole fit
        self.step = 0.0
        self.binding = False  # whether the time limit may stop the current base model
        # Estimated seconds for the stack and the fits to all rows, after the last candidate.
        self.reserved = 0.0
        self._reported = 0.0

    @property
    def passed(self) -> float:
        """Return the seconds since the fit started."""
        return time.monotonic() - self.start

    @property
    def ahead(self) -> float:
        """Return the estimated seconds of the remaining work."""
        return self.planned - self._done

    @property
    def step(self) -> float:
        """Estimated seconds of the current step."""
        return self._step

    @step.setter
    def step(self, seconds: float) -> None:
        self._step, self._steps, self.more, self.part = seconds, 0, 0, 0.0
        self._first = self._since = self.passed

    def advance(self) -> None:
        """Mark the current step as done."""
        self._done += self.step
        self._steps, self.more, self.part = self._steps + 1, max(self.more - 1, 0), 0.0
        self._since = self.passed

    def left(self) -> float:
        """Return the estimated remaining seconds, scaled by the measured times of earlier steps."""
        running, step, known = self.passed - self._since, self._step, 0.02 * self.planned
        pace = (self._since + known) / (self._done + known) if known else 1.0
        # Steps of one kind take equally long; the prior estimate has the weight of half a step.
        length = (self._since - self._first + 0.5 * pace * step) / (self._steps + 0.5)
        # A step that exceeds its estimate counts as two thirds done, unless it reports progress.
        length = running / self.part if self.part > 0.1 else max(length, 1.5 * running)
        rest = max(self.ahead - step * (1 + self.more), 0.0)
        pace = (self._since + length + known) / (self._done + step + known) if known else 1.0
        found = length - running + self.more * length + rest * pace
        return min(max(found, 0.0), max(self.limit - self.passed, 0.0))

    def allows(self, seconds: float) -> bool:
        """Return whether ``seconds`` more would leave enough time for stack and final fits."""
        # The first candidate is small and not typical, so a tenth of the plan is added to the work.
        known = 0.1 * self.planned
        pace = (self.passed + known) / (self._done + known) if known else 1.0
        return self.passed + (seconds + self.reserved) * pace <= self.limit

    def check(self) -> None:
        """Raise an error if a later base model leaves too little time for stack and final fits."""
        if self.binding and not self.allows(0.0):
            raise OutOfTimeError

    def report(self, line: str) -> None:
        """Report a step with the elapsed and the estimated remaining time."""
        passed = self._reported = self.passed
        if self._report is not None:
            told = ProgressLine(f"{line} ({passed:.0f} s, about {self.left():.0f} s left)")
            told.step, told.left = line, self.left
            self._report(told)

    def after_label(self, line: str, stops: bool, done: int, of: int) -> None:
        """Report progress every ``SILENCE`` seconds; if ``stops`` is true, check the time limit."""
        self.part = done / of
        if done < of and self.passed >= self._reported + SILENCE:
            self.report(f"{line}, label {done} of {of}")
        if done < of and stops:
            self.check()


Folds = list[tuple[NDArray[np.intp], NDArray[np.intp]]]
Sample = tuple[Any, LabelMatrix, Any]

# Seconds on one core (benchmarks/wide_table.py): of a tree on n rows per n log2(n) sqrt(d), of a
# boosting round per n d, of a matrix product per n^3, of the smallest tree, and of a label with
# missing entries per n d. SEARCHED is the number of fits in a search.
TREE, ROUND, CUBE, LEAST, LABEL = 1.25e-8, 6e-9, 1.5e-11, 1.5e-3, 7e-10
SEARCHED = 24
# Seconds on one core per nonzero entry and label, for ridge and for logistic regression on
# wide sparse data (benchmarks/text.py).
RIDGE, LOGISTIC = 2e-8, 1e-7
DUAL = 1000  # maximum number of rows for nuclear norms and a kernel model on wide data
# Regularization of logistic regression: C times the mean squared length of a row.
LENGTH = 20.0
TYPICAL = 300_000  # number of label entries to which the seconds in ``Effort`` refer
# Maximum number of entries for converting a sparse matrix to dense for boosting.
DENSE = 2e7
# Maximum of rows^2 * columns for the Laplacian kernel, which is slow because it cannot use BLAS.
MANHATTAN = 1e10
FEWEST_TREES = 20
TRIAL = 2  # number of folds after which a base model with negligible weight is dropped
# Maximum number of labels for learning label covariance together with the weights.
COUPLED = 100
# Maximum number of rows for the level of a fit (benchmarks/study.py, Arts).
LEVEL_ROWS = 1000
# Candidate weights of the nuclear norms, and the largest number of folds that select among them.
LAMBDAS = (0.0, 0.1, 0.3, 1.0, 3.0)
CHOOSING_FOLDS = 3


@dataclass
class EnsembleContext:
    """Training data and limits that all base models share."""

    X: Any  # encoded columns for trees, with NaN for missing values
    F: Any  # features of the other models
    bits: bool  # whether most columns contain only 0 and 1
    numbers: NDArray[np.intp] | None  # dense numeric columns of a sparse matrix of bits
    T: Signs
    entries: EntryWeights | None  # entry weights of the base models
    folds: Folds
    weights: Floats | None  # entry weights of the stack
    effort: Effort
    budget: TimeBudget
    max_memory: float
    seed: int
    n_jobs: int | None
    models: Sequence["Candidate"] = ()  # candidates from the user's estimators

    @property
    def wide(self) -> bool:
        """Whether features are sparse numbers with more columns than rows, such as TF-IDF."""
        return sp.issparse(self.F) and self.F.shape[1] > self.F.shape[0] and not self.bits

    @property
    def fold(self) -> NDArray[np.intp]:
        """Return the fold in which each row is held out; -1 for rows without a fold."""
        fold = np.full(len(self.T), -1)
        for number, (_, test) in enumerate(self.folds):
            fold[test] = number
        return fold

    def sample(self) -> Sample:
        """Return a sample for selecting hyperparameters: features, labels and folds."""
        # A sample suffices: the best hyperparameters hardly depend on the number of rows.
        rows = np.arange(len(self.T))
        if len(rows) > self.effort.sample:
            order = np.random.default_rng(self.seed).permutation(len(rows))
            rows = np.sort(order[: self.effort.sample])
        mask = LearnableMask.of(self.T[rows])
        X, labels = mask.apply(self.F[rows], LabelMatrix.of_signs(self.T[rows]))
        # The folds of the ensemble are merged, so that groups of rows stay together.
        fold = self.fold[rows][mask.keep]
        n_folds = int(fold.max()) + 1
        merged = fold * min(CHOOSING_FOLDS, n_folds) // max(n_folds, 1)
        parts = [(merged != f, merged == f) for f in range(CHOOSING_FOLDS)]
        cv = [tuple(map(np.flatnonzero, both)) for both in parts if all(map(np.any, both))]
        return X, labels, cv if len(cv) > 1 else min(CHOOSING_FOLDS, len(labels))

    def fit_to_all_rows(self, tried: list["BaseModel"], keep: Bools) -> dict[int, Exception]:
        """Fit the first model and the models in ``keep`` to all rows; return the exceptions."""
        failed: dict[int, Exception] = {}
        for place in np.flatnonzero(keep | (np.arange(len(keep)) == 0)):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    warnings.filterwarnings("default", "The scores in X seem to be in-sample")
                    tried[place].fit(self)
            except FAILURES as error:
                if not place:
                    raise
                failed[int(place)] = error
            self.budget.advance()
        return failed


@dataclass(eq=False)
class BaseModel:
    """Base model of the ensemble; the model is fitted in folds and then to all rows."""

    name: str
    settings: str  # hyperparameters as text for the leaderboard
    model: Any
    inputs: str = "features"  # or "columns", "dense" columns, or dense "numbers" beside sparse bits
    shares: bool = False  # whether scores are 2 p - 1, where p is a share of trees
    in_folds: Any = None  # model for the folds; None means ``model``
    kernel: Kernel | None = None  # kernel whose matrix is computed once for all folds
    levelled: bool = False  # whether scores are relative to their mean over training rows
    level: Floats | float = 0.0  # this mean (c,) after the fit to all rows

    def held_out(
        self, context: EnsembleContext, helps: Callable[[Floats], bool] | None = None
    ) -> Floats | None:
        """Return out-of-fold scores (NaN: undefined), or None if ``helps`` rejects the model."""
        X = rows_for(self.inputs, context.X, context.F, context.numbers)
        model = self.model if self.in_folds is None else self.in_folds
        if self.kernel is not None:
            X = self.kernel(X, X)
            model = clone(model).set_params(kernel="precomputed", gamma="scale")
        model = model._for_folds()
        model.label_names_ = np.arange(context.T.shape[1])
        labels = replace(LabelMatrix.of_signs(context.T), entries=context.entries)
        scores = np.full(context.T.shape, np.nan)
        for number, (train, test) in enumerate(context.folds, 1):
            if helps is not None and number == TRIAL + 1 and not helps(scores):
                return None
            context.budget.check()
            line = f"{self.name}: fold {number} of {len(context.folds)}"
            context.budget.more = len(context.folds) - number
            context.budget.report(line)
            progress = _progress(model, context.budget, line, stops=True)
            some = train[:: 1 + len(train) // LEVEL_ROWS] if self.levelled else train[:0]
            found = model._score_fold(X, labels, (train, np.append(test, some)), **progress)
            level = found[len(test) :].mean(axis=0) if self.levelled else 0.0
            scores[test] = found[: len(test)] - level
            context.budget.advance()
        return scores

    def fit(self, context: EnsembleContext) -> None:
        """Fit the model to all rows."""
        line = f"{self.name} on all rows"
        context.budget.report(line)
        weights = None if context.entries is None else context.entries.weights
        X = rows_for(self.inputs, context.X, context.F, context.numbers)
        progress = _progress(self.model, context.budget, line, stops=False)
        labels = LabelMatrix.of_signs(context.T)
        self.model._fit_arrays(X, labels, None, (None, weights), **progress)
        if self.levelled and len(context.folds) > 1:
            some = X[:: 1 + X.shape[0] // LEVEL_ROWS]
            self.level = to_numpy(self.model._all_scores(some)).mean(axis=0)
        if context.wide:  # coefficients of many columns would make the model file large
            for model in [self.model, *getattr(self.model, "estimators_", ())]:
                if hasattr(model, "coef_"):
                    model.coef_ = model.coef_.astype(np.float32)


def _progress(model: Any, budget: TimeBudget, line: str, *, stops: bool) -> dict[str, Any]:
    """Return fit arguments that report progress, if the model fits labels one by one."""
    labelwise = isinstance(model, MaskedOneVsRestClassifier)
    return {"after_label": partial(budget.after_label, line, stops)} if labelwise else {}


def rows_for(inputs: str, X: Any, F: Any, numbers: Any = None) -> Any:
    """Select the inputs of a base model: encoded columns ``X`` or features ``F``."""
    if inputs == "features":
        return F
    if inputs == "numbers":
        return X[:, numbers].toarray()
    return X.toarray() if inputs == "dense" and sp.issparse(X) else X


@dataclass(frozen=True)
class Candidate:
    """Base models that are tried together, with estimated times in seconds on one core."""

    name: str
    choosing: float  # time for selecting hyperparameters
    seconds: float  # total time for selecting hyperparameters and for all fits
    make: Callable[[], list[BaseModel]]


def candidates(context: EnsembleContext) -> Iterator[Candidate]:
    """Yield the candidate models in descending order of expected benefit per second."""
    n, d = context.F.shape
    c = context.T.shape[1]
    size = min(n, context.effort.sample)
    fits = len(context.folds) + 1
    choosing = 6 * CUBE * min(d, n) ** 2 * size + SEARCHED * LABEL * size * min(d, size) * c
    cost = fits * (CUBE * min(d, n) ** 2 * n + LABEL * n * min(d, n) * c)
    if context.wide and n > DUAL:
        cost = fits * RIDGE * context.F.nnz * c
    yield Candidate("linear", choosing + 0.5, choosing + cost + 1.0, lambda: [_linear(context)])
    if context.wide:
        cost = fits * LOGISTIC * context.F.nnz * np.count_nonzero(context.T) / n
        yield Candidate("logistic", 0.0, cost + 0.1, lambda: [_logistic(context)])
        if n > DUAL:  # a kernel model would be slower and less accurate (benchmarks/text.py)
            return
    exact = n <= context.effort.exact and 40.0 * n * n <= context.max_memory
    m = context.effort.components
    width = n if exact else min(m, n)
    choosing = 100 * CUBE * size**3 + SEARCHED * LABEL * size**2 * c
    cost = fits * (3 * CUBE * n * width**2 + LABEL * n * width * c)
    yield Candidate("kernel", choosing, choosing + cost + 1.0, lambda: _kernels(context, exact))
    if not context.effort.trees or context.wide:
        return
    # Each candidate below gets a third of ``work``, scaled by the square root of the data's size.
    size_of_data = np.clip(np.sqrt(n * c / TYPICAL), 0.3, 3.0)
    work = context.effort.work / 3 * float(size_of_data)
    seen = (context.T != 0).sum(axis=0).astype(np.float64)
    # For molecules, trees rank better if they use only descriptors and no fingerprints
    # (benchmarks/tox21_challenge.py).
    columns = context.X.shape[1] if context.numbers is None else len(context.numbers)
    tree = TREE * float((seen * np.log2(seen + 2)).sum()) * np.sqrt(columns) + LEAST * c
    share = context.effort.fold_trees / context.effort.trees
    # A column of 0 and 1 has one split, so random forests resemble extra trees. Boosting is
    # the most expensive and least accurate model on such columns (benchmarks/study.py: Tox21).
    plain = context.bits and context.numbers is None and not context.effort.thorough
    for name in ("extra trees", "random forest"):
        if name == "random forest" and plain:
            continue
        a_tree = tree * (1 + 0.8 * share * (fits - 1))
        fit = min(work / max(a_tree, 1e-9), context.effort.most_trees / c)
        trees = int(min(context.effort.trees, fit))
        yield Candidate(name, 0.0, a_tree * trees, partial(_forest, context, name, trees))
    boost = (ROUND * float(seen.sum()) * columns + LEAST * c) * fits
    rounds = int(min(context.effort.rounds, work / max(boost, 1e-9)))
    small = context.numbers is not None or not sp.issparse(context.X) or n * d <= DENSE
    if rounds >= FEWEST_TREES and not plain and small:
        yield Candidate("boosted trees", 0.0, boost * rounds, lambda: [_boosted(context, rounds)])


def skill(labels: Any, scores: Floats) -> float:
    """Return the label discrimination of scores; 0 if no label has both classes."""
    # By correlation alone, selected kernels would be too wide and selected norms too weak
    # (benchmarks/study.py, Tox21).
    return float(np.nan_to_num(selection_score("label_discrimination", labels, scores)))


class _SkillSearch(DM2LClassifierCV):
    # A callable ``scoring`` would parse the labels in each call.
    def _metric(self, T: Signs) -> Callable[..., float]:
        return skill


def choose(
    sample: Sample, kernel: str, gammas: Any = None, ridge: DM2LClassifierCV | None = None
) -> DM2LClassifierCV:
    """Search for alpha and gamma with lambda_d 0; given its result ``ridge``, for lambda_d."""
    X, labels, cv = sample
    search = _SkillSearch(LAMBDAS, None, gammas, kernel=kernel, cv=cv, refit=False, coupling=None)
    # If norms improve scores, a larger alpha usually does, too. A smaller alpha has no benefit
    # and takes many more iterations (benchmarks/study.py: Social, Tox21, SIDER).
    alphas = None if ridge is None else (ridge.alpha_, 3 * ridge.alpha_)
    stage = search_stage(search, ridge, alphas)
    # A label may have a single class in a fold.
    with warnings.catch_warnings(action="ignore"), checked_numbers(X):
        stage._search(X, labels)
    return stage


def _linear(context: EnsembleContext) -> BaseModel:
    sample = context.sample()
    context.budget.report("linear: selecting hyperparameters")
    found = choose(sample, "linear")
    if not context.wide or len(context.T) <= DUAL:
        return _tuned(context, sample, found)
    model = MaskedRidgeClassifier(found.alpha_, solver="dual", coupling=None)
    return BaseModel("linear", f"ridge, alpha {found.alpha_:.3g}", model, levelled=True)


def _logistic(context: EnsembleContext) -> BaseModel:
    from sklearn.linear_model import LogisticRegression

    C = LENGTH * context.F.shape[0] / float(context.F.multiply(context.F).sum())
    # 0.1 is LIBLINEAR's own default; smaller tolerances take longer without improving any metric.
    base = LogisticRegression(
        C=C, solver="liblinear", dual=True, tol=0.1, random_state=context.seed
    )
    return BaseModel("logistic regression", f"C {C:.3g}", MaskedOneVsRestClassifier(base))


def _kernels(context: EnsembleContext, exact: bool) -> list[BaseModel]:
    sample, found = context.sample(), []
    for kernel, gammas in _widths(context):
        context.budget.report(f"{kernel} kernel: selecting hyperparameters")
        found.append(choose(sample, kernel, gammas))
        context.budget.check()
    found.sort(key=lambda search: -search.best_score_)
    models = []
    for best in found[: context.effort.kernels]:
        context.budget.report(f"{best.kernel} kernel: selecting lambda_d")
        models.append(_tuned(context, sample, best, exact))
    return models


def _tuned(
    context: EnsembleContext, sample: Sample, found: DM2LClassifierCV, exact: bool = True
) -> BaseModel:
    """Return a base model with the best hyperparameters; with many labels, lambda_d is 0."""
    n, c = context.T.shape
    if c <= context.effort.labels:
        found = choose(sample, found.kernel, ridge=found)
    gamma = "" if found.gamma_ is None else f", gamma {found.gamma_:.3g}"
    words = f"lambda_d {found.lambda_d_:g}, alpha {found.alpha_:.3g}{gamma}"
    coupling = "joint" if 1 < c <= COUPLED else None
    model = DM2LClassifier(coupling=coupling, **found.best_params_)
    if found.kernel == "linear":
        return BaseModel("linear", words, model, levelled=True)
    model.set_params(kernel=found.kernel, random_state=context.seed)
    kernel = Kernel(found.kernel, float(found.gamma_ or 1.0)) if exact else None
    if not exact:
        m = max(int(min(context.effort.components, context.max_memory / (40.0 * n), n)), 10)
        model.set_params(approximation="nystroem", n_components=m)
        words += f", Nystroem with {m} features"
    return BaseModel(f"{found.kernel} kernel", words, model, kernel=kernel, levelled=True)


def _widths(context: EnsembleContext) -> Iterator[tuple[str, list[float]]]:
    """Yield the name of each kernel to try, with the values of ``gamma`` to try."""
    F = context.F
    n, d = F.shape
    variance = float(F.multiply(F).mean() - F.mean() ** 2 if sp.issparse(F) else np.var(F))
    scale = 1.0 / (d * variance) if variance > 0 else 1.0
    quick = not context.effort.trees
    if context.bits:
        yield "tanimoto", [3.0] if quick else [1.5, 3.0, 6.0]
        if quick:
            return
    yield "rbf", [scale * share for share in ((0.3, 1.0) if quick else (0.1, 0.3, 1.0, 3.0))]
    wide = sp.issparse(F) or float(n) * n * d > MANHATTAN
    if not quick and not wide and not context.bits:
        # Rows of d standardized columns have a mean L1 distance of about 1.1 d.
        yield "laplacian", [share / d for share in (0.1, 0.3, 1.0)]


def _forest(context: EnsembleContext, name: str, trees: int) -> list[BaseModel]:
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

    if trees < FEWEST_TREES:
        return []
    kind = RandomForestClassifier if name == "random forest" else ExtraTreesClassifier
    # Leaves of one row give probabilities of 0 and 1, which rank worse (benchmarks/study.py).
    base = kind(trees, min_samples_leaf=2, random_state=context.seed)
    share = context.effort.fold_trees / context.effort.trees
    few = clone(base).set_params(n_estimators=max(FEWEST_TREES, int(trees * share)))
    # Processes are used because threads share warning filters and would print warnings.
    model, in_folds = (
        MaskedOneVsRestClassifier(each, n_jobs=context.n_jobs) for each in (base, few)
    )
    inputs = "columns" if context.numbers is None else "numbers"
    return [BaseModel(name, f"{trees} trees per label", model, inputs, True, in_folds)]


def _boosted(context: EnsembleContext, rounds: int) -> BaseModel:
    from sklearn.ensemble import HistGradientBoostingClassifier

    base = HistGradientBoostingClassifier(
        max_iter=rounds,
        learning_rate=min(0.1, 8.0 / rounds),
        max_leaf_nodes=15,
        max_features=0.3,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=context.seed,
    )
    # HistGradientBoostingClassifier rejects columns without a value, so it gets imputed features.
    inputs = "features" if _without_values(context) else "dense"
    inputs = inputs if context.numbers is None else "numbers"
    return BaseModel("boosted trees", f"{rounds} rounds", MaskedOneVsRestClassifier(base), inputs)


def _without_values(context: EnsembleContext) -> bool:
    """Return whether, in any fold, a column is missing in all observed training rows of a label."""
    X = context.X
    if sp.issparse(X):
        return False
    known, observed = ~np.isnan(X), (context.T != 0).astype(np.float64)
    known = known[:, ~known.all(axis=0)].astype(np.float64)
    return any((known[train].T @ observed[train] == 0).any() for train, _ in context.folds)


# Models that the user passes must have other names.
_NAMES = {"linear", "kernel", "logistic", "logistic regression", "stack"}
_NAMES |= {"extra trees", "random forest", "boosted trees"}


def user_candidates(models: Any, learnable: Bools, n_jobs: int | None) -> list[Candidate]:
    """Return a candidate for each (name, estimator) pair, fitted to the ``learnable`` labels."""
    found: dict[str, Candidate] = {}
    for pair in models or ():
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str)):
            raise TypeError(f"models must be a list of pairs (name, estimator), but has {pair!r}.")
        name, estimator = pair
        if name in _NAMES or name.endswith(" kernel") or name in found:
            raise ValueError(f"The name {name!r} is taken by another model. Pass another name.")
        make = partial(_of_user, name, estimator, learnable, n_jobs)
        found[name] = Candidate(name, 0.0, 0.0, make)
    return list(found.values())


def _of_user(name: str, model: Any, learnable: Bools, n_jobs: int | None) -> list[BaseModel]:
    settings, shares = type(model).__name__, isinstance(model, ScoreClassifier)
    if isinstance(model, MissingLabelClassifier):
        model = clone(model)
        if shares:  # the ensemble passes only learnable labels
            columns = np.arange(len(learnable)) if model.columns is None else model.columns
            model.set_params(columns=np.asarray(columns)[learnable].tolist())
        if model.coupling == "residual":  # the ensemble learns label correlations itself
            model.set_params(coupling=None)
    else:  # estimators without a decision function have the scores 2 p - 1
        shares = hasattr(model, "predict_proba") and not hasattr(model, "decision_function")
        model = MaskedOneVsRestClassifier(model, n_jobs=n_jobs)
    return [BaseModel(name, settings, model, "columns", shares)]
