"""Figures of SECURITY.md: fuzzing, kills and the cost of checks, as Markdown."""

from __future__ import annotations

from experiments.tables.records import load

FUZZ = "fuzz/results"


def last() -> str:
    """The last long run."""
    run = load("last", FUZZ)
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
    run = load("fits", FUZZ)
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
        for name, one in load("kills", FUZZ)["commands"].items()
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
