"""What every reader returns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch


def no_labels(data: Any) -> NDArray[np.int8]:
    """The labels of rows that come without."""
    return np.empty((data.shape[0], 0), dtype=np.int8)


def make_bunch(data: Any, target: NDArray[Any], **known: Any) -> Bunch:
    """The Bunch of every reader: what the file does not say is None."""
    silent = dict.fromkeys(("target_names", "feature_names", "train_index", "test_index", "source"))
    return Bunch(**{"data": data, "target": target, **silent, **known})
