"""Write the tables of README.md and of the docs from the stored results, or check them.

python benchmarks/readme.py [--check]
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import ticks_tables

HERE = Path(__file__).parent


def arts() -> str:
    record = json.loads((HERE / "results" / "arts.json").read_text())
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
            max(f"{m['average_precision']:.3f}" for k, m in found.items() if k[1:] == case),
        )
        for case in cases
    }
    for method in dict.fromkeys(row["method"] for row in record["rows"]):
        cells = []
        for case in cases:
            mean = found[method, *case]
            texts = f"{mean['ranking_loss']:.3f}", f"{mean['average_precision']:.3f}"
            marked = [f"**{t}**" if t == b else t for t, b in zip(texts, best[case], strict=True)]
            cells.append(" / ".join(marked))
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def fit() -> str:
    record = json.loads((HERE / "results" / "fit.json").read_text())
    machine = record["machine"]
    lines = [
        f"Fit time on {record['data']} in one run ({machine['cores']} cores, numpy "
        f"{machine['numpy']}), relative to scikit-learn's",
        "`Ridge` on the same `X` with the holes filled, and how far the objective then lies above",
        "the lowest one known:",
        "",
        "| labels observed | DM2L / Ridge | cccp / DM2L | objective above the lowest |",
        "|---|---|---|---|",
    ]
    for rho, found in record["results"].items():
        lines.append(
            f"| {float(rho):.0%} | {found['over_ridge']:.1f} | {found['cccp_over_dm2l']:.1f} "
            f"| {found['gap']:.0e} |"
        )
    hard = load("fit-corel16k001")
    (slow,) = hard["results"].values()
    lines += [
        "",
        f"Where the nuclear norms weigh much a fit costs more: {slow['over_ridge']:.0f} times "
        f"Ridge on {hard['data']} (153 labels) with `lambda_d={hard['settings']['lambda_d']:g}`.",
    ]
    return "\n".join(lines)


def reference() -> str:
    record = json.loads((HERE / "results" / "reference.json").read_text())
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


def baselines() -> str:
    record = json.loads((HERE / "results" / "baselines.json").read_text())
    machine = record["machine"]
    methods = [name for name in record["rows"][0]["seconds"] if name != "MaskedRidge"]
    lines = [
        f"Fit time over that of masked ridge in the same run ({machine['cores']} cores, numpy "
        f"{machine['numpy']}),",
        "default settings, `MaskedOneVsRestClassifier` with `Ridge()`:",
        "",
        "| | labels observed | masked ridge | " + " | ".join(methods) + " |",
        "|---" * (len(methods) + 3) + "|",
    ]
    for row in record["rows"]:
        ratios = " | ".join(f"{row['over_ridge'][name]:.1f}" for name in methods)
        shape = f"{row['rows']} x {row['features']}, {row['labels']} labels"
        lines.append(
            f"| {row['data']} ({shape}) | {row['rho']:.0%} | {row['seconds']['MaskedRidge']:.2f} s "
            f"| {ratios} |"
        )
    return "\n".join(lines)


def load(name: str) -> dict[str, Any]:
    return json.loads((HERE / "results" / f"{name}.json").read_text())


def speed() -> str:
    lines = [
        "| | labels observed | over `Ridge` | evaluations | above the lowest |",
        "|---|---|---|---|---|",
    ]
    for name in ("fit", "fit-tmc2007-500", "fit-corel16k001"):
        record = load(name)
        settings = ", ".join(f"`{key}={value:g}`" for key, value in record["settings"].items())
        for rho, found in record["results"].items():
            lines.append(
                f"| {record['data']}, {settings} | {float(rho):.0%} | {found['over_ridge']:.1f} "
                f"| {found['evaluations']} | {found['gap']:.0e} |"
            )
    return "\n".join(lines)


def newcomer() -> str:
    lines = load("newcomer")["methods"]
    ours, *single = lines
    scaffolds = [r for r in load("chemistry")["runs"] if r["split"] == "scaffold"]
    new = {(r["by"], r["groups"]): r["test"]["auc"] for r in scaffolds}
    others = ", ".join(f'{line["auc"]:.3f} of `kernel="{line["method"]}"`' for line in single)
    return (
        f"`dm2l fit` on Tox21's fingerprints, {ours['splits']} splits of 80 to 20: label AUC "
        f"{ours['auc']:.3f}\n(against {others} at one setting in\nPython), at most "
        f"{ours['slowest_fit']:.0f} s on one core; the interval held the value of the test rows in "
        f"{ours['covered']} of {ours['splits']}\n(`python benchmarks/newcomer.py`). On new "
        f"scaffolds it has {new['AutoClassifier', None]:.3f}, with `--groups scaffold` "
        f'{new["AutoClassifier", "scaffold"]:.3f};\n`kernel="tanimoto"` at its defaults has '
        f"{new['DM2LClassifier', None]:.3f} (`python benchmarks/chemistry.py`)."
    )


def groups() -> str:
    """Of each table and way means over splits, and how often the interval held the test's AUC."""
    runs = load("groups")["runs"]
    lines = [
        "| | counting | splits | label AUC | log-loss | estimate | held |",
        "|---|---|---|---|---|---|---|",
    ]
    for table in dict.fromkeys(run["table"] for run in runs):
        mine = [run for run in runs if run["table"] == table]
        for way in ("rows alike", "groups"):
            found = [run[way] for run in mine]
            auc, loss = (mean(each[name] for each in found) for name in ("auc", "log_loss"))
            estimate = mean(each["estimate"][0] for each in found)
            held = sum(e["estimate"][1] <= e["auc"] <= e["estimate"][2] for e in found)
            lines.append(
                f"| {table.split('.')[0]} | {way} | {len(mine)} | {auc:.4f} | {loss:.4f} "
                f"| {estimate:.3f} | {held} |"
            )
    gain = [run["groups"]["auc"] - run["rows alike"]["auc"] for run in runs]
    lines.append(
        f"\nGroups against rows: {mean(gain):+.4f} label AUC (standard deviation "
        f"{stdev(gain):.4f}, {min(gain):+.4f}\nto {max(gain):+.4f}; `python benchmarks/groups.py`)."
    )
    return "\n".join(lines)


def cells() -> str:
    record = load("cells")
    sets = ", ".join(dict.fromkeys(data for data, *_ in record["lost"]))
    return (
        f"Of the paper's {record['cells']} cells `AutoClassifier()` is at least as good as the "
        f"best figure in print in {record['won']}; the\n{len(record['lost'])} others are of {sets} "
        "(`python benchmarks/cells.py`, one repetition, 200 s a fit on one core)."
    )


def published() -> str:
    lines = [
        "| | labels observed | full | thin | limit |",
        "|---|---|---|---|---|",
    ]
    for record in map(load, ("published", "published-rbf", "published-corel16k001")):
        for row in record["rows"]:
            cells = [_against(row[svd]) if svd in row else "–" for svd in ("full", "thin")]
            lines.append(
                f"| {record['data']}, {row['model']} | {row['rho']:.0%} | {' | '.join(cells)} "
                f"| {record['limit']:.0f} s |"
            )
    return "\n".join(lines)


def _against(run: dict[str, Any]) -> str:
    if run["reached"]:
        return f"{run['ratio']:.0f} times slower"
    how = {"limit": "out of time", "stuck": "stopped"}[run["ended_by"]]
    return f"more than {run['ratio']:.0f}: {how} {run['gap']:.0e} above"


def memory() -> str:
    lines = ["| | `X` | allowed | arrays | resident |", "|---|---|---|---|---|"]
    for row in load("memory")["rows"]:
        n, d, c = row["shape"]
        sizes = [
            row["X"],
            3 * (row["X"] + row["scores"]),
            row["peak"]["arrays"],
            row["peak"]["resident"],
        ]
        cells = " | ".join(f"{size / 1e6:.0f} MB" for size in sizes)
        lines.append(f"| {row['case']} ({n} x {d}, {c} labels) | {cells} |")
    return "\n".join(lines)


def path() -> str:
    record = load("path")
    size = f"{len(record['lambda_ds'])} `lambda_d` x {len(record['alphas'])} `alpha`"
    lines = [
        f"| {record['data']}, {size} x {record['folds']} folds | one fit | search | ratio |",
        "|---|---|---|---|",
    ]
    for row in record["rows"]:
        one, whole = row["seconds"]["fit"], row["seconds"]["search"]
        lines.append(
            f"| {row['rho']:.0%} of the labels observed | {one:.2f} s | {whole:.1f} s "
            f"| {row['ratio']:.0f} |"
        )
    return "\n".join(lines)


def nystroem() -> str:
    first = load("nystroem")
    lines = [
        f"| {first['data']}, {first['train_rows']} rows | gamma | fit | faster | Ap | error |",
        "|---|---|---|---|---|---|",
    ]
    for record in (first, load("nystroem-wide")):
        exact, gamma = record["exact"], record["settings"]["gamma"]
        precision = f"{exact['average_precision']:.4f}"
        lines.append(f"| exact | {gamma} | {exact['seconds']:.1f} s | 1 | {precision} | |")
        lines += [
            f"| {row['approximation']}, {row['components']} | {gamma} | {row['seconds']:.1f} s "
            f"| {row['faster']:.1f} | {row['average_precision']:.4f} | {row['error']:.1g} |"
            for row in record["rows"]
        ]
    return "\n".join(lines)


def device() -> str:
    record = load("device")
    about, found = record["about"], record["results"]
    double, single = found["dtypes"]["float64"], found["dtypes"]["float32"]
    further = ", ".join(
        f"{row['seconds']:.2f} s at {row['lambda_d']:g}" for row in double["further"]
    )
    size = " x ".join(
        f"{len(values)} `{name[:-1]}`" for name, values in found["search"]["grid"].items()
    )
    agreement = found["agreement"]
    search_tol = found["search"].get("search_tol", 1e-4)  # what it was before it was stored
    lines = [
        f"{about['name']}, driver {about['driver']}, CUDA {about['cuda']}, torch {about['torch']};",
        f"{record['data']}, {record['rows']} rows, exact rbf kernel, {record['rho']:.0%} of the",
        "labels observed:",
        "",
        "| | |",
        "|---|---|",
        f"| kernel matrix | {found['kernel_seconds']:.3f} s |",
        f"| fit after it, float64 (`lambda_d={record['lambda_d']:g}`) | {double['first']:.2f} s |",
        f"| the same, float32 | {single['first']:.2f} s |",
        f"| further `lambda_d` of a path, float64, `tol=1e-5` | {further} |",
        f"| search over {size}, `search_tol={search_tol:g}` | {found['search']['seconds']:.0f} s |",
        "| largest difference from numpy's scores, both with `tol=1e-10` "
        f"| {agreement['largest_difference']:.0e} |",
        f"| the fit in numpy on {about['host_cores']} cores beside it "
        f"| {agreement['seconds']['host_default_tol']:.0f} s |",
        f"| peak memory of the device | {found['peak_bytes'] / 1e9:.0f} GB |",
    ]
    return "\n".join(lines)


def blocks() -> str:
    record = load("blocks")
    read, products, fit = (record[name] for name in ("read", "products", "fit"))
    lines = [
        f"| {fit['rows']:,} rows x {record['d']} x {record['c']} labels, Parquet of "
        f"{record['size_gb']:.1f} GB | seconds | core seconds |",
        "|---|---|---|",
        f"| read the file once | {read['seconds']:.1f} | {read['cpu']:.0f} |",
        f"| the bare products in numpy | {products['seconds']:.1f} | {products['cpu']:.0f} |",
        f"| **the fit** | {fit['seconds']:.1f} | {fit['cpu']:.0f} |",
        f"| the fit over the sum of the other two | {record['ratio']:.2f} | {record['work']:.2f} |",
        "",
        f"Its peak of memory was {fit['peak_gb']:.2f} GB, {fit['before_gb']:.2f} GB of it the "
        f"imports. On the first {record['prefix']['rows']:,} rows the fits from the file and "
        f"in memory differ by {record['prefix']['float64']:.0e} in scores.",
        "",
        "| rows | seconds | peak of memory | evaluations |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row['rows']:,} | {row['seconds']:.1f} | {row['peak_gb']:.2f} GB "
        f"| {row['evaluations']} |"
        for row in (*record["curve"], fit)
    ]
    return "\n".join(lines)


def cluster() -> str:
    record = load("cluster")
    lines = [
        f"| {record['rows']:,} rows x {record['d']} x {record['c']} labels in {record['blocks']} "
        "blocks | workers | seconds | passes | MB a pass | the same, a quarter of the rows | gap |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['strategy']} | {row['workers']} | {row['seconds']:.1f} | {row['passes']} "
        f"| {row['megabytes_a_pass']:.2f} | {row['megabytes_a_pass_quarter']:.2f} "
        f"| {row['gap']:.0e} |"
        for row in record["results"]
    ]
    alone = record["seconds_alone"]
    return "\n".join([*lines, "", f"One process with one thread, by statistics: {alone:.1f} s."])


ROUTES = ("statistics", "passes")


def estimate() -> str:
    """A billion rows, from what ten million and a small cluster cost."""
    record, spread = load("blocks"), load("cluster")
    n, machines, cores, memory = 1e9, 10, 8, 32
    network = machines * 12.5e9 / 8  # bytes a second
    d, c, here = record["d"], record["c"], record["machine"]["cores"]
    rows = record["fit"]["rows"]
    alone, reading = (record[name]["cpu"] / rows for name in ("fit", "read"))
    size = record["size_gb"] * 1e9 / rows * n
    found = {kind: [r for r in spread["results"] if r["strategy"] == kind] for kind in ROUTES}
    spent = {
        kind: min(r["seconds"] / r["passes"] * min(here, r["workers"]) for r in found[kind])
        / spread["rows"]
        for kind in ROUTES
    }
    low = max(alone * n / (machines * cores), size / network)
    high = max((spent["statistics"] + 2 * reading) * n / (machines * cores), 2 * size / network)
    one_pass = max((spent["passes"] + reading) * n / (machines * cores), size / network)
    passes = 2 * record["fit"]["evaluations"] + 1, found["passes"][0]["passes"]
    block = 2 * c * (d + 1) ** 2 * 8 / 1e6
    lines = [
        f"A billion rows of {d} features and {c} labels are {size / 1e9:.0f} GB of Parquet. On "
        f"{machines} machines of the kind AWS calls c7i.4xlarge ({cores} cores, {memory} GB, up to "
        "12.5 Gbit/s), which cannot keep the rows (`keep=False`: they are read once to be checked "
        "and once in every pass):",
        "",
        "| | |",
        "|---|---|",
        f"| core time a row, one process, reading included | {alone * 1e6:.1f} µs |",
        f"| the same on dask workers, without reading | {spent['statistics'] * 1e6:.1f} µs |",
        f"| to read and unpack a row once | {reading * 1e6:.1f} µs |",
        f"| {size / 1e9:.0f} GB over the network of all machines | {size / network:.0f} s |",
        f"| statistics of blocks of a million rows, {block:.0f} MB each "
        f"| {block * n / 1e9:.0f} GB in all, {block * n / network:.0f} s |",
        f"| **statistics: {machines * cores} cores, at the first rate and at the second with two "
        f"readings** | **{low / 60:.0f} to {high / 60:.0f} minutes** |",
        f"| solving, on one machine | {record['curve'][0]['seconds']:.0f} s at most |",
        f"| by passes, {passes[0]} to {passes[1]} of them | {passes[0] * one_pass / 60:.0f} to "
        f"{passes[1] * one_pass / 60:.0f} minutes |",
    ]
    return "\n".join(lines)


def estimates() -> str:
    """Of complete labels, from labels with holes."""
    short = load("estimates")["short"]
    lines = [
        "| measure | rate | worst bias | mean bias | bias of observed | interval holds the truth |",
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
        lines.append(f"| {name} | " + " | ".join(f"{value:.4f}" for value in values) + " |")
    return "\n".join(lines)


SHOWN = {"auc": "label AUC", "map": "mAP", "ap": "Ap", "rkl": "Rkl", "logloss": "log-loss"}


def study() -> str:
    """The automatic estimator against what a user would pick instead."""
    record = load("study")
    ranked, by = record["all"], record["by_measure"]
    best = list(ranked["mean_ranks"])[:7]
    worst = max(ranked["wilcoxon_holm"].values())
    runs = record["repetitions"]
    lines = [
        f"{len(record['sets'])} sets at one to {len(record['by_rate'])} rates ({len(runs)} in all, "
        f"{min(runs)} or {max(runs)} repetitions), seven measures: mean ranks of "
        f"{len(ranked['mean_ranks'])} methods tuned by the same folds (p against "
        f"`AutoClassifier` after Holm: at most {worst:.2g}; [all](docs/choosing.md#measured)).",
        "",
        "| | mean rank | " + " | ".join(SHOWN.values()) + " | seconds |",
        "|---" * (len(SHOWN) + 3) + "|",
    ]
    for name in best:
        values = (f"{by[measure]['means'][name]:.3f}" for measure in SHOWN)
        label = "`AutoClassifier()`" if name == "auto" else name
        lines.append(
            f"| {label} | {ranked['mean_ranks'][name]:.1f} | "
            + " | ".join(values)
            + f" | {record['seconds'][name]:.0f} |"
        )
    pieces = (
        f"{name} {g['auc'][0]:+.4f} ({g['auc'][1]:+.4f} to {g['auc'][2]:+.4f})"
        for name, g in record["gains"].items()
    )
    lines += ["", "What each piece brings in label AUC (95 %): " + "; ".join(pieces) + "."]
    return "\n".join(lines)


def ranks() -> str:
    """Every method by every measure."""
    record = load("study")
    by = {"all": record["all"]} | record["by_measure"]
    lines = ["| mean rank | " + " | ".join(by) + " | p | seconds |", "|---" * (len(by) + 3) + "|"]
    for name in record["all"]["mean_ranks"]:
        cells = [f"{one['mean_ranks'][name]:.1f}" for one in by.values()]
        p = record["all"]["wilcoxon_holm"].get(name)
        cells += ["" if p is None else f"{p:.2g}", f"{record['seconds'][name]:.0f}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lost = [row for row in record["behind"] if row["gap"] > 0]
    words = "; ".join(f"{r['data']} {r['rate']:g} by {r['gap']:.3f} ({r['best']})" for r in lost)
    time, told = record["times_of_a_forest"], record["estimate"]
    lines += [
        "",
        f"Behind the best of the others in label AUC: {words or 'nowhere'}. Time, in forests of "
        f"500 trees a label: median {time['median']:.1f}, at most {time['most']:.1f}. The interval "
        f"of `estimate_` held that of the test rows in {told['covered']} of {told['runs']} runs.",
    ]
    return "\n".join(lines)


def everyone() -> str:
    """All methods on the sets that have them."""
    record = load("study")["everyone"]
    what = f"{len(record['sets'])} sets, {record['rate']:.0%} of the labels"
    lines = [
        f"| {what} | mean rank | label AUC | p |",
        "|---|---|---|---|",
    ]
    for name, rank in record["mean_ranks"].items():
        p = record["wilcoxon_holm"].get(name)
        cells = f"{rank:.1f}", f"{record['auc'][name]:.3f}", "" if p is None else f"{p:.2g}"
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def gains() -> str:
    """What terms, coupling and stack bring, better is positive."""
    found = load("study")["gains"]
    lines = ["| | sets | " + " | ".join(SHOWN.values()) + " |", "|---" * (len(SHOWN) + 2) + "|"]
    for name, one in found.items():
        cells = (f"{one[m][0]:+.4f} ({one[m][1]:+.4f} to {one[m][2]:+.4f})" for m in SHOWN)
        lines.append(f"| {name} | {one['sets']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def completion() -> str:
    """Hidden entries, filled by ours and by others."""
    record = load("completion")["holes"]
    ranked, auc, loss = record["map"], record["auc"], record["logloss"]
    lines = [
        f"| {ranked['sets']} sets | AP | mean rank | AUC | log-loss | wins : losses in AP, p |",
        "|---" * 6 + "|",
    ]
    for name, rank in ranked["mean_ranks"].items():
        wins, losses, p = ranked["wins_losses_p_holm"].get(name, ("", "", ""))
        lines.append(
            f"| {name} | {ranked['means'][name]:.3f} | {rank:.1f} | {auc['means'][name]:.3f} "
            f"| {loss['means'][name]:.3f} | {f'{wins} : {losses}, {p:.2g}' if p else 'control'} |"
        )
    tox = [(row["method"], row["auc"]) for row in record["means"] if row["data"] == "Tox21"]
    best = "; ".join(f"{name} {value:.3f}" for name, value in sorted(tox, key=lambda t: -t[1])[:4])
    lost = ", ".join(f"{data} ({name})" for data, name in ranked["not_first"].items())
    lines += ["", f"Ours is not first in AP on {lost or 'no set'}. AUC on Tox21: {best}."]
    return "\n".join(lines)


def coupled() -> str:
    """What the labels of a row bring, in two sentences."""
    record = load("completion")
    ranked, new = record["holes"]["map"], record["new-rows"]
    means = ranked["means"]
    others = {"features, rbf": "by features alone", "MICE": "by MICE"}
    others["boosted [X, labels]"] = "by boosted trees on features and labels"
    worst = max(ranked["wins_losses_p_holm"][name][2] for name in others)
    figures = ", ".join(f"{means[name]:.2f} {words}" for name, words in others.items())
    cells = [one for name, one in new.items() if name != "means"]
    auc, loss = zip(*(one["better"] for one in cells), strict=True)
    gains = zip(*(map(abs, one["gain"]) for one in cells), strict=True)
    by = " and ".join(f"{min(gain):.1g} to {max(gain):.1g}" for gain in gains)
    return (
        f"Holes of {ranked['sets']} sets, filled by features *and* the labels that a row has: "
        f"average precision {means['ours, rbf']:.2f}, {figures} (p up to {worst:.2g} after Holm). "
        f'New rows: `coupling="joint"` has the better AUC on {min(auc)} to {max(auc)} of '
        f"{cells[0]['sets']} sets and the better ranking loss on {min(loss)} to {max(loss)}, by "
        f"{by}, with DM2L's terms and without "
        "([coupling](docs/coupling.md#measured))."
    )


def new_rows() -> str:
    """Rows without labels, weights and covariance learnt together or not."""
    found = load("completion")["new-rows"]
    lines = [
        "| `joint` against `None` | AUC better | mean gain | ranking loss better | mean change |",
        "|---" * 5 + "|",
    ]
    for name, one in found.items():
        if name != "means":
            (auc, loss), (gain, change), n = one["better"], one["gain"], one["sets"]
            lines.append(f"| {name} | {auc} of {n} | {gain:+.4f} | {loss} of {n} | {change:+.4f} |")
    return "\n".join(lines)


def promises() -> str:
    """What was wrong where a share was promised."""
    levels = load("completion")["promises"]["levels"]
    masks = dict.fromkeys(key.rpartition(", ")[0] for key in levels)
    shares = dict.fromkeys(key.rpartition(", ")[2] for key in levels)
    lines = [
        "| wrong: mean, worst cell | " + " | ".join(f"asked {float(s):.0%}" for s in shares) + " |",
        "|---" * (len(shares) + 1) + "|",
    ]
    for mask in masks:
        cells = (levels[f"{mask}, {share}"] for share in shares)
        words = (f"{c[0]:.1%}, {c[1]:.1%}" + (f" ({c[2]})" if c[2] else "") for c in cells)
        lines.append(f"| {mask} | " + " | ".join(words) + " |")
    return "\n".join(lines)


def doubtful() -> str:
    """Wrong ones among the first hundred doubts."""
    rows = load("completion")["doubtful"]["means"]
    found = {(row["data"], row["rate"], row["method"]): row for row in rows}
    names = ("coupled", "features alone", "cleanlab")
    head = "| | observed | wrong ones | " + " | ".join(names) + " | expected, coupled |"
    lines = [head, "|---" * 7 + "|"]
    for data, rate in dict.fromkeys(key[:2] for key in found):
        cells = [found[data, rate, name] for name in names]
        shares = " | ".join(f"{cell['precision']:.2f}" for cell in cells)
        lines.append(
            f"| {data} | {rate:.0%} | {cells[0]['flipped']:.0f} | {shares} "
            f"| {cells[0]['claimed']:.2f} |"
        )
    return "\n".join(lines)


PAGES = {
    "README.md": {"coupled": coupled, "study": study, "fit": fit},
    "docs/benchmarks.md": {"arts": arts},
    "docs/choosing.md": {
        "ranks": ranks,
        "everyone": everyone,
        "newcomer": newcomer,
        "groups": groups,
        "cells": cells,
        "gains": gains,
    },
    "docs/baselines.md": {"reference": reference, "baselines": baselines},
    "docs/speed.md": {
        "speed": speed,
        "published": published,
        "memory": memory,
        "path": path,
        "nystroem": nystroem,
        "device": device,
    },
    "docs/coupling.md": {
        "completion": completion,
        "new_rows": new_rows,
        "promises": promises,
        "doubtful": doubtful,
    },
    "docs/metrics.md": {"estimates": estimates, "selection": selection},
    "docs/ticks.md": {
        "ticks_single": ticks_tables.single,
        "ticks_compared": ticks_tables.compared,
        "ticks_lost": ticks_tables.lost,
        "ticks_shares": ticks_tables.shares,
        "ticks_rates": ticks_tables.rates,
        "ticks_rates_by_set": ticks_tables.rates_by_set,
    },
    "docs/scale.md": {"blocks": blocks, "cluster": cluster, "estimate": estimate},
}


def main() -> None:
    for page, tables in PAGES.items():
        path = HERE.parent / page
        old = new = path.read_text()
        for name, make in tables.items():
            marks = rf"(<!-- {name}\.json -->\n).*?(<!-- end -->)"
            table = make()
            new = re.sub(marks, lambda m, t=table: f"{m[1]}{t}\n{m[2]}", new, flags=re.DOTALL)
        if "--check" not in sys.argv:
            path.write_text(new)
        elif new != old:
            sys.exit(f"{page} does not match benchmarks/results")


if __name__ == "__main__":
    main()
