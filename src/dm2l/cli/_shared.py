"""Options, files, errors and output that the commands share."""

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console
from rich.markup import escape
from sklearn.exceptions import ConvergenceWarning

from dm2l._utils.files import EXCEL, PARQUET, TEXT, printable, suffix_of
from dm2l.io._columns import ColumnRequestError
from dm2l.io._table import check_encoding, check_separator
from dm2l.labels import ConstantLabelWarning
from dm2l.model_selection import get_scorer_names
from dm2l.tables import FitOptions, Table, TableModel, load_bundle, read_table
from dm2l.tables._kinds import KINDS
from dm2l.tables._model import read_for
from dm2l.tables._output import check_suffix, plain_values
from dm2l.tables._reading import MATRIX_FORMATS

Command = Callable[..., Any]

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_TABLES = (*TEXT, *PARQUET, *EXCEL, *MATRIX_FORMATS)

table_argument = click.argument("path", metavar="TABLE", type=FILE)
model_argument = click.argument("model_path", metavar="MODEL", type=FILE)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
force_option = click.option("--force", is_flag=True, help="Overwrite files that exist.")
seed_option = click.option("--seed", default=0, help="Seed of folds, masks and samples.")
keep_option = click.option(
    "--keep",
    multiple=True,
    metavar="COLUMN",
    help="A column of TABLE to copy as it is, such as its key.",
)


def file_option(
    metavar: str, help: str, *names: str, required: bool = False, new: bool = True
) -> Command:
    """An option for a file; without names ``-o``, which every command that writes a file has."""
    kind = click.Path(dir_okay=False, path_type=Path) if new else FILE
    names = names or ("-o", "--output")
    return click.option(*names, required=required, type=kind, metavar=metavar, help=help)


def port_option(default: int) -> Command:
    """``--port`` of commands that serve."""
    numbers, help = click.IntRange(0, 65535), "0 takes one that is free."
    return click.option("--port", type=numbers, default=default, help=help)


def effort_option(default: str) -> Command:
    """``--effort`` of commands that fit."""
    return click.option(
        "--effort",
        type=click.Choice(["quick", "normal", "best"]),
        default=default,
        help="What the automatic model tries: quick has a linear and a kernel model, normal trees "
        "as well, best more of everything. Ignored with --kernel, --lambda-d, --alpha, --scoring "
        "and --missing-as unlabelled.",
    )


def _options(*options: Command) -> Command:
    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _kinds(_context: Any, _option: Any, values: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for value in values:
        name, equals, kind = value.rpartition("=")
        if not equals or kind not in KINDS:
            raise click.BadParameter(f"{value!r} is not COLUMN=KIND with KIND {', '.join(KINDS)}.")
        found[name] = kind
    return found


def _positive(_context: Any, _option: Any, values: tuple[str, ...]) -> dict[str, list[str]]:
    """Positive values by labels; "*" stands for all labels."""
    found: dict[str, list[str]] = {}
    for text in values:
        label, _, value = text.rpartition("=")
        found.setdefault(label or "*", []).append(value if label else text)
    return found


def _checked(check: Callable[[Any], None]) -> Callable[[Any, Any, Any], Any]:
    def callback(_context: Any, _option: Any, value: str | None) -> str | None:
        value = "\t" if value == "\\t" else value
        try:
            check(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
        return value

    return callback


def _check_decimal(value: str | None) -> None:
    if value is not None and len(value) != 1:
        raise ValueError(f"The decimal point must be one character; got {value!r}.")


reading_options = _options(
    click.option(
        "--missing",
        multiple=True,
        metavar="MARK",
        help="A further mark of a missing label, such as -1 or unknown. Blanks, ? and NA always "
        "are.",
    ),
    click.option(
        "--separator",
        callback=_checked(check_separator),
        help="The character that separates columns of a text file; '\\t' is a tab.",
    ),
    click.option(
        "--decimal",
        callback=_checked(_check_decimal),
        help="The decimal point of numbers that are text; a comma is recognised in text files with "
        "semicolons.",
    ),
    click.option(
        "--encoding",
        default="utf-8",
        show_default=False,
        callback=_checked(check_encoding),
        help="The encoding of a text file.",
    ),
)
search_options = _options(
    click.option(
        "--kernel",
        type=click.Choice(["auto", "linear", "rbf", "tanimoto"]),
        default="auto",
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
        "cv",
        type=click.IntRange(2),
        default=5,
        help="Folds of the search and of the calibration.",
    ),
    click.option(
        "--missing-as",
        type=click.Choice(["missing", "unlabelled", "negative"]),
        default="missing",
        help="How to read a blank label: missing (unknown), unlabelled (negative or overlooked, "
        "for tables with hardly a no), negative.",
    ),
    click.option(
        "--groups",
        metavar="COLUMN|duplicates|scaffold",
        help="Keep related rows in the same fold, so that near-duplicates do not leak into the "
        "estimate: rows with the same value in a column, which is then no feature, with the same "
        "features, or with molecules of one scaffold.",
    ),
)


# Arguments of commands that ask a model about a table, and of those that read labels of a table.
model_options = _options(
    model_argument,
    table_argument,
    reading_options,
    click.option(
        "--safe-csv",
        is_flag=True,
        help="Put ' before text that a spreadsheet would run as a formula (=, +, -, @).",
    ),
    force_option,
    json_option,
)
label_options = _options(
    table_argument,
    click.option(
        "--labels",
        multiple=True,
        metavar="NAMES",
        help="Label columns: names separated by commas, a pattern such as 'tox_*', a prefix such "
        "as tox_, or how many of the last columns. Files that name their labels (.arff, .npz, ...) "
        "need none.",
    ),
    reading_options,
    click.option(
        "--positive",
        multiple=True,
        callback=_positive,
        metavar="[LABEL=]VALUE",
        help="What a positive label is called, if not 1, yes, true, active, positive or +: "
        "--positive 2 for labels that are 1 and 2, --positive dx_flea=seen for one label, or a "
        "pattern of labels, alone. The model stores it.",
    ),
    click.option(
        "--cutoff",
        "cutoffs",
        multiple=True,
        metavar="'LABEL>=X'",
        help="Labels that are numbers on a scale, by name or pattern, and which side counts as "
        "yes: 'fold_*>=2', with >=, >, <= or <. The model stores it.",
    ),
    click.option(
        "--kind",
        "kinds",
        multiple=True,
        callback=_kinds,
        metavar="COLUMN=KIND",
        help="The kind of a column, or of a pattern of columns such as 'fp_*', instead of a guess: "
        f"{', '.join(KINDS)}.",
    ),
    click.option(
        "--drop",
        multiple=True,
        metavar="COLUMN",
        help="A column, or pattern of columns, to leave out, of the labels too.",
    ),
    json_option,
)


def fit_options(options: dict[str, Any]) -> FitOptions:
    """Take the options of a fit out of the arguments of a command."""
    options["random_state"] = options.pop("seed")
    names = FitOptions.__dataclass_fields__.keys() & options.keys()
    found = FitOptions(**{name: options.pop(name) for name in names})
    source = click.get_current_context().get_parameter_source("effort")
    if source is ParameterSource.COMMANDLINE and not found.automatic:
        which = "--missing-as unlabelled"
        if not found.unlabelled:
            which = "--kernel, --lambda-d, --alpha or --scoring"
        warn([f"--effort is ignored with {which}, which fit one DM2L model"])
    return found


def open_table(path: Path, labels: tuple[str, ...], **options: Any) -> tuple[Table, dict[str, Any]]:
    """Read a table whose label columns were given with --labels; and options of its features."""
    if not labels and suffix_of(path) not in MATRIX_FORMATS:
        raise click.UsageError(
            f"{path.name} does not say which columns are labels: pass --labels, for example "
            "--labels 'tox_*'."
        )
    columns: dict[str, Any] = {
        name: options.pop(name) for name in ("kinds", "drop", "groups") if name in options
    }
    kinds = columns["kinds"].items()
    as_text = [name for name, kind in kinds if kind in ("category", "text", "smiles")]
    drop = columns["drop"]
    return read_table(path, labels or None, as_text=as_text, drop=drop, **options), columns


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


@contextmanager
def opened(
    outputs: Mapping[str, Path | None],
    model_path: Path,
    path: Path,
    *,
    force: bool,
    columns: bool = True,
    **reading: Any,
) -> Iterator[tuple[TableModel, Table, Callable[[str], None]]]:
    """A model, a table for it, and a function that shows steps; outputs are checked before.

    ``columns``: the outputs are columns in a form that their suffix names.
    """
    check_outputs({"MODEL": model_path, "TABLE": path}, outputs, force=force)
    with data_problems(), progress() as tell:
        for output in filter(None, outputs.values() if columns else ()):
            check_suffix(output)
        tell(f"reading {path.name}")
        yield *open_both(model_path, path, **reading), tell


def check_outputs(
    inputs: Mapping[str, Path | None], outputs: Mapping[str, Path | None], *, force: bool
) -> None:
    """Refuse, before any work, outputs that exist, would replace an input, or have no folder."""
    seen = {name: path for name, path in inputs.items() if path is not None}
    for name, path in outputs.items():
        if path is None:
            continue
        other = next((key for key, file in seen.items() if _same_file(file, path)), None)
        if other is not None:
            raise click.UsageError(
                f"{other} and {name} are the same file, {path}. Name another file with {name}."
            )
        seen[name] = path
        if path.exists() and not force:
            raise click.UsageError(f"{path} exists; --force overwrites it.")
        folder = path.resolve().parent  # of the target of a link
        if not folder.is_dir():
            raise click.UsageError(f"There is no folder {folder} to write {path.name} to.")


def _same_file(one: Path, other: Path) -> bool:
    """Whether two paths name one file, through links, ``..`` and file systems that ignore case."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return str(one.resolve()).casefold() == str(other.resolve()).casefold()


def say(*lines: str, err: bool = False) -> None:
    """Print lines, with control characters spelt out: a name must not control the terminal."""
    click.echo("\n".join(map(printable, lines)), err=err)


def echo_json(result: Any, *, indent: int | None = 1) -> None:
    """Print dataclasses, arrays and numbers as JSON; what is undefined is null."""
    say(*json.dumps(plain_values(result), indent=indent, ensure_ascii=False).split("\n"))


def warn(lines: Iterable[str]) -> None:
    """Print warnings on standard error."""
    for line in lines:
        say(f"warning: {line}", err=True)


@contextmanager
def data_problems() -> Iterator[None]:
    """Exit with code 1 on errors in the data, 2 on those in the arguments; print warnings."""
    with warnings.catch_warnings(record=True) as caught:
        for category in (ConstantLabelWarning, ConvergenceWarning):
            warnings.simplefilter("always", category)
        try:
            yield
        except ColumnRequestError as error:
            raise click.UsageError(str(error).replace("\n", " ")) from error
        except (ValueError, OSError, ImportError) as error:
            raise click.ClickException(str(error).replace("\n", " ")) from error
        finally:
            lines = (str(warning.message).replace("\n", " ") for warning in caught)
            warn(dict.fromkeys(lines))


@contextmanager
def progress(console: Any = None) -> Iterator[Callable[[str], None]]:
    """Show steps as they come: a spinner in terminals and notebooks with ipywidgets, else lines."""
    console = Console(stderr=True) if console is None else console
    widgets = console.is_jupyter and find_spec("ipywidgets") is not None
    if console.is_terminal or widgets:
        with console.status("starting") as status:
            yield lambda line: status.update(escape(printable(line)))
    else:
        yield lambda line: say(f"{line} ...", err=True)
