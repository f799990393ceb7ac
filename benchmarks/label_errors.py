"""Suspected label errors where 2 % of the known labels were flipped.

    python benchmarks/label_errors.py [--out benchmarks/results/label-errors.json]

Of 800 rows, 60 % of the labels are known, and 2 % of these are flipped. ``first`` is the share of
flipped entries among the first 100, and ``ap`` the average precision of the whole ranking. A plain
ranking sorts entries by the probability against them, of a logistic regression or of a forest in
five folds, or of this library's out-of-fold probabilities. ``claimed`` is the mean probability of
an error that `find_label_errors` gives to the first 100. ``test`` is the result of the test that
`dm2l audit` prints: it inverts a further 2 % of the known labels, five times, and counts these
among the first 20 suspects. ``first_20`` is the share of flipped entries that it underestimates.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from record import write
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from dm2l import AutoClassifier, DM2LClassifier
from dm2l.baselines import MaskedOneVsRestClassifier
from dm2l.datasets import load_dataset
from dm2l.simulate import simulate_uniform
from dm2l.tables._completion import _test_audit

SETS, ROWS, RATE, FLIPPED, FIRST = ("yeast", "Enron", "Arts", "Tmc2007-500"), 800, 0.6, 0.02, 100


def judged(order: Any, wrong: Any) -> dict[str, float]:
    """Measures of entries in the order of a ranking; True where an entry was flipped."""
    ranked = wrong[order]
    value = average_precision_score(ranked, -np.arange(len(ranked)))
    first = {"first": float(ranked[:FIRST].mean()), "first_20": float(ranked[:20].mean())}
    return first | {"ap": round(float(value), 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/label-errors.json"))
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for data in SETS:
        found = load_dataset(data)
        everything = np.asarray(
            found.data.toarray() if hasattr(found.data, "toarray") else found.data
        )
        for seed in range(options.seeds):
            rng = np.random.default_rng(seed)
            some = rng.permutation(len(everything))[:ROWS]
            X, Y = everything[some], np.asarray(found.target, dtype=np.float64)[some]
            X = X[:, X.std(axis=0) > 0]
            S = simulate_uniform(Y, RATE, random_state=seed)
            flipped = ~np.isnan(S) & (rng.random(S.shape) < FLIPPED)
            S = np.where(flipped, 1 - S, S)
            known = ~np.isnan(S)
            logistic = LogisticRegression(max_iter=300)
            plain = {
                "logistic": MaskedOneVsRestClassifier(logistic, calibration="sigmoid"),
                "extra trees": MaskedOneVsRestClassifier(
                    ExtraTreesClassifier(50, min_samples_leaf=2, random_state=seed)
                ),
            }
            for name, model in plain.items():
                start = time.process_time()
                scores = model.fit(X, S)._cross_fit(X, model._parse_like(X, S, None, "fit"))
                if name == "logistic":
                    scores = 2 * model._completer.probabilities(np.nan_to_num(scores)) - 1
                against = np.nan_to_num(np.where(S == 1, -scores, scores), nan=-1.0)[known]
                order = np.argsort(-against, kind="stable")
                row = {"data": data, "seed": seed, "method": name} | judged(order, flipped[known])
                rows.append(row | {"seconds": round(time.process_time() - start, 1)})
                print(rows[-1], flush=True)
            ours = {"DM2L": DM2LClassifier(), "auto quick": AutoClassifier("quick", random_state=0)}
            for name, model in ours.items():
                start = time.process_time()
                T, scores, refit = model.fit(X, S)._held_out_labels(X, S)
                errors = model._completer.find_label_errors(T, scores, refit=refit)
                wrong = flipped[errors.row, errors.label]
                row = {"data": data, "seed": seed, "method": name}
                row |= judged(np.arange(len(wrong)), wrong)
                row["test"] = _test_audit(model, T, scores, refit=refit, together=[])
                row["claimed"] = round(float(errors.probability[:FIRST].mean()), 4)
                rows.append(row | {"seconds": round(time.process_time() - start, 1)})
                print(rows[-1], flush=True)
    write(options.out, {"rows": ROWS, "rate": RATE, "flipped": FLIPPED, "rankings": rows})


if __name__ == "__main__":
    main()
