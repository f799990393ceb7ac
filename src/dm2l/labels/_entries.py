"""Targets and weights of entries, if they differ from signs and ones."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.arrays import to_numpy

Signs = NDArray[np.int8]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EntryWeights:
    """Target and weight of every entry; both zero where missing."""

    targets: Floats | None = None  # None: the signs
    weights: Floats | None = None  # None: one each

    @classmethod
    def of(cls, T: Signs, targets: Any = None, weights: Any = None) -> Self:
        """Targets and weights of these signs; values at missing entries are ignored."""
        seen = T != 0
        held = [
            None if part is None else np.where(seen, np.asarray(part, dtype=np.float64), 0.0)
            for part in (targets, weights)
        ]
        return cls(*held)

    def take(self, rows: Any = slice(None), labels: Any = slice(None)) -> Self:
        """Targets and weights of some rows and labels."""
        parts = (self.targets, self.weights)
        return type(self)(
            *(
                None if part is None else np.ascontiguousarray(part[:, labels][rows])
                for part in parts
            )
        )

    def rows_only(self, T: Signs, name: str) -> Floats | None:
        """Weights of rows, for methods without entry weights."""
        if self.weights is None or (rows := self.rows) is None:
            return None
        if (self.weights != np.where(T != 0, rows[:, None], 0.0)).any():
            raise ValueError(
                f"{name} weighs rows, not entries: label_weight must be the same for all observed "
                "entries of a row. Use sample_weight."
            )
        return rows

    @cached_property
    def rows(self) -> Floats | None:
        """Weight of each row, the largest of its entries; None: one."""
        return None if self.weights is None else self.weights.max(axis=1)


def checked_weights(
    name: str,
    given: Any,
    shape: tuple[int, ...],
    looked_at: NDArray[np.bool_] | None = None,
    *,
    allow_zero: bool = False,
) -> Floats:
    """Weights as float64, finite and not negative where ``looked_at``, 0 elsewhere."""
    given = given.toarray() if sp.issparse(given) else to_numpy(given)
    values = np.asarray(given, dtype=np.float64)
    if values.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {values.shape}.")
    if looked_at is not None:
        values = np.where(looked_at, values, 0.0)
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError(f"{name} must hold finite numbers >= 0.")
    if len(values) and not (allow_zero or values.any()):
        raise ValueError(f"{name} is zero everywhere: at least one weight must not be.")
    return values
