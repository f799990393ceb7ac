"""Use an installed wheel as its users do: the label contract, and every command once.

python release/smoke.py contract|commands, with the interpreter that has the wheel.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
import warnings
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
MODEL, TABLE = "model.dm2l", "table.csv"
LABELS = ["--labels", "topic_*"]
# Arguments of each command, and the files that it writes.
COMMANDS: dict[str, tuple[list[str], list[str]]] = {
    "inspect": ([TABLE, *LABELS], []),
    "fit": ([TABLE, *LABELS, "--effort", "quick", "-o", MODEL], [MODEL]),
    "complete": ([MODEL, TABLE, "-o", "filled.csv"], ["filled.csv"]),
    "predict": ([MODEL, TABLE, "-o", "scores.parquet"], ["scores.parquet"]),
    "evaluate": ([TABLE, *LABELS, "--kernel", "linear", "--repetitions", "1"], []),
    "suggest": ([MODEL, TABLE, "-o", "ask.csv", "--top", "5"], ["ask.csv"]),
    "audit": ([MODEL, TABLE, "-o", "doubts.csv"], ["doubts.csv"]),
    "review": ([MODEL, TABLE, "--answers", "answers.jsonl", "--no-browser"], ["answers.jsonl"]),
    "backend": (
        [MODEL, TABLE, "--answers", "tasks.jsonl", "--port", "0"],
        ["tasks.jsonl", "tasks.jsonl.token"],
    ),
    "explain": ([MODEL], []),
    "demo": ([], []),
}
# Of commands that serve, what to ask them for and what the answer holds.
SERVED = {"review": ("", b"<html"), "backend": ("/health", b"UP")}


def contract() -> None:
    """The checks of ``dm2l.testing`` on every estimator of the library."""
    from all_estimators import ESTIMATORS
    from dm2l.testing import check_missing_label_estimator

    for estimator in ESTIMATORS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few steps, in settings that are meant to be quick
            found = check_missing_label_estimator(estimator, on_fail="return")
        # Dense columns are standardized by it and sparse ones are not: other models.
        apart = {"check_sparse_features"} if "Auto" in type(estimator).__name__ else set()
        bad = [one for one in found if one.status == "failed" and one.name not in apart]
        if bad:
            raise SystemExit("\n".join(f"{estimator!r}: {one.reason}" for one in bad))
        print(f"  {' '.join(repr(estimator).split())[:80]}: {len(found)} checks")


def prepare() -> None:
    """A table with missing labels, in the folder where we are."""
    from half_labelled import as_csv, make_table, spell

    columns, truth, observed = make_table(150)
    Path(TABLE).write_text(as_csv(columns, spell(truth, observed)), encoding="utf-8")


def commands() -> None:
    """Every command in a folder of its own; what it says is shown where it fails."""
    from dm2l.cli import _commands

    forgotten = set(_commands.COMMANDS) ^ set(COMMANDS)
    if forgotten:
        raise SystemExit(f"release/smoke.py and the commands differ by {', '.join(forgotten)}")
    program = str(Path(sys.executable).with_name("dm2l"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        prepare()
        for name, (arguments, files) in COMMANDS.items():
            command = [program, name, *arguments]
            if name in SERVED:
                serve(command, *SERVED[name])
            else:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
            missing = [file for file in files if not Path(file).stat().st_size]
            if missing:
                raise SystemExit(f"dm2l {name} left {', '.join(missing)} empty")
            print(f"  dm2l {name}")
        os.chdir("/")  # a folder that one is in cannot be removed everywhere


def serve(command: list[str], place: str, content: bytes) -> None:
    """Start a server, ask it for something and end it as Ctrl-C does."""
    import json

    with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"] + place
        with urllib.request.urlopen(url, timeout=30) as page:
            if content not in page.read():
                raise SystemExit(f"{url} answers without {content.decode()}")
        process.send_signal(signal.SIGINT)
        process.communicate()  # its last words: a closed pipe would be an error
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")


if __name__ == "__main__":
    import dm2l

    if not Path(dm2l.__file__).is_relative_to(sys.prefix):
        raise SystemExit(f"{dm2l.__file__} is not of the wheel in {sys.prefix}")
    sys.path.insert(1, str(TESTS))
    {"contract": contract, "commands": commands}[sys.argv[1]]()
