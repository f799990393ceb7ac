"""What is being done now, for people at a terminal or a notebook."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from dm2l._utils.extras import require
from dm2l._utils.files import printable
from dm2l.tables._settings import Tell


@contextmanager
def progress(console: Any = None) -> Iterator[Tell]:
    """Show steps as they come, with rich: a spinner in terminals and notebooks, lines in files.

    A notebook shows a spinner if ipywidgets is installed, and lines otherwise.

    Parameters
    ----------
    console : rich.console.Console, default=None
        Where to; None for standard error.

    Yields
    ------
    callable
        For the argument ``tell`` of :func:`fit_table` and :func:`evaluate_table`.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import FitOptions, fit_table, table_from_frame
    >>> from dm2l.tables._progress import progress
    >>> frame = pd.DataFrame({"mass": [i % 7 for i in range(60)]})
    >>> frame["toxic"] = [i % 7 > 3 if i % 3 else None for i in range(60)]
    >>> table = table_from_frame(frame, ["toxic"])
    >>> with progress() as tell:
    ...     model = fit_table(table, Wishes("linear", 0.1, 1.0), estimate_folds=0, tell=tell)
    """
    if console is None:
        console = require("rich.console", "cli").Console(stderr=True)
    widgets = console.is_jupyter and find_spec("ipywidgets") is not None
    if not (console.is_terminal or widgets):
        yield lambda line: _write(f"{printable(line)} ...\n")
        return
    escape = require("rich.markup", "cli").escape
    with console.status("starting") as status:
        yield lambda line: status.update(escape(printable(line)))


def _write(text: str) -> None:
    if sys.stderr is not None:  # as in a process without a terminal
        sys.stderr.write(text)
        sys.stderr.flush()
