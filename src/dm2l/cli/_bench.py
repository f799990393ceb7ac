"""``dm2l bench``: what a fit costs on this machine, next to scikit-learn's Ridge."""

from __future__ import annotations

import platform
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import click
import numpy as np
import scipy
import sklearn
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import Ridge

from dm2l import ConstantLabelWarning, DM2LClassifier, __version__
from dm2l.baselines import MaskedRidgeClassifier
from dm2l.cli import _table_options as shared
from dm2l.datasets import make_missing_multilabel
from dm2l.threads import blas_thread_count

RIDGE = "Ridge, holes as 0"


@click.command("bench")
@click.option("--rows", type=click.IntRange(50), default=3000, show_default=True, help="Rows.")
@click.option("--features", type=click.IntRange(2), default=400, show_default=True, help="Columns.")
@click.option("--labels", type=click.IntRange(2), default=26, show_default=True, help="Labels.")
@click.option(
    "--rho",
    type=click.FloatRange(0.05, 1.0),
    default=0.3,
    show_default=True,
    help="Share of the labels that is observed.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="How often each model is fitted.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the data.")
@shared.json_option
def bench_command(
    rows: int, features: int, labels: int, rho: float, repeats: int, seed: int, as_json: bool
) -> None:
    """Time fits to generated data on this machine.

    Every round fits each model once, and a ratio is that of the medians: on a busy machine only
    ratios of one run mean anything.

    Example: dm2l bench --rows 20000 --labels 50
    """
    half = labels // 2
    with shared.progress() as tell:
        tell("making data")
        X, Y = make_missing_multilabel(
            rows,
            features,
            labels,
            n_implications=min(4, half * (labels - half)),
            rho=rho,
            random_state=seed,
        )
        found = measure(X, Y, repeats, tell)
    record: dict[str, Any] = {
        "rows": rows,
        "features": features,
        "labels": labels,
        "rho": rho,
        "repeats": repeats,
        "seed": seed,
        "results": found,
        "machine": _machine(),
    }
    if as_json:
        shared.echo_json(record)
    else:
        _show(record)


def measure(
    X: Any, Y: Any, repeats: int, tell: Callable[[str], None]
) -> dict[str, dict[str, float | int]]:
    """Median seconds of every model, in rounds, and seconds over those of Ridge."""
    filled = np.nan_to_num(2.0 * Y - 1.0)
    models: dict[str, tuple[Any, Any]] = {
        RIDGE: (Ridge(alpha=10.0), filled),
        "masked ridge": (MaskedRidgeClassifier(alpha=10.0), Y),
        "DM2L linear": (DM2LClassifier(alpha=10.0, lambda_d=0.3), Y),
        "DM2L kernel": (DM2LClassifier(kernel="rbf", alpha=1.0, lambda_d=0.3), Y),
    }
    times: dict[str, list[float]] = {name: [] for name in models}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantLabelWarning)  # rare labels cost what others do
        for name, (model, labels) in models.items():
            tell(f"warming up: {name}")
            model.fit(X, labels)
        for turn in range(1, repeats + 1):
            for name, (model, labels) in models.items():
                tell(f"round {turn} of {repeats}: {name}")
                start = time.perf_counter()
                model.fit(X, labels)
                times[name].append(time.perf_counter() - start)
    middle = {name: statistics.median(spent) for name, spent in times.items()}
    found: dict[str, dict[str, float | int]] = {}
    for name, (model, _) in models.items():
        found[name] = {"seconds": middle[name], "over_ridge": middle[name] / middle[RIDGE]}
        if isinstance(model, DM2LClassifier):
            found[name]["evaluations"] = int(model.n_evaluations_)
    return found


def _machine() -> dict[str, Any]:
    return {
        "platform": platform.platform(),
        "threads": blas_thread_count(),
        "python": platform.python_version(),
        "dm2l": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def _show(record: dict[str, Any]) -> None:
    table = Table(
        title=f"{record['rows']} rows, {record['features']} features, {record['labels']} labels, "
        f"{record['rho']:.0%} observed"
    )
    table.add_column("model")
    for heading in ("seconds", "over Ridge", "evaluations"):
        table.add_column(heading, justify="right")
    for name, found in record["results"].items():
        table.add_row(
            name,
            f"{found['seconds']:.3g}",
            f"{found['over_ridge']:.1f}",
            str(found.get("evaluations", "")),
        )
    console = Console()
    console.print(table)
    machine = record["machine"]
    console.print(
        f"{machine['threads']} BLAS threads, numpy {machine['numpy']}, scikit-learn "
        f"{machine['scikit-learn']}, dm2l {machine['dm2l']}",
        style="dim",
    )
