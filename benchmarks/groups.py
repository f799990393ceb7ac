"""What it brings that large groups count for less in the stack, where new scaffolds come.

    python benchmarks/groups.py tox21.npz sider.npz [--seeds 6 5] [--draws 2 1] [--rows 2500]
                                [--scores FOLDER]

Tables are those that `benchmarks/chemistry.py --prepare` writes. A fifth of the scaffolds, drawn
anew with each seed, is the test, so that it may hold one of the largest; at most --rows of the
other molecules are learnt from, drawn --draws times. The models of the automatic estimator are
fitted once a split, in folds that keep scaffolds together and to all rows; then they are raced,
calibrated and weighted twice, all rows counting alike and as it is done. Scores of the models are
kept in a folder and not computed again.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp
from chemistry import quality
from record import write
from scipy.special import expit
from sklearn.model_selection import GroupShuffleSplit

from dm2l import AutoClassifier
from dm2l._auto import _classifier, _leaderboard
from dm2l._auto._base_models import rows_for
from dm2l._auto._leaderboard import cross_fitted, label_auc, on_new_rows
from dm2l._auto._stack import Stack, row_weights
from dm2l._utils.arrays import to_numpy
from dm2l.model_selection import MultilabelKFold

RESULTS = Path(__file__).parent / "results" / "groups.json"
FOLDS = 5
Run = dict[str, Any]


class EnoughError(Exception):
    """Raised when the models have scores."""


def score(table: Path, seed: int, draw: int, rows: int, out: Path) -> None:
    """Write held-out scores, and those of the test rows, of all models on one split."""
    content = np.load(table)
    Y, scaffold = content["Y"], content["scaffold"]
    bits = np.ones(len(content["indices"])), content["indices"], content["indptr"]
    X = sp.csr_array(bits, shape=(len(Y), int(content["n_bits"])))
    split = GroupShuffleSplit(1, test_size=0.2, random_state=seed)
    train, test = next(split.split(Y, groups=scaffold))
    if rows < len(train):
        order = np.random.default_rng(seed + 100 * draw).permutation(train)
        train = np.sort(order[:rows])
    cv = MultilabelKFold(FOLDS, groups=scaffold[train], random_state=0)
    model = AutoClassifier(cv=cv, random_state=seed)

    def try_all(context: Any) -> Any:
        _leaderboard._helps, races = lambda *_: True, _leaderboard._helps
        models, scores, _ = _leaderboard.try_all(context)
        _leaderboard._helps = races
        unseen = []
        for base in models:
            base.fit(context)
            F = model._features.transform(X[test])
            new = base.model._all_scores(rows_for(base.inputs, X[test], F))
            unseen.append(to_numpy(new) - base.level)
        np.savez_compressed(
            out,
            scores=scores,
            test=np.stack(unseen),
            T=context.T,
            fold=context.fold,
            group=scaffold[train][model._keep],
            Yt=Y[test][:, model._learnable],
            shares=[base.shares for base in models],
            names=[base.name for base in models],
            largest=np.bincount(scaffold[test]).max(),
        )
        raise EnoughError

    _classifier.try_all = try_all
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X[train], Y[train])
    except EnoughError:
        pass


def stacked(found: Any, weights: Any) -> Run:
    """The stack of models that win their race, on the test rows and by its own estimate."""
    T, fold, Y = found["T"].astype(int), found["fold"], found["Yt"]
    scores, shares = found["scores"], found["shares"]
    context, models = (
        SimpleNamespace(T=T, weights=weights),
        [SimpleNamespace(shares=s) for s in shares],
    )
    stay = [0]
    for j in range(1, len(scores)):
        new = np.where((fold < _leaderboard.TRIAL)[:, None], scores[j], np.nan)
        held = [scores[i] for i in stay]
        if _leaderboard._helps(context, [models[i] for i in [*stay, j]], held, new):
            stay.append(j)
    eta = cross_fitted(scores[stay], T, shares[stay], fold, weights)
    common = Stack.fit(scores[stay], T, shares[stay], weights).common
    kept = np.array(stay)[
        (common >= _classifier.NEGLIGIBLE * common.sum()) | (common == common.max())
    ]
    stack = Stack.fit(scores[kept], T, shares[kept], weights)
    p = expit(stack.log_odds(found["test"][kept]))
    # A label of which the test shows one answer has no AUC.
    both = [k for k, y in enumerate(Y.T) if len(np.unique(y[~np.isnan(y)])) == 2]
    loss = -np.log(np.where(Y == 1, p, 1 - p))[~np.isnan(Y)].mean()
    estimate = on_new_rows(label_auc(eta, T, fold)[0], FOLDS, 1.0)
    share = stack.common / stack.common.sum()
    return {
        "auc": quality(Y[:, both], p[:, both])["auc"],
        "log_loss": round(float(loss), 4),
        "estimate": [round(float(value), 4) for value in estimate],
        "weights": {
            str(found["names"][j]): round(float(w), 2) for j, w in zip(kept, share, strict=True)
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[6, 5], help="of each table")
    parser.add_argument("--draws", nargs="+", type=int, default=[2, 1], help="of each table")
    parser.add_argument("--rows", type=int, default=2500)
    parser.add_argument("--scores", type=Path, help="folder")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    folder = options.scores or Path(tempfile.mkdtemp())
    runs: list[Run] = []
    for table, seeds, draws in zip(options.tables, options.seeds, options.draws, strict=True):
        name = str(np.load(table)["name"])
        for seed, draw in np.ndindex(seeds, draws):
            path = folder / f"{name.split('.')[0]}_{seed}_{draw}_{options.rows}.npz"
            if not path.exists():
                score(table, seed, draw, options.rows, path)
            found = dict(np.load(path))
            weights = np.tile(row_weights(found["group"])[:, None], found["T"].shape[1])
            run: Run = {"table": name, "seed": seed, "draw": draw, "rows": len(found["T"])}
            run["largest"] = int(found["largest"])
            run |= {"rows alike": stacked(found, None), "groups": stacked(found, weights)}
            runs.append(run)
            print(run, flush=True)
            write(options.out, {"runs": runs})


if __name__ == "__main__":
    main()
