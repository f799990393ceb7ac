"""``dm2l experiment report``: results as a page and as tables."""

from __future__ import annotations

import itertools
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import click

from dm2l_lab import CONVENTIONS, Store
from dm2l_lab.cli._modules import module_option

# What a wrong argument can raise further down.
_MISUSE = (ValueError, OSError)


@click.command("report")
@click.option(
    "--store",
    "path",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The SQLite file with the results.",
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The HTML file to write.",
)
@module_option
@click.option(
    "--protocol",
    metavar="NAME",
    help="Only this protocol; A+B reads two as one, when their data sets differ.",
)
@click.option(
    "--tables",
    "folder",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the tables as Markdown and LaTeX into this folder, too.",
)
@click.option(
    "--study",
    "studied",
    metavar="DATASET",
    multiple=True,
    help="Add figures of a data set that need fits of their own: ranks of its labels, convergence, "
    "sensitivity to lambda_d and sigma (one repetition). Can be given several times; minutes each.",
)
@click.option(
    "--convention",
    type=click.Choice(CONVENTIONS),
    default="published",
    show_default=True,
    help="How metrics treat rows in which they are undefined.",
)
def report_results(
    path: Path,
    output: Path,
    protocol: str | None,
    folder: Path | None,
    studied: tuple[str, ...],
    convention: str,
) -> None:
    """Write the results as one HTML page that needs nothing beside it.

    Tables of all measures, the published figures beside ours, DM2L beside ridge, tests of
    significance, failures, and the rows behind every number.

    Example: dm2l experiment report --store results.db -o report.html --tables tables --study Arts
    """
    if not find_spec("jinja2"):
        raise click.UsageError("Pages are written by jinja2: pip install 'dm2l[lab]'")
    from dm2l_lab._results import read_results
    from dm2l_lab.paper.study import study, study_figures
    from dm2l_lab.report import Figure, report, store_figures, write_tables

    if studied and not find_spec("matplotlib"):
        raise click.UsageError(
            "--study draws figures and needs matplotlib: pip install 'dm2l[plot]'"
        )
    try:
        say = partial(click.echo, err=True)
        studies = [study(name, repetitions=1, progress=say) for name in studied]
        with Store(path, read_only=True) as store:
            figures: list[Figure] = []
            if find_spec("matplotlib"):
                figures = store_figures(store, protocol=protocol, convention=convention)
                figures += itertools.chain.from_iterable(map(study_figures, studies))
            report(store, output, protocol=protocol, convention=convention, figures=figures)
            click.echo(str(output))
            if left_out := sum(results.left_out for results in read_results(store, protocol)):
                click.echo(
                    f"{left_out} rows are left out: they are no cells of the protocol as it is "
                    "now, with other settings for example.",
                    err=True,
                )
            if folder is not None:
                written = write_tables(store, folder, protocol=protocol, convention=convention)
                click.echo(f"{len(written)} files: {folder}")
    except _MISUSE as error:
        raise click.UsageError(str(error)) from error
