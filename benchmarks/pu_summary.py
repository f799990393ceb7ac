"""Tables and tests of what benchmarks/pu.py has measured."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from completion_summary import compare
from record import write

# Whether higher is better.
MEASURES = {"auc": True, "map": True, "rkl": False, "ap": True, "logloss": False}
PUBLISHED = {"scene": 0.075, "Image": 0.150, "yeast": 0.164, "delicious": 0.122}
NAMES = {"ticks": "ours", "negative": "absent is negative", "missing": "absent is missing"}
Rows = list[dict[str, Any]]


def summarize(rows: Rows) -> None:
    """Print what rows say, and store it."""
    rows = [row | {"method": NAMES.get(row["method"], row["method"])} for row in rows]
    left_out = {(r["method"], r["data"], r["reason"]) for r in rows if "reason" in r}
    rows = [row for row in rows if "reason" not in row]
    whole = [row for row in rows if row["mask"] == "single, all rows"]
    rows = [row for row in rows if row["mask"] != "single, all rows"]
    record: dict[str, Any] = {
        "single": single(whole),
        "compared": {name: compared(rows, name, higher) for name, higher in MEASURES.items()},
        "shares": shares(rows),
        "priors": priors(rows + whole),
        "left out": sorted(left_out),
        "means": means(rows, (*MEASURES, "share", "within", "prior")),
    }
    for name in ("single", "shares", "priors"):
        print(name, record[name], sep="\n  ")
    write(Path(__file__).parent / "results" / "pu.json", record)


def means(rows: Rows, names: tuple[str, ...]) -> Rows:
    """Over seeds."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["data"], row["mask"], row["method"]].append(row)
    return [
        {"data": data, "mask": mask, "method": method, "seeds": len(group)}
        | {n: round(float(np.mean([r[n] for r in group])), 4) for n in names if n in group[0]}
        for (data, mask, method), group in groups.items()
    ]


def single(rows: Rows) -> dict[str, Any]:
    """Ranking loss and number of seeds, beside what was published."""
    groups: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[row["data"]][row["method"]].append(row["rkl"])
    return {
        data: {"asked": asked}
        | {method: [round(float(np.mean(v)), 4), len(v)] for method, v in groups[data].items()}
        for data, asked in PUBLISHED.items()
        if data in groups
    }


def compared(rows: Rows, measure: str, higher: bool) -> dict[str, Any]:
    """Ranks over sets, each the mean of its masks, which are not independent; and cells lost."""
    table: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in means(rows, (measure,)):
        table[row["data"], row["mask"]][row["method"]] = row[measure]
    # Methods that most cells have, on the cells that have all of these.
    everyone = dict.fromkeys(row["method"] for row in rows)
    often = [m for m in everyone if sum(m in b for b in table.values()) >= 0.8 * len(table)]
    names = sorted(often, key=lambda m: m != "ours")
    table = {cell: block for cell, block in table.items() if all(m in block for m in names)}
    sets = list(dict.fromkeys(data for data, _ in table))
    blocks = {data: [block for (d, _), block in table.items() if d == data] for data in sets}
    values = np.array([[np.mean([b[m] for b in blocks[d]]) for m in names] for d in sets])
    found: dict[str, Any] = compare(measure, higher, sets, names, values)
    sign = -1 if higher else 1
    best = {cell: min(block, key=lambda m: sign * block[m]) for cell, block in table.items()}
    found["cells"], found["masks"] = len(table), len({mask for _, mask in table})
    found["seeds"] = sorted({row["seed"] for row in rows})
    found["cells lost"] = {", ".join(c): m for c, m in best.items() if m != "ours"}
    found["against each"] = {
        m: [
            sum(sign * (b["ours"] - b[m]) < 0 for b in table.values() if m in b),
            sum(sign * (b["ours"] - b[m]) > 0 for b in table.values() if m in b),
        ]
        for m in everyone
        if m != "ours"
    }
    return found


def shares(rows: Rows) -> dict[str, Any]:
    """By mask and method, how far mean probabilities are off, and labels within a tenth."""
    groups = defaultdict(list)
    for row in rows:
        if "share" in row:
            groups[row["mask"], row["method"]].append((row["share"], row["within"]))
    return {
        f"{mask}: {method}": {
            "off, median": round(float(np.median(v, axis=0)[0]), 3),
            "labels within 10 %": round(float(np.mean(v, axis=0)[1]), 3),
        }
        for (mask, method), v in groups.items()
    }


def priors(rows: Rows) -> dict[str, Any]:
    """Median over sets and seeds of the median error over labels, and by set."""
    groups: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if "prior" in row:
            groups[row["mask"]][row["data"]].append(row["prior"])
    return {
        mask: {
            "median": round(float(np.median([x for v in sets.values() for x in v])), 4),
            "above 0.03": [d for d, v in sets.items() if np.mean(v) > 0.03],
        }
        | {d: round(float(np.mean(v)), 4) for d, v in sets.items()}
        for mask, sets in groups.items()
    }
