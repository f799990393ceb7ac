"""Run the demonstrations, and store their results with settings, seeds and versions.

    python examples/errata/run_all.py --out examples/errata/results.json [--only NAME ...]

The environment variable DM2L_DATA must name the folder of the data sets. The demonstration
glocal_reference needs the LaTeX source of the paper (--paper or DM2L_PAPER). With --only, the
entries of all other demonstrations stay unchanged. Afterwards, `document.py` writes the results
into docs/research/errata.md.
"""

from __future__ import annotations

import argparse
import inspect
import json
import platform
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from demonstration import measure

import dm2l

DEMONSTRATIONS = (
    "auc_per_instance",
    "masks_per_row",
    "hidden_labels_leak",
    "copies_across_split",
    "ties_and_empty_rows",
    "early_stopping",
    "kernel_stop",
    "subgradient_product",
    "unbounded_objective",
    "full_svd_cost",
    "nemenyi_constant",
    "compared_methods",
    "glocal_reference",
)


def versions() -> dict[str, str]:
    found = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {"python": platform.python_version(), "dm2l": dm2l.__version__} | found


def run(name: str, files: dict[str, Path | None]) -> dict[str, Any]:
    module = import_module(name)
    parameters = inspect.signature(module.measure).parameters
    given = {key: value for key, value in files.items() if key in parameters}
    start = time.perf_counter()
    figures = measure(module, **given)
    seconds = time.perf_counter() - start
    return {
        "settings": {key: p.default for key, p in parameters.items() if key not in files},
        "figures": figures,
        "printed": module.lines(figures),
        "claims": {claim: bool(holds) for claim, holds in module.claims(figures).items()},
        "seconds": round(seconds, 1),
        "versions": versions(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=DEMONSTRATIONS, default=DEMONSTRATIONS)
    parser.add_argument("--published", type=Path, help="CSV file with the paper's tables")
    parser.add_argument("--paper", type=Path, help="file with the LaTeX source of the paper")
    arguments = parser.parse_args()
    files = {"published": arguments.published, "paper": arguments.paper}
    record = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for name in arguments.only:
        record[name] = run(name, files)
        print(f"== {name}, {record[name]['seconds']} s", *record[name]["printed"], sep="\n")
        failed = [claim for claim, holds in record[name]["claims"].items() if not holds]
        print(*(f"NOT SHOWN: {claim}" for claim in failed), sep="\n", flush=True)
        ordered = {key: record[key] for key in DEMONSTRATIONS if key in record}
        partial = arguments.out.with_suffix(".partial")
        partial.write_text(json.dumps(ordered, indent=1) + "\n")
        partial.replace(arguments.out)


if __name__ == "__main__":
    main()
