"""Commands of ``dm2l``."""

from __future__ import annotations

import click
from rich.console import Console

from dm2l import __version__
from dm2l.cli._bench import bench_command
from dm2l.cli._complete import complete_command
from dm2l.cli._demo import run_demo
from dm2l.cli._evaluate import evaluate_command
from dm2l.cli._explain import explain_command
from dm2l.cli._fit import fit_command
from dm2l.cli._inspect import inspect_command
from dm2l.cli._predict import predict_command
from dm2l.cli._review import review_command
from dm2l.cli._suggest import suggest_command
from dm2l_lab.cli._experiment import experiment
from dm2l_lab.cli._report import report_results


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dm2l")
def cli() -> None:
    """Multi-label learning when labels are missing."""


for command in (
    inspect_command,
    fit_command,
    complete_command,
    predict_command,
    evaluate_command,
    suggest_command,
    review_command,
    explain_command,
    experiment,
    bench_command,
):
    cli.add_command(command)
experiment.add_command(report_results)


@cli.command()
@click.option(
    "--rho",
    type=click.FloatRange(0.05, 1.0),
    default=0.3,
    show_default=True,
    help="Share of the training labels that stays observed.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of split and mask.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON and nothing else.")
def demo(rho: float, seed: int, as_json: bool) -> None:
    """Hide labels of real digit images, learn from the rest, and fill in the holes.

    DM2L (linear and kernel) against ridge on the observed labels and against taking every hole
    for a "no". Scores are for rows nobody trained on and for the hidden entries themselves.

    Example: dm2l demo --rho 0.5 --seed 1
    """
    # Progress and tables for people; with --json only the result goes to standard output.
    console = Console(stderr=as_json)
    result = run_demo(rho, seed, console)
    if as_json:
        click.echo(result.to_json())
    else:
        result.show(console)
