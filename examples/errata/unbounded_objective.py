"""If a row has no observed positive, the objective J of the paper has no lower bound.

python examples/errata/unbounded_objective.py [--check] [--seeds 0 1 2]

In the first part, there are two rows and two labels, and no label of the second row is observed. If
the scores of this row grow, the subtracted norm grows, too. The second part draws random labels,
masks and scores, and counts how often the bracket (local norms minus global norm) is negative, for
all rows and for covered rows. Covered rows have an observed positive. According to the paper,
Theorem 1 keeps the bracket above zero. The last part fits the published kernel model to a small
data set with rows that are not covered, with one and with nine rounds.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from demonstration import Figures, main
from sklearn.exceptions import ConvergenceWarning

from dm2l import DM2LClassifier
from dm2l._solvers.objective import Objective
from dm2l.datasets import make_missing_multilabel
from dm2l.simulate import simulate_per_row, simulate_uniform

QUICK: Figures = {"draws": 100}
MASKS = {"uniform": simulate_uniform, "per row": simulate_per_row}


def growth(sizes: tuple[float, ...]) -> list[dict[str, float]]:
    T = np.array([[1, -1], [0, 0]], dtype=np.int8)
    found = []
    for size in sizes:
        F = np.array([[1.0, -1.0], [size, size]])
        paper = Objective(T, 1.0, global_rows="all").exact(F)
        found.append({"size": size, "paper": paper, "dm2l": Objective(T, 1.0).exact(F)})
    return found


def brackets(seeds: tuple[int, ...], draws: int) -> Figures:
    found: Figures = {}
    for mask, hide in MASKS.items():
        lowest: dict[Any, list[float]] = {"all": [], "covered": []}
        for seed in seeds:
            random = np.random.default_rng(seed)
            for _ in range(draws):
                Y = (random.random((30, 6)) < 0.25).astype(float)
                Y[np.arange(30), random.integers(6, size=30)] = 1  # every row has a label
                hidden = hide(Y, 0.3, random_state=int(random.integers(2**31)))
                T = np.nan_to_num(2 * hidden - 1).astype(np.int8)
                # Scores that are large on some rows, as an optimizer may try.
                F = random.standard_normal((30, 6)) * np.exp(2 * random.standard_normal((30, 1)))
                for rows, values in lowest.items():
                    values.append(Objective(T, 1.0, global_rows=rows).bracket(F))
        found[mask] = {
            rows: {"negative": float(np.mean(np.array(v) < -1e-9)), "lowest": float(min(v))}
            for rows, v in lowest.items()
        }
    return found


def fits(rounds: tuple[int, ...]) -> Figures:
    X, Y = make_missing_multilabel(60, n_labels=5, rho=1.0, random_state=0)
    hidden = simulate_uniform(Y, 0.3, random_state=0)
    found: Figures = {
        "rows": len(X),
        "without a positive": int((~(hidden > 0).any(axis=1)).sum()),
        "paper": {},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the objective has no bound
        for n in rounds:
            model = DM2LClassifier.published("rbf", lambda_d=3.0, sigma=0.5, max_iter=n)
            found["paper"][str(n)] = float(model.fit(X, hidden).objective_)
    model = DM2LClassifier(3.0, 1e-6, kernel="rbf", gamma=2.0, fit_intercept=False)
    found["dm2l"] = float(model.fit(X, hidden).objective_)
    return found


def measure(
    seeds: tuple[int, ...] = (0, 1, 2),
    draws: int = 1000,
    sizes: tuple[float, ...] = (1.0, 1e2, 1e4, 1e6),
    rounds: tuple[int, ...] = (1, 9),
) -> Figures:
    return {
        "seeds": list(seeds),
        "draws": draws,
        "growth": growth(tuple(sizes)),
        "brackets": brackets(tuple(seeds), draws),
        "fits": fits(tuple(rounds)),
    }


def lines(found: Figures) -> list[str]:
    fitted = found["fits"]
    return [
        "scores of the second row   J of the paper   J over covered rows",
        *(
            f"{case['size']:24.0f} {case['paper']:16.1f} {case['dm2l']:21.1f}"
            for case in found["growth"]
        ),
        "",
        f"{found['draws'] * len(found['seeds'])} random label matrices and scores, 30 % observed: "
        "share of brackets below zero",
        *(
            f"  {mask:8} all rows {of['all']['negative']:6.1%} (lowest {of['all']['lowest']:.0f}), "
            f"covered rows {of['covered']['negative']:.1%}"
            for mask, of in found["brackets"].items()
        ),
        "",
        f"kernel model, {fitted['rows']} rows, {fitted['without a positive']} of them without an "
        "observed positive, lambda_d 3: J",
        *(f"  paper, rounds: {n} {value:12.2g}" for n, value in fitted["paper"].items()),
        f"  dm2l, converged  {fitted['dm2l']:11.1f}",
    ]


def claims(found: Figures) -> dict[str, bool]:
    values = [case["paper"] for case in found["growth"]]
    fitted = list(found["fits"]["paper"].values())
    return {
        "J of the paper decreases in proportion to the scores": values[-1]
        < 0.9 * 1e2 * values[-2]
        < 0,
        "J over covered rows is zero": all(case["dm2l"] == 0 for case in found["growth"]),
        "with uniform masks, the bracket over all rows is often negative": found["brackets"][
            "uniform"
        ]["all"]["negative"]
        > 0.1,
        "the bracket over covered rows is never negative": not any(
            of["covered"]["negative"] for of in found["brackets"].values()
        ),
        "with masks per row, the bracket over all rows is never negative": found["brackets"][
            "per row"
        ]["all"]["negative"]
        == 0,
        "J of the published model is negative": fitted[-1] < -1,
        "J of the published model decreases further with more rounds": fitted[-1] < fitted[0],
        "the objective of dm2l is never negative": found["fits"]["dm2l"] >= 0,
    }


if __name__ == "__main__":
    main(sys.modules[__name__])
