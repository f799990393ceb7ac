"""Tables and tests of what benchmarks/completion.py has measured."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from record import write
from scipy.stats import ttest_1samp

from experiments import ranks
from experiments.statistics import holm, pairwise_wilcoxon

KEY = ("part", "data", "rate", "mask", "seed")
MEASURES = {"auc": True, "map": True, "logloss": False, "accuracy": True}  # higher is better
LEVELS = ("0.01", "0.05", "0.1", "0.2")
Rows = list[dict[str, Any]]


def means(rows: Rows, *names: str) -> dict[tuple[Any, ...], dict[str, float]]:
    """Means over seeds, by set, rate and method."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["data"], row["rate"], row["method"]].append([row[name] for name in names])
    return {
        key: dict(zip(names, np.mean(found, axis=0).tolist(), strict=True)) | {"seeds": len(found)}
        for key, found in groups.items()
    }


def listed(table: dict[tuple[Any, ...], dict[str, float]]) -> Rows:
    rounded = {key: {k: round(v, 4) for k, v in row.items()} for key, row in table.items()}
    return [{"data": d, "rate": r, "method": m} | row for (d, r, m), row in rounded.items()]


def holes(rows: Rows) -> dict[str, Any]:
    table = means([row for row in rows if "reason" not in row], *MEASURES, "seconds")
    reasons = {(row["data"], row["method"]): row["reason"] for row in rows if "reason" in row}
    found: dict[str, Any] = {"means": listed(table)}
    found["left_out"] = [{"data": d, "method": m, "reason": r} for (d, m), r in reasons.items()]
    rates = sorted({rate for _, rate, _ in table})
    for measure, higher in MEASURES.items():
        # Blocks are sets: those of one set at several rates would not be independent.
        by_set, by_rate = defaultdict(lambda: defaultdict(list)), defaultdict(list)
        for (data, rate, method), row in table.items():
            by_set[data][method].append(row[measure])
            by_rate[method, rate].append(row[measure])
        # Methods that most sets have, on the sets that have all of these.
        names = dict.fromkeys(method for method, _ in by_rate)
        full = [m for m in names if sum(m in b for b in by_set.values()) >= 0.8 * len(by_set)]
        sets = [data for data, block in by_set.items() if all(m in block for m in full)]
        values = np.array([[np.mean(by_set[data][m]) for m in full] for data in sets])
        if len(sets) > 1 and len(full) > 1:
            found[measure] = compare(measure, higher, sets, full, values)
        for method in names:
            cells = [
                f"{r}: {np.mean(by_rate[method, r]):.3f}" for r in rates if (method, r) in by_rate
            ]
            print(f"    {method:26}", "  ".join(cells))
    return found


def compare(measure: str, higher: bool, sets: list[str], names: list[str], table: Any) -> Any:
    """Ranks over sets, Friedman, Nemenyi, and the best of ours against all others."""
    mean_ranks = ranks.average_ranks(table, higher)
    order = np.argsort(mean_ranks)
    p_value = ranks.friedman(table, higher).f_p_value
    cd = ranks.nemenyi_critical_difference(len(names), len(sets))
    groups = ranks.indistinguishable_groups(mean_ranks, cd)
    first = next(int(k) for k in order if names[k].startswith("ours"))
    second = next(int(k) for k in order if not names[k].startswith("ours"))
    pairs = {p.second: p for p in pairwise_wilcoxon(table, higher, control=first)}
    best = (np.argmax if higher else np.argmin)(table, axis=1)
    lost = {d: names[k] for d, k in zip(sets, best, strict=True) if "ours" not in names[k]}
    print(f"\n{measure}: {len(sets)} sets, Friedman p {p_value:.2g}, critical difference {cd:.2f}")
    for k in order:
        p = pairs.get(k)
        against = f"{p.wins}:{p.losses}, p {p.p_holm:.2g} (Holm)" if p else ""
        print(f"  {mean_ranks[k]:5.2f}  {table[:, k].mean():.4f}  {names[k]:26} {against}")
    print(f"  ours not first on: {lost or 'none'}")
    return {
        "sets": len(sets),
        "mean_ranks": {names[k]: round(float(mean_ranks[k]), 3) for k in order},
        "friedman_p": p_value,
        "critical_difference": round(cd, 3),
        "not_distinguished": [[names[k] for k in group] for group in groups],
        "first_of_ours": names[first],
        "best_other": names[second],
        "means": {names[k]: round(float(table[:, k].mean()), 4) for k in order},
        "wins_losses_p_holm": {
            names[k]: [p.wins, p.losses, float(f"{p.p_holm:.2g}")] for k, p in pairs.items()
        },
        "not_first": lost,
    }


def new_rows(rows: Rows) -> dict[str, Any]:
    table = means(rows, "auc", "ranking_loss", "seconds")
    found: dict[str, Any] = {"means": listed(table)}
    print("\nnew rows: joint better than None on so many sets, means over rates")
    for base in dict.fromkeys(method.rpartition(", ")[0] for _, _, method in table):
        gains = defaultdict(list)
        for data, rate, method in table:
            if method == f"{base}, joint":
                with_it, without = (table[data, rate, f"{base}, {c}"] for c in ("joint", None))
                gains[data].append([with_it[m] - without[m] for m in ("auc", "ranking_loss")])
        means_of = {data: np.mean(found, axis=0) for data, found in gains.items()}
        gain = np.array(list(means_of.values()))
        found[base] = {
            "sets": len(gain),
            "better": [int((gain[:, 0] > 0).sum()), int((gain[:, 1] < 0).sum())],
            "gain": gain.mean(axis=0).round(5).tolist(),
            "auc_not_better": [data for data, one in means_of.items() if one[0] <= 0],
            "ranking_loss_not_better": [data for data, one in means_of.items() if one[1] >= 0],
        }
        print(f"  {base:14}", {k: v for k, v in found[base].items() if k != "means"})
    return found


def promises(rows: Rows) -> dict[str, Any]:
    """Share wrong among the filled, mean over repetitions; 0 where nothing was filled.

    A cell is above what was asked for if a one-sided t-test says so, with Holm's correction for
    all cells of its mask.
    """
    groups = defaultdict(list)
    for row in rows:
        for level, (filled, wrong, yes) in row["filled, wrong, right yes"].items():
            key = row["method"], row["mask"], level, row["data"], row["rate"]
            groups[key].append((wrong / max(filled, 1), yes))
    table = {key: np.array(cell) for key, cell in groups.items()}
    print("\npromises: realized share wrong, mean over cells and worst; cells significantly above")
    found: dict[str, Any] = {"levels": {}, "above": [], "right_yes": {}}
    counts = [len(cell) for key, cell in table.items() if key[0] == "coupled"]
    found["repetitions"] = [min(counts), max(counts)]
    for mask in dict.fromkeys(key[1] for key in table):
        mine = {k[2:]: c[:, 0] for k, c in table.items() if k[:2] == ("coupled", mask)}
        mine = {key: cell for key, cell in mine.items() if key[0] in LEVELS}
        p = [
            ttest_1samp(c, float(key[0]), alternative="greater").pvalue if np.ptp(c) else 1.0
            for key, c in mine.items()
        ]
        sure = dict(zip(mine, np.array(holm(p)) < 0.05, strict=True))
        for level in LEVELS:
            cells = {key: c.mean() for key, c in mine.items() if key[0] == level}
            mean, worst = np.mean(list(cells.values())), max(cells.values())
            above = [key for key in cells if sure[key]]
            print(f"  {mask:10} {level:5} {mean:.4f} {worst:.4f}  {len(above)} of {len(cells)}")
            values = [round(mean, 4), round(worst, 4), len(above), len(cells)]
            found["levels"][f"{mask}, {level}"] = values
            found["above"] += [[mask, *key, round(cells[key], 4)] for key in above]
    groups = defaultdict(list)
    for row in rows:
        for level, shares in row.get("wrong by group", {}).items():
            groups[row["mask"], level].append(shares)
    for key, shares in groups.items():
        found.setdefault("groups", {})[", ".join(key)] = np.mean(shares, axis=0).round(4).tolist()
        print("  wrong yes, wrong no, worst label", *key, np.mean(shares, axis=0).round(4))
    for (method, mask, level, data, rate), cell in table.items():
        if method == "features alone" and level in ("0.1", "(0.1, 0.0)"):
            ours = table["coupled", mask, level, data, rate][: len(cell), 1].mean()
            pair = [round(ours, 1), round(cell[:, 1].mean(), 1)]
            print(f"  right yes at {level}, {data} {rate}: {pair[0]:.0f} against {pair[1]:.0f}")
            found["right_yes"].setdefault(level, {})[data] = pair
    return found


def doubtful(rows: Rows) -> dict[str, Any]:
    table = means(rows, "precision", "flipped")
    for key, row in means([row for row in rows if "claimed" in row], "claimed").items():
        table[key] |= row  # cleanlab claims nothing
    print("\ndoubtful: wrong ones among the first hundred, and how many were expected")
    for (data, rate, method), row in table.items():
        claimed = f"{row['claimed']:.2f}" if "claimed" in row else ""
        print(f"  {data:10} {rate} {method:15} {row['precision']:.2f} {claimed}")
    return {"means": listed(table)}


def summarize(rows: Rows, out: Path) -> None:
    """Print tables of all parts that there are, and store them."""
    machines = [row for row in rows if row["part"] == "machine"]
    rows = [row for row in rows if row["part"] != "machine"]
    last = {(*(row[name] for name in KEY), row["method"]): row for row in rows}
    parts = {"holes": holes, "new-rows": new_rows, "promises": promises, "doubtful": doubtful}
    present = {row["part"] for row in rows}
    record: dict[str, Any] = {"measured": machines} | {
        part: summary([row for row in last.values() if row["part"] == part])
        for part, summary in parts.items()
        if part in present
    }
    write(out, record)
