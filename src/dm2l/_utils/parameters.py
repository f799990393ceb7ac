"""Parameters that make no sense are refused before any data is touched."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np


def is_number(value: Any, *, positive: bool = False) -> bool:
    """Whether this is a finite number >= 0, or > 0."""
    return isinstance(value, Real) and 0 <= float(value) < np.inf and not (positive and value == 0)


def check_number(name: str, value: Any, *, positive: bool = False) -> None:
    """Refuse what is not a finite number >= 0, or > 0."""
    if not is_number(value, positive=positive):
        sign = ">" if positive else ">="
        raise ValueError(f"{name} must be a finite number {sign} 0, got {value!r}.")


def check_count(name: str, value: Any) -> None:
    """Refuse what is not an integer of at least 1."""
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be an integer >= 1, got {value!r}.")


def check_choice(name: str, value: Any, *choices: str) -> None:
    """Refuse what is none of the choices."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ValueError(f"{name} must be one of {listed}; got {value!r}.")


def check_numbers(model: Any, *names: str, positive: bool = False) -> None:
    """Refuse parameters of an estimator that are not finite numbers >= 0, or > 0."""
    for name in names:
        check_number(name, getattr(model, name), positive=positive)


def check_counts(model: Any, *names: str) -> None:
    """Refuse parameters of an estimator that are not integers of at least 1."""
    for name in names:
        check_count(name, getattr(model, name))
