"""The paper uses the Nemenyi constant 3.102 of nine methods, but compares six methods.

python examples/errata/nemenyi_constant.py [--check] [--published FILE]
"""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import numpy as np
from demonstration import METHODS, Figures, main, published_figures
from scipy.stats import studentized_range

sys.path.append(str(Path(__file__).parents[2]))

from experiments.ranks import average_ranks, nemenyi_critical_difference

QUICK: Figures = {}
PRINTED = 3.102


def measure(published: Path | None = None) -> Figures:
    values = published_figures(published)
    blocks = list(dict.fromkeys(key[:2] for key in values))
    constants = {
        k: float(studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2)) for k in range(2, 11)
    }
    ranks = {}
    for metric in ("Rkl", "Auc", "Cvg", "Ap"):
        table = [[values[*block, metric, method] for method in METHODS] for block in blocks]
        found = average_ranks(table, higher_is_better=metric in ("Auc", "Ap"))
        ranks[metric] = dict(zip(METHODS, found.tolist(), strict=True))
    right = nemenyi_critical_difference(len(METHODS), len(blocks))
    wrong = nemenyi_critical_difference(len(METHODS), len(blocks), q=PRINTED)
    changed = [
        {"metric": metric, "pair": list(pair), "difference": difference}
        for metric, of in ranks.items()
        for pair in combinations(METHODS, 2)
        if right < (difference := abs(of[pair[0]] - of[pair[1]])) <= wrong
    ]
    return {
        "blocks": len(blocks),
        "constants": {str(k): q for k, q in constants.items()},
        "critical difference": {"right": right, "printed": wrong},
        "ranks": ranks,
        "changed": changed,
        "DM2L-l against LEML": {m: of["LEML"] - of["DM2L-l"] for m, of in ranks.items()},
    }


def lines(found: Figures) -> list[str]:
    constants, cd = found["constants"], found["critical difference"]
    return [
        f"q for 6 methods {constants['6']:.3f}, for 9 methods {constants['9']:.3f}",
        f"critical difference of 6 methods on {found['blocks']} blocks: {cd['right']:.3f}, "
        f"with 3.102: {cd['printed']:.3f}",
        "",
        "average ranks  " + "  ".join(f"{method:>7}" for method in METHODS),
        *(
            f"  {metric:12} " + "  ".join(f"{ranks[method]:7.3f}" for method in METHODS)
            for metric, ranks in found["ranks"].items()
        ),
        "",
        "pairs that differ significantly only with the correct constant: "
        + "; ".join(
            f"{' and '.join(case['pair'])} in {case['metric']} ({case['difference']:.3f})"
            for case in found["changed"]
        ),
        "difference between the ranks of LEML and DM2L-l: "
        + ", ".join(f"{metric} {gap:.3f}" for metric, gap in found["DM2L-l against LEML"].items()),
    ]


def claims(found: Figures) -> dict[str, bool]:
    constants, cd = found["constants"], found["critical difference"]
    ranks = found["ranks"]
    nl = min(r[m] - r["DM2L-nl"] for r in ranks.values() for m in METHODS if m != "DM2L-nl")
    return {
        "3.102 is the constant of nine methods": abs(constants["9"] - PRINTED) < 5e-4,
        "the constant of six methods is 2.850": abs(constants["6"] - 2.850) < 5e-4,
        "the critical difference is 1.539": abs(cd["right"] - 1.539) < 5e-4,
        "DM2L-l and LEML do not differ significantly in Ap": found["DM2L-l against LEML"]["Ap"]
        < cd["right"],
        "ML-LRC has a better rank than DM2L-l in Cvg": ranks["Cvg"]["ML-LRC"]
        < ranks["Cvg"]["DM2L-l"],
        "DM2L-nl differs significantly from all other methods": nl > cd["printed"],
        "the correct constant changes no result for a pair with a DM2L model": not any(
            "DM2L" in "".join(c["pair"]) for c in found["changed"]
        ),
    }


if __name__ == "__main__":
    main(sys.modules[__name__])
