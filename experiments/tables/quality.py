"""Model quality compared with other methods, as Markdown."""

import re
from statistics import mean, stdev

from experiments.results import load


def arts() -> str:
    record = load("arts")
    cases = list(dict.fromkeys((row["mask"], row["rho"]) for row in record["rows"]))
    found = {(row["method"], row["mask"], row["rho"]): row["mean"] for row in record["rows"]}
    heading = [f"{mask}, {rho:.0%}".replace("per row, 100%", "all labels") for mask, rho in cases]
    lines = [
        "| Rkl / Ap | " + " | ".join(heading) + " |",
        "|---" * (len(cases) + 1) + "|",
    ]
    best = {
        case: (
            min(f"{m['ranking_loss']:.3f}" for k, m in found.items() if k[1:] == case),
            max(
                f"{m['label_ranking_average_precision']:.3f}"
                for k, m in found.items()
                if k[1:] == case
            ),
        )
        for case in cases
    }
    for method in dict.fromkeys(row["method"] for row in record["rows"]):
        cells = []
        for case in cases:
            mean = found[method, *case]
            precision = f"{mean['label_ranking_average_precision']:.3f}"
            texts = f"{mean['ranking_loss']:.3f}", precision
            marked = [f"**{t}**" if t == b else t for t, b in zip(texts, best[case], strict=True)]
            cells.append(" / ".join(marked))
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def reference() -> str:
    record = load("reference")
    rates = (1.0, 0.7, 0.3)
    cells: dict[str, dict[float, str]] = {}
    for row in record["rows"]:
        if row["mask"] != "inst" or row["n_seeds"] < 3 or "default" in row["variant"].split():
            continue
        pairs = [
            f"{figures['Rkl']:.3f} / {figures['AP']:.3f}"
            for figures in (row["found"], row["original"])
        ]
        mark = "**" if row["gap"] > 0.006 else ""
        steps = ", released steps" if row["published"] else ""
        name = f"{row['method'].split(' (')[0]}: {row['variant']}{steps}"
        # Settings that were tuned for each rate still make one line.
        name = re.sub(r"(tuned|small|k20l\d+).*", lambda m: m[1], name)
        cells.setdefault(name, {})[row["rho"]] = f"{mark}{pairs[0]}{mark} | {pairs[1]}"
    head = " | ".join(f"{rho:.0%} | original" for rho in rates)
    lines = [f"| | {head} |", "|---" * 7 + "|"]
    for name, found in cells.items():
        if all(rho in found for rho in rates):
            lines.append(f"| {name} | " + " | ".join(found[rho] for rho in rates) + " |")
    return "\n".join(lines)


def newcomer() -> str:
    lines = load("newcomer")["methods"]
    ours, *single = lines
    scaffolds = [r for r in load("chemistry")["runs"] if r["split"] == "scaffold"]
    new = {(r["by"], r["groups"]): r["test"]["auc"] for r in scaffolds}
    others = " and\n".join(f'{line["auc"]:.3f} with `kernel="{line["method"]}"`' for line in single)
    return (
        f"We ran `dm2l fit` on the fingerprints of Tox21, with {ours['splits']} random splits "
        f"into 80 %\ntraining and 20 % test rows (`python benchmarks/newcomer.py`). The mean "
        f"label AUC over\nthe splits is {ours['auc']:.3f}. With fixed hyperparameters, "
        f"`DM2LClassifier` has a label AUC of\n{others}. A fit\nof `dm2l fit` took at most "
        f"{ours['slowest_fit']:.0f} s on one core. The "
        "interval of `estimate_` contained\nthe label AUC of the test rows in "
        f"{ours['covered']} of {ours['splits']} splits.\n\nIf the test rows have new scaffolds, "
        f"`dm2l fit` has a label AUC of {new['AutoClassifier', None]:.3f}, and\n"
        f"{new['AutoClassifier', 'scaffold']:.3f} with `--groups scaffold`. On this split, "
        f'`DM2LClassifier(kernel="tanimoto")` has a\nlabel AUC of '
        f"{new['DM2LClassifier', None]:.3f} (`python benchmarks/chemistry.py`)."
    )


def groups() -> str:
    """Means over splits, and how often the interval contains the AUC of the test rows."""
    runs = load("groups")["runs"]
    names = {"rows alike": "equal rows", "groups": "by group"}
    lines = [
        "| | weights | splits | label AUC | log-loss | estimate | interval contains test value |",
        "|---|---|---|---|---|---|---|",
    ]
    for table in dict.fromkeys(run["table"] for run in runs):
        mine = [run for run in runs if run["table"] == table]
        for way in names:
            found = [run[way] for run in mine]
            auc, loss = (mean(each[name] for each in found) for name in ("auc", "log_loss"))
            estimate = mean(each["estimate"][0] for each in found)
            held = sum(e["estimate"][1] <= e["auc"] <= e["estimate"][2] for e in found)
            lines.append(
                f"| {table.split('.')[0]} | {names[way]} | {len(mine)} | {auc:.4f} | {loss:.4f} "
                f"| {estimate:.3f} | {held} |"
            )
    gain = [run["groups"]["auc"] - run["rows alike"]["auc"] for run in runs]
    lines.append(
        f"\nWeights by group change the label AUC by {mean(gain):+.4f} on average (standard "
        f"deviation\n{stdev(gain):.4f}, range {min(gain):+.4f} to {max(gain):+.4f}; "
        "`python benchmarks/groups.py`)."
    )
    return "\n".join(lines)


def cells() -> str:
    record = load("cells")
    sets = ", ".join(dict.fromkeys(data for data, *_ in record["lost"]))
    return (
        f"`AutoClassifier()` is at least as good as the best published figure in {record['won']} "
        f"of {record['cells']} cells.\nThe other {len(record['lost'])} cells are from {sets}. "
        "Each cell has one repetition, with 200 s per fit on one core\n"
        "(`python benchmarks/cells.py`)."
    )


PIECES = {
    "DM2L's terms, linear": "nuclear-norm terms, linear model",
    "DM2L's terms, kernel": "nuclear-norm terms, kernel model",
    "effort normal, not quick": 'effort "normal" instead of "quick"',
}
SHOWN = {"auc": "label AUC", "map": "mAP", "ap": "Ap", "rkl": "Rkl", "logloss": "log-loss"}


def _shown(name: str) -> str:
    return "`AutoClassifier()`" if name == "auto" else name


def pieces() -> str:
    """The gain from each part of the automatic ensemble."""
    found = (
        f"| {PIECES.get(name, name)} "
        f"| {g['auc'][0]:+.4f} ({g['auc'][1]:+.4f} to {g['auc'][2]:+.4f}) |"
        for name, g in load("study-earlier")["gains"].items()
    )
    return "\n".join(["| | gain in label AUC, 95 % interval |", "|---|---|", *found])


def everyone() -> str:
    """All methods on the sets that have them."""
    record = load("study-earlier")["everyone"]
    what = f"{len(record['sets'])} sets, {record['rate']:.0%} of the labels"
    lines = [
        f"| {what} | mean rank | label AUC | p |",
        "|---|---|---|---|",
    ]
    for name, rank in record["mean_ranks"].items():
        p = record["wilcoxon_holm"].get(name)
        cells = f"{rank:.1f}", f"{record['auc'][name]:.3f}", "" if p is None else f"{p:.2g}"
        lines.append(f"| {_shown(name)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def gains() -> str:
    """Gains from the nuclear-norm terms and from stacking; positive is better."""
    found = load("study-earlier")["gains"]
    lines = ["| | sets | " + " | ".join(SHOWN.values()) + " |", "|---" * (len(SHOWN) + 2) + "|"]
    for name, one in found.items():
        cells = (f"{one[m][0]:+.4f} ({one[m][1]:+.4f} to {one[m][2]:+.4f})" for m in SHOWN)
        shown = PIECES.get(name, name)
        lines.append(f"| {shown} | {one['sets']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def selection() -> str:
    """Mean regret in the measures of the test rows, with the fewest labels."""
    stored = load("selection")
    found = stored["mean_regret"]
    rate = min(found, key=float)
    tests = [name.replace("_", " ") for name in stored["tests"]]
    lines = [
        f"| regret with {float(rate):.0%} of the labels, chosen by | " + " | ".join(tests) + " |",
        "|---" * (len(tests) + 1) + "|",
    ]
    for name, values in found[rate].items():
        shown = "earlier default" if name == "today" else name
        lines.append(f"| {shown} | " + " | ".join(f"{value:.4f}" for value in values) + " |")
    return "\n".join(lines)


def estimates() -> str:
    """Measures of complete labels, estimated where some are missing."""
    short = load("estimates")["short"]
    lines = [
        "| measure | rate | worst bias | mean bias | bias of observed | interval coverage |",
        "|---|---|---|---|---|---|",
    ]
    for row in short:
        low, mean, high = row["covered"]
        lines.append(
            f"| `{row['measure']}` | {row['rate']} | {row['worst_bias']:+.3f} ({row['worst_at']}) "
            f"| {row['mean_bias']:.3f} | {row['observed_bias']:.3f} "
            f"| {mean:.0%} ({low:.0%} to {high:.0%}) |"
        )
    return "\n".join(lines)
