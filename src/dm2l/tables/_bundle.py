"""Saving and loading the model of a table: its pipeline and a record of the table."""

import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder, OrdinalEncoder

from dm2l._auto._classifier import AutoClassifier
from dm2l._auto._score_classifier import ScoreClassifier
from dm2l._classifier import DM2LClassifier
from dm2l.chemistry import ABSENT, MoleculeDescriptors, MorganFingerprints, has_rdkit
from dm2l.persistence import ModelFileError, load_model, save_model
from dm2l.tables._kinds import DATES, KINDS
from dm2l.tables._measures import MEASURES
from dm2l.tables._model import TableModel
from dm2l.tables._options import KERNELS
from dm2l.tables._output import plain_values

# Kinds of columns; the kinds of feature columns come first.
_KINDS = (*KINDS, "score", "identifier", "constant", "empty", "dropped", "unusable")
# Numeric and boolean columns are both numbers, so a step may take either.
_FORMS = dict.fromkeys(("numeric", "boolean", *DATES), "number")
_STEPS: dict[str, tuple[type, ...]] = {
    "number": (Pipeline, FunctionTransformer, str),
    "category": (OneHotEncoder, OrdinalEncoder),
    "text": (TfidfVectorizer,),
    "letters": (TfidfVectorizer,),
    "smiles": (MorganFingerprints,),
    "descriptors": (Pipeline,),
    "score": (SimpleImputer, FunctionTransformer, str),
}


def save_bundle(model: TableModel, path: str | Path) -> None:
    """Save a model of a table to a file, which :func:`dm2l.persistence.load_model` can also read.

    Parameters
    ----------
    model : TableModel
        A model from :func:`fit_table`.
    path : str or Path
        The file to write. If an error occurs, no incomplete file is left.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import FitOptions, fit_table, load_bundle, save_bundle, table_from_frame
    >>> frame = pd.DataFrame({"mass": [0, 1, 2, 3] * 20, "toxic": [0, None, 1, 1] * 20})
    >>> table = table_from_frame(frame, "toxic")
    >>> model = fit_table(table, FitOptions("linear", 0.1, 1.0), estimate_folds=0)
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_bundle(model, Path(folder, "tox.dm2l"))
    ...     again = load_bundle(Path(folder, "tox.dm2l"))
    >>> again.label_names, again.settings == model.settings
    (['toxic'], True)
    """
    model.classifier.table_ = {
        name: plain_values(getattr(model, name), json=False) for name in _record_types()
    }
    save_model(model.pipeline, Path(path))


def load_bundle(path: str | Path) -> TableModel:
    """Read a model of a table from a file.

    Parameters
    ----------
    path : str or Path
        A file that :func:`save_bundle` or ``dm2l fit`` wrote.

    Returns
    -------
    TableModel
        The model that was saved.

    Raises
    ------
    ValueError
        If the file contains another kind of model; :class:`dm2l.persistence.ModelFileError` if the
        file is damaged.
    """
    pipeline = load_model(Path(path))
    record = getattr(pipeline[-1] if hasattr(pipeline, "steps") else None, "table_", None)
    if not isinstance(record, dict):
        raise ValueError(
            f"{path} contains a model that was not fitted to a table. Use a file from dm2l fit."
        )
    try:
        values = {}
        for name, form in _record_types().items():
            try:
                values[name] = _typed(record[name], form)
            except (TypeError, ValueError, KeyError) as error:
                raise _improper(name) from error
        model = TableModel(pipeline, **values)
        _check_values(model)
        _check_parts(model)
    except ModelFileError as error:
        raise ModelFileError(f"{path} cannot be loaded: {error} Fit the model again.") from error
    if any(use.kind == "smiles" for use in model.uses or ()) and not has_rdkit():
        raise ImportError(ABSENT)
    return model


def _record_types() -> dict[str, Any]:
    """Return the type of each field that is stored in addition to the pipeline."""
    hints = get_type_hints(TableModel)
    return {field.name: hints[field.name] for field in fields(TableModel)[1:]}


def _typed(value: Any, form: Any) -> Any:
    """Convert plain data to a type, such as a dataclass, or raise ``TypeError``."""
    origin, parts = get_origin(form) or form, get_args(form)
    if origin in (Union, types.UnionType):
        return None if value is None else _typed(value, parts[0])
    if is_dataclass(form) or hasattr(form, "_fields"):
        hints = get_type_hints(form)
        if isinstance(value, list) and not is_dataclass(form):
            value = dict(zip(hints, value, strict=True))
        if not isinstance(value, dict) or value.keys() != hints.keys():
            raise TypeError
        return form(**{name: _typed(value[name], hint) for name, hint in hints.items()})
    stored: Any = {tuple: list, Mapping: dict, float: (int, float)}.get(origin, origin)
    if form is not Any and not isinstance(value, stored):
        raise TypeError
    if isinstance(value, bool) and form not in (bool, Any):
        raise TypeError
    if origin in (list, tuple):
        kinds = parts if origin is tuple and parts[-1] is not ... else parts[:1] * len(value)
        return origin(_typed(item, kind) for item, kind in zip(value, kinds, strict=True))
    if origin in (dict, Mapping):
        return {_typed(k, parts[0]): _typed(item, parts[1]) for k, item in value.items()}
    return value


def _check_values(model: TableModel) -> None:
    """Reject a model whose values contradict each other or are out of range."""
    labels, features, uses = model.label_names, model.feature_names, model.uses
    settings, estimate, sample = model.settings, model.estimate, model.sample
    proper = {
        "label_names": bool(labels) and len(set(labels)) == len(labels),
        "feature_names": len(set(features)) == len(features),
        "uses": uses is None
        or ([use.name for use in uses] == features and all(use.kind in _KINDS for use in uses)),
        "words": all(
            group.kind in ("values", "ordered", "tags")
            and group.absent in ("missing", "negative")
            and {*group.labels} <= {*labels}
            and len({*group.values}) == len(group.values) > (group.kind != "tags")
            for group in model.words.groups
        ),
        "settings": settings is None
        or (
            settings.kernel in {*KERNELS} - {"auto"}
            and math.isfinite(settings.lambda_d + settings.alpha)
        ),
        "estimate": estimate is None
        or (
            estimate.values.keys() <= {key for key, *_ in MEASURES}
            and min(estimate.n_entries, estimate.repetitions) >= 0
        ),
        "correlation": model.correlation.dtype == np.float64
        and model.correlation.shape == (len(labels), len(labels))
        and bool(np.isfinite(model.correlation).all()),
        "sample": sample is None
        or sp.issparse(sample)
        or (isinstance(sample, np.ndarray) and sample.dtype == np.float64 and sample.ndim == 2),
    }
    for name, right in proper.items():
        if not right:
            raise _improper(name)


def _improper(name: str) -> ModelFileError:
    return ModelFileError(f"the value of {name!r} in its record of the table is invalid.")


def _check_parts(model: TableModel) -> None:
    """Reject a model if its pipeline, classifier and record do not match."""
    pipeline, classifier = model.pipeline, model.classifier
    proper = (
        type(pipeline) is Pipeline
        and len(pipeline.steps) == 2
        and type(classifier)
        in ((AutoClassifier, ScoreClassifier) if model.settings is None else (DM2LClassifier,))
        and hasattr(classifier, "label_names_")
        and [str(name) for name in classifier.label_names_] == model.label_names
        and _prepares(pipeline[0], model)
        and len(model.features) == classifier.n_features_in_
        and (model.sample is None or model.sample.shape[1] == classifier.n_features_in_)
    )
    if not proper:
        raise ModelFileError("its pipeline does not match its record of the table.")


def _prepares(transformer: Any, model: TableModel) -> bool:
    """Return whether the steps of the transformer fit the kinds of columns in the record."""
    if model.uses is None:
        taken = getattr(transformer, "n_features_in_", None)
        return type(transformer) is MaxAbsScaler and taken == len(model.feature_names)
    if type(transformer) is not ColumnTransformer or not hasattr(transformer, "transformers_"):
        return False
    used = [use for use in model.uses if use.used]
    kinds = {name: _FORMS.get(use.kind, use.kind) for use in used for name in use.inputs}
    seen: list[str] = []
    for name, part, columns in transformer.transformers_:
        if part == "drop":
            continue
        kind = name.rstrip("0123456789")
        form = _FORMS.get(kind, kind)
        one = form in ("text", "letters", "smiles", "descriptors")
        if isinstance(columns, str) is not one or type(part) not in _STEPS.get(form, ()):
            return False
        first = MoleculeDescriptors if form == "descriptors" else SimpleImputer
        other = type(part) is Pipeline and type(part.steps[0][1]) is not first
        # scikit-learn replaces "passthrough" by a transformer without a function.
        other |= type(part) is FunctionTransformer and part.func is not None
        named = [columns] if one else list(columns)
        main = {"letters": "text", "descriptors": "smiles"}.get(form, form)
        if other or any(kinds.get(column) != main for column in named):
            return False
        seen += named if form == main else []
    return sorted(seen) == sorted(kinds) == sorted(transformer.feature_names_in_)
