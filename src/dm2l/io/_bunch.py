"""What every reader returns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch


def make_bunch(data: Any, target: NDArray[Any] | None, **known: Any) -> Bunch:
    """The Bunch of every reader: what the file does not say is None, but labels have no columns."""
    target = np.empty((data.shape[0], 0), dtype=np.int8) if target is None else target
    silent = dict.fromkeys(("target_names", "feature_names", "train_index", "test_index", "source"))
    return Bunch(**{"data": data, "target": target, **silent, **known})
