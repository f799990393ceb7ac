"""DM2L for thousands of sparse labels, with a low-rank head."""

from dm2l.extreme._classifier import ExtremeDM2LClassifier

__all__ = ["ExtremeDM2LClassifier"]
