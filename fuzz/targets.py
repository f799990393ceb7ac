"""What is fuzzed: files that are good, how each is read, and estimators on extreme numbers."""

from __future__ import annotations

import hashlib
import json
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier

import dm2l.baselines
from dm2l import DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier, OneVsRestMasked
from dm2l.persistence import load_model, save_model
from dm2l.review import Journal
from dm2l.scale import SufficientStatistics
from dm2l.tables import Wishes, fit_table, load_bundle, read_table, save_bundle
from fuzz.mutations import mutate

RNG = np.random.default_rng(0)
N, D, C = 24, 4, 3
X = RNG.standard_normal((N, D))
Y = np.where(RNG.random((N, C)) < 0.3, np.nan, RNG.standard_normal((N, C)) > 0)


@dataclass(frozen=True)
class Target:
    """Files that are good by suffix, and what reads one; :class:`ValueError` is documented."""

    seeds: Callable[[Path], list[Path]]
    read: Callable[[Path], Any]
    change: Callable[[bytes, random.Random], bytes] = mutate


# -------------------------------------------------------------------------------------- tables


def _csv(folder: Path, separator: str = ",", suffix: str = ".csv") -> Path:
    rows = [["mass", "phase", "t_a", "t_b"]]
    rows += [
        [f"{X[i, 0]:.3f}", "ab"[i % 2], ("yes", "no", "")[i % 3], "01"[i % 2]] for i in range(N)
    ]
    path = folder / f"table{suffix}"
    path.write_text("\n".join(separator.join(row) for row in rows))
    return path


def _tables(folder: Path) -> list[Path]:
    import pandas as pd

    paths = [_csv(folder), _csv(folder, "\t", ".tsv"), folder / "table.parquet"]
    pd.read_csv(paths[0]).to_parquet(paths[2])
    return paths


def _matrices(folder: Path) -> list[Path]:
    signs = np.where(np.isnan(Y), 0, 2 * np.nan_to_num(Y) - 1).astype(int)
    arff = ["@relation 'x: -C 3'", *(f"@attribute y{k} {{0,1}}" for k in range(C))]
    arff += [*(f"@attribute x{j} numeric" for j in range(D)), "@data"]
    arff += [",".join([*map(str, (signs[i] > 0) * 1), *map(str, X[i])]) for i in range(N)]
    (folder / "m.arff").write_text("\n".join(arff))
    lines = [
        ",".join(str(k) for k in range(C) if signs[i, k] > 0)
        + "".join(f" {j + 1}:{X[i, j]:.4g}" for j in range(D))
        for i in range(N)
    ]
    (folder / "m.svm").write_text("\n".join(lines) + "\n")
    S = sp.csr_array(X * (X > 0))
    parts = {"data": S.data, "indices": S.indices, "indptr": S.indptr, "shape": np.array(S.shape)}
    np.savez(folder / "m.npz", **{f"X_{k}": v for k, v in parts.items()}, Y=signs)
    scipy.io.savemat(folder / "m.mat", {"X": sp.csc_matrix(S), "Y": signs.astype(float)})
    return [folder / f"m.{suffix}" for suffix in ("arff", "svm", "npz", "mat")]


def _read(path: Path) -> Any:
    return read_table(path, "t_*" if path.stem.startswith("table") else None)


# ---------------------------------------------------------------------- models, journals, sums


def _models(folder: Path) -> list[Path]:
    made = {
        "kernel": DM2LClassifier(kernel="rbf", calibration="isotonic", cv=2).fit(
            sp.csr_array(X), Y
        ),
        "linear": DM2LClassifier(
            calibration="sigmoid", cv=2, random_state=np.random.RandomState(0)
        ),
        "parts": OneVsRestMasked(KNeighborsClassifier(2)).fit(sp.csr_array(X), Y),
    }
    made["linear"].fit(X, Y)
    for name, model in made.items():
        save_model(model, folder / f"{name}.dm2l")
    return [folder / f"{name}.dm2l" for name in made]


def _use(path: Path) -> None:
    """A model that loads has to predict, or say that it cannot by a usual error."""
    load_model(path)


def _bundles(folder: Path) -> list[Path]:
    model = fit_table(
        read_table(_csv(folder), "t_*"), Wishes("linear", 0.1, 1.0, folds=2), estimate_folds=2
    )
    save_bundle(model, folder / "bundle.dm2l")
    return [folder / "bundle.dm2l"]


def _answer(path: Path) -> None:
    model = load_bundle(path)
    model.answer(model.inputs(read_table(_csv(path.parent), "t_*"))[0])


def _journals(folder: Path) -> list[Path]:
    with Journal(folder / "answers.jsonl", read_table(_csv(folder), "t_*")) as journal:
        for i in range(2, N, 3):
            journal.add(i + 1, "t_a", ("yes", "no", "skip")[i % 3], 0.25)
        journal.own(folder / "out.csv")
    return [folder / "answers.jsonl"]


def _lines(content: bytes, rng: random.Random) -> bytes:
    """Half of the time a changed line with a right seal."""
    if rng.random() < 0.5:
        return mutate(content, rng)
    lines = content.splitlines()
    k = rng.randrange(1, len(lines))
    previous = json.loads(lines[k - 1])["seal"]
    line = json.loads(lines[k])
    del line["seal"]
    line[rng.choice([*line, "output", "probability"])] = rng.choice(
        [None, [], {}, [[]], -1, 10**20, "x", "t_b", float("nan"), True, {"a": [1]}]
    )
    text = json.dumps(line)
    seal = hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()[:16]
    lines[k:] = [f'{text[:-1]}, "seal": "{seal}"}}'.encode()]
    return b"\n".join(lines) + b"\n"


def _open(path: Path) -> None:
    with Journal(path, read_table(_csv(path.parent), "t_*")):
        pass


def _statistics(folder: Path) -> list[Path]:
    signs = np.where(np.isnan(Y), 0, 2 * np.nan_to_num(Y) - 1).astype(np.int8)
    SufficientStatistics(D, C).add(X, signs).save(folder / "s.npz")
    return [folder / "s.npz"]


# ---------------------------------------------------------------------------------- estimators


def _settings(folder: Path) -> list[Path]:
    (folder / "fit.txt").write_bytes(b"0")
    return [folder / "fit.txt"]


def _seed(_: bytes, rng: random.Random) -> bytes:
    return str(rng.randrange(10**9)).encode()


ESTIMATORS = (
    DM2LClassifier(),
    DM2LClassifier(kernel="rbf"),
    DM2LClassifier(solver="cccp", max_iter=20),
    DM2LClassifier(calibration="sigmoid", cv=2),
    MaskedRidgeClassifier(),
    MaskedRidgeClassifier(alpha=1e6),
    MaskedRidgeClassifier(alpha=0.0),
    dm2l.baselines.LEMLClassifier(),
    dm2l.baselines.MLLRCClassifier(),
    dm2l.baselines.GLOCALClassifier(),
    dm2l.baselines.LSMLClassifier(),
)


def _fit(path: Path) -> None:
    rng = np.random.default_rng(int(path.read_bytes()))
    n, d, c = rng.integers(12, 40), rng.integers(1, 9), rng.integers(2, 5)
    inputs = rng.standard_normal((n, d))
    scales = 10.0 ** rng.uniform(-300, rng.choice([300, 75]), d if rng.random() < 0.5 else 1)
    inputs = inputs * scales if rng.random() < 0.7 else 1e6 * (1 + 1e-12 * inputs)
    if rng.random() < 0.3:
        inputs[rng.integers(n), rng.integers(d)] = 10.0 ** rng.uniform(0, 300)
    labels = (rng.standard_normal((n, c)) > 0).astype(float)
    labels[rng.random((n, c)) < 0.3] = np.nan
    form = sp.csr_array if rng.random() < 0.3 else np.asarray
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(ESTIMATORS[rng.integers(len(ESTIMATORS))]).fit(form(inputs), labels)
        if not np.isfinite(model.decision_function(form(inputs))).all():
            raise AssertionError("scores are not finite")


TARGETS = {
    "table": Target(_tables, _read),
    "matrix": Target(_matrices, _read),
    "model": Target(_models, _use),
    "bundle": Target(_bundles, _answer),
    "journal": Target(_journals, _open, _lines),
    "statistics": Target(_statistics, SufficientStatistics.load),
    "fit": Target(_settings, _fit, _seed),
}
