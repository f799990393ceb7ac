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
from dm2l.cli._table_options import say
from dm2l.review import Journal, ReviewSession, check_host, serve
from dm2l.tables import check_form


@click.command("review")
@shared.model_argument
@shared.table_argument
@shared.new_file_option(
    "--answers",
    required=True,
    metavar="ANSWERS",
    help="The file in which answers are kept (JSON lines); if it exists, the review goes on there.",
)
@shared.new_file_option(
    "-o",
    "--output",
    metavar="EXPORTED",
    help="The file for TABLE with the answers, of the same form: written by the page's export and "
    "at the end.",
)
@shared.new_file_option(
    "--save-model",
    metavar="REFITTED",
    help="The file for the model, written after each refit on the page.",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    help="Ask about this many holes in all; without it, about every hole.",
)
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
    save_model: Path | None,
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
    # What an earlier review has written is its own: the journal says what.
    shared.check_outputs(force or answers.exists(), output, save_model)
    _check_names(model_path, path, answers, output, save_model)
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
        with ExitStack() as stack:
            journal = stack.enter_context(Journal(answers, table))
            outputs = [given for given in (output, save_model) if given is not None]
            if not force:
                _check_own(journal, outputs)
            session = ReviewSession(
                model, table, journal, top=top, missing=reading["missing"], save_model=save_model
            )
            for given in outputs:
                journal.own(given)
            stack.pop_all()  # from here on whoever serves the session closes it
    shared.warn([*session.warnings, *filter(None, [session.journal.dropped])])

    def announce(url: str) -> None:
        progress = session.progress
        if as_json:
            say(json.dumps({"url": url, **progress._asdict()}))
        else:
            say(f"{progress.decided} of {progress.suggested} holes answered or skipped.")
            say(f"Review: {url}\nCtrl-C ends.")
        if not no_browser:  # some browsers keep their caller until they are closed
            Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    with shared.data_problems(), session.journal:
        serve(session, host=host, port=port, output=output, announce=announce)
        if output is not None:
            session.export(output)
    progress = session.progress
    saved = save_model if session.saved else None
    if as_json:
        written = {"answers": answers, "output": output, "model": saved}
        say(json.dumps({name: path and str(path) for name, path in written.items()}))
        return
    say(f"{progress.answered} answers, {progress.skipped} skipped: {answers}")
    if output is not None:
        say(f"Table with the answers: {output}")
    if saved is not None:
        say(f"Model with the answers: {saved}")


def _check_own(journal: Journal, outputs: Sequence[Path]) -> None:
    """Refuse to overwrite what the journal does not name."""
    for path in outputs:
        if path.exists() and not journal.owns(path):
            raise click.UsageError(
                f"{path} exists, and {journal.path} does not say that this review writes it; "
                "--force overwrites it, and from then on it is the review's own."
            )


def _check_names(
    model: Path, table: Path, answers: Path, output: Path | None, save_model: Path | None
) -> None:
    """Refuse to write over what is read."""
    if not answers.parent.is_dir():
        raise click.UsageError(f"There is no folder {answers.parent} to write {answers.name} to.")
    named = {"MODEL": model, "TABLE": table, "--answers": answers}
    if output is not None:
        named["--output"] = output
    if save_model is not None:
        named["--save-model"] = save_model
    seen: dict[Path, str] = {}
    for name, path in named.items():
        other = seen.setdefault(path.resolve(), name)
        if other != name:
            raise click.UsageError(f"{other} and {name} are the same file, {path}.")
