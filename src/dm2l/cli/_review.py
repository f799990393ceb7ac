"""``dm2l review``: a page on which a person answers holes."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any

import click

from dm2l.cli import _table_options as shared
from dm2l.review import Journal, ReviewSession, serve
from dm2l.review._server import check_host
from dm2l.tables import Table, TableModel
from dm2l.tables._filled import check_form


@click.command("review")
@shared.model_argument
@shared.table_argument
@click.option(
    "--answers",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="ANSWERS",
    help="The file in which answers are kept (JSON lines); one that is there is gone on with.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="EXPORTED",
    help="The file for TABLE with the answers, of the same form: written by the page's export and "
    "at the end.",
)
@click.option("--top", type=click.IntRange(1), help="Ask for so many holes in all, not for each.")
@click.option("--host", default="127.0.0.1", show_default=True, help="127.0.0.1 or ::1.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="0 takes one that is free.",
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@shared.reading_options
@shared.force_option
@shared.json_option
def review_command(
    model_path: Path,
    path: Path,
    answers: Path,
    output: Path | None,
    top: int | None,
    host: str,
    port: int,
    no_browser: bool,
    force: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Answer the holes of TABLE that help MODEL most, on a page in the browser.

    The page shows a row, what the model believes and why it asks; y, n and s answer yes, no and
    skip. Each answer is on disk at once; the same command goes on where one has ended. Only this
    machine can open the page, with the address that is printed. Ctrl-C ends it.

    Example: dm2l review assays.dm2l assays.csv --answers answers.jsonl -o answered.csv
    """
    shared.check_outputs(force or answers.exists(), output)  # that of an earlier review is its own
    _check_names(model_path, path, answers, output)
    try:
        check_host(host)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    with shared.data_problems(), shared.progress() as tell:
        tell(f"reading {path.name}")
        model, table = shared.open_both(model_path, path, **reading)
        if output is not None:
            check_form(table, output)
        tell("ranking")
        session = _begin(model, table, answers, top, reading["missing"])
    shared.warn([*session.warnings, *filter(None, [session.journal.dropped])])

    def announce(url: str) -> None:
        progress = session.progress
        if as_json:
            click.echo(json.dumps({"url": url, **progress._asdict()}))
        else:
            click.echo(f"{progress.decided} of {progress.suggested} holes answered or skipped.")
            click.echo(f"Review: {url}\nCtrl-C ends.")
        if not no_browser:  # some browsers keep their caller until they are closed
            Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    with shared.data_problems(), session.journal:
        serve(session, host=host, port=port, output=output, announce=announce)
        if output is not None:
            session.export(output)
    progress = session.progress
    if as_json:
        click.echo(json.dumps({"answers": str(answers), "output": output and str(output)}))
        return
    click.echo(f"{progress.answered} answers, {progress.skipped} skipped: {answers}")
    if output is not None:
        click.echo(f"Table with the answers: {output}")


def _begin(
    model: TableModel, table: Table, answers: Path, top: int | None, missing: Sequence[str]
) -> ReviewSession:
    with ExitStack() as stack:
        journal = stack.enter_context(Journal(answers, table))
        session = ReviewSession(model, table, journal, top=top, missing=missing)
        stack.pop_all()  # from here on whoever serves the session closes it
        return session


def _check_names(model: Path, table: Path, answers: Path, output: Path | None) -> None:
    """Refuse to write over what is read."""
    if not answers.parent.is_dir():
        raise click.UsageError(f"{answers.parent} is no folder to write {answers.name} to.")
    named = {"MODEL": model, "TABLE": table, "--answers": answers}
    if output is not None:
        named["--output"] = output
    seen: dict[Path, str] = {}
    for name, path in named.items():
        other = seen.setdefault(path.resolve(), name)
        if other != name:
            raise click.UsageError(f"{other} and {name} are the same file, {path}.")
