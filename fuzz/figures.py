"""``python fuzz/figures.py [--check]``: write the figures of SECURITY.md from results, or check."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "SECURITY.md"
PLACES = {"checks": HERE.parent / "benchmarks/results/checks.json"}


def load(name: str) -> Any:
    """A stored result."""
    return json.loads(PLACES.get(name, HERE / f"results/{name}.json").read_text())


def last() -> str:
    """The last long run."""
    run = load("last")
    machine = run["machine"]
    lines = [
        f"The last long run, of {run['started']}: {run['cases']:,} cases in {run['minutes']:.0f} "
        f"minutes on {run['jobs']} cores (Python {machine['python']}, numpy {machine['numpy']}, "
        f"scipy {machine['scipy']}, scikit-learn {machine['scikit-learn']}), from number "
        f"{run['seed']} on; {run['findings']} findings.",
        "",
        "| kind | cases | came through | refused | longest | most memory |",
        "|---|---|---|---|---|---|",
    ]
    for kind, tally in run["kinds"].items():
        through = tally["results"].get("read", 0)
        refused = tally["cases"] - through
        lines.append(
            f"| {kind} | {tally['cases']:,} | {through:,} | {refused:,} "
            f"| {tally['worst_seconds']:.1f} s | {tally['worst_bytes'] / 2**20:.0f} MiB |"
        )
    return "\n".join(lines)


def fits() -> str:
    """Fits to extreme numbers."""
    run = load("fits")
    tally = run["kinds"]["fit"]
    through = tally["results"].get("read", 0)
    return (
        f"{tally['cases']:,} random fits of all estimators, values from 1e-300 to 1e300: "
        f"{through:,} gave finite scores, {tally['cases'] - through - run['findings']:,} a "
        f"`ValueError`, {run['findings']} anything else."
    )


def kills() -> str:
    """Kills of commands."""
    lines = ["| killed | times | inside of a write | lost | half |", "|---|---|---|---|---|"]
    lines += [
        f"| `{name}` | {one['kills']} | {one['inside_a_write']} | {one['lost']} | {one['half']} |"
        for name, one in load("kills")["commands"].items()
    ]
    return "\n".join(lines)


def checks() -> str:
    """What checks cost."""
    found = load("checks")
    shares = [
        f"{one['share']:.1%} of reading {what}".replace(", ", " (") + ")"
        for what, one in found["reads"].items()
    ]
    shares += [
        f"{one['share']:.1%} of fitting {what}".replace(", ", " to ")
        for what, one in found["fits"].items()
    ]
    return f"Checks cost {', '.join(shares[:-1])} and {shares[-1]}."


FIGURES = {"last": last, "fits": fits, "kills": kills, "checks": checks}


def main() -> None:
    """Replace what stands between the marks."""
    old = new = PAGE.read_text()
    for name, make in FIGURES.items():
        marks = rf"(<!-- {name}\.json -->\n).*?(<!-- end -->)"
        try:
            figures = make()
        except FileNotFoundError:
            continue  # nobody has run it yet
        new = re.sub(marks, lambda m, t=figures: f"{m[1]}{t}\n{m[2]}", new, flags=re.DOTALL)
    if "--check" not in sys.argv:
        PAGE.write_text(new)
    elif new != old:
        sys.exit("SECURITY.md does not match the stored results")


if __name__ == "__main__":
    main()
