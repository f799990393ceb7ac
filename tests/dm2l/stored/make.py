"""Store the numbers of today's fits and models, for later code to be compared with.

From the root of the repository, with the library to be stored on the path::

    PYTHONPATH=src:tests python tests/dm2l/stored/make.py

writes beside this file

- ``fits.json``, ``fits.npz``: what the cases of ``tests/stored_fits.py`` give, and on which
  machine;
- ``models/``: files of the models of ``tests/stored_models.py``, with ``answers.npz``: what each
  said before it was saved; and a table with its predictions.

Both tell what the library did before a change that must not be seen in its numbers, so they are
made again only where a change of the numbers is meant; models of older versions stay. The words
``fits`` or ``models`` on the command line make one of the two.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import stored_models
from dm2l.persistence import save_model
from half_labelled import as_csv, make_table, spell
from stored_fits import CASES, STORED, machine, record_case


def make_fits() -> None:
    records = {name: record_case(name) for name in CASES}
    cases = {
        name: {
            "objective": record.objective,
            "n_iter": record.n_iter,
            "digests": record.digests,
        }
        for name, record in records.items()
    }
    text = json.dumps({"machine": machine(), "cases": cases}, indent=1)
    (STORED / "fits.json").write_text(text + "\n", encoding="utf-8")
    arrays = {
        f"{name}.{key}": array
        for name, record in records.items()
        for key, array in record.arrays.items()
    }
    np.savez_compressed(STORED / "fits.npz", **arrays)


def make_models() -> None:
    folder = stored_models.FOLDER
    folder.mkdir(exist_ok=True)
    X = stored_models.data()[0][: stored_models.N_STORED]
    answers = {"X": X}
    with threadpool_limits(limits=1):
        for name, make in stored_models.MODELS.items():
            model = make()
            save_model(model, folder / f"{name}.dm2l")
            for key, value in stored_models.answers(model, X).items():
                answers[f"{name}.{key}"] = value
    np.savez_compressed(folder / "answers.npz", **answers)
    make_table_model(folder)


def make_table_model(folder: Path) -> None:
    """What the command line makes of a table with numbers, categories and texts."""
    columns, truth, observed = make_table(80)
    few = {name: values[: stored_models.N_STORED] for name, values in columns.items()}
    (folder / "table.csv").write_text(as_csv(few), encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "whole.csv")
        path.write_text(as_csv(columns, spell(truth, observed)), encoding="utf-8")
        arguments = ("--labels", "topic_*", "--kernel", "linear", "--folds", "3")
        model = folder / "table.dm2l"
        output = ("-o", model, "--force", "--estimate-folds", "2")
        dm2l("fit", path, *arguments, *output)
    dm2l("predict", model, folder / "table.csv", "-o", folder / "predicted.csv", "--force")


def dm2l(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "dm2l", *map(str, arguments)], check=True)


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["fits", "models"]
    if "fits" in wanted:
        make_fits()
    if "models" in wanted:
        make_models()
