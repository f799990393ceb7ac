"""``dm2l backend``: a model for Label Studio."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dm2l.cli import _table_options as shared
from dm2l.cli._labelstudio import unchosen_option
from dm2l.cli._review import open_session
from dm2l.cli._table_options import say
from dm2l.labelstudio import AnnotationSession, Backend, BackendServer
from dm2l.labelstudio._server import kept_token, serve_backend
from dm2l.review._web import LOOPBACK


@click.command("backend")
@shared.model_argument
@shared.table_argument
@shared.new_file_option(
    "--answers",
    required=True,
    metavar="ANSWERS",
    help="The file in which answers are kept (JSON lines), that of dm2l review.",
)
@shared.new_file_option(
    "--token-file",
    metavar="TOKEN",
    help="The file with the token that Label Studio has to know; made if it is not there. "
    "Without it, ANSWERS.token.",
)
@shared.new_file_option(
    "--save-model",
    metavar="REFITTED",
    help="The file for the model, written after each refit.",
)
@click.option(
    "--refit-every",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Annotated tasks after which the model is fitted again, in the background.",
)
@unchosen_option
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
    """Suggest and learn the labels of TABLE in a Label Studio that asks MODEL.

    Tasks are rows of TABLE, as dm2l review --export labelstudio writes them. Connect the project to
    the address that is printed (Settings, Model). Choices and taxonomies are filled in, each
    annotation is on disk at once, and the model learns from them in the background. The same
    command goes on where one has ended. Ctrl-C ends it.

    Example: dm2l backend assays.dm2l assays.csv --answers answers.jsonl
    """
    session = open_session(
        AnnotationSession,
        (model_path, path, answers),
        {"--save-model": save_model},
        reading,
        force=force,
    )
    with shared.data_problems(), session.journal:
        file = answers.with_name(f"{answers.name}.token") if token_file is None else token_file
        token = kept_token(file)
        if host not in LOOPBACK:
            shared.warn([f"{host} can be reached by other machines, and sends are not encrypted"])
        backend = Backend(
            session,
            refit_every=refit_every,
            unchosen=unchosen,
            tell=lambda line: say(line, err=True),
        )

        def announce(url: str) -> None:
            progress = session.progress
            if as_json:
                say(json.dumps({"url": url, "token_file": str(file), **progress._asdict()}))
            else:
                say(f"{progress.decided} of {progress.suggested} holes answered or skipped.")
                say(f"Backend URL for Label Studio: {url}")
                say("Ctrl-C ends.")

        with BackendServer(backend, token, host=host, port=port) as server:
            serve_backend(server, announce)
    if not as_json:
        say(f"{session.progress.answered} answers: {answers}")
