"""DM2L-l stops steepest descent early, so the number of steps is a second hyperparameter.

python examples/errata/early_stopping.py [--check] [--published FILE] [--seeds 1 2 3] [--rows N]

The script uses Arts with complete labels. First, the published descent with lambda_d 1e-5 is
continued far beyond its 24 steps. Then lambda_d is varied at 24 steps. Finally, a ridge penalty
replaces early stopping.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from demonstration import Figures, main, mean, published_figures, splits

from dm2l import DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier

QUICK = {"seeds": (1,), "rows": 400, "steps": (4, 24, 74), "lambdas": (1e-5, 1e-3)}
RELEASED = 24  # steps of the released code
MODELS = {
    "converged, no ridge": DM2LClassifier(1e-5, 0.0, fit_intercept=False),
    "ridge 10, no norms": MaskedRidgeClassifier(10.0),
    "ridge 10, lambda_d 0.3": DM2LClassifier(0.3, 10.0),
}


def course(split: Any, steps: tuple[int, ...]) -> Figures:
    """Return metrics after each number of steps, and the decrease of J in the last step.

    Steepest descent has no memory, so a warm start continues the same descent.
    """
    model = DM2LClassifier.published(warm_start=True)
    found, done = {}, 0
    for until in steps:
        model.set_params(max_iter=until - done).fit(split.X, split.Y)
        done = until
        before, after = model.objective_history_[-2:]
        fall = {"fall": float((before - after) / before), "objective": float(after)}
        found[str(until)] = split.score(model) | fall
    return found


def measure(
    seeds: tuple[int, ...] = (1, 2, 3),
    rows: int | None = None,
    steps: tuple[int, ...] = (4, 9, 24, 49, 99, 199),
    lambdas: tuple[float, ...] = (1e-5, 1e-3, 1e-1),
    published: Path | None = None,
) -> Figures:
    by_steps: dict[str, list[Any]] = {}
    by_lambda: dict[str, list[Any]] = {}
    models: dict[str, list[Any]] = {}
    for split in splits("Arts", tuple(seeds), rows):
        for key, one in course(split, tuple(steps)).items():
            by_steps.setdefault(key, []).append(one)
        for lambda_d in lambdas:
            model = DM2LClassifier.published(lambda_d=lambda_d).fit(split.X, split.Y)
            by_lambda.setdefault(f"{lambda_d:g}", []).append(split.score(model))
        for name, model in MODELS.items():
            models.setdefault(name, []).append(split.score(model.fit(split.X, split.Y)))
    values = published_figures(published)
    best = {"Rkl": min, "Ap": max}
    return {
        "seeds": list(seeds),
        "training rows": rows,
        "steps": {key: mean(runs) for key, runs in by_steps.items()},
        "lambda_d": {key: mean(runs) for key, runs in by_lambda.items()},
        "models": {key: mean(runs) for key, runs in models.items()},
        "best printed": {
            metric: choose(v for key, v in values.items() if key[:3] == ("Arts", 1.0, metric))
            for metric, choose in best.items()
        },
    }


def lines(found: Figures) -> list[str]:
    best = found["best printed"]
    return [
        f"Arts, rho 1, {len(found['seeds'])} splits        Rkl     Ap   decrease of J in last step",
        *(
            f"  lambda_d 1e-05, {key:>3} steps     {of['Rkl']:.4f} {of['Ap']:.4f} "
            f"{of['fall']:12.3%}"
            for key, of in found["steps"].items()
        ),
        *(
            f"  lambda_d {key:>5}, {RELEASED:>3} steps     {of['Rkl']:.4f} {of['Ap']:.4f}"
            for key, of in found["lambda_d"].items()
        ),
        *(f"  {name:28}  {of['Rkl']:.4f} {of['Ap']:.4f}" for name, of in found["models"].items()),
        f"  best published method         {best['Rkl']:.4f} {best['Ap']:.4f}",
    ]


def claims(found: Figures) -> dict[str, bool]:
    by_steps = [of["Rkl"] for of in found["steps"].values()]
    by_lambda = [of["Rkl"] for of in found["lambda_d"].values()]
    models = {name: of["Rkl"] for name, of in found["models"].items()}
    shown = {
        "Rkl depends on the number of steps": np.ptp(by_steps) > 0.02,
        "Rkl depends far more on the number of steps than on lambda_d": np.ptp(by_steps)
        > 10 * np.ptp(by_lambda),
        "more than 24 steps increase Rkl": by_steps[-1] > found["steps"]["24"]["Rkl"] + 0.01,
        "Rkl is highest after convergence": models["converged, no ridge"] > by_steps[-1] - 0.002,
        "J still decreases at 24 steps": found["steps"]["24"]["fall"] > 0.001,
        "a ridge penalty gives a lower Rkl than any number of steps": models[
            "ridge 10, lambda_d 0.3"
        ]
        < min(by_steps) - 0.01,
    }
    if found["training rows"] is None:
        shown["a ridge penalty gives a lower Rkl than all published methods"] = (
            models["ridge 10, lambda_d 0.3"] < found["best printed"]["Rkl"]
        )
    return shown


if __name__ == "__main__":
    main(sys.modules[__name__])
