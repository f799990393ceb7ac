"""How near estimates come to the measures of complete labels: bias, and coverage of intervals.

    python benchmarks/estimates.py --out FILE.jsonl [--jobs 16] [--minutes 30] [--seeds 200]
                                   [--sets emotions yeast] [--rates 0.3] [--masks uniform]
    python benchmarks/estimates.py --out FILE.jsonl --summary

A kernel ridge of one half of a set, of whose labels half are known, scores the other half. The rows
of this half are the population, and its measures with all labels are the truth. Each cell draws as
many rows from it, with replacement, hides labels and estimates. Masks:

uniform   all entries have the same rate
per row   each row has a rate of its own, up to 0.2 above or below; not told
per label the same for labels
features  each label has rates that follow a random direction of the features; told
sides     positives are seen 0.6 times as often as negatives; told

Where rates are not told, they are estimated from the mask. Coverage counts in shares of the labels.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from record import write
from sklearn.preprocessing import StandardScaler

from dm2l import DM2LClassifier
from dm2l.datasets import load_dataset
from dm2l.metrics import evaluate, ndcg_at_k
from dm2l.simulate import simulate_uniform
from experiments import resumable

SETS = ("emotions", "yeast", "scene", "Arts", "Enron")
MASKS = ("uniform", "per row", "per label", "features", "sides")
RATES = (0.2, 0.3, 0.5, 0.7, 0.9)
ROWS = 1500  # of each half, at most


@cache
def population(data: str) -> tuple[Any, Any, Any]:
    """Features, labels and scores of the half that is not fitted to."""
    found = load_dataset(data)
    X, Y = found.data, np.asarray(found.target, dtype=np.float64)
    X = X.toarray() if sp.issparse(X) else StandardScaler().fit_transform(X)
    order, half = np.random.default_rng(0).permutation(len(Y)), min(len(Y) // 2, ROWS)
    fit, new = order[:half], order[half : 2 * half]
    model = DM2LClassifier(kernel="rbf", lambda_d=0.0, coupling=None)
    model.fit(X[fit], simulate_uniform(Y[fit], 0.5, random_state=0))
    return X[new], Y[new], np.asarray(model.decision_function(X[new]))


def rates_of(mask: str, rate: float, X: Any, Y: Any, rng: Any) -> Any:
    """The chance of each entry to stay."""
    room = min(0.2, rate - 0.05, 1 - rate)
    place = rng.random({"per row": (len(Y), 1), "per label": (1, Y.shape[1])}.get(mask, (1, 1)))
    if mask == "features":
        along = (X - X.mean(axis=0)) @ rng.normal(size=(X.shape[1], Y.shape[1]))
        place = np.argsort(np.argsort(along, axis=0), axis=0) / len(Y)
    if mask == "sides":
        return np.where(Y > 0, 0.75 * rate, min(1.0, 1.25 * rate))
    spread = 0.0 if mask == "uniform" else 2 * room
    return np.broadcast_to(rate + spread * (place - 0.5), Y.shape)


def measures(Y: Any, S: Any, **settings: Any) -> dict[str, tuple[float, float]]:
    found = evaluate(Y, S, **settings)
    found["ndcg_at_3"] = ndcg_at_k(Y, S, 3, return_counts=True, **settings)
    scale = {"coverage_error": Y.shape[1]}
    return {
        name: (m.value / scale.get(name, 1), m.standard_error / scale.get(name, 1))
        for name, m in found.items()
    }


def compute(data: str, mask: str, rate: float, seed: int) -> dict[str, Any]:
    X, Y, S = population(data)
    rng = np.random.default_rng([seed, round(100 * rate), MASKS.index(mask)])
    drawn = rng.integers(0, len(Y), len(Y))
    X, Y, S = X[drawn], Y[drawn], S[drawn]
    R = rates_of(mask, rate, X, Y, rng)
    hidden = np.where(rng.random(Y.shape) < R, Y, np.nan)
    told: dict[str, Any] = {}
    if mask == "features":
        told["rates"] = R
    elif mask == "sides":
        told["rates"] = (0.75 * rate, min(1.0, 1.25 * rate))
    estimated, observed = measures(hidden, S, **told), measures(hidden, S, estimate=False)
    return {
        "estimate": {name: [round(v, 5) for v in pair] for name, pair in estimated.items()},
        "observed": {name: round(pair[0], 5) for name, pair in observed.items()},
    }


def summarize(rows: list[dict[str, Any]], out: Path) -> None:
    groups = defaultdict(list)
    for row in rows:
        for name, (value, error) in row["estimate"].items():
            key = row["data"], row["mask"], row["rate"], name
            groups[key].append((value, error, row["observed"][name]))
    truths = {data: measures(*population(data)[1:]) for data in dict.fromkeys(k[0] for k in groups)}
    table = []
    for (data, mask, rate, name), found in groups.items():
        values, errors, observed = np.array(found).T
        truth = truths[data][name][0]
        table.append(
            {
                "data": data,
                "mask": mask,
                "rate": rate,
                "measure": name,
                "n": len(values),
                "truth": round(truth, 4),
                "bias": round(float(values.mean() - truth), 4),
                "bias_error": round(float(values.std() / len(values) ** 0.5), 4),
                "spread": round(float(values.std()), 4),
                "standard_error": round(float(errors.mean()), 4),
                "covered": round(float((abs(values - truth) <= 1.96 * errors).mean()), 3),
                "observed_bias": round(float(np.nanmean(observed) - truth), 4),
            }
        )
    print("largest |bias| and its place; mean |bias|; covered: least, mean, most; observed |bias|")
    short = []
    for name, rate in sorted({(row["measure"], row["rate"]) for row in table}):
        part = [row for row in table if (row["measure"], row["rate"]) == (name, rate)]
        worst = max(part, key=lambda row: abs(row["bias"]))
        covered = [row["covered"] for row in part]
        short.append(
            {
                "measure": name,
                "rate": rate,
                "worst_bias": worst["bias"],
                "worst_at": f"{worst['data']}, {worst['mask']}",
                "mean_bias": round(float(np.mean([abs(row["bias"]) for row in part])), 4),
                "covered": [min(covered), round(float(np.mean(covered)), 3), max(covered)],
                "observed_bias": round(
                    float(np.mean([abs(row["observed_bias"]) for row in part])), 4
                ),
            }
        )
        print("  ", *short[-1].values())
    write(out, {"cells": len(rows), "short": short, "table": table})


def main() -> None:
    results = Path(__file__).parent / "results" / "estimates.json"
    parser = resumable.options(__doc__, results.name, seeds=200)
    parser.add_argument("--masks", nargs="+", choices=MASKS, default=MASKS)
    given = parser.parse_args()
    if given.summary:
        summarize(resumable.stored(given.out), results)
        return
    wanted = itertools.product(
        range(given.seeds), given.sets or SETS, given.masks, given.rates or RATES
    )
    names = ("data", "mask", "rate", "seed")
    resumable.run(
        compute,
        [dict(zip(names, (d, m, r, s), strict=True)) for s, d, m, r in wanted],
        given,
    )


if __name__ == "__main__":
    main()
