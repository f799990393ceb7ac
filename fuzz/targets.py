"""What is fuzzed: files that are good, how they are changed, and what reads them."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier

from dm2l import DM2LClassifier, LabelRules
from dm2l._utils.files import FAULTS
from dm2l.baselines import MaskedOneVsRestClassifier
from dm2l.io import read_csv, read_parquet
from dm2l.io._xlsx_file import edit_sheet
from dm2l.outofcore import GramStatistics, RowBlocks
from dm2l.persistence import ModelFileError, load_model, save_model
from dm2l.review import Journal
from dm2l.tables import FitOptions, fit_table, load_bundle, read_table, save_bundle
from dm2l.tables._scores import add_scores
from fuzz.corpus import CORPUS, D, X, Y
from fuzz.estimators import fit_extreme, fit_odd
from fuzz.hostile_models import attack, load, models
from fuzz.mutations import mutate, unpacked
from fuzz.records import change_journal
from fuzz.servers import Refused, ask_backend, ask_page, backend_requests, change, page_requests
from fuzz.workbooks import craft

FILE = (ValueError, OSError)


@dataclass(frozen=True)
class Target:
    """What a kind reads and what it may raise."""

    seeds: Callable[[Path], list[Path]]  # writes good files into a folder
    read: Callable[[Path], Any]
    change: Callable[[bytes, random.Random], bytes] = mutate
    documented: tuple[type[Exception], ...] = FILE
    most: int = 2**30  # bytes of memory above what was in use
    longest: float = math.inf  # seconds of processors


def _kept(*names: str) -> Callable[[Path], list[Path]]:
    """Files of the corpus, with the table that some readers want beside them."""

    def copy(folder: Path) -> list[Path]:
        for name in {"table.csv", *names}:
            shutil.copy(CORPUS / name, folder / f"seed-{name}")
        return [folder / f"seed-{name}" for name in names]

    return copy


# ----------------------------------------------------------------------------- tables, matrices


def _read(path: Path) -> None:
    table = path.name.endswith((".csv", ".tsv", ".parquet", ".gz", ".bz2", ".xz", ".zip"))
    read_table(path, "t_*" if table else None)


def _craft(content: bytes, rng: random.Random) -> bytes:
    """A crafted workbook, or a good one with damage."""
    return craft(content, rng) if rng.random() < 0.75 else mutate(content, rng)


def _read_workbook(path: Path) -> None:
    """Read a sheet as a table, and open it as `complete` does to write into it."""
    try:
        read_table(path, "t_*")
    finally:
        edit_sheet(path)


def _read_typed(path: Path) -> None:
    (read_parquet if path.suffix == ".parquet" else read_csv)(path, "t_*", drop=["phase", "note"])


def _blocks(path: Path) -> None:
    suffix = path.suffix
    if suffix == ".npy":
        np.save(path.with_name("y.npy"), np.nan_to_num(Y))
        blocks = RowBlocks.open(path, path.with_name("y.npy"))
    elif suffix == ".npz":
        blocks = RowBlocks.open(path)
    elif suffix == ".svm":
        blocks = RowBlocks.open(path, [0, 1, 2], n_features=D)
    elif suffix == ".parquet":
        blocks = RowBlocks.open(path, "t_*")
    else:
        blocks = RowBlocks.open(path, "t_*", drop=["phase", "note"])
    for block in blocks:
        np.asarray(block.X.sum())


# --------------------------------------------------------------------------------- rules, scores


def _chain(names: list[str], _: random.Random) -> list[str]:
    return [f"{one} => {other}" for one, other in pairwise(names)]


def _hub(names: list[str], _: random.Random) -> list[str]:
    here = names[0]
    return [f"{here} => {n}" if k % 2 else f"{n} => {here}" for k, n in enumerate(names[1:])]


def _group(names: list[str], rng: random.Random) -> list[str]:
    return [f"{rng.choice(['at most', 'exactly'])} one: {', '.join(names)}"]


def _cover(names: list[str], rng: random.Random) -> list[str]:
    """Small groups that overlap: deciding whether a row can obey them all is hard."""
    size = min(len(names), 3)
    return [f"exactly one: {', '.join(rng.sample(names, size))}" for _ in names[::2]]


def _pairs(names: list[str], rng: random.Random) -> list[str]:
    heads = ("{0} => {1}", "not both: {0}, {1}")
    return [rng.choice(heads).format(*rng.sample(names, 2)) for _ in names]


def _change_rules(content: bytes, rng: random.Random) -> bytes:
    """Half of the time rules that are expensive to combine."""
    if rng.random() < 0.5 or content.startswith(b"child"):
        return mutate(content, rng)
    names = [f"t{k}" for k in range(rng.choice([2, 30, 300, 3000, 20_000]))]
    return "\n".join(rng.choice([_chain, _hub, _group, _cover, _pairs])(names, rng)).encode()


def _obey(path: Path) -> None:
    rules = LabelRules.read(path)
    names = ["t_a", "t_b", "t, c", *(f"t_{k}" for k in "defghijk"), *(f"t{k}" for k in range(30))]
    Y = np.full((3, len(names)), np.nan)
    Y[0, :4], Y[1, 4:] = [1, 0, 1, 0], 0
    rules.propagate(Y, names)
    rules.violations(Y, names)
    rules.contradictions(Y, names)


def _add_scores(path: Path) -> None:
    table = read_table(CORPUS / "table.csv", "t_*")
    add_scores(table, path, ["t_a", "t_b"])


# ------------------------------------------------------------------------------ models, journals


def _models(folder: Path) -> list[Path]:
    rows = sp.csr_array(X)
    made = {
        "kernel": DM2LClassifier(kernel="rbf", calibration="isotonic", cv=2).fit(rows, Y),
        "linear": DM2LClassifier(calibration="sigmoid", random_state=np.random.RandomState(0)),
        "parts": MaskedOneVsRestClassifier(RandomForestClassifier(3, max_depth=3)).fit(rows, Y),
    }
    made["linear"].fit(X, Y)
    for name, model in made.items():
        save_model(model, folder / f"seed-{name}.dm2l")
    return [folder / f"seed-{name}.dm2l" for name in made]


def _use(path: Path) -> None:
    """Load, and ask: what a file holds can be no model at all, but cannot end the process."""
    model = load_model(path)
    rows = X if path.name.endswith("linear.dm2l") else sp.csr_array(X)
    try:
        model.predict_proba(rows)
    except FAULTS as error:
        raise ValueError("its answers are those of whoever wrote it") from error


def _bundles(folder: Path) -> list[Path]:
    table = read_table(CORPUS / "table.csv", "t_*")
    quick = FitOptions(effort="quick", cv=2)
    made = {
        "bundle": fit_table(table, FitOptions("linear", 0.1, 1.0, cv=2), estimate_folds=2),
        "auto": fit_table(table, quick, drop=["note"], estimate_folds=0),
    }
    for name, model in made.items():
        save_bundle(model, folder / f"seed-{name}.dm2l")
    return [folder / f"seed-{name}.dm2l" for name in made]


@cache
def _table() -> Any:
    return read_table(CORPUS / "table.csv", "t_*")


def _change_bundle(content: bytes, rng: random.Random) -> bytes:
    """Half of the time a change that follows the structure of the file."""
    return attack(content, rng) if rng.random() < 0.5 else mutate(content, rng)


def _answer(path: Path) -> None:
    model = load_bundle(path)
    model.answer(model.inputs(_table())[0])


def _open(path: Path) -> None:
    with Journal(path, _table()):
        pass


# ------------------------------------------------------------------------------------ estimators


def _numbers(folder: Path) -> list[Path]:
    (folder / "seed-fit").write_bytes(b"0")
    return [folder / "seed-fit"]


def _draw(_: bytes, rng: random.Random) -> bytes:
    return str(rng.randrange(10**9)).encode()


ARCHIVES = ("table.csv.gz", "table.csv.bz2", "table.csv.xz", "table.csv.zip")
TARGETS = {
    "table": Target(_kept("table.csv", "table.tsv", "quoted.csv", "table.parquet"), _read),
    "workbook": Target(_kept("table.xlsx"), _read_workbook, _craft, most=500 * 10**6),
    "numbers": Target(_kept("table.csv", "table.parquet", "quoted.csv"), _read_typed),
    "archive": Target(_kept(*ARCHIVES), _read, unpacked),
    "arff": Target(_kept("m.arff", "s.arff"), _read),
    "svmlight": Target(_kept("m.svm"), _read),
    "npz": Target(_kept("m.npz", "dense.npz"), _read),
    "matlab": Target(_kept("m.mat", "dense.mat"), _read),
    "blocks": Target(_kept("table.csv", "numbers.parquet", "m.svm", "dense.npz", "x.npy"), _blocks),
    "statistics": Target(_kept("sums.npz"), GramStatistics.load),
    "rules": Target(_kept("rules.txt", "rules.csv"), _obey, _change_rules, (ValueError,)),
    "scores": Target(_kept("scores.csv"), _add_scores),
    "journal": Target(_kept("answers.jsonl"), _open, change_journal),
    "model": Target(_models, _use),
    "bundle": Target(_bundles, _answer, _change_bundle),
    "hostile": Target(models, load, attack, (ModelFileError,), most=300 * 2**20, longest=2.0),
    "page": Target(page_requests, ask_page, change, (Refused,)),
    "backend": Target(backend_requests, ask_backend, change, (Refused,)),
    "fit": Target(_numbers, fit_extreme, _draw, (ValueError,)),
    "input": Target(_numbers, fit_odd, _draw, (ValueError, TypeError)),
}
