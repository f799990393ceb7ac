"""Which ridge suits masked ridge on the benchmark sets: what alpha="scale" rests on.

    python benchmarks/ridge.py [--out FILE.json]

Uniform masks that keep 30 % of the labels, at most 2,500 training rows. For each set the ridge is
varied in units of the summed variance of the features; the best by ranking loss and by average
precision is printed beside what alpha="scale" comes to in that unit.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from record import write

from dm2l import ConstantLabelWarning
from dm2l._solvers.features import column_variances, ridge_value
from dm2l.baselines import MaskedRidgeClassifier
from dm2l.datasets import load_dataset
from dm2l.metrics import label_ranking_average_precision, ranking_loss
from dm2l.simulate import simulate_uniform

SETS = ("Arts", "Business", "Recreation", "Social", "Enron", "Image", "Corel16k001")
SETS += ("Tmc2007-500", "emotions", "scene", "yeast", "bibtex")
UNITS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConstantLabelWarning)  # rare labels of a split
    rows = []
    print(f"{'set':14} {'best for Rkl':>12} {'best for Ap':>12} {'scale':>8}")
    for name in SETS:
        data = load_dataset(name)
        order = np.random.RandomState(0).permutation(len(data.target))
        cut = int(0.6 * len(order))
        train, test = order[: min(cut, 2500)], order[cut:]
        X, Y = data.data[train], simulate_uniform(data.target[train], 0.3, random_state=0)
        unit = float(column_variances(X).sum())
        found = []
        for multiple in UNITS:
            model = MaskedRidgeClassifier(alpha=multiple * unit).fit(X, Y)
            scores, truth = model.decision_function(data.data[test]), data.target[test]
            found.append(
                [ranking_loss(truth, scores), label_ranking_average_precision(truth, scores)]
            )
        rkl, ap = np.array(found).T
        row = {
            "set": name,
            "best_ranking_loss": UNITS[int(rkl.argmin())],
            "best_average_precision": UNITS[int(ap.argmax())],
            "scale": ridge_value("scale", X) / unit,
            "ranking_loss": rkl.tolist(),
            "average_precision": ap.tolist(),
        }
        rows.append(row)
        print(
            f"{name:14} {row['best_ranking_loss']:12g} {row['best_average_precision']:12g} "
            f"{row['scale']:8.2f}",
            flush=True,
        )
    if arguments.out:
        write(arguments.out, {"units": list(UNITS), "seed": 0, "rho": 0.3, "rows": rows})


if __name__ == "__main__":
    main()
