"""Options, file checks, errors and output that several commands use."""

import json
import re
import shlex
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.core import ParameterSource
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text
from sklearn.exceptions import ConvergenceWarning

from dm2l._search._search import usual_scoring
from dm2l._utils.files import TABLES, printable, suffix_of
from dm2l.io._columns import ColumnRequestError
from dm2l.io._label_columns import label_columns
from dm2l.io._table import check_encoding, check_separator
from dm2l.labels import ConstantLabelWarning
from dm2l.labels._rules import LabelRules
from dm2l.model_selection import get_scorer_names
from dm2l.tables import FitOptions, Table, TableModel, load_bundle, read_table
from dm2l.tables._inspection import observed_warnings
from dm2l.tables._kinds import KINDS
from dm2l.tables._model import read_for
from dm2l.tables._options import KERNELS
from dm2l.tables._output import check_suffix, plain_values
from dm2l.tables._reading import MATRIX_FORMATS
from dm2l.tables._scores import add_scores

Command = Callable[..., Any]
# The Python argument that a message names after an option, as in "--split (split=)".
_IN_PYTHON = re.compile(r" \((?:\w+=,? ?)+(?:in Python)?\)")

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_TABLES = (*TABLES, *MATRIX_FORMATS)
TYPED = ParameterSource.COMMANDLINE
_PAIR = np.eye(2, dtype=bool)  # positive entries, one per row


def unquoted(text: str) -> str:
    """Remove single quotes around a text, which the Windows command prompt keeps."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else text


table_argument = click.argument("path", metavar="TABLE", type=FILE)
model_argument = click.argument("model_path", metavar="MODEL", type=FILE)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
force_option = click.option("--force", is_flag=True, help="Overwrite files that exist.")
seed_option = click.option("--seed", default=0, help="Random seed of folds, masks and samples.")
# An option for text that can be passed several times.
text_option = partial(click.option, multiple=True, type=unquoted)
keep_option = text_option(
    "--keep",
    metavar="COLUMN",
    help="A column of TABLE to copy to the output, such as an identifier.",
)


def file_option(
    metavar: str, help: str, *names: str, required: bool = False, new: bool = True
) -> Command:
    """Return an option that takes a file; without ``names``, the option is ``-o``."""
    kind = click.Path(dir_okay=False, path_type=Path) if new else FILE
    names = names or ("-o", "--output")
    return click.option(*names, required=required, type=kind, metavar=metavar, help=help)


def port_option(default: int) -> Command:
    """Return the option ``--port`` of a command that runs a server."""
    numbers, help = click.IntRange(0, 65535), "Port of the server. 0 chooses a free port."
    return click.option("--port", type=numbers, default=default, help=help)


def effort_option(default: str) -> Command:
    """Return the option ``--effort`` of a command that fits a model."""
    return click.option(
        "--effort",
        type=click.Choice(["quick", "normal", "best"]),
        default=default,
        help="Models to try: quick tries linear and kernel models, normal also tries trees, and "
        "best tries more models of each kind. Ignored with --kernel, --lambda-d, --alpha, "
        "--scoring and --missing-as unlabelled.",
    )


def share(_context: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    """Convert a share such as 5% or 0.05 to a number."""
    if value is None:
        return None
    number, percent, rest = value.strip().partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if rest or not 0 <= share <= 1:
        raise click.BadParameter(f"{value!r} is not a share between 0 and 1, such as 5% or 0.05.")
    return share


def _options(*options: Command) -> Command:
    return lambda command: reduce(lambda found, option: option(found), reversed(options), command)


def _kinds(_context: Any, _option: Any, values: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for value in values:
        name, equals, kind = value.rpartition("=")
        if not equals or kind not in KINDS:
            raise click.BadParameter(
                f"{value!r} must be COLUMN=KIND, where KIND is one of {', '.join(KINDS)}."
            )
        found[name] = kind
    return found


def _positive(_context: Any, _option: Any, values: tuple[str, ...]) -> dict[str, list[str]]:
    """Group the values of ``--positive`` by label; "*" stands for all labels."""
    found: dict[str, list[str]] = {}
    for text in values:
        label, _, value = text.rpartition("=")
        found.setdefault(label or "*", []).append(value if label else text)
    return found


def _by_label(_context: Any, _option: Any, values: tuple[str, ...]) -> dict[str, str]:
    """Split each ``LABEL=VALUE`` into a label and its value; "*" stands for all labels."""
    return {label or "*": text for label, _, text in (value.rpartition("=") for value in values)}


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
        raise ValueError(f"The decimal point must be one character, got {value!r}.")


rules_option = file_option(
    "RULES",
    'Rules that the labels obey, one per line, such as "flu => fever" or "not both: flu, cold". '
    "dm2l fit stores the rules in the model.",
    "--rules",
    new=False,
)
reading_options = _options(
    text_option(
        "--missing",
        metavar="MARK",
        help="Additional text that marks a missing label, such as -1 or unknown. "
        "Blank cells, ?, NA, null and none are always missing.",
    ),
    click.option(
        "--separator",
        callback=_checked(check_separator),
        help="Character that separates the columns of a text file; \\t is a tab. By default, the "
        "character is detected.",
    ),
    click.option(
        "--decimal",
        callback=_checked(_check_decimal),
        help="Decimal point of numbers in text. The default is a comma if columns are separated by "
        "semicolons and numbers contain commas; otherwise, it is a point.",
    ),
    click.option(
        "--encoding",
        default="utf-8",
        show_default=False,
        callback=_checked(check_encoding),
        help="Encoding of a text file. The default is UTF-8.",
    ),
)
missing_as_option = text_option(
    "--missing-as",
    metavar="[LABEL=]HOW",
    callback=_by_label,
    help="How to read a blank label: missing (unknown, the default), unlabelled (negative or "
    "an overlooked positive), or negative. LABEL is a name or pattern. In a column of tags, "
    "HOW applies to tags that a cell does not contain; with negative, blank cells stay missing.",
)
search_options = _options(
    rules_option,
    click.option(
        "--kernel",
        type=click.Choice(KERNELS),
        default="auto",
        help="Fit a single DM2L model with this kernel; tanimoto is for binary features and "
        "molecules. auto fits linear, kernel and tree models, and combines their predictions.",
    ),
    click.option(
        "--lambda-d", type=click.FloatRange(0), help="Weight of the nuclear-norm terms of DM2L."
    ),
    click.option("--alpha", type=click.FloatRange(0), help="Ridge penalty of DM2L."),
    click.option(
        "--scoring",
        type=click.Choice(get_scorer_names()),
        metavar="METRIC",
        help="Scorer that the hyperparameter search of DM2L maximizes: a name from "
        "dm2l.model_selection.get_scorer_names(). The default is "
        f"{usual_scoring(_PAIR, ~_PAIR)}, or {usual_scoring(_PAIR[:, :1], ~_PAIR[:, :1])} if "
        "rows have, on average, fewer than one positive or fewer than one negative label.",
    ),
    click.option(
        "--folds",
        "cv",
        type=click.IntRange(2),
        default=5,
        help="Number of folds for search and calibration; the default with --effort quick is 3.",
    ),
    missing_as_option,
    click.option(
        "--groups",
        metavar="COLUMN|duplicates|scaffold",
        type=unquoted,
        help="Keep related rows in the same fold, so that the estimated quality is not too high. "
        "COLUMN: rows with the same value in this column, which is then not a feature; duplicates: "
        "rows with the same features; scaffold: molecules with the same scaffold.",
    ),
)


scores_options = _options(
    file_option(
        "SCORES",
        "Table with out-of-fold scores (probabilities or logits) of another model for the rows of "
        "TABLE. Each label needs a column with the label's name. Cells may be blank.",
        "--scores",
        new=False,
    ),
    click.option(
        "--id",
        "row_id",
        metavar="COLUMN",
        help="Column that identifies rows in TABLE and SCORES. By default, rows match by order.",
    ),
)

# Options of the commands that ask questions, that apply a model, and that read labels.
session_options = _options(scores_options, reading_options, rules_option, force_option, json_option)
model_options = _options(
    model_argument,
    table_argument,
    click.option(
        "--safe-csv",
        is_flag=True,
        help="Put ' before text that begins with =, +, - or @ and may be run as a formula.",
    ),
    session_options,
)
label_options = _options(
    table_argument,
    text_option(
        "--labels",
        metavar="NAMES",
        help='Label columns: names separated by commas, a pattern such as "tox_*", a prefix such '
        "as tox_, or the number of label columns at the end of the table. Files that name their "
        "labels (.arff, .npz, ...) do not need this option.",
    ),
    reading_options,
    text_option(
        "--positive",
        metavar="[LABEL=]VALUE",
        callback=_positive,
        help="Value of positive entries, if it is not 1, yes, true, active, positive or +. LABEL "
        "is a name or pattern, as in --positive dx_flea=seen. Without LABEL, as in --positive 2, "
        "the value applies to all labels. The model stores the value.",
    ),
    text_option(
        "--cutoff",
        "cutoffs",
        metavar='"LABEL>=X"',
        help="Name or pattern of numeric labels, followed by >=, >, <= or < and a threshold. "
        '"fold_*>=2" reads values of at least 2 as positive. The model stores the threshold.',
    ),
    text_option(
        "--values",
        metavar="LABEL[=LOW<HIGH]",
        help="A label column in which each value becomes a label. Columns with 3 to 50 values do "
        'not need this option. "pain=low<mid<high" declares an order. The model stores the values.',
    ),
    text_option(
        "--split",
        metavar="[LABEL=]TEXT",
        callback=_by_label,
        help='Text between two tags in a cell of a label column, such as ",". Each tag becomes a '
        "label. JSON lists do not need this option. The model stores the text.",
    ),
    text_option(
        "--kind",
        "kinds",
        metavar="COLUMN=KIND",
        callback=_kinds,
        help='Kind of a column, or of all columns that match a pattern such as "fp_*". By default, '
        f"kinds are detected. Possible kinds: {', '.join(KINDS)}.",
    ),
    text_option(
        "--drop",
        metavar="COLUMN",
        help="Name or pattern of columns to leave out of the features and labels.",
    ),
    json_option,
)


def fit_options(options: dict[str, Any]) -> FitOptions:
    """Remove the options of a fit from the ``options`` of a command, and return them."""
    options["random_state"] = options.pop("seed")
    if options["rules"] is not None:
        options["rules"] = LabelRules.read(options["rules"])
    names = FitOptions.__dataclass_fields__.keys() & options.keys()
    found = FitOptions(**{name: options.pop(name) for name in names})
    if click.get_current_context().get_parameter_source("effort") is TYPED and not found.automatic:
        which = "--kernel, --lambda-d, --alpha or --scoring"
        which = "--missing-as unlabelled" if found.unlabelled else which
        warn([f"--effort is ignored because {which} fits a single DM2L model"])
    return found


def open_table(
    path: Path, tell: Callable[[str], None], labels: tuple[str, ...], **options: Any
) -> tuple[Table, dict[str, Any]]:
    """Read a table with labels, and return it with the options of its feature columns."""
    tell(f"reading {path.name}")
    if not labels and suffix_of(path) not in MATRIX_FORMATS:
        raise click.UsageError(
            f"The label columns of {path.name} are unknown. Pass their names, for example with "
            '--labels "tox_*" or --labels fever,cough.'
        )
    names = {"kinds", "drop", "groups", "missing_as"} & options.keys()
    columns: dict[str, Any] = {name: options.pop(name) for name in names}
    kinds = columns["kinds"].items()
    as_text = [name for name, kind in kinds if kind in ("category", "text", "smiles")]
    scores, row_id = (options.pop(name, None) for name in ("scores", "row_id"))
    options |= {"as_text": as_text, "drop": columns["drop"], "labels_only": scores is not None}
    table = read_table(path, labels or None, **options)
    if scores is not None:
        table = add_scores(table, scores, table.label_names, row_id)
        columns["drop"] = [*columns["drop"], *filter(None, [row_id])]
    return table, columns


@contextmanager
def opened(
    outputs: Mapping[str, Path | None],
    model_path: Path,
    path: Path,
    *,
    others: Mapping[str, Path | None] | None = None,
    force: bool,
    columns: bool = True,
    labels: bool = True,
    rules: Path | None = None,
    **reading: Any,
) -> Iterator[tuple[TableModel, Table, Callable[[str], None]]]:
    """Check all files, and yield the model (with ``rules``), a table and a progress function."""
    check_outputs({"MODEL": model_path, "TABLE": path, **(others or {})}, outputs, force=force)
    with data_problems(), progress() as tell:
        for output in filter(None, outputs.values() if columns else ()):
            check_suffix(output)
        if suffix_of(model_path) in _TABLES and suffix_of(path) not in _TABLES:
            raise click.UsageError(
                "The arguments are swapped. MODEL comes before TABLE: dm2l "
                f"{click.get_current_context().info_name} {path.name} {model_path.name}."
            )
        tell(f"reading {path.name}")
        model = load_bundle(model_path)
        if rules is not None:
            model.set_rules(LabelRules.read(rules))
        table = read_for(model, path, labels=labels, **reading)
        if labels:
            warn(observed_warnings(table, model.classifier.rules))
        yield model, table, tell


def check_outputs(
    inputs: Mapping[str, Path | None], outputs: Mapping[str, Path | None], *, force: bool
) -> None:
    """Reject output files that exist, that are also inputs, or whose folder does not exist."""
    seen = {name: path for name, path in inputs.items() if path is not None}
    for name, path in outputs.items():
        if path is None:
            continue
        other = next((key for key, file in seen.items() if _same_file(file, path)), None)
        if other is not None:
            raise click.UsageError(
                f"{other} and {name} are the same file, {path}. Choose another file for {name}."
            )
        seen[name] = path
        if path.exists() and not force:
            raise click.UsageError(f"{path} exists. Pass --force to overwrite it.")
        folder = path.resolve().parent  # the folder of the target, if the path is a link
        if not folder.is_dir():
            raise click.UsageError(f"{path}: the folder {folder} does not exist. Create it.")


def _same_file(one: Path, other: Path) -> bool:
    """Return whether two paths lead to the same file if links are followed and case is ignored."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return str(one.resolve()).casefold() == str(other.resolve()).casefold()


def command_line(command: str, *more: object) -> str:
    """Return a call of another command with the files and reading options of this command."""
    same = "model_path path scores row_id missing separator decimal encoding rules max_error_rate"
    context, words = click.get_current_context(), ["dm2l", command]
    for option in context.command.params:
        name, given = option.name or "", context.params.get(option.name or "")
        if name in same.split() and context.get_parameter_source(name) is TYPED:
            for value in given if isinstance(given, tuple) else [given]:
                words += [*option.opts[: isinstance(option, click.Option)], str(value)]
    return shlex.join([*words, *map(str, more)])


def count_labels(model: TableModel) -> str:
    """Return a text such as "12 labels", or "12 labels in 4 label columns"."""
    n_labels, n = len(model.label_names), len(label_columns(model))
    columns = f" in {n} label column{'s' * (n > 1)}" if n < n_labels else ""
    return f"{n_labels} label{'s' * (n_labels > 1)}{columns}"


def one_line(message: object) -> str:
    """Return a message on a single line, without the names of Python arguments."""
    return _IN_PYTHON.sub("", str(message).replace("\n", " "))


def say(*lines: str, err: bool = False) -> None:
    """Print lines with control characters escaped, so that names cannot control the terminal."""
    click.echo("\n".join(map(printable, lines)), err=err)


def show_grid(
    headings: Sequence[str], rows: Iterable[Sequence[str]], title: str = "", *, left: int = 1
) -> None:
    """Print a table whose first ``left`` columns are left-aligned, without wrapping any cell."""
    cells = [[printable(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    lines = ["", title] if title else []
    for row in cells:
        blanks = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        pairs = enumerate(zip(row, blanks, strict=True))
        line = "  ".join(cell + gap if j < left else gap + cell for j, (cell, gap) in pairs)
        lines.append(line.rstrip())
    say(*lines)


def echo_json(result: Any, *, indent: int | None = 1) -> None:
    """Print dataclasses, arrays and numbers as JSON; undefined values become null."""
    say(*json.dumps(plain_values(result), indent=indent, ensure_ascii=False).split("\n"))


def wrapped(line: str, width: int) -> list[str]:
    """Wrap a text to ``width`` characters, but never within a word or at a no-break space."""
    whole: Any = {"break_long_words": False, "break_on_hyphens": False}
    found = textwrap.wrap(line, width, subsequent_indent=" " * 4, **whole)
    return [part.replace("\xa0", " ") for part in found]


def fitted(line: str, stream: Any) -> list[str]:
    """Return a text as lines without control characters, wrapped if the stream is a terminal."""
    width = shutil.get_terminal_size().columns
    return wrapped(printable(line), width) if stream.isatty() else [printable(line)]


def say_wrapped(*lines: str, err: bool = False) -> None:
    """Print lines, wrapped to the width of the terminal if the output is a terminal."""
    for line in lines:
        say(*fitted(line, sys.stderr if err else sys.stdout), err=err)


def warn(lines: Iterable[str]) -> None:
    """Print warnings on standard error."""
    say_wrapped(*(f"warning: {one_line(line)}" for line in lines), err=True)


@contextmanager
def data_problems() -> Iterator[None]:
    """Print warnings; exit with code 1 on errors in the data, and with 2 on wrong arguments."""
    with warnings.catch_warnings(record=True) as caught:
        for category in (ConstantLabelWarning, ConvergenceWarning):
            warnings.simplefilter("always", category)
        warnings.filterwarnings("always", "The scores in X seem to be in-sample")
        try:
            yield
        except ColumnRequestError as error:
            raise click.UsageError(one_line(error)) from error
        except (ValueError, OSError, ImportError) as error:
            raise click.ClickException(one_line(error)) from error
        finally:
            warn(dict.fromkeys(str(warning.message) for warning in caught))


_COMPLETE: dict[str, Any] = {"total": 1.0, "completed": 1.0}
_COUNT = re.compile(r"(.*?)[:,]? *\b(?:\w+ )?(\d+) of (\d+)\b(.*)")


class TimeLeft(ProgressColumn):
    """Remaining time of the whole fit or, if that is unknown, of the current stage."""

    def render(self, task: Any) -> Text:
        """Return the remaining time as text; "" if the time is unknown or the stage has ended."""
        left, done = task.fields["left"], task.completed
        if task.finished or not (left or done):
            return Text()
        seconds = left() if left else task.elapsed * (1 - done) / done
        words = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
        return Text(f"{words} left{' in all' if left else ''}")


@contextmanager
def progress(console: Any = None) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows progress bars if the output is a terminal or notebook."""
    console = Console(stderr=True) if console is None else console
    widgets = console.is_jupyter and find_spec("ipywidgets") is not None
    if not (console.is_terminal or widgets):
        yield lambda line: None
        return
    text = TextColumn("{task.description}", markup=False)
    bars = Progress(text, BarColumn(12), TimeElapsedColumn(), TimeLeft(), console=console)
    current, task = "", bars.add_task("starting", total=None, left=None)

    def tell(line: str) -> None:
        """Show a line about progress; "2 of 5" in the line moves the progress bar."""
        nonlocal current, task
        text = printable(getattr(line, "step", line))
        stage, share = text.partition(": ")[0], None
        if found := _COUNT.fullmatch(text):
            stage = found[1] or found[4].strip(" :,")
            share = (int(found[2]) - 1) / int(found[3])
        if current and stage != current:
            bars.update(task, **_COMPLETE)
            task = bars.add_task(stage, total=None, left=None)
        current = stage
        known: dict[str, Any] = {"total": None if share is None else 1.0, "completed": share or 0.0}
        bars.update(task, description=stage, left=getattr(line, "left", None), **known)

    with bars:
        yield tell
        bars.update(task, **_COMPLETE)
