"""Targets and weights of the entries of a label matrix."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils.arrays import to_numpy

Signs = NDArray[np.int8]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class EntryWeights:
    """Target and weight of every entry of a label matrix; both are zero for missing labels."""

    targets: Floats | None = None  # None if the signs are the targets
    weights: Floats | None = None  # None if all weights are one

    @classmethod
    def of(cls, T: Signs, targets: Any = None, weights: Any = None) -> Self:
        """Make targets and weights for the signs ``T``; values at missing entries are ignored."""

        def held(part: Any) -> Floats | None:
            return None if part is None else np.where(T != 0, np.asarray(part, np.float64), 0.0)

        return cls(held(targets), held(weights))

    def take(self, rows: Any = slice(None), labels: Any = slice(None)) -> Self:
        """Return the targets and weights of some rows and labels."""

        def taken(part: Floats | None) -> Floats | None:
            return None if part is None else np.ascontiguousarray(part[:, labels][rows])

        return type(self)(taken(self.targets), taken(self.weights))

    def rows_only(self, T: Signs, name: str) -> Floats | None:
        """Return one weight per row; raise an error if the weights of a row's entries differ."""
        rows = self.rows
        if rows is None or self.weights is None:
            return None
        if (self.weights != np.where(T != 0, rows[:, None], 0.0)).any():
            raise ValueError(
                f"{name} cannot weight single entries: label_weight must be the same for all "
                "observed entries of a row. Use sample_weight."
            )
        return rows

    @cached_property
    def rows(self) -> Floats | None:
        """Return the largest weight in each row; None if all weights are one."""
        return None if self.weights is None else self.weights.max(axis=1)


def checked_weights(
    name: str, given: Any, shape: tuple[int, ...], use: Mask | None = None, allow_zero: bool = False
) -> Floats:
    """Check that weights are valid; return them as float64, with 0 where ``use`` is false."""
    given = given.toarray() if sp.issparse(given) else to_numpy(given)
    values = np.asarray(given, dtype=np.float64)
    if values.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {values.shape}.")
    if use is not None:
        values = np.where(use, values, 0.0)
    if (bad := ~(np.isfinite(values) & (values >= 0))).any():
        at = tuple(np.argwhere(bad)[0].tolist())
        place = f"row {at[0]}" + (f", column {at[1]}" if len(at) > 1 else "")
        raise ValueError(f"{name} has {values[at]} in {place}. Weights must be finite and >= 0.")
    if len(values) and not (allow_zero or values.any()):
        raise ValueError(f"{name} is zero everywhere. At least one weight must be positive.")
    return values
