"""What a feature map is: all that a fit, a search and a fit by blocks ask of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from dm2l._utils.arrays import asarray_like


class FeatureMap(ABC):
    """From inputs to features, and from weights on features to what a fitted model keeps.

    Scores are ``basis(x) A`` with ``A = coefficients(W)``: on the inputs themselves, on kernels
    with rows of the training set, or on waves.

    Attributes
    ----------
    error : float
        What an approximation leaves out of the kernel; 0 where the map is exact.
    offset : array of shape (d,) or None
        What the inputs were centred by; their coefficients then move the intercept.
    """

    # No default: model files store what an instance has, not what its class provides.
    error: float
    offset: Any = None

    @abstractmethod
    def fit(self, X: Any) -> Any:
        """Features of the training rows."""

    @abstractmethod
    def transform(self, X: Any) -> Any:
        """Features of any rows. Some maps need :meth:`fixed` first."""

    def coefficients(self, W: Any) -> Any:
        """``A`` of given feature weights: these, unless a map says otherwise."""
        return W

    def weights(self, coefficients: Any) -> Any:
        """Feature weights whose ``coefficients`` these are, for warm starts."""
        return coefficients

    @property
    @abstractmethod
    def n_coefficients(self) -> int:
        """Number of rows of ``A``."""

    @property
    @abstractmethod
    def example(self) -> Any:
        """An array that stands for the library and device of the features."""

    def identity(self, n_labels: int) -> Any:
        """The paper's start: feature weights of ``A = I``."""
        return self.weights(asarray_like(np.eye(self.n_coefficients, n_labels), self.example))

    @property
    def plain(self) -> bool:
        """Whether rows are their own features."""
        return False

    @property
    def square(self) -> Callable[[], Any] | None:
        """How to get ``Phi'Phi``, if there is a cheaper way than the product."""
        return None

    def fixed(self, X: Any) -> FeatureMap:
        """The map that takes any rows to these features; ``X`` is what was fitted."""
        return self

    def inputs(self, X: Any) -> Any:
        """Inputs that a fitted model follows in library and dtype."""
        return X

    def stored(self, X: Any) -> dict[str, Any]:
        """What a fitted model keeps beside the coefficients, by the names of its attributes."""
        return {}
