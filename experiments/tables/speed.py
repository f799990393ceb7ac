"""Time and memory of fits, as Markdown."""

from typing import Any

from experiments.results import load


def fit() -> str:
    record = load("fit")
    machine = record["machine"]
    lines = [
        f"The table shows times of fits on {record['data']} in one run ({machine['cores']} cores, "
        f"numpy {machine['numpy']}), relative to scikit-learn's `Ridge` on the same `X` with",
        "missing labels filled in. The last column is the relative distance of the objective to",
        "the lowest known value:",
        "",
        "| labels observed | DM2L / Ridge | cccp / DM2L | distance to the lowest objective |",
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
        f"A fit takes longer if `lambda_d` is large. With "
        f"`lambda_d={hard['settings']['lambda_d']:g}` on {hard['data']} (153 labels), a fit takes "
        f"{slow['over_ridge']:.0f} times as long as `Ridge`.",
    ]
    return "\n".join(lines)


def speed() -> str:
    lines = [
        "| | labels observed | time / `Ridge` | evaluations | distance to the lowest |",
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


def published() -> str:
    lines = [
        "| | labels observed | full SVD | thin SVD | time limit |",
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
    return f"more than {run['ratio']:.0f} times: {how} {run['gap']:.0e} above"


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
        f"| {first['data']}, {first['train_rows']} rows | gamma | fit | speed-up | Ap "
        "| kernel error |",
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
        f"The fits use an exact rbf kernel and {record['rho']:.0%} of the labels of",
        f"{record['data']} ({record['rows']} rows), on one {about['name']} "
        f"(driver {about['driver']}, CUDA {about['cuda']}, torch {about['torch']}):",
        "",
        "| | |",
        "|---|---|",
        f"| kernel matrix | {found['kernel_seconds']:.3f} s |",
        f"| fit without the kernel matrix, float64 (`lambda_d={record['lambda_d']:g}`) "
        f"| {double['first']:.2f} s |",
        f"| the same fit in float32 | {single['first']:.2f} s |",
        f"| further `lambda_d` of a path, float64, `tol=1e-5` | {further} |",
        f"| search over {size}, `search_tol={search_tol:g}` | {found['search']['seconds']:.0f} s |",
        "| largest difference from numpy's scores, both with `tol=1e-10` "
        f"| {agreement['largest_difference']:.0e} |",
        f"| fit in numpy on {about['host_cores']} cores of the same machine "
        f"| {agreement['seconds']['host_default_tol']:.0f} s |",
        f"| peak memory of the device | {found['peak_bytes'] / 1e9:.0f} GB |",
    ]
    return "\n".join(lines)


def baselines() -> str:
    record = load("baselines")
    machine = record["machine"]
    methods = [name for name in record["rows"][0]["seconds"] if name != "MaskedRidge"]
    lines = [
        "The table shows times of fits with default hyperparameters, relative to masked ridge in "
        f"the same run ({machine['cores']} cores, numpy {machine['numpy']}).",
        "`MaskedOneVsRestClassifier` has the estimator `Ridge()`.",
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


def blocks() -> str:
    record = load("blocks")
    read, products, fit = (record[name] for name in ("read", "products", "fit"))
    lines = [
        f"| {fit['rows']:,} rows x {record['d']} x {record['c']} labels, Parquet of "
        f"{record['size_gb']:.1f} GB | seconds | core seconds |",
        "|---|---|---|",
        f"| reading the file once | {read['seconds']:.1f} | {read['cpu']:.0f} |",
        f"| bare products in numpy | {products['seconds']:.1f} | {products['cpu']:.0f} |",
        f"| **fit** | {fit['seconds']:.1f} | {fit['cpu']:.0f} |",
        f"| fit / sum of the other two | {record['ratio']:.2f} | {record['work']:.2f} |",
        "",
        f"Peak memory was {fit['peak_gb']:.2f} GB, including {fit['before_gb']:.2f} GB for "
        f"imported libraries. On the first {record['prefix']['rows']:,} rows, the scores of a fit "
        f"from the file and of a fit in memory differ by {record['prefix']['float64']:.0e}.",
        "",
        "| rows | seconds | peak memory | evaluations |",
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
        "blocks | workers | seconds | passes | MB a pass | MB a pass, quarter of the rows | gap |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['strategy']} | {row['workers']} | {row['seconds']:.1f} | {row['passes']} "
        f"| {row['megabytes_a_pass']:.2f} | {row['megabytes_a_pass_quarter']:.2f} "
        f"| {row['gap']:.0e} |"
        for row in record["results"]
    ]
    alone = f"{record['seconds_alone']:.1f} s"
    return "\n".join([*lines, "", f"One process takes {alone} with Gram statistics."])


ROUTES = ("statistics", "passes")


def estimate() -> str:
    """Estimate for a billion rows from ten million rows and a small cluster."""
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
        f"A billion rows of {d} features and {c} labels are {size / 1e9:.0f} GB of Parquet. The "
        f"table is for {machines} AWS machines of type c7i.4xlarge ({cores} cores, {memory} GB, up "
        "to 12.5 Gbit/s), which cannot keep the rows (`keep=False`). The machines read the rows "
        "once for checks and once in every pass:",
        "",
        "| | |",
        "|---|---|",
        f"| core time per row, one process, with reading | {alone * 1e6:.1f} µs |",
        f"| core time per row, dask, without reading | {spent['statistics'] * 1e6:.1f} µs |",
        f"| core time per row for reading and unpacking | {reading * 1e6:.1f} µs |",
        f"| {size / 1e9:.0f} GB over the network of all machines | {size / network:.0f} s |",
        f"| statistics of blocks of a million rows, {block:.0f} MB each "
        f"| {block * n / 1e9:.0f} GB in total, {block * n / network:.0f} s |",
        f"| **statistics on {machines * cores} cores: at the first rate, and at the second rate "
        f"plus reading twice** | **{low / 60:.0f} to {high / 60:.0f} minutes** |",
        f"| solver, on one machine | {record['curve'][0]['seconds']:.0f} s at most |",
        f"| {passes[0]} to {passes[1]} passes | {passes[0] * one_pass / 60:.0f} to "
        f"{passes[1] * one_pass / 60:.0f} minutes |",
    ]
    return "\n".join(lines)
