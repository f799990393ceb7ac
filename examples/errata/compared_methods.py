"""Compared methods were run with zeros for missing labels, no intercept and small grids.

python examples/errata/compared_methods.py [--check] [--published FILE] [--seeds 1 2 3]

The script runs each method on Arts with masks per row: first so that it reproduces the published
values, then as its authors intended or with a regularization weight outside the published grid. All
splits use the same hyperparameters. The larger weights of LEML and ML-LRC were chosen on a part of
the training rows of the first split.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from demonstration import (
    RATES,
    Figures,
    label_frequencies,
    main,
    mean,
    published_figures,
    score,
    splits,
)
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, normalize

from dm2l.baselines import LEMLClassifier, LSMLClassifier, MaskedRidgeClassifier, MLLRCClassifier
from dm2l.simulate import simulate_per_row

FREQUENCY = "labels by frequency"
# Results of LEML's original program with missing labels as targets, on these splits but with other
# random masks.
ORIGINAL = {
    "1.0": {"Rkl": 0.1661, "Ap": 0.5968},
    "0.7": {"Rkl": 0.1950, "Ap": 0.5602},
    "0.3": {"Rkl": 0.2276, "Ap": 0.5179},
}
QUICK = {
    "seeds": (1,),
    "rates": (0.3,),
    "names": ("LSML, missing 0 of -1/0/+1", "LSML, missing 0 of 0/1", "LEML, missing as targets"),
}


def unit_rows_and_ones(X: Any) -> Any:
    """Scale rows to unit length and add a column of ones, as the authors of LSML do."""
    return np.hstack([normalize(X + np.finfo(float).eps), np.ones((len(X), 1))])


plain: dict[str, Any] = {"fit_intercept": False}
own_features = FunctionTransformer(unit_rows_and_ones)
# Name: (row of the tables it is compared with, model).
METHODS: dict[str, tuple[str, Any]] = {
    "LEML, missing as targets": ("LEML", LEMLClassifier(20, 1.0, missing="neutral", **plain)),
    "LEML, missing ignored": ("LEML", LEMLClassifier(20, 1.0, **plain)),
    "LEML, ignored, lambda 100": ("LEML", LEMLClassifier(20, 100.0, **plain)),
    "LSML, missing 0 of -1/0/+1": ("LSML", LSMLClassifier(rho=8.0, missing="neutral", **plain)),
    "LSML, missing 0 of 0/1": ("LSML", LSMLClassifier(rho=8.0, missing="negative", **plain)),
    "LSML, 0/1, own features": (
        "LSML",
        make_pipeline(own_features, LSMLClassifier(rho=8.0, missing="negative", **plain)),
    ),
    "ML-LRC, lambda1 0.001, -1/0/+1": (
        "ML-LRC",
        MLLRCClassifier(1e-3, 1.0, 1e-3, missing="neutral", **plain),
    ),
    "ML-LRC, lambda2 10, 0/1": (
        "ML-LRC",
        MLLRCClassifier(1.0, 10.0, 1e-3, missing="negative", **plain),
    ),
    "masked ridge, intercept": ("DM2L-nl", MaskedRidgeClassifier(10.0)),
}


def fit(model: Any, X: Any, Y: Any, seed: int) -> Any:
    model = clone(model)
    last = model[-1] if isinstance(model, Pipeline) else model
    if "random_state" in last.get_params():
        last.set_params(random_state=seed)
    return model.fit(X, Y)


def measure(
    seeds: tuple[int, ...] = (1, 2, 3),
    rates: tuple[float, ...] = RATES,
    names: tuple[str, ...] = tuple(METHODS),
    published: Path | None = None,
) -> Figures:
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for split in splits("Arts", tuple(seeds)):
        for rho in rates:
            hidden = simulate_per_row(split.Y, rho, random_state=split.seed)
            frequencies = label_frequencies(hidden, len(split.Y_test))
            case = found.setdefault(FREQUENCY, {}).setdefault(str(rho), [])
            case.append(score(split.Y_test, frequencies))
            for name in names:
                model = fit(METHODS[name][1], split.X, hidden, split.seed)
                found.setdefault(name, {}).setdefault(str(rho), []).append(split.score(model))
    values = published_figures(published)
    rows = dict.fromkeys(METHODS[name][0] for name in names)
    return {
        "seeds": list(seeds),
        "original": {str(rho): ORIGINAL[str(rho)] for rho in rates},
        "found": {
            name: {rho: mean(runs) for rho, runs in case.items()} for name, case in found.items()
        },
        "printed": {
            row: {str(r): {m: values["Arts", r, m, row] for m in ("Rkl", "Ap")} for r in rates}
            for row in rows
        },
    }


def lines(found: Figures) -> list[str]:
    rates = list(found["found"][FREQUENCY])
    text = [
        f"Arts, masks per row, {len(found['seeds'])} splits, Rkl / Ap"
        + "".join(f"{'rho ' + rho:>17}" for rho in rates)
    ]
    for row in found["printed"]:
        text.append(_line(f"{row}, published", found["printed"][row]))
        names = [name for name, (of, _) in METHODS.items() if of == row]
        text += [_line(f"  {n}", found["found"][n]) for n in names if n in found["found"]]
        if row == "LEML":
            text.append(_line("  original program, missing as targets", found["original"]))
    return [*text, _line(FREQUENCY, found["found"][FREQUENCY])]


def _line(name: str, case: Figures) -> str:
    cells = (f"{of['Rkl']:.3f} / {of['Ap']:.3f}" for of in case.values())
    return f"{name:39}" + "".join(f"{cell:>17}" for cell in cells)


def claims(found: Figures) -> dict[str, bool]:
    rkl = {
        name: {rho: of["Rkl"] for rho, of in case.items()}
        for name, case in (found["found"] | found["printed"]).items()
    }
    missing = [rho for rho in rkl[FREQUENCY] if rho != "1.0"]
    shown = {
        "published LEML is worse than a ranking of labels by frequency": all(
            rkl["LEML"][rho] > rkl[FREQUENCY][rho] for rho in missing
        ),
        "LEML with missing labels as targets is close to published LEML": all(
            abs(rkl["LEML, missing as targets"][rho] - rkl["LEML"][rho]) < 0.015 for rho in missing
        ),
        "LSML with missing labels between -1 and +1 is close to published LSML": all(
            abs(rkl["LSML, missing 0 of -1/0/+1"][rho] - rkl["LSML"][rho]) < 0.006
            for rho in missing
        ),
        "LSML with the coding of its authors is better than published LSML": all(
            rkl["LSML, missing 0 of 0/1"][rho] < rkl["LSML"][rho] - 0.01 for rho in missing
        ),
    }
    if len(rkl) > len(METHODS):
        nl = found["printed"]["DM2L-nl"]
        shown |= {
            "LEML that ignores missing labels is better than published LEML": all(
                rkl["LEML, missing ignored"][rho] < rkl["LEML"][rho] - 0.02 for rho in missing
            ),
            "LEML with a larger lambda is better at every rate": all(
                rkl["LEML, ignored, lambda 100"][rho] < rkl["LEML, missing ignored"][rho] - 0.02
                for rho in rkl[FREQUENCY]
            ),
            "ML-LRC with a tiny lambda1 is close to published ML-LRC": all(
                abs(rkl["ML-LRC, lambda1 0.001, -1/0/+1"][rho] - rkl["ML-LRC"][rho]) < 0.01
                for rho in rkl[FREQUENCY]
            ),
            "ML-LRC with a larger lambda2 is far better than published ML-LRC": all(
                rkl["ML-LRC, lambda2 10, 0/1"][rho] < rkl["ML-LRC"][rho] - 0.03
                for rho in rkl[FREQUENCY]
            ),
            "masked ridge has a lower Rkl than the best published method": all(
                rkl["masked ridge, intercept"][rho] < nl[rho]["Rkl"] for rho in rkl[FREQUENCY]
            ),
        }
    return shown


if __name__ == "__main__":
    main(sys.modules[__name__])
