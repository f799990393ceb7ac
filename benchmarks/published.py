"""The default solver against the published algorithm, to the same objective.

    python benchmarks/published.py [--limit 600] [--svd full thin] [--out FILE.json] [--quick]
                                   [--data Corel16k001 --alpha 1 --lambda-d 1]

Both minimize the same J: same ridge, intercept and covered rows. The published algorithm is
Algorithm 1 from the identity, with the subgradients of Algorithm 2 and nonlinear conjugate
gradients restarted every 20 steps, in the variables of the paper: W, or A with F = KA. "full" is
the SVD of the paper, with the n x n factor behind its O(n^2 c + c^3); "thin" does without.

Its early stopping is left out: it linearizes afresh at every restart and runs until J is within
1e-5 of the lowest J of the default solver, until its subgradient is no descent direction any more
("stuck": more time would not help), or until the limit. In the last two cases the ratio is a lower
bound. The time to follow its J is not counted.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from fit import seconds
from record import write
from scipy.optimize import OptimizeResult, minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from dm2l import ConstantLabelWarning, DM2LClassifier
from dm2l._solvers.nuclear import nuclear_norm
from dm2l._utils.arrays import blas_threads, one_blas_thread
from dm2l.datasets import load_dataset
from dm2l.simulate import simulate_per_row

DELTA = 0.005  # threshold of Algorithm 2
RESTART = 20
GOAL = 1e-5


def masked(name: str, rho: float, seed: int, rows: int | None = None) -> tuple[Any, Any]:
    """60 % of the rows of a data set, dense, and their labels with holes.

    Labels of which only one class is left are dropped: what remains is what a fit minimizes over.
    """
    data = load_dataset(name)
    order = np.random.RandomState(seed).permutation(len(data.target))
    order = order[: int(0.6 * len(order))][:rows]
    X = data.data[order]
    Y = simulate_per_row(data.target[order], rho, random_state=seed)
    both = (Y == 1).any(axis=0) & (Y == 0).any(axis=0)
    return X.toarray() if sp.issparse(X) else X, Y[:, both]


def algorithm_2(Z: Any, svd: str) -> tuple[float, Any]:
    """Nuclear norm of ``Z`` and the subgradient of Algorithm 2."""
    U, s, Vt = np.linalg.svd(Z, full_matrices=svd == "full")
    kept = int((s > DELTA).sum())
    return float(s.sum()), U[:, :kept] @ Vt[:kept]


class PaperObjective:
    """J in the paper's variables, written down once more with nothing but SVDs.

    ``W`` holds the weights and, as its last row, the intercept. With ``kernel`` the columns are
    those of K and the ridge is ``alpha/2 tr(A'KA)``.
    """

    def __init__(
        self, Phi: Any, Y: Any, *, alpha: float, lambda_d: float, kernel: bool, svd: str = "thin"
    ) -> None:
        self.Phi, self.alpha, self.lambda_d, self.kernel = Phi, alpha, lambda_d, kernel
        self.svd = svd
        self.T = np.nan_to_num(2.0 * Y - 1.0)
        self.groups = [np.flatnonzero(column > 0) for column in self.T.T]
        self.covered = np.flatnonzero((self.T > 0).any(axis=1))

    def identity(self) -> Any:
        start = np.eye(self.Phi.shape[1] + 1, self.T.shape[1])
        start[-1] = 0.0
        return start

    def smooth_part(self, W: Any) -> tuple[float, Any, Any]:
        """Loss and ridge, the scores, and the residual."""
        image = self.Phi @ W[:-1]
        F = image + W[-1]
        residual = np.where(self.T != 0, F - self.T, 0.0)
        norm = np.vdot(W[:-1], image if self.kernel else W[:-1])
        return float(0.5 * np.vdot(residual, residual) + 0.5 * self.alpha * norm), F, residual

    def exact(self, W: Any) -> float:
        value, F, _ = self.smooth_part(W)
        with one_blas_thread():
            local = sum(nuclear_norm(F[rows]) for rows in self.groups)
            return value + self.lambda_d * (local - nuclear_norm(F[self.covered]))

    def linearized(self, W: Any) -> Any:
        """Subgradient of the global norm at the scores of ``W`` (Algorithm 2)."""
        F = self.smooth_part(W)[1]
        D = np.zeros_like(F)
        with one_blas_thread():
            D[self.covered] = algorithm_2(F[self.covered], self.svd)[1]
        return D

    def surrogate(self, W: Any, D: Any) -> tuple[float, Any]:
        """Convex surrogate of Algorithm 1 and a subgradient of it."""
        value, F, G = self.smooth_part(W)
        value -= self.lambda_d * float(np.vdot(D, F))
        G = G - self.lambda_d * D
        with one_blas_thread():
            for rows in self.groups:
                norm, subgradient = algorithm_2(F[rows], self.svd)
                value += self.lambda_d * norm
                G[rows] += self.lambda_d * subgradient
        if self.kernel:
            inner = self.Phi @ (G + self.alpha * W[:-1])
        else:
            inner = (G.T @ self.Phi).T + self.alpha * W[:-1]
        return value, np.vstack([inner, G.sum(axis=0)])


class Course:
    """Exact J against the time spent, with the time to compute it taken out."""

    def __init__(self, objective: PaperObjective, goal: float, limit: float) -> None:
        self._objective, self._goal, self._limit = objective, goal, limit
        self._watching = 0.0
        self._begin = self._told = time.perf_counter()
        self.points: list[tuple[float, float]] = []

    def add(self, W: Any) -> None:
        now = time.perf_counter()
        self.points.append((now - self._begin - self._watching, self._objective.exact(W)))
        self._watching += time.perf_counter() - now
        if now - self._told > 30:
            self._told = now
            sys.stderr.write(f"  published: {self.points[-1][0]:.0f} s, J {self.points[-1][1]:g}\n")

    @property
    def reached(self) -> bool:
        return self.points[-1][1] <= self._goal

    @property
    def over(self) -> bool:
        return self.reached or self.points[-1][0] >= self._limit


def run_published(objective: PaperObjective, goal: float, limit: float) -> Course:
    """The published algorithm until J has fallen to ``goal``."""
    course = Course(objective, goal, limit)
    W = objective.identity()
    shape = W.shape
    course.add(W)

    def watch(intermediate_result: OptimizeResult) -> None:
        course.add(intermediate_result.x.reshape(shape))
        if course.over:
            raise StopIteration

    while not course.over:
        D = objective.linearized(W)

        def both(w: Any, D: Any = D) -> tuple[float, Any]:
            value, gradient = objective.surrogate(w.reshape(shape), D)
            return value, gradient.ravel()

        options = {"maxiter": RESTART, "gtol": 0.0, "c2": 0.1}
        result = minimize(both, W.ravel(), jac=True, method="CG", callback=watch, options=options)
        w = result.x if result.nit else backtrack(both, W.ravel())
        if w is None:
            break  # the subgradient leads nowhere: here the algorithm stays
        W = w.reshape(shape)
        if not result.nit:
            course.add(W)
    return course


def backtrack(both: Any, w: Any) -> Any:
    """A step along the negative subgradient that lowers the value, or None.

    More than was published: where the surrogate has a kink, the line search of conjugate gradients
    may find nothing although there is still something to gain.
    """
    value, gradient = both(w)
    for halvings in range(60):
        step = w - 0.5**halvings * gradient
        if both(step)[0] < value - 1e-4 * 0.5**halvings * float(gradient @ gradient):
            return step
    return None


def slow(objective: Any, labels: int, lowest: float, limit: float) -> dict[str, Any]:
    """The published algorithm; making its objective is timed too, for it computes the kernel."""
    start = time.perf_counter()
    paper = objective()
    preparing = time.perf_counter() - start
    with blas_threads(paper.Phi.size * labels):
        course = run_published(paper, lowest * (1 + GOAL), limit)
    spent = course.points[-1][0]
    best = min(value for _, value in course.points)
    return {
        "seconds": preparing + spent,
        "reached": course.reached,
        "ended_by": "goal" if course.reached else "limit" if spent >= limit else "stuck",
        "steps": len(course.points) - 1,
        "gap": (best - lowest) / lowest,
    }


def fast(model: DM2LClassifier, X: Any, Y: Any, repeats: int, iterations: int) -> dict[str, Any]:
    """The default solver, and the lowest J it knows of."""
    model.fit(X, Y)
    spent = statistics.median(seconds(lambda: model.fit(X, Y)) for _ in range(repeats))
    exact = clone(model).set_params(tol=1e-10, max_iter=iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the lowest so far will do
        exact.fit(X, Y)
    lowest = min(model.objective_, exact.objective_)
    return {
        "seconds": spent,
        "gap": (model.objective_ - lowest) / lowest,
        "lowest": lowest,
        "iterations": model.n_iter_,
    }


def check(model: DM2LClassifier, X: Any, paper: PaperObjective, gamma: float | None) -> None:
    """Stop if the two do not minimize the same function."""
    F = model.decision_function(X)
    residual = np.where(paper.T != 0, F - paper.T, 0.0)
    if gamma is None:
        norm = float((model.coef_**2).sum())
    else:
        A = model.dual_coef_
        norm = float(np.vdot(A, rbf_kernel(model.X_fit_, gamma=gamma) @ A))
    local = sum(nuclear_norm(F[rows]) for rows in paper.groups)
    value = 0.5 * float(np.vdot(residual, residual)) + 0.5 * paper.alpha * norm
    value += paper.lambda_d * (local - nuclear_norm(F[paper.covered]))
    if abs(value - model.objective_) > 1e-6 * abs(value):
        sys.exit(f"The objectives differ: {model.objective_!r} and, from the scores, {value!r}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="Arts")
    parser.add_argument("--models", nargs="+", default=["linear", "rbf"])
    parser.add_argument("--rates", nargs="+", type=float, default=[1.0, 0.7, 0.3])
    parser.add_argument("--svd", nargs="+", default=["full", "thin"])
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for each published run")
    parser.add_argument("--alpha", type=float, default=10.0, help="ridge of the linear models")
    parser.add_argument("--lambda-d", type=float, default=0.3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=5000, help="most, for the lowest J")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="300 rows, 2 seconds")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConstantLabelWarning)  # rare labels of a split
    limit = min(arguments.limit, 2.0) if arguments.quick else arguments.limit

    print(
        f"{'model':7} {'rho':>4} {'lbfgs s':>8} {'gap':>8}   "
        f"{'svd':5} {'published s':>11} {'gap':>8} {'ratio':>8}"
    )
    rows = []
    for kind, rho in itertools.product(arguments.models, arguments.rates):
        X, Y = masked(arguments.data, rho, arguments.seed, 300 if arguments.quick else None)
        settings: dict[str, Any] = {"alpha": arguments.alpha, "lambda_d": arguments.lambda_d}
        model, gamma = DM2LClassifier(**settings), None
        if kind == "rbf":
            gamma = 1.0 / (X.shape[1] * float(X.var()))
            K = rbf_kernel(X, gamma=gamma)
            # What gamma="scale" and alpha="scale" mean: the variance in feature space.
            settings["alpha"] = float(np.trace(K) / len(K) - K.mean())
            model.set_params(**settings, kernel="rbf", gamma=gamma)
        found = fast(model, X, Y, arguments.repeats, arguments.iterations)
        case = {"model": kind, "rho": rho, "rows": X.shape[0], "labels": Y.shape[1]}
        case |= {"gamma": gamma} | settings | {"lbfgs": found}
        for svd in arguments.svd:

            def objective(X: Any = X, Y: Any = Y, svd: Any = svd, case: Any = case) -> Any:
                kernel = case["gamma"] is not None
                Phi = rbf_kernel(X, gamma=case["gamma"]) if kernel else X
                weights = {name: case[name] for name in ("alpha", "lambda_d")}
                return PaperObjective(Phi, Y, **weights, kernel=kernel, svd=svd)

            check(model, X, objective(), gamma)
            run = slow(objective, Y.shape[1], found["lowest"], limit)
            run["ratio"] = run["seconds"] / found["seconds"]
            case[svd] = run
            print(
                f"{kind:7} {rho:4.1f} {found['seconds']:8.3f} {found['gap']:8.0e}   "
                f"{svd:5} {run['seconds']:11.1f} {run['gap']:8.0e} "
                f"{' ' if run['reached'] else '>'}{run['ratio']:7.1f}  {run['ended_by']}",
                flush=True,
            )
        rows.append(case)
    if arguments.out:
        record = {"data": arguments.data, "seed": arguments.seed, "limit": limit, "goal": GOAL}
        write(arguments.out, record | {"quick": arguments.quick, "rows": rows})


if __name__ == "__main__":
    main()
