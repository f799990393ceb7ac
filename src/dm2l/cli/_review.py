"""``dm2l review`` and ``dm2l backend``: people label, on a page or in Label Studio."""

import webbrowser
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import click

from dm2l.cli import _shared as shared
from dm2l.cli._shared import say
from dm2l.labelstudio import AnnotationSession, Backend, BackendServer, make_config
from dm2l.labelstudio._server import kept_token
from dm2l.labelstudio._tasks import export_tasks, import_annotations
from dm2l.review import Journal, ReviewSession, serve
from dm2l.review._server import LOOPBACK, check_host
from dm2l.tables._filled import check_form

_unchosen_option = click.option(
    "--unchosen",
    type=click.Choice(["no", "skip"]),
    default="no",
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
@click.option("--host", default="127.0.0.1", help="127.0.0.1 or ::1.")
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
    as_json: bool,
    **given: Any,
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
    exchange = bool(annotated or export_to)
    session = _open_session(
        AnnotationSession if exchange else ReviewSession,
        answers,
        {"--output": output, "--save-model": save_model},
        {"--import": annotated, "--config": config},
        tasks=bool(export_to),
        top=top,
        **given,
    )

    def announce(url: str) -> None:
        _announce(session, "Review", {"url": url}, as_json)
        if not no_browser:  # some browsers keep their caller until they are closed
            Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    with shared.data_problems(), session.journal:
        if exchange:
            done: dict[str, object] = {}
            if annotated is not None:
                done |= _import(session, annotated, config, unchosen, quiet=as_json)
            if export_to and output is not None:
                done |= _export(session, output, top, quiet=as_json)
            if as_json:
                shared.echo_json(done, indent=None)
        else:
            serve(session, host=host, port=port, output=output, announce=announce)
        if output is not None and not export_to:
            session.export(output)
    progress, saved = session.progress, save_model if session.saved else None
    if exchange:
        return
    if as_json:
        shared.echo_json({"answers": answers, "output": output, "model": saved}, indent=None)
        return
    say(f"{progress.answered} answers, {progress.skipped} skipped: {answers}")
    for what, file in (("Table", output), ("Model", saved)):
        if file is not None:
            say(f"{what} with the answers: {file}")


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
    answers: Path,
    outputs: Mapping[str, Path | None],
    others: Mapping[str, Path | None] | None = None,
    *,
    model_path: Path,
    path: Path,
    force: bool,
    tasks: bool = False,
    top: int | None = None,
    **reading: Any,
) -> Any:
    """A session on a model, a table and a journal, which the caller closes.

    ``outputs`` and ``others`` are files to be written and read, by option; with ``tasks`` the table
    is not among them.
    """
    inputs = {"MODEL": model_path, "TABLE": path, **(others or {})}
    written = {option: file for option, file in outputs.items() if file is not None}
    shared.check_outputs(inputs, {"--answers": answers}, force=True)
    # The journal lists the files that an earlier review has written.
    reviewed = {**inputs, "--answers": answers}
    shared.check_outputs(reviewed, written, force=force or answers.exists())
    with shared.data_problems(), shared.progress() as tell:
        tell(f"reading {path.name}")
        model, table = shared.open_both(model_path, path, **reading)
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
            missing, save_model = reading["missing"], written.get("--save-model")
            session = kind(model, table, journal, top=top, missing=missing, save_model=save_model)
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
    help="Annotated tasks after which the model is fitted again, in the background.",
)
@_unchosen_option
@click.option(
    "--host",
    default="127.0.0.1",
    help="The interface; any other than 127.0.0.1 and ::1 can be reached by other machines.",
)
@shared.port_option(9090)
@shared.reading_options
@shared.force_option
@shared.json_option
def backend_command(
    answers: Path,
    token_file: Path | None,
    save_model: Path | None,
    refit_every: int,
    unchosen: str,
    host: str,
    port: int,
    as_json: bool,
    **given: Any,
) -> None:
    """Serve MODEL to Label Studio, which annotates the rows of TABLE.

    Tasks are rows of TABLE, as dm2l review --export labelstudio writes them. Connect the project to
    the address that is printed (Settings, Model). Choices and taxonomies are filled in, each
    annotation is on disk at once, and the model is fitted to them in the background. The same
    command continues. Ctrl-C ends it.

    Example: dm2l backend assays.dm2l assays.csv --answers answers.jsonl
    """
    token_path = answers.with_name(f"{answers.name}.token") if token_file is None else token_file
    inputs = {"MODEL": given["model_path"], "TABLE": given["path"], "--answers": answers}
    saved = {"--save-model": save_model}
    shared.check_outputs({**inputs, **saved}, {"--token-file": token_path}, force=True)
    session = _open_session(AnnotationSession, answers, saved, **given)
    with shared.data_problems(), session.journal:
        token = kept_token(token_path)
        if host not in LOOPBACK:
            line = f"{host} can be reached by other machines, and requests are not encrypted"
            shared.warn([line])
        told = partial(say, err=True)
        backend = Backend(session, refit_every=refit_every, unchosen=unchosen, tell=told)

        def announce(url: str) -> None:
            address = {"url": url, "token_file": token_path} if as_json else {"url": url}
            _announce(session, "Backend URL for Label Studio", address, as_json)

        with BackendServer(backend, token, host=host, port=port) as server:
            server.serve(session, announce)
    if not as_json:
        say(f"{session.progress.answered} answers: {answers}")
