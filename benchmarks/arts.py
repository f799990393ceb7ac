"""DM2L, masked ridge and the published models on Arts: the table of the README.

    python benchmarks/arts.py [--out FILE.json]

60/40 splits, seeds 0 to 4, masks per row (the released code's rule) and uniform (the paper's
text), metrics in the conventions of the released code. Settings are fixed beforehand, the same
for every mask; nothing is tuned on the test part.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from record import write

from dm2l import ConstantLabelWarning, DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier
from dm2l.datasets import load_dataset
from dm2l.metrics import evaluate
from dm2l.simulate import simulate_per_row, simulate_uniform

SEEDS = range(5)
MASKS = {"per row": simulate_per_row, "uniform": simulate_uniform}
CASES = [("per row", 1.0), ("per row", 0.7), ("per row", 0.3), ("uniform", 0.7), ("uniform", 0.3)]
RBF = {"kernel": "rbf", "gamma": 0.5, "alpha": 1.0}
METHODS = {
    "DM2L-l as published": DM2LClassifier.published(),
    "DM2L-nl as published": DM2LClassifier.published("rbf", sigma=0.5),
    "masked ridge": MaskedRidgeClassifier(alpha=10.0),
    "DM2L linear": DM2LClassifier(alpha=10.0, lambda_d=0.3),
    "masked kernel ridge": DM2LClassifier(lambda_d=0.0, **RBF),
    "DM2L kernel": DM2LClassifier(lambda_d=1.0, **RBF),
}
METRICS = (
    "ranking_loss",
    "label_ranking_average_precision",
    "coverage_error",
    "instance_auc",
    "label_auc",
)


def run(model: Any, data: Any, mask: str, rho: float, seed: int) -> dict[str, float]:
    order = np.random.RandomState(seed).permutation(len(data.target))
    train, test = order[:3000], order[3000:]
    Y = MASKS[mask](data.target[train], rho, random_state=seed)
    start = time.perf_counter()
    model.fit(data.data[train], Y)
    seconds = time.perf_counter() - start
    found = evaluate(
        data.target[test], model.decision_function(data.data[test]), convention="published"
    )
    return {name: found[name].value for name in METRICS} | {"seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConstantLabelWarning)  # rare labels of a split
    data = load_dataset("Arts")
    if hasattr(data.data, "toarray"):
        data.data = data.data.toarray()
    rows = []
    print(f"{'method':22} {'mask':8} {'rho':>4} {'Rkl':>7} {'Ap':>7} {'Cvg':>7} {'seconds':>8}")
    for name, model in METHODS.items():
        for mask, rho in CASES:
            runs = [run(model, data, mask, rho, seed) for seed in SEEDS]
            mean = {key: float(np.mean([r[key] for r in runs])) for key in runs[0]}
            spread = {key: float(np.std([r[key] for r in runs], ddof=1)) for key in runs[0]}
            rows.append(
                {"method": name, "mask": mask, "rho": rho, "mean": mean, "std": spread}
                | {"parameters": {k: v for k, v in model.get_params().items() if v == v}}
            )
            print(
                f"{name:22} {mask:8} {rho:4.1f} {mean['ranking_loss']:7.4f} "
                f"{mean['label_ranking_average_precision']:7.4f} "
                f"{mean['coverage_error']:7.4f} {mean['seconds']:8.2f}",
                flush=True,
            )
    if arguments.out:
        write(arguments.out, {"data": "Arts", "seeds": list(SEEDS), "rows": rows})


if __name__ == "__main__":
    main()
