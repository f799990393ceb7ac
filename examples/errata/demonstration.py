"""Shared code of the demonstrations: splits, published values, and the command line.

A demonstration is a module with these names:

- ``measure(**settings)`` returns the results as plain numbers, texts, lists and dicts.
- ``lines(figures)`` returns the printed lines.
- ``claims(figures)`` returns a dict with each claim in words, and whether the results support it.
- ``QUICK`` contains settings for the tests, which support the claims in seconds.
"""

from __future__ import annotations

import argparse
import csv
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from dm2l import ConstantLabelWarning
from dm2l.datasets import load_dataset
from dm2l.metrics import (
    coverage_error,
    instance_auc,
    label_auc,
    label_ranking_average_precision,
    ranking_loss,
)

Figures = dict[str, Any]

METHODS = ("LEML", "ML-LRC", "GLOCAL", "LSML", "DM2L-l", "DM2L-nl")
RATES = (1.0, 0.7, 0.3)
PUBLISHED = Path(__file__).parents[2] / "results" / "published.csv"
METRICS: dict[str, Callable[..., Any]] = {
    "Rkl": ranking_loss,
    "Auc": instance_auc,
    "Cvg": coverage_error,
    "Ap": label_ranking_average_precision,
    "label AUC": label_auc,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "seeds": {"type": int, "nargs": "+", "help": "random seeds of the splits"},
    "rows": {"type": int, "help": "maximum number of training rows"},
    "published": {
        "type": Path,
        "help": "CSV file with the columns dataset, rho, metric, method and value",
    },
    "paper": {"type": Path, "help": "file with the LaTeX source of the paper"},
}


class Split(NamedTuple):
    """A random split of a data set into 60 % training rows and 40 % test rows."""

    seed: int
    X: Any
    Y: Any
    X_test: Any
    Y_test: Any

    def score(self, model: Any) -> dict[str, float]:
        """Return metrics of a fitted model on the test rows, computed as in the released code."""
        return score(self.Y_test, model.decision_function(self.X_test))


def splits(name: str, seeds: tuple[int, ...], rows: int | None = None) -> Iterator[Split]:
    data = load_dataset(name)
    X = data.data.toarray() if sp.issparse(data.data) else data.data
    for seed in seeds:
        order = np.random.RandomState(seed).permutation(len(X))
        cut = int(0.6 * len(X))
        train, test = order[:cut][:rows], order[cut:]
        yield Split(seed, X[train], data.target[train], X[test], data.target[test])


def score(Y: Any, scores: Any) -> dict[str, float]:
    return {name: float(m(Y, scores, convention="published")) for name, m in METRICS.items()}


def mean(found: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def label_frequencies(Y: Any, n_rows: int) -> Any:
    """Return equal scores for all rows: the observed share of positives of each label."""
    observed = ~np.isnan(np.asarray(Y, dtype=float))
    share = np.nansum(Y, axis=0) / np.maximum(observed.sum(axis=0), 1)
    return np.tile(share, (n_rows, 1))


def published_figures(path: Path | None = None) -> dict[tuple[str, float, str, str], float]:
    """Return Tables 2 to 4 of the paper as a dict from (data set, rho, metric, method) to value.

    The tables are read from results/published.csv, or from another CSV file with the same columns.
    """
    with (path or PUBLISHED).open(newline="") as file:
        rows = [row | {"rho": row.get("rho") or row["rate"]} for row in csv.DictReader(file)]
    names = ("dataset", "rho", "metric", "method")
    return {
        (dataset, float(rho), metric, method): float(row["value"])
        for row in rows
        for dataset, rho, metric, method in [[row[name] for name in names]]
    }


def measure(module: ModuleType, **settings: Any) -> Figures:
    """Return the results of a demonstration, computed with one thread."""
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConstantLabelWarning)  # rare labels of a split
        figures: Figures = module.measure(**settings)
    return figures


def main(module: ModuleType) -> None:
    """Run the command line of a demonstration."""
    assert module.__doc__ is not None
    parser = argparse.ArgumentParser(description=module.__doc__.split("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="fail if the results do not support the claims"
    )
    parser.add_argument("--quick", action="store_true", help="use fewer rows and seeds")
    for name in inspect.signature(module.measure).parameters:
        if name in OPTIONS:
            parser.add_argument(f"--{name}", **OPTIONS[name])
    arguments = vars(parser.parse_args())
    check, settings = arguments.pop("check"), dict(module.QUICK) if arguments.pop("quick") else {}
    settings |= {name: value for name, value in arguments.items() if value is not None}
    figures = measure(module, **settings)
    print("\n".join(module.lines(figures)))
    failed = [claim for claim, holds in module.claims(figures).items() if not holds]
    if check and failed:
        sys.exit("Not shown: " + "; ".join(failed))
