"""Preparation of raw columns as numeric features, with the transformers of scikit-learn."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from dm2l import chemistry
from dm2l._auto._classifier import AutoClassifier
from dm2l._auto._columns import FARTHEST, without_far_values
from dm2l._utils import require
from dm2l._utils.arrays import factorize
from dm2l.datasets import duplicate_groups
from dm2l.io._columns import ColumnRequestError
from dm2l.tables._kinds import DATES, ColumnUse, as_text, check_kinds, column_kinds, typed_column
from dm2l.tables._reading import Table

MAX_CATEGORIES = 500  # maximum number of categories in a column
# Maximum number of words for models that need d x d matrices. For AutoClassifier: maximum numbers
# of n-grams of words and of letters, in total and per row, which limit the size of a model file.
MAX_WORDS, MAX_NGRAMS, PER_ROW = 2000, (21_000, 42_000), (10, 20)


def preparation(uses: Sequence[ColumnUse] | None, inputs: Any = None, *, raw: bool = False) -> Any:
    """Return a transformer of the feature columns; ``raw`` prepares them for AutoClassifier."""
    if uses is None:  # for a sparse matrix
        return MaxAbsScaler()
    by_kind: dict[str, list[str]] = {}
    for use in uses:
        if use.used:
            kind = "numeric" if use.kind in DATES else use.kind
            if use.kind == "numeric" and inputs is not None:
                # Bits are not scaled to unit variance (benchmarks/chemistry.py).
                bits = np.isin(np.nan_to_num(inputs[use.name]), (0, 1)).all()
                kind = "boolean" if bits else kind
            by_kind.setdefault(kind, []).extend(use.inputs)
    # AutoClassifier accepts many columns, missing numbers and codes of categories, but no text.
    ngrams = raw and "text" in by_kind
    raw = raw and not by_kind.keys() & {"text", "smiles"}
    parts: list[tuple[str, Any, Any]] = []
    for kind, strategy in {"numeric": "median", "boolean": "most_frequent"}.items():
        if kind in by_kind:
            imputer = SimpleImputer(strategy=strategy, add_indicator=True, keep_empty_features=True)
            steps = (imputer, ClippedScaler()) if kind == "numeric" else (imputer,)
            parts.append((kind, "passthrough" if raw else make_pipeline(*steps), by_kind[kind]))
    if "category" in by_kind:
        encoder: Any = OneHotEncoder(handle_unknown="ignore", max_categories=MAX_CATEGORIES)
        if raw:
            encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
        parts.append(("category", encoder, by_kind["category"]))
    # Pass a name instead of a list, because a vectorizer takes one column and not a table.
    for number, name in enumerate(by_kind.get("text", []), 1):
        words = TfidfVectorizer(sublinear_tf=True, strip_accents="unicode", max_features=MAX_WORDS)
        parts.append((f"text{number}", words, name))
        if ngrams:
            limits = np.array(MAX_NGRAMS)
            if inputs is not None:
                limits = np.minimum(limits, np.array(PER_ROW) * len(inputs))
            letters = clone(words).set_params(analyzer="char_wb", ngram_range=(2, 5))
            letters.set_params(max_features=int(limits[1]))
            words.set_params(ngram_range=(1, 2), max_features=int(limits[0]))
            parts.append((f"letters{number}", letters, name))
    for number, name in enumerate(by_kind.get("smiles", []), 1):
        fingerprints = chemistry.MorganFingerprints(counts=True, salts=False)
        imputer = SimpleImputer(strategy="median", keep_empty_features=True)
        described = make_pipeline(chemistry.MoleculeDescriptors(), imputer, ClippedScaler())
        parts.append((f"smiles{number}", fingerprints, name))
        parts.append((f"descriptors{number}", described, name))
    if "score" in by_kind:  # the last columns; missing scores stay NaN in dense features
        sparse = by_kind.keys() & {"text", "smiles"}
        scores: Any = SimpleImputer(keep_empty_features=True) if sparse else "passthrough"
        parts.append(("score", scores, by_kind["score"]))
    # Texts and molecules make the matrix sparse, and a dense one would be standardized.
    dense = 1.0 if ngrams or "smiles" in by_kind else 0.3
    return ColumnTransformer(
        parts, remainder="drop", verbose_feature_names_out=False, sparse_threshold=dense
    )


class ClippedScaler(StandardScaler):
    """Scaler that ignores far outliers in means and standard deviations, and clips the outliers."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Compute means and deviations without far outliers."""
        return super().fit(without_far_values(X), y, sample_weight)

    def transform(self, X: Any, copy: bool | None = None) -> Any:
        """Return standardized columns with clipped outliers."""
        return np.clip(super().transform(X, copy), -FARTHEST, FARTHEST)


def codes_of(transformer: Any) -> list[int]:
    """Return the positions of transformed columns that contain codes of categories."""
    places, found = 0, []
    for _, part, columns in getattr(transformer, "transformers", ()):
        if isinstance(part, OrdinalEncoder):
            found = list(range(places, places + len(columns)))
        places += len(columns)
    return found


class Feature(NamedTuple):
    """A transformed column: the name of its raw column, and its own name."""

    column: str
    name: str


def features_of(transformer: Any, names: Sequence[str]) -> list[Feature]:
    """Return the transformed columns; ``names`` are the column names of a sparse matrix."""
    if not isinstance(transformer, ColumnTransformer):
        return [Feature(name, name) for name in names]
    found = []
    for part, fitted, columns in transformer.transformers_:
        if part in ("numeric", "boolean", "score") or isinstance(fitted, OrdinalEncoder):
            found += [Feature(column, column) for column in columns]
            absent = fitted[0].indicator_.features_ if isinstance(fitted, Pipeline) else []
            found += [Feature(columns[j], f"{columns[j]} is missing") for j in absent]
        elif part == "category":
            groups = zip(columns, fitted.categories_, fitted.infrequent_categories_, strict=True)
            for column, values, rare in groups:
                known = [v for v in values if rare is None or v not in rare]
                names = [f"{column}={v}" if v else f"{column} is missing" for v in known]
                names += [] if rare is None else [f"{column} is rare"]
                found += [Feature(column, name) for name in names]
        elif isinstance(columns, str):  # words of a text, bits and descriptors of molecules
            words = fitted.get_feature_names_out()
            found += [Feature(columns, f"{columns}: {word}") for word in words]
    return found


def check_columns(wanted: Sequence[str], present: Sequence[str], where: str) -> None:
    """Raise an error if columns are missing, and list these columns."""
    known = set(present)
    missing = [name for name in wanted if name not in known]
    if missing:
        raise ValueError(
            f"{where} lacks {len(missing)} of the {len(wanted)} columns that the model needs: "
            f"{', '.join(map(repr, missing))}. It has {', '.join(map(str, present[:12]))}"
            f"{', ...' if len(present) > 12 else ''}. Add the missing columns; their cells may be "
            "blank."
        )


def typed_frame(
    frame: Any, uses: Sequence[ColumnUse], where: str, decimal: str = ".", first_row: int = 1
) -> tuple[Any, list[str]]:
    """Return feature columns converted to their kinds, and warnings about unexpected values."""
    pandas = require("pandas", "io")
    wanted = [use for use in uses if use.used]
    check_columns([use.name for use in wanted], list(frame.columns), where)
    columns: dict[str, Any] = {}
    warnings = []
    for use in wanted:
        values, note = typed_column(frame[use.name], use.kind, decimal, first_row)
        parts = [values]
        if use.kind in DATES:
            days = pandas.to_datetime(values, unit="D")
            parts = [days.year, days.month, days.day_of_week, values]
        columns |= dict(zip(use.inputs, parts, strict=True))
        if note:
            warnings.append(f"column {use.name!r}: {note}")
    return pandas.DataFrame(columns, index=range(len(frame))), warnings


def unread_rows(inputs: Any, uses: Sequence[ColumnUse] | None) -> NDArray[np.bool_]:
    """Return a mask of rows with invalid SMILES, which are left out of fits and predictions."""
    found = np.zeros(inputs.shape[0], dtype=bool)
    for use in uses or ():
        if use.kind == "smiles":
            found |= (inputs[use.name] == "").to_numpy()
    return found


def table_inputs(
    table: Table, kinds: Mapping[str, str] | None, drop: Sequence[str], groups: Any = None
) -> tuple[Any, list[ColumnUse] | None, NDArray[np.float64], NDArray[np.intp] | None]:
    """Return features, uses of columns (None for a sparse matrix), labels, and groups of rows."""
    if table.frame is None:
        return table.matrix, None, table.Y, _row_groups(table, table.matrix, (), groups)
    column = None
    if isinstance(groups, str) and groups in table.frame.columns:
        column, drop = groups, [*drop, groups]
    uses = usable(table.frame, kinds, drop, table.decimal, str(table.path))
    check_kinds(uses, kinds, table.frame, table.decimal)
    why = "used to group rows"
    uses = [replace(use, reason=why) if use.name == column else use for use in uses]
    inputs, _ = typed_frame(table.frame, uses, str(table.path), table.decimal)
    # Rows without observed labels are left out of every fit and fold.
    Y = np.where(unread_rows(inputs, uses)[:, None], np.nan, table.Y)
    if column is None:
        return inputs, uses, Y, _row_groups(table, inputs, uses, groups)
    values = as_text(table.frame[column])
    # Each row with a blank is a group of its own.
    return inputs, uses, Y, factorize([text or row for row, text in enumerate(values)])


def usable(
    frame: Any, kinds: Mapping[str, str] | None, drop: Sequence[str], decimal: str, where: str
) -> list[ColumnUse]:
    """Detect how each column is used, or raise an error if no column can be a feature."""
    uses = column_kinds(frame, kinds, drop=drop, decimal=decimal)
    if not any(use.used for use in uses):
        listed = "; ".join(f"{use.name!r}: {use.reason}" for use in uses[:5])
        raise ValueError(
            f"{where}: no column can be used as a feature ({listed}). Pass the kind of a column "
            "with --kind (kinds=)."
        )
    return uses


def _row_groups(
    table: Table, inputs: Any, uses: Sequence[ColumnUse], groups: Any
) -> NDArray[np.intp] | None:
    """Return the group of each row, for folds that keep groups together; None without groups."""
    if groups is not None and not isinstance(groups, str):
        values = np.asarray(groups)
        if values.shape != (table.n_rows,):
            raise ValueError(
                f"groups must have one value for each of the {table.n_rows} rows, got shape "
                f"{values.shape}."
            )
        return factorize(values.tolist())
    if groups == "duplicates":
        return duplicates(inputs, uses)
    molecules = [use.name for use in uses if use.kind == "smiles"]
    if molecules and groups in (None, "scaffold"):
        number = chemistry.scaffold_groups if groups else chemistry.compound_groups
        found = factorize(zip(*(number(inputs[name]) for name in molecules), strict=True))
        return found if groups or 1 < len(np.unique(found)) < len(found) else None
    if groups is None:
        return None
    lack = "column of SMILES" if groups == "scaffold" else "such column"
    raise ColumnRequestError(
        f"{table.path} cannot be grouped by {groups!r}: it has no {lack}. Pass the name of a "
        "column, 'duplicates', or 'scaffold' for tables with SMILES."
    )


def duplicates(inputs: Any, uses: Sequence[ColumnUse]) -> NDArray[np.intp]:
    """Group rows with the same features; salts of the same compound count as equal."""
    if not hasattr(inputs, "iloc"):
        return duplicate_groups(inputs)
    frame = inputs
    for use in uses:
        if use.kind == "smiles":
            frame = frame.assign(**{use.name: chemistry.compound_groups(inputs[use.name])})
    hashes = require("pandas", "io").util.hash_pandas_object(frame, index=False)
    return factorize(hashes.tolist())


@dataclass(eq=False, repr=False)
class TableColumns(TransformerMixin, BaseEstimator):
    """Transformer from a data frame to features; ``raw`` prepares them for AutoClassifier."""

    kinds: Mapping[str, str] | None = None
    drop: Sequence[str] = ()
    decimal: str = "."
    raw: bool = False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Decide the use of every column, and learn scales, categories and words."""
        if not hasattr(X, "iloc"):
            raise TypeError(
                f"X must be a pandas.DataFrame, got {type(X).__name__}. Pass pandas.DataFrame(X)."
            )
        uses = usable(X, self.kinds, self.drop, self.decimal, "X")
        # Stored as tuples, which model files can hold.
        self._uses = [astuple(use) for use in uses]
        inputs = self._typed(X)
        self.transformer_ = preparation(uses, inputs, raw=self.raw).fit(inputs)
        self.n_features_in_ = len(uses)
        return self

    @property
    def uses_(self) -> list[ColumnUse]:
        """The use of every column."""
        return [ColumnUse(*use) for use in self._uses]

    def transform(self, X: Any) -> Any:
        """Transform rows to features; columns that the fit did not have are ignored."""
        check_is_fitted(self, "transformer_")
        return self.transformer_.transform(self._typed(X))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features: ``column``, ``column=value`` or ``column: word``."""
        found = features_of(self.transformer_, [])
        return np.array([feature.name for feature in found], dtype=object)

    def _typed(self, X: Any) -> Any:
        uses = self.uses_
        inputs, odd = typed_frame(X, uses, "X", self.decimal, first_row=0)
        if unread_rows(inputs, uses).any():
            found = "; ".join(odd).replace(" and are skipped", "").replace(" and is skipped", "")
            raise ValueError(
                f"X has rows with invalid SMILES, which a pipeline cannot skip ({found}). "
                "Remove these rows with dm2l.chemistry.is_valid_smiles, or use fit_table."
            )
        for line in odd:
            warnings.warn(line, stacklevel=3)
        return inputs


def make_table_pipeline(
    frame: Any,
    estimator: Any = None,
    *,
    kinds: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
    decimal: str = ".",
) -> Pipeline:
    """Make a scikit-learn pipeline that prepares a data frame as ``dm2l fit`` prepares a table.

    Numbers are standardized, and missing numbers are imputed and marked in indicator columns. Yes
    and no become 1 and 0, categories are one-hot encoded, text becomes TF-IDF, molecules become
    count fingerprints and descriptors, and dates become year, month, weekday and number of days.
    Identifiers and constants are left out. :func:`dm2l.persistence.save_model` saves the pipeline.

    Parameters
    ----------
    frame : pandas.DataFrame
        Features without labels, from which the kinds of columns are detected.
    estimator : estimator, default=None
        The classifier; by default :class:`dm2l.AutoClassifier`, which accepts missing numbers.
    kinds, drop
        As in :func:`fit_table`.
    decimal : str, default="."
        The decimal point of numbers in text.

    Returns
    -------
    Pipeline
        An unfitted pipeline with the steps ``columns`` and ``labels``.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l import DM2LClassifier
    >>> from dm2l.tables import make_table_pipeline
    >>> frame = pd.DataFrame({"mass": [1.0, None, 3.0, 4.0] * 5, "phase": ["gas", "solid"] * 10})
    >>> Y = [[0, 1], [None, 0], [1, 1], [1, None]] * 5
    >>> model = make_table_pipeline(frame, DM2LClassifier()).fit(frame, Y)
    >>> model.predict(frame).shape
    (20, 2)
    """
    uses = usable(frame, kinds, drop, decimal, "The data frame")
    given = {use.name: use.kind for use in uses if use.used}
    left_out = [use.name for use in uses if not use.used]
    columns = TableColumns(given, left_out, decimal, raw=estimator is None)
    if estimator is None:
        codes = codes_of(preparation(uses, raw=True))
        estimator = AutoClassifier(categorical_features=codes or None)
    return Pipeline([("columns", columns), ("labels", estimator)])
