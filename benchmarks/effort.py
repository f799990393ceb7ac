"""How exact a search has to be: what it chooses at several tolerances, and what that gives away.

    python benchmarks/effort.py --out FILE.jsonl [--jobs 16] [--minutes 30] [--seeds 2]
                                [--sets emotions yeast] [--rates 0.3] [--kernels rbf]
    python benchmarks/effort.py --out FILE.jsonl --summary [--ran-on "a machine in words"]

Every case is searched with `search_tol=1e-6` and 100 iterations a setting, and at each of EFFORTS.
Regret is how much lower than the best the setting chosen there scores in the table of the former;
"errors" is the same in standard errors of that difference over the folds; "off" is how far scores
within 1 % of the best are from those of the former.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
from record import write
from selection import GRIDS, LAMBDAS, RATES, SETS, read

from dm2l import DM2LClassifierCV
from dm2l.simulate import simulate_uniform
from experiments import resumable

EXACT = (1e-6, 100)
EFFORTS = (
    *((1e-4, 10), (1e-4, 7), (3e-4, 10), (3e-4, 7)),
    *((1e-3, 10), (1e-3, 7), (1e-3, 5), (1e-2, 3)),
)


def compute(data: str, kernel: str, rate: float, seed: int) -> dict[str, Any]:
    X, Y, n = read(data, seed)
    X, Y = X[:n], simulate_uniform(Y[:n], rate, random_state=seed)
    alphas = GRIDS["rbf"]
    if kernel == "linear":
        alphas = [float((X**2).sum() / n) / 10 * share for share in GRIDS["linear"]]
    exact: Any = None
    found = {}
    for tol, most in (EXACT, *EFFORTS):
        start = time.process_time()
        search = DM2LClassifierCV(
            LAMBDAS, alphas, kernel=kernel, search_tol=tol, search_iter=most, refit=False
        ).fit(X, Y)
        passed = time.process_time() - start
        names = [f"split{i}_test_score" for i in range(search.n_splits_)]
        table = np.array([search.cv_results_[name] for name in names])
        mean = table.mean(axis=0)
        if exact is None:
            exact, best, scores = table, int(search.best_index_), mean
        apart = exact[:, best] - exact[:, search.best_index_]
        near = scores >= scores[best] - 0.01 * abs(scores[best])
        found[f"{tol:g}, {most}"] = {
            "seconds": round(passed, 3),
            "chosen": int(search.best_index_),
            "regret": float(apart.mean()),
            "errors": float(apart.mean() / max(apart.std(ddof=1) / len(apart) ** 0.5, 1e-12)),
            "off": float(np.abs(mean - scores)[near].max()),
        }
    return {"score": float(scores[best]), "efforts": found}


def summarize(rows: list[dict[str, Any]], path: Path, ran_on: str | None) -> None:
    table = []
    for name in rows[0]["efforts"]:
        cells = [row["efforts"][name] for row in rows]
        exact = [row["efforts"][f"{EXACT[0]:g}, {EXACT[1]}"] for row in rows]
        same = np.mean([a["chosen"] == b["chosen"] for a, b in zip(cells, exact, strict=True)])
        time_share = sum(c["seconds"] for c in cells) / sum(c["seconds"] for c in exact)
        line: dict[str, Any] = {"effort": name, "same": float(same), "time": float(time_share)}
        for measure in ("regret", "off"):
            values = [c[measure] for c in cells]
            line |= {measure: float(np.mean(values)), f"largest {measure}": float(np.max(values))}
        line["errors"] = float(max(c["errors"] for c in cells))
        table.append(line)
        print({k: round(v, 5) if isinstance(v, float) else v for k, v in line.items()})
    write(path, {"cases": len(rows), "ran_on": ran_on, "rows": table})


def main() -> None:
    results = Path(__file__).parent / "results" / "effort.json"
    parser = resumable.options(__doc__, results.name, seeds=2)
    parser.add_argument("--kernels", nargs="+", choices=list(GRIDS), default=list(GRIDS))
    given = parser.parse_args()
    if given.summary:
        summarize(resumable.stored(given.out), results, given.ran_on)
        return
    names = ("data", "kernel", "rate", "seed")
    parts = (given.sets or SETS, given.kernels, given.rates or RATES[1:3], range(given.seeds))
    cells = [dict(zip(names, cell, strict=True)) for cell in itertools.product(*parts)]
    resumable.run(compute, cells, given)


if __name__ == "__main__":
    main()
