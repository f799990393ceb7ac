"""Writes the output of commands into the pages that show them, and the tables of options.

    python docs/write_output.py            # run the commands, write the pages
    python docs/write_output.py --check    # fail where words (not numbers) differ

Behind ``<!-- run: N -->`` in a page stands a block of shell commands, each behind ``$``. They run
in one folder for all pages, which begins with the tables of ``digits_table.py``. The first N lines
of each output are shown. A Python program behind "Save this as" lies in that folder too. Behind
``<!-- options: COMMAND -->`` stands a table of the options of a command.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGES = (HERE / "start" / "tutorial.md", *sorted((HERE / "commands").glob("*.md")))
_RUN = re.compile(r"(<!-- run: (\d+) -->\n```console\n)(.*?)(```\n)", re.DOTALL)
_PROGRAMS = re.compile(r"Save this as `(\w+\.py)`:\n\n```python\n(.*?)```\n", re.DOTALL)
_FILES = {
    "MODEL": "The model file, written by `dm2l fit`.",
    "TABLE": "The table, with one row per sample.",
}
_OPTIONS = re.compile(r"(<!-- options: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def write_pages(*, check: bool = False) -> None:
    """Write every page anew, or raise an error where its words differ."""
    with TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, str(HERE / "start" / "digits_table.py")], cwd=folder, check=True
        )
        for page in PAGES:
            old = page.read_text(encoding="utf-8")
            for name, program in _PROGRAMS.findall(old):
                Path(folder, name).write_text(program, encoding="utf-8")
            new = _RUN.sub(lambda m: m[1] + shown(m[3], int(m[2]), folder) + m[4], old)
            new = _OPTIONS.sub(lambda m: f"{m[1]}{option_table(m[2])}\n{m[3]}", new)
            if not check:
                page.write_text(new, encoding="utf-8")
            elif words(new) != words(old):
                raise ValueError(
                    f"{page.relative_to(ROOT)} is out of date: run docs/write_output.py"
                )


def shown(block: str, n_lines: int, folder: str) -> str:
    """The commands of a block with the first lines of their output."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = {"PATH": tools, "COLUMNS": "80", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    settings["PYTHONPATH"] = str(ROOT / "src")
    text = ""
    for command in re.findall(r"^\$ (.*(?:\n  .*)*)", block, flags=re.MULTILINE):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=os.environ | settings,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise ValueError(f"{command}: {done.stderr}")
        lines = [line.rstrip() for line in done.stdout.splitlines()]
        more = ["..."] if len(lines) > n_lines else []
        text += "\n".join([f"$ {command}", *lines[:n_lines], *more]) + "\n"
    return text


def option_table(name: str) -> str:
    """The options of a command as a Markdown table."""
    import click

    from dm2l.cli._commands import cli

    context = click.Context(cli, info_name="dm2l", **cli.context_settings)
    command = cli.get_command(context, name)
    lines = ["| option | meaning |", "|---|---|"]
    for parameter in command.params:
        record = parameter.get_help_record(click.Context(command, parent=context))
        if record is not None:
            option, meaning = (part.replace("|", r"\|") for part in record)
            meaning = meaning or _FILES[option]
            lines.append(f"| `{option}` | {meaning} |".replace(r"`\|", "`|"))
    return "\n".join(lines)


def words(text: str) -> list[str]:
    """What is compared: words without numbers and the lines that tables are drawn with."""
    return re.findall(r"[A-Za-z_]{2,}", text)


if __name__ == "__main__":
    write_pages(check="--check" in sys.argv)
