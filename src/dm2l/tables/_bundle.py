"""The file of a model of a table: the pipeline, with what it knows of the table inside."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from dm2l.model_selection import Interval
from dm2l.persistence import ModelFileError, load_model, save_model
from dm2l.tables._bundle_check import check_model, check_record
from dm2l.tables._kinds import ColumnUse
from dm2l.tables._measures import Estimate
from dm2l.tables._model import TableModel
from dm2l.tables._settings import Settings

# Of the record that goes with the classifier, in its attribute ``table_``.
FORMAT = 1

# What the transformers hold besides plain values, none of which runs anything: the dtype that
# SimpleImputer was fitted to, and the list of other columns of an older ColumnTransformer.
_TRUSTED = ("numpy.dtype", "sklearn.compose._column_transformer._RemainderColsList")


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
    >>> from dm2l.tables import Wishes, fit_table, load_bundle, save_bundle, table_from_frame
    >>> frame = pd.DataFrame({"mass": [i % 7 for i in range(60)]})
    >>> frame["tox_a"] = [i % 7 > 3 if i % 3 else None for i in range(60)]
    >>> frame["tox_b"] = [i % 7 < 2 if i % 4 else None for i in range(60)]
    >>> table = table_from_frame(frame, "tox_*")
    >>> model = fit_table(table, Wishes("linear", 0.1, 1.0), estimate_folds=0)
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
        "zero_based": model.zero_based,
        "settings": asdict(model.settings),
        "correlation": model.correlation,
        "estimate": None,
    }
    if estimate is not None:
        record["estimate"] = {
            "values": {key: list(map(float, value)) for key, value in estimate.values.items()},
            "n_entries": estimate.n_entries,
            "repetitions": estimate.repetitions,
        }
    # Python's own numbers: the record is data, of no library.
    record["settings"] = {
        key: float(v) if isinstance(v, float) else v for key, v in record["settings"].items()
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
    pipeline = load_model(Path(path), trusted=_TRUSTED)
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
        check_record(record)
        model = _model(pipeline, record)
        check_model(model)
    except ModelFileError as error:
        raise ModelFileError(f"{path} cannot be loaded: {error}") from error
    return model


def _model(pipeline: Any, record: dict[str, Any]) -> TableModel:
    estimate, uses = record["estimate"], record["uses"]
    return TableModel(
        pipeline=pipeline,
        uses=None if uses is None else [ColumnUse(**use) for use in uses],
        feature_names=record["feature_names"],
        label_names=record["label_names"],
        settings=Settings(**record["settings"]),
        correlation=record["correlation"],
        estimate=None
        if estimate is None
        else Estimate(
            {key: Interval(*value) for key, value in estimate["values"].items()},
            estimate["n_entries"],
            estimate["repetitions"],
        ),
        missing=record["missing"],
        zero_based=record.get("zero_based"),  # not in older files
    )
