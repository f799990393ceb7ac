"""Write the tables of README.md from the stored results, or check that they are theirs.

python benchmarks/readme.py [--check]
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
README = HERE.parent / "README.md"


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


def main() -> None:
    old = README.read_text()
    new = old
    for name, table in (("arts", arts()), ("fit", fit())):
        marks = rf"(<!-- {name}\.json -->\n).*?(<!-- end -->)"
        new = re.sub(marks, lambda m, t=table: f"{m[1]}{t}\n{m[2]}", new, flags=re.DOTALL)
    if "--check" in sys.argv:
        sys.exit(None if new == old else "README.md does not match benchmarks/results")
    README.write_text(new)


if __name__ == "__main__":
    main()
