"""The commands ``review`` and ``backend``, which ask people for missing labels."""

import webbrowser
from collections.abc import Mapping, Sequence
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
from dm2l.review._export import export_name
from dm2l.review._server import LOOPBACK, check_host
from dm2l.tables._filled import check_form

_unchosen_option = click.option(
    "--unchosen",
    type=click.Choice(["no", "skip"]),
    default="no",
    help="How to read a choice that an annotator did not select: no, or skip (unanswered).",
)
_save_option = shared.file_option(
    "REFITTED", "After each refit, write the model to this file.", "--save-model"
)


@click.command("review")
@shared.model_argument
@shared.table_argument
@shared.file_option(
    "ANSWERS",
    "The file for the answers (JSON lines). If the file exists, the review is continued.",
    "--answers",
    required=True,
)
@shared.file_option(
    "EXPORTED",
    "The file for TABLE with the answers, in the format of TABLE. It is written when you press the "
    "export button of the page and when the review ends.",
)
@_save_option
@click.option(
    "--top",
    type=click.IntRange(1),
    help="Ask about at most this many missing labels. By default, there is no limit.",
)
@click.option(
    "--check",
    type=click.IntRange(2),
    metavar="N",
    help="Draw a random sample of N entries that dm2l complete fills, and ask about these entries. "
    "With the answers, dm2l complete --verified estimates the error rate.",
)
@click.option(
    "--max-error-rate",
    callback=shared.share,
    metavar="SHARE",
    help="With --check: take the sample from entries that complete fills at this error rate.",
)
@shared.text_option(
    "--keep",
    metavar="COLUMN",
    help="A column that identifies rows in the questions. By default, such a column is detected.",
)
@click.option("--host", default="127.0.0.1", help="Address of the server, 127.0.0.1 or ::1.")
@shared.port_option(0)
@click.option("--no-browser", is_flag=True, help="Print the address without opening a browser.")
@shared.file_option(
    "ANNOTATED",
    "Instead of opening the page, import annotations that Label Studio exported as JSON.",
    "--import",
    "annotated",
    new=False,
)
@click.option(
    "--export",
    "export_to",
    type=click.Choice(["labelstudio"]),
    help="Instead of opening the page, write tasks for Label Studio to the file of -o, and print "
    "their labelling configuration.",
)
@shared.file_option(
    "CONFIG",
    "With --import: the labelling configuration of the Label Studio project, if it differs from "
    "the configuration that --export printed.",
    "--config",
    new=False,
)
@_unchosen_option
@shared.session_options
def review_command(
    answers: Path,
    output: Path | None,
    save_model: Path | None,
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
    """Answer questions about missing labels of TABLE in a browser.

    Questions with the most valuable answers come first. The page shows the row, the probability of
    yes and the value of an answer; the keys y, n and s stand for yes, no and skip. Each answer is
    saved at once, and the same command continues a review later. The page can be opened only on
    this machine. Ctrl-C or SIGTERM ends the review.

    Example: dm2l review tox.dm2l tox.csv --answers answers.jsonl -o answered.csv
    """
    if given["max_error_rate"] is not None and given["check"] is None:
        raise click.UsageError("--max-error-rate requires --check. Pass, for example, --check 50.")
    if export_to and output is None:
        raise click.UsageError("--export requires -o. Pass, for example, -o tasks.json.")
    try:
        check_host(host)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    exchange = bool(annotated or export_to)
    session = _open_session(
        AnnotationSession if exchange else ReviewSession,
        answers,
        {"--output": output, "--save-model": save_model},
        others={"--import": annotated, "--config": config},
        tasks=bool(export_to),
        **given,
    )

    def announce(url: str) -> None:
        _announce(session, "Review", {"url": url}, as_json)
        if not no_browser:  # in a thread, because some browsers block until they are closed
            Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    with shared.data_problems(), session.journal:
        if not exchange:
            serve(session, host=host, port=port, output=output, announce=announce)
        tell = (lambda *lines, **_: None) if as_json else say
        done: dict[str, object] = {}
        if annotated is not None:
            text = None if config is None else config.read_text(encoding="utf-8")
            n_answers, n_others = import_annotations(session, annotated, text, unchosen)
            done |= {"answers": n_answers, "other_tasks": n_others}
            tell(f"Saved {n_answers} new answers from {annotated} to {answers}.", err=True)
            if n_others:
                tell(f"Ignored {n_others} tasks that match no row of {given['path']}.", err=True)
        if export_to and output is not None:
            made = make_config(session.table.label_names)
            n_tasks = export_tasks(session, output, given["top"])
            done |= {"tasks": n_tasks, "output": output, "config": made}
            tell(f"Wrote {n_tasks} tasks to {output}. Labelling configuration:", err=True)
            tell(*made.split("\n"))
        elif output is not None:
            session.export(output)
    progress, saved = session.progress, save_model if session.saved else None
    if as_json:
        done = done if exchange else {"answers": answers, "output": output, "model": saved}
        shared.echo_json(done, indent=None)
    elif not exchange:
        say(f"{answers}: {progress.answered} questions answered, {progress.skipped} skipped.")
        for what, file in (("table with the answers", output), ("refitted model", saved)):
            if file is not None:
                say(f"Wrote the {what} to {file}.")
        if progress.sample_decided == progress.sampled > 0:
            made = export_name(session.table)
            line = shared.command_line("complete", "-o", made, "--verified", answers)
            say(f"To complete the table with the answers and print the error rate: {line}")


def _announce(session: Any, name: str, address: dict[str, Any], as_json: bool) -> None:
    progress = session.progress
    if as_json:
        shared.echo_json({**address, **progress._asdict()}, indent=None)
        return
    done, size = progress.decided, progress.suggested
    if progress.sampled:
        done, size = progress.sample_decided, f"{progress.sampled} sampled"
    say(f"{done} of {size} questions are answered or skipped.")
    say(f"{name}: {address['url']}", "Press Ctrl-C to stop.")


def _open_session(
    kind: type[ReviewSession],
    answers: Path,
    outputs: Mapping[str, Path | None],
    *,
    force: bool,
    tasks: bool = False,
    top: int | None = None,
    check: int | None = None,
    max_error_rate: float | None = None,
    keep: Sequence[str] = (),
    **given: Any,
) -> Any:
    """Check all files, and open a session; the caller must close the journal of the session."""
    written = {option: file for option, file in outputs.items() if file is not None}
    made = {"--answers": answers, **written}
    # An existing journal lists the files that an earlier review wrote; they are checked below.
    given |= {"force": force or answers.exists(), "columns": False}
    with shared.opened(made, **given) as (model, table, tell), ExitStack() as stack:
        if "--output" in written and not tasks:  # tasks for Label Studio are not a table
            check_form(table, written["--output"])
        tell("ranking missing labels")
        journal = stack.enter_context(Journal(answers, table))
        for file in written.values():
            if file.exists() and not force and not journal.owns(file):
                raise click.UsageError(
                    f"{file} exists and was not written by this review. Pass --force to overwrite "
                    f"it now and whenever the review in {journal.path} is continued."
                )
        missing, save_model = given["missing"], written.get("--save-model")
        options = {"top": top, "missing": missing, "keep": keep, "save_model": save_model}
        session = kind(model, table, journal, **options)
        if check is not None:
            session.start_sample(check, max_error_rate)
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
    "The file for the answers (JSON lines), as for dm2l review.",
    "--answers",
    required=True,
)
@shared.file_option(
    "TOKEN",
    "The file with the token that Label Studio must send. If the file does not exist, it is "
    "created. The default is ANSWERS.token.",
    "--token-file",
)
@_save_option
@click.option(
    "--refit-every",
    type=click.IntRange(1),
    default=10,
    help="Refit the model in the background after this many annotated tasks.",
)
@_unchosen_option
@click.option(
    "--host",
    default="127.0.0.1",
    help="Address of the server. Other machines can reach all addresses except 127.0.0.1 and ::1.",
)
@shared.port_option(9090)
@shared.session_options
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
    """Serve MODEL to Label Studio for annotating rows of TABLE.

    Export the tasks with dm2l review --export labelstudio. In the settings of the Label Studio
    project, under Model, enter the address that dm2l backend prints. The server predicts choices
    and taxonomies, saves each annotation at once, and refits the model in the background. Ctrl-C
    stops the server, and the same command starts it again with all annotations.

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
            shared.warn([f"other machines can reach {host}, and requests are not encrypted"])
        told = partial(say, err=True)
        backend = Backend(session, refit_every=refit_every, unchosen=unchosen, tell=told)

        def announce(url: str) -> None:
            address = {"url": url, "token_file": token_path}
            _announce(session, "Backend URL for Label Studio", address, as_json)

        with BackendServer(backend, token, host=host, port=port) as server:
            server.serve(session, announce)
    if not as_json:
        say(f"{answers} contains {session.progress.answered} answers.")
