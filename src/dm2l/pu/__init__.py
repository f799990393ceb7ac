"""Positive-unlabelled learning: some positives are labelled, everything else is unlabelled.

A positive row is labelled with rate ``c`` and a negative one never. For the squared loss the
unbiased risk is that of the targets ``2 s / c - 1``, by completing the square. They are very noisy,
so labelled positives are smoothed over features first (docs/research/positive-unlabelled.md).
"""

from dm2l.pu._targets import ClassPrior, estimate_class_prior

__all__ = ["ClassPrior", "estimate_class_prior"]
