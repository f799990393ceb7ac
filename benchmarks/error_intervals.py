"""How often the interval of `dm2l audit` holds the share of errors among the first 20 suspects.

    python benchmarks/error_intervals.py [--out benchmarks/results/error_intervals.json]

Labels of made tables are inverted at the rates 0, 2, 3.5 and 5 %, and 70 % of the labels are known.
``separable`` labels follow from the features, up to little noise. ``drawn`` labels are drawn from
logistic probabilities, and ``bounded`` labels from probabilities between 5 and 95 %, so that
correct labels contradict even the best prediction. ``mixed`` tables have labels of the three kinds,
and ``rare`` labels are drawn with few positives. `yeast`, `Enron`, `Arts` and `scene` are real
tables with 800 rows, of which 60 % of the labels are known. In the stored results, ``before`` is a
run with the code of commit ae278630, whose probabilities had been fitted to the judged labels.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from record import write
from scipy.special import expit

from dm2l.datasets import load_dataset
from dm2l.tables import FitOptions, audit_table, fit_table, table_from_frame

MADE, REAL = ("separable", "drawn", "bounded", "mixed", "rare"), ("yeast", "Enron", "Arts", "scene")
SIZES, RATES, FIRST = ((600, 5), (2000, 8)), (0.0, 0.02, 0.035, 0.05), 20


def made(kind: str, rows: int, labels: int, rng: Any) -> tuple[Any, Any]:
    """Features and correct labels of a made table."""
    X = rng.normal(size=(rows, 6))
    z = X @ rng.normal(size=(6, labels))
    drawn = rng.random(z.shape)
    kinds = {
        "separable": z + 0.1 * rng.normal(size=z.shape) > 0,
        "drawn": drawn < expit(z),
        "bounded": drawn < 0.05 + 0.9 * expit(2 * z),
        "rare": drawn < expit(1.5 * z - 5),
    }
    turn = np.arange(labels) % 3
    kinds["mixed"] = np.select([turn == 0, turn == 1], list(kinds.values())[:2], kinds["bounded"])
    return X, kinds[kind].astype(np.float64)


def real(data: str, rng: Any) -> tuple[Any, Any]:
    """Features and labels of rows of a data set."""
    found = load_dataset(data)
    some = rng.permutation(found.data.shape[0])[:800]
    X = found.data[some]
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
    return X[:, X.std(axis=0) > 0], np.asarray(found.target, dtype=np.float64)[some]


def audited(X: Any, Y: Any, known: float, rate: float, rng: Any) -> tuple[Any, float]:
    """The printed interval, and the share of inverted labels."""
    seen = rng.random(Y.shape) < known
    wrong = seen & (rng.random(Y.shape) < rate)
    features = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    names = [f"y{k}" for k in range(Y.shape[1])]
    labels = pd.DataFrame(np.where(seen, np.where(wrong, 1 - Y, Y), np.nan), columns=names)
    table = table_from_frame(pd.concat([features, labels], axis=1), names)
    alpha = 1.0 if X.shape[1] < 100 else "scale"
    model = fit_table(table, FitOptions("linear", 0.1, alpha, cv=3), estimate_folds=0)
    found = audit_table(model, table, FIRST)
    places = found.row - 1, [names.index(name) for name in found.label]
    return found.expected_errors(FIRST), float(wrong[places].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/error_intervals.json"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", default=[*MADE, *REAL])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for kind in options.kinds:
        for size in SIZES if kind in MADE else (None,):
            held, widths, offs, shown = [], [], [], []
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                for k, rate in enumerate(RATES):
                    rng = np.random.default_rng([seed, k])
                    X, Y = real(kind, rng) if size is None else made(kind, *size, rng)
                    (mean, low, high), share = audited(X, Y, 0.7 if size else 0.6, rate, rng)
                    held.append(low - 1e-9 <= share <= high + 1e-9)
                    widths.append(high - low)
                    offs.append(abs(mean - share))
                    shown.append([rate, *(round(x, 2) for x in (share, mean, low, high))])
            row = {"table": kind, "rows": len(X), "labels": Y.shape[1], "runs": len(held)}
            row |= {"held": int(sum(held)), "width": round(float(np.mean(widths)), 3)}
            row |= {"off": round(float(np.mean(offs)), 3), "rate_share_mean_low_high": shown}
            rows.append(row)
            print({name: row[name] for name in row if name[:4] != "rate"}, flush=True)
    write(options.out, {"first": FIRST, "first_seed": options.first_seed, "tables": rows})


if __name__ == "__main__":
    main()
