"""For GLOCAL, the paper cites an article on feature selection by other authors.

python examples/errata/glocal_reference.py --paper FILE.tex [--check]

The script reads the LaTeX source of the paper, and prints the references that it cites for GLOCAL
and MLMLFS. The environment variable DM2L_PAPER may name this file instead.
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
    """Return the key of the reference that is cited directly after a name."""
    found = re.search(rf"\b{name}\)? *\\cite{{([^}}]*)}}", source)
    if found is None:
        raise ValueError(f"The source cites no reference directly after {name}.")
    return found[1]


def measure(paper: str | Path | None = None) -> Figures:
    paper = paper or os.environ.get("DM2L_PAPER")
    if not paper:
        sys.exit("The LaTeX source of the paper is needed. Pass --paper FILE, or set DM2L_PAPER.")
    source = Path(paper).read_text()
    keys = {name: cited(source, name) for name in ("GLOCAL", "MLMLFS")}
    return {"keys": keys, "entry": entry(source, keys["GLOCAL"]), "right": RIGHT}


def lines(found: Figures) -> list[str]:
    keys = found["keys"]
    return [
        f"cited for GLOCAL: {keys['GLOCAL']}",
        f"cited for MLMLFS: {keys['MLMLFS']}",
        f"this reference is: {found['entry']}",
        f"the article on GLOCAL is: {found['right']}",
    ]


def claims(found: Figures) -> dict[str, bool]:
    return {
        "GLOCAL and MLMLFS have the same reference": len(set(found["keys"].values())) == 1,
        "this reference is about feature selection": "feature selection" in found["entry"],
        "the authors of GLOCAL did not write this reference": "Kwok" not in found["entry"],
    }


if __name__ == "__main__":
    main(sys.modules[__name__])
