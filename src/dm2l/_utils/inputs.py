"""Validate features and parameters of estimators, with errors that name the value."""

from collections.abc import Iterator, Mapping, Set, Sized, ValuesView
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, is_torch_array
from sklearn.utils.validation import validate_data

from dm2l._utils.arrays import check_magnitude, device_name, is_non_numpy, to_numpy

# Default size of a block: 32 MB of float32. The allocator returns larger arrays to the system
# and would have to request memory again for every block.
NUMBERS = 8_000_000
_ALTERNATIVES = (
    "in a pipeline. dm2l.tables.make_table_pipeline, AutoClassifier and `dm2l fit` do so "
    "automatically."
)


def check_inputs(model: Any, X: Any, *, reset: bool, follows: bool) -> Any:
    """Return validated features; if ``follows``, torch and cupy arrays are not converted."""
    if is_non_numpy(X):
        X = _check_non_numpy(model, X, reset=reset) if follows else to_numpy(X)
    if not is_non_numpy(X):
        sparse = "csr" if model.__sklearn_tags__().input_tags.sparse else False
        dtype = [np.float64, np.float32]
        # scikit-learn searches for NaN by sums, which may overflow.
        with np.errstate(over="ignore", invalid="ignore"), explain_unsuitable(X):
            X = validate_data(model, X, accept_sparse=sparse, dtype=dtype, reset=reset)
    if reset:
        check_magnitude(X, getattr(model, "feature_names_in_", None))
        model._home = device_name(X)
    elif device_name(X) != model._home:
        what = f"The model was fitted to arrays of {model._home}, but X is from {device_name(X)}."
        raise ValueError(f"{what} Move X to the device of the model, or fit a new model.")
    return X


def _check_non_numpy(model: Any, X: Any, *, reset: bool) -> Any:
    """Check an array of another library as scikit-learn checks numpy arrays."""
    if is_torch_array(X):
        X = X.detach()
    xp = array_namespace(X)
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: shape {X.shape}.")
    if 0 in X.shape:
        raise ValueError(f"Found array with shape {tuple(X.shape)}. X needs rows and columns.")
    if X.dtype not in (xp.float64, xp.float32):
        if xp.isdtype(X.dtype, "complex floating"):
            raise ValueError("Complex data not supported. Pass real numbers, such as X.real.")
        X = xp.astype(X, xp.float64)
    if not bool(xp.all(xp.isfinite(X))):
        row, column = np.argwhere(~np.isfinite(to_numpy(X)))[0]
        what = f"Input X contains NaN or infinity, for example in row {row}, column {column}."
        raise ValueError(f"{what} Impute or drop such values.")
    return validate_data(model, X, reset=reset, skip_check_array=True)


@contextmanager
def explain_unsuitable(X: Any, *, nan_allowed: bool = False) -> Iterator[None]:
    """Replace an error about X by an error that names the first unsuitable value."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        try:
            _reject_values(X, nan_allowed)
        except (TypeError, ValueError) as found:
            for note in getattr(error, "__notes__", ()):
                found.add_note(note)
            raise
        raise


def _reject_values(X: Any, nan_allowed: bool) -> None:
    if sp.issparse(X):
        values = X.tocoo().data  # other formats may lack ``data`` or store other entries in it
        _reject_not_finite(values if X.dtype.kind == "f" else values[:0], "", nan_allowed)
    elif hasattr(X, "iloc") and hasattr(X, "columns"):
        for j, name in enumerate(X.columns):
            _reject_in_column(repr(str(name)), X.iloc[:, j], nan_allowed)
    else:
        check_rows(X)
        values = np.asarray(X)
        for j in range(values.shape[1] if values.ndim == 2 else 0):
            _reject_in_column(str(j), values[:, j], nan_allowed)


def check_rows(X: Any) -> None:
    """Raise an error if X is not a sequence of rows of equal length."""
    if sp.issparse(X):  # a DOK matrix is a mapping, too
        return
    what = f"X is a {type(X).__name__}"
    if hasattr(X, "iloc") and not hasattr(X, "columns"):
        text = f"{what}, not a 2-dimensional container."
        raise ValueError(f"{text} Pass a data frame with one row per sample, such as X.to_frame().")
    if isinstance(X, (Mapping, Set, ValuesView)):
        raise TypeError(
            f"{what}, not a table of numbers. Pass an array or a data frame with one row "
            "per sample, such as pandas.DataFrame(X) for a dict of columns."
        )
    if isinstance(X, Iterator):
        raise TypeError(f"{what}, which can be read only once. Pass an array or a list: list(X).")
    kind = getattr(X, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind == "V":
        fields = f" with the fields {', '.join(map(repr, kind.names))}" if kind.names else ""
        raise TypeError(
            f"X is a structured array{fields}, but must be a 2-D array of numbers. Pass a data "
            "frame (pandas.DataFrame(X)) or a plain array "
            "(numpy.lib.recfunctions.structured_to_unstructured(X))."
        )
    objects = isinstance(X, np.ndarray) and X.dtype.hasobject and X.ndim == 1
    if not objects and not isinstance(X, (list, tuple)):
        return
    lengths = []
    for i, row in enumerate(X):
        if isinstance(row, (Mapping, Set, Iterator)):
            raise TypeError(
                f"Row {i} of X is a {type(row).__name__}, not a list of numbers. Pass an array "
                "or a data frame, such as pandas.DataFrame(X) for a list of dicts."
            )
        lengths.append(_length(row))
        if lengths[-1] != lengths[0]:
            sizes = (lengths[0], lengths[-1])
            first, other = ("is not a list" if n is None else f"has {n}" for n in sizes)
            text = f"Rows of X differ in their number of values: row 0 {first}, row {i} {other}."
            raise ValueError(f"{text} Each row needs one value for each feature.")
    if objects and lengths and lengths[0] is not None:
        raise ValueError("X is a 1-D array of arrays. Convert it to one array with numpy.stack(X).")
    try:
        np.asarray(X)
    except ValueError:
        for i, row in enumerate(X):
            for j, value in enumerate(row):
                if _length(value) is not None:
                    raise _no_number(str(j), i, value) from None


def _length(values: Any) -> int | None:
    """Return the number of values in a sequence, or None for a single number or text."""
    single = isinstance(values, (str, bytes)) or getattr(values, "shape", None) == ()
    return None if single or not isinstance(values, Sized) else len(values)


def _reject_in_column(name: str, column: Any, nan_allowed: bool) -> None:
    values = np.asarray(column)
    if values.dtype.kind == "c":  # scikit-learn's own message suffices
        return
    objects = values.dtype.kind not in "fiubmM"
    texts = [i for i, v in enumerate(values) if isinstance(v, (str, bytes))] if objects else []
    if texts:
        raise ValueError(
            f"Column {name} of X holds text ({str(values[texts[0]])[:40]!r} in row {texts[0]}). "
            "Encode the column, for instance with sklearn.preprocessing.OneHotEncoder "
            f"{_ALTERNATIVES}"
        )
    if values.dtype.kind in "mM" or (objects and any(hasattr(v, "isoformat") for v in values)):
        remedy = "Convert them to numbers such as the year, the weekday or days since a date."
        raise ValueError(f"Column {name} of X holds dates. {remedy}")
    try:
        values = values.astype(np.float64) if objects else values
    except (TypeError, ValueError, OverflowError):
        for i, value in enumerate(values):
            _reject_object(name, i, value)
        return
    _reject_not_finite(values, f" in column {name}, row ", nan_allowed)


def _reject_object(name: str, i: int, value: Any) -> None:
    if _length(value) is not None:
        raise _no_number(name, i, value)
    try:
        np.asarray([value], dtype=object).astype(np.float64)
    except OverflowError:
        what = f"Column {name} of X holds a number in row {i} that is too large for float64."
        remedy = "Scale the column so that it stays below 1e308, for instance by its logarithm."
        raise ValueError(f"{what} {remedy}") from None
    except (TypeError, ValueError):
        raise _no_number(name, i, value) from None


def _no_number(name: str, i: int, value: Any) -> TypeError:
    what = f"Column {name} of X has a value of type {type(value).__name__} in row {i}. Each value"
    must = "of this argument must be a number, or a string that can be converted to a number."
    return TypeError(f"{what} {must}")


def _reject_not_finite(values: Any, where: str, nan_allowed: bool) -> None:
    at = np.flatnonzero(np.isinf(values) if nan_allowed else ~np.isfinite(values))
    if not len(at):
        return
    value = values[at[0]]
    where = f"{where}{at[0]}" if where else ""
    more = "" if len(at) == 1 else f" ({len(at)} such values)"
    if np.isnan(value):
        raise ValueError(
            f"X has NaN{where}{more}. Impute missing values, for instance with "
            f"sklearn.impute.SimpleImputer {_ALTERNATIVES}"
        )
    what = f"X has {'-' if value < 0 else ''}infinity (inf){where}{more}."
    raise ValueError(f"{what} Replace or drop such values.")


def check_numbers(*, positive: bool = False, words: Any = (), **values: Any) -> None:
    """Check that values are one of ``words`` or finite numbers >= 0 (> 0 if ``positive``)."""
    for name, value in values.items():
        number = isinstance(value, Real) and 0 <= float(value) < np.inf
        word = isinstance(value, str) and value in words
        if not word and (not number or (positive and value == 0)):
            listed = f"{', '.join(map(repr, words))} or " if words else ""
            sign = ">" if positive else ">="
            raise ValueError(f"{name} must be {listed}a finite number {sign} 0, got {value!r}.")


def check_counts(*, least: int = 1, **values: Any) -> None:
    """Raise a ValueError unless all values are integers of at least ``least``."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name} must be an integer >= {least}, got {value!r}.")


def block_rows(rows: Any, n_features: int) -> int:
    """Return the number of rows per block; by default, a block has :data:`NUMBERS` values."""
    if rows is None:
        return max(1000, NUMBERS // max(1, n_features))
    check_counts(rows=rows)
    return int(rows)


def check_choice(name: str, value: Any, *choices: str | None) -> None:
    """Raise a ValueError unless a value is one of the choices, which are texts or None."""
    if not isinstance(value, str | None) or value not in choices:
        listed = ", ".join(map(repr, choices))
        some = "one of " if len(choices) > 1 else ""
        raise ValueError(f"{name} must be {some}{listed}; got {value!r}.")
