"""Whether the nuclear norms of DM2L improve networks that are trained with dm2l.torch.

    python benchmarks/torch_terms.py --out benchmarks/results/torch_terms.jsonl
    python benchmarks/torch_terms.py --out benchmarks/results/torch_terms.jsonl --summary

A cell is a data set and a seed, which draws the rows for training (two of three), the 30 % of their
entries that are observed, and the network (benchmarks/networks.py). Arms of each loss:

without      the weight decay with the least loss of observed labels on validation rows
scores       the same weight decay, and nuclear norms of the scores with the best of five weights
embeddings   the same, with norms of the hidden layer

Validation rows are a fifth of the rows for training. Measures use all labels of the test rows, of
labels with at least 10 positives in the rows for training.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from networks import Network
from record import write
from scipy.stats import ttest_rel
from sklearn.metrics import average_precision_score

from dm2l.datasets import load_dataset
from dm2l.metrics import label_auc, ranking_loss
from dm2l.simulate import simulate_uniform
from experiments import resumable

SETS = ("scene", "Enron")
LOSSES, ARMS = ("logistic", "squared"), ("without", "scores", "embeddings")
DECAYS = (0.01, 0.03, 0.1, 0.3, 1.0)
WEIGHTS = (0.003, 0.01, 0.03, 0.1, 0.3)


def read(data: str, seed: int) -> tuple[Any, Any, Any, Any]:
    found = load_dataset(data)
    X, truth = found.data, np.asarray(found.target, dtype=float)
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)
    order = np.random.default_rng(seed).permutation(len(truth))
    train, test = np.split(order, [2 * len(order) // 3])
    often = truth[train].sum(axis=0) >= 10
    return X[train], truth[train][:, often], X[test], truth[test][:, often]


def best(options: list[dict[str, Any]], X: Any, Y: Any, **shared: Any) -> tuple[Any, Any]:
    """The network with the least loss on validation rows, and its options."""
    fitted = [(Network(**option, **shared).fit(X, Y), option) for option in options]
    return min(fitted, key=lambda pair: pair[0].validation_loss_)


def measures(truth: Any, S: Any, loss: str) -> dict[str, float]:
    seen = truth.any(axis=0)
    found = {
        "label_auc": label_auc(truth, S),
        "average_precision": average_precision_score(truth[:, seen], S[:, seen], average="macro"),
        "ranking_loss": ranking_loss(truth, S),
    }
    if loss == "logistic":
        found["log_loss"] = np.logaddexp(0, np.where(truth == 1, -S, S)).mean()
    return {name: round(float(value), 5) for name, value in found.items()}


def compute(data: str, seed: int) -> dict[str, Any]:
    X, truth, X_test, truth_test = read(data, seed)
    Y = simulate_uniform(truth, 0.3, random_state=seed)
    found: dict[str, Any] = {}
    for loss in LOSSES:
        shared = {"loss": loss, "random_state": seed}
        decays = [{"weight_decay": decay} for decay in DECAYS]
        network, decay = best(decays, X, Y, **shared)
        for arm in ARMS:
            chosen = decay
            if arm != "without":
                options = [{**decay, "terms": weight, "where": arm} for weight in WEIGHTS]
                network, chosen = best(options, X, Y, **shared)
            scores = network.decision_function(X_test)
            validation = round(network.validation_loss_, 3)
            found[f"{loss}, {arm}"] = {
                **chosen,
                "validation_loss": validation,
                **measures(truth_test, scores, loss),
            }
    return {"labels": truth.shape[1], "arms": found}


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Means and standard deviations over seeds, and differences from the arm without the norms."""
    found: dict[str, Any] = {}
    for data in dict.fromkeys(row["data"] for row in rows):
        cells = [row["arms"] for row in rows if row["data"] == data]
        found[data] = {"seeds": len(cells)}
        for loss, arm in itertools.product(LOSSES, ARMS):
            name, plain = f"{loss}, {arm}", f"{loss}, without"
            line: dict[str, Any] = {}
            for measure in ("label_auc", "average_precision", "ranking_loss", "log_loss"):
                if measure not in cells[0][name]:
                    continue
                values, before = (np.array([c[n][measure] for c in cells]) for n in (name, plain))
                line[measure] = {
                    "mean": round(float(values.mean()), 4),
                    "sd": round(float(values.std(ddof=1)), 4),
                }
                if arm != "without":
                    line[measure]["difference"] = round(float((values - before).mean()), 4)
                    line[measure]["p"] = round(float(ttest_rel(values, before).pvalue), 3)
            if arm != "without":
                line["weights"] = [cell[name]["terms"] for cell in cells]
                key = "validation_loss"
                line["better_on_validation"] = sum(c[name][key] < c[plain][key] for c in cells)
            found[data][name] = line
    return found


def main() -> None:
    results = "benchmarks/results/torch_terms.json"
    options = resumable.options(__doc__, results, 5).parse_args()
    if options.summary:
        found = summarise(resumable.stored(options.out))
        print(json.dumps(found, indent=1))
        write(Path(results), found, options.ran_on)
        return
    cells = itertools.product(options.sets or SETS, range(1, options.seeds + 1))
    todo = [dict(zip(("data", "seed"), cell, strict=True)) for cell in cells]
    resumable.run(compute, todo, options)


if __name__ == "__main__":
    main()
