"""What a row far outside does to AutoClassifier, with and without robust scaling of its features.

    python benchmarks/far_values.py

Half of at most 1,400 rows are for training, without 30 % of their label entries; the others are
the test rows. The far row has the value 1e5 in every column and no label.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from record import write
from sklearn.datasets import load_digits

from dm2l import AutoClassifier
from dm2l._auto import _columns
from dm2l.datasets import load_dataset
from dm2l.metrics import label_auc

SETS = ("emotions", "yeast", "digits")
MOST, HIDDEN, FAR = 1400, 0.3, 1e5


def read(name: str) -> tuple[Any, Any]:
    if name == "digits":
        data = load_digits()
        return data.data, np.eye(10)[data.target]
    found = load_dataset(name)
    X = found.data.toarray() if hasattr(found.data, "toarray") else found.data
    return X, np.asarray(found.target, dtype=float)


def compute(name: str) -> dict[str, Any]:
    """Label AUC of test rows by scaling, without and with the far row."""
    X, Y = read(name)
    order = np.random.default_rng(0).permutation(len(Y))[:MOST]
    train, test = order[: len(order) // 2], order[len(order) // 2 :]
    shown = np.where(np.random.default_rng(1).random(Y[train].shape) < HIDDEN, np.nan, Y[train])
    far = np.full((1, X.shape[1]), FAR), np.zeros((1, Y.shape[1]))
    rows = {
        "without": (X[train], shown),
        "with": (np.vstack([X[train], far[0]]), np.vstack([shown, far[1]])),
    }
    robust, found = _columns.without_far_values, {}
    for scaling, function in {"plain": lambda X: X, "robust": robust}.items():
        _columns.without_far_values = function
        for kind, (X_train, Y_train) in rows.items():
            model = AutoClassifier("quick", random_state=0, coupling=None).fit(X_train, Y_train)
            auc = label_auc(Y[test], model.predict_proba(X[test]))
            found[f"{scaling}, {kind} far row"] = float(auc)
    _columns.without_far_values = robust
    return {"data": name, "label auc": found}


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [compute(name) for name in SETS]
    path = Path(__file__).parent / "results" / "far_values.json"
    write(path, {"seed": 0, "hidden": HIDDEN, "far": FAR, "sets": rows})


if __name__ == "__main__":
    main()
