"""The command ``demo``, which imputes hidden attributes of digit images."""

import time
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from dm2l._classifier import DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier
from dm2l.cli import _shared as shared
from dm2l.datasets import load_digit_attributes
from dm2l.labels import LabelMatrix
from dm2l.metrics import evaluate
from dm2l.simulate import simulate_uniform

N_TRAIN = 1100
ROWS_IN_WORDS = 4
# (key, heading, whether higher is better)
COLUMNS = (
    ("ranking_loss", "Rkl", False),
    ("label_ranking_average_precision", "Ap", True),
    ("one_error", "1err", False),
    ("label_auc", "AUC", True),
    ("hidden_auc", "AUC*", True),
    ("hidden_accuracy", "acc*", True),
)
# (key, imputed label, true label)
CASES = (("right", 1, 1), ("wrong", 1, 0), ("missed", 0, 1))
LEGEND = (
    "Rkl: ranking loss; Ap: label ranking average precision; 1err: one-error.",
    "AUC: macro AUC; AUC* and acc*: AUC and accuracy on the hidden training labels.",
)


@click.command("demo")
@click.option(
    "--rho",
    type=click.FloatRange(0.05, 1.0),
    default=0.3,
    help="Share of the training labels that stay observed.",
)
@click.option("--seed", default=0, help="Random seed of the split and of the hidden labels.")
@shared.json_option
def demo_command(rho: float, seed: int, as_json: bool) -> None:
    """Impute hidden labels of digit images and compare methods.

    DM2L (linear and kernel) is compared with ridge on the observed labels and with ridge that reads
    missing labels as negative. All methods are tested on new images and on hidden training labels.

    Example: dm2l demo --rho 0.5 --seed 1
    """
    result = _compare(rho, seed)
    if as_json:
        shared.echo_json(result)
    else:
        _show(result)


def _compare(rho: float, seed: int) -> dict[str, Any]:
    """Fit four methods to digit images with hidden labels, and return metrics and predictions."""
    data = load_digit_attributes()
    order = np.random.RandomState(seed).permutation(len(data.target))
    train, test = order[:N_TRAIN], order[N_TRAIN:]
    X, truth = data.data[train], data.target[train]
    Y = simulate_uniform(truth, rho, random_state=seed)
    hidden = np.isnan(Y)
    methods: list[tuple[str, Any, NDArray[Any]]] = [
        ("ridge, missing = no", MaskedRidgeClassifier(), np.nan_to_num(Y)),
        ("masked ridge", MaskedRidgeClassifier(), Y),
        ("DM2L linear", DM2LClassifier(), Y),
        ("DM2L kernel", DM2LClassifier(kernel="rbf"), Y),
    ]
    rows = []
    with shared.progress() as tell:
        for name, model, labels in methods:
            tell(f"fitting {name}")
            start = time.perf_counter()
            model.fit(X, labels)
            seconds = time.perf_counter() - start
            found = evaluate(data.target[test], model.decision_function(data.data[test]))
            imputed = evaluate(
                LabelMatrix.from_array(truth, mask=hidden),
                model.decision_function(X),
                y_pred=model.predict(X),
                estimate=False,
            )
            measured = {key: found[key].value for key, *_ in COLUMNS if key in found}
            auc, accuracy = imputed["label_auc"].value, 1 - imputed["hamming_loss"].value
            measured |= {"hidden_auc": auc, "hidden_accuracy": accuracy, "seconds": seconds}
            rows.append({"method": name, **measured})
    filled = methods[-1][1].complete(X, Y)
    names = np.asarray(data.target_names)
    completed = []
    for i in range(ROWS_IN_WORDS):
        known = [*names[Y[i] == 1], *(f"not {name}" for name in names[Y[i] == 0])]
        made = {
            case: list(names[hidden[i] & (filled[i] == imputed) & (truth[i] == true)])
            for case, imputed, true in CASES
        }
        completed.append({"digit": int(data.digit[train[i]]), "known": known, **made})
    return {
        "rho": rho,
        "seed": seed,
        "n_train": len(train),
        "n_test": len(test),
        "n_labels": truth.shape[1],
        "n_hidden": int(hidden.sum()),
        "rows": rows,
        "completed": completed,
    }


def _show(found: dict[str, Any]) -> None:
    """Print the metrics of all methods and the imputed labels of a few images."""
    n, c = found["n_train"], found["n_labels"]
    shared.say(
        f"{n} training images with {c} labels each, seed {found['seed']}.",
        f"{found['n_hidden']} of {n * c} labels are hidden ({1 - found['rho']:.0%}).",
    )
    headings = [f"{heading} {'↑' if up else '↓'}" for _, heading, up in COLUMNS]
    cells = [
        (row["method"], *(f"{row[key]:.3f}" for key, *_ in COLUMNS), f"{row['seconds']:.2f}")
        for row in found["rows"]
    ]
    shared.show_grid(("method", *headings, "fit s"), cells, f"{found['n_test']} test images")
    shared.say(*LEGEND, "", "Labels of a few images, imputed by DM2L kernel:")
    for item in found["completed"]:
        known = ", ".join(item["known"]) or "nothing"
        parts = (f"  {key}: {', '.join(item[key])}" for key, *_ in CASES if item[key])
        shared.say(*shared.wrapped(f"digit {item['digit']}, known: {known}", 80), *parts)
