"""The time of a linear fit whose predictions are as good as those of a converged fit.

    python benchmarks/tolerance.py [--cases Arts delicious] [--out FILE.json]
                                   [--again] [--alternate]

Each case is fitted with tolerances from 1e-2 to 1e-6 (to 1e-5 on delicious) to 60 % of the rows, of
which 30 % of the labels are observed, and measured on the other rows with all labels. "Equal" is
the largest tolerance from which on label AUC, average precision by label and ranking loss are
within 0.001 of those of the smallest one, "not worse" the largest from which on none of them is
worse by more than 0.001. Times are elapsed times, the shortest of three where a fit takes less than
two seconds, and are divided by the time of scikit-learn's Ridge on filled labels or of masked ridge
in the same run. With --again, only the table is made, from stored fits. With --alternate, Ridge and
the fits of a case that the table needs take turns (TURNS of them, on one thread), and the table has
ratios of medians of their processor times.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from over_ridge import USUAL
from record import machine, write
from sklearn.linear_model import Ridge
from sklearn.metrics import average_precision_score

from dm2l import DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier
from dm2l.datasets import load_dataset
from dm2l.metrics import label_auc, ranking_loss
from dm2l.simulate import simulate_uniform

RATE, SEED, EQUAL, MOST_ROWS = 0.3, 0, 0.001, 2000
TURNS = 3
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


def read(case: str) -> tuple[Any, Any, Any, Any]:
    """Features and labels of the training rows, and of the test rows."""
    found = load_dataset(CASES[case][0])
    X = np.asarray(found.data.toarray() if hasattr(found.data, "toarray") else found.data)
    Y = np.asarray(found.target, dtype=np.float64)
    order = np.random.default_rng(SEED).permutation(len(Y))
    train, test = np.split(order, [int(0.6 * len(Y))])
    test = test[:MOST_ROWS]
    X, X_test, truth = X[train].astype(np.float64), X[test].astype(np.float64), Y[test]
    Y = simulate_uniform(Y[train], RATE, random_state=SEED)
    both = (Y == 1).any(axis=0) & (Y == 0).any(axis=0)
    return X, Y[:, both], X_test, truth[:, both]


def compare(case: str) -> dict[str, Any]:
    """Times and measures of one case with each tolerance."""
    (name, settings, asked), (X, Y, X_test, truth) = CASES[case], read(case)
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
    row = {"case": case, "shape": [*X.shape, Y.shape[1]], "asked": asked, "times": times}
    return row | {"over": "masked ridge" if case == MANY else "ridge", "fits": fits}


def losses(fits: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """Largest loss and largest difference of each fit, compared with the last one."""
    last, found = fits[-1], []
    for fit in fits:
        gains = [fit[name] - last[name] for name in ("label_auc", "label_average_precision")]
        gains.append(last["ranking_loss"] - fit["ranking_loss"])
        found.append((-min(gains), max(map(abs, gains))))
    return found


def reached(fits: list[dict[str, Any]], kind: int) -> dict[str, Any]:
    """Fit of the largest tolerance from which on losses (0) or differences (1) are small."""
    far = losses(fits)
    return next(fit for k, fit in enumerate(fits) if max(f[kind] for f in far[k:]) <= EQUAL)


def alternate(row: dict[str, Any]) -> None:
    """Add medians of processor times of Ridge and of fits, which take turns."""
    settings, (X, Y, _, _) = CASES[row["case"]][1], read(row["case"])
    ridge: Any = Ridge(alpha=settings.get("alpha", 1.0))
    tolerances = {reached(row["fits"], kind)["tol"] for kind in (0, 1)} | {DM2LClassifier().tol}
    contenders: dict[str, Any] = {"ridge": lambda: ridge.fit(X, np.nan_to_num(2 * Y - 1))}
    for tol in sorted(tolerances):
        model = DM2LClassifier(**settings, tol=tol, coupling=None)
        contenders[f"{tol:g}"] = lambda m=model: m.fit(X, Y)
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(TURNS + 1):
        for name, fit in contenders.items():
            start = time.process_time()
            fit()
            if number:  # in the first turn, everything is loaded
                spent[name].append(time.process_time() - start)
    row["cpu"] = {name: round(float(np.median(times)), 4) for name, times in spent.items()}
    print(row["case"], row["cpu"], flush=True)


def ratio(row: dict[str, Any], fit: dict[str, Any]) -> str:
    """Processor time over that of Ridge, or elapsed time where turns were not taken."""
    cpu = row.get("cpu")
    times = fit["ratio"] if cpu is None else cpu[format(fit["tol"], "g")] / cpu["ridge"]
    return f"{times:.1f}"


def table(cases: list[dict[str, Any]]) -> str:
    """Markdown table of the ratios."""
    lines = ["| | relative to | goal | equal | with `tol` | not worse | with `tol` | default |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for row in cases:
        cells = [row["case"], row["over"], f"{row['asked']:g}"]
        for kind in (1, 0):
            fit = reached(row["fits"], kind)
            cells += [ratio(row, fit), f"{fit['tol']:g}"]
        default = next(fit for fit in row["fits"] if fit["tol"] == DM2LClassifier().tol)
        lines.append(f"| {' | '.join(cells)} | {ratio(row, default)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/tolerance.json"))
    parser.add_argument("--again", action="store_true", help="make the table of stored fits")
    parser.add_argument("--alternate", action="store_true", help="with processor times in turns")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.again or options.alternate:
        record = json.loads(options.out.read_text())
        for row in record["cases"] if options.alternate else ():
            if row["case"] in options.cases:
                alternate(row)
        if options.alternate:
            record["cpu_machine"] = machine()
        record["tables"] = {"tolerance": table(record["cases"])}
        write(options.out, record, ran_on=record["machine"])
        return
    rows = []
    for case in options.cases:
        rows.append(compare(case))
        record = {"tables": {"tolerance": table(rows)}, "rate": RATE, "seed": SEED, "cases": rows}
        write(options.out, record)


if __name__ == "__main__":
    main()
