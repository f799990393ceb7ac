"""Linear fits over scikit-learn's Ridge, in one run, each with a certificate.

    python benchmarks/over_ridge.py [--cases Arts delicious] [--cpu] [--out FILE.json]

All contenders see the same X; Ridge gets holes filled with 0 because it takes none. "fit" is a fit
without coupling, which Ridge has nothing like, "whole" the estimator as it is. "gap" is how far J
at the stop lies above the lowest J known, relative: that of a fit with ``tol=1e-8`` and so many
iterations as --iterations says.

"bound" is the certificate. With the concave term linearized at the solution W, which it never lies
above, J becomes convex, and for every smoothing mu

    J(W) - min J_W  <=  J_W(W) - J_W,mu(W) + 1/2 <g, H^-1 g>,

g being the gradient of J_W,mu at W and H the Hessian of loss and ridge. It is relative to J(W), the
least over some smoothings, and holds whatever the solver believes: no step of Algorithm 1 from W
gains more. The problem is not convex, so that nothing bounds the distance from its global minimum.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from fit import seconds
from published import masked
from record import write
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

from dm2l import ConstantLabelWarning, DM2LClassifier
from dm2l._fitting import Trainer
from dm2l._solvers.features import ridge_value
from dm2l._solvers.nuclear import SmoothNorm
from dm2l._solvers.problem import Preconditioner, Problem

RHO = 0.3
USUAL = {"alpha": 10.0, "lambda_d": 0.3}
# Data set, settings, and most that a fit may take in times of Ridge.
CASES: dict[str, tuple[str, dict[str, float], float]] = {
    "Arts": ("Arts", USUAL, 2.5),
    "Tmc2007-500": ("Tmc2007-500", USUAL, 3.0),
    "Enron": ("Enron", {}, 6.0),
    "Enron-light-ridge": ("Enron", USUAL, 6.0),
    "bibtex": ("bibtex", {}, 6.0),
    "bibtex-light-ridge": ("bibtex", USUAL, 6.0),
    "Corel16k001-0.3": ("Corel16k001", {"alpha": 1.0, "lambda_d": 0.3}, 10.0),
    "Corel16k001-1": ("Corel16k001", {"alpha": 1.0, "lambda_d": 1.0}, 10.0),
    "Corel16k001-3": ("Corel16k001", {"alpha": 1.0, "lambda_d": 3.0}, 20.0),
    "delicious": ("delicious", {}, 20.0),
}
SMOOTHINGS = (1.5e-2, 5e-3, 1.5e-3, 5e-4, 1.5e-4, 1e-5)


def problem_of(model: DM2LClassifier, X: Any, Y: Any) -> tuple[Problem, Any]:
    """The problem that a model has solved, and its solution."""
    alpha = ridge_value(model.alpha, X)
    T = np.nan_to_num(2.0 * Y - 1.0).astype(np.int8)
    problem = Trainer.of(model).prepare(X, T).problem(alpha, model.lambda_d)
    W = np.vstack([model.coef_.T, model.intercept_[None, :]])
    return problem, problem.from_original(W)


def bound(problem: Problem, W: Any) -> float:
    """The certificate, relative to the objective."""
    factor, linear = Preconditioner(problem), problem.linearize(W)

    def hessian(V: Any) -> Any:
        return factor.hessian(problem, V.reshape(W.shape)).ravel()

    H = LinearOperator((W.size, W.size), matvec=hessian, dtype=np.float64)
    least = np.inf
    for mu in SMOOTHINGS:
        at = problem.evaluate(W, SmoothNorm(mu), linear)
        g = factor.to_gradient(at.gradient).ravel()
        V, _ = cg(H, g, rtol=1e-4, maxiter=50)
        left = at.exact - at.value + 0.5 * float(g @ V)
        least = min(least, left / at.exact)
    return least


def compare(case: str, options: argparse.Namespace) -> dict[str, Any]:
    name, settings, limit = CASES[case]
    clock = time.process_time if options.cpu else time.perf_counter
    X, Y = masked(name, RHO, options.seed)
    filled = np.nan_to_num(2.0 * Y - 1.0)
    fit, whole = DM2LClassifier(**settings, coupling=None), DM2LClassifier(**settings)
    ridge = Ridge(alpha=settings.get("alpha", 1.0))
    whole.fit(X[:300], Y[:300])  # everything is loaded
    times = {
        "ridge": min(seconds(lambda: ridge.fit(X, filled), clock) for _ in range(3)),
        "fit": seconds(lambda: fit.fit(X, Y), clock),
        "whole": seconds(lambda: whole.fit(X, Y), clock),
    }
    lowest = fit.objective_
    if options.iterations:
        precise = DM2LClassifier(**settings, coupling=None, tol=1e-8, max_iter=options.iterations)
        lowest = min(lowest, precise.fit(X, Y).objective_)
    return {
        "case": case,
        "shape": [*X.shape, Y.shape[1]],
        "settings": settings,
        "seconds": times,
        "over_ridge": times["fit"] / times["ridge"],
        "whole_over_ridge": times["whole"] / times["ridge"],
        "asked": limit,
        "evaluations": fit.n_evaluations_,
        "objective": fit.objective_,
        "gap": fit.objective_ / lowest - 1.0,
        "bound": bound(*problem_of(fit, X, Y)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--cpu", action="store_true", help="processor time, for a busy machine")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    for category in (ConstantLabelWarning, ConvergenceWarning):  # rare labels; the precise fit
        warnings.simplefilter("ignore", category)
    print(
        f"{'case':19} {'ridge s':>8} {'fit s':>8} {'/ ridge':>8} {'asked':>6} {'whole':>7} "
        f"{'evaluations':>12} {'gap':>8} {'bound':>8}"
    )
    rows = []
    for case in options.cases:
        row = compare(case, options)
        rows.append(row)
        print(
            f"{case:19} {row['seconds']['ridge']:8.3f} {row['seconds']['fit']:8.2f} "
            f"{row['over_ridge']:8.1f} {row['asked']:6.1f} {row['whole_over_ridge']:7.1f} "
            f"{row['evaluations']:12d} {row['gap']:8.0e} {row['bound']:8.0e}",
            flush=True,
        )
    if options.out:
        write(options.out, {"rho": RHO, "seed": options.seed, "cpu": options.cpu, "rows": rows})


if __name__ == "__main__":
    main()
