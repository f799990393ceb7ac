"""``dm2l review``: a page on which a person answers holes."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any

import click

from dm2l.cli import _table_options as shared
from dm2l.cli._labelstudio import config_option, exchange, file_type, unchosen_option
from dm2l.cli._table_options import say
from dm2l.labelstudio import AnnotationSession
from dm2l.review import Journal, ReviewSession, serve
from dm2l.review._server import check_host
from dm2l.tables._filled import check_form


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
@shared.port_option(0)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option(
    "--import",
    "annotated",
    type=file_type,
    metavar="ANNOTATED",
    help="Instead of the page: take the annotations that Label Studio has exported as JSON.",
)
@click.option(
    "--export",
    "export_to",
    type=click.Choice(["labelstudio"]),
    help="Instead of the page: write tasks for Label Studio to -o, and print a labelling "
    "configuration for them.",
)
@config_option
@unchosen_option
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
    annotated: Path | None,
    export_to: str | None,
    config: Path | None,
    unchosen: str,
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
    if export_to and output is None:
        raise click.UsageError("--export needs a file to write to: pass -o tasks.json.")
    try:
        check_host(host)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    session = open_session(
        AnnotationSession if annotated or export_to else ReviewSession,
        (model_path, path, answers),
        {"--output": output, "--save-model": save_model},
        reading,
        force=force,
        tasks=bool(export_to),
        top=top,
    )
    if isinstance(session, AnnotationSession):
        tasks = output if export_to else None
        with shared.data_problems(), session.journal:
            exchange(session, annotated, config, unchosen, tasks, top, as_json)
            if output is not None and not export_to:
                session.export(output)
        return

    def announce(url: str) -> None:
        progress = session.progress
        if as_json:
            say(json.dumps({"url": url, **progress._asdict()}))
        else:
            say(f"{progress.decided} of {progress.suggested} holes answered or skipped.")
            say(f"Review: {url}")
            say("Ctrl-C ends.")
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


def open_session(
    kind: type[ReviewSession],
    given: tuple[Path, Path, Path],
    outputs: Mapping[str, Path | None],
    reading: dict[str, Any],
    *,
    force: bool,
    tasks: bool = False,
    top: int | None = None,
) -> Any:
    """A session on a model, a table and a journal; whoever serves it closes it.

    ``outputs`` are files to be written, by option; with ``tasks`` the table is not among them.
    """
    model_path, path, answers = given
    written = {option: file for option, file in outputs.items() if file is not None}
    # What an earlier review has written is its own: the journal says what.
    shared.check_outputs(force or answers.exists(), *written.values())
    _check_names({"MODEL": model_path, "TABLE": path, "--answers": answers} | written)
    with shared.data_problems(), shared.progress() as tell:
        tell(f"reading {path.name}")
        model, table = shared.open_both(model_path, path, **reading)
        if "--output" in written and not tasks:
            check_form(table, written["--output"])
        tell("ranking")
        with ExitStack() as stack:
            journal = stack.enter_context(Journal(answers, table))
            if not force:
                _check_own(journal, written.values())
            session = kind(
                model,
                table,
                journal,
                top=top,
                missing=reading["missing"],
                save_model=written.get("--save-model"),
            )
            for file in written.values():
                journal.own(file)
            stack.pop_all()
    shared.warn([*session.warnings, *filter(None, [journal.dropped])])
    return session


def _check_own(journal: Journal, outputs: Iterable[Path]) -> None:
    """Refuse to overwrite what the journal does not name."""
    for path in outputs:
        if path.exists() and not journal.owns(path):
            raise click.UsageError(
                f"{path} exists, and {journal.path} does not say that this review writes it; "
                "--force overwrites it, and from then on it is the review's own."
            )


def _check_names(named: Mapping[str, Path]) -> None:
    """Refuse to write over what is read."""
    answers = named["--answers"]
    if not answers.parent.is_dir():
        raise click.UsageError(f"There is no folder {answers.parent} to write {answers.name} to.")
    seen: dict[Path, str] = {}
    for name, path in named.items():
        other = seen.setdefault(path.resolve(), name)
        if other != name:
            raise click.UsageError(f"{other} and {name} are the same file, {path}.")
