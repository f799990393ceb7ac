"""The compared methods on Arts against the figures of their original implementations.

    python benchmarks/reference.py [--folder FOLDER] [--only TEXT] [--out FILE.json]

The folder (by default `reference` beside DM2L_DATA) holds `arts.json`, what the original
implementations gave on three splits, and `arts_splits.npz`, those splits and masks. Every row of a
compared method whose settings are on record is run again with the same split, mask and
hyper-parameters, without intercept unless the row has one; random starts take the number of the
split as their seed. GLOCAL runs twice, with exact block minima and with the steps of its released
code. Labels of which a mask left one class get a constant score here, unlike in the originals.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from record import write
from sklearn.preprocessing import normalize

from dm2l import ConstantLabelWarning, DM2LClassifier
from dm2l.baselines import (
    GLOCALClassifier,
    LEMLClassifier,
    LSMLClassifier,
    MaskedRidgeClassifier,
    MLLRCClassifier,
)
from dm2l.datasets import load_dataset
from dm2l.metrics import label_ranking_average_precision, ranking_loss
from experiments.released_glocal import ReleasedGLOCALClassifier

Row = dict[str, Any]


def default_folder() -> Path:
    return Path(os.environ.get("DM2L_DATA", "")).parent / "reference"


def with_bias(X: np.ndarray) -> np.ndarray:
    """Rows of unit length and a column of ones, as in LSML's own experiments."""
    return np.hstack([normalize(X + np.finfo(float).eps), np.ones((len(X), 1))])


def build(row: Row, seed: int, published: bool = False) -> Any:
    """The estimator of a row, or None where its settings are not on record."""
    variant, params = row["variant"], row["params"]
    holes: Any = "negative" if "{0,1}" in variant else "neutral"
    plain: dict[str, Any] = {"fit_intercept": False, "coupling": None}
    if row["method"] == "LEML":
        holes = "ignore" if "-s 0" in variant else holes
        return LEMLClassifier(params["k"], params["lam"], missing=holes, random_state=seed, **plain)
    if row["method"].startswith("ML-LRC"):
        return MLLRCClassifier(*params["l"], missing=holes, **plain)
    if row["method"] == "GLOCAL" and params:
        *weights, k, g = params["par"]
        sizes = {"n_components": int(k), "n_groups": int(g)}
        glocal = ReleasedGLOCALClassifier if published else GLOCALClassifier
        return glocal(*weights, **sizes, random_state=seed, **plain)
    if row["method"] == "LSML" and "tuned" not in variant:
        rho = 8.0 if "default8" in variant else 1.0
        return LSMLClassifier(rho=rho, missing=holes, **plain)
    if row["method"] == "masked ridge per label":
        return MaskedRidgeClassifier(params["ridge"], **plain)
    if row["method"] == "masked kernel ridge per label":
        gamma = 1 / (2 * params["sigma"] ** 2)
        return DM2LClassifier(0.0, params["ridge"], kernel="rbf", gamma=gamma, **plain)
    return None


class Arts:
    """Splits, masks and figures of the reference."""

    def __init__(self, folder: Path) -> None:
        self.rows: list[Row] = json.loads((folder / "arts.json").read_text())["rows"]
        self._splits = np.load(folder / "arts_splits.npz")
        data = load_dataset("Arts")
        self.X = data.data.toarray() if sp.issparse(data.data) else data.data
        self.Y = data.target.astype(float)

    def split(self, seed: int, rho: float, mask: str) -> tuple[Any, Any, Any]:
        """Training rows, test rows and training labels with NaN where hidden."""
        train, test = self._splits[f"seed{seed}_tr"], self._splits[f"seed{seed}_te"]
        Y = self.Y[train].copy()
        if rho < 1:
            packed = self._splits[f"seed{seed}_J{mask}_{round(10 * rho)}"]
            Y[np.unpackbits(packed, axis=1)[:, : Y.shape[1]] == 0] = np.nan
        return train, test, Y

    def figures(self, row: Row, published: bool = False) -> dict[str, float]:
        """Mean ranking loss, average precision and fit time over the row's seeds."""
        prepare: Callable[[Any], Any] = with_bias if "+ bias" in row["variant"] else np.asarray
        found = []
        for seed in range(1, row["n_seeds"] + 1):
            train, test, Y = self.split(seed, row["rho"], row["mask"])
            model = build(row, seed, published)
            start = time.perf_counter()
            model.fit(prepare(self.X[train]), Y)
            seconds = time.perf_counter() - start
            scores = model.decision_function(prepare(self.X[test]))
            metrics = (ranking_loss, label_ranking_average_precision)
            values = [metric(self.Y[test], scores, convention="published") for metric in metrics]
            found.append([*values, seconds])
        rkl, ap, seconds = np.mean(found, axis=0)
        return {"Rkl": float(rkl), "AP": float(ap), "seconds": float(seconds)}


def compare(arts: Arts, row: Row, published: bool) -> dict[str, Any]:
    """Run a row again, say how it went and return both figures."""
    found = arts.figures(row, published)
    gap = max(abs(found[name] - row[name]) for name in ("Rkl", "AP"))
    note = " released steps" if published else ""
    print(
        f"{row['method'][:12]:12} {row['variant'][:64]:64}{note} {row['rho']} {row['mask']:5} "
        f"Rkl {found['Rkl']:.4f} ({row['Rkl']:.4f})  Ap {found['AP']:.4f} ({row['AP']:.4f}) "
        f"{found['seconds']:6.2f} s{'  <- off by more than 0.006' if gap > 0.006 else ''}",
        flush=True,
    )
    kept = {name: row[name] for name in ("method", "variant", "rho", "mask", "n_seeds")}
    original = {name: row[name] for name in ("Rkl", "AP")}
    return kept | {"published": published, "found": found, "original": original, "gap": gap}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, default=default_folder())
    parser.add_argument("--only", default="", help="methods whose name starts so")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConstantLabelWarning)  # rare labels of a split
    arts = Arts(arguments.folder)
    results = []
    for row in arts.rows:
        if row["method"].startswith(arguments.only) and build(row, 1) is not None:
            kinds = (False, True) if row["method"] == "GLOCAL" else (False,)
            results += [compare(arts, row, published) for published in kinds]
    if arguments.out:
        write(arguments.out, {"data": "Arts", "rows": results})


if __name__ == "__main__":
    main()
