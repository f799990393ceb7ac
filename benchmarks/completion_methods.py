"""Ways to fill holes in labels, for benchmarks/completion.py.

A family shares work between methods: it yields (method, probabilities of all entries, seconds of
CPU), or a reason in words in place of the probabilities. Nothing in it sees a hidden label.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix
from sklearn.base import clone
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict

from dm2l import DM2LClassifier, DM2LClassifierCV
from dm2l.baselines import MaskedOneVsRestClassifier
from dm2l.completion._correlation import Combiner, LabelCorrelation
from dm2l.completion._covariance import (
    DenseCovariance,
    conditional_moments,
    pairwise_covariance,
    residuals,
)
from dm2l.completion._errors import Calibrator
from dm2l.metrics import label_auc
from dm2l.model_selection import MultilabelKFold, cross_val_decision
from dm2l.simulate import simulate_uniform

LAMBDAS = (0.0, 0.3)
GAMMAS = (1 / 3, 1.0, 3.0)  # times "scale"
STRENGTHS = (0.01, 0.1, 1.0)  # of logistic regression
MOST_ROWS = 4000  # of a kernel matrix; above, 1,000 Nystroem features
SEARCHED = 1000  # rows on which the settings of a kernel model are chosen
HELD_ROWS = 2000  # and of one that is chosen by what it fills
MOST_WORK = 4e8  # rows x columns x labels of boosted trees: above, 200 components of X
Found = Iterator[tuple[str, Any, float]]


@dataclass(frozen=True)
class Holes:
    """Features, labels 1, 0 and NaN, and a seed for what draws numbers."""

    X: Any
    Y: Any
    seed: int

    @property
    def signs(self) -> Any:
        return np.nan_to_num(2 * self.Y - 1).astype(np.int8)

    @property
    def rates(self) -> Any:
        """Share of positives: what is believed of a label that nothing can be learnt of."""
        share = (np.nansum(self.Y, axis=0) + 0.5) / ((~np.isnan(self.Y)).sum(axis=0) + 1)
        return np.tile(share, (len(self.Y), 1))

    def reduced(self, size: int) -> Any:
        if self.X.shape[1] <= size:
            return self.X
        return TruncatedSVD(size, random_state=self.seed).fit_transform(self.X)


class Clock:
    """Seconds that this process has worked since it was asked before."""

    def __init__(self) -> None:
        self._last = time.process_time()

    def __call__(self) -> float:
        before, self._last = self._last, time.process_time()
        return self._last - before


def chosen(case: Holes, kernel: str, lambdas: tuple[float, ...] = LAMBDAS) -> DM2LClassifier:
    """DM2L with alpha, lambda_d and gamma chosen on observed entries of rows held back.

    A search with a kernel costs the cube of the rows: it has a sample of them.
    """
    scale = 1 / (case.X.shape[1] * case.X.var())
    large = kernel == "rbf" and len(case.X) > MOST_ROWS
    shared = {
        "kernel": kernel,
        "approximation": "nystroem" if large else None,
        "random_state": case.seed,
    }
    X, Y = case.X, case.Y
    if kernel != "linear":
        sample = np.random.default_rng(case.seed).permutation(len(X))[:SEARCHED]
        X, Y = X[sample], Y[sample]
    search = DM2LClassifierCV(
        lambdas,
        gammas=None if kernel == "linear" else [scale * share for share in GAMMAS],
        cv=MultilabelKFold(3, random_state=case.seed),
        scoring="label_auc",
        refit=False,
        **(shared | {"approximation": None}),
    ).fit(X, Y)
    return DM2LClassifier(**shared, **search.best_params_)


def chosen_by_filling(case: Holes, kernel: str) -> DM2LClassifier:
    """DM2L with the settings that fill best, by a fifth of the observed entries held back.

    What is best for holes has more ridge than what is best for new rows: the row's labels tell
    what the features need not.
    """
    sample = np.random.default_rng(case.seed).permutation(len(case.X))[:HELD_ROWS]
    X, Y = case.X[sample], case.Y[sample]
    seen = simulate_uniform(Y, 0.8, random_state=case.seed)
    held, found = np.where(np.isnan(seen), Y, np.nan), {}
    for gamma, alpha, lambda_d in product((1.0, 3.0, 9.0), (0.1, 0.3, 1.0, 3.0), LAMBDAS):
        model = DM2LClassifier(lambda_d, alpha, kernel=kernel, gamma=gamma)
        p = model.fit(X, seen).complete(X, seen, method="predict_proba")
        found[label_auc(held, p, estimate=False)] = clone(model)
    return found[max(found)]


def unseen(model: Any, case: Holes) -> Any:
    """Scores of rows by models that were not fitted to them."""
    # Fifteen iterations or two hundred: what the scores are worth is the same to three digits.
    bare = clone(model).set_params(coupling=None, tol=1e-3)
    cv = MultilabelKFold(5, random_state=case.seed)
    return cross_val_decision(bare, case.X, case.Y, cv=cv)


def alone(case: Holes, F: Any) -> Any:
    """Probabilities from features alone by what makes those of the coupling, rows cross-fitted."""
    T, one = case.signs, np.ones(F.shape)
    p, half = np.empty(F.shape), np.random.default_rng(0).permutation(len(F)) % 2 == 0
    for at, to in ((half, ~half), (~half, half)):
        combiner = Combiner(labels=False).fit(T[at], F[at], F[at], one[at])
        p[to] = combiner.predict(T[to], F[to], F[to], one[to])
    return p


def linear(case: Holes, kernel: str = "linear") -> Found:
    """Ours, and today's way: features alone, calibrated on rows not seen."""
    clock = Clock()
    model = (chosen_by_filling if kernel == "tanimoto" else chosen)(case, kernel)
    search = clock()
    model.fit(case.X, case.Y)
    p = model.complete(case.X, case.Y, method="predict_proba")
    yield f"ours, {kernel}", p, search + clock()
    F, T = unseen(model, case), case.signs
    scores = search + clock()
    p = Calibrator("sigmoid").fit(F, T).predict(model.decision_function(case.X))
    yield f"features, {kernel}", p, scores + clock()
    if kernel != "rbf":
        return
    yield "coupled out of fold", LabelCorrelation.fit(T, F).predict(T, F)[1], scores + clock()
    S = DenseCovariance(pairwise_covariance(*residuals(T, F)))
    parts = (F, *conditional_moments(S, T, F))
    yield "pairwise", Combiner(labels=False).fit(T, *parts).predict(T, *parts), scores + clock()
    yield "logistic [scores, labels]", logistic(case, F), scores + clock()
    yield "boosted [scores, labels]", boosted(case, F), scores + clock()


def rbf(case: Holes) -> Found:
    """The same with a kernel, and what else can be made of its scores of rows not seen."""
    return linear(case, "rbf")


def tanimoto(case: Holes) -> Found:
    """The same with the kernel of fingerprints, exact."""
    return linear(case, "tanimoto")


def forest(case: Holes) -> Found:
    """A random forest a label; cross-fitted scores serve both calibration and coupling."""
    clock, X = Clock(), case.X.astype(np.float32)
    trees = 50 if case.Y.shape[1] <= 60 else 20
    inner = RandomForestClassifier(trees, min_samples_leaf=3, random_state=case.seed)
    model = MaskedOneVsRestClassifier(inner, coupling="residual", calibration="sigmoid", cv=3)
    model.fit(X, case.Y)
    fit = clock()
    yield "ours, forest", model.complete(X, case.Y, method="predict_proba"), fit + clock()
    yield "features, forest", model.predict_proba(X), fit + clock()


def logistic(case: Holes, F: Any) -> Any:
    """Logistic regression a label on all scores and the other labels with marks for unknown."""
    T, P = case.signs, case.rates
    held = np.random.default_rng(case.seed).random(len(F)) < 0.2

    def model(C: float, k: int, rows: Any) -> tuple[Any, Any]:
        Z = np.hstack([F / F.std(), np.delete(T, k, axis=1), np.delete(T == 0, k, axis=1)])
        return LogisticRegression(C=C, max_iter=200).fit(Z[rows], T[rows, k] > 0), Z

    # One strength for all labels, from those that are common enough to tell.
    losses = dict.fromkeys(STRENGTHS, 0.0)
    for k in np.argsort(-np.minimum((T > 0).sum(axis=0), (T < 0).sum(axis=0)))[:10]:
        train, test = (T[:, k] != 0) & ~held, (T[:, k] != 0) & held
        for C in STRENGTHS if len(np.unique(T[train, k])) == 2 else ():
            fitted, Z = model(C, k, train)
            losses[C] += log_loss(T[test, k], fitted.predict_proba(Z[test]), labels=[-1, 1])
    for k in np.flatnonzero((T > 0).any(axis=0) & (T < 0).any(axis=0)):
        fitted, Z = model(min(losses, key=losses.__getitem__), k, T[:, k] != 0)
        P[:, k] = fitted.predict_proba(Z)[:, 1]
    return P


def boosted(case: Holes, inputs: Any) -> Any:
    """Boosted trees a label on inputs and the other labels; rounds chosen on rows held back."""
    P = case.rates
    for k, y in enumerate(case.Y.T):
        known, smaller = ~np.isnan(y), min(np.nansum(y), np.nansum(1 - y))
        if smaller >= 1:
            enough = bool(smaller >= 20)  # of a handful held back nothing can be chosen
            trees = HistGradientBoostingClassifier(
                max_iter=200 if enough else 20, early_stopping=enough, random_state=case.seed
            )
            Z = np.hstack([inputs, np.delete(case.Y, k, axis=1)])
            P[:, k] = trees.fit(Z[known], y[known]).predict_proba(Z)[:, 1]
    return P


def qcomp(case: Holes, F: Any) -> Any:
    """Conditional Gaussian on top of predictions, after the idea of QComp (arXiv 2405.11703).

    The labels of a row are Gaussian given the predictions of all labels: the mean is linear in
    them, and the covariance is that of the residuals. Missing labels have their conditional mean
    given the known ones.
    """
    T, M = case.signs, np.tile(2 * case.rates[0] - 1, (len(F), 1))
    for k in range(T.shape[1]):
        known = T[:, k] != 0
        if len(np.unique(T[known, k])) == 2:
            M[:, k] = Ridge(1.0).fit(F[known], T[known, k]).predict(F)
            M[known, k] = cross_val_predict(Ridge(1.0), F[known], T[known, k])
    S = DenseCovariance(pairwise_covariance(*residuals(T, M)))
    mean, _ = conditional_moments(S, T, M)
    return Calibrator("sigmoid").fit(mean, T).predict(mean)


def profile_regression(case: Holes, F: Any) -> Any:
    """Partial least squares on profiles, after the idea of pQSAR (Martin and others, 2017).

    The profile of a row has its prediction for every label; the model of a label reads known labels
    in place of the predictions of the other labels.
    """
    T, mean = case.signs, np.zeros(F.shape)
    for k in range(T.shape[1]):
        known, profile = T[:, k] != 0, np.where(T != 0, T, F)
        profile[:, k] = F[:, k]
        if len(np.unique(T[known, k])) == 2:
            pls = PLSRegression(min(4, T.shape[1]), scale=False)
            mean[:, k] = np.ravel(pls.fit(profile[known], T[known, k]).predict(profile))
            mean[known, k] = np.ravel(cross_val_predict(pls, profile[known], T[known, k]))
    return Calibrator("sigmoid").fit(mean, T).predict(mean)


def macau(case: Holes, inputs: Any) -> Any:
    """Bayesian matrix factorisation with side information of rows (smurff's MacauSession).

    A tenth of the known entries is held back for a sigmoid that all labels share.
    """
    import smurff

    T, rng = case.signs, np.random.default_rng(case.seed)
    held = (T != 0) & (rng.random(T.shape) < 0.1)
    rows, labels = np.nonzero((T != 0) & ~held)
    train = coo_matrix((T[rows, labels].astype(float), (rows, labels)), shape=T.shape)
    rows, labels = np.nonzero((T == 0) | held)  # the values of these entries are not passed
    asked = coo_matrix((np.ones(len(rows)), (rows, labels)), shape=T.shape)
    side = np.ascontiguousarray((inputs - inputs.mean(axis=0)) / (inputs.std(axis=0) + 1e-9))
    session = smurff.MacauSession(
        Ytrain=train,
        Ytest=asked,
        side_info=[side, None],
        num_latent=8,
        burnin=50,
        nsamples=100,
        seed=case.seed,
        verbose=0,
    )
    mean = np.zeros(T.shape)
    for found in session.run():
        mean[found.coords] = found.pred_avg
    slope = LogisticRegression().fit(mean[held][:, None], T[held] > 0)
    return slope.predict_proba(mean.reshape(-1, 1))[:, 1].reshape(T.shape)


def prior_work(case: Holes) -> Found:
    """Published ways to use known labels, on out-of-fold scores of the linear model."""
    clock = Clock()
    F = unseen(chosen(case, "linear"), case)
    scores = clock()
    yield "QComp", qcomp(case, F), scores + clock()
    yield "profile regression", profile_regression(case, F), scores + clock()
    if find_spec("smurff") is None:
        yield "Macau", "left out: smurff is not installed", 0.0
    else:
        yield "Macau", macau(case, case.reduced(50)), clock()


def boosting(case: Holes) -> Found:
    clock, columns = Clock(), case.X.shape[1] + case.Y.shape[1]
    small = columns * case.Y.size <= MOST_WORK
    yield "boosted [X, labels]", boosted(case, case.X if small else case.reduced(200)), clock()


def imputed(case: Holes, columns: int, imputer: Any) -> Any:
    inputs = case.reduced(columns)
    return imputer.fit_transform(np.hstack([inputs, case.Y]))[:, inputs.shape[1] :]


def imputers(case: Holes) -> Found:
    """Methods for tables with holes, on components of X and Y side by side."""
    clock, labels = Clock(), case.Y.shape[1]
    shared = {"skip_complete": True, "keep_empty_features": True, "random_state": case.seed}
    mice = IterativeImputer(max_iter=10 if labels <= 60 else 3, **shared)
    yield "MICE", imputed(case, 50, mice), clock()
    if labels > 14:
        yield "missForest", "left out: with more than 14 labels it takes minutes", 0.0
    else:
        trees = RandomForestRegressor(
            30, max_features=1 / 3, min_samples_leaf=3, random_state=case.seed
        )
        miss_forest = IterativeImputer(trees, max_iter=3, **shared)
        yield "missForest", imputed(case, 100, miss_forest), clock()
    if labels > 60:
        yield "Gaussian copula", "left out: with more than 60 labels it takes minutes", 0.0
    elif find_spec("gcimpute") is None:
        yield "Gaussian copula", "gcimpute is not installed", 0.0
    else:
        vars(np)["round_"] = np.round  # gcimpute 0.0.4 was written before numpy 2
        from gcimpute.gaussian_copula import GaussianCopula

        copula = GaussianCopula(random_state=case.seed, verbose=0)
        try:
            found = imputed(case, 20, copula)
        except RuntimeError:  # so raised, without words
            found = "refused: a label has one observed level"
        yield "Gaussian copula", found, clock()


FAMILIES = {
    "linear": ("ours, linear", "features, linear"),
    "imputers": ("MICE", "missForest", "Gaussian copula"),
    "rbf": (
        *("ours, rbf", "features, rbf", "coupled out of fold", "pairwise"),
        *("logistic [scores, labels]", "boosted [scores, labels]"),
    ),
    "tanimoto": ("ours, tanimoto", "features, tanimoto"),  # of 0/1 columns
    "forest": ("ours, forest", "features, forest"),
    "boosting": ("boosted [X, labels]",),
    "prior_work": ("QComp", "profile regression", "Macau"),
}
