"""The metrics of observed labels alone: every function with ``estimate=False``."""

from __future__ import annotations

from functools import partial
from inspect import signature
from typing import Any

from dm2l import metrics


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    function = getattr(metrics, name)
    if not isinstance(function, type) and {"estimate", "options"} & {
        *signature(function).parameters
    }:
        return partial(function, estimate=False)
    return function
