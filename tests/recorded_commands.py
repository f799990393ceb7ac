"""Commands on small tables, whose output is stored under ``tests/dm2l/cli/recorded``.

A journey is a list of commands that run in one folder. Of each journey two files are stored:

- ``NAME.txt``, words: every command with its exit code and all it prints, and the columns of the
  tables that it writes. ``python tests/dm2l/cli/record.py`` writes them again.
- ``NAME.json``, numbers: what the written tables hold, and the numbers that were printed. They are
  written again only by ``record.py --numbers``, so that another wording cannot hide another number.

Steps have names of their own, under which numbers are stored: an option may be renamed.
"""

import csv
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import chdir
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from assays import make_assays
from dm2l.cli._commands import COMMANDS, cli
from half_labelled import as_csv, make_table, spell
from terminal import command_runner

RECORDED = Path(__file__).parent / "dm2l" / "cli" / "recorded"
N_ROWS = 120
# A column with more different texts holds data, one with fewer may hold words of dm2l.
MOST_WORDS = 6


class Step(NamedTuple):
    name: str
    line: str  # arguments, with single quotes around those that hold blanks
    clock: bool = False  # the numbers printed are times


class Journey(NamedTuple):
    prepare: Callable[[], None]  # writes its files into the current folder
    steps: list[Step]
    needs: tuple[str, ...] = ()  # packages


# ------------------------------------------------------------------------------------------ tables


def _columns(n_rows: int = N_ROWS, *, seed: int = 0, n_labels: int = 4) -> tuple[Any, Any, Any]:
    columns, truth, observed = make_table(n_rows, seed=seed)
    return columns, truth[:, :n_labels], observed[:, :n_labels]


def _labels(truth: Any, observed: Any, *words: str) -> dict[str, list[str]]:
    padding = np.zeros((len(truth), 10 - truth.shape[1]), bool)
    named = spell(np.hstack([truth, padding]), np.hstack([observed, padding]), *words)
    return dict(list(named.items())[: truth.shape[1]])


def _write(name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")


def tickets() -> None:
    """Texts, categories, numbers, and labels 1, 0 and blank; new rows without labels."""
    columns, truth, observed = _columns()
    _write("tickets.csv", as_csv(columns, _labels(truth, observed)))
    few, truth, observed = _columns(30, seed=1)
    _write("new.csv", as_csv(few))
    _write("later.csv", as_csv(few, _labels(truth, observed)))


def words() -> None:
    """Semicolons, decimal commas, labels Yes, No and unknown, a score with a cutoff, copies."""
    columns, truth, observed = _columns(n_labels=3)
    labels = _labels(truth, observed, "Yes", "No", "unknown")
    labels["grade"] = [f"{value / 7:.2f}".replace(".", ",") for value in range(N_ROWS)]
    columns["amount"] = [value.replace(".", ",") for value in columns["amount"]]
    columns["hours"] = [value.replace(".", ",") for value in columns["hours"]]
    table = columns | labels
    for values in table.values():
        values[100:110] = values[:10]  # rows that repeat earlier ones
    _write("words.csv", as_csv(table, separator=";"))


def positives() -> None:
    """Labels that say yes or nothing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 3))
    truth = X @ rng.normal(size=(3, 3)) + 0.3 * rng.normal(size=(N_ROWS, 3)) > 0.3
    ticked = truth & (rng.random(truth.shape) < 0.6)
    columns = {f"x{j}": [f"{value:.4f}" for value in X[:, j]] for j in range(3)}
    labels = {f"tag_{k}": ["1" if tick else "" for tick in ticked[:, k]] for k in range(3)}
    _write("tags.csv", as_csv(columns, labels))


def formats() -> None:
    """The same rows as .parquet, .arff and .npz."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N_ROWS, 4)).round(4)
    Y = (X @ rng.normal(size=(4, 3)) > 0).astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(4)])
    for k in range(3):
        frame[f"y{k}"] = Y[:, k]
    frame.to_parquet("rows.parquet")
    names = [f"y{k}" for k in range(3)]
    np.savez("rows.npz", X=X, Y=Y, label_names=names)
    head = ["@relation rows"] + [f"@attribute x{j} numeric" for j in range(4)]
    head += [f"@attribute y{k} {{0,1}}" for k in range(3)] + ["@data"]
    lines = [
        ",".join([*map(str, x), *("?" if v != v else f"{v:.0f}" for v in y)])
        for x, y in zip(X.tolist(), Y.tolist(), strict=True)
    ]
    _write("rows.arff", "\n".join([*head, *lines]) + "\n")


def molecules() -> None:
    """SMILES with activities."""
    pd.DataFrame(make_assays(100)).to_csv("assays.csv", index=False)


def nothing() -> None:
    """No file is needed."""


# ---------------------------------------------------------------------------------------- journeys

_FIXED = "--kernel linear --lambda-d 0.1 --alpha 0.3 --folds 3"
_TOPICS = "tickets.csv --labels 'topic_*'"
_WORDS = "words.csv --labels 'topic_*' --missing unknown"

JOURNEYS = {
    "help": Journey(
        nothing,
        [
            Step("version", "--version"),
            Step("help", "--help"),
            *(Step(name, f"{name} --help") for name in COMMANDS),
        ],
    ),
    "demo": Journey(
        nothing,
        [
            Step("numbers", "demo --json"),
            Step("shown", "demo --rho 0.5 --seed 1", clock=True),
            Step("bad share", "demo --rho 3"),
        ],
    ),
    "automatic": Journey(
        tickets,
        [
            Step("inspect", f"inspect {_TOPICS}"),
            Step("inspect json", f"inspect {_TOPICS} --json"),
            Step("fit", f"fit {_TOPICS} -o a.dm2l --effort quick"),
            Step("fit json", f"fit {_TOPICS} -o b.dm2l --effort quick --seed 1 --json"),
            Step("complete", "complete a.dm2l tickets.csv -o filled.csv"),
            Step("complete details", "complete a.dm2l tickets.csv -o f2.csv --details d.csv"),
            Step("complete bound", "complete a.dm2l tickets.csv -o f3.csv --max-error-rate 5%"),
            Step("complete wider", "complete a.dm2l tickets.csv -o f5.csv --max-error-rate 0.12"),
            Step("complete xlsx", "complete a.dm2l later.csv -o filled.xlsx"),
            Step("complete json", "complete a.dm2l later.csv -o f4.csv --margin 0.1 --json"),
            Step("predict", "predict a.dm2l new.csv -o scores.csv --keep ticket"),
            Step("predict json", "predict a.dm2l new.csv -o scores.tsv --json"),
            Step("suggest", "suggest a.dm2l tickets.csv -o ask.csv --top 20 --keep ticket"),
            Step("suggest rows", "suggest a.dm2l tickets.csv -o ask2.csv --rows --top 20 --json"),
            Step("audit", "audit a.dm2l tickets.csv"),
            Step("audit file", "audit a.dm2l tickets.csv -o odd.csv --top 30 --json"),
            Step("explain", "explain a.dm2l"),
            Step("explain json", "explain a.dm2l --label topic_login --top 3 --json"),
            Step(
                "evaluate",  # two labels: four take as long as all other steps
                "evaluate tickets.csv --labels topic_login,topic_billing --drop 'topic_*' "
                "--repetitions 2",
            ),
            Step(
                "tasks",
                "review a.dm2l tickets.csv --answers answers.jsonl --export labelstudio "
                "-o tasks.json --top 3",
            ),
        ],
    ),
    "kernels": Journey(
        words,
        [
            Step("inspect", f"inspect {_WORDS} --cutoff 'grade>=8' --labels grade"),
            Step("fit", f"fit {_WORDS} -o a.dm2l {_FIXED} --estimate-folds 2"),
            Step("complete", "complete a.dm2l words.csv -o filled.csv"),
            Step(
                "complete bound", "complete a.dm2l words.csv -o f2.csv --max-error-rate 0.1 --json"
            ),
            Step("predict", "predict a.dm2l words.csv -o scores.csv --keep ticket --safe-csv"),
            Step("suggest", "suggest a.dm2l words.csv -o ask.csv --top 20"),
            Step("audit", "audit a.dm2l words.csv -o odd.csv --top 20"),
            Step("explain", "explain a.dm2l --top 4"),
            Step(
                "fit searched",
                f"fit {_WORDS} -o b.dm2l --kernel rbf --folds 3 --estimate-folds 0 "
                "--calibration isotonic --kind channel=text --drop vip --json",
            ),
            Step("predict searched", "predict b.dm2l words.csv -o scores2.csv"),
            Step("explain kernel", "explain b.dm2l --label topic_login"),
            Step(
                "fit cutoff",
                "fit words.csv --labels 'grade,topic_*' --missing unknown --positive 'topic_*=No' "
                f"--cutoff 'grade>=8' -o c.dm2l {_FIXED} --estimate-folds 0 --groups duplicates",
            ),
            Step("predict cutoff", "predict c.dm2l words.csv -o scores3.csv"),
            Step(
                "evaluate",
                f"evaluate {_WORDS} --repetitions 2 {_FIXED} --hide 0.3 --groups channel --json",
            ),
            Step("evaluate shown", f"evaluate {_WORDS} --repetitions 2 {_FIXED}"),
        ],
    ),
    "positives": Journey(
        positives,
        [
            Step("inspect", "inspect tags.csv --labels 'tag_*'"),
            Step("fit refused", "fit tags.csv --labels 'tag_*' -o no.dm2l"),
            Step(
                "fit",
                "fit tags.csv --labels 'tag_*' -o a.dm2l --missing-as unlabelled --folds 2 "
                "--estimate-folds 2",
            ),
            Step("complete", "complete a.dm2l tags.csv -o filled.csv"),
            Step("predict", "predict a.dm2l tags.csv -o scores.csv"),
            Step("audit", "audit a.dm2l tags.csv -o odd.csv"),
            Step("bound refused", "complete a.dm2l tags.csv -o f2.csv --max-error-rate 5%"),
            Step(
                "fit negatives",
                f"fit tags.csv --labels 'tag_*' -o b.dm2l --missing-as negative {_FIXED} --json",
            ),
            Step("predict negatives", "predict b.dm2l tags.csv -o scores2.csv"),
            Step(
                "evaluate",
                "evaluate tags.csv --labels 'tag_*' --missing-as unlabelled "
                f"--repetitions 2 {_FIXED}",
            ),
        ],
    ),
    "formats": Journey(
        formats,
        [
            Step("inspect arff", "inspect rows.arff --labels 3"),
            Step("inspect npz", "inspect rows.npz --json"),
            Step("fit parquet", f"fit rows.parquet --labels 'y*' -o a.dm2l {_FIXED}"),
            Step("complete parquet", "complete a.dm2l rows.parquet -o filled.parquet"),
            Step("predict xlsx", "predict a.dm2l rows.parquet -o scores.xlsx"),
            Step("fit xlsx", f"fit scores.xlsx --labels y1 -o d.dm2l {_FIXED} --kind row=numeric"),
            Step("fit npz", f"fit rows.npz -o b.dm2l {_FIXED} --json"),
            Step("complete npz", "complete b.dm2l rows.npz -o filled.npz --details d.csv"),
            Step("fit arff", f"fit rows.arff --labels 3 -o c.dm2l {_FIXED} --estimate-folds 0"),
            Step("complete arff", "complete c.dm2l rows.arff -o filled.arff"),
            Step("complete arff npz", "complete c.dm2l rows.arff -o filled2.npz"),
            Step("predict arff", "predict c.dm2l rows.arff -o scores.parquet"),
        ],
        ("pyarrow", "openpyxl"),
    ),
    "molecules": Journey(
        molecules,
        [
            Step("inspect", "inspect assays.csv --labels 'NR-*,SR-*'"),
            Step(
                "fit",
                "fit assays.csv --labels 'NR-*,SR-*' -o a.dm2l --kernel tanimoto --lambda-d 0.1 "
                "--alpha 0.01 --folds 3 --estimate-folds 2 --groups scaffold",
            ),
            Step("predict", "predict a.dm2l assays.csv -o scores.csv --keep mol_id"),
        ],
        ("rdkit",),
    ),
    "mistakes": Journey(
        tickets,
        [
            Step("no such command", "learn tickets.csv"),
            Step("no labels", "fit tickets.csv -o a.dm2l"),
            Step("labels not there", "fit tickets.csv --labels 'tox_*' -o a.dm2l"),
            Step("no file", "fit none.csv --labels a -o a.dm2l"),
            Step("no folder", f"fit {_TOPICS} -o none/a.dm2l"),
            Step("no numbers", "fit tickets.csv --labels text -o a.dm2l"),
            Step("bad kind", f"inspect {_TOPICS} --kind channel=colour"),
            Step("bad scoring", f"fit {_TOPICS} -o a.dm2l --scoring none"),
            Step("bad groups", f"evaluate {_TOPICS} {_FIXED} --groups none"),
            Step("fit", f"fit {_TOPICS} -o a.dm2l {_FIXED} --estimate-folds 0 --effort best"),
            Step("exists", f"fit {_TOPICS} -o a.dm2l"),
            Step("swapped", "complete tickets.csv a.dm2l -o f.csv"),
            Step("no model", "predict tickets.csv new.csv -o f.csv"),
            Step("other form", "complete a.dm2l tickets.csv -o f.parquet"),
            Step(
                "two bounds",
                "complete a.dm2l tickets.csv -o f.csv --margin 0.1 --max-error-rate 5%",
            ),
            Step("bad share", "complete a.dm2l tickets.csv -o f.csv --max-error-rate much"),
            Step("bad separator", "predict a.dm2l new.csv -o f.csv --separator ';'"),
            Step("column not there", "predict a.dm2l new.csv -o f.csv --keep nothing"),
            Step("bad suffix", "predict a.dm2l new.csv -o f.doc"),
            Step("label not there", "explain a.dm2l --label topic_none"),
        ],
    ),
}


# ----------------------------------------------------------------------------------- what they give


_ENVIRONMENT = {"COLUMNS": "80"}


class Result(NamedTuple):
    words: str
    numbers: dict[str, Any]  # by step


def run_journey(name: str) -> Result:
    """Run the commands in the current folder, which is empty."""
    journey = JOURNEYS[name]
    journey.prepare()
    blocks, numbers = [], {}
    for step in journey.steps:
        before = _stamps()
        # A command keeps the help option of its first call, which had no -h if cli was not called.
        for name in COMMANDS:
            cli.get_command(None, name)._help_option = None
        done = command_runner().invoke(cli, _split(step.line), prog_name="dm2l", env=_ENVIRONMENT)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        after = _stamps()
        written = [Path(file) for file in after if after[file] != before.get(file)]
        tables = {path.name: _table(path) for path in sorted(written) if path.suffix in _READERS}
        others = sorted(path.name for path in written if path.name not in tables)
        blocks.append(_block(step, done, tables, others))
        numbers[step.name] = {
            "exit code": done.exit_code,
            "printed": [] if step.clock else _printed(done.stdout),
            "files": {file: _cells(table) for file, table in tables.items()},
        }
    return Result("\n".join(blocks), numbers)


def _split(line: str) -> list[str]:
    return [part.strip("'") for part in re.findall(r"'[^']*'|[^ ]+", line)]


def _stamps() -> dict[str, tuple[int, int]]:
    stats = {path.name: path.stat() for path in Path().iterdir() if path.is_file()}
    return {name: (stat.st_mtime_ns, stat.st_ino) for name, stat in stats.items()}


def _block(step: Step, done: Any, tables: dict[str, Any], others: list[str]) -> str:
    stdout, stderr = _without_times(done.stdout), _without_times(done.stderr)
    lines = [f"# {step.name}", f"$ dm2l {step.line}", stdout]
    lines += ["[standard error]", stderr] if stderr else []
    lines += [f"[exit code {done.exit_code}]"] if done.exit_code else []
    for file, table in tables.items():
        shown = [
            f"{column} ({', '.join(found)})" if found else column
            for column, found in ((column, _few_words(cells)) for column, cells in table)
        ]
        lines.append(f"[{file}: {', '.join(shown)}]")
    if others:
        lines.append(f"[other files: {', '.join(others)}]")
    return "\n".join(line for line in lines if line) + "\n"


def _without_times(text: str) -> str:
    """Output without what differs from run to run: times and the folder."""
    text = text.replace(str(Path.cwd()), "FOLDER").rstrip("\n")
    text = re.sub(r'"seconds": (\[[^]]*\]|[0-9.]+)', '"seconds": ...', text)
    text = re.sub(r"(?m)\d\.\d\d│$", "....│", text)  # the last column of the demo
    return re.sub(r" \(\d+ s(, about \d+ s left)?\)|, about \d+ s left", "", text)


# A table is a list of columns, each a name and its cells as text.
Column = tuple[str, list[str]]


def _from_text(separator: str) -> Callable[[Path], list[Column]]:
    def read(path: Path) -> list[Column]:
        with path.open(encoding="utf-8", newline="") as file:
            sample = file.readline()
            file.seek(0)
            found = ";" if separator == "," and sample.count(";") > sample.count(",") else separator
            header, *rows = csv.reader(file, delimiter=found)
        return [(name, [row[k] for row in rows]) for k, name in enumerate(header)]

    return read


def _labels_of_archive(path: Path) -> list[Column]:
    with np.load(path) as file:
        names, Y = file["label_names"].tolist(), file["Y"].astype(float)
    return [(name, [str(cell) for cell in Y[:, k]]) for k, name in enumerate(names)]


def _from_frame(read: Callable[[Path], pd.DataFrame]) -> Callable[[Path], list[Column]]:
    return lambda path: [
        (str(name), ["" if cell is None or cell != cell else str(cell) for cell in values.tolist()])
        for name, values in read(path).items()
    ]


_READERS = {
    ".csv": _from_text(","),
    ".tsv": _from_text("\t"),
    ".parquet": _from_frame(pd.read_parquet),
    ".xlsx": _from_frame(pd.read_excel),
    ".npz": _labels_of_archive,
}


def _table(path: Path) -> list[Column]:
    return _READERS[path.suffix](path)


def _as_numbers(cells: list[str]) -> list[float | None] | None:
    """None for what is blank; nothing where a cell is no number."""
    try:
        return [float(cell.replace(",", ".")) if cell else None for cell in cells]
    except ValueError:
        return None


def _few_words(cells: list[str]) -> list[str]:
    """Different texts of a column of few words."""
    found = list(dict.fromkeys(filter(None, cells)))
    return [] if _as_numbers(cells) is not None or len(found) > MOST_WORDS else found


def _cells(table: list[Column]) -> list[Any]:
    """Columns without their names: numbers; few words, by their order; a digest of many."""
    return [_column(cells) for _, cells in table]


def _column(cells: list[str]) -> Any:
    numbers = _as_numbers(cells)
    if numbers is not None:
        return numbers
    few = _few_words(cells)
    if few:
        return [few.index(cell) if cell else None for cell in cells]
    return hashlib.sha256("\0".join(cells).encode()).hexdigest()


def _printed(text: str) -> list[float]:
    """All numbers of a JSON text but times; of other text, in which words count too, decimals."""
    try:
        found = [float(number) for number in _numbers_of(json.loads(text))]
    except ValueError:
        found = [float(number) for number in re.findall(r"\d+\.\d+", text)]
    return sorted(found)


def _numbers_of(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for key, part in value.items():
            if key != "seconds":
                yield from _numbers_of(part)
    elif isinstance(value, list):
        for part in value:
            yield from _numbers_of(part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


# ------------------------------------------------------------------------------------- comparison


def packages() -> dict[str, str]:
    """Versions that decide on words and numbers."""
    names = ("click", "rich", "numpy", "scipy", "scikit-learn", "pandas")
    return {name: ".".join(version(name).split(".")[:2]) for name in names}


def without_numbers(text: str) -> str:
    """Words alone: no numbers, no frames, single blanks."""
    text = re.sub(r"[\u2500-\u257f]", " ", text)
    text = re.sub(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?", "#", text)
    return "\n".join(line for line in (" ".join(row.split()) for row in text.splitlines()) if line)


def differences(stored: Any, found: Any, place: str = "") -> Iterator[str]:
    """Where two records of numbers differ; the last digit of a decimal may."""
    if isinstance(stored, dict) and isinstance(found, dict):
        for key in stored | found:
            if (key in stored) != (key in found):
                yield f"{place}/{key}: only {'recorded' if key in stored else 'now'}"
            else:
                yield from differences(stored[key], found[key], f"{place}/{key}")
    elif isinstance(stored, list) and isinstance(found, list) and len(stored) == len(found):
        for number, pair in enumerate(zip(stored, found, strict=True)):
            yield from differences(*pair, f"{place}[{number}]")
    elif isinstance(stored, float) and isinstance(found, float):
        if abs(stored - found) > TOLERANCE * max(1, abs(stored)):
            yield f"{place}: {stored} was stored, now {found}"
    elif stored != found:
        yield f"{place}: {str(stored)[:80]} was stored, now {str(found)[:80]}"


# Files have four to six decimals, of which other processors may round the last one otherwise.
TOLERANCE = 2e-6


def record(names: list[str], *, numbers: bool) -> None:
    """Run journeys and store what they say, and with ``numbers`` what they compute."""
    RECORDED.mkdir(exist_ok=True)
    for name in names or JOURNEYS:
        with TemporaryDirectory() as folder, chdir(folder):
            result = run_journey(name)
        (RECORDED / f"{name}.txt").write_text(result.words, encoding="utf-8")
        file = RECORDED / f"{name}.json"
        if numbers or not file.exists():
            content = {"packages": packages(), "steps": result.numbers}
            file.write_text(_compact(content), encoding="utf-8")


def _compact(content: Any) -> str:
    """JSON with a line for every column."""
    text = json.dumps(content, indent=1)
    return re.sub(r"\[[^][{}]*\]", lambda found: re.sub(r"\s+", " ", found[0]), text) + "\n"
