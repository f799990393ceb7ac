"""Many labels of which 70 % of the positives are hidden: precision, time and memory.

    python benchmarks/extreme.py [--cases delicious synthetic] [--out FILE.json] [--quick]

Each method runs in a process of its own; "peak" is what that process had resident at most, its
imports and the data included. "fit" is the time of the fit alone. All methods get the same stored
positives and nothing else. Hidden positives look like any other absence, so that to methods which
know only yes, no and missing an absence is a no. The ridge of
MaskedOneVsRestClassifier(Ridge) is chosen
from a grid on a fifth of the training rows, by the labels that are visible there. So are the ridge,
rank, meaning of absence and lambda_d of "DM2L, searched", whose time is that of the search and the
fit; the other two have the defaults. LEML runs with several of its alphas and ranks.

delicious has its own split. The synthetic set draws the labels of a row from the softmax of its few
topics, which features show through noise; each label belongs to two topics, and popularities fall
like rank^-0.7. On rcv1subset1 (47,236 columns, sparse) only the memory of a fit is looked at.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from record import write
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, ShuffleSplit

from dm2l import ConstantLabelWarning, DM2LClassifier
from dm2l.baselines import LEMLClassifier, MaskedOneVsRestClassifier
from dm2l.datasets import load_dataset
from dm2l.extreme import ExtremeDM2LClassifier
from dm2l.metrics import (
    ndcg_at_k,
    precision_at_k,
    propensities,
    propensity_scored_ndcg_at_k,
    propensity_scored_precision_at_k,
)
from dm2l.simulate import simulate_uniform

VISIBLE = 0.3
RIDGES = (30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 3e4)
RANKS = (50, 100)
LAMBDAS = (0.0, 0.03, 0.1, 0.3)
SYNTHETIC = {"train": 6000, "test": 4000, "d": 300, "c": 4000, "topics": 40}
QUICK = {"train": 800, "test": 300, "d": 50, "c": 300, "topics": 20}
NOISE = 1.0
UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
PLACES = (1, 3, 5)

Data = tuple[Any, Any, Any, Any]


def synthetic(seed: int, train: int, test: int, d: int, c: int, topics: int) -> Data:
    """Rows mix few topics; each topic has labels of its own and a direction in feature space."""
    rng = np.random.default_rng(seed)
    n = train + test
    Z = rng.gamma(0.05, size=(n, topics))
    Z /= Z.sum(axis=1, keepdims=True)
    X = Z @ rng.normal(size=(topics, d)) + NOISE * rng.normal(size=(n, d))
    popularity = -0.7 * np.log(rng.permutation(c) + 1.0)
    loadings = np.zeros((topics, c))
    for _ in range(2):
        loadings[rng.integers(topics, size=c), np.arange(c)] = 10.0
    counts = 1 + rng.poisson(9, size=n)
    rows, columns = [], []
    for start in range(0, n, 500):
        part = slice(start, min(start + 500, n))
        # The highest of Gumbel-shaken logits are a draw without replacement from the softmax.
        logits = popularity + Z[part] @ loadings + rng.gumbel(size=(part.stop - start, c))
        order = np.argsort(-logits, axis=1)[:, : counts.max()]
        taken = np.arange(order.shape[1]) < counts[part, None]
        rows.append(np.repeat(np.arange(part.start, part.stop), counts[part]))
        columns.append(order[taken])
    places = np.concatenate(rows), np.concatenate(columns)
    Y = sp.csr_array((np.ones(len(places[0])), places), shape=(n, c))
    return X[:train], Y[:train], X[train:], Y[train:]


def load(case: str, seed: int, quick: bool) -> Data:
    """Training rows with visible positives only, and test rows with all of them."""
    if case == "synthetic":
        X, Y, X_test, Y_test = synthetic(seed, **(QUICK if quick else SYNTHETIC))
    else:
        data = load_dataset(case)
        train, test = data.train_index, data.test_index
        train = train[:1500] if quick else train
        X = data.data.toarray() if case == "delicious" else data.data
        Y = sp.csr_array(data.target)
        X, Y, X_test, Y_test = X[train], Y[train], X[test], Y[test]
    rng = np.random.default_rng(seed)
    Y = sp.coo_array(Y)
    kept = rng.permutation(Y.nnz)[: int(np.ceil(VISIBLE * Y.nnz))]
    visible = (np.ones(len(kept)), (Y.row[kept], Y.col[kept]))
    return X, sp.csr_array(visible, shape=Y.shape), X_test, Y_test


def visible_ndcg(model: Any, X: Any, Y: Any) -> float:
    """How well labels that are visible are ranked; nothing hidden is looked at."""
    top = hasattr(model, "predict_top_k")
    scores = model.predict_top_k(X, 5) if top else model.predict(X)
    return float(ndcg_at_k(Y, scores, 5, missing_as="negative"))


def search(model: Any, grid: dict[str, Any], X: Any, Y: Any, seed: int) -> Any:
    """The settings that rank visible labels of a fifth of the training rows best."""
    split = ShuffleSplit(1, test_size=0.2, random_state=seed)
    found = GridSearchCV(model, grid, scoring=visible_ndcg, cv=split, refit=False).fit(X, Y)
    return clone(model).set_params(**found.best_params_)


class Searched(BaseEstimator):
    """DM2L with its ridge, rank and meaning of absence chosen first, lambda_d then."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: Any, Y: Any) -> Searched:
        model = ExtremeDM2LClassifier(0.0)
        grid = {"alpha": RIDGES, "rank": RANKS, "missing_as": ["negative", "unlabelled"]}
        model = search(model, grid, X, Y, self.seed)
        model = search(model, {"lambda_d": LAMBDAS}, X, Y, self.seed)
        self.model_ = model.fit(X, Y)
        names = ("alpha", "rank", "missing_as", "lambda_d")
        self.chosen_ = {name: getattr(model, name) for name in names}
        return self

    def predict_top_k(self, X: Any, k: int) -> Any:
        return self.model_.predict_top_k(X, k)


class OnDense(Ridge):
    """Ridge that takes sparse targets."""

    def fit(self, X: Any, y: Any) -> OnDense:
        return super().fit(X, y.toarray())


def extreme(**settings: Any) -> Callable[..., Any]:
    return lambda X, Y, seed: ExtremeDM2LClassifier(**settings)


def ridge(X: Any, Y: Any, seed: int) -> Any:
    # One Ridge for all labels is the same model as one each: all rows count for all labels.
    chosen = search(OnDense(), {"alpha": RIDGES}, X, Y, seed)
    return MaskedOneVsRestClassifier(Ridge(chosen.alpha), missing_as="negative")


def leml(**settings: Any) -> Callable[..., Any]:
    return lambda X, Y, seed: LEMLClassifier(**settings, missing_as="negative", random_state=seed)


METHODS: dict[str, Callable[..., Any]] = {
    "DM2L, searched": lambda X, Y, seed: Searched(seed),
    "DM2L, unlabelled": extreme(missing_as="unlabelled"),
    "DM2L, negative": extreme(missing_as="negative"),
    "one ridge a label": ridge,
    "LEML, alpha 30": leml(alpha=30.0),
    "LEML, alpha 100": leml(alpha=100.0),
    "LEML, alpha 300": leml(alpha=300.0),
    "LEML, rank 50, alpha 300": leml(alpha=300.0, rank=50),
    "LEML, rank 100, alpha 1000": leml(alpha=1000.0, rank=100),
}


def compare(case: str, name: str, seed: int, quick: bool) -> dict[str, Any]:
    X, Y, X_test, Y_test = load(case, seed, quick)
    model = METHODS[name](X, Y, seed)
    start = time.perf_counter()
    model.fit(X, Y)
    seconds = time.perf_counter() - start
    row: dict[str, Any] = {"fit": seconds, "peak": peak(), "shape": [*X.shape, Y.shape[1]]}
    chosen = getattr(model, "chosen_", None)
    if hasattr(model, "estimator"):
        chosen = {"alpha": model.estimator.alpha}
    row |= {"stored": Y.nnz, "chosen": chosen}
    top = hasattr(model, "predict_top_k")
    scores = model.predict_top_k(X_test, 5) if top else model.decision_function(X_test)
    row["predict"] = time.perf_counter() - start - seconds
    chances = propensities(Y)
    for k in PLACES:
        reading: dict[str, Any] = {"k": k, "missing_as": "negative"}
        row[f"P@{k}"] = precision_at_k(Y_test, scores, **reading)
        row[f"nDCG@{k}"] = ndcg_at_k(Y_test, scores, **reading)
        row[f"PSP@{k}"] = propensity_scored_precision_at_k(Y_test, scores, chances, **reading)
        row[f"PSnDCG@{k}"] = propensity_scored_ndcg_at_k(Y_test, scores, chances, **reading)
    return row


def wide(case: str, name: str, seed: int, quick: bool) -> dict[str, Any]:
    """Memory of a fit to a sparse X with far more columns than rows."""
    data = load_dataset(case)
    rows = data.train_index if name.endswith("half") else np.arange(len(data.target))
    rows = rows[:500] if quick else rows
    X, Y = data.data[rows], data.target[rows]
    if name.startswith("DM2L dense"):
        model, Y = DM2LClassifier(), simulate_uniform(Y, VISIBLE, random_state=seed)
    else:
        model, Y = ExtremeDM2LClassifier(missing_as="unlabelled", max_memory=4e9), sp.csr_array(Y)
    before = peak()
    start = time.perf_counter()
    model.fit(X, Y)
    seconds = time.perf_counter() - start
    return {"fit": seconds, "peak": peak(), "before": before, "shape": [*X.shape, Y.shape[1]]}


WIDE = ("DM2L dense Y, half", "DM2L dense Y, all", "DM2L head, half", "DM2L head, all")
CASES = ("delicious", "synthetic", "rcv1subset1")


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT


def child(case: str, name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--cases", case, "--method", name]
    command += ["--seed", str(arguments.seed)] + (["--quick"] if arguments.quick else [])
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few rows and labels")
    parser.add_argument("--methods", nargs="+", help="only these; FILE keeps its other rows")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--method", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConstantLabelWarning)  # labels that were hidden altogether
    if arguments.method:
        run = wide if arguments.method in WIDE else compare
        case, seed = arguments.cases[0], arguments.seed
        print(json.dumps(run(case, arguments.method, seed, arguments.quick)))
        return

    chosen = set(arguments.methods or (*METHODS, *WIDE))
    rows: list[dict[str, Any]] = []
    if arguments.methods and arguments.out and arguments.out.exists():
        rows = json.loads(arguments.out.read_text())["rows"]
        again = [row["method"] in chosen and row["case"] in arguments.cases for row in rows]
        rows = [row for row, drop in zip(rows, again, strict=True) if not drop]
    record = {"seed": arguments.seed, "visible": VISIBLE, "quick": arguments.quick}
    record |= {"threads": os.environ.get("OMP_NUM_THREADS"), "rows": rows}
    for case in arguments.cases:
        for name in WIDE if case == "rcv1subset1" else METHODS:
            if name not in chosen:
                continue
            row = child(case, name, arguments)
            rows.append({"case": case, "method": name} | row)
            line = f"{case:12} {name:26} {row['fit']:7.1f} s {row['peak'] / 1e6:6.0f} MB"
            for metric in ("P", "nDCG", "PSP"):
                if "P@1" in row:
                    line += f"  {metric} " + " ".join(f"{row[f'{metric}@{k}']:.3f}" for k in PLACES)
            print(line, flush=True)
            if arguments.out:  # after every row: the next may take minutes
                write(arguments.out, record)


if __name__ == "__main__":
    main()
