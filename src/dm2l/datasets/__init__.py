"""Data sets: benchmarks in a local folder, generated data, and scikit-learn's digits."""

import json
import os
from collections import namedtuple
from collections.abc import Iterator
from functools import partial
from hashlib import blake2b, sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.utils import Bunch, check_array, check_random_state

from dm2l import simulate
from dm2l._utils.arrays import factorize
from dm2l._utils.inputs import check_choice, check_counts, check_numbers
from dm2l.io import read_arff, read_mat, read_npz
from dm2l.io._columns import label_targets

__all__ = [
    "catalogue",
    "content_hash",
    "count_shared",
    "duplicate_groups",
    "load_dataset",
    "load_digit_attributes",
    "make_missing_multilabel",
]


_BLOCK = 1024  # rows that are converted to CSR at a time, to avoid a copy of the whole X
_features = partial(check_array, accept_sparse="csr", ensure_all_finite=False, input_name="X")


def content_hash(X: Any, Y: Any) -> str:
    r"""Return a SHA-256 hash that ignores the file format, number types and coding of a data set.

    The hash covers, in little-endian order: the text ``dm2l-content-1\n``; n, d and c as int64; X
    in CSR format with sorted columns and without stored zeros, as ``indptr`` (int64), ``indices``
    (int64) and ``data`` (float64, NaN as 0x7ff8000000000000); and Y row by row as int8, where 1 is
    positive, 0 is negative and -1 is missing. In the argument ``Y``, missing labels are NaN.

    Examples
    --------
    >>> from dm2l.datasets import content_hash
    >>> content_hash([[0, 2.5], [1, 0]], [[1, 0], [0, 1]])[:16]
    '3a6f9f489de38725'
    """
    X = _features(X)
    Y = label_targets(Y.toarray() if sp.issparse(Y) else Y, None, "Y")
    if Y.ndim != 2 or len(Y) != X.shape[0]:
        what = "X and Y must be matrices with the same number of rows;"
        raise ValueError(f"{what} got the shapes {X.shape} and {Y.shape}.")
    digest = sha256(b"dm2l-content-1\n")
    digest.update(np.array([*X.shape, Y.shape[1]], dtype="<i8").tobytes())
    blocks = list(_canonical_blocks(X))
    lengths = np.concatenate([[0], *(np.diff(block.indptr) for block in blocks)])
    digest.update(np.cumsum(lengths).astype("<i8").tobytes())
    for block in blocks:
        digest.update(block.indices.astype("<i8").tobytes())
    for block in blocks:
        digest.update(block.data.astype("<f8").tobytes())
    digest.update(np.where(np.isnan(Y), -1, Y).astype("i1").tobytes())
    return digest.hexdigest()


def duplicate_groups(X: Any) -> NDArray[np.intp]:
    """Return a group number for each row of a dense or sparse X; equal rows have equal numbers.

    Rows are compared by a 128-bit hash of their nonzero entries as float64. NaN equals NaN, and 0.0
    equals -0.0. Groups are numbered from 0 in the order of their first rows.

    Examples
    --------
    >>> from dm2l.datasets import duplicate_groups
    >>> duplicate_groups([[1, 0], [0, 2], [1, 0], [0, 2.1]])
    array([0, 1, 0, 2])
    """
    return factorize(_row_keys(_features(X)))


def count_shared(X_train: Any, X_test: Any) -> int:
    """Count the test rows that have an exact copy among the training rows.

    Rows are compared as in :func:`duplicate_groups`. Equal test rows are counted separately.

    Examples
    --------
    >>> from dm2l.datasets import count_shared
    >>> count_shared([[1, 0], [0, 2]], [[0, 2], [3, 3], [0, 2]])
    2
    """
    X_train, X_test = _features(X_train), _features(X_test)
    if X_train.shape[1] != X_test.shape[1]:
        what = f"X_train has {X_train.shape[1]} columns, but X_test has {X_test.shape[1]}."
        raise ValueError(f"{what} Pass arrays with the same columns.")
    known = set(_row_keys(X_train))
    return sum(key in known for key in _row_keys(X_test))


def _canonical_blocks(X: Any) -> Iterator[sp.csr_array]:
    """Yield blocks of rows as float64 CSR arrays in canonical form."""
    for start in range(0, X.shape[0], _BLOCK):
        block = sp.csr_array(X[start : start + _BLOCK], dtype=np.float64, copy=True)
        block.sum_duplicates()  # this also sorts the columns
        block.eliminate_zeros()
        block.data[np.isnan(block.data)] = np.nan
        yield block


def _row_keys(X: Any) -> Iterator[bytes]:
    for block in _canonical_blocks(X):
        columns, values = block.indices.astype(np.int64), block.data
        for start, stop in zip(block.indptr[:-1], block.indptr[1:], strict=True):
            # Columns and values have equal numbers of bytes, so no separator is needed.
            both = columns[start:stop].tobytes() + values[start:stop].tobytes()
            yield blake2b(both, digest_size=16).digest()


DataSetCard = namedtuple("DataSetCard", "name n d c cardinality sha256 home note", defaults=[""])


def catalogue() -> dict[str, DataSetCard]:
    """Return metadata of the paper's data sets and of other common data sets, by name.

    Examples
    --------
    >>> from dm2l.datasets import catalogue
    >>> sorted(name for name, card in catalogue().items() if card.c > 150)[-3:]
    ['Corel16k009', 'bibtex', 'delicious']
    """
    text = files("dm2l.datasets").joinpath("catalogue.json").read_text(encoding="utf-8")
    return {entry["name"]: DataSetCard(**entry) for entry in json.loads(text)}


_VARIABLE = "DM2L_DATA"

# If a data set exists with several suffixes, the first one is used.
_READERS: dict[str, Any] = {".npz": read_npz, ".arff": read_arff, ".mat": read_mat}


def load_dataset(name: str, *, verify: bool = False) -> Bunch:
    """Load a benchmark data set from the folder in the environment variable ``DM2L_DATA``.

    The result has the same keys as the result of :func:`dm2l.io.read_npz`.

    Parameters
    ----------
    name : str
        The name of the file without its suffix, such as ``"Arts"``. The file is an ``.npz``
        archive, an ARFF file (with its ``.xml``) or a MATLAB file.
    verify : bool, default=False
        Whether to check that the content has the hash that the catalogue gives.

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> from unittest import mock
    >>> import numpy as np
    >>> from dm2l.datasets import load_dataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "tiny.npz"), X=np.eye(2), Y=np.array([[1, 0], [0, 1]]))
    ...     with mock.patch.dict(os.environ, DM2L_DATA=folder):
    ...         load_dataset("tiny").target.tolist()
    [[1, 0], [0, 1]]
    """
    if not name or any(part in name for part in ("/", "\\", "..", "\0")):
        raise ValueError(f"name must be a data set's name like 'Arts', not a path; got {name!r}.")
    card = catalogue().get(name)
    if verify and card is None:
        raise ValueError(
            f"{name!r} is not in the catalogue of data sets. Pass a name from "
            "dm2l.datasets.catalogue(), or verify=False to load a data set of your own."
        )
    folder = os.environ.get(_VARIABLE)
    if folder and not Path(folder).is_dir():
        what = f"{_VARIABLE}={folder} is not a folder."
        raise FileNotFoundError(f"{what} Set it to a folder of NAME.npz archives.")
    # Only files in the listing can be loaded, so a name cannot refer to a file in another folder.
    present: dict[str, Path] = {}
    paths = sorted(Path(folder).glob("[!.]*.*")) if folder else []
    for suffix in reversed(_READERS):
        present |= {path.stem: path for path in paths if path.suffix.lower() == suffix}
    if name not in present:
        listing = ", ".join(sorted(present)) or "none"
        text = f"{_VARIABLE}={folder} has no data set {name}. Its data sets are: {listing}."
        if not folder:
            text = f"The environment variable {_VARIABLE} is not set. Set it to a folder of "
            text += f"NAME.npz archives, for example: export {_VARIABLE}=/path/to/datasets"
        if card is not None:
            text += f" Get {name} from {card.home} and save it there as {name}.npz, "
            text += f"{name}.arff with {name}.xml, or {name}.mat."
        raise FileNotFoundError(text)
    path = present[name]
    bunch: Bunch = _READERS[path.suffix.lower()](path)
    if card is None or not verify:
        return bunch
    found = content_hash(bunch.data, bunch.target)
    if found != card.sha256:
        (n, d), c = bunch.data.shape, bunch.target.shape[1]
        raise ValueError(
            f"{path} has {n} rows, {d} features, {c} labels and the hash {found}. According to the "
            f"catalogue, {name} has {card.n} rows, {card.d} features, {card.c} labels and the hash "
            f"{card.sha256}. The file may be another version, or scaled or ordered differently. "
            f"Get {name} from {card.home}."
        )
    return bunch


# The digits that have each attribute. The digit 4 has no loop, because most writers leave it open.
_DIGITS_WITH = {
    "even": (0, 2, 4, 6, 8),
    "prime": (2, 3, 5, 7),
    "has a loop": (0, 6, 8, 9),
    "greater than 4": (5, 6, 7, 8, 9),
    "divisible by 3": (0, 3, 6, 9),
    "square number": (0, 1, 4, 9),
    "straight strokes only": (1, 4, 7),
}


def load_digit_attributes(*, return_X_y: bool = False) -> Any:
    """Load scikit-learn's digit images with labels such as "is 4", "even" and "prime".

    The 1797 images have 19 labels: the digit, attributes of the digit, and two labels that depend
    on the writer. "heavy ink" means a mean grey value above the median, and "leans right" means a
    positive mixed central moment of the ink. A digit implies its attributes, but no attribute
    implies the digit. DM2L represents such one-way co-occurrence by its local low-rank structure.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch
        ``data`` (1797 x 64, from 0 to 1), ``target`` (1797 x 19, 0/1), ``target_names``,
        ``feature_names``, ``images``, ``digit`` and ``DESCR``.

    Examples
    --------
    >>> from dm2l.datasets import load_digit_attributes
    >>> load_digit_attributes().target_names[9:12]
    ['is 9', 'even', 'prime']
    """
    raw = load_digits()
    digit = raw.target
    images = raw.images / 16.0
    labels = {f"is {d}": digit == d for d in range(10)}
    labels |= {name: np.isin(digit, digits) for name, digits in _DIGITS_WITH.items()}
    # The grey values are integers from 0 to 16, so both comparisons are exact.
    ink = raw.images.sum(axis=(1, 2))
    labels["heavy ink"] = ink > np.median(ink)
    # Mixed central moment of the ink, multiplied by the ink; rows are counted from the bottom.
    x, y = np.arange(raw.images.shape[2]), np.arange(raw.images.shape[1])[::-1]
    across, up = raw.images.sum(axis=1) @ x, raw.images.sum(axis=2) @ y
    labels["leans right"] = ink * (raw.images @ x @ y) - across * up > 0

    data: Any = images.reshape(len(images), -1)
    target: Any = np.column_stack(list(labels.values())).astype(np.int8)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        target_names=list(labels),
        feature_names=list(raw.feature_names),
        images=images,
        digit=digit,
        DESCR=load_digit_attributes.__doc__,
    )


_MASKS = {
    "uniform": simulate.simulate_uniform,
    "per_row": simulate.simulate_per_row,
    "per_label": simulate.simulate_per_label,
    "positives": simulate.simulate_missing_positives,
}


def make_missing_multilabel(
    n_samples: int = 200,
    n_features: int = 20,
    n_labels: int = 8,
    *,
    n_implications: int = 4,
    rho: float = 0.7,
    mask: Literal["uniform", "per_row", "per_label", "positives"] = "uniform",
    noise: float = 0.1,
    random_state: Any = None,
    return_truth: bool = False,
) -> tuple[NDArray[np.float64], ...]:
    r"""Make multi-label data with one-way implications and missing labels.

    Rows have :math:`r = \min(n\_features, n\_labels)` standard normal factors :math:`Z`, and
    features :math:`X = ZA + \sigma E` with Gaussian :math:`A, E`, where :math:`\sigma` is
    ``noise``. Label :math:`j` is positive for the rows with the largest :math:`(ZB)_j`, with
    Gaussian :math:`B`. Each label of the first half (specific labels) has 5 to 20 % positive rows,
    and each label of the second half (general labels) has 10 to 30 %. Specific labels imply general
    labels, for example ``0 => 4`` with 8 labels.

    Parameters
    ----------
    n_samples, n_features, n_labels, n_implications : int
        Numbers of rows, features, labels (at least 2) and implications.
    rho : float in [0, 1], default=0.7
        Share of label entries that stay observed.
    mask : {"uniform", "per_row", "per_label", "positives"}, default="uniform"
        Suffix of the :mod:`dm2l.simulate` function that hides entries, as in ``simulate_uniform``.
    noise : float, default=0.1
        Standard deviation of the noise in the features.
    random_state : int, RandomState instance or None, default=None
        Seed of the random numbers.
    return_truth : bool, default=False
        If True, also return the complete labels.

    Returns
    -------
    X, Y, truth : ndarray of float64
        The features, the labels with 1, 0 and NaN (missing), and, with ``return_truth``, the
        complete labels.

    Examples
    --------
    >>> from dm2l.datasets import make_missing_multilabel
    >>> X, Y, truth = make_missing_multilabel(random_state=0, return_truth=True)
    >>> bool((truth[:, 4] >= truth[:, 0]).all())  # label 0 implies label 4
    True
    """
    check_counts(n_samples=n_samples, n_features=n_features)
    check_counts(least=2, n_labels=n_labels)
    check_counts(least=0, n_implications=n_implications)
    most = (n_labels // 2) * (n_labels - n_labels // 2)
    if n_implications > most:
        what = f"n_implications must be at most {most} for {n_labels} labels,"
        raise ValueError(f"{what} got {n_implications}.")
    check_numbers(noise=noise)
    check_choice("mask", mask, *_MASKS)
    rng = check_random_state(random_state)
    rank = min(n_features, n_labels)
    Z = rng.standard_normal((n_samples, rank))
    X = Z @ rng.standard_normal((rank, n_features)) / np.sqrt(rank)
    X += noise * rng.standard_normal(X.shape)

    scores = Z @ rng.standard_normal((rank, n_labels))
    specific = n_labels // 2
    few = rng.uniform(0.05, 0.2, specific)
    share = np.concatenate([few, rng.uniform(0.1, 0.3, n_labels - specific)])
    # Even with few rows, each label has at least one positive.
    n_positive = np.maximum(1, np.round(share * n_samples)).astype(np.intp)
    place = np.argsort(np.argsort(-scores, axis=0), axis=0)
    truth = (place < n_positive).astype(np.float64)
    for source, target in implications(n_labels, n_implications):
        truth[:, target] = np.maximum(truth[:, target], truth[:, source])

    Y = _MASKS[mask](truth, rho, random_state=rng)
    return (X, Y, truth) if return_truth else (X, Y)


def implications(n_labels: int, n_implications: int) -> list[tuple[int, int]]:
    """Return the implications ``a => b`` of :func:`make_missing_multilabel` as pairs ``(a, b)``."""
    specific, general = n_labels // 2, n_labels - n_labels // 2
    pairs = (divmod(e, specific) for e in range(n_implications))
    return [(label, specific + (label + turn) % general) for turn, label in pairs]
