"""Methods, and their settings as a text that tells them apart in a store."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

# How a fit is run and what it says, which no row depends on; and parameters that rows were stored
# without, with the values that mean what held then: scores of new rows do not know of either.
_ASIDE = ("n_jobs", "verbose")
_LATER = {"coupling": (None, "residual"), "class_prior": (None,)}
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")


@dataclass(frozen=True)
class Method:
    """An estimator under the name it has in tables.

    Parameters
    ----------
    name : str
        Name in tables, for example ``"DM2L-l"``.
    estimator : estimator
        Not fitted, and never fitted here: every cell fits a clone. It may be a search, which then
        selects within the observed training labels.
    sets : tuple of str, default=None
        Data sets to run on; None for all.
    note : str, default=""
        What a reader of the table should know.
    follows_x : bool, default=False
        Whether the estimator takes torch tensors and computes where they are.

    Examples
    --------
    >>> from dm2l.baselines import MaskedRidgeClassifier
    >>> from dm2l_lab import Method
    >>> ridge = Method("ridge", MaskedRidgeClassifier(alpha=10))
    >>> ridge.settings
    '{"missing_as": null, "alpha": 10, ..., "class": "MaskedRidgeClassifier", ...}'
    >>> len(ridge.settings_hash)
    12
    """

    name: str
    estimator: Any
    sets: tuple[str, ...] | None = None
    note: str = ""
    follows_x: bool = False

    def runs_on(self, dataset: str) -> bool:
        """Whether it is run on a data set."""
        return self.sets is None or dataset in self.sets

    @functools.cached_property
    def settings(self) -> str:
        """All parameters as JSON, the same text in every process.

        Nested estimators are nested objects, each with its ``class``. How many jobs it uses and
        how much it says (``n_jobs``, ``verbose``) is left out, and so are the modules of classes
        and functions: give methods that differ in nothing else different names.
        """
        if not hasattr(self.estimator, "get_params"):
            raise TypeError(
                f"The estimator of method {self.name!r} needs get_params, as scikit-learn's "
                f"estimators have; got {self.estimator!r}."
            )
        try:
            return json.dumps(plain(self.estimator), sort_keys=True, allow_nan=False)
        except ValueError as error:
            raise ValueError(f"Method {self.name!r}: {error}") from error

    @functools.cached_property
    def settings_hash(self) -> str:
        """First 12 hexadecimal digits of the SHA-256 of the settings."""
        return hash_of(self.settings)


def hash_of(settings: str) -> str:
    """What stands for a text of settings in the key of a row."""
    return hashlib.sha256(settings.encode()).hexdigest()[:12]


def plain(value: Any) -> Any:
    """The value in terms of JSON: an estimator by its parameters, any other object by its repr.

    Classes and functions go by their names alone, so that rows are found whatever module these
    move to.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else repr(value)  # JSON has no nan
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        # The repr of a long array leaves out its middle.
        if value.dtype != object and value.size > 100:
            digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:12]
            return f"array {value.dtype}{list(value.shape)} {digest}"
        return plain(value.tolist())
    if isinstance(value, type):
        return value.__name__
    if hasattr(value, "get_params"):
        found = value.get_params(deep=False)
        parameters = {
            name: plain(setting)
            for name, setting in found.items()
            if name not in _ASIDE and not (name in _LATER and setting in _LATER[name])
        }
        return {"class": type(value).__name__, **parameters}
    if isinstance(value, functools.partial):
        return {"partial": plain(value.func), "args": plain(value.args), **plain(value.keywords)}
    if hasattr(value, "__qualname__"):
        if "<" in value.__qualname__:
            raise ValueError(
                f"{value!r} is a parameter that other processes cannot tell from another one: "
                "use a function defined at the top of a module."
            )
        return value.__name__
    text = repr(value)
    if " at 0x" in text:
        raise ValueError(
            f"{text} is a parameter that other processes cannot tell from another one: give its "
            "class a __repr__ that shows what it was made from, or use a plain value."
        )
    return text


# -- keys of earlier versions -------------------------------------------------------------------


def rekeyed(settings: str, parameters: Any) -> tuple[str, Any]:
    """The key and the parameters of a row in terms of today; others than old ones stay.

    Once classes and functions were named with their modules, as in
    ``dm2l.experiments._methods.quality``, and a row was lost when one of them moved.

    Parameters
    ----------
    settings : str
        ``settings_hash`` of the row.
    parameters : object
        What it stands for, as :func:`plain` told it.

    Returns
    -------
    settings, parameters
        Of the same row.
    """
    if not isinstance(parameters, Mapping) or "." not in str(parameters.get("class")):
        return settings, parameters
    if hash_of(json.dumps(parameters, sort_keys=True)) != settings:
        return settings, parameters  # nobody knows what the key stands for
    bare = _bare(parameters)
    return hash_of(json.dumps(bare, sort_keys=True)), bare


def _bare(value: Any) -> Any:
    """The value with the last part of each dotted name: nothing tells them from other texts."""
    if isinstance(value, Mapping):
        return {key: _bare(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_bare(item) for item in value]
    if isinstance(value, str) and _DOTTED.fullmatch(value):
        return value.rpartition(".")[2]
    return value
