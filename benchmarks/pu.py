"""Learning from ticks alone against what else could be made of them.

    python benchmarks/pu.py --out FILE.jsonl [--jobs 16] [--minutes 9] [--seeds 2]
                               [--sets scene yeast] [--masks single] [--methods ticks negative]
    python benchmarks/pu.py --out FILE.jsonl --summary

80 % of the rows are learnt from, after labels were hidden; 10 % are left aside, as in published
studies, but looked at by nobody; the last 10 % are the test, with all of their labels. Masks: one
positive a row; the first three of a row, by popularity; 30 % of the positives, of all labels alike
or more of popular ones; 30 % of the positives and 10 % of the negatives. So that all methods can
be compared, they learn from 1,500 rows at most, are tested on 1,000, and see the 2,000 columns
that most rows have; "single, all rows" has no such limits and is what published figures stand
beside, five seeds. Features are brought to mean 0 and deviation 1, or rows to length 1 where most
entries are zero. Settings of every method are chosen in folds of what was left visible. Results are
lines of JSON; those that are there are not computed again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from pu_summary import PUBLISHED, summarize
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import normalize

from dm2l import DM2LClassifier, DM2LClassifierCV
from dm2l._solvers.features import ridge_value
from dm2l.baselines import LSMLClassifier, MLLRCClassifier
from dm2l.datasets import load_dataset
from dm2l.metrics import label_auc, label_ranking_average_precision, ranking_loss
from dm2l.simulate import simulate_missing_positives, simulate_truncated
from experiments.resumable import options, run, stored

# The cheapest first.
SETS = (
    *("emotions", "Image", "scene", "Enron", "yeast", "Recreation", "Arts", "Business", "Social"),
    *("Tmc2007-500", "Corel16k001", "rcv1subset1", "bibtex"),
)
MASKS = ("single", "stop after 3", "30 %", "30 % by popularity", "30 % and negatives")
ALL_ROWS = "single, all rows"
METHODS = ("ticks", "negative", "missing", "Elkan-Noto", "LSML", "ML-LRC")
ROWS, TEST_ROWS, COLUMNS = 1500, 1000, 2000
EXACT = 2500  # rows up to which a kernel is exact


def hide(Y: Any, mask: str, seed: int) -> Any:
    """What is left of complete labels: 1, perhaps 0, and NaN."""
    if mask in ("single", ALL_ROWS):
        return simulate_truncated(Y, 1, random_state=seed)
    if mask == "stop after 3":
        return simulate_truncated(Y, 3, order="popularity", random_state=seed)
    rates: Any = 0.3
    if mask == "30 % by popularity":
        count = Y.sum(axis=0)
        rates = np.clip(0.3 * np.sqrt(count / np.median(count[count > 0])), 0.1, 0.9)
    ticks = simulate_missing_positives(Y, rates, become="unlabelled", random_state=seed)
    if mask == "30 % and negatives":
        known = np.random.default_rng(seed).random(Y.shape) < 0.1
        ticks = np.where(known & (Y == 0), 0.0, ticks)
    return ticks


class ElkanNoto:
    """Per label, logistic regression of ticks against the rest, divided by its mean over ticks."""

    def fit(self, X: Any, Y: Any) -> ElkanNoto:
        S = Y == 1
        self.models, self.rates = [], []
        for ticks in S.T:
            model, rate = None, 1.0
            if ticks.sum() >= 3:
                model = LogisticRegression(max_iter=100, C=0.1, tol=1e-3)
                told = cross_val_predict(model, X, ticks, cv=3, method="predict_proba")[:, 1]
                rate = max(float(told[ticks].mean()), float(ticks.mean()))
                model.fit(X, ticks)
            self.models.append(model)
            self.rates.append(rate)
        return self

    def predict_proba(self, X: Any) -> Any:
        columns = [
            np.zeros(X.shape[0]) if model is None else model.predict_proba(X)[:, 1] / rate
            for model, rate in zip(self.models, self.rates, strict=True)
        ]
        return np.column_stack(columns)

    decision_function = predict_proba


def ridges(X: Any, kernel: str) -> list[float]:
    """Up to where ticks, which are noisier than complete labels, want them."""
    scale = ridge_value("scale", X) if kernel == "linear" else 1.0
    return [scale * share for share in (0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)]


def searched(X: Any, Y: Any, *, cv: int = 3, norms: bool = False, **settings: Any) -> Any:
    """The better of the linear and the rbf model, by the ranking of what is visible."""
    best = None
    many = {"approximation": "nystroem", "n_components": 1000} if len(X) > EXACT else {}
    scale = 1 / (X.shape[1] * max(float(X.var()), 1e-12))
    for kernel in ("linear", "rbf"):
        grid: dict[str, Any] = {"lambda_ds": [0.0], "alphas": ridges(X, kernel)}
        if kernel == "rbf":
            grid |= {"gammas": [scale / 2, scale, 2 * scale], **many}
        elif norms and Y.shape[1] <= 60:
            grid["lambda_ds"] = [0.0, 0.1]  # the norms are tried where they are cheap
        search = DM2LClassifierCV(
            kernel=kernel,
            scoring="neg_ranking_loss",
            cv=cv,
            refit=False,
            random_state=0,
            **(grid | settings),
        ).fit(X, Y)
        if best is None or search.best_score_ > best.best_score_:
            best = search
    assert best is not None
    return best.set_params(refit=True).fit(X, Y)


def fitted(method: str, X: Any, Y: Any) -> Any:
    """A method, fitted to what is visible."""
    if method == "ticks":
        options: dict[str, Any] = {"alphas": [1.0], "missing_as": "unlabelled"}
        if len(X) > EXACT:  # nothing to choose, and no curves for a thousand labels
            return DM2LClassifier(0.0, alpha=1.0, missing_as="unlabelled").fit(X, Y)
        folds = 6 if Y.shape[1] <= 20 else 3
        return searched(X, Y, cv=folds, calibration="sigmoid", **options)
    if method == "Elkan-Noto":
        return ElkanNoto().fit(X, Y)
    if method in ("LSML", "ML-LRC"):
        model = (LSMLClassifier if method == "LSML" else MLLRCClassifier)(missing="negative")
        return model.set_params(calibration="sigmoid").fit(X, np.nan_to_num(Y))
    labels = np.nan_to_num(Y) if method == "negative" else Y
    if len(X) > EXACT:
        options = {"alphas": ridges(X, "linear"), "scoring": "neg_ranking_loss"}
        return DM2LClassifierCV(lambda_ds=[0.0], coupling=None, **options).fit(X, labels)
    return searched(X, labels, norms=True, calibration="sigmoid", coupling=None)


def split(data: str, mask: str, seed: int) -> tuple[Any, Any, Any, Any]:
    """Rows and labels to learn from, and to test on."""
    found = load_dataset(data)
    X, Y = sp.csr_array(found.data), np.asarray(found.target, dtype=np.float64)
    order = np.random.RandomState(seed).permutation(len(Y))
    train, test = order[: int(0.8 * len(Y))], order[int(0.9 * len(Y)) :]
    if mask != ALL_ROWS:
        train, test = train[:ROWS], test[:TEST_ROWS]
    often = np.argsort(-np.diff(X[train].tocsc().indptr), kind="stable")[:COLUMNS]
    X = X[:, np.sort(often)]
    if X.nnz < 0.5 * np.prod(X.shape):
        X_train, X_test = (normalize(X[rows]).toarray() for rows in (train, test))
    else:
        X_train, X_test = X[train].toarray(), X[test].toarray()
        mean, deviation = X_train.mean(axis=0), X_train.std(axis=0)
        deviation = np.where(deviation > 0, deviation, 1.0)
        X_train, X_test = (X_train - mean) / deviation, (X_test - mean) / deviation
    return X_train, Y[train], X_test, Y[test]


def compute(data: str, mask: str, seed: int, method: str) -> dict[str, Any]:
    """One method on one set."""
    X, Y, X_test, truth = split(data, mask, seed)
    shown = hide(Y, mask, seed)
    ticked = (shown == 1).any(axis=0)
    if method == "missing" and not (shown == 0).any():
        return {"reason": "no negatives: nothing can be fitted"}
    if method == "ML-LRC" and X.shape[1] * len(ticked) > 150_000:
        return {"reason": "too large"}
    model = fitted(method, X, shown[:, ticked])
    # Labels that nobody ticked come last.
    scores, p = np.full(truth.shape, -np.inf), np.zeros(truth.shape)
    scores[:, ticked], p[:, ticked] = model.decision_function(X_test), model.predict_proba(X_test)
    rows = (truth == 1).any(axis=1) & (truth == 0).any(axis=1)
    last = np.where(np.isfinite(scores), scores, scores[:, ticked].min() - 1)[rows]
    row = {"rkl": float(ranking_loss(truth[rows], last))}
    share, prior = Y[:, ticked].mean(axis=0), getattr(model, "class_prior_", None)
    enough = Y[:, ticked].sum(axis=0) >= 50
    if prior is not None and enough.any():
        row["prior"] = float(np.median(np.abs(prior - share)[enough]))
        row["prior error"] = float(np.median(model.class_prior_error_[enough]))
    if mask == ALL_ROWS:
        return row
    both = [k for k in np.flatnonzero(ticked) if 0 < truth[:, k].sum() < len(truth)]
    row |= {
        "auc": float(label_auc(truth[:, both], scores[:, both])),
        "map": float(np.mean([average_precision_score(truth[:, k], scores[:, k]) for k in both])),
        "ap": float(label_ranking_average_precision(truth[rows], last)),
    }
    # Of labels with enough positives, how far the mean probability in the test is from their share.
    sure = np.clip(p[:, ticked], 0.001, 0.999)
    row["logloss"] = float(-np.mean(np.log(np.where(truth[:, ticked] == 1, sure, 1 - sure))))
    if enough.any():
        off = np.abs(p[:, ticked].mean(axis=0) / share - 1)[enough]
        row |= {"share": float(np.median(off)), "within": float(np.mean(off <= 0.1))}
    return row


def main() -> None:
    """Run or sum up."""
    parser = options(__doc__, "results/pu.json", 2)
    parser.add_argument("--masks", nargs="+", default=[*MASKS, ALL_ROWS])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    args = parser.parse_args()
    if args.summary:
        summarize(stored(args.out))
        return
    cells = [
        {"data": data, "mask": mask, "seed": seed, "method": method}
        for seed in range(max(args.seeds, 5))
        for data in (*(args.sets or SETS), *PUBLISHED)
        for mask in args.masks
        for method in args.methods
        if (args.sets is None or data in args.sets)
        and (mask == ALL_ROWS if data == "delicious" or seed >= args.seeds else True)
        and (mask != ALL_ROWS or (data in PUBLISHED and method in ("ticks", "negative")))
    ]
    cells = list({tuple(cell.values()): cell for cell in cells}.values())
    run(compute, cells, args)


if __name__ == "__main__":
    main()
