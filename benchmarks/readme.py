"""Write the tables of README.md and of the docs from the stored results, or check them.

python benchmarks/readme.py [--check]
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

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
        "default settings, `OneVsRestMasked` with `Ridge()`:",
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


PAGES = {
    "README.md": {"arts": arts, "fit": fit},
    "docs/baselines.md": {"reference": reference, "baselines": baselines},
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
