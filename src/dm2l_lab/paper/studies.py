"""Compute the studies of the paper's two data sets anew: ranks of labels, convergence, sensitivity.

python -m dm2l_lab.paper.studies        writes results/studies.json, in about ten minutes
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from dm2l._utils.files import whole_file
from dm2l.labels._structure import Spectrum
from dm2l_lab._circumstances import machine, versions
from dm2l_lab.paper._convergence import Convergence, Course
from dm2l_lab.paper._label_ranks import LabelRanks
from dm2l_lab.paper._sensitivity import Sensitivity
from dm2l_lab.paper.study import Study, study

PATH = Path(__file__).parents[3] / "results" / "studies.json"
DATASETS = ("Arts", "Business")


def write(studies: list[Study]) -> None:
    """Store studies, with versions and machine."""
    record = {
        "versions": versions(),
        "machine": machine(None),
        "studies": [_plain(found) for found in studies],
    }
    with whole_file(PATH) as part:
        part.write_text(json.dumps(record, separators=(",", ":")) + "\n")


def read() -> list[Study]:
    """The stored studies."""
    return [_study(**found) for found in json.loads(PATH.read_text())["studies"]]


def _plain(value: Any) -> Any:
    """The parts of a study in terms of JSON, numbers to ten digits."""
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray | tuple | list):
        return [_plain(part) for part in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.10g}") if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def _study(dataset: str, ranks: Any, course: Any, lambda_ds: dict[str, Any], sigmas: Any) -> Study:
    return Study(
        dataset,
        LabelRanks(
            _spectrum(ranks["whole"]),
            {name: _spectrum(part) for name, part in ranks["groups"].items()},
            {name: tuple(map(_spectrum, parts)) for name, parts in ranks["random"].items()},
        ),
        Convergence(
            {
                name: Course(_numbers(part["objective"]), _numbers(part["seconds"]))
                for name, part in course["courses"].items()
            },
            course["lowest"],
        ),
        {name: _sensitivity(part) for name, part in lambda_ds.items()},
        _sensitivity(sigmas),
    )


def _spectrum(part: Any) -> Spectrum:
    return Spectrum(**{**part, "singular_values": _numbers(part["singular_values"])})


def _sensitivity(part: Any) -> Sensitivity:
    sigmas = None if part["sigmas"] is None else _numbers(part["sigmas"])
    scores = {name: _numbers(table) for name, table in part["scores"].items()}
    return Sensitivity(_numbers(part["lambda_ds"]), sigmas, scores)


def _numbers(values: Any) -> Any:
    return np.array(values, dtype=np.float64)  # None becomes nan


def main() -> None:
    """Compute the studies and store them."""
    write([study(name, progress=partial(click.echo, err=True)) for name in DATASETS])


if __name__ == "__main__":
    main()
