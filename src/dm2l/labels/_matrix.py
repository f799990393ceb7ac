"""Validated label matrices, in the representation that the whole library uses.

Labels are stored as *signs*: an ``int8`` matrix ``T`` with ``+1`` for an observed positive, ``-1``
for an observed negative and ``0`` for a missing entry. In the paper this is ``R_Omega(Y)``, which
equals ``Y`` on the observed entries ``Omega`` and zero elsewhere.
"""

import warnings
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import _num_samples, check_consistent_length

from dm2l._utils.arrays import take_block, take_rows
from dm2l._utils.inputs import check_choice
from dm2l.labels import _parsing
from dm2l.labels._entries import EntryWeights, Mask, Signs, checked_weights
from dm2l.labels._parsing import SparseLabelMatrix, column_text

Kind = Literal["multilabel", "binary", "multiclass"]

_NOTHING = (
    "All labels in Y are missing, but at least one must be observed. Check missing_label and "
    "label_mask."
)
_ZERO_WEIGHTS = "All observed labels have weight zero. At least one weight must be positive."


class ConstantLabelWarning(UserWarning):
    """Warning about a label that cannot be learned because at most one class was observed."""


@dataclass(frozen=True, eq=False)
class LabelMatrix:
    """Labels with missing entries: signs, entry weights, names and coding.

    Estimators and metrics convert labels to a LabelMatrix. If a value other than NaN marks missing
    labels, create the LabelMatrix with :meth:`from_array`. Functions that accept labels also accept
    a LabelMatrix, without further arguments.

    Attributes
    ----------
    signs : ndarray of shape (n, c), int8
        ``+1`` for an observed positive, ``-1`` for an observed negative, ``0`` if missing.
    kind : {"multilabel", "binary", "multiclass"}
        Whether labels are a matrix, a 1-D ``y`` with two classes, or a 1-D ``y`` with more classes.
    classes : ndarray or None
        Classes of a 1-D ``y``.
    names : ndarray or None
        Column names of a data frame.
    negative : int
        Code of an observed negative, 0 or -1.
    dtype : dtype
        Data type of predictions.
    entries : EntryWeights or None
        Targets and weights of the entries. If None, the signs are the targets, and all weights are
        one.
    missing_as : {"missing", "unlabelled"}
        Meaning of a zero sign: unknown, or unlabelled in positive-unlabelled data.

    Examples
    --------
    >>> from dm2l.labels import LabelMatrix
    >>> labels = LabelMatrix.from_array([[1, 0], [-9, 1]], missing_label=-9)
    >>> labels.signs
    array([[ 1, -1],
           [ 0,  1]], dtype=int8)
    """

    signs: Signs
    kind: Kind
    classes: NDArray[Any] | None
    names: NDArray[np.object_] | None
    negative: int
    dtype: np.dtype[Any]
    entries: EntryWeights | None = None
    missing_as: Literal["missing", "unlabelled"] = "missing"

    @classmethod
    def from_array(
        cls,
        Y: Any,
        *,
        missing_label: Any = np.nan,
        missing_as: Any = None,
        mask: Any = None,
        weights: Any = None,
    ) -> "LabelMatrix":
        """Read labels, which may all be missing, from an array, data frame, list or sparse matrix.

        Parameters
        ----------
        Y : array-like, data frame or sparse matrix of shape (n, c) or (n,)
            Labels 0/1, True/False or -1/+1; a sparse matrix of -1/+1; or a 1-D ``y`` of classes.
        missing_label : scalar, default=nan
            Value that marks a missing label.
        missing_as : {None, "missing", "negative", "unlabelled"}, default=None
            Meaning of an entry that is not stored, in a sparse ``Y`` that only stores positives.
            "unlabelled" can also be used for a dense ``Y`` of positive-unlabelled data.
        mask : array-like of bool of the shape of Y, default=None
            True for entries that may be used. The other entries count as missing.
        weights : array-like of the shape of Y, or of shape (n,), default=None
            Weights >= 0 of the entries, or of the rows. An entry of weight zero counts as missing.
        """
        labels = parse_labels(
            Y, label_mask=mask, missing_label=missing_label, missing_as=missing_as, allow_empty=True
        )
        if weights is None:
            return labels
        by_row = np.ndim(weights) == 1 and labels.kind == "multilabel"
        return labels.apply_weights(*((weights, None) if by_row else (None, weights)))

    @classmethod
    def of_signs(cls, signs: Signs, *, negative: int = 0) -> Self:
        """Make a label matrix without names from signs; :meth:`decode` then returns integers."""
        return cls(signs, "multilabel", None, None, negative, np.dtype(np.int64))

    @classmethod
    def of_classes(cls, classes: NDArray[Any], codes: NDArray[np.intp], observed: Mask) -> Self:
        """Make the labels of a 1-D ``y``; ``codes`` are the class indices of observed entries."""
        binary = len(classes) <= 2
        matrix = np.zeros((len(observed), 1 if binary else len(classes)), dtype=np.int8)
        if binary:
            matrix[observed, 0] = np.where(codes == len(classes) - 1, 1, -1)
        else:
            matrix[observed] = -1
            matrix[np.flatnonzero(observed), codes] = 1
        kind: Kind = "binary" if binary else "multiclass"
        return cls(matrix, kind, classes, names=None, negative=0, dtype=classes.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the input: ``(n, c)``, or ``(n,)`` for a 1-D ``y``."""
        return self.signs.shape if self.kind == "multilabel" else self.signs.shape[:1]

    @property
    def ndim(self) -> int:
        """Number of dimensions of the input."""
        return 2 if self.kind == "multilabel" else 1

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.signs.shape[0])

    def __getitem__(self, rows: Any) -> Self:
        """Return the labels of some rows; scikit-learn's cross-validation requires this."""
        rows = rows[0] if isinstance(rows, tuple) else rows  # scikit-learn passes (rows, ...)
        entries = self.entries and self.entries.take(rows)
        return replace(self, signs=np.ascontiguousarray(self.signs[rows]), entries=entries)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        """Return labels in the coding of the input; missing labels are NaN, or None in 1-D."""
        seen = self.signs != 0
        if self.classes is None:
            values = np.where(self.signs > 0, 1.0, float(self.negative))
            values[~seen] = np.nan
        else:
            binary = self.kind == "binary"
            last = len(self.classes) - 1
            codes = last * (self.signs[:, 0] > 0) if binary else self.signs.argmax(axis=1)
            values = self.classes[codes]
            if not seen.all():
                values = values.astype(object)
                values[~seen.any(axis=1)] = None
        return values if dtype is None else values.astype(dtype)

    @property
    def n_labels(self) -> int:
        """Number of label columns."""
        return int(self.signs.shape[1])

    def masked(self, mask: Any) -> Self:
        """Return a copy in which all entries are missing where ``mask`` is False."""
        signs = np.where(mask, self.signs, 0).astype(np.int8)
        held = self.entries
        entries = held and EntryWeights.of(signs, held.targets, held.weights)
        return replace(self, signs=signs, entries=entries)

    def apply_weights(self, sample_weight: Any, label_weight: Any) -> Self:
        """Multiply the weights of entries by given weights; weight zero makes an entry missing."""
        T = self.signs
        weights: Any = np.ones((1, 1))
        if sample_weight is not None:
            weights = checked_weights("sample_weight", sample_weight, T.shape[:1])[:, None]
        if label_weight is not None:
            seen = T != 0 if self.kind == "multilabel" else (T != 0).any(axis=1)
            cells = checked_weights("label_weight", label_weight, self.shape, seen)
            weights = weights * cells.reshape(len(T), -1)
        weights = np.broadcast_to(weights, T.shape)
        lost = (T != 0) & (weights == 0)
        if lost.any():
            T = np.where(lost, 0, T).astype(np.int8)
            if not T.any():
                raise ValueError(_ZERO_WEIGHTS)
        held = self.entries or EntryWeights()
        if held.weights is not None:
            weights = held.weights * weights
        elif (weights[T != 0] == 1).all():
            weights = None
        plain = weights is None and held.targets is None
        entries = None if plain else EntryWeights.of(T, held.targets, weights)
        return replace(self, signs=T, entries=entries)

    def decode(self, positive: Mask) -> NDArray[Any]:
        """Convert decisions to the coding of the input."""
        dtype = np.dtype(self.dtype)  # a model file may contain a numpy scalar type
        dtype = np.dtype(np.int64) if dtype.kind == "u" and self.negative < 0 else dtype
        return np.where(positive, 1, self.negative).astype(dtype)

    def warn_constant(self, stacklevel: int = 3) -> None:
        """Warn about labels with at most one observed class."""
        positive, negative = (self.signs > 0).any(axis=0), (self.signs < 0).any(axis=0)
        empty, single = ~(positive | negative), positive ^ negative
        for which, what in ((empty, "no observed entry"), (single, "only one observed class")):
            if which.any() and self.kind == "multilabel":
                shown = [column_text(int(j), self.names) for j in np.flatnonzero(which)[:5]]
                more = "" if which.sum() <= 5 else f" and {which.sum() - 5} more"
                warnings.warn(
                    f"{which.sum()} label(s) have {what} and get a constant score: "
                    f"{', '.join(shown)}{more}.",
                    ConstantLabelWarning,
                    stacklevel=stacklevel,
                )


def parse_labels(
    Y: Any,
    *,
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: Any = None,
    allow_empty: bool = False,
) -> LabelMatrix:
    """Read labels; raise an error if all are missing, unless ``allow_empty`` is true."""
    if Y is None:
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None. Expected array-like "
            "of labels."
        )
    check_choice("missing_as", missing_as, None, *_parsing.MEANINGS)
    unlabelled = missing_as == "unlabelled"
    if isinstance(Y, LabelMatrix):
        labels = Y
        if label_mask is not None:
            mask = _parsing.check_mask(label_mask, labels.shape, labels.names)
            labels = labels.masked(mask.reshape(len(labels), -1))
    elif unlabelled and label_mask is not None:
        raise ValueError(
            "label_mask cannot be combined with missing_as='unlabelled': every entry that is not "
            "an observed positive is unlabelled."
        )
    elif sp.issparse(Y):
        meaning = "missing" if unlabelled else missing_as
        stored = _parsing.read_sparse(Y, label_mask, missing_label, meaning)
        labels = LabelMatrix.of_signs(stored.signs(), negative=stored.negative)
    else:
        values, observed, names = _parsing.read_values(Y, label_mask, missing_label)
        seen = values[observed] if values.shape[1:] == (1,) else values[:0]
        if seen.dtype.kind in "iuUS" and not set(np.unique(seen).tolist()) <= {-1, 0, 1}:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected. It holds classes, not "
                "0/1 or -1/+1 labels, and is read as y.ravel().",
                DataConversionWarning,
                stacklevel=3,
            )
            values, observed = values[:, 0], observed[:, 0]
        if values.ndim == 1:
            labels = LabelMatrix.of_classes(*_parsing.parse_classes(values, observed), observed)
        else:
            signs, negative = _parsing.parse_matrix(values, observed, names)
            dtype = values.dtype if values.dtype.kind in "iub" else np.dtype(np.int64)
            labels = LabelMatrix(signs, "multilabel", None, names, negative, dtype)
    if not (allow_empty or labels.signs.any()):
        raise ValueError(_NOTHING)
    return replace(labels, missing_as="unlabelled") if unlabelled else labels


def parse_sparse_labels(Y: Any, *, allow_empty: bool = False, **marks: Any) -> SparseLabelMatrix:
    """Read labels as :func:`parse_labels` does, without converting a sparse ``Y`` to dense."""
    if isinstance(Y, SparseLabelMatrix):
        return Y
    if sp.issparse(Y):
        stored = _parsing.read_sparse(Y, **marks)
    else:
        labels = parse_labels(Y, allow_empty=True, **marks)
        if labels.kind != "multilabel":
            raise ValueError(
                "Y must be a label matrix of shape (n, c) with one column per label, got a 1-D y. "
                "Convert it with sklearn.preprocessing.LabelBinarizer(sparse_output=True)."
            )
        stored = SparseLabelMatrix.of_signs(labels.signs)
    if not (allow_empty or stored.n_observed().any()):
        raise ValueError(_NOTHING)
    return stored


def parse_like(Y: Any, coding: int | None, *, missing_as: Any = None, **marks: Any) -> LabelMatrix:
    """Read labels of a later block; ``coding`` is the code of negatives in earlier blocks."""
    # A sparse block of positives is not ambiguous if earlier labels stored negatives as -1.
    if sp.issparse(Y) and coding == -1 and not (Y.tocsr().data < 0).any():
        missing_as = "missing"
    return parse_labels(Y, missing_as=missing_as, allow_empty=True, **marks)


def parse_new_rows(
    X: Any, y: Any, known: LabelMatrix, n_features: int | None, **marks: Any
) -> LabelMatrix:
    """Read labels of new rows, which must have the columns of the ``known`` labels."""
    shape = y.shape if hasattr(y, "shape") else np.shape(y)
    n_labels = known.n_labels
    if len(shape) != 2 or shape[1] != n_labels:
        swapped = np.shape(X)[1:] == (n_labels,) and tuple(shape[1:]) == (n_features,)
        raise ValueError(
            f"Y has shape {tuple(shape)}, but this model has {n_labels} labels: expected "
            f"(n_samples, {n_labels})."
            + (" X and Y seem to be swapped: pass the features first." if swapped else "")
        )
    check_consistent_length(np.empty(_num_samples(X)), np.empty(shape))
    labels = parse_like(y, known.negative, **marks)
    names = known.names
    if labels.names is not None and names is not None and list(labels.names) != list(names):
        off = next(j for j in range(len(names)) if labels.names[j] != names[j])
        same = sorted(map(str, labels.names)) == sorted(map(str, names))
        fix = "Reorder" if same else "Rename or choose"
        raise ValueError(
            f"Column {off} of Y is {labels.names[off]!r}, but the model was fitted with "
            f"{names[off]!r} in this place. {fix} the columns to match model.label_names_."
        )
    return labels


def fill_with_labels(
    given: LabelMatrix, positive: Any, left: Mask, missing_label: Any
) -> NDArray[Any]:
    """Return labels in which decisions fill the missing entries that are not in ``left``."""
    filled = given.decode(np.where(given.signs == 0, positive, given.signs > 0))
    if left.any():
        if not isinstance(missing_label, Real):  # numpy would convert numbers to text
            filled = filled.astype(object)
        filled = np.where(left, missing_label, filled)
    return filled


def frame_like(filled: NDArray[Any], y: Any) -> Any:
    """Return the array, or a data frame with the columns of ``y`` if ``y`` is a data frame."""
    if hasattr(y, "iloc") and hasattr(y, "columns"):
        return type(y)(filled, index=y.index, columns=y.columns)
    if hasattr(y, "columns"):  # polars
        return type(y)(filled, schema=list(y.columns))
    return filled


def observed_rates(positives: Any, negatives: Any) -> NDArray[np.float64]:
    """Return rates of positives ``(positives + 1/2) / (observed + 1)``, which are never 0 or 1."""
    return np.asarray((positives + 0.5) / (positives + negatives + 1.0))


def constant_scores(positives: Any, negatives: Any) -> NDArray[np.float64]:
    """Return scores s whose probability ``(1 + tanh(s)) / 2`` is the observed rate."""
    return np.asarray(0.5 * np.log((positives + 0.5) / (negatives + 0.5)))


class LearnableMask(NamedTuple):
    """Learnable labels, constant scores of the other labels, and rows that affect a fit."""

    learnable: Mask  # labels with an observed entry of each class
    constant: NDArray[np.float64]  # computed from observed rates by constant_scores
    keep: Mask  # rows with an observed entry in a learnable label

    @classmethod
    def of(cls, T: Signs, entries: EntryWeights | None = None) -> Self:
        """Find the learnable labels of a matrix of signs, which may have entry weights."""
        parts: Any = T > 0, T < 0
        if entries is not None and entries.weights is not None:
            parts = parts[0] * entries.weights, parts[1] * entries.weights
        positives, negatives = parts[0].sum(axis=0), parts[1].sum(axis=0)
        learnable = np.asarray((positives > 0) & (negatives > 0))
        constant = constant_scores(positives, negatives)
        return cls(learnable, constant, (T[:, learnable] != 0).any(axis=1))

    def apply(
        self, X: Any, labels: LabelMatrix, *, pairwise: bool = False
    ) -> tuple[Any, LabelMatrix]:
        """Return the kept rows of ``X``, and the learnable labels of these rows."""
        # If ``pairwise``, ``X`` is a kernel matrix, and its columns are also selected.
        if pairwise and X.shape[0] != X.shape[1]:
            raise ValueError(f"A precomputed kernel matrix must be square, got shape {X.shape}.")
        signs = np.ascontiguousarray(labels.signs[:, self.learnable][self.keep])
        entries = labels.entries and labels.entries.take(self.keep, self.learnable)
        if not self.keep.all():
            kept = np.flatnonzero(self.keep)
            X = take_block(X, kept, kept) if pairwise else take_rows(X, kept)
        return X, replace(labels, signs=signs, entries=entries)

    def spread(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return an array of all rows and labels, with NaN for omitted rows and labels."""
        everything = np.full((len(self.keep), len(self.learnable)), np.nan)
        everything[np.ix_(self.keep, self.learnable)] = values
        return everything


class LabelForm:
    """Reads labels in blocks of rows, and checks that all blocks have the same format."""

    # A block may have no observed entry or no negative. For a 1-D y, all classes must be given.
    def __init__(
        self, missing_label: Any = np.nan, missing_as: Any = None, classes: Any = None
    ) -> None:
        self.missing_label = missing_label
        self.missing_as = missing_as
        self._classes = None if classes is None else np.unique(np.asarray(classes))
        self.labels: Any = None  # an empty label matrix with the names and coding of all blocks
        self._coding: int | None = None  # code of a negative, None before the first negative

    @classmethod
    def resumed(cls, labels: LabelMatrix, negatives: int, marks: tuple[Any, Any]) -> Self:
        """Return a reader for blocks that follow ``labels`` with ``negatives`` negatives."""
        form = cls(*marks, labels.classes)
        form.labels = labels
        if labels.kind == "multilabel" and (labels.negative or negatives):
            form._coding = labels.negative
        return form

    def read(self, Y: Any, label_mask: Any = None) -> Signs:
        """Return the signs of a block as int8 of shape (n, n_labels)."""
        found = None
        if Y is None or np.ndim(Y) != 1:
            marks = {"missing_label": self.missing_label, "missing_as": self.missing_as}
            found = parse_like(Y, self._coding, label_mask=label_mask, **marks)
        if found is None or found.classes is not None:
            found = self._by_classes(Y, label_mask)
        elif self._classes is not None and len(self._classes) != found.n_labels:
            raise ValueError(
                f"classes has {len(self._classes)} classes, but Y has {found.n_labels} labels. "
                "Pass one class per label, or omit classes."
            )
        self._take(found, found.negative if (found.signs < 0).any() else None)
        return found.signs

    def join(self, other: Self) -> None:
        """Check that blocks read by ``other``, a copy of this reader, have the same format."""
        self._take(other.labels, other._coding)

    def _by_classes(self, Y: Any, label_mask: Any) -> LabelMatrix:
        if self._classes is None:
            raise ValueError(
                "A 1-D y needs classes=, an array of all classes, because a single block may lack "
                "some of them."
            )
        classes = self._classes
        if label_mask is not None:
            label_mask = np.ravel(label_mask)
        values, observed, _ = _parsing.read_values(np.ravel(Y), label_mask, self.missing_label)
        seen = np.array(values[observed].tolist()) if values.dtype == object else values[observed]
        unknown = np.setdiff1d(seen, classes)
        if len(unknown):
            raise ValueError(
                f"y contains {unknown.tolist()[0]!r}, which is not among "
                f"classes={classes.tolist()}. Pass all classes."
            )
        return LabelMatrix.of_classes(classes, np.searchsorted(classes, seen), observed)

    def _take(self, found: LabelMatrix, coding: int | None) -> None:
        """Check a block whose negatives are coded as ``coding``, and update names and coding."""
        known = found if self.labels is None else self.labels
        if known.kind != found.kind or known.n_labels != found.n_labels:
            raise ValueError(
                f"This block has {found.n_labels} labels ({found.kind}), but earlier blocks had "
                f"{known.n_labels} ({known.kind}). All blocks must have the same labels."
            )
        names = [None if part.names is None else list(part.names) for part in (known, found)]
        if None not in names and names[0] != names[1]:
            here, before = (", ".join(map(repr, some[:5])) for some in (names[1], names[0]) if some)
            raise ValueError(
                f"The labels of this block are {here}, but the labels of earlier blocks are "
                f"{before}. All blocks must have the same columns in the same order."
            )
        dtype = known.dtype
        if known.kind == "multilabel":
            if coding is not None and self._coding not in (None, coding):
                raise ValueError(
                    f"This block codes negatives as {coding}, but earlier blocks as {self._coding}."
                    " Use one coding, or pass missing_label if 0 or -1 marks missing labels."
                )
            self._coding = self._coding if coding is None else coding
            dtype = known.dtype if known.dtype == found.dtype else np.dtype(np.int64)
        kept = found.names if known.names is None else known.names
        known = replace(known, signs=known.signs[:0].copy(), entries=None, names=kept)
        self.labels = replace(known, negative=self._coding or 0, dtype=dtype)
