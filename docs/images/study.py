"""Dot plot of the study in docs/research/choosing.md: mean ranks, from the stored results.

python docs/images/study.py        # writes study.svg beside it
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "benchmarks" / "results" / "study.json"


def main() -> None:
    found = json.loads(RESULTS.read_text())["all"]
    names = sorted(found["mean_ranks"], key=found["mean_ranks"].get)
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    ax = figure.subplots()
    for place, name in enumerate(names):
        ranks = found["by_set"][name]
        ax.plot(ranks, [place] * len(ranks), "o", color="0.75", markersize=4, zorder=2)
        ax.plot(found["mean_ranks"][name], place, "o", color="#1f77b4", markersize=9, zorder=3)
    ax.set_yticks(
        range(len(names)), ["AutoClassifier" if name == "auto" else name for name in names]
    )
    ax.invert_yaxis()
    ax.set_xticks(range(1, len(names) + 1))
    ax.set_xlabel(f"mean rank (large) and rank on each of {len(found['sets'])} data sets (small)")
    ax.grid(axis="y", color="0.9", zorder=1)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    # The same file from the same results.
    mpl.rcParams["svg.hashsalt"] = "dm2l"
    figure.savefig(HERE / "study.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
