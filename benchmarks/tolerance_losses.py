"""What a larger default tolerance would cost in test metrics, on sets for selection and for test.

    python benchmarks/tolerance_losses.py --sets Arts Enron [--lambdas 0.3 1] [--rates 0.3 0.7]
                                          [--kernel rbf] [--alpha 10] [--rows 500]
    python benchmarks/tolerance_losses.py --summary

DM2L is fitted to 60 % of the rows of a set (at most --rows) with each tolerance, and measured on up
to 2,000 other rows with all labels. "Loss" is how much worse than the fit with the smallest
tolerance a fit is in the worst of label AUC, average precision by label and ranking loss; it is
negative if the fit is better in all three. The default would be the largest tolerance that loses at
most 0.001 on every set in CHOOSING; the other sets test it. Each row is a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from record import write
from tolerance import EQUAL, MOST_ROWS, losses, measures

from dm2l import DM2LClassifier
from dm2l.datasets import load_dataset
from dm2l.simulate import simulate_uniform

TOLERANCES = (1e-2, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6)
CHOOSING = ("yeast", "Arts", "Enron", "Corel16k001")
OUT = Path("benchmarks/results/tolerance_losses.jsonl")


def compute(name: str, rate: float, lambda_d: float, options: argparse.Namespace) -> dict[str, Any]:
    """Measures and evaluations of a set with each tolerance."""
    found, seed = load_dataset(name), int(10 * rate) + 100 * options.seed
    X = found.data.toarray() if hasattr(found.data, "toarray") else np.asarray(found.data)
    Y = np.asarray(found.target, dtype=np.float64)
    order = np.random.default_rng(seed).permutation(len(Y))
    train, test = np.split(order, [int(0.6 * len(Y))])
    train, test = train[: options.rows], test[:MOST_ROWS]
    X, X_test, truth = X[train].astype(np.float64), X[test].astype(np.float64), Y[test]
    Y = simulate_uniform(Y[train], rate, random_state=seed)
    both = (Y == 1).any(axis=0) & (Y == 0).any(axis=0)
    Y, truth, alpha = Y[:, both], truth[:, both], options.alpha
    settings = {"alpha": alpha if alpha == "scale" else float(alpha), "kernel": options.kernel}
    fits = []
    for tol in TOLERANCES:
        model = DM2LClassifier(lambda_d, tol=tol, coupling=None, **settings)
        start = time.process_time()
        model.fit(X, Y)
        fit = {"tol": tol, "cpu": round(time.process_time() - start, 3)}
        fit |= {"evals": model.n_evaluations_, "J": model.objective_}
        fits.append(fit | measures(truth, model.decision_function(X_test)))
    row = {"data": name, "shape": [*X.shape, Y.shape[1]], "kernel": options.kernel, "rate": rate}
    return row | {"alpha": alpha, "lambda_d": lambda_d, "seed": options.seed, "fits": fits}


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown table of the tolerances on the sets for selection and for test."""
    lines = ["| sets | `tol` | evaluations | largest loss | on | loss | difference |"]
    lines.append("|---|---|---|---|---|---|---|")
    for words, chosen in (("selection", True), ("test", False)):
        part = [row for row in rows if (row["data"] in CHOOSING) == chosen]
        for tol in TOLERANCES[:-1]:
            place = [[fit["tol"] for fit in row["fits"]].index(tol) for row in part]
            found = [losses(row["fits"])[k] for k, row in zip(place, part, strict=True)]
            evaluations = sum(row["fits"][k]["evals"] for k, row in zip(place, part, strict=True))
            where = max(range(len(part)), key=lambda j: found[j][0])
            case = f"{part[where]['data']}, `lambda_d={part[where]['lambda_d']:g}`"
            cells = [words, f"{tol:g}", evaluations, f"{found[where][0]:.4f}", case]
            over = [sum(pair[kind] > EQUAL for pair in found) for kind in (0, 1)]
            cells += [f"{count} of {len(part)}" for count in over]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", default=[])
    parser.add_argument("--rates", nargs="+", type=float, default=[0.3, 0.7])
    parser.add_argument("--lambdas", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--kernel", default="linear")
    parser.add_argument("--alpha", default="scale")
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--summary", action="store_true", help="add up what is stored")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.sets:
        for rate in options.rates:
            for lambda_d in options.lambdas:
                row = compute(name, rate, lambda_d, options)
                with options.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(
                    name,
                    rate,
                    lambda_d,
                    *(f"{loss:.4f}" for loss, _ in losses(row["fits"])),
                    flush=True,
                )
    if options.summary:
        rows = [json.loads(line) for line in options.out.read_text().splitlines()]
        text = table(rows)
        print(text)
        write(options.out.with_suffix(".json"), {"tables": {"tolerance_losses": text}})


if __name__ == "__main__":
    main()
