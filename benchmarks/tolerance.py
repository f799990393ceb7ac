"""What predictions gain from a smaller tolerance of the solver.

    python benchmarks/tolerance.py [--out benchmarks/results/tolerance.json]

Models of 2,000 rows are fitted with tolerances from 1e-2 to 1e-7, with the default `lambda_d` and
with 1, and measured on 2,000 other rows with all labels; half of the training labels are hidden.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from record import write
from sklearn.metrics import average_precision_score

from dm2l import DM2LClassifier
from dm2l.datasets import load_dataset
from dm2l.metrics import label_auc, label_ranking_average_precision, ranking_loss
from dm2l.simulate import simulate_uniform

SETS, ROWS, RATE, SEED = ("Arts", "Enron", "Corel16k001"), 2000, 0.5, 0
TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/tolerance.json"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for data in SETS:
        found = load_dataset(data)
        X = np.asarray(found.data.toarray() if hasattr(found.data, "toarray") else found.data)
        Y = np.asarray(found.target, dtype=np.float64)
        order = np.random.default_rng(SEED).permutation(len(Y))
        n = min(ROWS, len(Y) // 2)
        train, test = order[:n], order[n : n + ROWS]
        shown, truth = simulate_uniform(Y[train], RATE, random_state=SEED), Y[test]
        ranked = (truth == 1).any(axis=1) & (truth == 0).any(axis=1)
        both = truth.any(axis=0) & ~truth.all(axis=0)
        for weight in (DM2LClassifier().lambda_d, 1.0):
            for tol in TOLERANCES:
                start = time.process_time()
                model = DM2LClassifier(weight, tol=tol, coupling=None).fit(X[train], shown)
                seconds = time.process_time() - start
                S = model.decision_function(X[test])
                row = {"data": data, "lambda_d": weight, "tol": tol}
                row |= {"evaluations": model.n_evaluations_, "seconds": round(seconds, 2)}
                measures = {
                    "label_auc": label_auc(truth, S),
                    "label_average_precision": average_precision_score(truth[:, both], S[:, both]),
                    "ranking_loss": ranking_loss(truth[ranked], S[ranked]),
                    "row_average_precision": label_ranking_average_precision(
                        truth[ranked], S[ranked]
                    ),
                }
                rows.append(row | {key: round(float(v), 4) for key, v in measures.items()})
                print(rows[-1], flush=True)
    write(options.out, {"rows": ROWS, "rate": RATE, "seed": SEED, "fits": rows})


if __name__ == "__main__":
    main()
