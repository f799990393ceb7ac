"""Figures of SECURITY.md: fuzzing, kills and the cost of checks, as Markdown."""

from typing import Any

from experiments.published import ROOT
from experiments.results import load

FUZZ = "fuzz/results"


def last() -> str:
    """Return a sentence and a table on the last long run."""
    run = load("last", FUZZ)
    lines = [
        f"The last long run ({run['started']}) took {run['minutes']:.0f} minutes on {run['jobs']} "
        f"core(s) ({_versions(run)}). The run tested {run['cases']:,} cases, beginning with "
        f"number {run['seed']}. The number of findings is {run['findings']}.",
        "",
        "| kind | cases | accepted | rejected | longest time | most memory |",
        "|---|---|---|---|---|---|",
        *(f"| {kind} {_cells(tally)}" for kind, tally in run["kinds"].items()),
    ]
    return "\n".join(lines)


def attacks() -> str:
    """Return a table of the runs of single kinds of input, which end after some cases or time."""
    names = sorted(path.stem for path in (ROOT / FUZZ).glob("attack_*.json"))
    lines = [
        "| kind | date | cases | accepted | rejected | longest time | most memory | findings |",
        "|---|---|---|---|---|---|---|---|",
    ]
    runs = [load(name, FUZZ) for name in names]
    for run in runs:
        for kind, tally in run["kinds"].items():
            cells = f"| {kind} | {run['started']} {_cells(tally)} {len(tally['findings'])} |"
            lines.append(cells)
    versions = dict.fromkeys(_versions(run) for run in runs)
    seeds = sorted({run["seed"] for run in runs})
    from_numbers = " or ".join(map(str, seeds))
    return "\n".join([*lines, "", f"First case: {from_numbers}. Versions: {'; '.join(versions)}."])


def _versions(run: dict[str, Any]) -> str:
    machine = run["machine"]
    names = {"python": "Python", "numpy": "numpy", "scipy": "scipy", "scikit-learn": "scikit-learn"}
    return ", ".join(f"{words} {machine[name]}" for name, words in names.items())


def _cells(tally: dict[str, Any]) -> str:
    through = tally["results"].get("read", 0)
    return (
        f"| {tally['cases']:,} | {through:,} | {tally['cases'] - through:,} "
        f"| {tally['worst_seconds']:.1f} s | {tally['worst_bytes'] / 2**20:.0f} MiB |"
    )


def fits() -> str:
    """Return a sentence on fits to extreme numbers."""
    run = load("fits", FUZZ)
    tally = run["kinds"]["fit"]
    through = tally["results"].get("read", 0)
    return (
        f"Of {tally['cases']:,} random fits of all estimators to values from 1e-300 to 1e300, "
        f"{through:,} gave finite scores, {tally['cases'] - through - run['findings']:,} raised a "
        f"`ValueError`, and {run['findings']} had another result."
    )


def kills() -> str:
    """Return a table of the kills of commands."""
    lines = ["| command | kills | during a write | lost | partial |", "|---|---|---|---|---|"]
    lines += [
        f"| `{name}` | {one['kills']} | {one['inside_a_write']} | {one['lost']} | {one['half']} |"
        for name, one in load("kills", FUZZ)["commands"].items()
    ]
    return "\n".join(lines)


def workbook() -> str:
    """Return a sentence on the cost of reading a large sheet."""
    found = load("workbook")["workbook"]
    costs = [
        f"{one['wall_seconds']:.0f} s and {one['peak_bytes'] / 2**20:.0f} MiB"
        for one in (found["dm2l"], found["openpyxl"])
    ]
    return (
        f"A workbook of {found['rows']:,} x 50 cells ({found['bytes'] / 2**20:.0f} MiB) takes "
        f"{costs[0]} to read (openpyxl alone: {costs[1]})."
    )


def checks() -> str:
    """Return a sentence on the cost of checks."""
    found = load("checks")
    shares = [
        f"{one['share']:.1%} of the time of reading {what}".replace(", ", " (") + ")"
        for what, one in found["reads"].items()
    ]
    shares += [
        f"{one['share']:.1%} of fitting {what}".replace(", ", " to ")
        for what, one in found["fits"].items()
    ]
    return f"The checks take {', '.join(shares[:-1])} and {shares[-1]}."
