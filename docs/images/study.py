"""The picture of the study in README.md: mean ranks of the methods, from the stored results.

python docs/images/study.py        # writes study.svg beside it
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl

sys.path.insert(0, str(Path(__file__).parents[2]))

from experiments.diagrams import critical_difference_diagram

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "benchmarks" / "results" / "study.json"


def main() -> None:
    record = json.loads(RESULTS.read_text())
    found = record["all"]
    ax = critical_difference_diagram(
        list(found["mean_ranks"].values()),
        found["critical_difference"],
        names=["AutoClassifier" if name == "auto" else name for name in found["mean_ranks"]],
        title=f"ranks on {len(found['sets'])} data sets, Friedman p = {found['friedman_p']:.2g}",
    )
    # The same file from the same results.
    mpl.rcParams["svg.hashsalt"] = "dm2l"
    ax.figure.savefig(HERE / "study.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
