"""``dm2l explain``: what a model relies on."""

from __future__ import annotations

from pathlib import Path

import click

from dm2l.cli import _table_options as shared
from dm2l.cli._printable import say
from dm2l.tables import explain_model, load_bundle


@click.command("explain")
@shared.model_argument
@click.option("--label", help="Only this label.")
@click.option(
    "--top",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Features and labels to name for each label.",
)
@shared.seed_option
@shared.json_option
def explain_command(
    model_path: Path, label: str | None, top: int, seed: int, as_json: bool
) -> None:
    """Say which features carry the labels of MODEL, and which labels move together.

    Features of a linear model come with their coefficients; numbers have unit variance, so that
    coefficients compare. For a kernel model the number says how far the label's score moves when
    the column is shuffled among training rows.

    Example: dm2l explain assays.dm2l --label tox_liver
    """
    with shared.data_problems():
        model = load_bundle(model_path)
        found = explain_model(model, label, top=top, seed=seed)
    if as_json:
        shared.echo_json({"kernel": model.settings.kernel, "labels": found})
        return
    linear = model.settings.kernel == "linear"
    for item in found:
        say(item.label)
        for name, value in item.features:
            say(f"  {value:+.3f}  {name}" if linear else f"  {value:.3f}  {name}")
        if item.together:
            listed = ", ".join(f"{name} ({value:+.2f})" for name, value in item.together)
            say(f"  moves with: {listed}")
