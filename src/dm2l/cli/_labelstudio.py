"""Files for Label Studio and from it, as ``dm2l review`` writes and reads them."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dm2l.cli._table_options import say
from dm2l.labelstudio import AnnotationSession, make_config
from dm2l.labelstudio._tasks import export_tasks, import_annotations

file_type = click.Path(exists=True, dir_okay=False, path_type=Path)
config_option = click.option(
    "--config",
    type=file_type,
    metavar="CONFIG",
    help="The labelling configuration of the project that --import comes from, if it is another "
    "than --export has printed.",
)
unchosen_option = click.option(
    "--unchosen",
    type=click.Choice(["no", "skip"]),
    default="no",
    show_default=True,
    help="What a choice that an annotator has not made says about its label.",
)


def exchange(
    session: AnnotationSession,
    annotated: Path | None,
    config: Path | None,
    unchosen: str,
    tasks: Path | None,
    top: int | None,
    as_json: bool,
) -> None:
    """Take annotations, write tasks, and say so."""
    done: dict[str, object] = {}
    if annotated is not None:
        text = None if config is None else config.read_text(encoding="utf-8")
        n_answers, n_others = import_annotations(session, annotated, text, unchosen)
        done |= {"answers": n_answers, "other_tasks": n_others}
        if not as_json:
            say(f"{n_answers} new answers from {annotated}: {session.journal.path}", err=True)
        if n_others and not as_json:
            say(f"{n_others} tasks are not rows of {session.table.path}.", err=True)
    if tasks is not None:
        labels = make_config(session.table.label_names)
        n_tasks = export_tasks(session, tasks, top)
        done |= {"tasks": n_tasks, "output": str(tasks), "config": labels}
        if not as_json:
            say(f"{n_tasks} tasks: {tasks}. Their labelling configuration:", err=True)
            for line in labels.splitlines():
                say(line)
    if as_json:
        say(json.dumps(done))
