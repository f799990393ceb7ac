"""What the commands for tables share: options, exit codes, progress, files, JSON."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.core import ParameterSource
from sklearn.exceptions import ConvergenceWarning

from dm2l._utils.files import printable
from dm2l.io._columns import ColumnRequestError
from dm2l.io._csv_file import TEXT, check_encoding, check_separator
from dm2l.io._parquet_file import PARQUET
from dm2l.io._unpacking import suffix_of
from dm2l.io._xlsx_file import EXCEL
from dm2l.labels import ConstantLabelWarning
from dm2l.model_selection import get_scorer_names
from dm2l.tables import FitOptions, Table, TableModel, load_bundle, read_table
from dm2l.tables._kinds import KINDS
from dm2l.tables._model import read_for
from dm2l.tables._output import plain_values
from dm2l.tables._progress import progress as progress
from dm2l.tables._reading import MATRIX_FORMATS

Command = Callable[..., Any]

# ------------------------------------------------------------------------------------- arguments

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_TABLES = (*TEXT, *PARQUET, *EXCEL, *MATRIX_FORMATS)
_NEW = click.Path(dir_okay=False, path_type=Path)

table_argument = click.argument("path", metavar="TABLE", type=_FILE)
model_argument = click.argument("model_path", metavar="MODEL", type=_FILE)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
safe_csv_option = click.option(
    "--safe-csv",
    is_flag=True,
    help="Put ' before text that a spreadsheet would run as a formula (=, +, -, @).",
)
force_option = click.option("--force", is_flag=True, help="Overwrite files that exist.")
seed_option = click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of folds, masks and samples."
)
labels_option = click.option(
    "--labels",
    multiple=True,
    metavar="NAMES",
    help="Label columns: names separated by commas, a pattern such as 'tox_*', a prefix such as "
    "tox_, or how many of the last columns. Files that name their labels (.arff, .npz, ...) need "
    "none.",
)


def new_file_option(*names: str, metavar: str, help: str, required: bool = False) -> Command:
    """A file to write."""
    return click.option(*names, required=required, type=_NEW, metavar=metavar, help=help)


def output_option(metavar: str, text: str) -> Command:
    """``-o``, which every command that writes a file has."""
    return new_file_option("-o", "--output", metavar=metavar, help=text, required=True)


def port_option(default: int) -> Command:
    """``--port`` of commands that serve."""
    numbers, text = click.IntRange(0, 65535), "0 takes one that is free."
    return click.option("--port", type=numbers, default=default, show_default=True, help=text)


def _options(*options: Command) -> Command:
    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _kind(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    found = {}
    for value in values:
        name, equals, kind = value.rpartition("=")
        if not equals or kind not in KINDS:
            raise click.BadParameter(f"{value!r} is not COLUMN=KIND with KIND {', '.join(KINDS)}.")
        found[name] = kind
    return found


def _positive(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> dict[str, list[str]]:
    """Positive values by labels; "*" is all of them."""
    found: dict[str, list[str]] = {}
    for text in values:
        label, _, value = text.rpartition("=")
        found.setdefault(label or "*", []).append(value if label else text)
    return found


def _separator(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    separator = "\t" if value == "\\t" else value
    try:
        check_separator(separator)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return separator


def _decimal(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is not None and len(value) != 1:
        raise click.BadParameter(f"The decimal point must be one character; got {value!r}.")
    return value


def _encoding(_context: click.Context, _option: click.Parameter, value: str) -> str:
    try:
        check_encoding(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return value


reading_options = _options(
    click.option(
        "--missing",
        multiple=True,
        metavar="MARK",
        help="A further mark of a label that was not observed, such as -1 or unknown. Blanks, ? "
        "and NA always are.",
    ),
    click.option(
        "--separator",
        callback=_separator,
        help="The character that separates columns of a text file; '\\t' is a tab.",
    ),
    click.option(
        "--decimal",
        callback=_decimal,
        help="The decimal point of numbers that are text; a comma is recognised in text files with "
        "semicolons.",
    ),
    click.option(
        "--encoding", default="utf-8", callback=_encoding, help="The encoding of a text file."
    ),
)
word_options = _options(
    click.option(
        "--positive",
        multiple=True,
        callback=_positive,
        metavar="[LABEL=]VALUE",
        help="What a positive label is called, where it is not 1, yes, true, active, positive or "
        "+: --positive 2 of labels that are 1 and 2, --positive dx_flea=seen of one label, or of a "
        "pattern of labels, alone. The model remembers it.",
    ),
    click.option(
        "--cutoff",
        "cutoffs",
        multiple=True,
        metavar="'LABEL>=X'",
        help="Labels that are numbers on a scale, by name or pattern, and which side counts as "
        "yes: 'fold_*>=2', with >=, >, <= or <. The model remembers it.",
    ),
)
feature_options = _options(
    click.option(
        "--kind",
        "kinds",
        multiple=True,
        callback=_kind,
        metavar="COLUMN=KIND",
        help="What a column, or a pattern of columns such as 'fp_*', is instead of a guess: "
        f"{', '.join(KINDS)}.",
    ),
    click.option(
        "--drop",
        multiple=True,
        metavar="COLUMN",
        help="A column, or pattern of columns, to leave out, of the labels too.",
    ),
)
groups_option = click.option(
    "--groups",
    metavar="COLUMN|duplicates|scaffold",
    help="Keep rows together in all folds that belong together, so that copies of a row are not "
    "what it is judged by: those with the same value in a column, which is then no feature, with "
    "the same features, or with molecules of one scaffold.",
)
search_options = _options(
    click.option(
        "--kernel",
        type=click.Choice(["auto", "linear", "rbf", "tanimoto"]),
        default="auto",
        show_default=True,
        help="DM2L alone, with this kernel (tanimoto suits bits and molecules); auto combines "
        "linear, kernel and tree models.",
    ),
    click.option("--lambda-d", type=click.FloatRange(0), help="Weight of DM2L's nuclear norms."),
    click.option("--alpha", type=click.FloatRange(0), help="Ridge."),
    click.option(
        "--scoring",
        type=click.Choice(get_scorer_names()),
        metavar="METRIC",
        help="What the search maximises: a scorer of dm2l.model_selection. Default: "
        "ranking_and_discrimination, or label_discrimination if rows have less than one positive "
        "on average.",
    ),
    click.option(
        "--folds",
        type=click.IntRange(2),
        default=5,
        show_default=True,
        help="Folds of the search and of the calibration.",
    ),
)


blank_option = click.option(
    "--blank",
    type=click.Choice(["missing", "unlabelled", "no"]),
    default="missing",
    show_default=True,
    help="What a label that says nothing means: nobody looked; it was not ticked, and is a no or "
    "was overlooked (for tables with a yes and hardly a no); or it is a no.",
)


def effort_option(default: str) -> Command:
    """How much the automatic model may try."""
    return click.option(
        "--effort",
        type=click.Choice(["quick", "normal", "best"]),
        default=default,
        show_default=True,
        help="What is tried without --kernel, --lambda-d, --alpha, --scoring and --blank "
        "unlabelled: quick has a "
        "linear and a kernel model, normal trees as well, best more of everything.",
    )


def wishes_of(options: dict[str, Any]) -> FitOptions:
    """Take the search options out of the arguments of a command."""
    names = (
        "blank",
        "effort",
        "kernel",
        "lambda_d",
        "alpha",
        "scoring",
        "folds",
        "seed",
        "calibration",
    )
    wishes = FitOptions(**{name: options.pop(name) for name in names if name in options})
    source = click.get_current_context().get_parameter_source("effort")
    if source is ParameterSource.COMMANDLINE and not wishes.automatic:
        what = (
            "--blank unlabelled" if wishes.ticks else "--kernel, --lambda-d, --alpha or --scoring"
        )
        warn([f"--effort has no say with {what}: there is one DM2L model"])
    return wishes


# --------------------------------------------------------------------------------------- tables


def open_table(
    path: Path,
    labels: Iterable[str],
    kinds: dict[str, str],
    drop: Iterable[str] = (),
    *,
    blank: str = "",
    **reading: Any,
) -> Table:
    """Read a table whose label columns the caller has named; ``blank`` may say that it is a no."""
    names = list(labels)
    if not names and suffix_of(path) not in MATRIX_FORMATS:
        raise click.UsageError(
            f"{path.name} does not say which columns are labels: pass --labels, for example "
            "--labels 'tox_*'."
        )
    as_text = [name for name, kind in kinds.items() if kind in ("category", "text", "smiles")]
    table = read_table(path, names or None, as_text=as_text, drop=list(drop), **reading)
    return replace(table, Y=np.nan_to_num(table.Y)) if blank == "no" else table


def open_both(
    model_path: Path, path: Path, *, labels: bool = True, **reading: Any
) -> tuple[TableModel, Table]:
    """Load a model and read a table for it."""
    if suffix_of(model_path) in _TABLES and suffix_of(path) not in _TABLES:
        raise click.UsageError(
            f"The arguments look swapped: MODEL comes first, then TABLE, as in dm2l "
            f"{click.get_current_context().info_name} {path.name} {model_path.name}."
        )
    model = load_bundle(model_path)
    return model, read_for(model, path, labels=labels, **reading)


def check_outputs(force: bool, *paths: Path | None) -> None:
    """Refuse to overwrite, and to write where there is no folder, before any work is done."""
    given = [path for path in paths if path is not None]
    for path in given:
        if path.exists() and not force:
            raise click.UsageError(f"{path} exists; --force overwrites it.")
        folder = path.resolve().parent  # of what a link points to
        if not folder.is_dir():
            raise click.UsageError(f"There is no folder {folder} to write {path.name} to.")
    if len({path.resolve() for path in given}) < len(given):
        raise click.UsageError(f"{given[0]} is named for two outputs.")


# ------------------------------------------------------------------- lines, problems, progress


def say(text: str, *, err: bool = False) -> None:
    """Print one line, in which names of the table can do nothing to the terminal."""
    click.echo(printable(text), err=err)


@contextmanager
def data_problems() -> Iterator[None]:
    """Exit code 1 with what is wrong with the data, 2 with the arguments; warnings as lines."""
    with warnings.catch_warnings(record=True) as caught:
        for category in (ConstantLabelWarning, ConvergenceWarning):
            warnings.simplefilter("always", category)
        try:
            yield
        except ColumnRequestError as error:
            raise click.UsageError(printable(str(error))) from error
        except (ValueError, OSError, ImportError) as error:
            raise click.ClickException(printable(str(error))) from error
        finally:
            warn(dict.fromkeys(str(warning.message) for warning in caught))


def warn(lines: Iterable[str]) -> None:
    """Lines on standard error that do not end the work."""
    for line in lines:
        say(f"warning: {line}", err=True)


# ------------------------------------------------------------------------------------------ JSON


def echo_json(result: Any) -> None:
    """Print dataclasses, arrays and numbers as JSON; what is undefined is null."""
    for line in json.dumps(plain_values(result), indent=1, ensure_ascii=False).split("\n"):
        say(line)
