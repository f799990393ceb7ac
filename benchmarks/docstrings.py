"""Docstrings of installed packages as a multi-label text data set, for benchmarks/text.py.

A text is the docstring of a function, class or method, without its code. Its labels are the
subpackage that it is from and the topic words that it contains. The names of packages and
subpackages and the topic words are removed from the texts. Only one of several objects with the
same first words is kept.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

PACKAGES = ("numpy", "scipy", "sklearn", "pandas")
MODULES, TOPICS = 14, 14  # numbers of labels
SHORTEST = 60  # characters of a text
SAME = 80  # first characters in which no two texts agree
# Words that describe how an object is used in many subpackages, by number of texts.
WORDS = (
    *("axis", "sparse", "distribution", "random", "matrix", "missing", "index", "sample"),
    *("copy", "weight", "polynomial", "cluster", "frequency", "string", "label", "gradient"),
    *("integer", "sequence", "error", "time"),
)


class Docstrings(NamedTuple):
    """Texts, complete labels (n, c), and the names of the labels."""

    texts: np.ndarray
    Y: np.ndarray
    names: list[str]


def _modules(package: str) -> Iterator[Any]:
    root = importlib.import_module(package)
    yield root
    for found in pkgutil.walk_packages(root.__path__, f"{package}."):
        parts = found.name.split(".")
        if {"tests", "conftest", "setup", "__main__"} & set(parts):
            continue
        try:
            yield importlib.import_module(found.name)
        except (ImportError, OSError, RuntimeError, ValueError, AttributeError):
            continue  # optional dependencies


def _objects(module: Any) -> Iterator[tuple[str, Any]]:
    package = module.__name__.split(".")[0]
    for name, item in sorted(vars(module).items()):
        if not (inspect.isclass(item) or callable(item)) or name.startswith("__"):
            continue
        home = getattr(item, "__module__", None)
        if not isinstance(home, str) or home.split(".")[0] != package:
            continue
        yield home, item
        if inspect.isclass(item):
            for member in vars(item).values():
                yield home, member


def _text(doc: str) -> str:
    lines = [line.strip() for line in inspect.cleandoc(doc).splitlines()]
    kept = [line for line in lines if not line.startswith((">>>", "...", ".. ", "---", "==="))]
    return " ".join(kept)


def load() -> Docstrings:
    """Read the docstrings; the result depends on the versions of the packages only."""
    texts: dict[str, tuple[str, str]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for package in PACKAGES:
            for module in _modules(package):
                for home, item in _objects(module):
                    doc = getattr(item, "__doc__", None)
                    if not isinstance(doc, str):
                        continue
                    text = _text(doc)
                    parts = [part for part in home.split(".") if not part.startswith("_")]
                    if len(text) >= SHORTEST and len(parts) > 1:
                        texts.setdefault(text[:SAME].casefold(), (".".join(parts[:2]), text))
    homes = Counter(home for home, _ in texts.values())
    modules = sorted(home for home, _ in homes.most_common(MODULES))
    words = [set(re.findall(r"[a-z]+", text.casefold())) for _, text in texts.values()]
    counts = Counter(word for one in words for word in WORDS if one & {word, f"{word}s"})
    topics = sorted(word for word, _ in counts.most_common(TOPICS))
    Y = np.array(
        [
            [home == name for name in modules] + [bool(one & {w, f"{w}s"}) for w in topics]
            for (home, _), one in zip(texts.values(), words, strict=True)
        ]
    )
    hidden = {part for home in homes for part in home.split(".")} | {"scikit", "learn", "np", "pd"}
    pattern = rf"\b({'|'.join(sorted(hidden))}|({'|'.join(topics)})s?)\b"
    plain = [re.sub(pattern, " ", text, flags=re.IGNORECASE) for _, text in texts.values()]
    return Docstrings(np.array(plain, dtype=object), Y.astype(float), [*modules, *topics])
