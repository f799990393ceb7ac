"""``dm2l review`` and ``dm2l backend``: people label, on a page or in Label Studio."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any

import click

from dm2l.cli import _shared as shared
from dm2l.cli._shared import say
from dm2l.labelstudio import (
    AnnotationSession,
    Backend,
    BackendServer,
    make_config,
)
from dm2l.labelstudio._server import kept_token, serve_backend
from dm2l.labelstudio._tasks import export_tasks, import_annotations
from dm2l.review import Journal, ReviewSession, serve
from dm2l.review._server import check_host
from dm2l.review._web import LOOPBACK
from dm2l.tables._filled import check_form

_unchosen_option = click.option(
    "--unchosen",
    type=click.Choice(["no", "skip"]),
    default="no",
    show_default=True,
    help="How to read a choice that an annotator has not made: a no, or no answer.",
)
_save_option = shared.file_option(
    "REFITTED", "The file for the model, written after each refit.", "--save-model"
)


@click.command("review")
@shared.model_argument
@shared.table_argument
@shared.file_option(
    "ANSWERS",
    "The file in which answers are kept (JSON lines); if it exists, the review goes on there.",
    "--answers",
    required=True,
)
@shared.file_option(
    "EXPORTED",
    "The file for TABLE with the answers, of the same form: written by the page's export and at "
    "the end.",
)
@_save_option
@click.option(
    "--top",
    type=click.IntRange(1),
    help="Ask about this many missing labels in all; without it, about every one.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="127.0.0.1 or ::1.")
@shared.port_option(0)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@shared.file_option(
    "ANNOTATED",
    "Instead of the page: take the annotations that Label Studio has exported as JSON.",
    "--import",
    "annotated",
    new=False,
)
@click.option(
    "--export",
    "export_to",
    type=click.Choice(["labelstudio"]),
    help="Instead of the page: write tasks for Label Studio to -o, and print a labelling "
    "configuration for them.",
)
@shared.file_option(
    "CONFIG",
    "The labelling configuration of the project that --import comes from, if it is another than "
    "--export has printed.",
    "--config",
    new=False,
)
@_unchosen_option
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
    """Answer the most valuable missing labels of TABLE on a page in the browser.

    The page shows a row, the probability of a yes and the value of an answer; y, n and s answer
    yes, no and skip. Each answer is on disk at once; the same command continues a review. Only this
    machine can open the page, with the address that is printed. Ctrl-C ends it.

    Example: dm2l review assays.dm2l assays.csv --answers answers.jsonl -o answered.csv
    """
    if export_to and output is None:
        raise click.UsageError("--export needs a file to write to: pass -o tasks.json.")
    try:
        check_host(host)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    named = {"MODEL": model_path, "TABLE": path, "--import": annotated, "--config": config}
    session = _open_session(
        AnnotationSession if annotated or export_to else ReviewSession,
        {name: file for name, file in named.items() if file is not None},
        answers,
        {"--output": output, "--save-model": save_model},
        reading,
        force=force,
        tasks=bool(export_to),
        top=top,
    )
    if isinstance(session, AnnotationSession):
        with shared.data_problems(), session.journal:
            done: dict[str, object] = {}
            if annotated is not None:
                done |= _import(session, annotated, config, unchosen, quiet=as_json)
            if export_to and output is not None:
                done |= _export(session, output, top, quiet=as_json)
            if as_json:
                shared.echo_json(done, indent=None)
            if output is not None and not export_to:
                session.export(output)
        return

    def announce(url: str) -> None:
        _announce(session, "Review", {"url": url}, as_json)
        if not no_browser:  # some browsers keep their caller until they are closed
            Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    with shared.data_problems(), session.journal:
        serve(session, host=host, port=port, output=output, announce=announce)
        if output is not None:
            session.export(output)
    progress = session.progress
    saved = save_model if session.saved else None
    if as_json:
        shared.echo_json({"answers": answers, "output": output, "model": saved}, indent=None)
        return
    say(f"{progress.answered} answers, {progress.skipped} skipped: {answers}")
    if output is not None:
        say(f"Table with the answers: {output}")
    if saved is not None:
        say(f"Model with the answers: {saved}")


def _announce(session: Any, name: str, address: dict[str, Any], as_json: bool) -> None:
    progress = session.progress
    if as_json:
        shared.echo_json({**address, **progress._asdict()}, indent=None)
        return
    say(f"{progress.decided} of {progress.suggested} missing labels answered or skipped.")
    say(f"{name}: {address['url']}", "Ctrl-C ends.")


def _import(
    session: AnnotationSession, annotated: Path, config: Path | None, unchosen: str, *, quiet: bool
) -> dict[str, object]:
    """Take annotations that Label Studio has exported."""
    text = None if config is None else config.read_text(encoding="utf-8")
    n_answers, n_others = import_annotations(session, annotated, text, unchosen)
    if not quiet:
        say(f"{n_answers} new answers from {annotated}: {session.journal.path}", err=True)
        if n_others:
            say(f"{n_others} tasks are not rows of {session.table.path}.", err=True)
    return {"answers": n_answers, "other_tasks": n_others}


def _export(
    session: AnnotationSession, output: Path, top: int | None, *, quiet: bool
) -> dict[str, object]:
    """Write tasks for Label Studio."""
    config = make_config(session.table.label_names)
    n_tasks = export_tasks(session, output, top)
    if not quiet:
        say(f"{n_tasks} tasks: {output}. Their labelling configuration:", err=True)
        say(*config.split("\n"))
    return {"tasks": n_tasks, "output": output, "config": config}


def _open_session(
    kind: type[ReviewSession],
    inputs: dict[str, Path],
    answers: Path,
    outputs: Mapping[str, Path | None],
    reading: dict[str, Any],
    *,
    force: bool,
    tasks: bool = False,
    top: int | None = None,
) -> Any:
    """A session on a model, a table and a journal, which the caller closes.

    ``outputs`` are files to be written, by option; with ``tasks`` the table is not among them.
    """
    path = inputs["TABLE"]
    written = {option: file for option, file in outputs.items() if file is not None}
    shared.check_outputs(inputs, {"--answers": answers}, force=True)
    # The journal lists the files that an earlier review has written.
    reviewed = inputs | {"--answers": answers}
    shared.check_outputs(reviewed, written, force=force or answers.exists())
    with shared.data_problems(), shared.progress() as tell:
        tell(f"reading {path.name}")
        model, table = shared.open_both(inputs["MODEL"], path, **reading)
        if "--output" in written and not tasks:
            check_form(table, written["--output"])
        tell("ranking")
        with ExitStack() as stack:
            journal = stack.enter_context(Journal(answers, table))
            for file in written.values():
                if file.exists() and not force and not journal.owns(file):
                    raise click.UsageError(
                        f"{file} exists, and {journal.path} does not list it as an output of this "
                        "review; --force overwrites it, now and later."
                    )
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


@click.command("backend")
@shared.model_argument
@shared.table_argument
@shared.file_option(
    "ANSWERS",
    "The file in which answers are kept (JSON lines), that of dm2l review.",
    "--answers",
    required=True,
)
@shared.file_option(
    "TOKEN",
    "The file with the token of Label Studio's requests; made if it is not there. Without it, "
    "ANSWERS.token.",
    "--token-file",
)
@_save_option
@click.option(
    "--refit-every",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Annotated tasks after which the model is fitted again, in the background.",
)
@_unchosen_option
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The interface; any other than 127.0.0.1 and ::1 can be reached by other machines.",
)
@shared.port_option(9090)
@shared.reading_options
@shared.force_option
@shared.json_option
def backend_command(
    model_path: Path,
    path: Path,
    answers: Path,
    token_file: Path | None,
    save_model: Path | None,
    refit_every: int,
    unchosen: str,
    host: str,
    port: int,
    force: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Serve MODEL to Label Studio, which annotates the rows of TABLE.

    Tasks are rows of TABLE, as dm2l review --export labelstudio writes them. Connect the project to
    the address that is printed (Settings, Model). Choices and taxonomies are filled in, each
    annotation is on disk at once, and the model is fitted to them in the background. The same
    command continues. Ctrl-C ends it.

    Example: dm2l backend assays.dm2l assays.csv --answers answers.jsonl
    """
    token_path = answers.with_name(f"{answers.name}.token") if token_file is None else token_file
    inputs = {"MODEL": model_path, "TABLE": path}
    named = {**inputs, "--answers": answers, "--save-model": save_model}
    shared.check_outputs(named, {"--token-file": token_path}, force=True)
    session = _open_session(
        AnnotationSession, inputs, answers, {"--save-model": save_model}, reading, force=force
    )
    with shared.data_problems(), session.journal:
        token = kept_token(token_path)
        if host not in LOOPBACK:
            shared.warn(
                [f"{host} can be reached by other machines, and requests are not encrypted"]
            )
        backend = Backend(
            session,
            refit_every=refit_every,
            unchosen=unchosen,
            tell=lambda line: say(line, err=True),
        )

        def announce(url: str) -> None:
            address = {"url": url, "token_file": token_path} if as_json else {"url": url}
            _announce(session, "Backend URL for Label Studio", address, as_json)

        with BackendServer(backend, token, host=host, port=port) as server:
            serve_backend(server, announce)
    if not as_json:
        say(f"{session.progress.answered} answers: {answers}")
