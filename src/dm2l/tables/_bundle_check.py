"""What a file says of a table's model, looked at before it is used: any file may say anything."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline

from dm2l.classifier import DM2LClassifier
from dm2l.extras import require
from dm2l.persistence import ModelFileError
from dm2l.tables._kinds import KINDS, ColumnUse
from dm2l.tables._measures import MEASURES
from dm2l.tables._model import TableModel
from dm2l.tables._preparation import typed_frame

# Kinds of columns that are not used.
_LEFT_OUT = ("identifier", "date", "constant", "empty", "dropped", "unusable")
# What parts that do not belong together raise at the first row.
_FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def check_record(record: Mapping[str, Any]) -> None:
    """Refuse a record whose values are not of the form that :func:`save_bundle` gives, by name."""
    uses, estimate = record.get("uses"), record.get("estimate")
    labels, features = record.get("label_names"), record.get("feature_names")
    settings, correlation = record.get("settings"), record.get("correlation")
    right = {
        "label_names": bool(labels) and _names(labels),
        "feature_names": _names(features),
        "missing": _texts(record.get("missing")),
        "zero_based": record.get("zero_based") in (None, True, False),
        "settings": isinstance(settings, dict) and _settings(settings),
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


def check_model(model: TableModel) -> None:
    """Refuse a model whose parts do not belong together: it is asked about a blank row."""
    pipeline, n_labels = model.pipeline, len(model.label_names)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a row that is only a trial
            answer = model.answer(_blank_row(model))
            n_features = len(model.features)
            names = [str(name) for name in model.classifier.label_names_]
    except _FAULTS as error:
        raise ModelFileError(f"its parts do not fit together ({error!r:.200}).") from error
    proper = (
        type(pipeline) is Pipeline
        and len(pipeline.steps) == 2
        and type(model.classifier) is DM2LClassifier
        and names == model.label_names
        and n_features == model.classifier.n_features_in_
        and all(np.shape(part) == (1, n_labels) for part in answer)
        and all(np.isfinite(part).all() for part in answer)
    )
    if not proper:
        raise ModelFileError("its parts do not fit together.")


def _blank_row(model: TableModel) -> Any:
    if model.uses is None:
        return sp.csr_array((1, len(model.feature_names)))
    frame = require("pandas", "io").DataFrame({use.name: [""] for use in model.uses})
    return typed_frame(frame, model.uses, "a blank row")[0]


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


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
        and value["kernel"] in ("linear", "rbf")
        and all(_number(value[k]) and math.isfinite(value[k]) for k in ("lambda_d", "alpha"))
        and (value["score"] is None or _number(value["score"]))
    )


def _estimate(value: dict[str, Any]) -> bool:
    values = value.get("values")
    return (
        value.keys() == {"values", "n_entries", "repetitions"}
        and all(type(value[k]) is int and value[k] >= 0 for k in ("n_entries", "repetitions"))
        and isinstance(values, dict)
        and values.keys() == {key for key, *_ in MEASURES}
        and all(
            isinstance(part, list) and len(part) == 3 and all(map(_number, part))
            for part in values.values()
        )
    )


def _square(value: Any, size: int) -> bool:
    return (
        isinstance(value, np.ndarray)
        and value.dtype == np.float64
        and value.shape == (size, size)
        and bool(np.isfinite(value).all())
    )
