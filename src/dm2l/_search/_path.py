"""Scores of a hyperparameter grid on one fold, with a path over lambda_d for each alpha."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dm2l._fitting import Trainer, Workspace
from dm2l._solvers.kernel_problem import KernelOperator, KernelPreconditioner
from dm2l._solvers.lbfgs import solve_lbfgs
from dm2l._solvers.nuclear import SmoothNorm
from dm2l._solvers.problem import Preconditioner, conjugate_gradients
from dm2l._utils import arrays
from dm2l.labels._matrix import LabelMatrix, LearnableMask
from dm2l.pu import correct_scores

SMOOTHING = 1e-2  # changes the objective by at most the default tolerance of a search
PRECISE = 0.1  # final gradient of a ridge regression, relative to the root of the tolerance
ROUNDING = 1e-12  # relative rounding error of an objective
FAR = 1e4  # largest ratio of two lambda_d for which the norms at the smaller one are reused
# Usual ratio of successive lambda_d on a path, and usual first lambda_d. A step with a larger ratio
# gets the iterations of all usual steps that it skips.
STEP, FIRST = 10.0, 0.1
# Values of alpha that differ by at most this ratio share the factorization for the largest of them.
# Four values that span a factor of 33 then take a tenth more steps.
ALIKE = 100.0
MANY = 1000  # from this many rows on, factorizing is more expensive than steps; threads help


def score_paths(
    fitting: Trainer,
    inputs: tuple[Any, Any],
    both: list[LabelMatrix],
    metric: Callable[..., float],
    *grid: list[float],
    safe: bool = False,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return scores and fitting times of a grid on one fold; ``safe`` kernels are not checked."""
    (X, X_test), (labels, labels_test), (alphas, lambdas) = inputs, both, grid
    if labels_test.entries is not None and "sample_weight" in signature(metric).parameters:
        metric = partial(metric, sample_weight=labels_test.entries.rows)
    scores, seconds = (np.full((len(alphas), len(lambdas)), np.nan) for _ in range(2))
    truth = LabelMatrix.of_signs(labels_test.signs)
    selection = LearnableMask.of(labels.signs, labels.entries)
    if not selection.learnable.any():
        return scores, seconds
    X, kept = selection.apply(X, labels, pairwise=fitting.kernel == "precomputed")
    with fitting.blas_threads(X), _threads(1, **np.geterr()) as pool:
        options: Any = {"scratch": not selection.keep.all(), "safe": safe, "alphas": alphas}
        prepared = fitting.prepare(X, kept.signs, kept.entries, selection.learnable, **options)
        paths = Grid(fitting, prepared, alphas, lambdas)
        score: Any = None
        device, last, scored = arrays.is_non_numpy(X), None, []
        for batch in paths.batches():
            weights = [last, *(fit.W for fit in batch)]
            fresh = [W for before, W in itertools.pairwise(weights) if W is not before]
            found = paths.scores(X, X_test, selection, fresh)
            for fit in batch:
                if fit.W is not last:
                    # The device computes the next weights while the host computes scores.
                    last, given = fit.W, (truth, next(found))
                    score = pool.submit(metric, *given).result if device else metric(*given)
                scored.append((fit._replace(W=None), score))  # frees the memory of the weights
        for fit, score in scored:
            scores[fit.alpha, fit.place] = score() if device else score
            seconds[fit.alpha, fit.place] = fit.seconds
    return scores, seconds


def _threads(count: int, **errors: Any) -> ThreadPoolExecutor:
    """Return a thread pool with the caller's handling of floating-point errors."""
    return ThreadPoolExecutor(count, initializer=partial(np.seterr, **errors))


class _Weights(NamedTuple):
    """Weights and fitting time of one candidate, with the indices of its alpha and lambda_d."""

    alpha: int
    place: int
    W: Any
    seconds: float


class Grid(NamedTuple):
    """Hyperparameters of a search, and the data that their fits share."""

    fitting: Trainer
    prepared: Workspace
    alphas: list[float]
    lambdas: list[float]

    def batches(self) -> Iterator[list[_Weights]]:
        """Yield the weights for all hyperparameters in batches of one or more alphas."""
        features, alphas = self.prepared.features, self.alphas
        kernel, device = isinstance(features, KernelOperator), arrays.is_non_numpy(features.example)
        shared = kernel and features.n >= MANY
        for group in _alike(alphas) if shared else [[a] for a in range(len(alphas))]:
            factor = self.prepared.preconditioner(self.prepared.problem(alphas[group[0]], 0.0))
            paths: Iterable[Iterable[_Weights]] = (self.path(factor, a) for a in group)
            if shared and not device:
                paths = self.together(factor, group)
            for path in paths:
                if kernel and not device:
                    yield list(path)
                else:
                    yield from ([fit] for fit in path)

    def together(self, factor: Any, group: list[int]) -> list[list[_Weights]]:
        """Compute the paths of several alphas in threads that share solves of linear systems."""

        def one(member: KernelPreconditioner, a: int) -> list[_Weights]:
            # Each thread changes lambda_d of its own objective.
            own = replace(self.prepared, objective=copy(self.prepared.objective))
            try:
                return list(self._replace(prepared=own).path(member, a))
            finally:
                assert member.together is not None
                member.together.leave(member.place)

        with _threads(len(group), over="ignore", invalid="ignore", divide="ignore") as pool:
            return list(pool.map(one, factor.members(len(group)), group))

    def path(self, preconditioner: Preconditioner, a: int) -> Iterator[_Weights]:
        """Yield the weights of one alpha for increasing ``lambda_d``."""
        # For larger lambda_d, a solution is reused, as the same object, while it is within the
        # tolerance of the minimum. This check reweights the norms of the last lambda_d and needs no
        # evaluation.
        begin = time.perf_counter()
        alpha = self.alphas[a]
        problem = self.prepared.problem(alpha, 0.0)
        tol, most = (PRECISE * self.fitting.tol**0.5, 200) if 0.0 in self.lambdas else (0.03, 10)
        with arrays.one_blas_thread():
            start = None
            if isinstance(preconditioner, KernelPreconditioner) and preconditioner.alpha != alpha:
                # With the factorization for another alpha, one step does not solve complete labels.
                start = preconditioner.step(problem.right()) if preconditioner.rho == 1.0 else None
            V = conjugate_gradients(problem, preconditioner, tol=tol, max_iter=most, start=start)
        W = plain = known = None
        # The largest lambda_d for which the last weights suffice, and lambda_d of these weights.
        enough, last = -np.inf, 0.0
        for place in np.argsort(self.lambdas, kind="stable"):
            problem = self.prepared.problem(alpha, self.lambdas[place])
            lambda_d = problem.objective.lambda_d
            if not lambda_d:
                W = preconditioner.to_weights(V)
            elif lambda_d > enough:
                if known is not None and plain is not None:
                    near = lambda_d <= FAR * last
                    known = known.reweighed(plain, lambda_d / last) if near else None
                # The number of usual steps of a path since the last solved lambda_d.
                steps = np.log(lambda_d / max(last, FIRST / STEP)) / np.log(STEP)
                most = self.fitting.max_iter * int(np.clip(np.ceil(steps - 1e-9), 1, 100))
                tol, finest = self.fitting.tol, SMOOTHING if self.fitting.tol >= 1e-5 else 0.0
                limits: Any = {"tol": tol, "max_iter": most, "finest": finest}
                with arrays.one_blas_thread():
                    solution = solve_lbfgs(problem, preconditioner, V, known=known, **limits)
                if W is None or solution.n_evaluations > (known is None):
                    W, plain = solution.W, None
                    V = preconditioner.to_variables(W)
                if plain is None:
                    plain = self.prepared.problem(alpha, 0.0).evaluate(W, SmoothNorm(0.0))
                known, last = solution.known, lambda_d
                enough = -np.inf
                if solution.converged:
                    # The largest lambda_d at which this solution is within the tolerance.
                    norms = max(solution.objective - plain.value, ROUNDING * solution.objective)
                    slack = self.fitting.tol * solution.objective / norms if norms > 0 else np.inf
                    enough = lambda_d * (1 + slack)
            yield _Weights(a, int(place), W, time.perf_counter() - begin)
            begin = time.perf_counter()

    def scores(self, X: Any, X_test: Any, mask: LearnableMask, weights: list[Any]) -> Iterator[Any]:
        """Yield the test scores for each of several weight matrices, computed in one product."""
        if not weights:
            return iter(())
        k, prepared = len(weights), self.prepared
        several = LearnableMask(np.tile(mask.learnable, k), np.tile(mask.constant, k), mask.keep)
        W = weights[0] if k == 1 else prepared.features.xp.concat(weights, axis=1)
        W_given = prepared.features.to_original(W)
        found = self.fitting.weights_of(X, W_given, prepared.feature_map, several)
        with arrays.checked_numbers(X_test):
            learnt = found.scores(X_test, several)
            arrays.check_finite(learnt, "Scores")
        scores = np.tile(several.constant, (X_test.shape[0], 1))
        scores[:, several.learnable] = arrays.to_numpy(learnt)
        columns = np.split(scores, k, axis=1)
        if prepared.pu is None:
            return iter(columns)
        prior = prepared.pu.prior.spread(*mask[:2]).value
        return (correct_scores(part, prior) for part in columns)


def _alike(alphas: list[float]) -> list[list[int]]:
    """Group the indices of alphas that share a factorization, starting with the largest alpha."""
    groups: list[list[int]] = []
    for a in sorted(range(len(alphas)), key=lambda a: -alphas[a]):
        if not groups or alphas[a] * ALIKE < alphas[groups[-1][0]]:
            groups.append([])
        groups[-1].append(a)
    return groups
