"""What to choose settings by when labels have kind: what each choice gives away on test rows.

    python benchmarks/selection.py --out FILE.jsonl [--jobs 16] [--minutes 30] [--seeds 5]
                                   [--sets emotions yeast] [--rates 0.3] [--kernels rbf]
    python benchmarks/selection.py --out FILE.jsonl --summary

Labels of training rows are hidden uniformly; every setting of a grid is scored on five folds of
them by every measure, and on test rows, whose labels are complete, by average precision, ranking
loss and label AUC. Regret is what the best setting of the grid has more there than the one that a
measure chooses. "today" is the rule before there were estimates: average precision of observed
labels, or label AUC where most rows do not show both answers; "default" is the library's rule now.
"table" has every setting by every measure and test.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from record import write
from sklearn.preprocessing import StandardScaler

from dm2l import DM2LClassifierCV, metrics
from dm2l._search._search import usual_scoring
from dm2l.datasets import load_dataset
from dm2l.metrics._ranking import label_discrimination
from dm2l.simulate import simulate_uniform
from experiments import resumable

SETS = (
    *("emotions", "Image", "scene", "yeast", "Enron", "Arts", "Business", "Recreation", "Social"),
    *("Tmc2007-500", "bibtex", "Corel16k001"),
)
RATES = (0.2, 0.3, 0.5, 0.7)
LAMBDAS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)
GRIDS = {"linear": (1 / 30, 0.1, 1 / 3, 1.0, 3.0), "rbf": (0.1, 0.3, 1.0, 3.0, 10.0)}
WIDTHS = (0.25, 1.0, 4.0)  # times gamma="scale"
ROWS = 1000, 2000  # to fit and to test, at most


# Of evaluate, with the sign that makes larger better.
MEASURES = {
    "label_ranking_average_precision": 1,
    "ranking_loss": -1,
    "label_auc": 1,
    "precision_at_1": 1,
    "coverage_error": -1,
}
KINDS = ("observed", "estimate")
CRITERIA = [
    *(f"{name}, {kind}" for kind in KINDS for name in MEASURES),
    *(f"average precision - ranking loss, {kind}" for kind in KINDS),
    *(f"calibrated_log_loss, {kind}" for kind in KINDS),
    *(f"ranking_and_discrimination, {kind}" for kind in KINDS),
    "label_discrimination",
]
TESTS = {"label_ranking_average_precision": 1, "ranking_loss": -1, "label_auc": 1}


def criteria(Y: Any, scores: Any) -> list[float]:
    found = {
        kind: metrics.evaluate(Y, scores, k=(1,), estimate=kind == "estimate") for kind in KINDS
    }
    signed = {
        kind: {name: sign * found[kind][name].value for name, sign in MEASURES.items()}
        for kind in KINDS
    }
    both = [
        signed[kind]["label_ranking_average_precision"] + signed[kind]["ranking_loss"]
        for kind in KINDS
    ]
    losses = [
        -float(metrics.calibrated_log_loss(Y, scores, estimate=kind == "estimate"))
        for kind in KINDS
    ]
    skill = float(np.nan_to_num(label_discrimination(Y, scores)))
    two = [(signed[kind]["label_ranking_average_precision"] + skill) / 2 for kind in KINDS]
    marks = [*both, *losses, *two, skill]
    return [*signed["observed"].values(), *signed["estimate"].values(), *marks]


def tested(Y: Any, scores: Any) -> list[float]:
    return [sign * float(getattr(metrics, name)(Y, scores)) for name, sign in TESTS.items()]


class Marks:
    """A score for a search that keeps many and returns where it put them."""

    def __init__(self, score: Any) -> None:
        self.score = score
        self.found: list[list[float]] = []

    def __call__(self, Y: Any, scores: Any) -> float:
        self.found.append(self.score(Y, scores))
        return float(len(self.found) - 1)


def read(data: str, seed: int) -> tuple[Any, Any, int]:
    found = load_dataset(data)
    X, Y = found.data, np.asarray(found.target, dtype=np.float64)
    order = np.random.default_rng(seed).permutation(len(Y))
    n = min(ROWS[0], len(Y) // 2)
    order = order[: n + ROWS[1]]
    X = X[order].toarray() if sp.issparse(X) else X[order]
    if not sp.issparse(found.data):
        X = StandardScaler().fit(X[:n]).transform(X)
    return X, Y[order], n


def marks_of(kernel: str, X: Any, Y: Any, folds: Any, score: Any) -> Any:
    """Every setting (in the order of the grid) on every fold by every mark."""
    marks = Marks(score)
    grid: dict[str, Any] = {"alphas": GRIDS["rbf"], "kernel": kernel}
    if kernel == "linear":
        scale = float((X**2).sum() / len(X)) / 10
        grid["alphas"] = [scale * share for share in GRIDS["linear"]]
    else:
        grid["gammas"] = [width / (X.shape[1] * X.var()) for width in WIDTHS]
    search = DM2LClassifierCV(LAMBDAS, scoring=marks, cv=folds, refit=False, **grid).fit(X, Y)
    places = np.stack(
        [search.cv_results_[f"split{i}_test_score"] for i in range(search.n_splits_)], axis=1
    )
    return np.array(marks.found)[places.astype(int)]


def compute(data: str, kernel: str, rate: float, seed: int) -> dict[str, Any]:
    X, Y, n = read(data, seed)
    hidden = simulate_uniform(Y[:n], rate, random_state=seed)
    chosen_by = np.nanmean(marks_of(kernel, X[:n], hidden, 5, criteria), axis=1)
    rows = np.arange(len(X))
    whole = np.concatenate([hidden, Y[n:]])
    found = marks_of(kernel, X, whole, [(rows[:n], rows[n:])], tested)[:, 0]
    picked = {name: int(np.nanargmax(chosen_by[:, k])) for k, name in enumerate(CRITERIA)}
    both = (hidden == 1).any(axis=1) & (hidden == 0).any(axis=1)
    by_row = 2 * both.sum() >= (~np.isnan(hidden)).any(axis=1).sum()
    usual = "label_ranking_average_precision" if by_row else "label_auc"
    picked["today"] = picked[f"{usual}, observed"]
    default = usual_scoring(hidden == 1, hidden == 0)
    picked["default"] = picked[default if default in picked else f"{default}, estimate"]
    regret = {
        name: [round(float(v), 5) for v in found.max(axis=0) - found[place]]
        for name, place in picked.items()
    }
    best = [round(float(v), 4) for v in found.max(axis=0)]
    table = np.hstack([chosen_by, found]).round(5).tolist()
    return {"regret": regret, "picked": picked, "best": best, "table": table}


def summarize(rows: list[dict[str, Any]], out: Path, ran_on: str | None) -> None:
    """Means over repetitions, then sets; the measures are those of the test rows."""
    record: dict[str, Any] = {"cells": len(rows), "tests": list(TESTS), "mean_regret": {}}
    for rate in sorted({row["rate"] for row in rows}):
        sets: dict[str, dict[tuple[str, str], list[Any]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            if row["rate"] == rate:
                for name, regret in row["regret"].items():
                    sets[name][row["data"], row["kernel"]].append(regret)
        means = {
            name: np.mean([np.mean(found, axis=0) for found in cells.values()], axis=0)
            for name, cells in sets.items()
        }
        record["mean_regret"][str(rate)] = {
            name: [round(float(v), 5) for v in values]
            for name, values in sorted(means.items(), key=lambda item: item[1][0])
        }
        print(f"rate {rate}: mean regret in {', '.join(TESTS)}")
        for name, values in record["mean_regret"][str(rate)].items():
            print(f"  {name:44}", *(f"{v:.4f}" for v in values))
    cells = defaultdict(list)
    for row in rows:
        cells[row["data"], row["kernel"], row["rate"]].append(row["regret"])
    record["by_set"] = [
        {"data": d, "kernel": k, "rate": r, "repetitions": len(found)}
        | {name: round(float(np.mean([f[name][0] for f in found])), 5) for name in found[0]}
        for (d, k, r), found in sorted(cells.items())
    ]
    write(out, record, ran_on)


def main() -> None:
    results = Path(__file__).parent / "results" / "selection.json"
    parser = resumable.options(__doc__, results.name, seeds=5)
    parser.add_argument("--kernels", nargs="+", choices=list(GRIDS), default=list(GRIDS))
    given = parser.parse_args()
    if given.summary:
        summarize(resumable.stored(given.out), results, given.ran_on)
        return
    names = ("data", "kernel", "rate", "seed")
    wanted = itertools.product(
        range(given.seeds), given.sets or SETS, given.kernels, given.rates or RATES
    )
    cells = [dict(zip(names, (d, k, r, s), strict=True)) for s, d, k, r in wanted]
    resumable.run(compute, cells, given)


if __name__ == "__main__":
    main()
