"""What benchmarks/study.py has found: ranks, who is behind, times, and what each piece brings.

python benchmarks/study_summary.py FILE.jsonl [--ran-on MACHINE]

Ranks are taken among the methods that most sets have, over sets and rates that have all of them,
with means over repetitions. Sets are what tests count: rates and measures of one are averaged.
"""

from __future__ import annotations

import argparse
import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from record import write
from scipy.stats import t, wilcoxon

from experiments import ranks
from experiments.resumable import stored

RESULTS = Path(__file__).parent / "results" / "study.json"
KEY = ("data", "rate", "seed", "method")
LOWER = ("rkl", "cvg", "hamming", "logloss")
MEASURES = {name: name not in LOWER for name in ("auc", "map", "ap", *LOWER)}
# Pieces of the library, which compete with none of the others.
PIECES = ("auto, best part", "auto quick", "kernel ridge", "DM2L rbf, joint")
# What stands beside what, to say what one has more than the other.
GAINS = {
    "DM2L's terms, linear": ("DM2L linear", "masked ridge"),
    "DM2L's terms, kernel": ("DM2L rbf", "kernel ridge"),
    "coupling in the fit": ("DM2L rbf, joint", "DM2L rbf"),
    "stacking": ("auto", "auto, best part"),
    "effort normal, not quick": ("auto", "auto quick"),
}
# Of the sets and rates that any competitor has, how many a method needs to be ranked.
MOSTLY = 0.7
Table = dict[tuple[str, float, str], dict[str, float]]


def means(rows: list[dict[str, Any]]) -> Table:
    """Of the repetitions that all methods of a set and rate have, by set, rate and method."""
    last = {tuple(row[name] for name in KEY): row for row in rows}
    have: dict[Any, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for data, rate, seed, method in last:
        have[data, rate][method].add(seed)
    common = {block: set.intersection(*methods.values()) for block, methods in have.items()}
    groups: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in last.values():
        if "reason" not in row and row["seed"] in common[row["data"], row["rate"]]:
            groups[row["data"], row["rate"], row["method"]].append(row)
    columns = (*MEASURES, "seconds", "fit_seconds")
    return {
        key: {name: float(np.mean([row.get(name, np.nan) for row in found])) for name in columns}
        | {"runs": len(found)}
        for key, found in groups.items()
    }


def compare(table: Table, names: list[str], blocks: list[Any], measures: list[str]) -> Any:
    """Mean ranks, Friedman's test over sets, and Wilcoxon's against the automatic estimator."""
    sets = list(dict.fromkeys(data for data, _ in blocks))
    own = np.empty((len(sets), len(names)))
    for s, data in enumerate(sets):
        found = [
            ranks.average_ranks(
                np.array([[table[*block, name][measure] for name in names]]), MEASURES[measure]
            )
            for measure in measures
            for block in blocks
            if block[0] == data
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
        "critical_difference": ranks.nemenyi_critical_difference(len(names), len(sets)),
        "wilcoxon_holm": _holm(p),
    }
    if len(measures) == 1:
        record["means"] = {
            name: round(float(np.mean([table[*b, name][measures[0]] for b in blocks])), 4)
            for name in record["mean_ranks"]
        }
    return record


def _holm(p: dict[str, float]) -> dict[str, float]:
    found, most = {}, 0.0
    for k, (name, value) in enumerate(sorted(p.items(), key=lambda item: item[1])):
        most = max(most, min(1.0, (len(p) - k) * value))
        found[name] = float(f"{most:.2g}")
    return found


def behind(table: Table, blocks: list[Any]) -> list[dict[str, Any]]:
    """How far the best competitor's label AUC is above ours, by set and rate, the worst first."""
    found = []
    for block in blocks:
        others = {
            key[2]: value["auc"]
            for key, value in table.items()
            if key[:2] == block and key[2] != "auto" and key[2] not in PIECES
        }
        if (*block, "auto") in table and others:
            best = max(others, key=lambda name: others[name])
            gap = others[best] - table[*block, "auto"]["auc"]
            found.append({"data": block[0], "rate": block[1], "best": best, "gap": round(gap, 4)})
    return sorted(found, key=lambda row: -row["gap"])


def gains(table: Table, blocks: list[Any]) -> dict[str, Any]:
    """Mean differences over sets with 95 % intervals, better is positive."""
    record: dict[str, Any] = {}
    for piece, (new, old) in GAINS.items():
        both = [b for b in blocks if (*b, new) in table and (*b, old) in table]
        sets = list(dict.fromkeys(data for data, _ in both))
        if len(sets) < 2:
            continue
        record[piece] = {"sets": len(sets)}
        for measure, higher in MEASURES.items():
            sign = 1 if higher else -1
            each = [
                np.mean(
                    [
                        sign * (table[*b, new][measure] - table[*b, old][measure])
                        for b in both
                        if b[0] == data
                    ]
                )
                for data in sets
            ]
            half = t.ppf(0.975, len(sets) - 1) * np.std(each, ddof=1) / np.sqrt(len(sets))
            low, high = np.mean(each) - half, np.mean(each) + half
            found = (float(np.mean(each)), float(low), float(high))
            record[piece][measure] = [float(f"{v:.2g}") for v in found]
    return record


def times(table: Table, blocks: list[Any]) -> dict[str, Any]:
    """Seconds of the automatic estimator over those of one forest of 500 trees a label."""
    ratio = {
        f"{data} {rate:g}": round(
            table[data, rate, "auto"]["seconds"]
            / table[data, rate, "random forest"]["fit_seconds"],
            1,
        )
        for data, rate in blocks
        if (data, rate, "auto") in table and (data, rate, "random forest") in table
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("lines", type=Path)
    parser.add_argument("--ran-on", help="the machine of the lines, if another")
    given = parser.parse_args()
    rows = stored(given.lines)
    everyone = means(rows)
    names = [n for n in dict.fromkeys(key[2] for key in everyone) if n not in PIECES]
    count = {n: sum(key[2] == n for key in everyone) for n in names}
    most = max(count[n] for n in names if n != "auto")
    common = [n for n in names if count[n] >= MOSTLY * most]
    # Those that few sets and rates have must not cost the others repetitions.
    table = means([row for row in rows if row["method"] in (*common, *PIECES)])
    blocks = list(dict.fromkeys(key[:2] for key in table))
    full = [b for b in blocks if all((*b, n) in table for n in common)]
    least = min(rate for _, rate in full)
    shared = [b for b in full if b[1] == least and all((*b, n) in everyone for n in names)]
    record: dict[str, Any] = {
        "sets": list(dict.fromkeys(data for data, _ in full)),
        "other_sets": list(dict.fromkeys(b[0] for b in blocks if b not in full)),
        "repetitions": [int(table[*b, "auto"]["runs"]) for b in full],
        "all": compare(table, common, full, list(MEASURES)),
        "by_measure": {name: compare(table, common, full, [name]) for name in MEASURES},
        "by_rate": {
            str(rate): compare(table, common, [b for b in full if b[1] == rate], list(MEASURES))
            for rate in sorted({b[1] for b in full})
        },
        "everyone": {
            "rate": least,
            "repetitions": max(int(everyone[*b, "auto"]["runs"]) for b in shared),
            "auc": compare(everyone, names, shared, ["auc"])["means"],
            **compare(everyone, names, shared, list(MEASURES)),
        },
        "behind": behind(table, blocks),
        "gains": gains(table, blocks),
        "times_of_a_forest": times(table, blocks),
        "seconds": {
            name: round(float(np.median([table[*b, name]["seconds"] for b in full])), 1)
            for name in common
        },
        "estimate": covered(rows),
    }
    print(f"{len(full)} sets x rates of {len(blocks)} have all of {len(common)} methods")
    for name, rank in record["all"]["mean_ranks"].items():
        p = record["all"]["wilcoxon_holm"].get(name, "")
        values = (record["by_measure"][m]["means"][name] for m in MEASURES)
        print(f"{rank:6.2f} {p!s:8}", *(f"{v:8.4f}" for v in values), name)
    print("behind", *itertools.islice(record["behind"], 12), sep="\n  ")
    print("gains", *record["gains"].items(), sep="\n  ")
    print("times", record["times_of_a_forest"], record["seconds"], record["estimate"], sep="\n")
    write(RESULTS, record, given.ran_on)


if __name__ == "__main__":
    main()
