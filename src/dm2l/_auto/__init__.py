"""Ensemble of the library's models: :class:`dm2l.AutoClassifier`."""

from dm2l._auto._classifier import AutoClassifier

__all__ = ["AutoClassifier"]
