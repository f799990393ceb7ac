"""One estimator that chooses, :class:`dm2l.AutoClassifier`, and what it is made of."""

from dm2l._auto._classifier import AutoClassifier

__all__ = ["AutoClassifier"]
