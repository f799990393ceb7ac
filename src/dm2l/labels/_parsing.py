"""Read labels from arrays, data frames, lists and sparse matrices, and explain errors."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from dm2l._utils.arrays import is_non_numpy, to_numpy
from dm2l._utils.inputs import check_choice
from dm2l.labels._entries import Mask, Signs

MissingAs = Literal["missing", "negative", "unlabelled"]
Names = NDArray[np.object_] | None

MEANINGS = ("missing", "negative", "unlabelled")


def read_values(
    Y: Any, label_mask: Any = None, missing_label: Any = np.nan
) -> tuple[NDArray[Any], Mask, Names]:
    """Return the values of labels, a mask of observed entries, and column names or None."""
    values, null, names = open_container(Y)
    if values.ndim not in (1, 2) or 0 in values.shape[1:]:
        raise ValueError(
            f"Y must have one or two dimensions and at least one column, got shape {values.shape}."
        )
    observed = ~null
    if label_mask is not None:
        mask = check_mask(label_mask, values.shape, names)
        observed &= mask
        null = null & mask
    if not (isinstance(missing_label, float) and np.isnan(missing_label)):
        # Masked arrays and nullable columns mark missing values; only a plain NaN is ambiguous.
        bare = values.dtype.kind == "f" and names is None and missing_label is not None
        bad = null & null_entries(values) & bare
        if bad.any():
            where = np.argwhere(bad)[0]
            column = column_text(int(where[1]), names) if len(where) == 2 else "y"
            raise ValueError(
                f"Y has nan in row {where[0]}, {column}, but missing_label={missing_label!r}. Use "
                "either NaN or missing_label for all missing labels, or pass label_mask."
            )
        observed &= ~equals(values, missing_label)
    return values, observed, names


def open_container(Y: Any) -> tuple[NDArray[Any], Mask, Names]:
    """Return the values in a container, a mask of null entries, and column names or None."""
    if is_non_numpy(Y):
        Y = to_numpy(Y)
    if isinstance(Y, np.ma.MaskedArray):  # check_array would drop the mask
        hidden = np.ma.getmaskarray(Y)
        data = np.array(Y.data)
        data[hidden] = 0
        return data, hidden | null_entries(data), None
    if hasattr(Y, "columns") and hasattr(Y, "shape"):
        return _open_frame(Y)
    if hasattr(Y, "isna") or hasattr(Y, "is_null"):
        return (*_open_series(Y), None)
    data = Y if isinstance(Y, np.ndarray) else _asarray(Y)
    return data, null_entries(data), None


def _asarray(Y: Any) -> NDArray[Any]:
    if isinstance(Y, str) or not (hasattr(Y, "__len__") or hasattr(Y, "__array__")):
        raise ValueError(f"Y must be array-like, got {type(Y).__name__}.")
    try:
        data = np.asarray(Y)
    except ValueError:
        raise ValueError(
            "Y is ragged: its rows have different lengths. Every row needs one entry per label."
        ) from None
    if data.dtype.kind in "US":  # if there is text, numpy converts None, NaN and numbers to text
        objects = np.asarray(Y, dtype=object)
        if not all(isinstance(v, str) for v in objects.ravel().tolist()):
            return objects
    return data


def _open_frame(Y: Any) -> tuple[NDArray[Any], Mask, NDArray[np.object_]]:
    names = np.empty(len(Y.columns), dtype=object)
    names[:] = [None if is_null(name) else name for name in Y.columns]  # NaN is not equal to NaN
    # Select columns by position, because pandas allows equal names; polars has no iloc.
    by_place = getattr(Y, "iloc", Y)
    opened = [_open_series(by_place[:, j]) for j in range(Y.shape[1])]
    if not opened:
        return np.empty(Y.shape), np.zeros(Y.shape, dtype=bool), names
    nulls = np.column_stack([null for _, null in opened])
    # Columns without observed entries must not affect the data type.
    seen = [j for j in range(len(opened)) if not nulls[:, j].all()] or range(len(opened))
    numeric = all(opened[j][0].dtype.kind in "biuf" for j in seen)
    dtype = np.result_type(*(opened[j][0].dtype for j in seen)) if numeric else object
    values = np.zeros(Y.shape, dtype=dtype)
    for j in seen:
        values[:, j] = opened[j][0]
    return values, nulls, names


def _open_series(column: Any) -> tuple[NDArray[Any], Mask]:
    null = np.asarray(column.isna() if hasattr(column, "isna") else column.is_null(), dtype=bool)
    values = np.asarray(column.to_numpy())
    present = values
    if values.dtype.kind in "Of" and null.any():
        # Nullable columns become objects or floats. Only their observed entries keep the dtype.
        drop = getattr(column, "dropna", None) or getattr(column, "drop_nulls", None)
        present = values[~null] if drop is None else np.asarray(drop().to_numpy())
    if present.dtype.kind == "O":
        present = np.array(present.tolist())
    if present.ndim == 1 and present.dtype.kind in "biuf" and present.dtype != values.dtype:
        values = np.zeros(len(null), dtype=present.dtype)
        values[~null] = present
    return values, null | null_entries(values)


def null_entries(values: NDArray[Any]) -> Mask:
    """Return a mask of the entries that are NaN, None or NA."""
    if values.dtype.kind == "f":
        return cast("Mask", np.isnan(values))
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=bool)
    return np.asarray(np.frompyfunc(is_null, 1, 1)(values), dtype=bool)


def is_null(value: Any) -> bool:
    """Return whether a scalar is None, NaN or pandas.NA."""
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    # pandas.NA is recognized by name: pandas is not a dependency.
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def equals(values: NDArray[Any], mark: Any) -> Mask:
    """Return a mask of the entries that equal ``mark``; text never equals a number."""
    text = isinstance(mark, str)
    if values.dtype.kind == "O":
        alike = [not is_null(v) and isinstance(v, str) == text and v == mark for v in values.flat]
        return np.array(alike, dtype=bool).reshape(values.shape)
    if is_null(mark) or text != (values.dtype.kind in "US"):
        return np.zeros(values.shape, dtype=bool)
    return np.asarray(values == mark)


def check_mask(
    label_mask: Any, shape: tuple[int, ...], names: Any = None, *, sparse: bool = False
) -> Any:
    """Check and return ``label_mask``; with ``sparse``, a sparse mask stays sparse."""
    null: Any = np.False_
    mask, own_names = label_mask, None
    if not sp.issparse(label_mask):
        mask, null, own_names = open_container(label_mask)
    elif not sparse:
        mask = label_mask.toarray()
    if mask.dtype != bool or null.any():
        what = "missing values" if null.any() else f"dtype {mask.dtype}"
        raise ValueError(
            f"label_mask must be boolean (True for entries that may be used), got {what}. "
            "Convert it by a comparison, for example label_mask=M == 1."
        )
    if mask.shape != shape:
        raise ValueError(f"label_mask has shape {mask.shape}, but Y has shape {shape}.")
    refuse_shuffled(names, own_names, "label_mask")
    return mask


def refuse_shuffled(names: Any, others: Any, what: str) -> None:
    """Raise an error if a data frame ``others`` has the columns of ``Y`` in another order."""
    if names is None or others is None or list(others) == list(range(len(others))):
        return  # these are default names
    known = set(names)
    for j, (name, other) in enumerate(zip(names, others, strict=True)):
        if other != name and other in known:
            raise ValueError(
                f"Column {j} is {other!r} in {what}, but {name!r} in Y. Columns are matched by "
                f"position. Pass {what}[Y.columns]."
            )


def parse_matrix(values: NDArray[Any], observed: Mask, names: Names) -> tuple[Signs, int]:
    """Return the signs of a label matrix, and its code for negatives, 0 or -1."""
    numbers = values
    if values.dtype.kind not in "biuf":
        numeric = (bool, int, float, np.bool_, np.number)
        wrong = [not isinstance(value, numeric) for value in values[observed].tolist()]
        if any(wrong):
            bad = observed.copy()
            bad[observed] = wrong
            _refuse_value(values, bad, names)
        numbers = np.full(values.shape, np.nan)
        numbers[observed] = [float(value) for value in values[observed].tolist()]
    positive, zero, minus = (numbers == np.array([1, 0, -1])[:, None, None]) & observed
    bad = observed & ~(positive | zero | minus)
    if bad.any():
        _refuse_value(values, bad, names)
    if minus.any() and zero.any():
        row, column = np.argwhere(zero)[0]
        raise ValueError(
            f"Y mixes the codings 0/1 and -1/+1: it has 0 in row {row}, "
            f"{column_text(column, names)}, and -1 elsewhere. If 0 or -1 marks missing labels, "
            "pass missing_label=0 or missing_label=-1."
        )
    signs = positive.astype(np.int8) - (zero | minus).astype(np.int8)
    return signs, -1 if minus.any() else 0


def _refuse_value(values: NDArray[Any], bad: Mask, names: Names) -> None:
    row, column = np.argwhere(bad)[0]
    value = values[row, column]
    shown = value.item() if isinstance(value, np.generic) else value
    infinite = isinstance(shown, float) and np.isinf(shown)
    hint = ""
    if isinstance(shown, str):
        hint = (
            " dm2l.io.read_labels(Y) converts yes/no, true/false, active/inactive, "
            "positive/negative and +/-; for other pairs of words pass positive=."
        )
    elif shown == 2 and not ((values == 0) | (values == -1)).any():
        hint = " If 2 means yes and 1 means no, use dm2l.io.read_labels(Y, positive=2)."
    elif shown == 2:
        hint = (
            " A 2 often comes from scikit-learn's cross_val_predict, which treats NaN as a third "
            "class: use dm2l.model_selection.cross_val_decision instead."
        )
    elif not infinite:
        hint = " To convert numbers on a scale, use dm2l.io.read_labels(Y, cutoffs='COLUMN>=2')."
    count = int(bad.sum())
    raise ValueError(
        f"Input Y contains {'infinity' if infinite else repr(shown)} in row {row}, "
        f"{column_text(column, names)} ({count} such {'entry' if count == 1 else 'entries'}). "
        "Labels must be 0/1, True/False or -1/+1; missing labels are NaN or equal to "
        f"missing_label.{hint}"
    )


def parse_classes(values: NDArray[Any], observed: Mask) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the classes of a 1-D ``y``, and the class index of each observed entry."""
    seen = values[observed]
    if not len(seen):
        raise ValueError("All labels in y are missing. Pass at least one observed label.")
    if seen.dtype.kind == "f" and np.isinf(seen).any():
        raise ValueError(
            "Input y contains infinity or a value too large for dtype('float64'). Classes must be "
            "finite; missing entries are NaN or equal to missing_label."
        )
    if seen.dtype.kind == "O":
        seen = np.array(seen.tolist())
    check_classification_targets(seen)
    classes, codes = np.unique(seen, return_inverse=True)
    return classes, codes


def column_text(column: int, names: Sequence[Any] | Names) -> str:
    """Return the name of a column for messages, or its number if there are no names."""
    return f"column {column}" if names is None else f"column {names[column]!r}"


@dataclass(frozen=True, eq=False)
class SparseLabelMatrix:
    """Sparse label matrix, which is never converted to a dense one.

    A sparse matrix of -1 and +1 can be passed to metrics and estimators directly. If a matrix only
    stores positives, :meth:`from_array` defines the meaning of entries that are not stored.

    Attributes
    ----------
    signed : csr_array of shape (n, c), float64
        ``+1`` for an observed positive, ``-1`` for an observed negative.
    missing_as : {"missing", "negative", "unlabelled"}
        Meaning of an entry that is not stored.
    dense : bool
        Whether the labels were passed as an array or a data frame.
    negative : int
        Code of a negative in the passed labels, 0 or -1.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from dm2l.labels import SparseLabelMatrix
    >>> labels = SparseLabelMatrix.from_array(sp.eye_array(3).tocsr(), missing_as="negative")
    >>> labels.negatives()
    array([2, 2, 2])
    """

    signed: Any
    missing_as: MissingAs
    dense: bool = False
    negative: int = 0

    @classmethod
    def from_array(cls, Y: Any, *, missing_as: Any = None, mask: Any = None) -> "SparseLabelMatrix":
        """Read labels from a sparse matrix; all of them may be missing.

        Parameters
        ----------
        Y : sparse matrix of shape (n, c)
            ``+1`` for an observed positive, ``-1`` for an observed negative.
        missing_as : {None, "missing", "negative", "unlabelled"}, default=None
            Meaning of an entry that is not stored, if ``Y`` only stores positives.
        mask : array-like or sparse matrix of bool of shape (n, c), default=None
            True for entries that may be used.
        """
        if not sp.issparse(Y):
            raise TypeError(
                f"Y must be a sparse matrix, got {type(Y).__name__}. Use LabelMatrix.from_array."
            )
        return read_sparse(Y, mask, missing_as=missing_as)

    @classmethod
    def of_signs(cls, T: Signs) -> Self:
        """Convert a matrix of signs; if no label is missing, negatives are not stored."""
        complete = bool((T != 0).all())
        signed = sp.csr_array(np.where(T > 0, 1.0, 0.0) if complete else T.astype(np.float64))
        return cls(signed, "negative" if complete else "missing", dense=True)

    def __getitem__(self, rows: Any) -> Self:
        """Return the labels of some rows."""
        return replace(self, signed=self.signed[rows])

    def positives(self) -> NDArray[np.int64]:
        """Return the number of observed positives of each label."""
        stored = self.signed
        return np.bincount(stored.indices[stored.data > 0], minlength=stored.shape[1])

    def negatives(self) -> NDArray[np.int64]:
        """Return the number of negatives of each label, including negatives that are not stored."""
        n, c = self.signed.shape
        if self.missing_as == "missing":
            return np.bincount(self.signed.indices[self.signed.data < 0], minlength=c)
        return n - self.positives()

    def at(self, labels: NDArray[np.intp]) -> NDArray[np.int8]:
        """Return the signs of k labels per row; ``labels`` of shape (n, k) are column numbers."""
        rows = np.repeat(np.arange(len(labels)), labels.shape[1])
        found = _entries(self.signed, rows, labels.ravel())
        return self._with_negatives(found.reshape(labels.shape))

    def n_observed(self) -> NDArray[np.int64]:
        """Return the number of observed labels of each row."""
        n, c = self.signed.shape
        if self.missing_as != "missing":
            return np.full(n, c, dtype=np.int64)
        return np.diff(self.signed.indptr).astype(np.int64)

    def signs(self) -> Signs:
        """Return dense signs; entries that are not stored are negative or missing."""
        return self._with_negatives(self.signed.toarray())

    def _with_negatives(self, values: NDArray[Any]) -> Signs:
        signs = values.astype(np.int8)
        if self.missing_as != "missing":
            signs[signs == 0] = -1
        return signs


def _entries(matrix: Any, rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[Any]:
    """Return the entries of a sparse matrix at given pairs of rows and columns."""
    if not len(rows):  # for no pairs, scipy would return a sparse array
        return np.zeros(0, dtype=matrix.dtype)
    return np.asarray(matrix[rows, columns]).ravel()


def read_sparse(
    Y: Any, label_mask: Any = None, missing_label: Any = np.nan, missing_as: str | None = None
) -> SparseLabelMatrix:
    """Read the labels of a sparse ``Y`` without converting it or a sparse mask to dense."""
    check_choice("missing_as", missing_as, None, *MEANINGS)
    Y = sp.csr_array(Y, copy=True)
    Y.sum_duplicates()  # entries stored twice are then rejected in every format
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    columns, data, allowed = Y.indices, Y.data, Y.shape[0] * Y.shape[1]
    mask = None if label_mask is None else check_mask(label_mask, Y.shape, sparse=True)
    if mask is not None:
        if missing_as == "unlabelled":
            raise ValueError("Pass either label_mask or missing_as='unlabelled', not both.")
        mask = sp.csr_array(mask, copy=True)
        mask.sum_duplicates()
        mask.eliminate_zeros()
        use, allowed = _entries(mask, rows, columns), int(mask.sum())
        rows, columns, data = rows[use], columns[use], data[use]
    marked = np.asarray(not is_null(missing_label) and data == missing_label)
    refused = {
        "an explicit 0 in {place}. Sparse arithmetic drops such zeros, so they cannot mark "
        "negatives. Store -1 for an observed negative and nothing for a missing label; or call "
        "Y.eliminate_zeros() and pass missing_as='missing' or missing_as='negative'.": data == 0,
        "{value!r} in {place}. Values must be +1 (observed positive) or -1 (observed negative); "
        "duplicate entries are summed.": (data != 1) & (data != -1),
        "{value!r} in {place}, which is the value of missing_label. In a sparse Y, missing labels "
        "are not stored: remove these entries and do not pass missing_label.": marked,
        "{value:g} in {place}, so entries that are not stored are missing. Do not pass "
        "missing_as='negative'.": (data == -1) & (missing_as == "negative"),
    }
    for text, bad in refused.items():
        if bad.any():
            at = int(np.argmax(bad))
            place, value = f"row {rows[at]}, column {columns[at]}", data[at].item()
            raise ValueError("Sparse Y stores " + text.format(place=place, value=value))
    signed = bool((data == -1).any())
    if len(data) and not signed and missing_as is None and len(data) != allowed:
        raise ValueError(
            "Sparse Y stores positives only, so the meaning of other entries is unknown. Pass "
            "missing_as='missing' (unknown), 'negative' (an observed negative) or 'unlabelled' "
            "(negative, or a positive that was not marked)."
        )
    absent = cast("MissingAs", missing_as or "missing")
    stored = sp.csr_array((np.where(data == 1, 1.0, -1.0), (rows, columns)), shape=Y.shape)
    if mask is not None and absent == "negative":  # store negatives; other entries are missing
        stored, absent = sp.csr_array(2.0 * stored - sp.csr_array(mask, dtype=float)), "missing"
    return SparseLabelMatrix(stored, absent, negative=-1 if signed else 0)
