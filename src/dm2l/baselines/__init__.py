"""Methods that DM2L is compared with."""

from dm2l.baselines._masked_ridge import MaskedRidgeClassifier

__all__ = ["MaskedRidgeClassifier"]
