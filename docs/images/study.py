"""The picture of the study in README.md: mean ranks of the methods, from the stored results.

python docs/images/study.py        # writes study.svg beside it
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl

from dm2l.plots import CriticalDifferenceDisplay

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "benchmarks" / "results" / "study.json"


def main() -> None:
    record = json.loads(RESULTS.read_text())
    found = record["all"]
    display = CriticalDifferenceDisplay(
        list(found["mean_ranks"].values()),
        found["critical_difference"],
        names=["AutoClassifier" if name == "auto" else name for name in found["mean_ranks"]],
        n_blocks=len(found["sets"]),
        p_value=found["friedman_p"],
    ).plot()
    # The same file from the same results.
    mpl.rcParams["svg.hashsalt"] = "dm2l"
    display.figure_.savefig(HERE / "study.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
