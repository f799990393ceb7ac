"""The paper's 96 cells by one estimator, the automatic one, at its defaults.

    python benchmarks/cells.py --out FILE.jsonl [--jobs 16] [--minutes 30] [--seeds 1]
                               [--sets Arts Image] [--rates 0.3] [--effort normal] [--limit 600]
    python benchmarks/cells.py --out FILE.jsonl --summary

Rows, masks and measures are those of the protocols `tuned` (masks per row) and, for the edition of
Tmc2007-500 behind the published figures, `tuned_old_tmc`; seeds are repetitions. --limit is the
estimator's `time_limit`. A cell counts as won if the mean is at least as good as the best published
figure of any method, to the three decimals in print.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from record import write

from dm2l import AutoClassifier, metrics
from experiments import resumable
from experiments.cell import draw
from experiments.protocols import PROTOCOLS, Cell
from experiments.published import PAPER_MEASURES, PRINTED_DECIMALS, best_published

# By cost, with their names in print.
SETS = {
    **{name: name for name in ("Image", "Enron", "Recreation", "Arts", "Business", "Social")},
    "Corel16k001": "Corel16k",
    "Tmc2007-500-old": "Tmc2007-500",
}
RATES = (1.0, 0.7, 0.3)
LIMIT = 600.0


def compute(data: str, rate: float, seed: int, effort: str, limit: float) -> dict[str, Any]:
    protocol = PROTOCOLS["tuned_old_tmc" if data.endswith("old") else "tuned"]
    mask = "none" if rate == 1 else "per_row"
    sample = draw(protocol, Cell(protocol.name, data, mask, rate, seed, "auto"))
    X, X_test = (X.toarray() if sp.issparse(X) else X for X in (sample.X_train, sample.X_test))
    model = AutoClassifier(effort, time_limit=limit, random_state=seed).fit(X, sample.Y_train)
    found = metrics.evaluate(
        sample.Y_test, model.decision_function(X_test), convention="published", estimate=False
    )
    weights = zip(model.leaderboard_["model"], model.leaderboard_["weight"], strict=True)
    row: dict[str, Any] = {m.name: float(found[m.metric].value) for m in PAPER_MEASURES}
    return row | {"parts": {name: round(float(weight), 3) for name, weight in weights}}


def summarize(rows: list[dict[str, Any]], out: Path, ran_on: str | None) -> None:
    groups: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[SETS[row["data"]], row["rate"]].append(row)
    won, lost = 0, []
    for (data, rate), found in sorted(groups.items()):
        for measure in PAPER_MEASURES:
            value = round(float(np.mean([row[measure.name] for row in found])), PRINTED_DECIMALS)
            printed = best_published()[data, rate, measure.name][0]
            if measure.compare(value, printed) == "worse":
                lost.append([data, rate, measure.name, printed, value])
            else:
                won += 1
    print(f"{won} of {won + len(lost)} cells are at least as good as the best in print")
    print(*lost, sep="\n")
    repetitions = {data: len(found) for (data, _), found in groups.items()}
    seconds = {f"{data} {rate:g}": found[0]["seconds"] for (data, rate), found in groups.items()}
    record = {"won": won, "cells": won + len(lost), "lost": lost, "repetitions": repetitions}
    write(out, record | {"seconds": seconds}, ran_on)


def main() -> None:
    results = Path(__file__).parent / "results" / "cells.json"
    parser = resumable.options(__doc__, results.name, seeds=1)
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--limit", type=float, default=LIMIT)
    given = parser.parse_args()
    if given.summary:
        summarize(resumable.stored(given.out), results, given.ran_on)
        return
    cells = [
        {"data": data, "rate": rate, "seed": seed, "effort": given.effort, "limit": given.limit}
        for seed in range(given.seeds)
        for data in given.sets or SETS
        for rate in given.rates or RATES
    ]
    resumable.run(compute, cells, given)


if __name__ == "__main__":
    main()
