"""What fills holes best, what it promises, and what it brings to new rows.

    python benchmarks/completion.py PART --out FILE.jsonl [--jobs 16] [--minutes 8] [--seeds 5]
                                    [--sets emotions yeast] [--chemistry FOLDER] [--rows 2000]
    python benchmarks/completion.py --summary FILE.jsonl [--out FILE.json]

Parts:

holes     entries hidden uniformly, 30, 50 and 70 % stay; of Tox21, which has holes of its own, 80 %
new-rows  coupling="joint" against None, with the nuclear terms and without; 60 % of the rows to fit
promises  realised error rates with bounds of 1, 5, 10 and 20 %: all, yes, no, worst label
doubtful  wrong labels among the first hundred, 2 % of the observed ones being flipped

Results are lines of JSON; those that are in FILE.jsonl already are not computed again, so a run can
be stopped and taken up. After --minutes no cell is started any more, and a minute later those that
still run are given up. Sets have at most --rows rows, drawn anew with each seed, the same for all
methods; Tox21 has all of its own in the first part. FOLDER holds SIDER.npz and Tox21.npz as
benchmarks/fingerprints.py makes them. Of the nine further Corel16k sets none is taken: they are
drawn from the same pictures as the first. Probabilities below 0.001 and above 0.999 count
as these in the log-loss.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import completion_methods as methods
import numpy as np
import scipy.sparse as sp
from completion_summary import KEY, summarize
from record import machine
from sklearn.metrics import average_precision_score
from sklearn.preprocessing import StandardScaler
from sklearn.utils.extmath import randomized_svd

from dm2l import DM2LClassifier
from dm2l.completion import ErrorRateBound, LabelErrors
from dm2l.datasets import load_dataset
from dm2l.metrics import label_auc, ranking_loss
from dm2l.simulate import simulate_per_row, simulate_uniform
from experiments.resumable import one_thread, side_by_side, stored

# By cost.
SETS = (
    *("emotions", "Image", "scene", "yeast", "Enron", "Arts", "Business", "Recreation"),
    *("SIDER", "Tmc2007-500", "Social", "Tox21", "Corel16k001", "bibtex", "rcv1subset1"),
)
CHEMISTRY = ("SIDER", "Tox21")
DOUBTFUL = ("emotions", "Image", "yeast", "SIDER", "Arts", "Enron")
ASKED = (0.01, 0.05, 0.1, 0.2)
YES = (0.1, 0.0)  # a tenth of what is filled with yes, and nothing with no
TERMS = {"ridge": 0.0, "DM2L": 0.3}  # lambda_d
MASKS = ("uniform", "per row", "row rates", "features")


@dataclass(frozen=True)
class Cell:
    """One set with one mask; all that is computed from it together."""

    part: str
    data: str
    rate: float
    mask: str
    seed: int
    family: str
    methods: tuple[str, ...]

    @property
    def key(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in KEY}


def read(cell: Cell, rows: int, chemistry: Path | None) -> tuple[Any, Any]:
    """Dense features, with unit variance if they were dense, and labels with the set's holes."""
    if cell.data in CHEMISTRY:
        with np.load(chemistry / f"{cell.data}.npz") as stored:
            X, T = stored["X"].astype(np.float64), stored["T"]
        Y = np.where(T == 0, np.nan, T > 0)
        rows = len(Y) if cell.part == "holes" else rows
    else:
        found = load_dataset(cell.data)
        Y = np.asarray(found.target, dtype=np.float64)
        sparse = sp.issparse(found.data)
        X = found.data.tocsr() if sparse else StandardScaler().fit_transform(found.data)
    order = np.random.default_rng(cell.seed).permutation(len(Y))[:rows]
    X = X[order].toarray() if sp.issparse(X) else X[order]
    return np.asarray(X, dtype=np.float64), Y[order]


def hide(X: Any, Y: Any, cell: Cell) -> Any:
    """Labels with the holes of a cell.

    "per row" is the rule of the paper, by which hidden entries have other shares of positives than
    those that stay. In the last two a row, or a label at a place of X, has a rate of its own.
    """
    if cell.mask == "uniform":
        return simulate_uniform(Y, cell.rate, random_state=cell.seed)
    if cell.mask == "per row":
        return simulate_per_row(Y, cell.rate, random_state=cell.seed)
    rng = np.random.default_rng(cell.seed)
    place = rng.random((len(Y), 1))
    if cell.mask == "features":
        U = randomized_svd(X - X.mean(axis=0), min(10, X.shape[1]), random_state=cell.seed)[0]
        along = U @ rng.normal(size=(U.shape[1], Y.shape[1]))
        place = np.argsort(np.argsort(along, axis=0), axis=0) / len(Y)
    return np.where(rng.random(Y.shape) < cell.rate + 0.4 * (place - 0.5), Y, np.nan)


def measures(truth: Any, P: Any) -> dict[str, float]:
    """Of the entries where ``truth`` is not NaN."""
    known, both = ~np.isnan(truth), (truth == 1).any(axis=0) & (truth == 0).any(axis=0)
    columns = [(truth[known[:, k], k], P[known[:, k], k]) for k in np.flatnonzero(both)]
    y, p = truth[known], np.clip(P[known], 0.001, 0.999)
    return {
        "auc": float(label_auc(truth, P, estimate=False)),
        "map": float(np.mean([average_precision_score(*column) for column in columns])),
        "logloss": float(-np.mean(np.log(np.where(y == 1, p, 1 - p)))),
        "accuracy": float(np.mean((p > 0.5) == (y == 1))),
    }


def holes(cell: Cell, X: Any, Y: Any) -> Iterator[dict[str, Any]]:
    case = methods.Holes(X, hide(X, Y, cell), cell.seed)
    truth = np.where(np.isnan(case.Y), Y, np.nan)
    for name, P, seconds in getattr(methods, cell.family)(case):
        found = {"reason": P} if isinstance(P, str) else measures(truth, P)
        yield {"method": name, **found, "seconds": seconds}


def new_rows(cell: Cell, X: Any, Y: Any) -> Iterator[dict[str, Any]]:
    """Four models with the ridge that is best without coupling: what is added is the coupling."""
    train = np.arange(len(Y)) < 0.6 * len(Y)
    case = methods.Holes(X[train], hide(X[train], Y[train], cell), cell.seed)
    for terms, lambda_d in TERMS.items():
        model = methods.chosen(case, cell.family, (lambda_d,))
        for coupling in (None, "joint"):
            clock = methods.Clock()
            scores = model.set_params(coupling=coupling).fit(case.X, case.Y)
            scores = scores.decision_function(X[~train])
            yield {
                "method": f"{cell.family}, {terms}, {coupling}",
                "auc": float(label_auc(Y[~train], scores, estimate=False)),
                "ranking_loss": float(ranking_loss(Y[~train], scores, estimate=False)),
                "seconds": clock(),
            }


def promises(cell: Cell, X: Any, Y: Any) -> Iterator[dict[str, Any]]:
    case = methods.Holes(X, hide(X, Y, cell), cell.seed)
    holes = np.isnan(case.Y) & ~np.isnan(Y)
    model = DM2LClassifier().fit(case.X, case.Y)

    def counts(positive: Any, filled: Any) -> list[int]:
        filled = filled & holes
        right = positive == (Y == 1)
        return [int(part.sum()) for part in (filled, filled & ~right, filled & positive & right)]

    def rates(filled: Any) -> list[float]:
        """Share wrong among yes and among no, and in the worst label with 100 filled entries."""
        found = []
        for answer in (1, 0):
            here, wrong = holes & (filled == answer), holes & (filled == answer) & (answer != Y)
            found.append(float(wrong.sum() / max(here.sum(), 1)))
        here = (holes & ~np.isnan(filled)).sum(axis=0)
        wrong = (holes & ~np.isnan(filled) & (filled != Y)).sum(axis=0)
        return [*found, float(np.max(wrong / np.maximum(here, 1), initial=0, where=here >= 100))]

    asked, shares = {}, {}
    for level in (*ASKED, YES):
        filled = model.complete(case.X, case.Y, max_error_rate=level)
        asked[str(level)] = counts(filled == 1, ~np.isnan(filled))
        shares[str(level)] = rates(filled)
    yield {"method": "coupled", "filled, wrong, right yes": asked, "wrong by group": shares}
    if "features alone" in cell.methods:
        p, asked = methods.alone(case, methods.unseen(model, case)), {}
        positive, confidence = p > 0.5, np.maximum(p, 1 - p)
        promise = ErrorRateBound.fit(confidence, positive, case.signs)
        for level in (*ASKED, YES):
            chosen, _ = promise.choose(confidence, positive, np.isnan(case.Y), level)
            asked[str(level)] = counts(positive, chosen)
        yield {"method": "features alone", "filled, wrong, right yes": asked}


def doubtful(cell: Cell, X: Any, Y: Any) -> Iterator[dict[str, Any]]:
    seen, flipped = hide(X, Y, cell), np.zeros(Y.shape, dtype=bool)
    known = np.flatnonzero(~np.isnan(seen))
    wrong = np.random.default_rng(cell.seed).permutation(known)[: round(0.02 * len(known))]
    flipped.flat[wrong] = True
    case = methods.Holes(X, np.where(flipped, 1 - Y, seen), cell.seed)
    model = DM2LClassifier().fit(case.X, case.Y)
    p = methods.alone(case, methods.unseen(model, case))
    ways = {
        "coupled": model.find_label_errors(case.X, case.Y),
        "features alone": LabelErrors.of(case.signs, p),
    }
    for name, doubts in ways.items():
        first = flipped[doubts.row[:100], doubts.label[:100]]
        claimed = {"claimed": float(doubts.probability[:100].mean())}
        yield {"method": name, "precision": float(first.mean()), "flipped": len(wrong), **claimed}
    if "cleanlab" in cell.methods:
        from cleanlab.filter import find_label_issues
        from cleanlab.rank import get_label_quality_scores

        # Its filter for several labels goes label by label, but knows no holes: here it has the
        # known entries of each. What the filter finds comes first.
        quality, T = np.full(Y.shape, np.inf), case.signs
        for k in np.flatnonzero((T > 0).any(axis=0) & (T < 0).any(axis=0)):
            rows = np.flatnonzero(T[:, k])
            labels, q = (T[rows, k] > 0).astype(int), np.stack([1 - p[rows, k], p[rows, k]], axis=1)
            found = find_label_issues(labels, q, n_jobs=1)
            quality[rows, k] = get_label_quality_scores(labels, q) + ~found
        first = flipped.flat[np.argsort(quality, axis=None)[:100]]
        yield {"method": "cleanlab", "precision": float(first.mean()), "flipped": len(wrong)}


def cells(part: str, sets: list[str], seeds: range) -> Iterator[Cell]:
    """All cells of a part; a run that is stopped has few seeds of all sets."""
    both = ("coupled", "features alone")
    rates = {"new-rows": (0.3, 0.7), "doubtful": (0.7, 1.0)}.get(part, (0.3, 0.5, 0.7))
    for seed, data in itertools.product(seeds, sets):
        for rate in (0.8,) if data == "Tox21" else rates:
            if part == "holes":
                for family, names in methods.FAMILIES.items():
                    if family != "tanimoto" or data in CHEMISTRY:
                        yield Cell(part, data, rate, "uniform", seed, family, names)
            elif part == "new-rows":
                for family in ("linear", "rbf"):
                    names = (f"{family}, {a}, {b}" for a in TERMS for b in (None, "joint"))
                    yield Cell(part, data, rate, "uniform", seed, family, tuple(names))
            elif part == "promises":
                for mask in MASKS:
                    against = rate >= 0.7 and mask == "uniform" and seed < 5
                    yield Cell(part, data, rate, mask, seed, "", both if against else both[:1])
            else:
                names = both if find_spec("cleanlab") is None else (*both, "cleanlab")
                yield Cell(part, data, rate, "uniform", seed, "", names)


PARTS = {"holes": holes, "new-rows": new_rows, "promises": promises, "doubtful": doubtful}


def compute(cell: Cell, done: set[str], rows: int, chemistry: Path | None, out: Path) -> str:
    """Append one line a method as soon as it is there."""
    warnings.simplefilter("ignore")  # rare labels, iterations of other people's methods
    start = time.perf_counter()
    for found in PARTS[cell.part](cell, *read(cell, rows, chemistry)):
        if found["method"] not in done:
            with out.open("a") as file:
                file.write(json.dumps({**cell.key, **found}) + "\n")
    seconds = time.perf_counter() - start
    return " ".join(map(str, (*cell.key.values(), cell.family, f"{seconds:.0f} s")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", nargs="?", choices=PARTS)
    parser.add_argument("--summary", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sets", nargs="+", choices=SETS)
    parser.add_argument("--families", nargs="+", help="of the part 'holes', e.g. linear mice")
    parser.add_argument("--chemistry", type=Path, help="folder of SIDER.npz and Tox21.npz")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    arguments = parser.parse_args()
    if arguments.summary:
        default = Path(__file__).parent / "results" / "completion.json"
        summarize(stored(arguments.summary), arguments.out or default)
        return
    if arguments.part is None or arguments.out is None:
        parser.error("a part and --out, or --summary")
    sets = arguments.sets or (DOUBTFUL if arguments.part == "doubtful" else SETS)
    sets = [name for name in sets if name not in CHEMISTRY or arguments.chemistry]
    known: dict[str, set[str]] = {}
    for row in (row for row in stored(arguments.out) if row["part"] != "machine"):
        key = json.dumps({name: row[name] for name in KEY})
        known.setdefault(key, set()).add(row["method"])
    todo = []
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    for cell in cells(arguments.part, sets, seeds):
        done = known.get(json.dumps(cell.key), set())
        wanted = not arguments.families or cell.family in arguments.families
        if wanted and not done.issuperset(cell.methods):
            todo.append((cell, done))
    print(f"{len(todo)} cells to compute", flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with arguments.out.open("a") as file:
        file.write(json.dumps({"part": "machine"} | machine()) + "\n")
    one_thread()
    others = arguments.rows, arguments.chemistry, arguments.out
    tasks = [(cell, done, *others) for cell, done in todo]
    failed = side_by_side(compute, tasks, arguments.jobs, arguments.minutes)
    if failed:
        raise SystemExit(f"{failed} cells broke")


if __name__ == "__main__":
    main()
