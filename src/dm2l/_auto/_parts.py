"""The models that are tried: how each is made, what it costs, and its held-out scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from dm2l._auto._effort import Effort, LabelByLabel, NoGainError, TimeBudget
from dm2l._auto._tuning import Sample, Setting, ridge_settings, with_norms
from dm2l._base import fold_inputs, weighed
from dm2l._classifier import DM2LClassifier
from dm2l._solvers.kernels._kernel import Kernel
from dm2l._utils.arrays import to_numpy
from dm2l.baselines import MaskedOneVsRestClassifier
from dm2l.labels._entries import EntryWeights, Signs

Floats = NDArray[np.float64]
Folds = list[tuple[NDArray[np.intp], NDArray[np.intp]]]

# Seconds of one core, measured on Tox21 (6,000 rows, 1,024 columns): a tree on n rows costs this
# times n log2(n) sqrt(d); a round of boosting n d; a product or factor n^3. A tree and a round cost
# something on any rows. Labels with holes of their own cost n d each (benchmarks/wide_table.py: 617
# of them), in as many fits as a search makes.
TREE, ROUND, CUBE, LEAST, LABEL = 1.25e-8, 6e-9, 1.5e-11, 1.5e-3, 7e-10
SEARCHED = 24
# Numbers of a sparse matrix that may be written out for boosting.
DENSE = 2e7
# Rows squared times columns that the Laplacian kernel, which no BLAS speeds up, may take.
MANHATTAN = 1e10
FEWEST_TREES = 20
# Folds after which a part that brings the stack nothing is given up.
TRIAL = 2
# Labels up to which their covariance is learnt with the weights.
COUPLED = 100


@dataclass
class EnsembleContext:
    """What all parts share.

    Parameters
    ----------
    X : array or CSR of shape (n, d)
        Encoded columns, NaN where missing, for trees.
    F : array or CSR of shape (n, e)
        Features for the other parts.
    bits : bool
        Whether columns are mostly 0/1.
    T : ndarray of shape (n, c), int8
        Signs.
    entries : Entries or None
        Weights of the parts.
    weights : ndarray of shape (n, c) or None
        Those of the stack.
    """

    X: Any
    F: Any
    bits: bool
    T: Signs
    entries: EntryWeights | None
    folds: Folds
    weights: Floats | None
    effort: Effort
    clock: TimeBudget
    memory: float
    seed: int
    n_jobs: int | None

    @property
    def fold(self) -> NDArray[np.intp]:
        """The fold in which a row is held out, -1 without one."""
        fold = np.full(len(self.T), -1)
        for number, (_, test) in enumerate(self.folds):
            fold[test] = number
        return fold

    def sample(self) -> Sample:
        """Rows on which settings are chosen."""
        rows = np.arange(len(self.T))
        if len(rows) > self.effort.sample:
            order = np.random.default_rng(self.seed).permutation(len(rows))
            rows = np.sort(order[: self.effort.sample])
        return Sample(self.F[rows], self.T[rows], self.fold[rows])


@dataclass(eq=False)
class Part:
    """A model of the stack.

    Parameters
    ----------
    name, settings : str
        For people.
    model : estimator
        To be fitted to all rows, or fitted.
    inputs : {"features", "columns", "dense"}
        What it takes.
    shares : bool
        Whether its scores are ``2 p - 1`` with p a share of trees.
    in_folds : estimator or None
        What stands for it in folds, if not itself.
    kernel : Kernel or None
        Its kernel, of which folds can share the matrix.
    """

    name: str
    settings: str
    model: Any
    inputs: str = "features"
    shares: bool = False
    in_folds: Any = None
    kernel: Kernel | None = None

    def held_out(
        self, task: EnsembleContext, helps: Callable[[Floats], bool] | None = None
    ) -> Floats:
        """Scores of every row by a model that did not see it; NaN where there is none.

        ``helps`` says whether those of the first :data:`TRIAL` folds are worth the others.
        """
        X, model, pairwise = self.rows(task.X, task.F), self.model, False
        if self.in_folds is not None:
            model = self.in_folds
        elif self.kernel is not None:
            X, pairwise = self.kernel(X, X), True
            model = clone(model).set_params(kernel="precomputed", gamma="scale")
        scores = np.full(task.T.shape, np.nan)
        for number, (train, test) in enumerate(task.folds, 1):
            if helps is not None and number == TRIAL + 1 and not helps(scores):
                raise NoGainError
            task.clock.check()
            line = f"{self.name}: fold {number} of {len(task.folds)}"
            task.clock.say(line)
            fold = clone(model)
            fold._after_label = LabelByLabel(task.clock, line)
            fold.label_names_ = np.arange(task.T.shape[1])  # for messages
            X_train, X_test = fold_inputs(X, train, test, pairwise)
            part = None if task.entries is None else task.entries.take(train)
            fold._learn(X_train, task.T[train], *weighed(part))
            unseen = to_numpy(fold._all_scores(X_test))
            scores[test] = np.where(fold._learnable, unseen, np.nan)
            task.clock.tick()
        return scores

    def fit(self, task: EnsembleContext) -> None:
        """Fit to all rows."""
        line = f"{self.name}: fitting to all rows"
        task.clock.say(line)
        weights = None if task.entries is None else task.entries.weights
        Y = np.where(task.T == 0, np.nan, task.T > 0)
        self.model._after_label = LabelByLabel(task.clock, line, stops=False)
        try:
            self.model.fit(self.rows(task.X, task.F), Y, label_weight=weights)
        finally:
            del self.model._after_label  # of this fit alone

    def rows(self, X: Any, F: Any) -> Any:
        """The inputs that it takes."""
        if self.inputs == "features":
            return F
        return X.toarray() if self.inputs == "dense" and sp.issparse(X) else X


@dataclass(frozen=True)
class Candidate:
    """A part that may be tried, and roughly its seconds on one core, of settings and of all."""

    name: str
    choosing: float
    seconds: float
    make: Callable[[], list[Part]]


def candidates(task: EnsembleContext) -> Iterator[Candidate]:
    """What to try, the most useful for its time first."""
    n, d = task.F.shape
    c = task.T.shape[1]
    size = min(n, task.effort.sample)
    fits = len(task.folds) + 1
    choosing = 6 * CUBE * min(d, n) ** 2 * size + SEARCHED * LABEL * size * min(d, size) * c
    cost = fits * (CUBE * min(d, n) ** 2 * n + LABEL * n * min(d, n) * c)
    yield Candidate("linear", choosing + 0.5, choosing + cost + 1.0, lambda: [_linear(task)])
    exact = n <= task.effort.exact and 40.0 * n * n <= task.memory
    m = task.effort.components
    width = n if exact else min(m, n)
    choosing = 100 * CUBE * size**3 + SEARCHED * LABEL * size**2 * c
    cost = fits * (3 * CUBE * n * width**2 + LABEL * n * width * c)
    yield Candidate("kernel", choosing, choosing + cost + 1.0, lambda: _kernels(task, exact))
    if not task.effort.trees:
        return
    seen = (task.T != 0).sum(axis=0).astype(np.float64)
    tree = TREE * float((seen * np.log2(seen + 2)).sum()) * np.sqrt(task.X.shape[1]) + LEAST * c
    share = task.effort.fold_trees / task.effort.trees
    # On bits, which have one cut, a forest is extra trees of fewer rows (SIDER, Tmc2007-500: label
    # AUC 0.002 less), and boosting is the dearest part and the weakest (Tox21: 0.79 to 0.81 in
    # twice the time).
    plain = task.bits and not task.effort.thorough
    for name in ("extra trees", "random forest"):
        if name == "random forest" and plain:
            continue
        a_tree = tree * (1 + 0.8 * share * (fits - 1))
        fit = min(task.effort.work / 2 / max(a_tree, 1e-9), task.effort.most_trees / c)
        trees = int(min(task.effort.trees, fit))
        yield Candidate(name, 0.0, a_tree * trees, partial(_forest, task, name, trees))
    boost = (ROUND * float(seen.sum()) * task.X.shape[1] + LEAST * c) * fits
    rounds = int(min(task.effort.rounds, task.effort.work / 2 / max(boost, 1e-9)))
    if rounds >= FEWEST_TREES and not plain and (not sp.issparse(task.X) or n * d <= DENSE):
        yield Candidate("boosted trees", 0.0, boost * rounds, lambda: [_boosted(task, rounds)])


def _linear(task: EnsembleContext) -> Part:
    sample = task.sample()
    task.clock.say("linear model: choosing settings")
    found = ridge_settings(sample, "linear", None)
    if task.T.shape[1] <= task.effort.labels:
        found = with_norms(sample, found)
    model = DM2LClassifier(coupling=_coupling(task), **found.parameters())
    return Part("linear", found.in_words(), model)


def _kernels(task: EnsembleContext, exact: bool) -> list[Part]:
    sample = task.sample()
    found = []
    for kernel, gammas in _widths(task):
        task.clock.say(f"{kernel} kernel: choosing settings")
        found.append(ridge_settings(sample, kernel, gammas))
        task.clock.check()
    found.sort(key=lambda setting: -setting.skill)
    parts = []
    for best in found[: task.effort.kernels]:
        task.clock.say(f"{best.kernel} kernel: choosing the weight of the norms")
        if task.T.shape[1] <= task.effort.labels:
            best = with_norms(sample, best)
        parts.append(_kernel_part(task, best, exact))
    return parts


def _kernel_part(task: EnsembleContext, found: Setting, exact: bool) -> Part:
    near: dict[str, Any] = {}
    kernel = None
    if exact:
        kernel = Kernel(found.kernel, float(found.gamma or 1.0))
    else:
        m = int(min(task.effort.components, task.memory / (40.0 * len(task.T)), len(task.T)))
        near = {"approximation": "nystroem", "n_components": max(m, 10)}
    settings = found.parameters() | near
    model = DM2LClassifier(coupling=_coupling(task), random_state=task.seed, **settings)
    words = found.in_words() + ("" if exact else f", Nystroem with {near['n_components']}")
    return Part(f"{found.kernel} kernel", words, model, kernel=kernel)


def _coupling(task: EnsembleContext) -> str | None:
    """Weights learnt with the covariance of labels: on Tox21 0.005 more AUC of new rows."""
    return "joint" if 1 < task.T.shape[1] <= COUPLED else None


def _widths(task: EnsembleContext) -> Iterator[tuple[str, list[float]]]:
    """Kernels and widths to try."""
    F = task.F
    n, d = F.shape
    if sp.issparse(F):
        variance = float(F.multiply(F).mean() - F.mean() ** 2)
    else:
        variance = float(np.var(F))
    scale = 1.0 / (d * variance) if variance > 0 else 1.0
    quick = not task.effort.trees
    if task.bits:
        yield "tanimoto", [3.0] if quick else [1.5, 3.0, 6.0]
        if quick:
            return
    yield "rbf", [scale * share for share in ((0.3, 1.0) if quick else (0.1, 0.3, 1.0, 3.0))]
    wide = sp.issparse(F) or float(n) * n * d > MANHATTAN
    if not quick and not wide and not task.bits:
        # A mean distance of standard columns is about 1.1 d.
        yield "laplacian", [share / d for share in (0.1, 0.3, 1.0)]


def _forest(task: EnsembleContext, name: str, trees: int) -> list[Part]:
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

    if trees < FEWEST_TREES:
        return []
    kind = RandomForestClassifier if name == "random forest" else ExtraTreesClassifier
    # Two rows a leaf: one gives probabilities of 0 and 1 (Tox21: AUC 0.808 and 0.821).
    base = kind(trees, min_samples_leaf=2, random_state=task.seed)
    share = task.effort.fold_trees / task.effort.trees
    few = clone(base).set_params(n_estimators=max(FEWEST_TREES, int(trees * share)))
    # Labels in processes: trees in threads flood a user with scikit-learn's warnings, for threads
    # share their filters.
    model, in_folds = (MaskedOneVsRestClassifier(each, n_jobs=task.n_jobs) for each in (base, few))
    return [Part(name, f"{trees} trees a label", model, "columns", True, in_folds)]


def _boosted(task: EnsembleContext, rounds: int) -> Part:
    from sklearn.ensemble import HistGradientBoostingClassifier

    base = HistGradientBoostingClassifier(
        max_iter=rounds,
        learning_rate=min(0.1, 8.0 / rounds),
        max_leaf_nodes=15,
        max_features=0.3,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=task.seed,
    )
    return Part("boosted trees", f"{rounds} rounds", MaskedOneVsRestClassifier(base), "dense")
