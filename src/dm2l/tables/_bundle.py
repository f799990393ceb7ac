"""The file of a model of a table: the pipeline, with what it knows of the table inside."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder, OrdinalEncoder

from dm2l._auto._classifier import AutoClassifier
from dm2l._classifier import DM2LClassifier
from dm2l.chemistry import ABSENT, MorganFingerprints, has_rdkit
from dm2l.io._label_reader import LabelVocabulary, positives_by_label
from dm2l.model_selection import Interval
from dm2l.persistence import ModelFileError, load_model, save_model
from dm2l.tables._kinds import KINDS, ColumnUse
from dm2l.tables._measures import MEASURES, Estimate, LabelEstimate
from dm2l.tables._model import TableModel
from dm2l.tables._options import Hyperparameters

# Of the record that goes with the classifier, in its attribute ``table_``.
FORMAT = 1

# Kinds of columns that are not used.
_LEFT_OUT = ("identifier", "date", "constant", "empty", "dropped", "unusable")
_USUAL: dict[str, Any] = {"positive": [], "cutoffs": [], "written": {}}
# Columns of both kinds are numbers, and steps may take either.
_FORMS = {"numeric": "number", "boolean": "number"}
_STEPS: dict[str, tuple[type, ...]] = {
    "number": (Pipeline, FunctionTransformer, str),
    "category": (OneHotEncoder, OrdinalEncoder),
    "text": (TfidfVectorizer,),
    "smiles": (MorganFingerprints,),
}


def save_bundle(model: TableModel, path: str | Path) -> None:
    """Write a model of a table to a file, which :func:`dm2l.persistence.load_model` reads too.

    Parameters
    ----------
    model : TableModel
        What :func:`fit_table` has returned.
    path : str or Path
        Where to; the file appears there only when it is complete.

    See Also
    --------
    load_bundle : The way back.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import FitOptions, fit_table, load_bundle, save_bundle, table_from_frame
    >>> frame = pd.DataFrame({"mass": [i % 7 for i in range(60)]})
    >>> frame["tox_a"] = [i % 7 > 3 if i % 3 else None for i in range(60)]
    >>> frame["tox_b"] = [i % 7 < 2 if i % 4 else None for i in range(60)]
    >>> table = table_from_frame(frame, "tox_*")
    >>> model = fit_table(table, FitOptions("linear", 0.1, 1.0), estimate_folds=0)
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_bundle(model, Path(folder, "tox.dm2l"))
    ...     again = load_bundle(Path(folder, "tox.dm2l"))
    >>> again.label_names, again.settings == model.settings
    (['tox_a', 'tox_b'], True)
    """
    estimate = model.estimate
    record: dict[str, Any] = {
        "format": FORMAT,
        "uses": None if model.uses is None else [asdict(use) for use in model.uses],
        "feature_names": list(model.feature_names),
        "label_names": list(model.label_names),
        "missing": list(model.missing),
        "words": {
            "positive": _positive_record(model.words),
            "cutoffs": list(model.words.cutoffs),
            "written": {label: list(pair) for label, pair in model.words.written.items()},
        },
        "zero_based": model.zero_based,
        "settings": None,
        "correlation": model.correlation,
        "sample": model.sample,
        "estimate": None,
    }
    if estimate is not None:
        record["estimate"] = {
            "values": {key: list(map(float, value)) for key, value in estimate.values.items()},
            "n_entries": estimate.n_entries,
            "repetitions": estimate.repetitions,
            "labels": [asdict(row) for row in estimate.labels],
        }
    if model.settings is not None:
        # Python's own numbers: the record is data, of no library.
        record["settings"] = {
            key: float(v) if isinstance(v, float) else v
            for key, v in asdict(model.settings).items()
        }
    model.classifier.table_ = record
    save_model(model.pipeline, Path(path))


def load_bundle(path: str | Path) -> TableModel:
    """Read a model of a table from a file.

    Parameters
    ----------
    path : str or Path
        A file that :func:`save_bundle` or ``dm2l fit`` has written.

    Returns
    -------
    TableModel
        The model as it was.

    Raises
    ------
    ValueError
        If the file holds no such model; :class:`dm2l.persistence.ModelFileError` if it is damaged.
    """
    pipeline = load_model(Path(path))
    record = getattr(pipeline[-1] if hasattr(pipeline, "steps") else None, "table_", None)
    if not isinstance(record, dict):
        raise ValueError(
            f"{path} holds a model, but not one of a table: it was not written by 'dm2l fit'."
        )
    if record.get("format") != FORMAT:
        raise ValueError(
            f"{path} was written by another version of dm2l (format {record.get('format')!r}, "
            f"here {FORMAT}). Fit the model again."
        )
    try:
        _check_record(record)
        model = _model(pipeline, record)
        _check_model(model)
    except ModelFileError as error:
        raise ModelFileError(f"{path} cannot be loaded: {error}") from error
    if any(use.kind == "smiles" for use in model.uses or ()) and not has_rdkit():
        raise ImportError(ABSENT)
    return model


def _model(pipeline: Any, record: dict[str, Any]) -> TableModel:
    estimate, uses = record["estimate"], record["uses"]
    words = record.get("words", _USUAL)  # not in older files
    return TableModel(
        pipeline=pipeline,
        uses=None if uses is None else [ColumnUse(**use) for use in uses],
        feature_names=record["feature_names"],
        label_names=record["label_names"],
        settings=None if record["settings"] is None else Hyperparameters(**record["settings"]),
        correlation=record["correlation"],
        estimate=None
        if estimate is None
        else Estimate(
            {key: Interval(*value) for key, value in estimate["values"].items()},
            estimate["n_entries"],
            estimate["repetitions"],
            [LabelEstimate(**row) for row in estimate.get("labels", [])],  # not in older files
        ),
        missing=record["missing"],
        words=LabelVocabulary(
            positives_by_label(words["positive"]),
            tuple(words["cutoffs"]),
            {label: (yes, no) for label, (yes, no) in words["written"].items()},
        ),
        zero_based=record.get("zero_based"),  # not in older files
        sample=record.get("sample"),
    )


def _check_record(record: Mapping[str, Any]) -> None:
    """Refuse a record whose values are not of the form that :func:`save_bundle` gives, by name."""
    uses, estimate = record.get("uses"), record.get("estimate")
    labels, features = record.get("label_names"), record.get("feature_names")
    settings, correlation = record.get("settings"), record.get("correlation")
    right = {
        "label_names": bool(labels) and _names(labels),
        "feature_names": _names(features),
        "missing": _texts(record.get("missing")),
        "words": _words(record.get("words", _USUAL)),
        "zero_based": record.get("zero_based") in (None, True, False),
        "settings": "settings" in record
        and (settings is None or (isinstance(settings, dict) and _settings(settings))),
        "sample": record.get("sample") is None or _sample(record["sample"]),
        "uses": "uses" in record
        and (uses is None or (isinstance(uses, list) and all(map(_use, uses)))),
        "estimate": "estimate" in record
        and (estimate is None or (isinstance(estimate, dict) and _estimate(estimate))),
    }
    wrong = [name for name, well in right.items() if not well]
    if not wrong and uses is not None and [use["name"] for use in uses] != features:
        wrong = ["uses"]
    if not wrong and not _square(correlation, len(labels or ())):
        wrong = ["correlation"]
    if wrong:
        raise ModelFileError(f"its record of the table has no proper {wrong[0]!r}.")


def _check_model(model: TableModel) -> None:
    """Refuse a model whose parts do not belong together."""
    pipeline, classifier = model.pipeline, model.classifier
    proper = (
        type(pipeline) is Pipeline
        and len(pipeline.steps) == 2
        and type(classifier) is (AutoClassifier if model.settings is None else DM2LClassifier)
        and hasattr(classifier, "label_names_")
        and [str(name) for name in classifier.label_names_] == model.label_names
        and _prepares(pipeline[0], model)
    )
    if proper:
        n_features = len(model.features)
        proper = n_features == classifier.n_features_in_ and (
            model.sample is None or model.sample.shape[1] == n_features
        )
    if not proper:
        raise ModelFileError("its parts do not fit together.")


def _prepares(transformer: Any, model: TableModel) -> bool:
    """Whether the transformer takes columns of the kinds that the record says."""
    if model.uses is None:
        taken = getattr(transformer, "n_features_in_", None)
        return type(transformer) is MaxAbsScaler and taken == len(model.feature_names)
    if type(transformer) is not ColumnTransformer or not hasattr(transformer, "transformers_"):
        return False
    kinds = {use.name: _FORMS.get(use.kind, use.kind) for use in model.uses if use.used}
    seen: list[str] = []
    for name, part, columns in transformer.transformers_:
        if part == "drop":
            continue
        kind = name.rstrip("0123456789")
        form = _FORMS.get(kind, kind)
        one = form in ("text", "smiles")
        if isinstance(columns, str) is not one or type(part) not in _STEPS.get(form, ()):
            return False
        if type(part) is Pipeline and type(part.steps[0][1]) is not SimpleImputer:
            return False
        # scikit-learn fits "passthrough" as a transformer without a function.
        if type(part) is FunctionTransformer and part.func is not None:
            return False
        named = [columns] if one else list(columns)
        if any(kinds.get(column) != form for column in named):
            return False
        seen += named
    return sorted(seen) == sorted(kinds) == sorted(transformer.feature_names_in_)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _words(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == _USUAL.keys()
        and _positives(value["positive"])
        and _texts(value["cutoffs"])
        and isinstance(value["written"], dict)
        and _texts(list(value["written"]))
        and all(_texts(pair) and len(pair) == 2 for pair in value["written"].values())
    )


def _positive_record(words: LabelVocabulary) -> dict[str, list[str]] | list[str]:
    """Positive values by labels; a list of those of all labels, as in older files, will do."""
    by_label = {label: list(values) for label, values in words.positive.items()}
    return by_label.get("*", []) if by_label.keys() <= {"*"} else by_label


def _positives(value: Any) -> bool:
    if isinstance(value, dict):
        return _texts(list(value)) and all(map(_texts, value.values()))
    return _texts(value)


def _names(value: Any) -> bool:
    return _texts(value) and len(set(value)) == len(value)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _use(value: Any) -> bool:
    fields = ColumnUse.__dataclass_fields__.keys()
    return (
        isinstance(value, dict)
        and value.keys() == fields
        and all(isinstance(part, str) for part in value.values())
        and value["kind"] in KINDS + _LEFT_OUT
    )


def _settings(value: dict[str, Any]) -> bool:
    return (
        value.keys() == {"kernel", "lambda_d", "alpha", "score"}
        and value["kernel"] in ("linear", "rbf", "tanimoto")
        and all(_number(value[k]) and math.isfinite(value[k]) for k in ("lambda_d", "alpha"))
        and (value["score"] is None or _number(value["score"]))
    )


def _estimate(value: dict[str, Any]) -> bool:
    values = value.get("values")
    return (
        value.keys() - {"labels"} == {"values", "n_entries", "repetitions"}
        and isinstance(value.get("labels", []), list)
        and all(map(_label_estimate, value.get("labels", [])))
        and all(type(value[k]) is int and value[k] >= 0 for k in ("n_entries", "repetitions"))
        and isinstance(values, dict)
        and values.keys() == {key for key, *_ in MEASURES}
        and all(
            isinstance(part, list) and len(part) == 3 and all(map(_number, part))
            for part in values.values()
        )
    )


def _label_estimate(value: Any) -> bool:
    fields = LabelEstimate.__dataclass_fields__.keys()
    return (
        isinstance(value, dict)
        and value.keys() == fields
        and isinstance(value["label"], str)
        and all(_number(part) for name, part in value.items() if name != "label")
    )


def _sample(value: Any) -> bool:
    dense = isinstance(value, np.ndarray) and value.dtype == np.float64
    return (dense or sp.issparse(value)) and value.ndim == 2


def _square(value: Any, size: int) -> bool:
    return (
        isinstance(value, np.ndarray)
        and value.dtype == np.float64
        and value.shape == (size, size)
        and bool(np.isfinite(value).all())
    )
