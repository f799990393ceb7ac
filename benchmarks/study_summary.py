"""What benchmarks/study.py has found: ranks, who is behind, times, and how good estimates are.

python benchmarks/study_summary.py FILE.jsonl [--ran-on MACHINE]

A cell is a data set and a regime, and ranks are taken in the cells that all methods have, of means
over the repetitions that all methods have. Data sets are what tests count: regimes and measures of
one are averaged. Methods with fewer cells are compared with the automatic estimator only.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from record import write
from scipy.stats import wilcoxon

from experiments import ranks
from experiments.resumable import stored

RESULTS = Path(__file__).parent / "results" / "study.json"
KEY = ("data", "regime", "seed", "method")
LOWER = ("rkl", "cvg", "hamming", "logloss")
MEASURES = {name: name not in LOWER for name in ("auc", "map", "ap", *LOWER)}
# The measures by which methods are ranked; the others are stored, too.
RANKED = ("auc", "map", "rkl", "logloss")
APART = ("AutoGluon",)  # methods that have few cells
AVERAGE = "trees and logistic"
NOISE = 0.002  # a smaller difference to masked ridge does not count
Table = dict[tuple[str, str, str], dict[str, float]]


def means(rows: list[dict[str, Any]]) -> Table:
    """Of the repetitions that all methods of a cell have, by set, regime and method."""
    last = {tuple(row[name] for name in KEY): row for row in rows}
    have: dict[Any, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for data, regime, seed, method in last:
        if method not in APART:
            have[data, regime][method].add(seed)
    common = {cell: set.intersection(*methods.values()) for cell, methods in have.items()}
    groups: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in last.values():
        if row["seed"] in common[row["data"], row["regime"]]:
            groups[row["data"], row["regime"], row["method"]].append(row)
    columns = (*MEASURES, "seconds", "forest_seconds")
    return {
        key: {name: float(np.mean([row.get(name, np.nan) for row in found])) for name in columns}
        | {"runs": len(found)}
        for key, found in groups.items()
    }


def compare(table: Table, names: list[str], cells: list[Any], measures: Any) -> dict[str, Any]:
    """Mean ranks, Friedman's test over sets, and Wilcoxon's against the automatic estimator."""
    sets = list(dict.fromkeys(data for data, _ in cells))
    own = np.empty((len(sets), len(names)))
    for s, data in enumerate(sets):
        found = [
            ranks.average_ranks(
                np.array([[table[*cell, name][measure] for name in names]]), MEASURES[measure]
            )
            for measure in measures
            for cell in cells
            if cell[0] == data
        ]
        own[s] = np.mean(found, axis=0)
    mean = own.mean(axis=0)
    order = np.argsort(mean)
    ours = names.index("auto")
    p = {n: wilcoxon(own[:, ours], own[:, k]).pvalue for k, n in enumerate(names) if k != ours}
    record: dict[str, Any] = {
        "mean_ranks": {names[k]: round(float(mean[k]), 3) for k in order},
        "by_set": {names[k]: own[:, k].round(2).tolist() for k in order},
        "sets": sets,
        "friedman_p": ranks.friedman(own, False).f_p_value,
        "wilcoxon_holm": _holm(p),
    }
    if len(measures) == 1:
        record["means"] = {
            name: round(float(np.mean([table[*cell, name][measures[0]] for cell in cells])), 4)
            for name in record["mean_ranks"]
        }
    return record


def _holm(p: dict[str, float]) -> dict[str, float]:
    found, most = {}, 0.0
    for k, (name, value) in enumerate(sorted(p.items(), key=lambda item: item[1])):
        most = max(most, min(1.0, (len(p) - k) * value))
        found[name] = float(f"{most:.2g}")
    return found


def behind(table: Table, names: list[str], cells: list[Any]) -> list[dict[str, Any]]:
    """How far the best of the named methods is above our label AUC in a cell, the worst first."""
    found = []
    for cell in cells:
        best = max(names, key=lambda name: table[*cell, name]["auc"])
        gap = table[*cell, best]["auc"] - table[*cell, "auto"]["auc"]
        found.append({"data": cell[0], "regime": cell[1], "best": best, "gap": round(gap, 4)})
    return sorted(found, key=lambda row: -row["gap"])


def times(table: Table, cells: list[Any]) -> dict[str, Any]:
    """Processor time of the automatic estimator in random forests of 500 trees per label."""
    ratio = {
        " ".join(cell): round(
            table[*cell, "auto"]["seconds"] / table[*cell, "random forest"]["forest_seconds"], 1
        )
        for cell in cells
    }
    return {"median": float(np.median(list(ratio.values()))), "most": max(ratio.values())} | ratio


def covered(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Whether the interval that the estimator gives held the label AUC of the test rows.

    Those are more rows than the interval is for, with all labels known: it should hold more often.
    """
    ours = [row for row in rows if row["method"] == "auto"]
    inside = [row["estimate"][1] <= row["auc"] <= row["estimate"][2] for row in ours]
    error = [row["estimate"][0] - row["auc"] for row in ours]
    return {
        "runs": len(ours),
        "covered": sum(inside),
        "mean_error": round(float(np.mean(error)), 4),
    }


def shown(name: str) -> str:
    names = {
        "auto": "`AutoClassifier()`",
        AVERAGE: "extra trees + logistic regression",
    }
    return names.get(name, name)


def readme(record: dict[str, Any]) -> str:
    """The automatic estimator against common alternatives, in five rows, for README.md."""
    by = record["by_measure"]
    lines = [
        f"| {len(record['sets'])} data sets "
        "| mean rank | AUC by label | average precision by label | log-loss | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for name in ("auto", AVERAGE, "extra trees", "masked ridge", "LightGBM"):
        values = " | ".join(f"{by[m]['means'][name]:.3f}" for m in ("auc", "map", "logloss"))
        rank, seconds = record["all"]["mean_ranks"][name], record["seconds"][name]
        lines.append(f"| {shown(name)} | {rank:.1f} | {values} | {seconds:.0f} |")
    return "\n".join(
        [
            *lines,
            "",
            f"Mean ranks compare {len(record['all']['mean_ranks'])} tuned methods "
            "([all methods and tests](docs/research/choosing.md#measurements)).",
        ]
    )


def every_method(record: dict[str, Any]) -> str:
    """Every method by every measure, and where the automatic estimator is behind, for the docs."""
    by = {"all": record["all"]} | {name: record["by_measure"][name] for name in RANKED}
    lines = [
        "| mean rank | " + " | ".join(by) + " | p | seconds |",
        "|---" * (len(by) + 3) + "|",
    ]
    for name in record["all"]["mean_ranks"]:
        cells = [f"{one['mean_ranks'][name]:.1f}" for one in by.values()]
        p = record["all"]["wilcoxon_holm"].get(name)
        cells += ["" if p is None else f"{p:.2g}", f"{record['seconds'][name]:.1f}"]
        lines.append(f"| {shown(name)} | " + " | ".join(cells) + " |")
    lost = [row for row in record["behind"] if row["gap"] > 0]
    ridge = [row for row in record["behind_ridge"] if row["gap"] > NOISE]
    time, told = record["times_of_a_forest"], record["estimate"]
    return "\n".join(
        [
            *lines,
            "",
            "In the following cells, another method has a higher label AUC than `AutoClassifier`:",
            "",
            "| data set | regime | better method | difference |",
            "|---|---|---|---|",
            *(
                f"| {r['data']} | {r['regime']} | {shown(r['best'])} | {r['gap']:.3f} |"
                for r in lost
            ),
            "",
            f"The label AUC of masked ridge exceeds the label AUC of `AutoClassifier` by more than "
            f"{NOISE} in {len(ridge)} of {len(record['cells'])} cells. Compared with a random "
            "forest with 500 trees per label, `AutoClassifier` takes "
            f"{time['median']:.1f} times as much processor time in the median cell, and at most "
            f"{time['most']:.1f} times as much. The interval of `estimate_` contained the label "
            f"AUC of the test rows in {told['covered']} of {told['runs']} runs.",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("lines", type=Path)
    parser.add_argument("--ran-on", help="the machine of the lines, if another")
    given = parser.parse_args()
    rows = stored(given.lines)
    table = means(rows)
    names = [n for n in dict.fromkeys(key[2] for key in table) if n not in APART]
    every = list(dict.fromkeys(key[:2] for key in table))
    cells = [cell for cell in every if all((*cell, name) in table for name in names)]
    rivals = [name for name in names if name != "auto"]
    few = {n: [cell for cell in cells if (*cell, n) in table] for n in APART}
    record: dict[str, Any] = {
        "sets": list(dict.fromkeys(data for data, _ in cells)),
        "cells": [list(cell) for cell in cells],
        "incomplete": [list(cell) for cell in every if cell not in cells],
        "repetitions": [int(table[*cell, "auto"]["runs"]) for cell in cells],
        "all": compare(table, names, cells, RANKED),
        "by_measure": {name: compare(table, names, cells, [name]) for name in MEASURES},
        "behind": behind(table, rivals, cells),
        "behind_ridge": behind(table, ["masked ridge"], cells),
        "apart": {
            name: {
                "cells": [list(cell) for cell in have],
                **{
                    measure: {
                        n: round(float(np.mean([table[*c, n][measure] for c in have])), 4)
                        for n in ("auto", name)
                    }
                    for measure in (*MEASURES, "seconds")
                },
            }
            for name, have in few.items()
            if have
        },
        "times_of_a_forest": times(table, cells),
        "seconds": {
            name: round(float(np.median([table[*c, name]["seconds"] for c in cells])), 1)
            for name in names
        },
        "estimate": covered(rows),
    }
    print(f"{len(cells)} of {len(every)} cells have all of {len(names)} methods")
    for name, rank in record["all"]["mean_ranks"].items():
        p = record["all"]["wilcoxon_holm"].get(name, "")
        by = [record["by_measure"][m] for m in RANKED]
        values = (f"{one['mean_ranks'][name]:5.2f} {one['means'][name]:7.4f}" for one in by)
        print(f"{rank:6.2f} {p!s:8}", *values, name)
    for name in ("behind", "behind_ridge"):
        print(name, *(row for row in record[name] if row["gap"] > 0), sep="\n  ")
    print("times", record["times_of_a_forest"], record["seconds"], record["estimate"], sep="\n")
    print(record["apart"])
    record["tables"] = {"study": readme(record), "ranks": every_method(record)}
    write(RESULTS, record, given.ran_on)


if __name__ == "__main__":
    main()
