"""Texts: `dm2l fit` against logistic regression on n-grams of words and letters.

    python benchmarks/text.py --out FILE.jsonl [--seeds 1] [--methods logistic quick normal]
    python benchmarks/text.py --out FILE.jsonl --summary

The data are docstrings of installed packages (`benchmarks/docstrings.py`), cut after 500
characters. A fit gets 4,000 rows, of which half of the label entries are hidden, and predicts 3,000
others. The rival has one classifier a label, fitted to the rows where the label was observed.
Seconds are those of the processor, in all processes, of fit and prediction. `--name` tells versions
of dm2l apart.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from docstrings import load
from record import write
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score

from dm2l.tables import FitOptions, explain_model, fit_table, save_bundle, table_from_frame

TRAIN, TEST, LONGEST, HIDDEN = 4000, 3000, 500, 0.5


def seconds() -> float:
    """Processor time of this process and of ended ones that it started."""
    passed = os.times()
    return passed.user + passed.system + passed.children_user + passed.children_system


def rival(texts: Any, Y: Any, new: Any, C: float) -> Any:
    """Scores of new texts by logistic regression on the observed entries of each label."""
    makers = (
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), min_df=2, sublinear_tf=True),
    )
    X = sp.hstack([maker.fit_transform(texts) for maker in makers]).tocsr()
    X_new = sp.hstack([maker.transform(new) for maker in makers]).tocsr()
    scores = np.zeros((len(new), Y.shape[1]))
    for k, y in enumerate(Y.T):
        rows = ~np.isnan(y)
        model = LogisticRegression(C=C, max_iter=1000).fit(X[rows], y[rows])
        scores[:, k] = model.decision_function(X_new)
    return scores


def compute(method: str, seed: int) -> dict[str, Any]:
    """Measures of one method on rows that it was not fitted to."""
    data = load()
    texts = np.array([text[:LONGEST] for text in data.texts], dtype=object)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(texts))
    train, test = order[:TRAIN], order[TRAIN : TRAIN + TEST]
    Y, truth = data.Y[train], data.Y[test]
    Y[rng.random(Y.shape) < HIDDEN] = np.nan
    row: dict[str, Any] = {}
    start = seconds()
    if method.startswith("logistic"):
        P = rival(texts[train], Y, texts[test], float(method.split("=")[1]))
        row["seconds"] = seconds() - start
    else:
        frame = pd.DataFrame(Y, columns=data.names).assign(text=texts[train])
        model = fit_table(table_from_frame(frame, data.names), FitOptions(effort=method))
        P = model.answer(pd.DataFrame({"text": texts[test]}))[1]
        row["seconds"] = seconds() - start
        board = model.classifier.leaderboard_
        row["weights"] = dict(zip(board["model"], board["weight"], strict=True))
        start = seconds()
        explain_model(model)
        row["explain seconds"] = seconds() - start
        with TemporaryDirectory() as folder:
            save_bundle(model, Path(folder, "text.dm2l"))
            row["megabytes"] = Path(folder, "text.dm2l").stat().st_size / 1e6
    labels = range(Y.shape[1])
    row["auc"] = float(np.mean([roc_auc_score(truth[:, k], P[:, k]) for k in labels]))
    row["ap"] = float(np.mean([average_precision_score(truth[:, k], P[:, k]) for k in labels]))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    methods = ("logistic C=1", "logistic C=10", "quick", "normal")
    parser.add_argument("--out", type=Path, required=True, help="lines of JSON")
    parser.add_argument("--methods", nargs="+", choices=methods, default=methods)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--name", default="dm2l", help="version that is measured")
    parser.add_argument("--summary", action="store_true")
    given = parser.parse_args()
    if given.summary:
        rows = [json.loads(line) for line in given.out.read_text().splitlines()]
        settings = {"rows": TRAIN, "test rows": TEST, "characters": LONGEST, "hidden": HIDDEN}
        write(Path(__file__).parent / "results" / "text.json", settings | {"runs": rows})
        return
    for seed in given.seeds:
        for method in given.methods:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = {"name": given.name, "method": method, "seed": seed}
                found |= compute(method, seed)
            print(found, flush=True)
            with given.out.open("a") as file:
                file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
