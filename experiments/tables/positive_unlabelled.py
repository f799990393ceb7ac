"""Tables of docs/research/positive-unlabelled.md, from pu.json and pu_rates.json."""

from typing import Any

from experiments.results import load

MEASURES = {
    "auc": "AUC by label",
    "map": "mean average precision",
    "rkl": "ranking loss",
    "ap": "average precision",
    "logloss": "log-loss",
}


def record() -> dict[str, Any]:
    """What was stored."""
    return load("pu")


def single() -> str:
    """Ranking loss with one positive a row, all rows."""
    lines = [
        "| ranking loss (seeds) | best published | ours | absent is negative |",
        "|---" * 4 + "|",
    ]
    for data, row in record()["single"].items():
        cells = []
        for name in ("ours", "absent is negative"):
            mean, seeds = row.get(name, [None, 0])
            cells.append("not measured" if mean is None else f"{mean:.3f} ({seeds})")
        lines.append(f"| {data} | {row['asked']:.3f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def compared() -> str:
    """Mean ranks over sets, and who won how often."""
    found = record()["compared"]
    names = sorted(next(iter(found.values()))["mean_ranks"], key=lambda name: name != "ours")
    some = found["auc"]
    seeds = len(some["seeds"])
    lines = [
        f"The comparison has {some['sets']} data sets, {some['cells']} cells and "
        f"{'one seed' if seeds == 1 else f'up to {seeds} seeds'}.",
        "",
        "| mean rank over sets | " + " | ".join(names) + " | cells first |",
        "|---" * (len(names) + 2) + "|",
    ]
    for measure, text in MEASURES.items():
        one = found[measure]
        best = min(one["mean_ranks"].values())
        ranks = [one["mean_ranks"][name] for name in names]
        cells = [f"**{rank:.2f}**" if rank == best else f"{rank:.2f}" for rank in ranks]
        first = one["cells"] - len(one["cells lost"])
        lines.append(f"| {text} | {' | '.join(cells)} | {first} of {one['cells']} |")
    lines += ["", "| ours better : worse (Holm p), by set | " + " | ".join(names[1:]) + " |"]
    lines.append("|---" * len(names) + "|")
    for measure, text in MEASURES.items():
        pairs = found[measure]["wins_losses_p_holm"]
        cells = [f"{pairs[n][0]} : {pairs[n][1]} ({pairs[n][2]:.2g})" for n in names[1:]]
        lines.append(f"| {text} | {' | '.join(cells)} |")
    return "\n".join(lines)


def lost() -> str:
    """Cells that another method won, by measure."""
    lines = ["| metric | better method | data sets with masks |", "|---|---|---|"]
    for measure, text in MEASURES.items():
        cells: dict[str, list[str]] = {}
        for cell, method in record()["compared"][measure]["cells lost"].items():
            cells.setdefault(method, []).append(cell.replace(", ", " "))
        lines += [f"| {text} | {name} | {', '.join(where)} |" for name, where in cells.items()]
    return "\n".join(lines)


def shares() -> str:
    """Probabilities and class priors, by mask."""
    found, priors = record()["shares"], record()["priors"]
    masks = list(dict.fromkeys(key.partition(": ")[0] for key in found))
    lines = [
        "| mask | share off: ours | negative | labels within 10 % | prior error | above 0.03 |",
        "|---" * 6 + "|",
    ]
    for mask in masks:
        ours, negative = found[f"{mask}: ours"], found[f"{mask}: absent is negative"]
        off = f"{ours['off, median']:.0%} | {negative['off, median']:.0%}"
        prior = priors[mask]
        above = ", ".join(prior["above 0.03"]) or "none"
        within = f"{ours['labels within 10 %']:.0%}"
        lines.append(f"| {mask} | {off} | {within} | {prior['median']:.3f} | {above} |")
    return "\n".join(lines)


def rates() -> str:
    """Error of the class prior by rules for the observed rate, where checked (and chosen)."""
    rules = load("pu_rates")["rules"]
    checked, chosen = rules["checked on"], rules["chosen on"]
    masks = list(next(iter(checked.values())))
    lines = [
        "| scores by, and level | " + " | ".join(masks) + " |",
        "|---" * (len(masks) + 1) + "|",
    ]
    for rule, found in checked.items():
        pairs = [(found[mask]["mean"], chosen[rule][mask]["mean"]) for mask in masks]
        cells = " | ".join(f"{one:.3f} ({other:.3f})" for one, other in pairs)
        ours = rule == "other ticks, too: mean over ticks"
        name = rule.replace("other ticks, too", "features and other labels")
        name = name.replace("ticks", "positives")
        lines.append(f"| {f'**{name}**' if ours else name} | {cells} |")
    return "\n".join(lines)


def rates_by_set() -> str:
    """The same by set, before and now, over seeds that the rule was checked on."""
    found = load("pu_rates")["rules"]["checked on"]
    before, now = found["features: median"], found["other ticks, too: mean over ticks"]
    masks = list(now)
    lines = ["| before, now | " + " | ".join(masks) + " |", "|---" * (len(masks) + 1) + "|"]
    for data in [name for name in now[masks[0]] if name != "mean"]:
        cells = " | ".join(f"{before[m][data]:.3f}, {now[m][data]:.3f}" for m in masks)
        lines.append(f"| {data} | {cells} |")
    return "\n".join(lines)
