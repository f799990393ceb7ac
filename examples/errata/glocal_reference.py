"""GLOCAL is cited as a paper on feature selection by other authors.

python examples/errata/glocal_reference.py --paper FILE.tex [--check]

Looks up, in the LaTeX source of the paper, which entry of its bibliography stands beside the names
GLOCAL and MLMLFS. (DM2L_PAPER may name the file, too.)
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from demonstration import Figures, main

QUICK: Figures = {}
RIGHT = (
    "Y. Zhu, J. T. Kwok, Z.-H. Zhou, Multi-label learning with global and local label "
    "correlation, IEEE Transactions on Knowledge and Data Engineering 30 (6) (2018) 1081-1094"
)


def entry(source: str, key: str) -> str:
    found = re.search(rf"\\bibitem{{{key}}}(.*?)(?:\n\n|\\end{{thebib)", source, flags=re.DOTALL)
    if found is None:
        raise ValueError(f"The bibliography has no entry {key!r}.")
    return " ".join(found[1].replace("~", " ").replace("--", "-").split())


def cited(source: str, name: str) -> str:
    """Key that is cited right after a name."""
    found = re.search(rf"\b{name}\)? *\\cite{{([^}}]*)}}", source)
    if found is None:
        raise ValueError(f"The source cites nothing for {name}.")
    return found[1]


def measure(paper: str | Path | None = None) -> Figures:
    paper = paper or os.environ.get("DM2L_PAPER")
    if not paper:
        sys.exit("Say where the LaTeX source of the paper is: --paper FILE, or DM2L_PAPER=FILE.")
    source = Path(paper).read_text()
    keys = {name: cited(source, name) for name in ("GLOCAL", "MLMLFS")}
    return {"keys": keys, "entry": entry(source, keys["GLOCAL"]), "right": RIGHT}


def lines(found: Figures) -> list[str]:
    keys = found["keys"]
    return [
        f"cited for GLOCAL: {keys['GLOCAL']}",
        f"cited for MLMLFS: {keys['MLMLFS']}",
        f"which is: {found['entry']}",
        f"GLOCAL is: {found['right']}",
    ]


def claims(found: Figures) -> dict[str, bool]:
    return {
        "two methods share a reference": len(set(found["keys"].values())) == 1,
        "it is about feature selection": "feature selection" in found["entry"],
        "and by others": "Kwok" not in found["entry"],
    }


if __name__ == "__main__":
    main(sys.modules[__name__])
