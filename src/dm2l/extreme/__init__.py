"""Thousands of labels: sparse ``Y`` from end to end, a low-rank head, lists instead of matrices."""

from dm2l.extreme._classifier import ExtremeDM2LClassifier

__all__ = ["ExtremeDM2LClassifier"]
