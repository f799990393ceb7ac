"""Label rules on data sets whose labels form a taxonomy.

    python benchmarks/hierarchies.py DATA --out FILE.jsonl [--parts missing] [--sets ...]
                                     [--seeds 1] [--jobs 1] [--cores 2] [--minutes 60]
    python benchmarks/hierarchies.py DATA --out FILE.jsonl --summary [FILE.json]

DATA is a folder with one NPZ file per set: X, Y, label_names, implies (pairs of child and parent),
train_index and test_index. Parts:

complete    all labels of the training rows observed: micro-averaged average precision of the test
            rows, of the best kernel models, of the best of scikit-learn's extremely randomized
            trees, and of a mean of several. All are chosen by cross-validation on training rows,
            the mean by forward selection. Uses --cores processes at a time.
missing     30 % of the entries of the training rows observed, uniformly: imputation of the others
            and predictions of the test rows without rules, with rules, and with the maximum over
            the descendants; fits to labels as observed, propagated, and propagated with inverse
            rates as weights.
bounded     the same, filled with max_error_rate, without rules and with rules: share filled, and
            share of errors among all filled labels, those with yes, and those with no.
projection  100,000 rows with the taxonomy of the set: processor time and memory.

Rows that are in FILE.jsonl are not computed again. Times are processor times.
"""

import argparse
import json
import multiprocessing
import os
import resource
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from record import machine, write
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.impute import SimpleImputer
from sklearn.metrics import average_precision_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from dm2l import DM2LClassifier
from dm2l.labels import LabelRules
from experiments.resumable import end_with_parent, run, stored

PUBLISHED = {
    "cellcycle_FUN": 0.255,
    "derisi_FUN": 0.195,
    "spo_FUN": 0.215,
    "Enron_corr": 0.756,
    "ImCLEF07A": 0.956,
}
OBSERVED, BOUNDS = 0.3, (0.01, 0.05, 0.1)
KINDS = ("filled", "yes", "wrong", "wrong yes", "wrong no")
Setting = tuple[Any, ...]
# Kernels with widths and ridges; trees with the least rows of a leaf and the share of features.
SETTINGS: list[Setting] = [
    *product(
        ("rbf", "laplacian"),
        ("standardized", "ranks"),
        (0.125, 0.25, 0.5, 1.0, 2.0, 4.0),
        (0.1, 0.3, 1.0, 3.0, 10.0),
    ),
    *product(("trees",), ("equal", "by depth"), (1, 2, 3, 5, 10), (0.1, 0.3, 1.0)),
]
DECAY = 0.75
TREES, FORESTS = 50, 10  # trees of a forest, and forests that predict the test rows
FOLDS, KEPT, MOST_STEPS = 4, 5, 30
MOST_CHOSEN = 5000  # training rows on which hyperparameters are chosen
MOST_OBSERVED = 3000  # training rows with missing labels


@cache
def read(data: str, ranks: bool = False) -> tuple[Any, Any, LabelRules, Any, Any]:
    """Features, labels, rules, training and test rows; scaled on the training rows."""
    with np.load(Path(os.environ["HIERARCHIES"]) / f"{data}.npz", allow_pickle=True) as file:
        X, Y, train, test = (file[name] for name in ("X", "Y", "train_index", "test_index"))
        names = list(map(str, file["label_names"]))
        pairs = [(names[child], names[parent]) for child, parent in file["implies"]]
    scaling = [QuantileTransformer(n_quantiles=500, random_state=0)] * ranks + [StandardScaler()]
    columns = make_pipeline(SimpleImputer(add_indicator=True), *scaling)
    X = columns.fit(X[train].astype(np.float64)).transform(X.astype(np.float64))
    return X, Y.astype(np.float64), LabelRules(pairs, label_names=names), train, test


def coherent(rules: LabelRules, P: Any) -> Any:
    return rules._logic.project(P, np.zeros(P.shape, dtype=np.int8))


def above(rules: LabelRules) -> Any:
    """Whether the label of a row implies the label of a column, itself included."""
    m, reach = len(rules._logic.columns), rules._logic.closure
    return (reach.toarray() if hasattr(reach, "toarray") else reach)[:m, :m] > 0


def largest(rules: LabelRules, P: Any) -> Any:
    """Each label raised to the largest of its descendants."""
    logic, P, reach = rules._logic, P.copy(), above(rules)
    part = P[:, logic.columns]
    for k in np.flatnonzero(reach.sum(axis=0) > 1):
        P[:, logic.columns[k]] = part[:, reach[:, k]].max(axis=1)
    return P


def micro(Y: Any, P: Any) -> float:
    return float(average_precision_score(Y.ravel(), P.ravel()))


def predicted(data: str, setting: Setting, rows: Any, there: Any, seed: int) -> Any:
    """Probabilities of a setting that is fitted to the first rows, of the rows ``there``."""
    warnings.simplefilter("ignore")  # labels without positives in a fold
    name, how, *numbers = setting
    X, Y, rules, *_ = read(data, ranks=how == "ranks")
    if name == "trees":
        # Squared errors of a label count by the number of its ancestors, as in Clus-HMC.
        ancestors = np.zeros(Y.shape[1])
        ancestors[rules._logic.columns] = above(rules).sum(axis=1) - 1
        scale = np.sqrt(DECAY**ancestors) if how == "by depth" else 1.0
        leaf, share = numbers
        options = {"min_samples_leaf": leaf, "max_features": share, "random_state": seed}
        trees = ExtraTreesRegressor(TREES, **options).fit(X[rows], Y[rows] * scale)
        return np.float32(trees.predict(X[there]) / scale)
    width, ridge = numbers
    apart = np.abs(X[rows[:200], None] - X[rows[None, :200]])
    apart = np.median((apart**2 if name == "rbf" else apart).sum(axis=2))
    options = {"kernel": name, "gamma": width / apart, "local": False, "coupling": None}
    model = DM2LClassifier(0.0, ridge, **options).fit(X[rows], Y[rows])
    return np.float32(np.clip((1 + model.decision_function(X[there])) / 2, 0, 1))


def side_by_side(data: str, tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """Predictions of these settings in processes of one thread."""
    options = {"mp_context": multiprocessing.get_context("spawn"), "initializer": end_with_parent}
    with ProcessPoolExecutor(int(os.environ["CORES"]), **options) as pool:
        return iter(list(pool.map(partial(predicted, data), *zip(*tasks, strict=True))))


def precisions(truth: Any, found: dict[Setting, Any]) -> dict[Setting, float]:
    with ThreadPoolExecutor(int(os.environ["CORES"])) as pool:
        return dict(zip(found, pool.map(partial(micro, truth), found.values()), strict=True))


def greedy(truth: Any, found: dict[Setting, Any]) -> dict[Setting, int]:
    """How often each setting is in the mean with the best average precision, by forward steps."""
    counts: dict[Setting, int] = {}
    total, best = 0.0, 0.0
    for _ in range(MOST_STEPS):
        tried = precisions(truth, {setting: total + P for setting, P in found.items()})
        setting = max(tried, key=lambda key: tried[key])
        if tried[setting] <= best:
            break
        best, total = tried[setting], total + found[setting]
        counts[setting] = counts.get(setting, 0) + 1
    return counts


def complete(data: str, seed: int) -> dict[str, Any]:
    _, Y, rules, train, test = read(data)
    some = np.random.default_rng(seed).permutation(train)[:MOST_CHOSEN]
    parts = np.array_split(np.arange(len(some)), FOLDS)

    def mean(P: dict[Setting, Any], counts: dict[Setting, int]) -> Any:
        return sum(n * P[setting] for setting, n in counts.items()) / sum(counts.values())

    tasks = [(s, np.delete(some, part), some[part], seed) for s in SETTINGS for part in parts]
    answers = side_by_side(data, tasks)
    held_out = {setting: np.concatenate([next(answers) for _ in parts]) for setting in SETTINGS}
    reached = precisions(Y[some], held_out)
    families = {
        name: sorted((s for s in SETTINGS if s[0] == name), key=lambda s: -reached[s])[:KEPT]
        for name in ("rbf", "laplacian", "trees")
    }
    counts = greedy(Y[some], {s: held_out[s] for kept in families.values() for s in kept})
    ways = {name: {kept[0]: 1} for name, kept in families.items()} | {"mixed": counts}
    used = sorted({setting for way in ways.values() for setting in way})
    seeds = {s: range(FORESTS if s[0] == "trees" else 1) for s in used}
    tasks = [(s, train, test, seed + k) for s in used for k in seeds[s]]
    answers = side_by_side(data, tasks)
    there = {s: np.mean([next(answers) for _ in seeds[s]], axis=0) for s in used}
    result = {name: micro(Y[test], coherent(rules, mean(there, way))) for name, way in ways.items()}
    return {
        "ap": result,
        "without": micro(Y[test], mean(there, counts)),
        "held_out": {name: micro(Y[some], mean(held_out, way)) for name, way in ways.items()},
        "chosen": {name: [[*s, n] for s, n in way.items()] for name, way in ways.items()},
    }


def quality(truth: Any, P: Any, here: Any) -> dict[str, float]:
    """Average precision and log-loss of the entries ``here``."""
    y, p = truth[here], np.clip(P[here], 1e-3, 1 - 1e-3)
    return {
        "ap": float(average_precision_score(y, P[here])),
        "logloss": float(-np.mean(np.where(y == 1, np.log(p), np.log(1 - p)))),
    }


def weights(truth: Any, seen: Any, rules: LabelRules) -> Any:
    """Inverse rates at which propagated entries are known, which need the true labels."""
    reach, columns = above(rules).astype(np.float64), rules._logic.columns
    part = truth[:, columns]
    # A yes is known if a positive descendant is observed, a no if a negative ancestor is.
    count = np.where(part == 1, part @ reach, (1 - part) @ reach.T)
    result = np.full(truth.shape, 1 / OBSERVED)
    result[:, columns] = 1 / (1 - (1 - OBSERVED) ** count)
    return np.where(np.isnan(seen), 0.0, result * OBSERVED)


def observed(data: str, seed: int) -> tuple[Any, ...]:
    """What ``read`` returns, labels of the training rows with missing entries, and a model."""
    X, truth, rules, train, test = read(data)
    if len(train) > MOST_OBSERVED:
        train = np.random.default_rng(seed).permutation(train)[:MOST_OBSERVED]
    Y = truth[train]
    Y = np.where(np.random.default_rng(seed).random(Y.shape) < OBSERVED, Y, np.nan)
    model = DM2LClassifier(0.0, 1.0, kernel="rbf", gamma=0.5 / (2 * X.shape[1]), local=False)
    return X, truth, rules, train, test, Y, model


def bounded(data: str, seed: int) -> dict[str, Any]:
    X, truth, rules, train, _, Y, model = observed(data, seed)
    found: dict[str, Any] = {}
    for name, some in (("without", None), ("with", rules)):
        model.set_params(rules=some).fit(X[train], Y)
        for bound in BOUNDS:
            D, summary = model.complete(X[train], Y, max_error_rate=bound, return_summary=True)
            filled = np.isnan(Y) & ~np.isnan(D)
            found[f"{name} {bound}"] = {
                "filled": float(filled.sum() / np.isnan(Y).sum()),
                "yes": int((filled & (D == 1)).sum()),
                "expected": summary.expected_wrong,
                "violations": int(rules.violations(D).sum()),
            } | {
                key: float((truth[train] != D)[part].mean()) if part.any() else 0.0
                for key, part in (
                    ("wrong", filled),
                    ("wrong yes", filled & (D == 1)),
                    ("wrong no", filled & (D == 0)),
                )
            }
    return found


def missing(data: str, seed: int, way: str) -> dict[str, Any]:
    X, truth, rules, train, test, Y, model = observed(data, seed)
    known = rules.propagate(Y)
    start = time.process_time()
    if way == "as observed":
        model.fit(X[train], Y)
    else:
        rates = weights(truth[train], known, rules) if way == "weighted" else None
        model.fit(X[train], known, label_weight=rates)
    fitting = time.process_time() - start
    hidden, open_ = np.isnan(Y), np.isnan(known)
    model.complete(X[train[:9]], Y[:9])  # the label correlation is fitted at first use
    start = time.process_time()
    P = model.complete(X[train], Y, method="predict_proba")
    plain = time.process_time() - start
    D = model.complete(X[train], Y)
    new = model.predict_proba(X[test])
    everywhere = np.ones(new.shape, dtype=bool)
    raised = np.where(hidden, largest(rules, P), Y)
    found: dict[str, Any] = {
        "fit_seconds": fitting,
        "known": float(1 - hidden.mean()),
        "implied": float((hidden & ~open_).sum() / hidden.sum()),
        "without": quality(truth[train], P, hidden),
        "maximum": quality(truth[train], raised, hidden),
        "without_open": quality(truth[train], P, open_),
        "violations": int(rules.violations(D).sum()),
        "new_without": quality(truth[test], new, everywhere),
        "new_maximum": quality(truth[test], largest(rules, new), everywhere),
        "new_violations": int(rules.violations(model.predict(X[test])).sum()),
        "complete_seconds": plain,
    }
    model._completer.rules = rules
    start = time.process_time()
    P = model.complete(X[train], Y, method="predict_proba")
    ruled = time.process_time() - start
    new = model.predict_proba(X[test])
    return found | {
        "complete_seconds_rules": ruled,
        "with": quality(truth[train], P, hidden),
        "with_open": quality(truth[train], P, open_),
        "violations_rules": int(rules.violations(model.complete(X[train], Y)).sum()),
        "new_with": quality(truth[test], new, everywhere),
        "new_violations_rules": int(rules.violations(model.predict(X[test])).sum()),
    }


def projection(data: str, seed: int) -> dict[str, Any]:
    rules, rng = read(data)[2], np.random.default_rng(seed)
    P = rng.random((100_000, len(rules.label_names)), dtype=np.float64)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    X = coherent(rules, P)
    passed = time.process_time() - start
    extra = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    left = int(rules._logic.coherence.violations(X[:, rules._logic.columns]).sum())
    found = {"rows": len(P), "labels": P.shape[1], "violations": left}
    return found | {"cpu_seconds": passed, "result_mb": X.nbytes / 1e6, "extra_mb": extra / 1e3}


def compute(part: str, data: str, seed: int, way: str) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    options = {"way": way} if way else {}
    found: dict[str, Any] = globals()[part](data, seed, **options)
    return {"result": found, "machine": machine()}


WAYS = {
    "complete": ("",),
    "missing": ("as observed", "propagated", "weighted"),
    "bounded": ("",),
    "projection": ("",),
}
FITS = {"as observed": "as observed", "propagated": "propagated", "weighted": "inverse rates"}


def table(head: list[str], rows: list[list[Any]]) -> str:
    """Markdown table, with three digits of numbers that are not integers."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(f"{c:.3f}" if isinstance(c, float) else str(c) for c in row) + " |"
        for row in lines
    )


def tables(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Tables of the research page, of the first seed."""
    found = {(r["part"], r["data"], r["way"]): r["result"] for r in rows if r["seed"] == 0}
    filled, new, fits, whole, cost, bound = [], [], [], [], [], []
    for data, published in PUBLISHED.items():
        whole += [
            [data, way or "wide", *found[part, name, way]["ap"].values(), published]
            for part, name, way in found
            if (part, name) == ("complete", data)
        ]
        if one := found.get(("projection", data, "")):
            parts = f"{one['rows']:,}", one["labels"], f"{one['cpu_seconds']:.1f} s"
            cost.append([data, *parts, f"{one['extra_mb']:.0f} MB", one["violations"]])
        for rate in BOUNDS if (one := found.get(("bounded", data, ""))) else ():
            two = [one[f"{name} {rate}"] for name in ("without", "with")]
            bound.append([data, f"{rate:.0%}", *(part[key] for key in KINDS[:-1] for part in two)])
        ways = {way: found.get(("missing", data, way)) for way in WAYS["missing"]}
        if None in ways.values():
            continue
        one = ways["as observed"]
        for kind, start, lines in (("", "", filled), ("new ", "new_", new)):
            measured = [one[start + name] for name in ("without", "maximum", "with")]
            scores = [m[k] for k in ("ap", "logloss") for m in measured]
            broken = one[start + "violations"], one[start + "violations_rules"]
            extra = [f"{one['implied']:.0%}"] if not kind else []
            lines.append([data, *scores, *extra, f"{broken[0]} : {broken[1]}"])
        ratio = one["complete_seconds_rules"] / one["complete_seconds"]
        filled[-1].append(f"{ratio:.2f}")
        keys = [(part, k) for part in ("with", "new_with") for k in ("ap", "logloss")]
        fits += [[data, FITS[w], *(ways[w][part][k] for part, k in keys)] for w in ways]
    six = ["AP without", "maximum", "with", "log-loss without", "maximum", "with"]
    last = ["violations without : with"]
    return {
        "hierarchies_filled": table(["set", *six, "implied", *last, "time ratio"], filled),
        "hierarchies_bounded": table(
            ["set", "bound", *(f"{a} {b}" for a in KINDS[:-1] for b in ("without", "with"))],
            bound,
        ),
        "hierarchies_new": table(["set", *six, *last], new),
        "hierarchies_fits": table(
            ["set", "fit to labels", "AP imputed", "log-loss", "AP new rows", "log-loss"], fits
        ),
        "hierarchies_complete": table(
            ["set", "search", "rbf", "laplacian", "trees", "mean", "published"], whole
        ),
        "hierarchies_cost": table(["set", "rows", "labels", "time", "memory", "violations"], cost),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Label rules on sets with a taxonomy.")
    parser.add_argument("data", type=Path, help="folder of the sets")
    parser.add_argument("--out", type=Path, required=True, help="lines of JSON")
    parser.add_argument("--summary", type=Path, help="print the tables, and store them here")
    parser.add_argument("--parts", nargs="+", default=list(WAYS))
    parser.add_argument("--sets", nargs="+", default=list(PUBLISHED))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cores", type=int, default=1, help="processes of part complete")
    parser.add_argument("--minutes", type=float, default=60.0)
    options = parser.parse_args()
    os.environ["CORES"] = str(options.cores)
    os.environ["HIERARCHIES"] = str(options.data.resolve())
    cells = [
        {"part": part, "data": data, "seed": seed, "way": way}
        for seed in range(options.seeds)
        for data in options.sets
        for part in options.parts
        for way in WAYS[part]
    ]
    if options.summary is None:
        return run(compute, cells, options)
    rows = stored(options.out)
    found = tables(rows)
    print(*found.values(), sep="\n\n")
    machines = sorted({json.dumps(row["machine"], sort_keys=True) for row in rows})
    write(options.summary, {"tables": found, "machines": [json.loads(one) for one in machines]})
    return None


if __name__ == "__main__":
    main()
