"""Sets in which many labels lose their positives: 5 % of the rows are learnt from.

    python benchmarks/rare_labels.py --name before [--out benchmarks/results/rare-labels.json]

All labels are scored on 2,000 other rows, including those of which the training rows show one class
only. ``score_ranking`` and ``ranking`` are ranking losses by scores and by probabilities, and
``inside`` tells whether the prediction interval of the label AUC that the model prints holds the
AUC of the test rows. Results are added to the file under ``name``, so that two checkouts can be
compared.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from record import machine, write
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression

from dm2l import AutoClassifier, DM2LClassifier
from dm2l.baselines import MaskedOneVsRestClassifier
from dm2l.datasets import load_dataset
from dm2l.metrics import label_auc, ranking_loss
from dm2l.simulate import simulate_uniform

SETS, RATES, SHARE, TESTED = ("Enron", "bibtex", "Corel16k001"), (1.0, 0.3), 0.05, 2000


def models(seed: int, alone: bool) -> Iterator[tuple[str, Any]]:
    if seed == 0 and not alone:
        yield "DM2L", DM2LClassifier(coupling=None)
        yield "DM2L, coupling", DM2LClassifier()
        trees = ExtraTreesClassifier(100, random_state=seed)
        yield "extra trees", MaskedOneVsRestClassifier(trees)
        yield "logistic", MaskedOneVsRestClassifier(LogisticRegression())
    yield "auto quick", AutoClassifier("quick", random_state=seed)


def measured(model: Any, X: Any, Y: Any, n: int, rate: float, seed: int) -> dict[str, float]:
    """Fit to the first n rows and measure on the others."""
    shown = Y[:n] if rate == 1 else simulate_uniform(Y[:n], rate, random_state=seed)
    start = time.process_time()
    model.fit(X[:n], shown)
    seconds = time.process_time() - start
    truth, S, P = Y[n:], model.decision_function(X[n:]), model.predict_proba(X[n:])
    rows = (truth == 1).any(axis=1) & (truth == 0).any(axis=1)
    clipped = np.clip(P, 1e-6, 1 - 1e-6)
    found = {
        "score_ranking": ranking_loss(truth[rows], S[rows]),
        "ranking": ranking_loss(truth[rows], P[rows]),
        "log_loss": -np.mean(np.log(np.where(truth == 1, clipped, 1 - clipped))),
        "label_auc": label_auc(truth, P),
        "one_class": int((~model._learnable).sum()),
        "seconds": seconds,
    }
    if hasattr(model, "estimate_"):
        low, high = model.estimate_["label_auc"][1:]
        found |= {"low": low, "high": high, "inside": low <= found["label_auc"] <= high}
    return {name: round(float(value), 4) for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/rare-labels.json"))
    parser.add_argument("--seeds", type=int, default=1, help="of the quick automatic estimator")
    parser.add_argument("--alone", action="store_true", help="no other estimators")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    for data in SETS:
        found = load_dataset(data)
        X = np.asarray(found.data.toarray() if hasattr(found.data, "toarray") else found.data)
        Y = np.asarray(found.target, dtype=np.float64)
        n = int(SHARE * len(Y))
        for seed, rate in product(range(options.seeds), RATES):
            order = np.random.default_rng(seed).permutation(len(Y))[: n + TESTED]
            for name, model in models(seed, options.alone):
                row = measured(model, X[order], Y[order], n, rate, seed)
                rows.append({"data": data, "rate": rate, "seed": seed, "method": name} | row)
                print(rows[-1], flush=True)
    stored = json.loads(options.out.read_text()) if options.out.exists() else {}
    stored.pop("machine", None)
    record = {"share": SHARE, "versions": machine()} | stored
    write(options.out, record | {options.name: rows})


if __name__ == "__main__":
    main()
