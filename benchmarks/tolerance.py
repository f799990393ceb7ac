"""The time of a linear fit whose predictions are as good as those of a converged fit.

    python benchmarks/tolerance.py [--cases Arts delicious] [--out FILE.json]

Each case is fitted with tolerances from 1e-2 to 1e-6 (to 1e-5 on delicious) to 60 % of the rows, of
which 30 % of the labels are observed, and measured on the other rows with all labels. "Equal" is
the largest tolerance from which on label AUC, average precision by label and ranking loss are
within 0.001 of those of the smallest one. Times are elapsed times, the shortest of three where a
fit takes less than two seconds, and are divided by the time of scikit-learn's Ridge on filled
labels or of masked ridge in the same run.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from over_ridge import USUAL
from record import write
from sklearn.linear_model import Ridge
from sklearn.metrics import average_precision_score

from dm2l import DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier
from dm2l.datasets import load_dataset
from dm2l.metrics import label_auc, ranking_loss
from dm2l.simulate import simulate_uniform

RATE, SEED, EQUAL, MOST_ROWS = 0.3, 0, 0.001, 2000
TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
# Data set, hyperparameters, and the largest ratio asked for.
CASES: dict[str, tuple[str, dict[str, float], float]] = {
    "Arts": ("Arts", USUAL, 2.5),
    "Tmc2007-500": ("Tmc2007-500", USUAL, 3.0),
    "Enron": ("Enron", {}, 4.0),
    "bibtex": ("bibtex", {}, 4.0),
    "Corel16k001-0.3": ("Corel16k001", {"alpha": 1.0, "lambda_d": 0.3}, 10.0),
    "Corel16k001-1": ("Corel16k001", {"alpha": 1.0, "lambda_d": 1.0}, 10.0),
    "Corel16k001-3": ("Corel16k001", {"alpha": 1.0, "lambda_d": 3.0}, 10.0),
    "delicious": ("delicious", {}, 5.0),
}
MANY = "delicious"  # has many labels


def seconds(fit: Callable[[], Any]) -> float:
    """Elapsed time of a fit, the shortest of three if it is short."""
    times: list[float] = []
    while len(times) < 3 and (not times or times[0] < 2):
        start = time.perf_counter()
        fit()
        times.append(time.perf_counter() - start)
    return min(times)


def measures(truth: Any, scores: Any) -> dict[str, float]:
    """Measures of the test rows; labels and rows with one class are left out."""
    both = truth.any(axis=0) & ~truth.all(axis=0)
    ranked = truth.any(axis=1) & ~truth.all(axis=1)
    precision = average_precision_score(truth[:, both], scores[:, both])
    found = {
        "label_auc": label_auc(truth, scores),
        "label_average_precision": precision,
        "ranking_loss": ranking_loss(truth[ranked], scores[ranked]),
    }
    return {name: round(float(value), 5) for name, value in found.items()}


def compare(case: str) -> dict[str, Any]:
    """Times and measures of one case with each tolerance."""
    name, settings, asked = CASES[case]
    found = load_dataset(name)
    X = np.asarray(found.data.toarray() if hasattr(found.data, "toarray") else found.data)
    Y = np.asarray(found.target, dtype=np.float64)
    order = np.random.default_rng(SEED).permutation(len(Y))
    train, test = np.split(order, [int(0.6 * len(Y))])
    test = test[:MOST_ROWS]
    X, X_test, truth = X[train].astype(np.float64), X[test].astype(np.float64), Y[test]
    Y = simulate_uniform(Y[train], RATE, random_state=SEED)
    both = (Y == 1).any(axis=0) & (Y == 0).any(axis=0)
    Y, truth = Y[:, both], truth[:, both]
    filled = np.nan_to_num(2 * Y - 1)
    ridge: Any = Ridge(alpha=settings.get("alpha", 1.0))
    masked = MaskedRidgeClassifier(settings.get("alpha", 1.0), coupling=None)
    masked.fit(X[:300], Y[:300])  # everything is loaded
    times = {
        "ridge": seconds(lambda: ridge.fit(X, filled)),
        "masked ridge": seconds(lambda: masked.fit(X, Y)),
    }
    reference = times["masked ridge" if case == MANY else "ridge"]
    fits = []
    for tol in TOLERANCES[: 4 if name == MANY else None]:
        model = DM2LClassifier(**settings, tol=tol, coupling=None)
        fit = {"tol": tol, "seconds": round(seconds(lambda m=model: m.fit(X, Y)), 4)}
        fit |= {"ratio": round(fit["seconds"] / reference, 2), "evaluations": model.n_evaluations_}
        fits.append(fit | measures(truth, model.decision_function(X_test)))
        print(case, fits[-1], flush=True)
    last = fits[-1]
    names = list(measures(truth, model.decision_function(X_test)))
    far = [max(abs(fit[name] - last[name]) for name in names) for fit in fits]
    equal = next(k for k in range(len(fits)) if max(far[k:]) <= EQUAL)
    default = next(fit for fit in fits if fit["tol"] == DM2LClassifier().tol)
    row = {"case": case, "shape": [*X.shape, Y.shape[1]], "asked": asked, "times": times}
    row |= {"over": "masked ridge" if case == MANY else "ridge", "equal": fits[equal]["tol"]}
    return row | {"equal_ratio": fits[equal]["ratio"], "ratio": default["ratio"], "fits": fits}


def table(cases: list[dict[str, Any]]) -> str:
    """Markdown table of the ratios."""
    lines = ["| | relative to | goal | equal | with `tol` | default |", "|---|---|---|---|---|---|"]
    for row in cases:
        ratios = f"{row['asked']:g} | {row['equal_ratio']:.1f} | {row['equal']:g}"
        lines.append(f"| {row['case']} | {row['over']} | {ratios} | {row['ratio']:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/tolerance.json"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for case in options.cases:
        rows.append(compare(case))
        record = {"tables": {"tolerance": table(rows)}, "rate": RATE, "seed": SEED, "cases": rows}
        write(options.out, record)


if __name__ == "__main__":
    main()
