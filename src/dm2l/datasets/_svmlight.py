"""Multi-label files in the svmlight (LIBSVM) format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.utils import Bunch

from dm2l.datasets._columns import make_bunch


def read_svmlight(
    path: str | Path,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    *,
    labels: Sequence[float] | None = None,
    absent_label: Literal["negative", "missing"] = "negative",
) -> Bunch:
    r"""Read a multi-label svmlight file: lines such as ``2,5 1:0.3 7:1``.

    Parameters
    ----------
    path : str or Path
        The file; one ending in ``.gz`` or ``.bz2`` is unpacked on the way.
    n_features : int, default=None
        Number of features; None takes the greatest index that occurs. Give it when a training
        and a test file have to agree.
    zero_based : bool or "auto", default="auto"
        Whether the first feature has index 0; "auto" says yes if index 0 occurs.
    labels : sequence of float, default=None
        Numbers of the labels, in the order of the columns; None takes those that occur, in
        ascending order.
    absent_label : {"negative", "missing"}, default="negative"
        The format lists positives only. What it means that a label is not listed.

    Returns
    -------
    Bunch
        ``data`` (float64, CSR), ``target`` (int8 0/1, or float64 with NaN under
        ``absent_label="missing"``), ``target_names`` (the numbers of the labels as text); the
        other keys of :func:`load_dataset` are None.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l.datasets import read_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "tiny.svm")
    ...     _ = path.write_text("2,5 1:0.5 3:1\n5 2:2\n")
    ...     tiny = read_svmlight(path)
    >>> tiny.target_names, tiny.target.tolist()
    (['2', '5'], [[1, 1], [0, 1]])
    >>> tiny.data.toarray()
    array([[0.5, 0. , 1. ],
           [0. , 2. , 0. ]])
    """
    if absent_label not in ("negative", "missing"):
        raise ValueError(f"absent_label must be 'negative' or 'missing', got {absent_label!r}.")
    data, listed = load_svmlight_file(
        str(path), n_features=n_features, multilabel=True, zero_based=zero_based
    )
    numbers = sorted({number for row in listed for number in row})
    if labels is None:
        columns = numbers
    else:
        columns = [float(label) for label in labels]
        unknown = sorted(set(numbers) - set(columns))
        if unknown or len(set(columns)) < len(columns):
            what = f"misses {unknown[:5]} of the file" if unknown else "names a label twice"
            raise ValueError(f"{path}: labels= {what}.")
    if not columns:
        raise ValueError(f"{path} lists no label at all; is it a multi-label svmlight file?")
    place = {number: j for j, number in enumerate(columns)}
    positive = np.zeros((len(listed), len(columns)), dtype=np.int8)
    for i, row in enumerate(listed):
        positive[i, [place[number] for number in row]] = 1
    target = positive if absent_label == "negative" else np.where(positive == 1, 1.0, np.nan)
    return make_bunch(
        sp.csr_array(data), target, target_names=[f"{number:.15g}" for number in columns]
    )
