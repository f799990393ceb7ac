"""The published Auc is a mean over rows, although the paper defines a mean over labels.

python examples/errata/auc_per_instance.py [--check] [--published FILE] [--seeds 1 2 3]

Without ties, Auc + Rkl is 1 if AUCs are averaged over rows, but not if they are averaged over
labels. The script compares Auc + Rkl with 1 for every published pair of values. On Arts, the script
computes both means from the scores of the same model.
"""

from __future__ import annotations

import sys
from pathlib import Path

from demonstration import METHODS, Figures, main, mean, published_figures, splits

from dm2l import DM2LClassifier

QUICK = {"seeds": (1,)}
ROUNDING = 0.005 + 1e-9


def measure(seeds: tuple[int, ...] = (1, 2, 3), published: Path | None = None) -> Figures:
    values = published_figures(published)
    gaps = {
        (dataset, rho, method): values[dataset, rho, "Auc", method]
        + values[dataset, rho, "Rkl", method]
        - 1
        for dataset, rho, metric, method in values
        if metric == "Rkl"
    }
    off = [
        {"dataset": dataset, "rho": rho, "method": method, "excess": gap}
        | {
            metric: {other: values[dataset, rho, metric, other] for other in METHODS}
            for metric in ("Rkl", "Auc", "Cvg")
        }
        for (dataset, rho, method), gap in gaps.items()
        if abs(gap) > ROUNDING
    ]
    models = [
        split.score(DM2LClassifier.published().fit(split.X, split.Y))
        for split in splits("Arts", tuple(seeds))
    ]
    return {
        "seeds": list(seeds),
        "cells": len(gaps),
        "within 0.005": len(gaps) - len(off),
        "off": off,
        "model": mean(models),
        "printed": {method: values["Arts", 1.0, "Auc", method] for method in METHODS},
    }


def lines(found: Figures) -> list[str]:
    model, printed = found["model"], found["printed"]
    return [
        f"Auc = 1 - Rkl within 0.005 in {found['within 0.005']} of {found['cells']} cases",
        *(line for case in found["off"] for line in _row(case)),
        "",
        f"Arts, rho 1, DM2L-l as published, {len(found['seeds'])} splits",
        f"  1 - Rkl            {1 - model['Rkl']:.3f}",
        f"  AUC over rows      {model['Auc']:.3f}   (published: {printed['DM2L-l']:.3f})",
        f"  AUC over labels    {model['label AUC']:.3f}",
    ]


def _row(case: Figures) -> list[str]:
    """Return the published values of all methods where Auc + Rkl of one method is not 1."""
    return [
        f"  exception: {case['method']} on {case['dataset']}, rho {case['rho']}:",
        "      " + "".join(f"{method:>9}" for method in METHODS),
        *(
            f"  {metric:4}" + "".join(f"{case[metric][method]:9.3f}" for method in METHODS)
            for metric in ("Rkl", "Auc", "Cvg")
        ),
    ]


def claims(found: Figures) -> dict[str, bool]:
    model, printed = found["model"], found["printed"]["DM2L-l"]
    return {
        "Auc is 1 - Rkl in all published cases except one": found["within 0.005"]
        == found["cells"] - 1,
        "the published Auc agrees with the AUC over rows": abs(model["Auc"] - printed) < 0.01,
        "the published Auc does not agree with the AUC over labels": abs(
            model["label AUC"] - printed
        )
        > 0.1,
    }


if __name__ == "__main__":
    main(sys.modules[__name__])
