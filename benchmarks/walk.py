"""How far one call goes through the library, and how large the library is.

    make walk
    python benchmarks/walk.py [static | calls | rows | places ...]

``static`` counts lines, names, layers and loaded modules; ``calls`` traces a fit, two completions
and ``dm2l fit``, each after it has run once; ``rows`` compares what 20,000 rows cost with one pass
of scoring; ``places`` lists what ``static`` counts. Figures that have a limit are printed with it.
Functions of other packages do not count; comprehensions and generators of dm2l do, as functions of
their own.
"""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "dm2l"
EXPERIMENTS = ROOT / "experiments"
BASE_CLASS = SOURCE / "_base.py"
FOLDER = f"{SOURCE}{os.sep}"
# Qualified names of the functions that every reading of labels goes through once.
LABEL_READERS = ("parse_labels",)

# The most that each figure may be.
LIMITS = {
    "public names": 130,
    "import layers": 12,
    "lines of src/dm2l": 36_000,
    "lines of experiments": 4_500,
    "lines of the longest file": 600,
    "lines of the base class": 450,
    "functions that only forward": 25,
    "uses of __dict__ and vars": 0,
    "modules of dm2l after from dm2l import DM2LClassifier": 36,
    "fit: functions": 110,
    "fit: files": 14,
    "dm2l fit: openings of the table": 2,
    "dm2l fit: readings of labels": 12,
    "table, automatic: passes of predict": 1.15,
    "table, automatic: passes of complete": 1.15,
    "table, kernel: passes of predict": 1.15,
    "table, kernel: passes of complete": 1.15,
}


def main() -> None:
    parts = {
        "static": lambda: chain(source_figures(), loaded_modules()),
        "calls": call_figures,
        "rows": row_figures,
    }
    if sys.argv[1:] == ["places"]:
        print(*places(), sep="\n")
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # then nothing leaves the process
    for name in sys.argv[1:] or parts:
        for figure, value in parts[name]():
            print(in_words(figure, value), flush=True)


def in_words(figure: str, value: Any) -> str:
    shown = f"{value:.2f}" if isinstance(value, float) else f"{value}"
    if figure not in LIMITS:
        return f"{figure}: {shown}"
    verdict = "over" if value > LIMITS[figure] else "met"
    return f"{figure}: {shown} (limit {LIMITS[figure]}: {verdict})"


Figures = Iterator[tuple[str, Any]]


# --------------------------------------------------------------------------------------- the source


def source_figures() -> Figures:
    """Figures that need no import of the library."""
    files = {path: path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in files.items()}
    lengths = {path: text.count("\n") for path, text in files.items()}
    longest = max(lengths, key=lambda path: lengths[path])
    yield "public names", sum(len(public_names(path, tree)) for path, tree in trees.items())
    yield "import layers", n_layers()
    yield "lines of src/dm2l", sum(lengths.values())
    if EXPERIMENTS.exists():
        yield "lines of experiments", n_lines(EXPERIMENTS)
    yield "files of src/dm2l", len(files)
    yield "lines of the longest file", lengths[longest]
    yield "longest file", longest.relative_to(SOURCE)
    yield "lines of the base class", lengths[BASE_CLASS]
    yield "functions that only forward", sum(len(forwarding(tree)) for tree in trees.values())
    yield "uses of __dict__ and vars", sum(len(uses_of_dict(tree)) for tree in trees.values())


def n_lines(folder: Path) -> int:
    return sum(path.read_text(encoding="utf-8").count("\n") for path in folder.rglob("*.py"))


def public_names(path: Path, tree: ast.Module) -> list[str]:
    """Names in ``__all__`` of a module without leading underscore in its path."""
    parts = [part for part in path.relative_to(SOURCE).with_suffix("").parts if part != "__init__"]
    if any(part.startswith("_") for part in parts):
        return []
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def n_layers() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    return len(next(one["layers"] for one in contracts if one["type"] == "layers"))


def forwarding(tree: ast.Module) -> list[ast.FunctionDef]:
    """Functions whose body is one call that takes nothing but names, attributes and constants."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [node for node in functions if only_forwards(node)]


def only_forwards(node: ast.FunctionDef) -> bool:
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    call = body[0].value
    if not isinstance(call, ast.Call):
        return False
    parts = [part.value if isinstance(part, ast.Starred) else part for part in call.args]
    parts += [keyword.value for keyword in call.keywords]
    return all(isinstance(part, ast.Name | ast.Attribute | ast.Constant) for part in parts)


def uses_of_dict(tree: ast.Module) -> list[ast.expr]:
    """Expressions with ``__dict__`` or ``vars()``."""
    return [
        node
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr == "__dict__")
        or (isinstance(node, ast.Call) and ast.unparse(node.func) == "vars")
    ]


def places() -> Iterator[str]:
    """Public names, functions that only forward, and uses of ``__dict__``, with where they are."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree, place = ast.parse(path.read_text(encoding="utf-8")), path.relative_to(SOURCE)
        names = public_names(path, tree)
        if names:
            yield f"{place}: public: {', '.join(names)}"
        for function in forwarding(tree):
            yield f"{place}:{function.lineno}: forwards: {function.name}"
        for use in uses_of_dict(tree):
            yield f"{place}:{use.lineno}: {ast.unparse(use)}"


def loaded_modules() -> Figures:
    """How many modules are loaded after an import, and after the help of the command line."""
    steps = {
        "import dm2l": "import dm2l",
        "from dm2l import DM2LClassifier": "from dm2l import DM2LClassifier",
        "dm2l --help": "import sys\nsys.argv = ['dm2l', '--help']\nfrom dm2l.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass",
    }
    for name, code in steps.items():
        count = "\nimport sys\nprint('modules', *sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", code + count], capture_output=True, check=True, text=True
        )
        found = done.stdout.splitlines()[-1].split()[1:]
        yield f"modules after {name}", len(found)
        own = sum(module.partition(".")[0] == "dm2l" for module in found)
        yield f"modules of dm2l after {name}", own


# ---------------------------------------------------------------------------------------- the calls


class Walk:
    """Calls of functions of dm2l, and openings of one file, while it is entered."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.calls: Counter[CodeType] = Counter()
        self.openings = 0
        self._listening = False
        if path is not None:
            sys.addaudithook(self._hear)

    def __enter__(self) -> Walk:
        self._listening = True
        threading.setprofile(self._trace)
        sys.setprofile(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)
        self._listening = False

    def _trace(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and is_function(frame.f_code):
            self.calls[frame.f_code] += 1

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._listening and event == "open" and isinstance(arguments[0], str | os.PathLike):
            self.openings += Path(arguments[0]).name == self.path.name

    def figures(self, name: str) -> Figures:
        files = {Path(code.co_filename).relative_to(SOURCE) for code in self.calls}
        yield f"{name}: calls", self.calls.total()
        yield f"{name}: functions", len(self.calls)
        yield f"{name}: files", len(files)
        yield f"{name}: packages", len({file.parts[0] for file in files})


def is_function(code: CodeType) -> bool:
    """Whether this is a function of dm2l: no module, no body of a class."""
    return bool(code.co_flags & inspect.CO_OPTIMIZED) and code.co_filename.startswith(FOLDER)


def call_figures() -> Figures:
    import numpy as np

    from dm2l import DM2LClassifier
    from dm2l.datasets import load_digit_attributes

    X, Y = load_digit_attributes(return_X_y=True)
    hidden = np.random.default_rng(0).random((300, 19)) >= 0.3
    X, Y = X[:300], np.where(hidden, np.nan, Y[:300])
    DM2LClassifier().fit(X, Y).complete(X, Y)  # loads what is loaded when it is first used
    model = DM2LClassifier()
    tasks: dict[str, Callable[[], Any]] = {
        "fit": lambda: model.fit(X, Y),
        "complete, first": lambda: model.complete(X, Y),
        "complete, second": lambda: model.complete(X, Y),
    }
    for name, task in tasks.items():
        with Walk() as walk:
            task()
        yield from walk.figures(name)
    yield from command_figures()


def command_figures() -> Figures:
    """``dm2l fit`` of a small table, in this process."""
    from dm2l.cli._commands import cli

    with TemporaryDirectory() as folder:
        path = Path(folder, "walked.csv")
        path.write_text(table_text(120), encoding="utf-8")
        options = ["--labels", "y*", "--effort", "quick", "--force", "-o", f"{folder}/model.dm2l"]
        arguments = ["fit", str(path), *options]
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            cli(arguments, standalone_mode=False)
            with Walk(path) as walk:
                cli(arguments, standalone_mode=False)
    yield from walk.figures("dm2l fit")
    yield "dm2l fit: openings of the table", walk.openings
    read = Counter({code.co_qualname: n for code, n in walk.calls.items()})
    yield "dm2l fit: readings of labels", sum(read[name] for name in LABEL_READERS)


def table_text(n_rows: int) -> str:
    """A table of numbers, a category and a text, with four labels that are half missing."""
    import numpy as np

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 6))
    Y = X @ rng.normal(size=(6, 4)) + 0.5 * rng.normal(size=(n_rows, 4)) > 0.3
    hidden = rng.random(Y.shape) < 0.5
    colours = rng.choice(["red", "green", "blue"], size=n_rows)
    words = rng.choice(["light", "heavy", "round", "flat"], size=(n_rows, 4))
    names = [*(f"x{j}" for j in range(6)), "colour", "words", *(f"y{k}" for k in range(4))]
    lines = [",".join(names)]
    for i in range(n_rows):
        labels = ["" if hidden[i, k] else f"{Y[i, k]:d}" for k in range(4)]
        lines.append(
            ",".join([*(f"{x:.4f}" for x in X[i]), colours[i], " ".join(words[i]), *labels])
        )
    return "\n".join(lines) + "\n"


# ----------------------------------------------------------------------------------------- the rows


def row_figures(n_rows: int = 20_000, repeats: int = 7) -> Figures:
    """Time of predictions and completions over that of scoring the rows once.

    Of a table, a pass prepares the columns too.
    """
    import numpy as np

    from dm2l import DM2LClassifier
    from dm2l.tables import FitOptions, complete_table, fit_table, read_table

    with TemporaryDirectory() as folder:
        path = Path(folder, "rows.csv")
        path.write_text(table_text(n_rows), encoding="utf-8")
        table = read_table(path, "y*")
        path.write_text(table_text(500), encoding="utf-8")
        few = read_table(path, "y*")
    for name, options in {
        "automatic": FitOptions(effort="quick"),
        "kernel": FitOptions(kernel="rbf", lambda_d=0.1, alpha=0.1),
    }.items():
        model = fit_table(few, options, estimate_folds=0)
        tasks: dict[str, Callable[[], Any]] = {
            "one": lambda model=model: model.pipeline.decision_function(model.inputs(table)[0]),
            "predict": lambda model=model: model.answer(model.inputs(table)[0]),
            "complete": lambda model=model: complete_table(model, table),
        }
        yield from passes(f"table, {name}", tasks, repeats)
    X = np.random.default_rng(0).normal(size=(n_rows, 64))
    Y = np.where(X[:, 40:59] > 1, np.nan, X[:, :19] > 0.5)
    for kernel in ("linear", "rbf"):
        estimator = DM2LClassifier(kernel=kernel).fit(X[:500], Y[:500])
        tasks = {
            "one": lambda estimator=estimator: estimator.decision_function(X),
            "predict": lambda estimator=estimator: estimator.predict(X),
            "complete": lambda estimator=estimator: estimator.complete(X, Y),
        }
        yield from passes(f"arrays, {kernel}", tasks, repeats)


def passes(name: str, tasks: dict[str, Callable[[], Any]], repeats: int) -> Figures:
    """Median times of tasks over that of the first, which take turns."""
    seconds: dict[str, list[float]] = {task: [] for task in tasks}
    for _ in range(repeats):
        for task, call in tasks.items():
            start = time.perf_counter()
            call()
            seconds[task].append(time.perf_counter() - start)
    one = median(seconds.pop("one"))
    yield f"{name}: milliseconds of one pass", round(1000 * one)
    for task, found in seconds.items():
        yield f"{name}: passes of {task}", median(found) / one


if __name__ == "__main__":
    main()
