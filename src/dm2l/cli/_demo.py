"""The command ``demo``, which imputes attributes of digit images that are mostly hidden."""

import time
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

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
# (key, colour, imputed label, true label)
CASES = (("right", "green", 1, 1), ("wrong", "red", 1, 0), ("missed", "yellow", 0, 1))
LEGEND = """\
Rkl: ranking loss, Ap: average precision, 1err: one-error, AUC: macro AUC.
*: AUC and accuracy of the training labels that were hidden."""


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
    missing labels as negative. All methods are tested on new images and on the hidden labels.

    Example: dm2l demo --rho 0.5 --seed 1
    """
    # With --json, only the result goes to standard output.
    console = Console(stderr=as_json)
    result = _compare(rho, seed, console)
    if as_json:
        shared.echo_json(result)
    else:
        _show(result, console)


def _compare(rho: float, seed: int, console: Console) -> dict[str, Any]:
    """Fit the four methods and evaluate them."""
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
    with shared.progress(console) as tell:
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
            for case, _, imputed, true in CASES
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


def _show(found: dict[str, Any], console: Console) -> None:
    """Print the results and a few completed rows."""
    n_train, n_labels = found["n_train"], found["n_labels"]
    console.print(
        f"[bold]{n_train}[/] training images with [bold]{n_labels}[/] labels each, seed "
        f"{found['seed']}.\n[bold]{found['n_hidden']}[/] of {n_train * n_labels} labels are hidden "
        f"({1 - found['rho']:.0%}).\n"
    )
    table = Table(title=f"{found['n_test']} test images", padding=(0, 0))
    table.add_column("method", no_wrap=True)
    for _, heading, up in COLUMNS:
        table.add_column(f"{heading} {'↑' if up else '↓'}", justify="right")
    table.add_column("fit s", justify="right")
    rows = found["rows"]
    best = {key: (max if up else min)(row[key] for row in rows) for key, _, up in COLUMNS}
    for row in rows:
        shown = {True: "[bold]{:.3f}[/]", False: "{:.3f}"}
        cells = [shown[row[key] == value].format(row[key]) for key, value in best.items()]
        table.add_row(row["method"], *cells, f"{row['seconds']:.2f}")
    console.print(table)
    console.print(LEGEND, style="dim", highlight=False)
    console.print("\nLabels of a few images, imputed by DM2L kernel:")
    for item in found["completed"]:
        known = ", ".join(item["known"]) or "nothing"
        console.print(f"  digit [bold]{item['digit']}[/], known: {known}", highlight=False)
        for key, colour, *_ in CASES:
            if item[key]:
                console.print(f"    {key}: [{colour}]{', '.join(item[key])}[/]", highlight=False)
