"""DM2L-nl stops after a short step, far from the minimum of its objective J.

python examples/errata/kernel_stop.py [--check] [--seeds 1 2 3 4 5] [--rows N]

The script uses Arts with complete labels, sigma 1 and lambda_d 1e-4. The first part shows where
`DM2LClassifier.published("rbf")` stops on each split. The second part runs conjugate gradients on
the first split, with restarts every 20 steps, but without the stopping rule. It counts the steps
that lower J by less than 0.1 %, and the short steps that are followed by a large decrease within
two steps. The last part computes J for weights that reproduce the training labels, except the
labels of rows with equal features. Without early stopping, the model would reach these weights.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import scipy.linalg
from demonstration import Figures, Split, main, score, splits
from released_code import Surrogate
from scipy.optimize import OptimizeResult, minimize
from sklearn.metrics.pairwise import rbf_kernel

from dm2l import DM2LClassifier
from dm2l._solvers.objective import Objective

QUICK = {"seeds": (1, 2), "rows": 300, "blocks": 2}
LAMBDA_D = 1e-4
GAMMA = 0.5  # sigma 1
SMALL = 1e-3
RESTART = 20


def without_test(split: Split, K: Any, blocks: int) -> Figures:
    """Return J, its decreases and test metrics of conjugate gradients with restarts."""
    T = 2.0 * split.Y - 1
    surrogate = Surrogate(K, T, T > 0, LAMBDA_D)
    K_test = rbf_kernel(split.X_test, split.X, gamma=GAMMA)
    w = surrogate.start()
    values = [surrogate.value(w)]
    course = []

    def note(intermediate_result: OptimizeResult) -> None:
        values.append(float(intermediate_result.fun))

    for _ in range(blocks):
        options = {"maxiter": RESTART, "gtol": 0.0, "c2": 0.1}
        w = minimize(surrogate.both, w, jac=True, method="CG", callback=note, options=options).x
        found = score(split.Y_test, K_test @ w.reshape(surrogate.shape))
        course.append({"steps": len(values) - 1, "value": values[-1], "Rkl": found["Rkl"]})
    falls = (-np.diff(values) / np.array(values[:-1])).tolist()
    small = [i for i, fall in enumerate(falls[:-2]) if fall <= SMALL]
    return {
        "start": values[0],
        "course": course,
        "falls": falls,
        "small": [i + 1 for i in small],
        "gain after the first": max(falls[small[0] + 1 : small[0] + 3]) if small else 0.0,
        "followed by more": sum(max(falls[i + 1 : i + 3]) > 5 * SMALL for i in small),
    }


def interpolating(split: Split, K: Any) -> dict[str, float]:
    """Return J and the test Rkl of a model that reproduces all training labels."""
    T = 2.0 * split.Y - 1
    # Rows with the same features make K singular.
    A = scipy.linalg.solve(K + 1e-8 * np.eye(len(K)), T, assume_a="pos")
    objective = Objective(T.astype(np.int8), LAMBDA_D, global_rows="all")
    scores = rbf_kernel(split.X_test, split.X, gamma=GAMMA) @ A
    return {"value": objective.exact(K @ A), "Rkl": score(split.Y_test, scores)["Rkl"]}


def measure(
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5), rows: int | None = None, blocks: int = 6
) -> Figures:
    stops = []
    for split in splits("Arts", tuple(seeds), rows):
        model = DM2LClassifier.published("rbf", lambda_d=LAMBDA_D).fit(split.X, split.Y)
        found = {"value": model.objective_, "evaluations": model.n_evaluations_}
        stops.append(found | {"rounds": model.n_iter_, "Rkl": split.score(model)["Rkl"]})
    first = next(splits("Arts", tuple(seeds), rows))
    K = rbf_kernel(first.X, gamma=GAMMA)
    return {
        "seeds": list(seeds),
        "stops": stops,
        "without the test": without_test(first, K, blocks),
        "interpolating": interpolating(first, K),
    }


def lines(found: Figures) -> list[str]:
    free, exact = found["without the test"], found["interpolating"]
    values = [stop["value"] for stop in found["stops"]]
    return [
        "stopping point       J   evaluations    Rkl",
        *(
            f"  split {seed} {stop['value']:12.0f} {stop['evaluations']:10}     {stop['Rkl']:.4f}"
            for seed, stop in zip(found["seeds"], found["stops"], strict=True)
        ),
        f"  the highest J is {max(values) / min(values) - 1:.0%} above the lowest",
        "",
        f"split {found['seeds'][0]} without the stopping rule, from J {free['start']:.0f}",
        *(
            f"  after {of['steps']:3} steps   J {of['value']:.0f}   Rkl {of['Rkl']:.4f}"
            for of in free["course"]
        ),
        f"  {len(free['small'])} of {len(free['falls'])} steps lower J by less than 0.1 %; "
        f"{free['followed by more']} of these are followed,",
        "  within two steps, by a step that lowers J by more than 0.5 %",
        f"  the first short step is step {free['small'][0]}; one of the next two lowers J by "
        f"{free['gain after the first']:.1%}",
        f"model that reproduces training labels: J {exact['value']:.2g}, Rkl {exact['Rkl']:.4f}",
    ]


def claims(found: Figures) -> dict[str, bool]:
    free, exact = found["without the test"], found["interpolating"]
    values = [stop["value"] for stop in found["stops"]]
    return {
        "the stopping point depends on the split": max(values) / min(values) > 1.03,
        "short steps are followed by long steps": free["followed by more"] >= 3,
        "the stopping point is far from the minimum": exact["value"] < 0.05 * min(values),
        "the minimum predicts worse than the stopping point": exact["Rkl"]
        > np.mean([stop["Rkl"] for stop in found["stops"]]) + 0.005,
    }


if __name__ == "__main__":
    main(sys.modules[__name__])
