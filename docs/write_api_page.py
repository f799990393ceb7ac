"""Writes docs/api.md: the public names, by task.

python docs/write_api_page.py            # write the page
python docs/write_api_page.py --check    # fail if the page is not that of the code
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

PAGE = Path(__file__).parent / "api.md"
TOP = """# API

Every public name, by task. Everything else is private and may change without notice.
"""
# Task, introduction, and names; a package stands for all names that it shows.
TASKS = (
    (
        "Estimators",
        "Train on label matrices with missing entries; all follow the scikit-learn API.",
        (
            "dm2l.AutoClassifier",
            "dm2l.DM2LClassifier",
            "dm2l.DM2LClassifierCV",
            "dm2l.ScoreClassifier",
            "dm2l.extreme.ExtremeDM2LClassifier",
            "dm2l.ConstantLabelWarning",
        ),
    ),
    (
        "Compared methods",
        "",
        ("dm2l.baselines.*",),
    ),
    (
        "Label matrices",
        "What estimators and metrics accept as `y`.",
        (
            "dm2l.labels.LabelMatrix",
            "dm2l.labels.SparseLabelMatrix",
            "dm2l.LabelRules",
        ),
    ),
    (
        "Imputation, error-rate control and label errors",
        "Results of `complete` and `find_label_errors`.",
        ("dm2l.completion.*",),
    ),
    (
        "Positive-unlabelled labels",
        "",
        ("dm2l.pu.*",),
    ),
    (
        "Metrics",
        "",
        ("dm2l.metrics.*",),
    ),
    (
        "Model selection",
        "",
        ("dm2l.model_selection.*",),
    ),
    (
        "Tables of raw columns",
        "From a file or a data frame to a fitted model and a completed table.",
        ("dm2l.tables.*",),
    ),
    (
        "Reading and writing files",
        "",
        (
            "dm2l.io.*",
            "dm2l.persistence.*",
            "dm2l.deployment.*",
        ),
    ),
    (
        "Networks",
        "Losses for torch.",
        ("dm2l.torch.*",),
    ),
    (
        "Molecules",
        "",
        ("dm2l.chemistry.*",),
    ),
    (
        "More rows than memory",
        "",
        (
            "dm2l.outofcore.*",
            "dm2l.outofcore.cluster.*",
        ),
    ),
    (
        "Active learning and review",
        "",
        (
            "dm2l.active.*",
            "dm2l.review.*",
            "dm2l.labelstudio.*",
        ),
    ),
    (
        "Plots",
        "",
        ("dm2l.plots.*",),
    ),
    (
        "Data sets and simulated missing labels",
        "",
        (
            "dm2l.datasets.*",
            "dm2l.simulate.*",
        ),
    ),
    (
        "Checks for your own estimator",
        "",
        ("dm2l.testing.*",),
    ),
)


def names_of(pattern: str) -> list[str]:
    """Full names that a pattern stands for."""
    if not pattern.endswith(".*"):
        return [pattern]
    module = pattern.removesuffix(".*")
    return [f"{module}.{name}" for name in sorted(import_module(module).__all__)]


def page() -> str:
    """The text of docs/api.md."""
    parts, seen = [TOP], set()
    for task, introduction, patterns in TASKS:
        names = [name for pattern in patterns for name in names_of(pattern)]
        listed = "\n".join(f"   {name}" for name in names)
        modules = [m for m in dict.fromkeys(n.rpartition(".")[0] for n in names) if m not in seen]
        seen.update(modules)
        targets = "".join(f".. py:module:: {module}\n\n``{module}``\n\n" for module in modules)
        targets += ".. py:currentmodule:: None\n\n"
        text = f"{introduction}\n\n" if introduction else ""
        parts.append(
            f"## {task}\n\n{text}```{{eval-rst}}\n{targets}.. autosummary::\n   :toctree: api\n"
            f"   :nosignatures:\n\n{listed}\n```\n"
        )
    return "\n".join(parts)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page() else f"{PAGE.name} is out of date")
    PAGE.write_text(page(), encoding="utf-8")
